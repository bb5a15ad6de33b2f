"""Memory traffic of kernels by the card's own counters: `benchmarks.gpu bandwidth` under Nsight Compute.

    python -m benchmarks.gpu_counters --size 1e7 --out benchmarks/results/gpu_counters.csv

A random gather moves more than the sector of 32 bytes that it asks for, and less where the cache has it.
``gb`` is what was read and written in memory for one call, ``part_of_copy`` its rate against that of a copy
in the same run.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.gpu import REPEAT
from benchmarks.table import table

METRICS = ("gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum")
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def profiled(size, rows):
    """What Nsight Compute counts for every kernel of the benchmark, whose own table goes to `rows`."""
    command = [sys.executable, "-m", "benchmarks.gpu", "bandwidth", "--sizes", str(size), "--out", str(rows)]
    counted = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--metrics", ",".join(METRICS)]
    run = subprocess.run([*counted, *command], check=True, capture_output=True, text=True)
    lines = run.stdout.splitlines()
    begin = next(k for k, line in enumerate(lines) if line.startswith('"ID"'))
    units, *launches = csv.DictReader(lines[begin:])
    for launch in launches:
        numbers = [float(launch[key].replace(",", "")) * UNITS[units[key]] for key in METRICS]
        yield launch["Kernel Name"], numbers[0], numbers[1] + numbers[2]


def between_marks(launches):
    """Seconds and bytes of one call for every stretch between two marks."""
    inside, seconds, moved = False, 0.0, 0.0
    for name, duration, size in launches:
        if name.startswith("mark"):
            if inside:
                yield seconds / (REPEAT + 1), moved / (REPEAT + 1)  # the first call is not timed
            inside, seconds, moved = not inside, 0.0, 0.0
        elif inside:
            seconds, moved = seconds + duration, moved + size


def main():
    """Write a row for each kernel."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=float, default=1e7)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.csv"
        stretches = list(between_marks(profiled(options.size, rows)))
        first, *lines = rows.read_text().splitlines()
    device = first[first.rindex("(") + 1 : -1]
    copy, *kernels = csv.DictReader(lines)
    fields = ["states", "kernel", "ms", "gb", "part_of_copy"]
    with table("gpu_counters", fields, options.out, note=device) as add:
        # A copy is no kernel: nothing was counted between its marks.
        for kernel, (seconds, moved) in zip(kernels, stretches[1:], strict=True):
            part = moved / seconds / (1e12 * float(copy["tb_per_s"]))
            row = dict(ms=f"{1e3 * seconds:.3f}", gb=f"{moved / 1e9:.2f}", part_of_copy=f"{part:.2f}")
            add(dict(states=int(options.size), kernel=kernel["kernel"], **row))


if __name__ == "__main__":
    main()
