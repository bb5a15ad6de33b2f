"""Where a frontier is looked at: all of its breakpoints, or given values.

**Breakpoints.** Two solutions with their prices are two tangents; where these meet, either the curve has a
breakpoint or it lies below, and two new intervals are searched (Eisner and Severance 1976). So all of them
are found exactly, with about two solutions for each.

**Given values** are solved in runs of neighbouring ones, each starting from what the last ones found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from fairmdp.certificate import reward_scale
from fairmdp.errors import ProblemError
from fairmdp.frontiers.curve import SAME, Frontier
from fairmdp.frontiers.family import ALL, Family
from fairmdp.learning.counts import Engine
from fairmdp.model.checks import Floats, as_share, check_count
from fairmdp.model.problem import Problem
from fairmdp.model.quota_text import with_named
from fairmdp.solution.solution import Remark, Solution, Status
from fairmdp.solvers.warm import WarmSolver

TOGETHER = 50
"""Values that are solved one after the other; runs of them share nothing."""

_EVEN = 21  # values where the curve has no form that a few of them tell
_MAX_EXACT_PAIRS = 20_000  # above this a linear program per breakpoint takes too long
_EDGES = (1e-10, 1e-8, 1e-6)  # shares by which the curve may stay inside the last feasible value
_WAYS = {1.0: "on", -1.0: "down"}


def frontier(
    problem: Problem,
    quota: str = ALL,
    values: Iterable[float] | None = None,
    *,
    bound: str = "at_least",
    method: str = "auto",
    tol: float = 1e-6,
    engine: Engine = map,
    together: int = TOGETHER,
) -> Frontier:
    """Compute the best gain as a function of one quota's bound, or of a common factor on all that is owed.

    Parameters
    ----------
    problem
        Model and quotas; the others stay as they are.
    quota
        Name of the quota that moves, or ``"*"`` for a factor on everything that is owed. A state or a
        ``state/action`` without a quota will do, too.
    values
        Where to look. By default everywhere: all breakpoints, from 0 (or the smallest weight) up to the last
        feasible value; of a cap from 1 (or the largest weight) down. Where runs can end differently and each
        of them has to meet what is asked, the gain may jump, and 21 even values are looked at.
    bound
        Which bound of the quota moves, ``"at_least"`` or ``"at_most"``; it need not have one of that kind.
    method, tol
        As for `solve`; they apply to given values. Breakpoints take the linear program.
    engine
        Where given values are solved: in this process, or in those of a `ProcessPool`. It does not change
        the result.
    together
        How many neighbouring values start from each other's solutions; the engine gets as many at a time.
        More is less work, fewer keep more processes busy.

    Examples
    --------
    >>> from fairmdp import scenarios, frontier
    >>> curve = frontier(scenarios.three_state(), "s2")
    >>> curve.breakpoints.round(6), curve.slopes.round(6)       # 1/11, 1/3, 9/19; 0, -99/190, -171/80
    (array([0.090909, 0.333333, 0.473684]), array([ 0.      , -0.521053, -2.1375  ]))
    >>> there = curve.shadow_price(0.25)
    >>> round(there.price, 6), round(there.start, 6), round(there.stop, 6), there.unique
    (0.521053, 0.090909, 0.333333, True)
    >>> cap = frontier(scenarios.three_state(), "s0", bound="at_most")
    >>> cap.values.round(4), cap.slopes.round(4)                # the cap falls, and so does the gain
    (array([1.    , 0.3816, 0.1   ]), array([0. , 0.9]))
    """
    if isinstance(quota, str) and quota != ALL:
        problem = with_named(problem, quota)
    family = Family(problem, quota, bound)
    if values is not None:
        return frontier_at(
            family, checked_values(family, values), method=method, tol=tol, engine=engine, together=together
        )
    if problem.mdp.n_pairs > _MAX_EXACT_PAIRS:
        raise ProblemError(
            f"all breakpoints of {problem.mdp.n_pairs} pairs are too many linear programs "
            f"(the limit is {_MAX_EXACT_PAIRS} pairs)\n  give values"
        )
    try:
        return exact_frontier(family)
    except ProblemError:
        if family.concave:
            raise
    even = family.first + (family.last()[0] - family.first) * np.arange(_EVEN) / (_EVEN - 1)
    return frontier_at(family, even, method=method, tol=tol, engine=engine, together=together)


def last_feasible(problem: Problem, quota: str = ALL, bound: str = "at_least") -> float:
    """Largest ``at_least`` of one quota, or factor on all, that some policy meets; or smallest cap.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> round(last_feasible(scenarios.three_state(), "s2"), 6)       # 9/19
    0.473684
    """
    return Family(problem, quota, bound).last()[0]


def exact_frontier(family: Family) -> Frontier:
    """All breakpoints between the first value and the last feasible one.

    Every step lowers what the tangents leave open by more than the tolerance, or is the last in its interval:
    two tangents that both overshoot the other's point have different slopes and meet between the two.
    """
    tol = SAME * reward_scale(family.problem)
    last, limit = family.last(proved=False)
    left, right = _touch(family, family.first), _end(family, last)
    points = [left, right] if right.value != left.value else [left]
    todo = [(left, right)]
    while todo:
        a, b = todo.pop()
        if a.line(b.value) - b.upper <= tol or b.line(a.value) - a.upper <= tol:
            continue  # one segment joins them
        meet = a.value + (b.line(a.value) - a.upper) / (a.slope - b.slope)
        if not min(a.value, b.value) < meet < max(a.value, b.value):
            continue  # they are as near as numbers can be
        middle = _touch(family, meet)
        if a.line(meet) - middle.upper <= tol:
            points.append(middle)
        else:
            todo += [(a, middle), (middle, b)]
    points.sort(key=lambda point: family.direction * point.value)
    values = np.array([point.value for point in points])
    return Frontier.of(family, values, [point.solution for point in points], exact=True, limit=limit)


class _Tangent(NamedTuple):
    """A solved point and the line that the curve lies below, as the ceiling there proves."""

    value: float
    upper: float
    slope: float
    solution: Solution

    def line(self, value: float) -> float:
        return self.upper + self.slope * (value - self.value)


def _touch(family: Family, value: float) -> _Tangent:
    solution = family.solve(value, family.program)
    if solution is None or solution.status is not Status.OPTIMAL:
        why = "\n  shares of the best policy depend on where it starts, or nearly so"
        several = solution is not None and any(n.remark is Remark.SEVERAL_CLASSES for n in solution.notes)
        raise ProblemError(f"no certified solution at {family.quota} = {value:.12g}{why if several else ''}")
    return _Tangent(value, solution.upper, -family.price(solution), solution)


def _end(family: Family, last: float) -> _Tangent:
    """The last value whose solution can be proved: rounding, or several classes, may want a little room."""
    for edge in (0.0, *_EDGES):
        inside = last - family.direction * float(family.units.spans(np.array(edge)))
        if family.direction * (inside - family.first) < 0:
            inside = family.first
        try:
            return _touch(family, inside)
        except ProblemError as error:
            why = error
    raise why


def checked_values(family: Family, values: Iterable[float]) -> Floats:
    """Values in the order in which more is asked, each once."""
    way = family.direction
    asked = way * np.unique(way * np.asarray(list(values), dtype=float))
    if asked.size == 0 or not np.isfinite(asked).all() or way * (asked[0] - family.first) < 0:
        least = "that are not negative" if family.first == 0 else f"from {family.first:.12g} {_WAYS[way]}"
        raise ProblemError(f"values must be numbers {least}, at least one")
    if family.is_share and asked[-1] > 1:
        raise ProblemError(
            f"{asked[-1]:.12g} is no share, expected values from 0 to 1\n  {as_share(float(asked[-1]))}"
        )
    return asked


def frontier_at(
    family: Family, values: Floats, *, method: str, tol: float, engine: Engine, together: int
) -> Frontier:
    """Frontier at values in the order in which more is asked."""
    check_count("together", together)
    runs = [values[k : k + together] for k in range(0, values.size, together)]
    solutions: list[Solution] = []
    for found, run in zip(engine(partial(solve_run, family, method, tol), runs), runs, strict=True):
        solutions += found
        if len(found) < run.size or not found[-1].has_policy:
            break
    limit = None
    if solutions and not solutions[-1].has_policy:
        limit = family.limit(float(values[len(solutions) - 1]), solutions[-1])
    return Frontier.of(family, values, solutions, exact=False, limit=limit)


def solve_run(family: Family, method: str, tol: float, values: Sequence[float]) -> list[Solution]:
    """Solutions at values that ask for more and more, up to the first that cannot be met."""
    warm = WarmSolver(method=method, tol=tol)
    solutions: list[Solution] = []
    for value in map(float, values):
        solution = family.solve(value, warm.solve)
        if solution is None:  # refused outright
            break
        solutions.append(solution)
        if not solution.has_policy:
            break
    return solutions
