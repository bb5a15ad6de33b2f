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

from collections.abc import Callable, Sequence
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
    cost: Floats,
    matrix: Floats,
    low: Floats,
    high: Floats,
    *,
    conserving: int = 0,
    room: float,
    check: Callable[[], None],
) -> Point | None:
    """Minimise ``cost @ x`` over ``x >= 0`` with ``low <= matrix @ x <= high``, exactly.

    Parameters
    ----------
    cost, matrix, low, high
        The program; bounds may be infinite.
    conserving
        How many of the first rows sum to 0 in every column, but for rounding errors: these are taken off the
        largest entry of the column there. Equalities that follow from each other would have no point at all.
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
    lines, left = _lines(_balanced(matrix, conserving), low.tolist(), high.tolist())
    n, m = cost.size, len(lines)
    unequal = [k for k, line in enumerate(lines) if not line.equal]
    # Columns: x, what each bound is exceeded by, what each line is short of; then the right side.
    short = n + len(unequal)
    table: Whole = np.zeros((m + 2, short + m + 1), dtype=object)
    table[:m, :n], table[:m, -1] = left[:, :n], left[:, n]
    table[unequal, n + np.arange(len(unequal))] = -1
    table[np.arange(m), short + np.arange(m)] = 1
    basis = [short + k for k in range(m)]
    for j, k in enumerate(unequal):
        if table[k, -1] <= 0:  # met by nothing: no need to be short
            table[k], basis[k] = -table[k], n + j
    table[m, :n], unit = _whole(cost.tolist())
    # Being short costs the same for each line in its own units: in those of all of them, whole numbers.
    common = lcm(*(line.scale for line in lines))
    dues: Whole = np.array(
        [common // line.scale * (_DEAR if line.equal else 1) for line in lines], dtype=object
    )
    table[m + 1, short:-1] = dues
    for k, column in enumerate(basis):
        if column >= short:
            table[m + 1] -= dues[k] * table[k]
    tableau = _Tableau(table, basis, check)
    tableau.descend(m + 1, np.arange(short + m))
    missed = Fraction(-table[m + 1, -1], tableau.size * common)
    if missed > Fraction(room):
        return None
    if missed == 0:
        tableau.drive_out(short)
        tableau.descend(m, np.arange(short))
        dear = Fraction(0)
    else:  # among points that miss as little; the others at the price that makes up for what they would save
        tableau.descend(m, np.flatnonzero(table[m + 1, :-1] == 0))
        save = zip(table[m, :short], table[m + 1, :short], strict=True)
        dear = max((Fraction(-cost, more) for cost, more in save if more > 0 > cost), default=Fraction(0))
    columns = np.zeros(n)
    for k, column in enumerate(tableau.basis):
        if column < n:
            columns[column] = Fraction(table[k, -1], tableau.size)
    duals = np.zeros(low.size)
    for k, line in enumerate(lines):
        by_cost, by_miss = (Fraction(-table[goal, short + k], tableau.size) for goal in (m, m + 1))
        duals[line.row] += (by_cost + dear * (dues[k] + by_miss)) * line.sign * line.scale / unit
    return Point(columns, duals, float(Fraction(-table[m, -1], tableau.size * unit)), tableau.pivots)


def _lines(
    rows: list[list[float | Fraction]], low: list[float], high: list[float]
) -> tuple[list[_Line], Whole]:
    """One line for each finite bound, and what stands in it, (lines, columns + 1)."""
    lines, left = [], []
    for i, (a, lowest, highest) in enumerate(zip(rows, low, high, strict=True)):
        equal = lowest == highest
        for bound, sign in ((lowest, 1), (highest, -1))[: 1 if equal else 2]:
            if isfinite(bound):
                sign = -1 if equal and bound < 0 else sign
                whole, scale = _whole([*a, bound])
                lines.append(_Line(i, sign, scale, equal))
                left.append([sign * v for v in whole])
    return lines, np.array(left, dtype=object)


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

    def drive_out(self, first: int) -> None:
        """Let columns from `first` on, which are 0, leave the basis, but for rows that follow from others."""
        for r, column in enumerate(self.basis):
            entries = np.flatnonzero(self.table[r, :first]) if column >= first else np.zeros(0)
            if entries.size:
                if self.table[r, entries[0]] < 0:
                    self.table[r] = -self.table[r]
                self._pivot(r, int(entries[0]))

    def _pivot(self, r: int, c: int) -> None:
        row, pivot = self.table[r].copy(), self.table[r, c]
        self.table[:] = (pivot * self.table - np.outer(self.table[:, c], row)) // self.size
        self.table[r] = row
        self.size, self.basis[r], self.pivots = pivot, c, self.pivots + 1


def _balanced(matrix: Floats, conserving: int) -> list[list[float | Fraction]]:
    """Rows of a matrix, of which the first sum to exactly 0 in every column."""
    rows: list[list[float | Fraction]] = matrix.tolist()
    largest = np.abs(matrix[:conserving]).argmax(axis=0).tolist() if conserving else []
    for j, i in enumerate(largest):
        others = (Fraction(row[j]) for k, row in enumerate(rows[:conserving]) if k != i)
        rows[i][j] = -sum(others, Fraction(0))
    return rows


def _whole(values: Sequence[float | Fraction]) -> tuple[list[int], int]:
    """Values times their common denominator, and that."""
    ratios = [value.as_integer_ratio() for value in values]
    scale = max(below for _, below in ratios)  # powers of two
    return [above * (scale // below) for above, below in ratios], scale
