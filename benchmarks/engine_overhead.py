"""What a pool of processes costs per chunk, and what a second worker brings.

python -m benchmarks.engine_overhead --out benchmarks/results/engine_overhead.csv

The simulator sleeps in every call, as one does that waits for something else, so that two workers can be
twice as fast on a machine whose cores are busy. Workers are started before the clock is.
"""

import argparse
import csv
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fairmdp import scenarios
from fairmdp.engine import ProcessPool, serial
from fairmdp.learning.counts import CHUNK, sample_pairs, seed_stream


class Sleeping:
    """A model that takes its time for each call, however many pairs are asked for."""

    def __init__(self, seconds):
        self.inner, self.seconds = scenarios.three_state().mdp.simulator(), seconds
        self.n_states, self.n_actions = self.inner.n_states, self.inner.n_actions

    def sample(self, states, actions, rng):
        """Sleep, then answer."""
        time.sleep(self.seconds)
        return self.inner.sample(states, actions, rng)


def per_chunk(engines, milliseconds, chunks):
    """Wall milliseconds per chunk of each engine: best of five runs, in turns, after one to warm up."""
    simulator = Sleeping(milliseconds / 1000)
    best = [float("inf")] * len(engines)
    for seed in range(6):
        times = np.full(6, (chunks if seed else 8) * CHUNK // 6)
        for k, engine in enumerate(engines):
            begin = time.perf_counter()
            count = sum(1 for _ in sample_pairs(simulator, times, seed_stream(seed), engine))
            if seed:
                best[k] = min(best[k], 1000 * (time.perf_counter() - begin) / count)
    return best


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="overhead of a pool per chunk, and the gain of two workers")
    parser.add_argument("--chunks", type=int, default=80, help="chunks of a run (default: 80)")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    args = parser.parse_args()
    rows = []
    for milliseconds in (5, 50):
        for keep in (False, True):
            with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
                folders = (first, second) if keep else (None, None)
                with ProcessPool(1, folder=folders[0]) as one, ProcessPool(2, folder=folders[1]) as two:
                    alone, single, double = per_chunk((serial, one, two), milliseconds, args.chunks)
            figures = (f"{value:.2f}" for value in (alone, single, double, single - alone, single / double))
            rows.append((milliseconds, "yes" if keep else "no", *figures, f"{os.getloadavg()[0]:.1f}"))
    out = args.out.open("w", newline="") if args.out else sys.stdout
    out.write(f"# python -m benchmarks.engine_overhead {' '.join(sys.argv[1:])}\n")
    writer = csv.writer(out)
    writer.writerow(
        [
            "sleep_ms",
            "folder",
            "serial_ms",
            "one_worker_ms",
            "two_workers_ms",
            "overhead_ms",
            "speedup",
            "load",
        ]
    )
    writer.writerows(rows)
    out.flush()


if __name__ == "__main__":
    main()
