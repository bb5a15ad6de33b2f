"""The price of fairness: the best gain against what one quota owes, its cap, two quotas, or a factor on all.

That function is concave and piecewise linear where it is defined, and its slope is the price of the quota.
`bends` finds all of it exactly, `points` looks at given values, `grid` at combinations of two quotas.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairmdp.errors import ProblemError
from fairmdp.frontiers.bends import exact_frontier
from fairmdp.frontiers.curve import Frontier, ShadowPrice
from fairmdp.frontiers.family import ALL, Family
from fairmdp.frontiers.grid import FrontierGrid, frontier_grid
from fairmdp.frontiers.points import TOGETHER, Engine, checked_values, frontier_at
from fairmdp.problem import Problem

__all__ = ["ALL", "Frontier", "FrontierGrid", "ShadowPrice", "frontier", "frontier_grid", "last_feasible"]

_MAX_EXACT_PAIRS = 20_000  # above this a linear program per bend takes too long


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
        Name of the quota that moves, or ``"*"`` for a factor on everything that is owed.
    values
        Where to look. By default everywhere: all bends, from 0 (or the smallest weight) up to the last
        feasible value; of a cap from 1 (or the largest weight) down.
    bound
        Which bound of the quota moves, ``"at_least"`` or ``"at_most"``; it need not have one of that kind.
    method, tol
        As for `solve`; they apply to given values. All bends take the linear program.
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
    family = Family(problem, quota, bound)
    if values is not None:
        return frontier_at(
            family, checked_values(family, values), method=method, tol=tol, engine=engine, together=together
        )
    if problem.mdp.n_pairs > _MAX_EXACT_PAIRS:
        raise ProblemError(
            f"all bends of {problem.mdp.n_pairs} pairs are too many linear programs "
            f"(the limit is {_MAX_EXACT_PAIRS} pairs)\n  give values"
        )
    return exact_frontier(family)


def last_feasible(problem: Problem, quota: str = ALL, bound: str = "at_least") -> float:
    """Largest ``at_least`` of one quota, or factor on all, that some policy meets; or smallest cap.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> round(last_feasible(scenarios.three_state(), "s2"), 6)       # 9/19
    0.473684
    """
    return Family(problem, quota, bound).last()[0]
