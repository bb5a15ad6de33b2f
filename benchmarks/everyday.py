"""What people do every day, in one table; beside another checkout's figures if one is given.

    python -m benchmarks.everyday --out benchmarks/results/everyday.csv
    python -m benchmarks.everyday --beside ../old/src --out new.csv --out-beside old.csv

Every row is the best of some runs, each in a fresh process on one thread, after a run that compiles. With
--beside the two sources take turns, so that a machine that gets slower slows both. Only the public interface
is used, so that any two versions can be compared; `benchmarks.compare` reads the two tables.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

from benchmarks.compare import compared, read
from benchmarks.table import table

FIELDS = ("what", "seconds", "status")
SOLVES = {
    "garnet 1e4 states, 5 quotas": ("garnet", {"states": 10_000, "quotas": 5}),
    "garnet 1e5 states, 5 quotas": ("garnet", {"states": 100_000, "quotas": 5}),
    "queue 2.7e3 states, 3 quotas": ("queue", {"room": 13}),
    "queue 1e4 states, 3 quotas": ("queue", {"room": 21}),
    "queue 1e4 states, other quotas": ("queue", {"room": 21, "owed": (0.3, 0.6, 0.2)}),
    "queue 1e4 states, other arrivals": (
        "queue",
        {"room": 21, "arrival": 0.38, "rewards": (1.0, 0.8, 0.5), "owed": (0.45, 0.45, 0.45)},
    ),
    "queue 2e4 states, 3 quotas": ("queue", {"room": 27}),
    "queue 1e5 states, 3 quotas": ("queue", {"room": 45}),
    "jobs 1e4 states, 3 clients": ("jobs", {"clients": 3, "room": 21}),
    "jobs 3.7e3 states, 2 clients": ("jobs", {"clients": 2, "room": 60}),
    "postal 1e4 states": ("postal", {"room": 15}),
    "grid 2.5e3 states, 5 quotas": ("grid", {"side": 50}),
    "1e4 states with a quota each": ("per_state", {"states": 10_000}),
}
STEPS = {
    "Algorithm 1, 6 pairs, 2e6 steps": (3, 2_000_000),
    "Algorithm 1, 6e5 pairs, 1e6 steps": (200_000, 1_000_000),
}
COMMANDS = {  # words of the command line; none for the bare import
    "import fairmdp": None,
    "fairmdp --help": ("--help",),
    "solve three-state --json": ("solve", "three-state", "--rho", "0.1,0.1,0.25", "--json"),
    "solve three-state": ("solve", "three-state", "--rho", "0.1,0.1,0.25"),
}
MAIN = "import sys; from fairmdp.cli import main; sys.argv[0] = 'fairmdp'; main()"


def solve(what):
    """CPU seconds of one solve, and its status."""
    import time

    from benchmarks.problems import PROBLEMS

    import fairmdp as fm

    name, sizes = SOLVES[what]
    fm.solve(PROBLEMS["garnet"](states=600, quotas=2))  # loads what is compiled
    fm.solve(PROBLEMS["per_state"](states=400))
    fm.solve(PROBLEMS["queue"](room=17))
    problem = PROBLEMS[name](**sizes)
    begin = time.process_time()
    solution = fm.solve(problem)
    return time.process_time() - begin, str(getattr(solution.status, "value", solution.status))


def steps(what):
    """CPU seconds of the steps of Algorithm 1, the pilot left out."""
    import time

    import fairmdp as fm

    states, count = STEPS[what]
    if states == 3:
        problem = fm.scenarios.three_state(rho=[0.1, 0.1, 0.25])
    else:
        problem = fm.scenarios.garnet(states, 3, 5, n_quotas=5)
    home = sys.modules[fm.solve_mirror.__module__]
    settings = sys.modules[home.Steps.__module__].Steps(1e-3 / problem.mdp.n_pairs, 1e-3, 5.0)
    fm.solve_mirror(problem, steps=1000, settings=settings)
    begin = time.process_time()
    fm.solve_mirror(problem, steps=count, settings=settings)
    return time.process_time() - begin, ""


def measured(what, source):
    """Seconds of one run of a row in a process of its own, and its status."""
    environment = os.environ | {"PYTHONPATH": f"{source}:{Path(__file__).parents[1]}", "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    if what in COMMANDS:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = ("import fairmdp",) if COMMANDS[what] is None else (MAIN, *COMMANDS[what])
        subprocess.run([sys.executable, "-c", *words], check=True, capture_output=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ""
    command = [sys.executable, "-m", "benchmarks.everyday", "--row", what]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def main():
    """Measure and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--beside", type=Path, metavar="SRC", help="src folder of another checkout")
    parser.add_argument("--out-beside", type=Path, help="table of the other checkout")
    parser.add_argument("--times", type=int, default=5, help="runs of each row (default: 5)")
    parser.add_argument("--only", nargs="*", default=[], help="rows that contain one of these words")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps((solve if options.row in SOLVES else steps)(options.row)))
        return
    sources = {options.out: Path(__file__).parents[1] / "src"}
    if options.beside:
        sources[options.out_beside] = options.beside.resolve()
    rows = [
        what
        for what in (*COMMANDS, *SOLVES, *STEPS)
        if not options.only or any(w in what for w in options.only)
    ]
    best = {(what, source): (float("inf"), "") for what in rows for source in sources.values()}
    for what in rows:
        for _ in range(options.times):
            for source in sources.values():
                best[what, source] = min(best[what, source], measured(what, source))
    for out, source in sources.items():
        with table("everyday", FIELDS, out) as add:
            for what in rows:
                seconds, status = best[what, source]
                add({"what": what, "seconds": f"{seconds:.4f}", "status": status})
    if options.beside and options.out and options.out_beside:
        print("\n".join(compared(read(options.out_beside), read(options.out), 0.05)[0]))


if __name__ == "__main__":
    main()
