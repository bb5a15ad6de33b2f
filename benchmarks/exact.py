"""Exact solvers beside each other: CPU seconds, memory and certified gap, one row per run.

    python -m benchmarks.exact --suite few --out benchmarks/results/exact_few.csv
    python -m benchmarks.exact --only garnet_1e4/dual garnet_1e4/highs_pdlp

Every run is a process of its own on one thread, after the kernels have been compiled; the model is made by
another process, so peak memory is that of loading and solving. `objective.score` says what a result is worth.
``seconds`` are CPU seconds, ``budget`` is the limit in wall seconds. With garnets of several sizes, the
fitted slope of CPU seconds over transitions is printed last.

Limitations: one instance (seed 0) per case unless --seeds is given; a shared machine moves CPU time by
10-30 %.
"""

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.objective import score
from benchmarks.problems import PROBLEMS
from benchmarks.solvers import solver
from benchmarks.table import table

from fairmdp import load, save
from fairmdp.errors import SolverError

FIELDS = [
    "problem", "states", "quotas", "transitions", "solver", "settings", "seed", "budget", "seconds",
    "peak_mb", "status", "gain", "upper", "gap", "worst_slack", "counters", "commit", "cpu",
]  # fmt: skip

CASES = {  # name: (problem, its sizes)
    "garnet_1e3": ("garnet", {"states": 1000, "quotas": 5}),
    "garnet_1e3_k50": ("garnet", {"states": 1000, "quotas": 50}),
    "garnet_1e4": ("garnet", {"states": 10_000, "quotas": 5}),
    "garnet_1e4_k50": ("garnet", {"states": 10_000, "quotas": 50}),
    "garnet_1e5": ("garnet", {"states": 100_000, "quotas": 5}),
    "garnet_1e5_k50": ("garnet", {"states": 100_000, "quotas": 50}),
    "garnet_1e6": ("garnet", {"states": 1_000_000, "quotas": 5}),
    "queue_1e3": ("queue", {"room": 9}),
    "queue_3e3": ("queue", {"room": 13}),
    "queue_1e4": ("queue", {"room": 21}),
    "queue_1e5": ("queue", {"room": 45}),
    "grid_1e3": ("grid", {"side": 32}),
    "grid_3e3": ("grid", {"side": 55}),
    "grid_1e4": ("grid", {"side": 100}),
    "per_state_1e3": ("per_state", {"states": 1000}),
    "per_state_1e4": ("per_state", {"states": 10_000}),
    "per_state_1e5": ("per_state", {"states": 100_000}),
    "garnet_300": ("garnet", {"states": 300, "quotas": 3}),
    "garnet_60": ("garnet", {"states": 60, "quotas": 3}),
    "jobs2_1e3": ("jobs", {"clients": 2, "room": 31}),
    "jobs2_1e4": ("jobs", {"clients": 2, "room": 99}),
    "jobs2_1e4_patient": ("jobs", {"clients": 2, "room": 99, "withdraw": 0.01}),
    "jobs2_1e4_free": ("jobs", {"clients": 2, "room": 99, "withdraw": 0.01, "quota": 0.0}),
    "jobs2_1e5": ("jobs", {"clients": 2, "room": 315}),
    "jobs3_1e3": ("jobs", {"clients": 3, "room": 9}),
    "jobs3_1e4": ("jobs", {"clients": 3, "room": 21}),
    "jobs3_1e5": ("jobs", {"clients": 3, "room": 45}),
    "jobs4_1e3": ("jobs", {"clients": 4, "room": 5}),
    "jobs4_1e4": ("jobs", {"clients": 4, "room": 9}),
    "postal_1e3": ("postal", {"room": 6}),
    "postal_1e4": ("postal", {"room": 14}),
    "postal_1e5": ("postal", {"room": 31}),
    "taxi_1e3": ("taxi", {"zones": 44}),
    "taxi_1e4": ("taxi", {"zones": 140}),
    "taxi_1e5": ("taxi", {"zones": 446}),
    "queue_each_1e3": ("queue_each", {"room": 9}),
    "queue_each_3e3": ("queue_each", {"room": 13}),
    "queue_each_6e3": ("queue_each", {"room": 17}),
    "queue_each_1e4": ("queue_each", {"room": 21}),
    "grid_each_1e3": ("grid_each", {"side": 32}),
    "grid_each_1e4": ("grid_each", {"side": 100}),
    "jobs2_each_1e3": ("jobs_each", {"clients": 2, "room": 31}),
    "jobs2_each_1e4": ("jobs_each", {"clients": 2, "room": 99}),
    "jobs3_each_1e3": ("jobs_each", {"clients": 3, "room": 9}),
    "jobs3_each_1e4": ("jobs_each", {"clients": 3, "room": 21}),
    "jobs4_each_1e3": ("jobs_each", {"clients": 4, "room": 5}),
    "postal_each_1e3": ("postal_each", {"room": 6}),
    "postal_each_1e4": ("postal_each", {"room": 14}),
    "taxi_each_1e3": ("taxi_each", {"zones": 44}),
    "taxi_each_1e4": ("taxi_each", {"zones": 140}),
    "overlapping_2e3": ("overlapping", {"states": 2000, "quotas": 600}),
    "overlapping_1e4": ("overlapping", {"states": 10_000, "quotas": 2000}),
}

_FEW = ("auto", "dual", "colgen", "lp")
_EACH = ("auto", "proximal", "lp", "ipm")
_WORLDS = ("jobs2", "jobs3", "jobs4", "taxi", "postal", "grid", "queue")
_PEERS = ("highs_simplex", "highs_ipm", "highs_hipo", "clarabel")

SUITES = {  # name: ((case, solver, settings), ...)
    "few": tuple(
        (case, solver, 1e-6)
        for case, solver in (
            ("garnet_1e3", "dual"), ("garnet_1e4", "dual"), ("garnet_1e4", "colgen"), ("garnet_1e5", "dual"),
            ("garnet_1e5_k50", "dual"), ("garnet_1e6", "dual"), ("queue_1e3", "colgen"),
            ("queue_1e4", "colgen"), ("queue_1e5", "colgen"), ("grid_1e3", "colgen"), ("grid_1e4", "colgen"),
        )
    ),
    "per_state": tuple(
        (case, "proximal", gap)
        for case in ("per_state_1e3", "per_state_1e4", "per_state_1e5")
        for gap in (1e-4, 1e-6)
    )[:-1],
    "auto": (
        *((case, solver, 1e-6) for case in (
            "garnet_1e3", "garnet_1e3_k50", "garnet_1e4", "garnet_1e4_k50", "queue_1e3", "queue_3e3",
            "queue_1e4", "grid_1e3", "grid_3e3", "grid_1e4",
        ) for solver in ("auto", "dual", "colgen", "lp")),
        *(("per_state_1e3", solver, 1e-6) for solver in ("auto", "proximal", "lp")),
    ),
    "slow": (
        *((case, solver, 1e-6) for case in (
            "garnet_60", "garnet_300", "jobs2_1e3", "jobs2_1e4", "jobs2_1e4_patient", "jobs2_1e4_free",
            "jobs3_1e3", "jobs3_1e4", "jobs4_1e3", "jobs4_1e4", "postal_1e3", "postal_1e4", "taxi_1e3",
            "taxi_1e4", "queue_1e3", "queue_3e3", "queue_1e4", "grid_1e3", "grid_3e3", "grid_1e4",
        ) for solver in _FEW),
        *((case, solver, 1e-6) for case in (
            "queue_each_1e3", "queue_each_3e3", "grid_each_1e3", "grid_each_1e4", "jobs2_each_1e3",
            "jobs2_each_1e4",
        ) for solver in _EACH),
    ),
    "worlds_1e3": tuple(
        (case, solver, 1e-6 if solver == "auto" else 1e-7)
        for case in (f"{world}{kind}_1e3" for world in _WORLDS for kind in ("", "_each"))
        for solver in ("auto", *_PEERS, "highs_pdlp")
    ),
    "worlds_1e4": tuple(
        (case, solver, 1e-6 if solver == "auto" else 1e-7)
        for case in (f"{world}{kind}_1e4" for world in _WORLDS for kind in ("", "_each"))
        if case != "jobs4_each_1e4"
        for solver in ("auto", *_PEERS)
    ),
    "worlds_1e5": tuple(
        (f"{world}_1e5", "auto", 1e-6) for world in ("jobs2", "jobs3", "taxi", "postal", "queue")
    ),
    "overlapping": (
        ("overlapping_2e3", "auto", 1e-6), ("overlapping_2e3", "lp", 1e-6), ("overlapping_1e4", "auto", 1e-6),
    ),
    "near": (
        *((case, solver, 1e-6) for case in (
            "queue_each_1e3", "queue_each_3e3", "grid_each_1e3", "grid_each_1e4", "jobs2_each_1e3",
            "jobs2_each_1e4",
        ) for solver in ("auto", "ipm", "lp")[: 2 + (case[:4] == "grid")]),
        ("queue_each_6e3", "auto", 1e-6), ("queue_each_1e4", "auto", 1e-6),
        *((case, solver, 1e-6) for case in ("grid_1e3", "grid_3e3", "grid_1e4")
          for solver in ("auto", "colgen", "lp")),
    ),
    "rivals": (
        *((case, f"highs_{name}", 1e-7) for case in ("garnet_1e3", "queue_1e3", "grid_1e3")
          for name in ("simplex", "ipm", "pdlp")),
        *((case, "ortools_pdlp", 1e-6) for case in ("garnet_1e3", "garnet_1e4", "queue_1e3", "grid_1e3")),
        ("garnet_1e4", "highs_pdlp", 1e-7),
        ("garnet_1e5", "highs_pdlp", 1e-6),
        *((case, solver, tol) for case in ("per_state_1e3", "per_state_1e4")
          for solver in ("highs_pdlp", "highs_pdlp_polished") for tol in (3e-6, 1e-7, 1e-8)),
    ),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=SUITES, default="few")
    parser.add_argument("--only", nargs="*", default=[], help="runs as CASE/SOLVER or CASE/SOLVER/SETTING")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--budget", type=float, default=600.0, help="wall seconds of one run")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--make", nargs=3, metavar=("CASE", "SEED", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument(
        "--solve", nargs=4, metavar=("SOLVER", "SETTING", "BUDGET", "FILE"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.make:
        case, seed, file = options.make
        save(make(case, int(seed)), file)
    elif options.solve:
        name, setting, budget, file = options.solve
        print(json.dumps(measure(solver(name), load(file), float(setting), float(budget))))
    else:
        runs = [plan(words) for words in options.only] or SUITES[options.suite]
        write_table(runs, options.seeds, options.budget, options.out)


def plan(words):
    """(case, solver, setting) of CASE/SOLVER[/SETTING]."""
    case, solver, *setting = words.split("/")
    return case, solver, float(setting[0]) if setting else 1e-6


def make(case, seed):
    """Problem of a case; the queue and the grid have no randomness."""
    name, sizes = CASES[case]
    return PROBLEMS[name](**sizes, **({"seed": seed} if name in ("garnet", "per_state") else {}))


def write_table(runs, seeds, budget, out):
    """Run everything in processes of its own; rows are written as they come, the slope is printed last."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    rows = []
    with table("exact", FIELDS, out) as add:
        for seed in seeds:
            for case, name, setting in runs:
                with tempfile.TemporaryDirectory() as folder:
                    file = str(Path(folder) / "problem.npz")
                    child("--make", case, seed, file)
                    row = json.loads(child("--solve", name, setting, budget, file).splitlines()[-1])
                row |= {"problem": case, "seed": seed, "commit": commit, "cpu": platform.machine()}
                rows.append(row)
                add(row)
    print_slope(rows)


def child(*arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.exact", *map(str, arguments)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def measure(method, problem, setting, budget):
    """One row: CPU seconds of the run, then what the objective says of its result."""
    row = {
        "states": problem.mdp.n_states, "quotas": problem.n_quotas, "transitions": int(problem.mdp.P.nnz),
        "solver": method.name, "settings": setting, "budget": budget,
    }  # fmt: skip
    reason = method.skip(problem)
    if reason:
        return {**row, "status": f"skipped: {reason}"}
    method.prepare(problem, setting)
    begin = time.process_time()
    try:
        method.run(budget)
        failed = ""
    except SolverError as error:
        failed = str(error)
    row |= {
        "seconds": round(time.process_time() - begin, 3),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    if failed:
        return {**row, "status": failed}
    result = method.result()
    counters = " ".join(f"{name}={value:g}" for name, value in result["counters"].items())
    return {**row, **score(problem, result), "counters": counters}


def print_slope(rows):
    """Print p of the fit CPU seconds ~ transitions^p over the garnets with five quotas, per solver."""
    for name in sorted({row["solver"] for row in rows}):
        fits = [
            (math.log(row["transitions"]), math.log(row["seconds"]))
            for row in rows
            if row["solver"] == name and row["problem"] in ("garnet_1e4", "garnet_1e5", "garnet_1e6")
        ]
        if len({size for size, _ in fits}) > 1:
            slope = np.polyfit(*zip(*fits, strict=True), 1)[0]
            print(f"# {name} on garnet: CPU seconds ~ transitions^{slope:.2f}")


if __name__ == "__main__":
    main()
