"""Conditional quotas: of the time in some states, how much is to be in a set.

"Of the time in ``of``, at least the part b in G" is ``x(G and of) >= b x(of)`` for the shares ``x`` of the
pairs: a quota with the weights ``1 - b`` on what is in both, ``-b`` on the rest of ``of``, and the bound 0.
So solvers and certificates see no more than a quota with weights. With ``m = x(of)`` the mean ``v`` of these
weights is ``m`` times what the part is above b ::

    part = b + v / m,    price of a unit of b = price of a unit of v, times m
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, Ints, ReadOnly, as_share

VOID = 1e-6
"""Share of time up to which a condition is void: nothing is said of parts of so little.

Quotas are met within 1e-9 of all of the time, which is a thousandth of so much and all of it at 1e-9.
"""


@dataclass(frozen=True, eq=False)
class Condition(ReadOnly):
    """What quota number `quota` asks of the time in some states."""

    quota: int
    of: Ints  # sorted pairs of the states
    within: Ints  # those of them in the set
    bound: float  # part of the time in `of` that is to be in the set ...
    least: bool  # ... at least, or else at most

    def weights(self) -> Floats:
        """What each pair of `of` counts, beside a bound of 0."""
        return np.asarray(np.isin(self.of, self.within) - self.bound, float)

    def mass(self, x: Floats) -> float:
        """Share of time for which the condition holds."""
        return float(x[self.of].sum())


class ConditionalShare(NamedTuple):
    """A conditional quota in a solution: its number, its bound, and how much time its condition has."""

    quota: int
    bound: float
    least: bool  # whether the bound is one from below
    mass: float  # share of time for which the condition holds; NaN where there is no policy

    @property
    def void(self) -> bool:
        """Whether the condition has no time of which something could be said."""
        return not self.mass > VOID

    def part(self, value: float) -> float:
        """Part of that time in the set, from the mean of the weights; NaN where the condition is void."""
        return math.nan if self.void else min(max(self.bound + value / self.mass, 0.0), 1.0)


def within_condition(members: Ints, of: Ints, bound: float, *, least: bool) -> Ints:
    """Pairs of a set that are in the states of a condition, if a quota on these can be met or missed."""
    within = np.intersect1d(members, of)
    if not within.size:
        raise ProblemError("nothing of its set is in of\n  of that time, its part is always 0")
    if within.size == of.size:
        raise ProblemError("all of of is in its set\n  of that time, its part is always 1")
    if not 0 <= bound <= 1:
        raise ProblemError(f"its bound is {bound!r}, expected a part between 0 and 1\n  {as_share(bound)}")
    if bound == 1 and not least:
        raise ProblemError("at_most=1 asks for nothing\n  write at_least=0 to have its part reported")
    return within
