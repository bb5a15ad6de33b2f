"""One way to write a table of measurements: the command that made it first, rows as they come."""

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def table(
    module: str, fields: Sequence[str], out: Path | None, note: str = ""
) -> Iterator[Callable[[dict[str, object]], None]]:
    """Open a CSV (or standard output) for rows; each is on disk before the next is measured."""
    stream = out.open("w", newline="") if out else sys.stdout
    try:
        ending = f"   ({note})" if note else ""
        stream.write(f"# python -m benchmarks.{module} {' '.join(sys.argv[1:])}{ending}\n")
        writer = csv.DictWriter(stream, fields, lineterminator="\n")
        writer.writeheader()

        def add(row: dict[str, object]) -> None:
            writer.writerow(row)
            stream.flush()

        yield add
    finally:
        if out:
            stream.close()
