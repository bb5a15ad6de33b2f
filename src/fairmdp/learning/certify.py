"""Certificates for a policy on a simulator, from fresh samples only.

Data that a policy was chosen on flatters it, so nothing about the policy is estimated from the samples of
its training: `certify` draws its own, from a stream of seeds that `learn_plugin` never uses, whatever the
seed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.learning.counts import Counts, Engine, Seed, seed_stream
from fairmdp.learning.estimate import CertifiedPolicy, Inquiry, Intervals, Judgement, Told
from fairmdp.learning.intervals import bound_rigorously
from fairmdp.learning.plugin import check_delta
from fairmdp.learning.rollouts import run_policy
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.model.simulator import CheckedSimulator, Simulator, shell_model
from fairmdp.policy.policy import Policy

CERTIFYING = 1
"""Key of the stream of seeds of certificates; learning has one of its own."""

_RESERVE = 0.5  # share of the level that normal approximations are not given
_FEWEST = 1000  # samples below which no interval is worth printing
_OUT_OF_REACH = 1e15  # samples that nobody draws


def certify(
    simulator: Simulator,
    policy: Any,
    quotas: Iterable[Quota],
    *,
    samples: int,
    delta: float = 0.05,
    rigorous: bool = False,
    seed: Seed = 0,
    training: Counts | None = None,
    reward_range: tuple[float, float] | None = None,
    progress: Told | None = None,
    engine: Engine = map,
) -> CertifiedPolicy:
    """Say whether a policy meets quotas, at a stated level, from fresh samples.

    By default the policy is run: cycles between visits to one state are independent, which gives an
    interval for every long-run share and for the gain (batch means of rollouts where cycles are too
    rare). These intervals are asymptotic, so half of ``delta`` is held back for what the approximation may
    be off by; all of them together were then measured to hold as often as they claim.

    With ``rigorous=True`` nothing is asymptotic and no mixing time is needed: empirical Bernstein bounds
    on the errors of a model, and on the errors of those errors. They are two to six times as wide, and
    ``vacuous`` where the samples are too few to say anything.

    Parameters
    ----------
    simulator, quotas
        As for `learn`.
    policy
        Probability of each pair given its state, (SA,), or whatever else `Policy.of` takes, but no mixture.
    samples
        Budget of fresh samples, at least 1000.
    delta
        Probability with which any of the statements may be wrong, all together.
    rigorous
        See above; up to 2000 states.
    seed
        Certificates and learning draw from different streams of one seed, so that the same seed is safe
        for both. Two certificates with one seed are the same certificate, not two.
    training
        Counts of the training, ``estimate.counts``. They never enter the intervals of the policy; `upper`
        needs them, and ``rigorous`` takes from them the model whose errors it bounds (else 40 % of the
        samples make one).
    reward_range
        Least and largest reward that the simulator can give, for ``rigorous``; without it the range seen is
        taken, and a note says so.
    progress
        Called after each part of the work with the samples drawn, and those that may be. The logger
        ``fairmdp`` says the same.
    engine
        Where parts of the work are done: the built-in ``map``, a `ProcessPool` or a `RayCluster`. Results do
        not depend on it.

    Examples
    --------
    >>> from fairmdp import Quota, scenarios
    >>> from fairmdp.learning.plugin import learn_plugin
    >>> simulator = scenarios.three_state().mdp.simulator()
    >>> quotas = [Quota("s2", states=[2], at_least=0.25)]
    >>> learned = learn_plugin(simulator, quotas, samples=6000, seed=1)
    >>> certify(simulator, learned.policy, quotas, samples=300_000)
    CertifiedPolicy(fair at level 0.05, gain in [0.4384, 0.4398], samples=299962)
    """
    started = time.perf_counter()
    check_delta(delta)
    checked = CheckedSimulator(simulator)
    owed = Problem(shell_model(checked), quotas)
    pi = Policy.of(owed.mdp, policy).array
    _check_samples(samples)
    _check_training(owed.mdp, training)
    # A bound on the best gain takes half of the level, where there is one.
    share = delta if training is None else delta / 2
    # Normal approximations are a little off: what they may fail by is held back from the level.
    level = share if rigorous else (1 - _RESERVE) * share
    seeds = seed_stream(seed, CERTIFYING)
    inquiry = Inquiry(checked, owed, pi, samples, level, seeds, training, reward_range, engine, progress)
    found = bound_rigorously(inquiry) if rigorous else run_policy(inquiry)
    verdicts = tuple(_verdict(owed, found, k) for k in range(owed.n_quotas))
    return CertifiedPolicy(
        policy=pi,
        verdict=_overall(verdicts),
        verdicts=verdicts,
        more_samples=_more_samples(owed, found, verdicts, samples),
        gain=float(found.value[-1]),
        gain_low=float(found.low[-1]),
        gain_high=float(found.high[-1]),
        shares=found.value[:-1],
        share_low=found.low[:-1],
        share_high=found.high[:-1],
        upper=found.upper,
        quota_names=owed.names,
        at_least=owed.at_least,
        at_most=owed.at_most,
        delta=delta,
        method=found.method,
        rigorous=rigorous,
        vacuous=found.vacuous,
        samples=found.samples,
        cycles=found.cycles,
        seconds=time.perf_counter() - started,
        notes=found.notes,
    )


def _verdict(owed: Problem, found: Intervals, k: int) -> Judgement:
    """A quota is met where its whole interval lies inside the bounds, broken where all of it is outside.

    A class of states in which it is broken is enough, one of several in which it is met is not.
    """
    low, high = found.low[k], found.high[k]
    if low >= owed.at_least[k] and high <= owed.at_most[k]:
        return "fair" if found.together else "undecided"
    return "not fair" if high < owed.at_least[k] or low > owed.at_most[k] else "undecided"


def _overall(verdicts: tuple[Judgement, ...]) -> Judgement:
    if "not fair" in verdicts:
        return "not fair"
    return "undecided" if "undecided" in verdicts else "fair"


def _more_samples(
    owed: Problem, found: Intervals, verdicts: tuple[Judgement, ...], samples: int
) -> int | None:
    """Intervals shrink like one over the root of the samples: about how many more end all doubt."""
    if "undecided" not in verdicts or found.vacuous or not found.together:
        return None
    needed = 0.0
    for k in np.flatnonzero([verdict == "undecided" for verdict in verdicts]):
        value = found.value[k]
        sides = ((owed.at_least[k], owed.at_least[k] > 0), (owed.at_most[k], owed.at_most[k] < 1))
        room = min(abs(value - bound) for bound, asked in sides if asked)
        radius = max(value - found.low[k], found.high[k] - value)
        needed = max(needed, samples * (radius / room) ** 2 if room else math.inf)
    return math.ceil(needed - samples) if needed < _OUT_OF_REACH else None


def _check_samples(samples: Any) -> None:
    if isinstance(samples, bool) or not isinstance(samples, int | np.integer) or samples < _FEWEST:
        raise ProblemError(f"samples is {samples!r}, expected a whole number of at least {_FEWEST}")


def _check_training(mdp: MDP, training: Any) -> None:
    if training is None:
        return
    if not isinstance(training, Counts):
        raise ProblemError(
            f"training is a {type(training).__name__}, expected Counts\n  give the counts of an estimate"
        )
    if (training.n_pairs, training.n_states) != (mdp.n_pairs, mdp.n_states):
        raise ProblemError(
            f"training counts {training.n_pairs} pairs and {training.n_states} states, "
            f"the simulator has {mdp.n_pairs} and {mdp.n_states}"
        )
