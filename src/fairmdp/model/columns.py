"""Tables of any origin as named columns: data frames, Arrow, dictionaries, CSV and Parquet files.

Nothing is imported to read a data frame: pandas, polars and Arrow all give their columns by name. Where a
row came from is kept, so that a message can name the line of the file, or the row of the frame.
"""

from __future__ import annotations

import csv
import io
import os
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmdp.errors import FormatError, ProblemError
from fairmdp.files import read_bytes
from fairmdp.model.checks import Floats, first, there_are

MAX_BYTES = 2**31 - 1
"""Largest table file that is read."""

SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
_DELIMITERS = ",;\t"


@dataclass(frozen=True)
class Table:
    """Columns by name, as lists of values, and what messages call their rows."""

    columns: Mapping[str, list[Any]]
    place: Callable[[int], str]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), []))

    def named(self, wanted: str) -> str | None:
        """The column of a name, whatever its capitals and outer spaces."""
        small = {name.strip().casefold(): name for name in self.columns}
        return small.get(wanted.strip().casefold())

    def column(self, wanted: str, role: str) -> str:
        """The column of a name, which must be there."""
        found = self.named(wanted)
        if found is None:
            known = there_are(list(self.columns), wanted) or "; there are no columns at all"
            records = (
                "\n  without probabilities these may be records of what was done: fairmdp learn, fairmdp.Log"
            )
            option = "--reward NAME" if role == "reward" else f"-p {role}=NAME"
            raise ProblemError(
                f"there is no column {wanted!r}{known}\n"
                f"  say which column it is: columns={{{role!r}: ...}}, or {option} on the command line"
                f"{records if role == 'probability' else ''}"
            )
        return found

    def values(self, name: str) -> list[Any]:
        """Values of a column, none of them missing."""
        values = self.columns[name]
        missing = {value for value in set(_hashable(values, name)) if is_missing(value)}
        if missing:
            k = next(k for k, value in enumerate(values) if is_missing(value))
            count = sum(map(is_missing, values))
            raise ProblemError(f"{self.place(k)}: {name} is missing; {count} of {len(values)} rows lack it")
        return values

    def numbers(self, name: str) -> Floats:
        """Values of a column as finite numbers, (rows,); ``25%``, ``1/3`` and ``0,5`` are read, too."""
        values = self.columns[name]
        try:
            numbers = np.array(values, dtype=float)
        except (TypeError, ValueError):
            numbers = np.array([self._number(k, value, name) for k, value in enumerate(values)])
        if numbers.shape == (len(values),) and (k := first(~np.isfinite(numbers))) is None:
            return numbers
        k = k if numbers.ndim == 1 and k is not None else 0
        what = f"is {values[k]!r}, expected a finite number"
        if is_missing(values[k]):
            what = f"is missing; {sum(map(is_missing, values))} of {len(values)} rows lack it"
        raise ProblemError(f"{self.place(k)}: {name} {what}")

    def _number(self, k: int, value: Any, name: str) -> float:
        if is_missing(value):
            return np.nan
        try:
            return _read(value) if isinstance(value, str) else float(value)
        except (TypeError, ValueError, ZeroDivisionError):
            raise ProblemError(f"{self.place(k)}: {name} is {value!r}, expected a number") from None


def table_of(source: Any) -> Table:
    """Return what somebody calls a table as named columns."""
    if isinstance(source, str | os.PathLike):
        return _from_file(os.fsdecode(source))
    if isinstance(source, Mapping):
        columns = {str(name): _listed(values) for name, values in source.items()}
    elif isinstance(source, Sequence) and source and all(isinstance(row, Mapping) for row in source):
        columns = {str(name): [row.get(name) for row in source] for name in source[0]}
    else:
        source = _arrow(source) if _streams_only(source) else source
        names = getattr(source, "column_names", None) or getattr(source, "columns", None)
        if names is None:
            raise ProblemError(
                f"a {type(source).__name__} is not a table\n"
                "  give a data frame, an Arrow table, a dictionary of columns, a list of dictionaries, "
                "or the path of a .csv file"
            )
        columns = {str(name): _listed(source[name]) for name in names}
    return _checked(Table(columns, lambda k: f"row {k} (from 0)"))


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: nothing, blank text, not a number, or what pandas writes for it."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _from_file(path: str) -> Table:
    ending = os.path.splitext(path)[1].lower()
    if ending == ".parquet":
        return _checked(Table(table_of(_parquet(path)).columns, lambda k: f"row {k} (from 0)"))
    if ending in SPREADSHEETS:
        raise FormatError(f"a spreadsheet ({ending}) is not read\n  save its sheet as CSV (UTF-8)")
    return _from_csv(read_bytes(path, MAX_BYTES))


def _from_csv(data: bytes) -> Table:
    """Columns of a CSV text: commas, semicolons or tabs, a header, blank rows left out."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError(f"line {line} is not UTF-8 text\n  save the sheet as CSV UTF-8") from None
    head = next((line for line in text.splitlines() if line.strip()), "")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(_DELIMITERS, key=head.count))
    try:
        names = _header(reader)
        cells, lines = _cells(reader, len(names))
    except csv.Error as error:
        raise FormatError(f"line {reader.line_num}: {error}") from None
    return _checked(Table(dict(zip(names, cells, strict=True)), lambda k: f"line {lines[k]}"))


def _header(rows: Iterable[list[str]]) -> list[str]:
    """Names of the columns, without those of empty cells behind the last one."""
    names = next((list(map(str.strip, row)) for row in rows if any(map(str.strip, row))), [])
    while names and not names[-1]:
        names.pop()
    if not names:
        raise FormatError("there is nothing in it, expected a line with the names of the columns")
    if odd := next((name for k, name in enumerate(names) if name in names[:k]), None):
        raise FormatError(
            f"two columns have the same name, {odd!r}\n  the first line is to name the columns; this one is "
            f"{', '.join(names[:6])}"
        )
    if not all(names):
        raise FormatError(
            f"column {names.index('') + 1} has no name\n  the first line is to name the columns"
        )
    return names


def _cells(reader: Any, width: int) -> tuple[list[list[str]], Sequence[int]]:
    """Cells of each column, and the line of each row; blank rows and spare empty cells are left out."""
    columns: list[list[str]] = [[] for _ in range(width)]
    lines = array("q")
    for row in reader:
        if len(row) != width or not row[0].strip():
            if not any(map(str.strip, row)):
                continue
            if len(row) < width or any(map(str.strip, row[width:])):
                raise FormatError(
                    f"line {reader.line_num} has {len(row)} cells, the first line names {width} columns"
                )
        lines.append(reader.line_num)
        for column, cell in zip(columns, row, strict=False):
            column.append(cell.strip())
    return columns, lines


def _parquet(path: str) -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise FormatError("reading Parquet needs pyarrow: pip install pyarrow, or save as CSV") from None
    try:
        return pyarrow.parquet.read_table(io.BytesIO(read_bytes(path, MAX_BYTES)))
    except pyarrow.ArrowException as error:
        raise FormatError(f"not a Parquet file, or damaged: {error}") from None


def _streams_only(source: Any) -> bool:
    """Whether Arrow's C stream is all that a table offers."""
    named = hasattr(source, "column_names") or hasattr(source, "columns")
    return hasattr(source, "__arrow_c_stream__") and not (named and hasattr(source, "__getitem__"))


def _arrow(source: Any) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ProblemError(f"reading a {type(source).__name__} needs pyarrow: pip install pyarrow") from None
    return pyarrow.table(source)


def _listed(values: Any) -> list[Any]:
    """A column as a list of Python's own objects."""
    for name in ("to_pylist", "to_list", "tolist"):
        if hasattr(values, name):
            return list(getattr(values, name)())
    return list(values)


def _checked(table: Table) -> Table:
    """The table, if its columns are equally long and hold something."""
    lengths = {name: len(values) for name, values in table.columns.items()}
    if len(set(lengths.values())) > 1:
        raise ProblemError(f"the columns have different lengths: {lengths}")
    if not table.n_rows:
        raise ProblemError("the table has no rows")
    return table


def _hashable(values: list[Any], name: str) -> list[Any]:
    try:
        set(values)
    except TypeError as error:
        raise ProblemError(f"column {name}: {error}\n  write tuples or text") from None
    return values


def _read(text: str) -> float:
    """A number as spreadsheets write it."""
    text = text.strip().replace("\N{MINUS SIGN}", "-")
    if text.endswith("%"):
        return _read(text[:-1]) / 100
    above, slash, below = text.partition("/")
    if slash:
        return float(above) / float(below)
    return float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)
