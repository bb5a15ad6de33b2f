"""What `learn` loses beside another checkout's, at the same budget and at one and a half times that.

    python -m benchmarks.samples_beside --beside ../old/src --out benchmarks/results/samples_beside.csv

Three instances of `samples_to_target`, the default learner, the same seeds for all; runs of the two sources
take turns in chunks of 25 seeds, each in a process of its own. Per row: mean lost gain, ``max(0, v* - v)``,
with its standard error, its 95th percentile, runs that miss a quota of the true model, runs that claim to
meet all, how many of those claims are false, and the mean CPU seconds of a run. ``source`` is ``this`` or
``beside``. Only the public interface that both sources have is used.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.table import table

FIELDS = [
    "instance", "source", "samples", "seeds", "lost_mean", "lost_se", "lost_p95", "missed", "claims", "false",
    "cpu_s",
]  # fmt: skip
BUDGETS = {"paper3": 1_000, "queue": 17_000, "garnet20": 10_000}
MORE = 1.5
TOGETHER = 25
MISSED = 1e-9


def runs(instance: str, samples: int, seeds: range) -> list[tuple[float, bool, bool, float]]:
    """Of each seed the lost gain, whether a quota is missed, whether a claim is made, CPU seconds."""
    from benchmarks.samples_to_target import INSTANCES, truth

    from fairmdp import learn, solve_lp

    problem = INSTANCES[instance]()
    best, simulator, found = solve_lp(problem).gain, problem.mdp.simulator(), []
    for seed in seeds:
        begin = time.process_time()
        estimate = learn(simulator, problem.quotas, samples=samples, seed=seed)
        took = time.process_time() - begin
        gain, short = truth(problem, estimate.policy)
        found.append((max(best - gain, 0.0), short > MISSED, bool(estimate.guaranteed), took))
    return found


def elsewhere(
    source: Path, instance: str, samples: int, seeds: range
) -> list[tuple[float, bool, bool, float]]:
    """The same in a process of its own, with the package of a source folder."""
    paths = f"{source}:{Path(__file__).parents[1]}"
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    task = json.dumps([instance, samples, seeds.start, seeds.stop])
    command = [sys.executable, "-m", "benchmarks.samples_beside", "--task", task]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return [tuple(run) for run in json.loads(done.stdout.splitlines()[-1])]


def row(
    instance: str, source: str, samples: int, found: list[tuple[float, bool, bool, float]]
) -> dict[str, object]:
    """One row of the table."""
    lost, missed, claimed, took = (np.array(column) for column in zip(*found, strict=True))
    return {
        "instance": instance,
        "source": source,
        "samples": samples,
        "seeds": lost.size,
        "lost_mean": round(float(lost.mean()), 5),
        "lost_se": round(float(lost.std(ddof=1) / np.sqrt(lost.size)), 5),
        "lost_p95": round(float(np.quantile(lost, 0.95)), 5),
        "missed": int(missed.sum()),
        "claims": int(claimed.sum()),
        "false": int((claimed & missed).sum()),
        "cpu_s": round(float(took.mean()), 3),
    }


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", type=Path, metavar="SRC", help="src folder of the other checkout")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=5000, help="first seed")
    parser.add_argument("--instances", default=",".join(BUDGETS))
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        instance, samples, first, end = json.loads(options.task)
        print(json.dumps(runs(instance, samples, range(first, end))))
        return
    if options.beside is None:
        parser.error("--beside is needed")
    here, there = Path(__file__).parents[1] / "src", options.beside.resolve()
    end = options.first + options.seeds
    with table("samples_beside", FIELDS, options.out) as add:
        for instance in options.instances.split(","):
            samples = BUDGETS[instance]
            cases = [("beside", there, samples), ("this", here, samples), ("this", here, int(MORE * samples))]
            found: list[list[tuple[float, bool, bool, float]]] = [[] for _ in cases]
            for first in range(options.first, end, TOGETHER):
                for each, (_, source, count) in zip(found, cases, strict=True):
                    each += elsewhere(source, instance, count, range(first, min(first + TOGETHER, end)))
            for each, (name, _, count) in zip(found, cases, strict=True):
                add(row(instance, name, count, each))
                print(row(instance, name, count, each), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
