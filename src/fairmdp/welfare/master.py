"""The master program of a welfare: mixtures of policies, quotas, and what the utilities are worth together.

::

    maximise    sum_j w_j gain_j + W(z) - penalty * broken
    subject to  sum w = 1,   at_least - broken <= sum_j w_j G x_j <= at_most + broken,   sum_j w_j u_j = z

The price of a quota and the worth of a utility are the duals of its row. A group that a welfare does not
count (in leximin those of earlier levels) may have a quota in its own row instead. W is described by tangents
and rows from above (`shapes`), which are added until they are as near as asked; the value that is reported is
W at the mixture, never the program's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmdp.backends.highs import INFINITE
from fairmdp.model.checks import Floats
from fairmdp.solvers.columns import PENALTIES, Column
from fairmdp.solvers.prices import dual_value
from fairmdp.welfare.program import Program
from fairmdp.welfare.shapes import Shape

_CUTS = 60  # rounds of tangents for one set of columns


@dataclass(frozen=True, eq=False)
class Scaled:
    """Rows that are utilities, and their shares in units of the largest: ``z = offset + scale s``."""

    rows: slice
    offset: Floats  # (K,)
    scale: Floats  # (K,)

    def of(self, shares: Floats) -> Floats:
        """Scaled utilities of some shares of all rows."""
        return self.offset + self.scale * shares[self.rows]


class WelfareMaster:
    """A master with the interface of `columns.Mixture`."""

    def __init__(self, low: Floats, high: Floats, utilities: Scaled, shape: Shape) -> None:
        self._lower, self._upper = np.flatnonzero(np.isfinite(low)), np.flatnonzero(np.isfinite(high))
        self._utilities, self._shape, self._n_rows = utilities, shape, low.size
        self.penalty = PENALTIES[0]
        self.accuracy = 0.0  # of the value, below which no more tangents are added
        program = self._program = Program()
        self._sum = program.row(1.0, 1.0)
        at_least = [program.row(low[k], INFINITE) for k in self._lower]
        at_most = [program.row(-INFINITE, high[k]) for k in self._upper]
        self._bounds = at_least, at_most
        self._links = [program.row(0.0, 0.0) for _ in utilities.scale]
        self._stretch = [program.column(0.0, 0.0, INFINITE, [row], [1.0]) for row in at_least]
        self._stretch += [program.column(0.0, 0.0, INFINITE, [row], [-1.0]) for row in at_most]
        # Free, as bounds of the box would take a part of the price.
        self._z = [program.column(0.0, -INFINITE, INFINITE, [link], [-1.0]) for link in self._links]
        shape.enter(program, self._z)
        self._columns: list[int] = []
        self._gains: list[float] = []

    def ceiling(self, top: float, mu: Floats, low: Floats, high: Floats) -> float:
        """What the master's value cannot exceed, by prices mu and the largest error top of some values."""
        rows, is_open = self._utilities.rows, self._shape.is_open
        owed, q = mu.copy(), np.where(is_open, mu[rows], 0.0) / self._utilities.scale
        owed[rows][is_open] = 0.0
        return (
            top - dual_value(owed, low, high) + float(q @ self._utilities.offset) + self._shape.conjugate(q)
        )

    def add(self, column: Column) -> None:
        """Add a column."""
        rows, entries = self._entries(column)
        self._columns.append(self._program.column(column.gain, 0.0, INFINITE, rows, entries))
        self._gains.append(column.gain)

    def change(self, j: int, column: Column) -> None:
        """Replace column j."""
        self._program.cost(self._columns[j], column.gain)
        self._gains[j] = column.gain
        for row, value in zip(*self._entries(column), strict=True):
            self._program.entry(row, self._columns[j], value)

    def tighten(self, low: Floats, high: Floats) -> None:
        """Change the bounds of the quotas."""
        for row, k in zip(self._bounds[0], self._lower, strict=True):
            self._program.bounds(row, low[k], INFINITE)
        for row, k in zip(self._bounds[1], self._upper, strict=True):
            self._program.bounds(row, -INFINITE, high[k])

    def solve(self) -> tuple[float, Floats, Floats, float]:
        """Value at the mixture, prices (rows,), weights of the columns, and by how much quotas are broken."""
        for column in self._stretch:
            self._program.cost(column, -self.penalty)
        for _ in range(_CUTS):
            values, duals = self._program.run()
            weights, broken = np.maximum(values[self._columns], 0.0), float(values[self._stretch].sum())
            z = np.clip(values[self._z], self._shape.box.low, self._shape.box.high)
            value = float(weights @ self._gains) + self._shape.value(z) - self.penalty * broken
            if self._program.value - value <= self.accuracy or not self._shape.cut(self._program, values):
                break
        mu = np.zeros(self._n_rows)
        mu[self._lower] += np.maximum(duals[self._bounds[0]], 0)
        mu[self._upper] += np.minimum(duals[self._bounds[1]], 0)
        worth = duals[self._links] * self._utilities.scale
        if self._shape.monotone:
            worth = np.maximum(worth, 0.0)
        mu[self._utilities.rows][self._shape.is_open] = worth[self._shape.is_open]
        return value, mu, weights, broken

    def _entries(self, column: Column) -> tuple[list[int], list[float]]:
        shares = column.shares
        values = [1.0, *shares[self._lower], *shares[self._upper], *self._utilities.of(shares)]
        return [self._sum, *self._bounds[0], *self._bounds[1], *self._links], [float(v) for v in values]
