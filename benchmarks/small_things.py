"""Seconds that a user waits before any solver has started.

python -m benchmarks.small_things --out benchmarks/results/small_things.csv
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.table import table

from fairmdp import MDP, Problem, scenarios


def process(*words):
    """Wall seconds of a fresh interpreter, best of five."""
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", *words], check=True, capture_output=True)
        best = min(best, time.perf_counter() - begin)
    return best


def command(*words):
    """Wall seconds of the command line, best of five."""
    script = "import sys; from fairmdp.cli import main; sys.argv[0] = 'fairmdp'; main()"
    return process(script, *words)


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
    parser = argparse.ArgumentParser(description="seconds before any solver has started")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    args = parser.parse_args()
    transitions, model_seconds, quota_seconds = validation()
    rows = [
        ("import fairmdp", process("import fairmdp")),
        ("fairmdp --help", command("--help")),
        ("fairmdp solve three-state --json", command("solve", "three-state", "--json")),
        (f"MDP of {transitions} transitions, CPU", model_seconds),
        ("Problem with one quota for each of 350000 states, CPU", quota_seconds),
    ]
    with table("small_things", ("what", "seconds"), args.out) as add:
        for what, seconds in rows:
            add({"what": what, "seconds": f"{seconds:.3f}"})


if __name__ == "__main__":
    main()
