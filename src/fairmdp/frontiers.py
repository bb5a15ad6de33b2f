"""The price of fairness: the best gain as a function of what one quota owes, or of a factor on all of them.

That function is concave and piecewise linear where it is defined, and its slope is the price of the quota.
Two solutions with their prices are two tangents; where these meet, either the curve bends there or it lies
below, and two new intervals are searched (Eisner and Severance 1976). So all bends are found exactly, with
about two solutions for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from fairmdp.certificate.checker import reward_scale
from fairmdp.errors import ProblemError
from fairmdp.mdp import MDP
from fairmdp.problem import Problem
from fairmdp.solution import Solution, Status
from fairmdp.solvers.auto import solve
from fairmdp.solvers.infeasible import common_factor
from fairmdp.solvers.lp import solve_lp
from fairmdp.validation import Floats

ALL = "*"
"""Instead of a quota's name: a common factor on everything that is owed."""

_MAX_EXACT_PAIRS = 20_000  # above this a linear program per bend takes too long
_SAME = 1e-9  # gains closer than this, relative to the span of the rewards, are the same
_EDGE = 1e-10  # how far inside the last feasible value the curve is looked at


@dataclass(frozen=True, eq=False)
class Frontier:
    """Best gain against what is owed.

    Attributes
    ----------
    quota : str
        The quota that moves, or ``*`` for a common factor on all of them.
    values : ndarray
        What is owed at each point, ascending, (N,). For an exact frontier these are its ends and bends.
    gains : ndarray
        Best gain at each value, (N,); NaN where no policy is fair.
    slopes : ndarray
        Exact: change of gain per unit owed on each segment, (N - 1,). Otherwise at each value, (N,).
    shares : ndarray
        Share of every quota's set under the optimal policy, (N, K).
    solutions : tuple of Solution
        The certified solution at each value.
    limit : float or None
        Exact: proven, no policy meets more than this.
    exact : bool
        Whether `values` are all ends and bends of the curve.
    quota_names : tuple of str
        Names of the K quotas.
    """

    quota: str
    values: Floats
    gains: Floats
    slopes: Floats
    shares: Floats
    solutions: tuple[Solution, ...]
    exact: bool
    quota_names: tuple[str, ...]
    limit: float | None = None

    @property
    def breakpoints(self) -> Floats:
        """Values at which the slope changes, the last feasible one included, (B,)."""
        if not self.exact:
            raise ProblemError("this frontier was computed at given values; leave values out for its bends")
        return self.values[1:]

    @property
    def last_feasible(self) -> float:
        """Largest value of the frontier that can be met."""
        return float(self.values[np.isfinite(self.gains)].max())

    @cached_property
    def prices(self) -> Floats:
        """Price of fairness at each value: gain given up against the first value, (N,)."""
        return self.gains[0] - self.gains

    def gain_at(self, value: float) -> float:
        """Best gain at any value, by interpolation along the exact segments."""
        if not self.exact:
            raise ProblemError("between given values the gain is not known; leave values out for all of it")
        if not self.values[0] <= value <= self.values[-1]:
            raise ProblemError(
                f"{value} is outside of the feasible values, {self.values[0]:.6g} to {self.values[-1]:.6g}"
            )
        return float(np.interp(value, self.values, self.gains))

    def __repr__(self) -> str:
        kind = "exact" if self.exact else "at given values"
        points = f"{self.values.size} points, last feasible {self.last_feasible:.6g}"
        return f"Frontier({self.quota}, {kind}, {points})"

    def _repr_html_(self) -> str:
        from fairmdp.notebook import frontier_html

        return frontier_html(self)


def frontier(
    problem: Problem,
    quota: str = ALL,
    values: Iterable[float] | None = None,
    *,
    method: str = "auto",
    tol: float = 1e-6,
) -> Frontier:
    """Compute the best gain as a function of one quota's ``at_least``, or of a common factor on all.

    Parameters
    ----------
    problem
        Model and quotas; the others stay as they are.
    quota
        Name of the quota that moves, or ``"*"`` for a factor on everything that is owed.
    values
        Where to look. By default everywhere: all bends, from 0 to the last feasible value.
    method, tol
        As for `solve`; they apply to given values. All bends take the linear program.

    Examples
    --------
    >>> from fairmdp import scenarios, frontier
    >>> curve = frontier(scenarios.three_state(), "s2")
    >>> curve.breakpoints.round(6), curve.slopes.round(6)       # 1/11, 1/3, 9/19; 0, -99/190, -171/80
    (array([0.090909, 0.333333, 0.473684]), array([ 0.      , -0.521053, -2.1375  ]))
    """
    family = _Family(problem, quota)
    if values is None:
        if problem.mdp.n_pairs > _MAX_EXACT_PAIRS:
            raise ProblemError(
                f"all bends of {problem.mdp.n_pairs} pairs are too many linear programs "
                f"(the limit is {_MAX_EXACT_PAIRS} pairs)\n  give values"
            )
        return _exact(family)
    asked = np.unique(np.asarray(list(values), dtype=float))
    if asked.size == 0 or not np.isfinite(asked).all() or asked[0] < 0:
        raise ProblemError("values must be numbers that are not negative, at least one")
    solutions: list[Solution | None] = []
    last: Solution | None = None
    for value in asked.tolist():
        solutions.append(family.solve(value, partial(solve, method=method, tol=tol, start=last)))
        last = solutions[-1] if solutions[-1] is not None and solutions[-1].has_policy else last
    slopes = np.array([family.slope(s) for s in solutions])
    return _collect(family, asked, solutions, slopes, exact=False)


def frontier_grid(
    problem: Problem, first: str, second: str, first_values: Iterable[float], second_values: Iterable[float]
) -> Floats:
    """Best gain for every combination of two quotas' ``at_least``, NaN where no policy is fair."""
    k, j = problem.quota_index(first), problem.quota_index(second)
    rows = []
    for a in first_values:
        at_least = problem.at_least.copy()
        at_least[k] = a
        rows.append(frontier(problem.with_bounds(at_least), problem.names[j], second_values).gains)
    return np.array(rows)


class _Family:
    """The problems along a frontier, one for each value."""

    def __init__(self, problem: Problem, quota: str) -> None:
        self.problem, self.quota = problem, quota
        self._k = None if quota == ALL else problem.quota_index(quota)
        if self._k is None and not problem.at_least.any():
            raise ProblemError("nothing is owed, so there is no factor to move")

    def at(self, value: float) -> Problem:
        at_least = self.problem.at_least.copy()
        if self._k is None:
            at_least = np.minimum(at_least * value, 1.0)
        else:
            at_least[self._k] = value
        return self.problem.with_bounds(at_least)

    def solve(self, value: float, solver: Callable[[Problem], Solution]) -> Solution | None:
        """The solution at a value; None where it is refused outright, as more than all of the time."""
        try:
            return solver(self.at(value))
        except ProblemError:
            self.at(0.0)  # a problem of its own, not of this value, is raised here
            return None

    def slope(self, solution: Solution | None) -> float:
        """Change of gain per unit of the value."""
        if solution is None or not solution.has_policy:
            return float("nan")
        paid = np.maximum(solution.prices, 0.0)
        return -float(paid @ self.problem.at_least if self._k is None else paid[self._k])

    def last(self) -> tuple[float, float]:
        """Largest value that can be met, and a proven limit of such values."""
        if self._k is None:
            factor = common_factor(self.problem)[0]
            if factor is None:
                raise ProblemError("the caps alone cannot be met, whatever the factor")
            return factor, factor
        mdp = self.problem.mdp
        counts = self.problem.members[[self._k]].toarray()[0]
        others = self.at(0.0)
        most = solve_lp(others.with_mdp(MDP(mdp.P, counts, mdp.s_of)))
        if not most.has_policy:
            raise ProblemError("the other quotas cannot be met by themselves; see solve() for the reason")
        cap = float(self.problem.at_most[self._k])
        return min(most.gain, cap), min(most.upper, cap)


@dataclass(frozen=True, eq=False)
class _Tangent:
    """A solved point and the line that the curve lies below."""

    value: float
    gain: float
    slope: float
    solution: Solution

    def line(self, value: float) -> float:
        return self.gain + self.slope * (value - self.value)


def _exact(family: _Family) -> Frontier:
    """All bends between 0 and the last feasible value."""
    tol = _SAME * reward_scale(family.problem)

    def touch(value: float) -> _Tangent:
        solution = family.solve(value, solve_lp)
        if solution is None or not solution.has_policy or solution.status is Status.UNDECIDED:
            raise ProblemError(f"no certified solution at {family.quota} = {value:.12g}")
        return _Tangent(value, solution.gain, family.slope(solution), solution)

    last, limit = family.last()
    left = touch(0.0)
    try:
        right = touch(last)
    except ProblemError:  # rounding has put the last feasible value just outside
        right = touch(max(last - _EDGE, 0.0))
    bends: list[_Tangent] = []
    todo = [(left, right)]
    while todo:
        a, b = todo.pop()
        if abs(a.line(b.value) - b.gain) <= tol or abs(b.line(a.value) - a.gain) <= tol:
            continue  # one segment joins them
        meet = (b.gain - a.gain + a.slope * a.value - b.slope * b.value) / (a.slope - b.slope)
        middle = touch(min(max(meet, a.value), b.value))
        if abs(middle.gain - a.line(middle.value)) <= tol:
            bends.append(middle)
        else:
            todo += [(a, middle), (middle, b)]
    points = [left, *sorted(bends, key=lambda t: t.value), right]
    values, gains = (np.array([getattr(p, what) for p in points]) for what in ("value", "gain"))
    slopes = np.diff(gains) / np.diff(values) if len(points) > 1 and values[-1] > values[0] else np.zeros(0)
    return replace(_collect(family, values, [p.solution for p in points], slopes, exact=True), limit=limit)


def _collect(
    family: _Family, values: Floats, solutions: list[Solution | None], slopes: Floats, *, exact: bool
) -> Frontier:
    K = family.problem.n_quotas
    nothing = np.full(K, np.nan)
    fair = [s for s in solutions if s is not None]
    return Frontier(
        quota=family.quota,
        values=values,
        gains=np.array([np.nan if s is None or s.status is Status.UNDECIDED else s.gain for s in solutions]),
        slopes=slopes,
        shares=np.array([nothing if s is None else s.shares for s in solutions]).reshape(values.size, K),
        solutions=tuple(fair),
        exact=exact,
        quota_names=family.problem.names,
    )
