"""What engines cost per chunk, and what a second worker brings.

    python -m benchmarks.engine_overhead --out benchmarks/results/engine_overhead.csv

The simulator sleeps in every call, as one does that waits for something else, so that two workers can be
twice as fast on a machine whose cores are busy. Workers are started before the clock is. One row per engine,
length of the sleep and whether chunks are kept in a folder; the engines of a row take turns, and each figure
is the best of ``--rounds`` rounds. ``overhead_ms`` is what one worker takes longer than this process alone,
per chunk of 16,384 samples; ``speedup`` is one worker's time over that of two.

Limitations: a shared machine; where its cores are busy, the driver and the workers wait for each other.
"""

import argparse
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from benchmarks.table import table

from fairmdp import ProcessPool, RayCluster, scenarios
from fairmdp.engine import serial
from fairmdp.learning.counts import CHUNK, sample_pairs, seed_stream

ENGINES = {"processes": ProcessPool, "ray": RayCluster}
TIMES = ["serial_ms", "one_worker_ms", "two_workers_ms"]
FIELDS = ["engine", "sleep_ms", "folder", *TIMES, "overhead_ms", "speedup", "load"]


class Sleeping:
    """A model that takes its time for each call, however many pairs are asked for."""

    def __init__(self, seconds):
        self.inner, self.seconds = scenarios.three_state().mdp.simulator(), seconds
        self.n_states, self.n_actions = self.inner.n_states, self.inner.n_actions

    def sample(self, states, actions, rng):
        """Sleep, then answer."""
        time.sleep(self.seconds)
        return self.inner.sample(states, actions, rng)


def per_chunk(engines, milliseconds, chunks, rounds):
    """Wall milliseconds per chunk of each engine: best of some rounds, in turns, after one to warm up."""
    simulator = Sleeping(milliseconds / 1000)
    best = [float("inf")] * len(engines)
    for seed in range(rounds + 1):
        times = np.full(6, (chunks if seed else 8) * CHUNK // 6)
        for k, engine in enumerate(engines):
            begin = time.perf_counter()
            count = sum(1 for _ in sample_pairs(simulator, times, seed_stream(seed), engine))
            if seed:
                best[k] = min(best[k], 1000 * (time.perf_counter() - begin) / count)
    return best


def measure(name, milliseconds, keep, chunks, rounds):
    """One row of the table."""
    with ExitStack() as stack:
        folders = [stack.enter_context(tempfile.TemporaryDirectory()) if keep else None for _ in range(2)]
        one, two = (
            stack.enter_context(ENGINES[name](workers, folder=folder))
            for workers, folder in zip((1, 2), folders, strict=True)
        )
        alone, single, double = per_chunk((serial, one, two), milliseconds, chunks, rounds)
    figures = (alone, single, double, single - alone, single / double)
    return {
        "engine": name,
        "sleep_ms": milliseconds,
        "folder": "yes" if keep else "no",
        **{field: f"{value:.2f}" for field, value in zip(FIELDS[3:-1], figures, strict=True)},
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="overhead of engines per chunk, and the gain of two workers")
    parser.add_argument("--chunks", type=int, default=80, help="chunks of a run (default: 80)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which the best counts (default: 5)")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    args = parser.parse_args()
    with ExitStack() as stack, table("engine_overhead", FIELDS, args.out) as add:
        if "ray" in args.engines:
            stack.enter_context(RayCluster(4))  # one cluster for all rows; its cores are taken later
        for name in args.engines.split(","):
            for milliseconds in (5, 50):
                for keep in (False, True):
                    add(measure(name, milliseconds, keep, args.chunks, args.rounds))


if __name__ == "__main__":
    main()
