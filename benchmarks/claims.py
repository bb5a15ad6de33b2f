"""How often a claim of `learn` is made, and how often it is false, on worlds that make it hard.

    python -m benchmarks.claims --seeds 300 --budgets 100,400 --out benchmarks/results/claims.csv

One row per world and budget (in samples per pair): runs, claims, false claims with the upper end of their
95 % interval (Clopper and Pearson, in shares of all runs), and the mean lost gain of all runs,
``max(0, v* - v)``. A claim is false if the true chain of the returned policy misses a quota. Worlds that are
drawn at random are drawn anew for every seed.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.table import table
from scipy.stats import beta

from fairmdp import MDP, Chain, Problem, Quota, learn, solve_lp
from fairmdp.model.simulator import ModelSimulator

FIELDS = [
    "world", "per_pair", "delta", "seeds", "claims", "false", "false_share", "false_upper", "lost_mean",
    "lost_p95", "seconds",
]  # fmt: skip
_SLIPS = (0.004, 0.002, 0.0)


class Noisy:
    """A model as a simulator whose rewards have normal noise."""

    def __init__(self, mdp: MDP, noise: float) -> None:
        self._model, self._noise = ModelSimulator(mdp), noise
        self.n_states, self.n_actions = mdp.n_states, mdp.n_actions

    def sample(self, states: Any, actions: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        """Answers of the model, with noise on the rewards."""
        s_next, rewards = self._model.sample(states, actions, rng)
        return s_next, rewards + self._noise * rng.standard_normal(states.size)


def of_rows(rows: list[tuple[int, Any, float]], quotas: list[Quota]) -> Problem:
    """Problem of rows (state, probabilities, reward)."""
    P = np.array([row for _, row, _ in rows], float)
    return Problem(
        MDP(P / P.sum(axis=1, keepdims=True), [r for *_, r in rows], [s for s, *_ in rows]), quotas
    )


def two_states(seed: int) -> Problem:
    """One choice that moves a share by little."""
    rows = [(0, (0.5, 0.5), 1.0), (0, (0.42, 0.58), 0.0), (1, (0.5, 0.5), 0.0)]
    return of_rows(rows, [Quota("1", [1], at_least=0.52)])


def slow_mixing(seed: int) -> Problem:
    """Two halves that are left once in a hundred steps."""
    e = 0.01
    rows = [
        (0, (0.5, 0.5 - e, e, 0), 1.0), (0, (0.2, 0.8 - 2 * e, 2 * e, 0), 0.8),
        (1, (0.6, 0.4, 0, 0), 0.9), (1, (0.3, 0.7 - e, 0, e), 0.5),
        (2, (e, 0, 0.5, 0.5 - e), 0.1), (2, (3 * e, 0, 0.7, 0.3 - 3 * e), 0.0),
        (3, (0, 0, 0.5, 0.5), 0.2), (3, (0, 2 * e, 0.4, 0.6 - 2 * e), 0.1),
    ]  # fmt: skip
    return of_rows(rows, [Quota("right", [2, 3], at_least=0.4)])


def rare_state(seed: int) -> Problem:
    """A state that is owed a few thousandths, beside a cap."""
    rows = [
        (0, (0.99, 0.01, 0), 0.5), (0, (0.9, 0.095, 0.005), 0.3),
        (1, (0.5, 0.5, 0), 0.6), (1, (0.5, 0.48, 0.02), 0.4),
        (2, (0.7, 0.2, 0.1), 0.0), (2, (0.2, 0.5, 0.3), -0.2),
    ]  # fmt: skip
    return of_rows(rows, [Quota("2", [2], at_least=0.004), Quota("1", [1], at_most=0.12)])


def near_ties(seed: int) -> Problem:
    """Three nearly equal actions in each of five states: chance picks the best on the samples."""
    rng = np.random.default_rng([seed, 1])
    rows = []
    for s in range(5):
        base, pay = rng.dirichlet(np.ones(5)), rng.random()
        for _ in range(3):
            rows.append((s, 0.97 * base + 0.03 * rng.dirichlet(np.ones(5)), pay + 1e-4 * rng.random()))
    free = of_rows(rows, [])
    shares = solve_lp(free).visitation
    k = int(np.argmin(shares))
    most = solve_lp(Problem(MDP(free.mdp.P, (free.mdp.s_of == k).astype(float), free.mdp.s_of), [])).gain
    return of_rows(rows, [Quota("least", [k], at_least=(shares[k] + most) / 2)])


def ring(seed: int) -> Problem:
    """Twelve states in a ring; resets lead to its start."""
    rows = []
    for s in range(12):
        for a in range(2):
            row = np.zeros(12)
            row[(s + 1) % 12] += 0.85 - 0.1 * a
            row[0] += 0.138 + 0.1 * a
            row[11] += 0.012
            rows.append((s, row, (s / 11) ** 3 - 0.01 * a))
    return of_rows(rows, [Quota("start", [0, 1], at_least=0.42)])


def trap(seed: int) -> Problem:
    """Slips that are seen once in hundreds of samples lead into a pit that is hard to leave."""
    rows = []
    for s in range(5):
        for slip, pay in zip(_SLIPS, (1.0, 0.9, 0.3), strict=True):
            row = np.zeros(6)
            row[[(s + 1) % 5, s, (s + 2) % 5, 5]] = (
                0.6 * (1 - slip), 0.2 * (1 - slip), 0.2 * (1 - slip), slip
            )  # fmt: skip
            rows.append((s, row, pay))
    for back, pay in ((0.02, 0.0), (0.03, -0.5)):
        rows.append((5, (back, 0, 0, 0, 0, 1 - back), pay))
    return of_rows(rows, [Quota("outside", range(5), at_least=0.92)])


def never(seed: int) -> Problem:
    """Five actions that are all the same; the quota is out of reach, so that every claim is false."""
    rng = np.random.default_rng([seed, 2])
    rows: list[tuple[int, Any, float]] = []
    for s in range(6):
        row = 0.2 / 6 + 0.8 * rng.dirichlet(np.full(6, 0.7))
        rows += [(s, row, rng.random()) for _ in range(5)]
    mdp = of_rows(rows, []).mdp
    shares = Chain.of(mdp, np.full(30, 0.2)).shares
    k = int(np.argsort(shares)[2])
    return of_rows(rows, [Quota("third", [k], at_least=1.02 * shares[k])])


def many_rare(seed: int) -> Problem:
    """Own: sixteen bad states, each entered once in a thousand steps, that together are capped."""
    rows = []
    for s in range(2):
        for a, (each, pay) in enumerate([(0.001, 1.0), (0.0005, 0.8), (0.0001, 0.2)]):
            row = np.full(18, each)
            row[:2] = (1 - 16 * each) * np.array([0.3 + 0.2 * a, 0.7 - 0.2 * a])
            rows.append((s, row, pay))
    for s in range(2, 18):
        row = np.zeros(18)
        row[s], row[0] = 0.9, 0.1
        rows.append((s, row, 0.0))
    return of_rows(rows, [Quota("bad", range(2, 18), at_most=0.1)])


def tight_pair(seed: int) -> Problem:
    """Own: random, with a floor and a cap close together and a quota on pairs."""
    rng = np.random.default_rng([seed, 3])
    rows = [
        (s, rng.dirichlet(np.full(6, 0.5)) * 0.95 + 0.05 / 6, rng.random()) for s in range(6) for _ in "abc"
    ]
    mdp = of_rows(rows, []).mdp
    x = np.full(18, 1 / 3) * Chain.of(mdp, np.full(18, 1 / 3)).shares[mdp.s_of]
    nu = np.add.reduceat(x, mdp.pair_ptr[:-1])
    return of_rows(
        rows,
        [
            Quota("narrow", [0, 1], at_least=0.97 * nu[:2].sum(), at_most=1.03 * nu[:2].sum()),
            Quota("pair", pairs=[(2, 0)], at_least=0.9 * x[6]),
            Quota("last", [5], at_least=1.02 * nu[5]),
        ],
    )


def nearly_cyclic(seed: int) -> Problem:
    """Own: a cycle of eight states with two gates that open once in fifty steps; both halves are owed."""
    rows = []
    for s in range(8):
        for a in range(2):
            row = np.zeros(8)
            go = (0.02 + 0.01 * a) if s in (3, 7) else 0.7 + 0.2 * a
            row[(s + 1) % 8], row[s] = go, 1 - go
            rows.append((s, row, float(s < 4) - 0.05 * a))
    return of_rows(rows, [Quota("far", range(4, 8), at_least=0.5), Quota("gate", [7], at_least=0.4)])


WORLDS: dict[str, tuple[Callable[[int], Problem], float]] = {
    "near ties": (near_ties, 0.3),
    "slow mixing": (slow_mixing, 1.0),
    "rare state": (rare_state, 0.5),
    "ring": (ring, 0.1),
    "two states": (two_states, 0.0),
    "trap": (trap, 0.2),
    "never": (never, 0.3),
    "many rare": (many_rare, 0.1),
    "tight pair": (tight_pair, 0.2),
    "nearly cyclic": (nearly_cyclic, 0.1),
}


def run(world: str, per_pair: float, seed: int, delta: float = 0.05) -> tuple[bool, bool, float, float]:
    """Whether a claim was made, whether a quota is missed, the true gain, and the best one."""
    make, noise = WORLDS[world]
    problem = make(seed)
    samples = int(per_pair * problem.mdp.n_pairs)
    found = learn(Noisy(problem.mdp, noise), problem.quotas, samples=samples, seed=seed, delta=delta)
    x = found.policy * Chain.of(problem.mdp, found.policy).shares[problem.mdp.s_of]
    shares = problem.members @ x
    missed = bool((shares < problem.at_least - 1e-9).any() or (shares > problem.at_most + 1e-9).any())
    best = solve_lp(problem).gain
    return found.guaranteed, missed, float(problem.mdp.r @ x), best


def measure(world: str, per_pair: float, seeds: range, delta: float = 0.05) -> dict[str, object]:
    """One row of the table."""
    began = time.perf_counter()
    runs = [run(world, per_pair, seed, delta) for seed in seeds]
    n, claims = len(runs), sum(claimed for claimed, *_ in runs)
    false = sum(claimed and missed for claimed, missed, *_ in runs)
    lost = np.array([max(best - gain, 0.0) for *_, gain, best in runs])
    return {
        "world": world,
        "per_pair": per_pair,
        "delta": delta,
        "seeds": n,
        "claims": claims,
        "false": false,
        "false_share": round(false / n, 4),
        "false_upper": round(float(beta.ppf(0.975, false + 1, n - false)), 4),
        "lost_mean": "" if world == "never" else round(float(lost.mean()), 5),
        "lost_p95": "" if world == "never" else round(float(np.quantile(lost, 0.95)), 5),
        "seconds": round(time.perf_counter() - began, 1),
    }


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="false claims of the learner")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--budgets", default="100,400,1000", help="samples per pair")
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--delta", type=float, default=0.05)
    args = parser.parse_args()
    seeds = range(args.first, args.first + args.seeds)
    with table("claims", FIELDS, args.out) as add:
        for per_pair in args.budgets.split(","):
            for world in args.worlds.split(","):
                row = measure(world, float(per_pair), seeds, args.delta)
                print(row, file=sys.stderr)
                add(row)


if __name__ == "__main__":
    main()
