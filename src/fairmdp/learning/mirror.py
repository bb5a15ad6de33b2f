"""Algorithm 1 as a learner: mirror descent on a simulator, and what its samples say of the policy found."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from fairmdp.errors import SimulatorError
from fairmdp.learning.counts import (
    CHUNK,
    Counts,
    Seed,
    Tally,
    counts_from_arrays,
    counts_to_arrays,
    root_seed,
)
from fairmdp.learning.estimate import Estimate, Progress, Round
from fairmdp.learning.evaluation import estimated, evaluate, unknown
from fairmdp.learning.plugin import check_delta
from fairmdp.mirror.polytope import QuotaPolytope
from fairmdp.mirror.runs import Arrays, BatchRun
from fairmdp.mirror.solve import Learned, Options, drive, split_seed
from fairmdp.mirror.steps import Steps, pilot_steps
from fairmdp.model.checks import Floats, Ints, check_count
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.model.simulator import CheckedSimulator, Simulator, shell_model

_MOST_KEPT = 10**7  # distinct transitions after which no more are counted, about 320 MB
_ROUNDS = (8, 16, 32)  # pieces of 64 after which an estimate is kept; the last one is the result
_COUNTS = "counts_"  # what the names of counts begin with in a checkpoint
_NO_CLAIM = "no claim: mirror descent makes none; certify its policy with fresh samples"


def learn_mirror(
    simulator: Simulator,
    quotas: Iterable[Quota],
    *,
    samples: int = 200_000,
    batch: int = 16,
    delta: float = 0.05,
    seed: Seed = 0,
    progress: Progress | None = None,
    settings: Steps | None = None,
    options: Options | None = None,
) -> Estimate:
    """Learn a fair policy by mirror descent from any simulator.

    Parameters are those of `learn`, and

    Parameters
    ----------
    samples
        Budget, including the samples of the pilot that finds the step sizes.
    batch
        Pairs asked for at once, for each of the two estimators; 16 cost nothing, 128 up to five times
        the samples.
    settings
        Step sizes and radius, in rewards rescaled to [0, 1]; found by a pilot of up to 100 samples per
        pair if not given. With settings, rewards must lie in [0, 1].
    options
        See `Options`; its ``progress`` is called with steps.

    Returns
    -------
    Estimate
        Gain and shares are those of the policy on the model of the samples, of the first ten million
        distinct transitions among them; no claim is made. ``details`` has the averaged iterates.

    Examples
    --------
    >>> from fairmdp import Quota, scenarios
    >>> simulator = scenarios.three_state().mdp.simulator()
    >>> learned = learn_mirror(simulator, [Quota("s2", states=[2], at_least=0.25)], samples=20_000)
    >>> learned.policy.shape, learned.samples <= 20_000, learned.details.occupancy.shape
    ((6,), True, (6,))
    """
    started = time.perf_counter()
    check_count("samples", samples)
    check_count("batch", batch)
    check_delta(delta)
    options = options or Options()
    checked = CheckedSimulator(simulator)
    shell = shell_model(checked)
    owed = Problem(shell, quotas)
    polytope = QuotaPolytope.of(owed)
    seen = Tally(shell.n_pairs, shell.n_states, calls=CHUNK // (2 * batch), most=_MOST_KEPT)

    def listen(states: Ints, actions: Ints, s_next: Ints, rewards: Floats) -> None:
        seen.note(shell.pair_ptr[states] + actions, s_next, rewards)

    checked.listen = listen
    for_pilot, for_run = split_seed(root_seed(seed))
    low, span = 0.0, 1.0
    if settings is None:
        settings, low, span = pilot_steps(checked, shell, polytope, samples, for_pilot)
    pilot, per_step = checked.samples, 2 * batch
    steps = max((samples - pilot) // per_step, 1)
    run = _RecordedRun(seen, checked, shell, polytope, batch, low, span, for_run)
    pieces = count(1)
    history: list[Round] = []

    def estimate(learned: Learned) -> Estimate:
        found = _estimate(owed, seen.counts, learned, delta)
        return found.ended(finished=learned.finished, started=started, history=history)

    def watch(done: int, of: int, learned: Callable[[], Learned]) -> None:
        if done < of and next(pieces) in _ROUNDS:
            history.append(estimate(learned()).round)
            history[-1].log()
        if options.progress is not None:
            options.progress(done, of, learned)
        if progress is not None:
            progress(pilot + per_step * done, pilot + per_step * of, lambda: estimate(learned()))

    try:
        course = settings.for_batch(batch), steps, span, pilot, started
        learned = drive(run, shell, polytope, *course, replace(options, progress=watch))
    except SimulatorError as error:
        if isinstance(error.partial, Learned):
            error.partial = estimate(error.partial)
        raise
    found = _estimate(owed, seen.counts, learned, delta)
    history.append(found.round)
    return found.ended(finished=learned.finished, started=started, history=history)


class _RecordedRun(BatchRun):
    """A run whose checkpoints hold what was counted as well; those of 0.1 have no counts, and go on."""

    def __init__(self, seen: Tally, *how: Any) -> None:
        super().__init__(*how)
        self._seen, self._begun = seen, False

    def advance(self, steps: int, settings: Steps) -> None:
        self._begun = True
        super().advance(steps, settings)

    def state(self) -> Arrays:
        if not self._begun:  # what the run is known by
            return super().state()
        counts = counts_to_arrays(self._seen.counts)
        return {**super().state(), **{_COUNTS + name: array for name, array in counts.items()}}

    def restore(self, state: Arrays) -> None:
        super().restore(state)
        if f"{_COUNTS}keys" in state:
            own = (name for name in state if name.startswith(_COUNTS))
            self._seen.counts = counts_from_arrays({name.removeprefix(_COUNTS): state[name] for name in own})


def _estimate(owed: Problem, counts: Counts, learned: Learned, delta: float) -> Estimate:
    policy = learned.policy
    return Estimate.of(
        owed,
        counts,
        evaluate(estimated(owed, counts), counts, policy) if counts.total else unknown(owed, policy),
        margins=np.zeros(owed.n_quotas),
        margin_fraction=0.0,
        gap=math.inf,
        prices=np.full(owed.n_quotas, np.nan),
        bias=-learned.lam,
        feasible=True,
        guaranteed=False,
        claim=_NO_CLAIM,
        delta=delta,
        samples=learned.samples,
        method="mirror",
        details=learned,
    )
