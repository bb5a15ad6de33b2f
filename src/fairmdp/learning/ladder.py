"""Policies from the most conservative to the boldest, chosen on one part of the samples, tested on another.

Every rung is the best policy of the counted model when each quota is made stricter by ``t`` standard
errors. The rungs are tested from the most conservative down, and the first failure ends it. So an unfair
policy is returned only if the *first* unfair rung passes its test, and for that, its test of the quota that
it breaks: whatever the number of rungs and quotas, at the level of one test and without Bonferroni.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fairmdp.backends.flow_lp import Answer
from fairmdp.chains.policy import policy_of
from fairmdp.learning.aim import Aim, Gain, variance
from fairmdp.learning.counts import Counts, spread_evenly
from fairmdp.learning.evaluation import Evaluation, estimated, evaluate
from fairmdp.learning.posterior import FEWEST, Trial
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import slacks


@dataclass(frozen=True)
class Tuning:
    """Rungs, and where the fresh samples go."""

    margins: tuple[float, ...] = (  # in standard errors, each about a seventh below the last
        0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.85, 2.1, 2.4, 2.7, 3.1, 3.6, 4.2, 5.0, 6.3, 8.0, 11.0,
        16.0, 25.0, 40.0,
    )  # fmt: skip
    below: tuple[float, ...] = (-0.5, -1.0)  # the first samples may have been unlucky
    halvings: int = 6  # in search of the largest margin that can be met
    sure: float = 3.0  # errors beyond the bound of the test at which a rung passes in nearly all runs
    spare: float = 0.3  # beyond the quantile, at the rung that is expected to pass last
    last: float = 0.63  # share of the fresh samples for that rung
    start: float = 0.27  # for the one tested first; the rest goes to all pairs that any rung uses


TUNING = Tuning()
FOR_WELFARE = Tuning(margins=(0.0, 0.6, 1.2, 1.85, 2.7, 4.2, 8.0), below=(-0.5,), halvings=3)
"""Fewer rungs: each is a search of its own, and takes a part of the level of the claim on the welfare."""


@dataclass(frozen=True, eq=False)
class Rung:
    """A policy of the first samples, and by how much its quotas were stricter."""

    margins: Floats  # (K,)
    answer: Answer
    seen: Evaluation

    @property
    def policy(self) -> Floats:
        """Probability of each pair given its state, (SA,)."""
        return self.seen.policy


def climb(
    owed: Problem, counts: Counts, se: Floats, tuning: Tuning = TUNING, aim: Aim | None = None
) -> list[Rung]:
    """Rungs from the most conservative down; policies whose chain falls apart are left out."""
    problem = estimated(owed, counts)
    program = (aim or Gain()).program(problem)

    def attempt(t: float) -> Answer | None:
        low = np.where(owed.at_least > 0, np.maximum(owed.at_least + t * se, 0.0), 0.0)
        high = np.where(owed.at_most < 1, np.minimum(owed.at_most - t * se, 1.0), 1.0)
        return None if (low > 1).any() else program.best(low, high)

    found: dict[float, Answer] = {}
    feasible = None
    for t in tuning.margins:
        answer = attempt(t)
        if answer is None:
            if feasible is not None:
                found.update(_largest(attempt, feasible, t, tuning.halvings))
            break
        found[t] = answer
        feasible = t
        if not se.any():
            break
    for t in tuning.below if se.any() else ():
        answer = attempt(t)
        if answer is not None:
            found[t] = answer
    rungs: list[Rung] = []
    for t in sorted(found, reverse=True):
        policy = policy_of(problem.mdp, found[t].x)
        if rungs and np.array_equal(policy, rungs[-1].policy):
            continue
        seen = evaluate(problem, counts, policy)
        if not np.isinf(seen.deviation):
            rungs.append(Rung(t * se, found[t], seen))
    return rungs


def worth_testing(
    rungs: Sequence[Rung], owed: Problem, fresh_se: Callable[[Rung], Floats], z: float
) -> list[Rung]:
    """Begin where quotas are the furthest away in errors of both parts together; skip what passes surely.

    What the first samples alone decide costs no level. Of several rungs that are so far from their bounds
    that they pass all the same, the boldest stands for the rest. ``fresh_se(rung)`` are the standard errors
    of its shares, (K,), that are to be expected in the test.
    """

    def distances(rung: Rung) -> tuple[float, bool]:
        fresh = fresh_se(rung)
        both, slack = np.maximum(np.hypot(rung.seen.share_se, fresh), 1e-300), _slack(rung, owed)
        sure = bool((slack >= z * fresh + TUNING.sure * both).all())
        return float((slack / both).min(initial=np.inf)), sure

    found = [distances(rung) for rung in rungs]
    start = int(np.argmax([distance for distance, _ in found]))
    last_sure = max((n for n, (_, sure) in enumerate(found) if sure), default=start)
    return [rungs[start], *rungs[max(start + 1, last_sure) :]]


def descend(
    rungs: Iterable[Rung], tested: Callable[[Rung], Trial]
) -> tuple[tuple[Rung, Trial] | None, tuple[Rung, Trial] | None]:
    """Test from the most conservative down; the last that passed, and the first that failed."""
    passed = None
    for rung in rungs:
        found = tested(rung)
        if not found.passed:
            return passed, (rung, found)
        passed = rung, found
    return passed, None


def thinned(rungs: Sequence[Rung], most: int) -> list[Rung]:
    """So many rungs at most, evenly spread; that some are left out costs no level."""
    if len(rungs) <= most:
        return list(rungs)
    return [rungs[n] for n in np.unique(np.linspace(0, len(rungs) - 1, most).round().astype(int)).tolist()]


def fresh_times(
    rungs: Sequence[Rung], owed: Problem, samples: int, z: float, eps: float | None = None
) -> Ints:
    """How often each pair is asked for the test: where it helps the rungs that matter (Neyman allocation)."""
    used = np.any([rung.policy > 0 for rung in rungs], axis=0)
    hopeful = [
        rung for rung in rungs if (_slack(rung, owed) >= (z + TUNING.spare) * steered_se(samples, rung)).all()
    ]
    last = hopeful[-1] if hopeful else rungs[0]
    even = used / used.sum()
    weights = TUNING.last * _neyman(last, owed, eps) + TUNING.start * _neyman(rungs[0], owed, eps)
    weights = weights + (1 - TUNING.last - TUNING.start) * even
    base = FEWEST * used.astype(np.int64)
    if samples < base.sum():
        return spread_evenly(samples, even)
    return base + spread_evenly(samples - int(base.sum()), weights)


def times_for_value(aim: Aim, rung: Rung, samples: int) -> Ints:
    """How often each pair is asked where only the value of one policy is at stake."""
    used = rung.policy > 0
    base = FEWEST * used.astype(np.int64)
    if samples < base.sum():
        return spread_evenly(samples, used / used.sum())
    weights = rung.seen.x * np.sqrt(variance(aim, rung.seen, rung.answer))
    weights = weights / weights.sum() if weights.sum() > 0 else rung.seen.x
    part = TUNING.last + TUNING.start
    return base + spread_evenly(samples - int(base.sum()), part * weights + (1 - part) * used / used.sum())


def _neyman(rung: Rung, owed: Problem, eps: float | None) -> Floats:
    seen = rung.seen
    aims = np.maximum(np.maximum(_slack(rung, owed), seen.share_se / 2), 1e-12)
    variance = seen.share_variance @ aims**-2.0
    if eps is not None:
        variance = variance + seen.gain_variance / (eps / 2) ** 2
    weights = seen.x * np.sqrt(variance)
    if not weights.sum() > 0:
        weights = seen.x
    return weights / weights.sum()


def steered_se(samples: int, rung: Rung) -> Floats:
    """Standard errors of the shares from so many samples where they are needed, (K,)."""
    return rung.seen.x @ np.sqrt(rung.seen.share_variance) / np.sqrt(samples)


def _slack(rung: Rung, owed: Problem) -> Floats:
    """Distance of every share from its nearer bound, (K,); infinite where nothing is asked."""
    return slacks(rung.seen.shares, owed.at_least, owed.at_most)


def _largest(
    attempt: Callable[[float], Answer | None], feasible: float, infeasible: float, halvings: int
) -> dict[float, Answer]:
    """The largest margin between two that can be met, with its answer; nothing where none was found."""
    best: dict[float, Answer] = {}
    for _ in range(halvings):
        middle = (feasible + infeasible) / 2
        answer = attempt(middle)
        if answer is None:
            infeasible = middle
        else:
            feasible, best = middle, {middle: answer}
    return best
