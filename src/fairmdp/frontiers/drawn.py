"""A frontier as a picture needs it: exact where that is quick, else in enough places to be drawn."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.frontiers import Frontier, frontier, last_feasible
from fairmdp.model.problem import Problem


@dataclass(frozen=True)
class Tuning:
    """How much a picture may cost; whoever looks at it waits."""

    exact_pairs: int = 1000  # up to here all breakpoints are found, one linear program each
    points: int = 16  # beyond, the curve is looked at in so many places
    slow_pairs: int = 5000  # and beyond these, in fewer: each takes a second or more
    few_points: int = 9


TUNING = Tuning()


def best_curve(problem: Problem, quota: str, bound: str, *, tuning: Tuning = TUNING) -> Frontier:
    """Return the frontier of a quota: exact where that is quick, else in a few places up to the last one."""
    if problem.mdp.n_pairs <= tuning.exact_pairs:
        with suppress(ProblemError):  # rounding may leave its last point without a certificate
            return frontier(problem, quota, bound=bound)
    try:
        last = last_feasible(problem, quota, bound)
    except ProblemError:
        raise ProblemError("the other quotas cannot be met by themselves") from None
    first = problem.units.of(problem.quota_index(quota)).values(np.array(float(bound == "at_most")))
    points = tuning.points if problem.mdp.n_pairs <= tuning.slow_pairs else tuning.few_points
    return frontier(problem, quota, np.linspace(first, last, points), bound=bound)
