"""Results as tables: columns by name, which any program takes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any

from fairmdp.files import write_bytes

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")  # what spreadsheets compute, or hide


class Table(dict[str, list[Any]]):
    """Columns of equal length by name: a plain ``dict``.

    ``pandas.DataFrame(table)``, ``polars.DataFrame(table)`` and ``pyarrow.table(table)`` take it as it is, so
    none of them is needed for it.

    Examples
    --------
    >>> from fairmdp import scenarios, solve
    >>> table = solve(scenarios.three_state()).to_table()
    >>> table
    Table(3 rows of quota, share, at_least, at_most, slack, price)
    >>> table["quota"]
    ['s0', 's1', 's2']
    """

    @classmethod
    def of(cls, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
        """Return the table that rows make, all as long as its head."""
        columns: list[list[Any]] = [[] for _ in head]
        for row in rows:
            for column, cell in zip(columns, row, strict=True):
                column.append(cell)
        return cls(zip(head, columns, strict=True))

    @property
    def rows(self) -> Iterator[tuple[Any, ...]]:
        """One tuple per row."""
        return zip(*self.values(), strict=True)

    def to_csv(self) -> str:
        """Return the table as CSV, with a line of names; of texts that a spreadsheet would compute, none is.

        A name that looks like a formula comes after an apostrophe, and so does one that begins with one:
        whoever takes one off from each has the names again.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([_guarded(cell) for cell in row] for row in (tuple(self), *self.rows))
        return text.getvalue()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the table as CSV, atomically."""
        write_bytes(path, self.to_csv().encode())

    def __repr__(self) -> str:
        count = len(next(iter(self.values()), ()))
        return f"Table({count} {'row' if count == 1 else 'rows'} of {', '.join(self)})"


def unguarded(text: str) -> str:
    """A cell of a table's CSV as it was."""
    return text[1:] if text.startswith("'") else text


def _guarded(cell: object) -> object:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
