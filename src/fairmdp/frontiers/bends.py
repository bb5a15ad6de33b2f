"""All bends of a frontier, exactly.

Two solutions with their prices are two tangents; where these meet, either the curve bends there or it lies
below, and two new intervals are searched (Eisner and Severance 1976). So all bends are found exactly, with
about two solutions for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmdp.certificate.checker import reward_scale
from fairmdp.errors import ProblemError
from fairmdp.frontiers.curve import Frontier
from fairmdp.frontiers.family import Family
from fairmdp.solution import Solution, Status
from fairmdp.solvers.lp import solve_lp

_SAME = 1e-9  # gains closer than this, relative to the span of the rewards, are the same
_EDGE = 1e-10  # share by which the curve stays inside the last feasible value


@dataclass(frozen=True, eq=False)
class _Tangent:
    """A solved point and the line that the curve lies below."""

    value: float
    gain: float
    slope: float
    solution: Solution

    def line(self, value: float) -> float:
        return self.gain + self.slope * (value - self.value)


def exact_frontier(family: Family) -> Frontier:
    """All bends between the first value and the last feasible one."""
    tol = _SAME * reward_scale(family.problem)

    def touch(value: float) -> _Tangent:
        solution = family.solve(value, solve_lp)
        if solution is None or not solution.has_policy or solution.status is Status.UNDECIDED:
            raise ProblemError(f"no certified solution at {family.quota} = {value:.12g}")
        return _Tangent(value, solution.gain, -family.price(solution), solution)

    last, limit = family.last()
    left = touch(family.first)
    try:
        right = touch(last)
    except ProblemError:  # rounding has put the last feasible value just outside
        inside = last - family.direction * float(family.units.spans(np.array(_EDGE)))
        right = touch(family.first if family.direction * (inside - family.first) < 0 else inside)
    bends: list[_Tangent] = []
    todo = [(left, right)]
    while todo:
        a, b = todo.pop()
        if abs(a.line(b.value) - b.gain) <= tol or abs(b.line(a.value) - a.gain) <= tol:
            continue  # one segment joins them
        meet = (b.gain - a.gain + a.slope * a.value - b.slope * b.value) / (a.slope - b.slope)
        low, high = sorted((a.value, b.value))
        middle = touch(min(max(meet, low), high))
        if abs(middle.gain - a.line(middle.value)) <= tol:
            bends.append(middle)
        else:
            todo += [(a, middle), (middle, b)]
    ends = [left, right] if right.value != left.value else [left]
    points = sorted([*ends, *bends], key=lambda t: family.direction * t.value)
    values = np.array([p.value for p in points])
    return Frontier.of(family, values, [p.solution for p in points], exact=True, limit=limit)
