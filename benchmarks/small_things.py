"""CPU seconds that a user waits before any solver has started, and for the first solve after an installation.

python -m benchmarks.small_things --out benchmarks/results/small_things.csv
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.table import table

from fairmdp import MDP, Problem, scenarios


def process(*words, times=5, **environment):
    """CPU seconds of a fresh interpreter, best of some."""
    best = float("inf")
    for _ in range(times):
        before = os.times()
        subprocess.run(
            [sys.executable, "-c", *words], check=True, capture_output=True, env={**os.environ, **environment}
        )
        after = os.times()
        best = min(best, sum(after[2:4]) - sum(before[2:4]))
    return best


def command(*words, **how):
    """CPU seconds of the command line, best of some."""
    script = "import sys; from fairmdp.cli import main; sys.argv[0] = 'fairmdp'; main()"
    return process(script, *words, **how)


def first_solves():
    """CPU seconds of a solve by a compiled method: with nothing on disk, then of warmup, then after it."""
    solve = ("solve", "garnet", "-p", "n_states=600", "--json")
    with tempfile.TemporaryDirectory() as empty:
        cold = command(*solve, times=1, NUMBA_CACHE_DIR=empty)
    with tempfile.TemporaryDirectory() as empty:
        warmup = command("warmup", times=1, NUMBA_CACHE_DIR=empty)
        return cold, warmup, command(*solve, NUMBA_CACHE_DIR=empty)


def validation():
    """CPU seconds to check a model of ten million transitions, and one quota per state on top."""
    mdp = scenarios.garnet(350_000, 5, 5, n_quotas=0).mdp
    begin = time.process_time()
    model = MDP(mdp.P, mdp.r, mdp.s_of)
    middle = time.process_time()
    Problem(model, rho=[0.5 / mdp.n_states] * mdp.n_states)
    return mdp.P.nnz, middle - begin, time.process_time() - middle


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="CPU seconds before any solver has started")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    args = parser.parse_args()
    transitions, model_seconds, quota_seconds = validation()
    cold, warmup, warm = first_solves()
    rows = [
        ("import fairmdp", process("import fairmdp")),
        ("fairmdp --help", command("--help")),
        ("fairmdp solve three-state --json", command("solve", "three-state", "--json")),
        ("first solve of 600 states, nothing compiled", cold),
        ("fairmdp warmup", warmup),
        ("the same solve after it", warm),
        (f"MDP of {transitions} transitions", model_seconds),
        ("Problem with one quota for each of 350000 states", quota_seconds),
    ]
    with table("small_things", ("what", "seconds"), args.out) as add:
        for what, seconds in rows:
            add({"what": what, "seconds": f"{seconds:.3f}"})


if __name__ == "__main__":
    main()
