"""Two tables of measurements beside each other: ratios, and what got worse.

    python -m benchmarks.compare benchmarks/results/everyday_old.csv benchmarks/results/everyday.csv

Rows are matched by all columns that are neither measured nor say where a row was measured. The exit code is 1
where a number grew by more than the tolerance, so that a script can ask. A ratio says something only of rows
that were measured on one machine in one run.
"""

import argparse
import csv
import sys
from pathlib import Path

LESS_IS_BETTER = (
    "seconds",
    "peak_mb",
    "median_ms",
    "p90_ms",
    "worst_ms",
    "answer_cpu_ms",
    "page_cpu_ms",
    "ms",
    "ns",
)
SAID_ONLY = (
    "gain",
    "upper",
    "gap",
    "worst_slack",
    "counters",
    "commit",
    "cpu",
    "load",
    "budget",
    "moves",
    "status",
)


def read(path):
    """Rows of a table by what they measure; lines that begin with # are comments."""
    lines = [line for line in Path(path).read_text().splitlines() if not line.startswith("#")]
    rows = {}
    for row in csv.DictReader(lines):
        known = {name: row[name] for name in row if name not in LESS_IS_BETTER + SAID_ONLY}
        rows[tuple(known.values())] = row
    return rows


def ratios(old, new):
    """(row, column, old number, new number) of everything that both tables have measured."""
    for key in old.keys() & new.keys():
        for column in LESS_IS_BETTER:
            numbers = [rows[key].get(column) for rows in (old, new)]
            if all(numbers):
                yield " ".join(filter(None, key)), column, *map(float, numbers)


def compared(old, new, tolerance):
    """Lines of a table, the worst ratio first, and how many rows are worse than the tolerance allows."""
    found = sorted(ratios(old, new), key=lambda row: -row[3] / max(row[2], 1e-12))
    lines = [f"{'row':<52} {'column':<14} {'old':>10} {'new':>10} {'ratio':>7}"]
    worse = 0
    for name, column, before, after in found:
        ratio = after / max(before, 1e-12)
        worse += ratio > 1 + tolerance
        flag = "  worse" if ratio > 1 + tolerance else ""
        lines.append(f"{name:<52.52} {column:<14} {before:>10.4g} {after:>10.4g} {ratio:>7.2f}{flag}")
    lines += [f"only in the old table: {' '.join(key)}" for key in sorted(old.keys() - new.keys())]
    lines += [f"only in the new table: {' '.join(key)}" for key in sorted(new.keys() - old.keys())]
    return lines, worse


def main():
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--tolerance", type=float, default=0.05, help="growth that is no news")
    options = parser.parse_args()
    lines, worse = compared(read(options.old), read(options.new), options.tolerance)
    print("\n".join(lines))
    if worse:
        print(f"{worse} rows are more than {options.tolerance:.0%} worse")
        sys.exit(1)


if __name__ == "__main__":
    main()
