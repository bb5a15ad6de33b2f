"""What engines cost per chunk, what a second worker brings, and how soon a cancelled task makes room.

    python -m benchmarks.engine_overhead --out benchmarks/results/engine_overhead.csv
    python -m benchmarks.engine_overhead --cancel

The simulator sleeps in every call, as one does that waits for something else, so that two workers can be
twice as fast on a machine whose cores are busy. Workers are started before the clock is. One row per engine,
length of the sleep and whether chunks are kept in a folder; the engines of a row take turns, and each figure
is the best of ``--rounds`` rounds. ``overhead_ms`` is what one worker takes longer than this process alone,
per chunk of 16,384 samples; ``speedup`` is one worker's time over that of two.

Limitations: a shared machine; where its cores are busy, the driver and the workers wait for each other.
"""

import argparse
import os
import queue
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from benchmarks.table import table

from fairmdp import ProcessPool, RayCluster, scenarios
from fairmdp.learning.counts import CHUNK, sample_pairs, seed_stream
from fairmdp.workers import Job, Pool, PoolThread, Processes, report, serial
from fairmdp.workers.worker import Code

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


def work(seconds):
    """Say that the task has begun, and have something to do."""
    report(None)
    time.sleep(seconds)


def cancel_to_start(workers, rounds):
    """Milliseconds from cancelling a task to the start of another one: median, with so many workers."""
    code, waits = Code.of(work), []
    pool = Pool(Processes(), workers, first=Job(code, 0.0, lambda *_: None))
    thread = PoolThread(pool)

    def begin(seconds):
        began = queue.SimpleQueue()
        job = Job(code, seconds, lambda job, message: began.put(message))
        thread.call(pool.submit, job)
        began.get()
        return job

    for _ in range(rounds):
        old = begin(600.0)
        if workers > 1:
            begin(0.0)  # the spare one has started by now
        time.sleep(0.1)
        clock = time.perf_counter()
        thread.call(pool.cancel, [old], 0.25)  # as the page's server does
        begin(0.0)
        waits.append(1000 * (time.perf_counter() - clock))
    thread.stop()
    return statistics.median(waits)


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="overhead of engines per chunk, and the gain of two workers")
    parser.add_argument("--chunks", type=int, default=80, help="chunks of a run (default: 80)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which the best counts (default: 5)")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--cancel", action="store_true", help="time from cancelling a task to the next one")
    args = parser.parse_args()
    if args.cancel:
        for workers in (2, 1):
            print(f"{workers} workers: {cancel_to_start(workers, 4 * args.rounds):.1f} ms to the next task")
        return
    with ExitStack() as stack, table("engine_overhead", FIELDS, args.out) as add:
        if "ray" in args.engines:
            stack.enter_context(RayCluster(4))  # one cluster for all rows; its cores are taken later
        for name in args.engines.split(","):
            for milliseconds in (5, 50):
                for keep in (False, True):
                    add(measure(name, milliseconds, keep, args.chunks, args.rounds))


if __name__ == "__main__":
    main()
