"""Samples until a learned policy is good: the default learner, and mirror descent, on five instances.

    python -m benchmarks.samples_to_target --out benchmarks/results/samples_to_target.csv

Good means that the 95th percentile over seeds of the lost gain, ``max(0, v* - v)``, is at most 0.01 and
that of the worst relative shortfall, ``max (rho - share)+ / rho``, at most 1 %. Both are exact: the true
chain of the returned policy is solved. One row per instance, method and budget; ``missed`` is the share of
runs that miss any quota of the true model, at all. ``target`` marks the budget at which the default is
due. Mirror descent gets no margin, so its shortfall falls like 1 / sqrt(samples).

Limitations: one MDP per family; the 95th percentile of 60 seeds moves by a fifth. Mirror descent runs with
the settings that were found best for it on the first instance and a random model (docs/decisions.md).
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from benchmarks.table import table

from fairmdp import MDP, Chain, Problem, Quota, learn, scenarios, solve_lp

LOST, SHORT = 0.01, 0.01
FIELDS = ["instance", "method", "samples", "target", "seeds", "lost_p95", "short_p95", "missed", "good"]
TARGETS = {"paper3": 2_000, "queue": 30_000, "garnet20": 40_000, "garnet100": 250_000, "river20": 1_200_000}
GRID = {
    ("paper3", "plugin"): [500, 1_000],
    ("queue", "plugin"): [10_000, 17_000],
    ("garnet20", "plugin"): [10_000, 24_000],
    ("garnet100", "plugin"): [160_000],
    ("river20", "plugin"): [700_000],
    # 20, 30 and 100 times what the default needs, and on the first, where that is close, further on.
    ("paper3", "mirror"): [2_000, 15_000, 20_000, 30_000, 60_000],
    ("queue", "mirror"): [30_000, 510_000],
    ("garnet20", "mirror"): [40_000, 1_000_000],
}


def garnet(n_states: int, seed: int = 0) -> Problem:
    """4 actions, 4 random successors, a uniform restart; half of the states owed 0.8 of an even policy's."""
    rng = np.random.default_rng(seed)
    P = np.zeros((n_states, 4, n_states))
    for s in range(n_states):
        for a in range(4):
            P[s, a, rng.choice(n_states, 4, replace=False)] = rng.dirichlet(np.ones(4))
    P = 0.9 * P + 0.1 / n_states
    mdp = MDP.from_tensor(P, rng.random((n_states, 4)))
    nu = Chain.of(mdp, np.full(mdp.n_pairs, 0.25)).shares
    owed = np.sort(rng.permutation(n_states)[: n_states // 2])
    return Problem(mdp, [Quota(f"s{s}", states=[s], at_least=0.8 * nu[s]) for s in owed])


def queue() -> Problem:
    """Two queues of up to 5 jobs, two servers, outages; the second is to be short half of the time."""
    n_states = 36
    split = [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2)]
    P, R = np.zeros((n_states, 6, n_states)), np.zeros((n_states, 6))
    chances = [
        (up, first, second, p_up * p_first * p_second)
        for up, p_up in ((1, 0.75), (0, 0.25))
        for first, p_first in ((1, 0.8), (0, 0.2))
        for second, p_second in ((1, 0.75), (0, 0.25))
    ]
    for s in range(n_states):
        for a, servers in enumerate(split):
            for up, first, second, p in chances:
                done = up * min(servers[0], s // 6), up * min(servers[1], s % 6)
                s_next = 6 * min(s // 6 - done[0] + first, 5) + min(s % 6 - done[1] + second, 5)
                P[s, a, s_next] += p
                R[s, a] += p * (done[0] + 0.4 * done[1]) / 2
    short = np.flatnonzero(np.arange(n_states) % 6 <= 1)
    return Problem(MDP.from_tensor(P, R), [Quota("second queue", states=short, at_least=0.5)])


def river(n_states: int = 20) -> Problem:
    """Swim against the stream for 1, or drift home for 0.05, where 15 % of the time is owed; rare resets."""
    P, R = np.zeros((n_states, 2, n_states)), np.zeros((n_states, 2))
    for s in range(n_states):
        up, down = min(s + 1, n_states - 1), max(s - 1, 0)
        for a, chances in enumerate([(0.05, 0.35, 0.6), (0.35, 0.6, 0.05)]):
            for s_next, p in zip((up, s, down), chances, strict=True):
                P[s, a, s_next] += p
    R[0, 0], R[-1, 1] = 0.05, 1.0
    mdp = MDP.from_tensor(0.99 * P + 0.01 / n_states, R)
    return Problem(mdp, [Quota("home", states=[0], at_least=0.15)])


INSTANCES: dict[str, Callable[[], Problem]] = {
    "paper3": scenarios.three_state,
    "queue": queue,
    "garnet20": lambda: garnet(20),
    "garnet100": lambda: garnet(100),
    "river20": river,
}


def truth(problem: Problem, policy: np.ndarray) -> tuple[float, float]:
    """Exact gain of a policy, and its worst relative shortfall."""
    x = policy * Chain.of(problem.mdp, policy).shares[problem.mdp.s_of]
    short = (problem.at_least - problem.members @ x) / np.maximum(problem.at_least, 1e-12)
    return float(problem.mdp.r @ x), float(short.max(initial=0.0))


def measure(name: str, method: str, samples: int, seeds: int) -> dict[str, object]:
    """One row of the table."""
    problem = INSTANCES[name]()
    best, simulator = solve_lp(problem).gain, problem.mdp.simulator()
    results = []
    for seed in range(seeds):
        policy = learn(simulator, problem.quotas, samples=samples, method=method, seed=seed).policy
        results.append(truth(problem, policy))
    gains, shorts = np.array(results).T
    lost, short = np.quantile(np.maximum(best - gains, 0), 0.95), np.quantile(shorts, 0.95)
    return {
        "instance": name,
        "method": method,
        "samples": samples,
        "target": int(method == "plugin" and samples == TARGETS[name]),
        "seeds": seeds,
        "lost_p95": round(float(lost), 5),
        "short_p95": round(float(short), 5),
        "missed": round(float((shorts > 1e-9).mean()), 3),
        "good": int(lost <= LOST and short <= SHORT),
    }


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="samples to target of the learners")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--instances", default=",".join(INSTANCES))
    parser.add_argument("--targets-only", action="store_true", help="the default at its due budget, no more")
    args = parser.parse_args()
    cases = [(name, "plugin", samples) for name, samples in TARGETS.items()]
    if not args.targets_only:
        cases += [(*which, samples) for which, grid in GRID.items() for samples in grid]
    rows = []
    for name, method, samples in sorted(cases, key=lambda case: (list(INSTANCES).index(case[0]), *case[1:])):
        if name in args.instances.split(","):
            begin = time.perf_counter()
            rows.append(measure(name, method, samples, args.seeds))
            print(rows[-1], f"{time.perf_counter() - begin:.1f} s", file=sys.stderr)
    with table("samples_to_target", FIELDS, args.out) as add:
        for row in rows:
            add(row)


if __name__ == "__main__":
    main()
