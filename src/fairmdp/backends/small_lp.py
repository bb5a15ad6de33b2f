"""Small linear programs in whole numbers, for those on which HiGHS gives no verdict.

Where a model hardly moves but for parts of 1e-9, every basis is nearly singular, and floats may neither
confirm a point nor exclude one. The simplex method below rounds nothing: rows are scaled to whole numbers and
stay whole when they are pivoted [1]_. It ends, since Bland's rule [2]_ follows a step that gains nothing.

Bounds that contradict each other by a rounding error are missed by the least: what misses them is made as
small as can be, then the cost among the points that miss as little. Equalities are missed last of all.

References
----------
.. [1] Bareiss, Sylvester's identity and multistep integer-preserving Gaussian elimination, Math. Comp. 1968.
.. [2] Bland, New finite pivoting rules for the simplex method, Math. Oper. Res. 1977.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isfinite, lcm
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairmdp.backends.highs import Point
from fairmdp.model.checks import Floats

_DEAR = 2**40  # what a missed equality costs beside a missed bound

Whole = NDArray[np.object_]
"""Python's whole numbers, of any size."""


class _Line(NamedTuple):
    """A row as ``sign * (a @ x) = or >= right``, all times its scale."""

    row: int
    sign: int
    scale: int
    equal: bool


def least_cost(
    cost: Floats, matrix: Floats, low: Floats, high: Floats, *, room: float, check: Callable[[], None]
) -> Point | None:
    """Minimise ``cost @ x`` over ``x >= 0`` with ``low <= matrix @ x <= high``, exactly.

    Parameters
    ----------
    cost, matrix, low, high
        The program; bounds may be infinite.
    room
        How far bounds may be missed in all where they contradict each other.
    check
        Called before every pivot; may raise.

    Returns
    -------
    Point or None
        None where every x misses the bounds by more. If there is `room` in use, prices are as high as they
        have to be for the multipliers to prove a bound.
    """
    n = cost.size
    lines: list[_Line] = []
    left: list[list[int]] = []
    for i, (a, lowest, highest) in enumerate(zip(matrix.tolist(), low.tolist(), high.tolist(), strict=True)):
        equal = lowest == highest
        for bound, sign in ((lowest, 1), (highest, -1))[: 1 if equal else 2]:
            if not isfinite(bound):
                continue
            sign = -sign if equal and bound < 0 else sign
            whole, scale = _whole([*a, bound])
            lines.append(_Line(i, sign, scale, equal))
            left.append([sign * v for v in whole])
    m, unequal = len(lines), [k for k, line in enumerate(lines) if not line.equal]
    # Columns: x, what each bound is exceeded by, what each line is short of; then the right side.
    table: Whole = np.zeros((m + 2, n + len(unequal) + m + 1), dtype=object)
    if m:
        rows: Whole = np.array(left, dtype=object)
        table[:m, :n], table[:m, -1] = rows[:, :n], rows[:, n]
    short = n + len(unequal)
    for j, k in enumerate(unequal):
        table[k, n + j] = -1
    prices, unit = _whole(cost.tolist())
    table[m, :n] = prices
    # In units of one line's scale, so that all costs of being short are whole, too.
    common = lcm(*(line.scale for line in lines))
    dues: Whole = np.array(
        [common // line.scale * (_DEAR if line.equal else 1) for line in lines], dtype=object
    )
    basis = []
    for k in range(m):
        table[k, short + k] = 1
        if table[k, -1] < 0 or (
            table[k, -1] == 0 and not lines[k].equal
        ):  # met by nothing: no need to be short
            table[k] = -table[k]
            basis.append(n + unequal.index(k))
        else:
            basis.append(short + k)
    table[m + 1, short:-1] = dues
    for k, column in enumerate(basis):
        if column >= short:
            table[m + 1] -= dues[k] * table[k]
    tableau = _Tableau(table, basis, check)
    tableau.descend(m + 1, np.arange(table.shape[1] - 1))
    missed = Fraction(-table[m + 1, -1], tableau.size * common)
    if missed > Fraction(room):
        return None
    tableau.descend(m, np.flatnonzero(table[m + 1, :-1] == 0))
    return _point(tableau, lines, matrix.shape, short, unit, dues)


def _point(
    tableau: _Tableau, lines: list[_Line], shape: tuple[int, ...], short: int, unit: int, dues: Whole
) -> Point:
    """Where a tableau ended, in floats."""
    table, size, m = tableau.table, tableau.size, len(lines)
    columns = np.zeros(shape[1])
    for k, column in enumerate(tableau.basis):
        if column < shape[1]:
            columns[column] = Fraction(table[k, -1], size)
    cost, miss = table[m, :-1], table[m + 1, :-1]
    # Columns that would miss more were left out: the price of missing that makes up for what they would save.
    dear = max(
        (Fraction(-c, d) for c, d in zip(cost[:short], miss[:short], strict=True) if d > 0 > c),
        default=Fraction(0),
    )
    duals = np.zeros(shape[0])
    for k, line in enumerate(lines):
        by_cost, by_miss = Fraction(-cost[short + k], size), dues[k] - Fraction(miss[short + k], size)
        duals[line.row] += (by_cost + dear * by_miss) * line.sign * line.scale / unit
    return Point(columns, duals, float(Fraction(-table[m, -1], size * unit)), tableau.pivots)


class _Tableau:
    """A simplex tableau whose entries are whole numbers over one size, with several costs below."""

    def __init__(self, table: Whole, basis: list[int], check: Callable[[], None]) -> None:
        self.table, self.basis, self.size, self.pivots, self._check = table, basis, 1, 0, check

    def descend(self, goal: int, allowed: NDArray[Any]) -> None:
        """Pivot until none of the allowed columns lowers the cost in row `goal`."""
        m, stuck = len(self.basis), False
        while True:
            costs = self.table[goal, allowed]
            falling = np.flatnonzero(costs < 0)
            if falling.size == 0:
                return
            self._check()
            c = int(allowed[falling[0] if stuck else falling[int(np.argmin(costs[falling]))]])
            ratios = [
                (Fraction(self.table[k, -1], self.table[k, c]), self.basis[k], k)
                for k in range(m)
                if self.table[k, c] > 0
            ]
            ratio, _, r = min(ratios)
            stuck = ratio == 0
            self._pivot(r, c)

    def _pivot(self, r: int, c: int) -> None:
        row, pivot = self.table[r].copy(), self.table[r, c]
        self.table[:] = (pivot * self.table - np.outer(self.table[:, c], row)) // self.size
        self.table[r] = row
        self.size, self.basis[r], self.pivots = pivot, c, self.pivots + 1


def _whole(values: list[float]) -> tuple[list[int], int]:
    """Values times their common denominator, and that."""
    ratios = [value.as_integer_ratio() for value in values]
    scale = max(below for _, below in ratios)  # powers of two
    return [above * (scale // below) for above, below in ratios], scale
