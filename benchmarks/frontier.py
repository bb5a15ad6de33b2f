"""CPU seconds of a frontier beside those of one cold solve.

    python -m benchmarks.frontier --out benchmarks/results/frontier.csv

Job scheduling with 1e4 states, 50 even values of one client's quota, each certified at 1e-6. ``cold_s`` is
the mean of cold solves at every fifth value of those, in the same process on one thread; ``ratio`` is
``frontier_s / cold_s``. ``binding`` counts the values at which the quota costs something.

Limitations: one instance per row; settings were chosen on ``two_overloaded``; a shared machine moves CPU time
by 10-30 %.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np
from benchmarks.table import table

import fairmdp as fm

FIELDS = [
    "problem",
    "states",
    "points",
    "binding",
    "frontier_s",
    "cold_s",
    "ratio",
    "largest_gap",
    "worst_slack",
]
CAPPED = {"max_arrivals": 1, "max_withdrawals": 1}
CASES = {  # name: (parameters of jobs, quota, largest value)
    "two_overloaded": ({"queue": 99, "capacity": 1}, "client2", 0.98),
    "two_busy": ({"queue": 99, "capacity": 1, "arrivals": (0.6, 0.4), "limit": 5}, "client2", 0.98),
    "three_overloaded": (
        {
            "clients": 3,
            "queue": 21,
            "capacity": 1,
            "arrivals": 0.5,
            "pay": (1, 0.6, 0.3),
            "limit": 5,
            "quota": 0,
        },
        "client3",
        0.9,
    ),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*", choices=CASES, help="cases to run, all by default")
    options = parser.parse_args()
    fm.solve_colgen(fm.scenarios.garnet(n_states=500, seed=1))  # compiles
    with table("frontier", FIELDS, options.out) as add:
        for case in options.only or CASES:
            add(measure(case))


def measure(case, points=50):
    """Time a frontier, and cold solves at some of its values."""
    parameters, quota, last = CASES[case]
    problem = fm.scenarios.jobs(**parameters, **CAPPED)
    values = np.linspace(0, last, points)
    start = time.process_time()
    curve = fm.frontier(problem, quota, values)
    whole = time.process_time() - start
    cold = []
    for value in values[::5]:
        at_least = problem.at_least.copy()
        at_least[problem.quota_index(quota)] = value
        start = time.process_time()
        fm.solve(problem.with_bounds(at_least))
        cold.append(time.process_time() - start)
    unit = np.ptp(problem.mdp.r)
    return {
        "problem": case, "states": problem.mdp.n_states, "points": points,
        "binding": int((curve.duals > 1e-6).sum()), "frontier_s": round(whole, 2),
        "cold_s": round(np.mean(cold), 3), "ratio": round(whole / np.mean(cold), 1),
        "largest_gap": f"{np.nanmax(curve.uppers - curve.gains) / unit:.1e}",
        "worst_slack": f"{min(s.worst_slack for s in curve.solutions if s.has_policy):.1e}",
    }  # fmt: skip


if __name__ == "__main__":
    main()
