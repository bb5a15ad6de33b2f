"""Algorithm 1: stochastic mirror descent on the saddle point of Fair-LP, from samples alone.

::

    min over |lam| <= 2 M    max over x in Delta_rho    r @ x + lam @ (Ihat - P).T @ x

Every step asks the generative model twice: for a uniform pair, which estimates the slope in ``x``, and for
a pair drawn from ``x``, which estimates the slope in ``lam``. ``x`` moves by exponentiated gradient and is
projected onto ``Delta_rho`` in the divergence of the paper's definition; ``lam`` (our ``-h``) is clipped. The
policy is read from an average of ``x``. Rewards are rescaled to [0, 1] inside.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from typing import Literal

import numpy as np

from fairmdp.certificate.claim import certify_policy
from fairmdp.certificate.facts import check_tol
from fairmdp.certificate.restated import by_uniform_steps
from fairmdp.chains.policy import policy_of
from fairmdp.deadline import Stop
from fairmdp.errors import ProblemError, SimulatorError
from fairmdp.mirror.polytope import QuotaPolytope
from fairmdp.mirror.runs import Arrays, BatchRun, Checkpoint, KernelRun, model_run
from fairmdp.mirror.steps import Steps, pilot_steps
from fairmdp.model.checks import Floats, ReadOnly, check_count
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.simulator import CheckedSimulator
from fairmdp.solution.solution import Solution

Average = Literal["suffix", "linear", "full"]
Progress = Callable[[int, int, Callable[[], "Learned"]], None]

_CHUNKS = 64  # pieces of a run; averages are weighted piece by piece
_SLICE = 1_000_000  # steps between two looks at the clock


@dataclass(frozen=True, eq=False)
class Learned(ReadOnly):
    """What mirror descent found.

    Attributes
    ----------
    policy : ndarray
        Probability of each pair given its state, (SA,).
    occupancy : ndarray
        The averaged ``x``, (SA,): meets the quotas, but is only nearly a stationary distribution.
    lam : ndarray
        The averaged multiplier of flow, (S,), in the user's units of reward; our bias is ``-lam``.
    steps, samples : int
        Steps made, and samples drawn from the simulator, pilot included.
    settings : Steps
        Step sizes and radius that were used, in rewards rescaled to [0, 1].
    finished : bool
        Whether all steps were made; an interrupt or the end of the time keeps what was computed.
    seconds : float
        Wall-clock time.
    """

    policy: Floats
    occupancy: Floats
    lam: Floats
    steps: int
    samples: int
    settings: Steps
    finished: bool
    seconds: float


@dataclass(frozen=True)
class Options:
    """How a run is made; what it converges to does not depend on these.

    Attributes
    ----------
    average
        Which iterates make the answer: all weighted by time (``"linear"``), the last half (``"suffix"``), or
        all alike (``"full"``, the paper's).
    seconds
        Stop after so long and keep what was computed.
    checkpoint
        File that is written after every piece of the run, atomically; a run that finds it goes on from
        there to the same bytes.
    progress
        Called after every piece with the steps made, all steps, and a function that returns what has
        been learned so far.
    """

    average: Average = "linear"
    seconds: float = math.inf
    checkpoint: str | PathLike[str] | None = None
    progress: Progress | None = None


@by_uniform_steps
def solve_mirror(
    problem: Problem,
    *,
    steps: int = 200_000,
    batch: int = 1,
    seed: int | np.random.SeedSequence = 0,
    settings: Steps | None = None,
    options: Options | None = None,
    tol: float = 1e-6,
) -> Solution:
    """Run Algorithm 1 on a known model as if only samples of it could be had, and certify what comes out.

    A step takes O(log SA) for disjoint quotas. The certificate knows the model, so the solution says what
    the learned policy is truly worth. Parameters are those of `learn_mirror`; a step draws ``2 * batch``
    samples.
    """
    tol = check_tol(tol)
    learned, kernel = learn_model(
        problem, steps=steps, batch=batch, seed=seed, settings=settings, options=options
    )
    solution = certified(problem, QuotaPolytope.of(problem), learned, tol=tol)
    return replace(solution, provenance={**solution.provenance, "kernel": kernel})


def learn_model(
    problem: Problem,
    *,
    steps: int,
    batch: int = 1,
    seed: int | np.random.SeedSequence = 0,
    settings: Steps | None = None,
    options: Options | None = None,
) -> tuple[Learned, str]:
    """Run Algorithm 1 on a known model; what was learned, and the kernel that ran."""
    started = time.perf_counter()
    check_count("steps", steps)
    check_count("batch", batch)
    mdp, polytope = problem.mdp, QuotaPolytope.of(problem)
    for_pilot, for_run = split_seed(seed)
    checked = CheckedSimulator(mdp.simulator())
    if settings is None:
        settings, _, _ = pilot_steps(checked, mdp, polytope, 2 * steps * batch, for_pilot)
    low, span = float(mdp.r.min()), float(np.ptp(mdp.r)) or 1.0
    if batch == 1:
        run = model_run(mdp, polytope, (mdp.r - low) / span, for_run)
    else:
        run = BatchRun(checked, mdp, polytope, batch, low, span, for_run)
    settings, options = settings.for_batch(batch), options or Options()
    return drive(run, mdp, polytope, settings, steps, span, checked.samples, started, options), run.name


def certified(problem: Problem, polytope: QuotaPolytope, learned: Learned, *, tol: float) -> Solution:
    """What a learned policy is worth on a known model: its own chain, and the bound that lam proves."""
    mdp, h = problem.mdp, -learned.lam
    prices = np.zeros(problem.n_quotas)
    _, prices[polytope.owed] = polytope.support(mdp.r + mdp.P @ h - h[mdp.s_of])
    return certify_policy(
        problem,
        learned.policy,
        h,
        prices,
        tol=tol,
        method="mirror",
        counters={"steps": learned.steps, "samples": learned.samples, "seconds": learned.seconds},
        stopped=Stop.NOT if learned.finished else Stop.OUT_OF_STEPS,
    )


class _Average:
    """Weighted average of the iterates, piece by piece; with the run's own state it is a checkpoint."""

    def __init__(self, run: KernelRun, average: Average, steps: int) -> None:
        self._run, self._weight = run, _weights(average)
        x_sum, lam_sum = run.sums()
        self.bounds = np.linspace(0, steps, min(_CHUNKS, steps) + 1).astype(np.int64)
        self._x, self._lam = np.zeros_like(x_sum), np.zeros_like(lam_sum)
        self._x_last, self._lam_last = x_sum, lam_sum
        self._counts = np.zeros(2)  # total weight, pieces taken

    @property
    def pieces(self) -> int:
        return int(self._counts[1])

    def take(self) -> None:
        """Count in the piece that the run has just ended."""
        x_sum, lam_sum = self._run.sums()
        k = self.pieces
        w = self._weight(k + 1, self.bounds.size - 1)
        self._x += w * (x_sum - self._x_last)
        self._lam += w * (lam_sum - self._lam_last)
        self._counts += w * (self.bounds[k + 1] - self.bounds[k]), 1
        self._x_last, self._lam_last = x_sum, lam_sum

    def read(self, done: int) -> tuple[Floats, Floats]:
        """Averaged x and lam; all iterates alike where none of those that count has been reached."""
        if self._counts[0] > 0:
            x, lam = self._x / self._counts[0], self._lam / self._counts[0]
        elif done:
            x, lam = (total / done for total in self._run.sums())
        else:
            x, lam = self._run.start, self._lam
        x = np.maximum(x, 0.0)
        return x / x.sum(), lam

    def state(self) -> Arrays:
        """Arrays from which the run goes on as if nothing had happened."""
        own = {name: getattr(self, f"_{name}") for name in _AVERAGE_STATE}
        return {**{f"average_{k}": v for k, v in own.items()}, **self._run.state()}

    def restore(self, state: Arrays) -> None:
        for name in _AVERAGE_STATE:
            getattr(self, f"_{name}")[...] = state[f"average_{name}"]
        self._run.restore(state)


_AVERAGE_STATE = ("x", "lam", "x_last", "lam_last", "counts")


def drive(
    run: KernelRun,
    mdp: MDP,
    polytope: QuotaPolytope,
    settings: Steps,
    steps: int,
    span: float,
    pilot_samples: int,
    started: float,
    options: Options,
) -> Learned:
    """Advance a run piece by piece; an interrupt, the clock or a broken simulator ends it early."""
    settings.check(mdp.n_pairs)
    average = _Average(run, options.average, steps)
    kept = None
    if options.checkpoint is not None:
        course = (settings, steps, options.average, *polytope.course, *run.state().values())
        kept = Checkpoint(options.checkpoint, mdp, *course)
        saved = kept.load()
        if saved is not None:
            average.restore(saved)
    done = int(average.bounds[average.pieces])

    def learned(finished: bool) -> Learned:
        x, lam = average.read(done)
        return Learned(
            policy=policy_of(mdp, x),
            occupancy=x,
            lam=lam * span,
            steps=done,
            samples=pilot_samples + run.samples_per_step * done,
            settings=settings,
            finished=finished,
            seconds=time.perf_counter() - started,
        )

    try:
        for stop in average.bounds[average.pieces + 1 :]:
            while done < stop:
                count = int(min(stop - done, _SLICE))
                run.advance(count, settings)
                done += count
                if time.perf_counter() - started > options.seconds:
                    return learned(finished=done == steps)
            average.take()
            if kept is not None:
                kept.save(average.state())
            if options.progress is not None:
                options.progress(done, steps, lambda: learned(finished=False))
    except KeyboardInterrupt:
        return learned(finished=False)
    except SimulatorError as error:
        error.partial = learned(finished=False)
        raise
    return learned(finished=True)


def _weights(average: Average) -> Callable[[int, int], float]:
    """Weight of a piece's iterates, by its number from 1 and the number of pieces."""
    rules: dict[str, Callable[[int, int], float]] = {
        "full": lambda piece, of: 1.0,
        "linear": lambda piece, of: float(piece),
        "suffix": lambda piece, of: float(2 * piece > of),
    }
    if average not in rules:
        raise ProblemError(f"there is no average {average!r}; there are {', '.join(rules)}")
    return rules[average]


def split_seed(seed: int | np.random.SeedSequence) -> tuple[np.random.Generator, np.random.SeedSequence]:
    """Randomness of the pilot and of the run, independent of each other."""
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    # Children by number, not by spawn(): a SeedSequence that is used twice must give the same run twice.
    pilot, run = (np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, k)) for k in (0, 1))
    return np.random.default_rng(pilot), run
