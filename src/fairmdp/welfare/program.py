"""A linear program that is grown while it is solved: columns and rows by name of what they touch."""

from __future__ import annotations

from collections.abc import Sequence

import highspy
import numpy as np

from fairmdp.backends.highs import quiet
from fairmdp.model.checks import Floats


class Program:
    """A maximisation in HiGHS that starts each run from the last basis."""

    def __init__(self) -> None:
        self._highs = quiet(
            presolve="off", primal_feasibility_tolerance=1e-10, dual_feasibility_tolerance=1e-10
        )
        self._highs.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def column(
        self, cost: float, low: float, high: float, rows: Sequence[int] = (), values: Sequence[float] = ()
    ) -> int:
        """Add a column with entries in rows that are there; returns its number."""
        at, entries = np.array(rows, np.int32), np.array(values, float)
        self._highs.addCol(cost, low, high, at.size, at, entries)
        return int(self._highs.getNumCol()) - 1

    def row(self, low: float, high: float, columns: Sequence[int] = (), values: Sequence[float] = ()) -> int:
        """Add a row with entries in columns that are there; returns its number."""
        at, entries = np.array(columns, np.int32), np.array(values, float)
        self._highs.addRow(low, high, at.size, at, entries)
        return int(self._highs.getNumRow()) - 1

    def cost(self, column: int, cost: float) -> None:
        """Change what a column earns."""
        self._highs.changeColCost(column, cost)

    def entry(self, row: int, column: int, value: float) -> None:
        """Change an entry."""
        self._highs.changeCoeff(row, column, value)

    def bounds(self, row: int, low: float, high: float) -> None:
        """Change the bounds of a row."""
        self._highs.changeRowBounds(row, low, high)

    @property
    def value(self) -> float:
        """What the last solution earns."""
        return float(self._highs.getInfo().objective_function_value)

    def run(self) -> tuple[Floats, Floats]:
        """Solve; values of the columns, and what one more unit on the right of each row would cost."""
        self._highs.run()
        solution = self._highs.getSolution()
        return np.array(solution.col_value), -np.array(solution.row_dual)
