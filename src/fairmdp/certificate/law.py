"""What is proved of runs from the start: where they end, what they earn there, and who gets what."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from fairmdp.certificate.course import Course, course_of
from fairmdp.certificate.facts import CLAIM_TOL, UNPROVED, LongRun, Stated, unknown
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.problem import Problem

IN_THE_MEAN = -1
"""Instead of a class: the share of a quota is that of all runs."""


@dataclass(frozen=True, eq=False)
class Law(LongRun):
    """Proven intervals for runs from the start, and for each closed class in which they may end.

    `gain` is the mean over runs. The share of a quota that every run must meet is that of the class with
    the least slack, of any other it is the mean.
    """

    policy_of: Ints = field(kw_only=True)  # (m,), which policy the class is of
    states: tuple[Ints, ...] = field(kw_only=True)  # of each class
    chances: Floats = field(kw_only=True)  # (m,), of ending there, unproved
    spent: csr_array = field(kw_only=True)  # (SA, m), shares of the pairs in each class, unproved
    probabilities: Floats = field(kw_only=True)  # (m, 2)
    gains: Floats = field(kw_only=True)  # (m, 2)
    low: csr_array = field(kw_only=True)  # (K, m), shares
    high: csr_array = field(kw_only=True)  # (K, m)
    worst: Ints = field(kw_only=True)  # (K,), the class whose share counts, or IN_THE_MEAN

    @property
    def occupancy(self) -> Floats:
        """Shares of the pairs in the mean over runs, (SA,)."""
        return np.asarray(self.spent @ self.chances)

    def share(self, k: int, c: int) -> tuple[float, float]:
        """Interval of a quota's share in a class."""
        return float(self.low[k, c]), float(self.high[k, c])


def met_by_each(problem: Problem) -> Ints:
    """Numbers of the quotas that ask every run for something."""
    asks = (problem.at_least > 0) | (problem.at_most < 1)
    return np.flatnonzero(asks & ~problem.expected)


def least_slacks(problem: Stated, k: int, low: Floats, high: Floats) -> Floats:
    """Proven slack of a quota in each class, from its shares there, (m,)."""
    at_least, at_most = float(problem.at_least[k]), float(problem.at_most[k])
    below = low - at_least if at_least > 0 else np.full(low.size, math.inf)
    above = at_most - high if at_most < 1 else np.full(low.size, math.inf)
    return np.minimum(below, above)


def candidates(problem: Stated, run: Law, k: int) -> list[int]:
    """Classes that may have the least slack of a quota, as far as numbers are told."""
    if run.worst[k] == IN_THE_MEAN:
        return [IN_THE_MEAN]
    left = least_slacks(problem, k, *(ends[[k]].toarray()[0] for ends in (run.low, run.high)))
    return [int(c) for c in np.flatnonzero(left <= left.min() + 2 * CLAIM_TOL)]


def drawn_from(problem: Problem, policies: Floats, weights: Floats | None) -> tuple[list[Course], Floats]:
    """Follow each policy from the start, and with which probability it is drawn, (M,), up to a factor."""
    policies = np.atleast_2d(policies)
    courses = [course_of(problem.mdp, policy) for policy in policies]
    return courses, np.ones(1) if weights is None else weights


class Intervals(NamedTuple):
    """What is proved of each class and in the mean, all of it rounded outward."""

    probabilities: Floats  # (m, 2)
    gains: Floats  # (m, 2)
    low: csr_array  # (K, m)
    high: csr_array  # (K, m)
    gain: tuple[float, float]
    shares: Floats  # (K, 2)
    error: float


def law_of(
    problem: Problem,
    courses: Sequence[Course],
    chances: Floats,
    spent: csr_array,
    found: Intervals,
    *,
    flawed: bool,
) -> Law:
    """Judge the quotas that every run must meet in the class where each has the least slack."""
    shares, worst = found.shares.copy(), np.full(problem.n_quotas, IN_THE_MEAN)
    for k in met_by_each(problem).tolist():
        low, high = (ends[[k]].toarray()[0] for ends in (found.low, found.high))
        worst[k] = np.argmin(least_slacks(problem, k, low, high))
        shares[k] = low[worst[k]], high[worst[k]]
    nothing = unknown(problem, UNPROVED)
    return Law(
        nothing.gain if flawed else found.gain,
        nothing.shares if flawed else shares,
        nothing.error if flawed else found.error,
        UNPROVED if flawed else None,
        np.add.reduceat(spent @ chances, problem.mdp.pair_ptr[:-1]),
        policy_of=np.repeat(np.arange(len(courses)), [course.n_classes for course in courses]),
        states=tuple(states for course in courses for states in np.split(course.states, course.ptr[1:-1])),
        chances=chances,
        spent=spent,
        probabilities=found.probabilities,
        gains=found.gains,
        low=found.low,
        high=found.high,
        worst=worst,
    )
