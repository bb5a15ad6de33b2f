"""A frontier: gains, prices and shares against what is owed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fairmdp.certificate import reward_scale
from fairmdp.errors import ProblemError
from fairmdp.frontiers.family import ALL, Family
from fairmdp.model.checks import Floats, ReadOnly
from fairmdp.solution.solution import Solution, Status
from fairmdp.tables import Table

SAME = 1e-9
"""Gains closer than this, relative to the span of the rewards, are the same."""


_COLUMNS = ("value", "gain", "upper", "worst_slack", "price_of_fairness", "relative_price")


class ShadowPrice(NamedTuple):
    """What one more unit owed costs, and where that holds; a cap's price is negative, more of it pays.

    A price is not unique at a breakpoint or an end, and nowhere else: the prices that a degenerate dual
    leaves open are the slopes between those on the left and on the right. All bounds are proved, by the
    certified gains and ceilings of the neighbours and by concavity; without that there are none.
    """

    price: float
    """The price with which the ceiling there is proved."""
    low: float
    """No shadow price there is lower."""
    high: float
    """None is higher. Where the curve ends, one of the two is infinite."""
    start: float
    """From here"""
    stop: float
    """to here the gain falls by `price` for each unit of the bound, within the tolerance of the solutions."""
    unique: bool | None
    """Whether there is one price only; None where the given values do not tell."""


@dataclass(frozen=True, eq=False)
class Frontier(ReadOnly):
    """Best gain against what is owed, or against a cap.

    Attributes
    ----------
    quota : str
        The quota that moves, or ``*`` for a common factor on all of them.
    bound : str
        Which bound of the quota moves, ``at_least`` or ``at_most``.
    values : ndarray
        The bound at each point, in the units that the quota was stated in, (N,), in the order in which more
        is asked: what is owed ascends, a cap descends. An exact frontier has its ends and breakpoints.
    gains : ndarray
        Best gain at each value, (N,); NaN where no policy is fair.
    uppers : ndarray
        Proven ceiling at each value, (N,); NaN where no policy is fair.
    duals : ndarray
        Price of a unit of the bound with which each ceiling is proved, (N,): what is owed has prices of 0 or
        more, a cap of 0 or less. `shadow_prices` says where it holds.
    shares : ndarray
        Share of every quota's set, or mean of its weights, under the optimal policy, (N, K).
    solutions : tuple of Solution
        The certified solutions at the first values, up to the first that cannot be met.
    per : str or None
        What gains are per, where that is not a step.
    limit : float or None
        Proven, no policy meets more than this, of a cap less; None where no value was too much.
    exact : bool
        Whether `values` are all ends and breakpoints of the curve.
    quota_names : tuple of str
        Names of the K quotas.
    unit : float
        Span of the rewards, in which gaps are judged.
    concave : bool
        Whether the curve is concave up to the last value, so that what is proved at some values bounds it
        between them. It need not be where runs can end differently and each of them has to meet the quota.
    """

    quota: str
    values: Floats
    gains: Floats
    uppers: Floats
    duals: Floats
    shares: Floats
    solutions: tuple[Solution, ...]
    exact: bool
    quota_names: tuple[str, ...]
    unit: float
    limit: float | None = None
    bound: str = "at_least"
    per: str | None = None
    concave: bool = True

    @classmethod
    def of(
        cls,
        family: Family,
        values: Floats,
        solutions: Sequence[Solution],
        *,
        exact: bool,
        limit: float | None,
    ) -> Frontier:
        """Collect solutions, which may be fewer than the values: no policy meets the others."""
        problem, beyond = family.problem, values.size - len(solutions)
        proved = [s.has_policy and s.status is not Status.UNDECIDED for s in solutions] + [False] * beyond

        def known(number: Callable[[Solution], float]) -> Floats:
            return np.where(proved, [*map(number, solutions), *[np.nan] * beyond], np.nan)

        nothing = np.full((beyond, problem.n_quotas), np.nan)
        return cls(
            quota=family.quota,
            values=values,
            gains=known(lambda s: s.gain),
            uppers=known(lambda s: s.upper),
            duals=known(family.price),
            shares=np.vstack([*([row.share for row in s.quotas] for s in solutions), nothing]),
            solutions=tuple(solutions),
            exact=exact,
            quota_names=problem.names,
            unit=reward_scale(problem),
            limit=limit,
            bound=family.bound,
            per=problem.mdp.per,
            concave=exact or family.concave,
        )

    @property
    def is_factor(self) -> bool:
        """Whether a factor on everything that is owed moves, and not one quota."""
        return self.quota == ALL

    @cached_property
    def slopes(self) -> Floats:
        """Change of gain per unit of the bound: exact on each segment, (N - 1,); else at each value, (N,).

        Those of segments join ceilings: policies whose classes had to be connected lie a little below.
        """
        return (np.diff(self.uppers) / np.diff(self.values) if self.exact else -self.duals) + 0.0

    @property
    def breakpoints(self) -> Floats:
        """Values at which the slope changes, the last feasible one included, (B,)."""
        if not self.exact:
            raise ProblemError(
                "this frontier was computed at given values; leave values out for its breakpoints"
            )
        return self.values[1:]

    @property
    def last_feasible(self) -> float:
        """Largest value of the frontier that can be met, smallest of a cap; NaN where none can."""
        return float(self.values[self._met[-1]]) if self._met else math.nan

    @cached_property
    def prices(self) -> Floats:
        """Price of fairness at each value: gain given up against the first value, (N,)."""
        return self.gains[0] - self.gains

    @cached_property
    def relative_prices(self) -> Floats:
        """Price of fairness as a part of the first value's gain, (N,); NaN where that gain is 0."""
        first = abs(float(self.gains[0]))
        return self.prices / first if first > 0 else np.full(self.values.size, np.nan)

    @cached_property
    def share_changes(self) -> Floats:
        """Who pays: change of every quota's share against the first value, (N, K)."""
        return self.shares - self.shares[0]

    @cached_property
    def shadow_prices(self) -> tuple[ShadowPrice, ...]:
        """Price of a unit of the bound at each value that can be met."""
        return tuple(map(self._price_at, self._met))

    @cached_property
    def worst_slacks(self) -> Floats:
        """Smallest slack of a quota at each value, (N,); NaN where there is no policy."""
        worst = [s.worst_slack if s.has_policy else math.nan for s in self.solutions]
        return np.array(worst + [math.nan] * (self.values.size - len(worst)))

    @cached_property
    def segments(self) -> tuple[ShadowPrice | None, ...]:
        """Exact: price of the segment that begins at a value. Else the price there, or what is proved."""
        return tuple(map(self._segment, range(self.values.size)))

    def to_table(self) -> Table:
        """Return one row per value: gain, all that is known of the price, the share of every quota."""
        columns = [self.values, self.gains, self.uppers, self.worst_slacks, self.prices, self.relative_prices]
        unknown = (None,) * len(ShadowPrice._fields)
        rows = zip(*(column.tolist() for column in columns), self.segments, self.shares.tolist(), strict=True)
        return Table.of(
            (*_COLUMNS, *ShadowPrice._fields, *(f"share_{name}" for name in self.quota_names)),
            ((*numbers, *(segment or unknown), *shares) for *numbers, segment, shares in rows),
        )

    def gain_at(self, value: float) -> float:
        """Best gain at any value, by interpolation along the exact segments."""
        self._require_exact(value)
        return float(np.interp(self._way * value, self._way * self.values, self.gains))

    def shadow_price(self, value: float) -> ShadowPrice:
        """Price of a unit of the bound at any value of an exact frontier, or at a given one."""
        at = np.flatnonzero(self.values == value)
        if at.size and int(at[0]) in self._met:
            return self._price_at(int(at[0]))
        self._require_exact(value)
        k = int(np.searchsorted(self._way * self.values, self._way * value)) - 1
        price = self._way * max(0.0, -self._way * float(self.slopes[k])) + 0.0
        start, stop = sorted(self.values[k : k + 2].tolist())
        return ShadowPrice(price, price, price, start, stop, True)

    @property
    def _met(self) -> list[int]:
        return np.flatnonzero(np.isfinite(self.gains)).tolist()

    @property
    def _way(self) -> float:
        """Sign of a change that asks for more."""
        return -1.0 if self.bound == "at_most" else 1.0

    def _segment(self, k: int) -> ShadowPrice | None:
        if not math.isfinite(self.gains[k]) or (self.exact and k == self.values.size - 1):
            return None
        return self.shadow_price(float(self.values[k : k + 2].mean() if self.exact else self.values[k]))

    def _require_exact(self, value: float) -> None:
        if not self.exact:
            raise ProblemError("between given values the gain is not known; leave values out for all of it")
        low, high = sorted(self.values[[0, -1]].tolist())
        if not low <= value <= high:
            raise ProblemError(f"{value} is outside of the feasible values, {low:.6g} to {high:.6g}")

    def _price_at(self, j: int) -> ShadowPrice:
        """Price at point j: where the curve is concave, chords to its neighbours bound its slopes there."""
        if not self.concave:
            sides = (0.0, math.inf) if self._way > 0 else (-math.inf, 0.0)
            value = float(self.values[j])
            return ShadowPrice(float(self.duals[j]), *sides, value, value, None)
        at = self._met.index(j)
        before, after = self._met[:at], self._met[at + 1 :]
        low, high, blur = 0.0, math.inf, 0.0  # blur: by how much gaps alone may part the two chords
        for i in before[-1:]:
            low = max(-self._chord(i, j), 0.0)
            blur += self._blur(i, j)
        for i in after[:1]:
            high = max(self._chord(i, j), 0.0)
            blur += self._blur(i, j)
        one = high - low <= blur + SAME * self.unit
        unique = (one and not before) if self.exact else (one or None)
        holds = [*self._along(j, before[::-1]), j, *self._along(j, after)]
        start, stop = sorted(self.values[[min(holds), max(holds)]].tolist())
        low, high = (low, high) if self._way > 0 else (-high, 0.0 - low)
        return ShadowPrice(float(self.duals[j]), low, high, start, stop, unique)

    def _chord(self, i: int, j: int) -> float:
        """Fall per unit from the ceiling at j to the gain at i."""
        return float((self.uppers[j] - self.gains[i]) / abs(self.values[i] - self.values[j]))

    def _blur(self, i: int, j: int) -> float:
        gaps = (self.uppers - self.gains)[[i, j]].sum()
        return float(gaps / abs(self.values[i] - self.values[j]))

    def _along(self, j: int, others: list[int]) -> list[int]:
        """Points, from j on, at which the ceiling of j's prices is attained: so it is all the way to them."""
        tol = (SAME if self.exact else self.solutions[j].tol) * self.unit
        reached = []
        for i in others:
            ceiling = self.uppers[j] - self.duals[j] * (self.values[i] - self.values[j])
            if ceiling - self.gains[i] > tol:
                break
            reached.append(i)
        return reached

    def __repr__(self) -> str:
        kind = "exact" if self.exact else "at given values"
        points = f"{self.values.size} points, last feasible {self.last_feasible:.6g}"
        what = f"cap of {self.quota}" if self.bound == "at_most" else self.quota
        return f"Frontier({what}, {kind}, {points})"
