"""How often an interval of an agent's report is ever wrong, if one looks after every cycle.

    python -m benchmarks.online_intervals --runs 1000 --out benchmarks/results/online_intervals.csv

One fixed policy for each model, the one that restores on the true model. ``ever`` is the share of runs in
which the true share of any quota was outside at any of the cycles from the first that is spoken of on,
``cover_end`` the share in which all were inside at the last; ``normal_ever`` is the same as ``ever`` for
normal intervals at the same level. The last interval of every run is also made by `Cycles` itself, and must
be the same.
"""

import argparse
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from benchmarks.table import table
from scipy.special import ndtri

from fairmdp import Chain, Problem, scenarios
from fairmdp.online.bounds import Bounds
from fairmdp.online.intervals import FEWEST, Cycles, half_width
from fairmdp.online.planning import Planner

FIELDS = ["model", "runs", "cycles", "delta", "ever", "normal_ever", "cover_end", "half_width", "cpu_seconds"]
MODELS = {
    "three-state": scenarios.three_state,
    "jobs": scenarios.jobs,
    "garnet20": lambda: scenarios.garnet(20, seed=1),
}


def states_of(chain: Chain, runs: int, steps: int, rng: np.random.Generator, start: int) -> np.ndarray:
    """States of many runs that begin in one state, (steps, runs)."""
    sums = chain.P.toarray().cumsum(axis=1)
    sums[:, -1] = 2.0
    seen = np.empty((steps, runs), np.int64)
    s = np.full(runs, start)
    for t in range(steps):
        seen[t] = s
        s = (rng.random(runs)[:, None] > sums[s]).sum(axis=1)
    return seen


def wrong(Y: np.ndarray, L: np.ndarray, truth: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Whether the truth of any quota is outside, after each number of cycles, (n,); Y is (n, K)."""
    n = np.arange(1, L.size + 1)[:, None]
    y, length = Y.cumsum(axis=0), L.cumsum()[:, None]
    ratio = y / length
    squares = (Y**2).cumsum(axis=0) - 2 * ratio * (Y * L[:, None]).cumsum(axis=0)
    variance = np.maximum(squares + ratio**2 * (L**2).cumsum()[:, None], 0) / np.maximum(n - 1, 1)
    radius = np.sqrt(variance) / (length / n) * widths[: L.size, None]
    return (n >= FEWEST)[:, 0] & (np.abs(ratio - truth) > radius + 1e-12).any(axis=1)


def measure(name: str, runs: int, cycles: int, delta: float) -> dict[str, object]:
    """One row of the table."""
    began, problem = time.process_time(), MODELS[name]()
    mdp, K = problem.mdp, problem.n_quotas
    policy = Planner(Bounds.of(problem), 0.5).restore(mdp).policy
    chain = Chain.of(mdp, policy)
    truth = problem.members @ (policy * chain.shares[mdp.s_of])
    anchor = int(np.argmax(chain.shares))
    steps = int(1.2 * cycles / chain.shares[anchor])
    seen = states_of(chain, runs, steps, np.random.default_rng([7, len(name)]), anchor)
    counts = problem.members.toarray().T[mdp.pair_ptr[:-1]]  # quotas are sets of states
    n = np.arange(FEWEST, steps)
    early = np.ones(FEWEST - 1)
    widths = np.concatenate([early, [half_width(k, delta / K) for k in n.tolist()]])
    normal = np.concatenate([early, -ndtri(delta / K / 2) / np.sqrt(n)])
    ever = normal_ever = inside = 0
    ends = []
    for states in seen.T:
        at = np.flatnonzero(states == anchor)
        sums = np.concatenate([np.zeros((1, K)), counts[states].cumsum(axis=0)])
        Y, L = np.diff(sums[at], axis=0), np.diff(at).astype(float)
        off = wrong(Y, L, truth, widths)
        ever, inside = ever + off.any(), inside + ~off[-1]
        normal_ever += wrong(Y, L, truth, normal).any()
        said = checked(problem, states, anchor, delta)
        assert off[-1] == ((said.low > truth + 1e-12) | (said.high < truth - 1e-12)).any()
        ends.append((said.high - said.low).max() / 2)
    return {
        "model": name,
        "runs": runs,
        "cycles": cycles,
        "delta": delta,
        "ever": round(float(ever) / runs, 4),
        "normal_ever": round(float(normal_ever) / runs, 4),
        "cover_end": round(float(inside) / runs, 4),
        "half_width": round(float(np.mean(ends)), 4),
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def checked(problem: Problem, states: np.ndarray, anchor: int, delta: float):
    """The last interval of a run, as an agent would report it."""
    cycles = Cycles(problem.members.toarray().T, problem.mdp.s_of == anchor)
    for first, last in pairwise([0, states.size // 3, states.size]):
        cycles.add(problem.mdp.pair_ptr[states[first:last]])
    return cycles.intervals(delta)


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="intervals that may be looked at at any time")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--delta", type=float, default=0.05)
    parser.add_argument("--models", default=",".join(MODELS))
    args = parser.parse_args()
    with table("online_intervals", FIELDS, args.out) as add:
        for name in args.models.split(","):
            row = measure(name, args.runs, args.cycles, args.delta)
            print(row, file=sys.stderr)
            add(row)


if __name__ == "__main__":
    main()
