"""Fuzz cases that an entry has stood, and how long the slowest of them took.

    python -m benchmarks.fuzz --cases 10000 --seed 0 --out benchmarks/results/fuzz.csv
    python -m benchmarks.fuzz --entry toml quotas --cases 500

An entry is a way into the package; the cases are those that the fuzz tests of `tests/` draw, in equal parts
for each of an entry's tests. Only those that ran to their end are counted, not those that a test rejects.
A case that takes more than 10 s is a failure, and so is a run that is short of cases.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest
from benchmarks.table import table
from hypothesis import settings
from hypothesis.internal import observability

TESTS = Path(__file__).parent.parent / "tests"
PRISM_FILES = "tra", "lab", "srew", "trew", "sta", "quotas"
ENTRIES = {
    "python": tuple(f"problems::{kind}" for kind in ("constructors", "quotas", "lists_of_quotas", "weights")),
    "toml": ("files::damaged_toml", "files::edited_toml"),
    "npz": ("files::damaged_npz", "files::npz_arrays", "files::npz_headers", "files::checkpoints"),
    "json": ("solutions::damaged_solutions", "solutions::edited_solutions", "solutions::scaled_solutions"),
    "prism": tuple(f"files::explicit_files[{ending}]" for ending in PRISM_FILES),
    "drn": ("files::explicit_files[drn]",),
    "garbage": ("files::garbage",),
    "quotas": ("problems::quota_strings",),
    "cli": ("cli::command_line",),
    "web": ("web::requests", "web::questions", "web::files"),
    "simulators": ("answers::simulators",),
    "answers": ("answers::answers",),
}  # fmt: skip


class Count:
    """Pytest plugin that draws so many cases a test, and counts and times what was executed."""

    def __init__(self, cases):
        self.wanted, self.cases, self.slowest, self.failures = cases, 0, 0.0, 0

    def pytest_sessionstart(self):
        full = settings.get_profile("fuzz")
        settings.register_profile("count", full, max_examples=self.wanted, database=None)
        settings.load_profile("count")
        observability.OBSERVABILITY_COLLECT_COVERAGE = False
        observability.add_observability_callback(self.note)

    def pytest_sessionfinish(self):
        observability.remove_observability_callback(self.note)

    def pytest_runtest_logreport(self, report):
        self.failures += report.failed

    def note(self, seen):
        if seen.type == "test_case" and seen.status == "passed":
            self.cases += 1
            self.slowest = max(self.slowest, seen.timing["execute:test"])


def stood(entry, cases, seed):
    """One row: what an entry has stood."""
    count = Count(-(-cases // len(ENTRIES[entry])))
    names = (name.split("::") for name in ENTRIES[entry])
    tests = [str(TESTS / f"test_fuzz_{module}.py::test_fuzz_{test}") for module, test in names]
    began = time.perf_counter()
    options = [
        f"--hypothesis-seed={seed}",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore:Module already imported",
    ]
    with redirect_stdout(sys.stderr):
        ended = pytest.main([*tests, *options], [count])
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"{entry}: pytest ended with {ended!r}")
    return {
        "entry": entry,
        "cases": count.cases,
        "slowest_s": f"{count.slowest:.2f}",
        "failures": count.failures + (count.cases < cases and not count.failures),
        "seconds": f"{time.perf_counter() - began:.0f}",
    }


def main():
    """Run the entries one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entry", nargs="+", choices=ENTRIES, default=list(ENTRIES), help="default: all")
    parser.add_argument("--cases", type=int, default=10_000, help="per entry")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    args = parser.parse_args()
    failures = 0
    with table("fuzz", ("entry", "cases", "slowest_s", "failures", "seconds"), args.out) as add:
        with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as fresh:  # settings stick
            for row in fresh.map(partial(stood, cases=args.cases, seed=args.seed), args.entry):
                failures += row["failures"]
                add(row)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
