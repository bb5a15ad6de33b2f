"""How often the learner's claim on a welfare is false, on worlds that make claims hard.

    python -m benchmarks.welfare_claims --seeds 300 --out benchmarks/results/welfare_claims.csv

The worlds are those of `claims`; every state is a group, and what is owed there is owed in rows "with quotas"
and set aside in the others. A claim is false if the welfare of the policy on the true model is below the
floor that was claimed, or if it misses a quota. ``short`` is the mean distance from the floor to the truth,
``lost`` that from the truth to the best welfare, both in the unit of the welfare.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.claims import WORLDS, Noisy
from benchmarks.table import table
from scipy.stats import beta

import fairmdp as fm
from fairmdp import Chain, Problem, Quota, Utility
from fairmdp.certificate.welfare import Asked
from fairmdp.model.objectives import value_at

FIELDS = [
    "world", "objective", "reward", "quotas", "per_pair", "delta", "seeds", "claims", "false", "false_share",
    "false_upper", "short", "lost", "seconds",
]  # fmt: skip
ASKED = {
    "nash": (fm.alpha_fair(1), 0.0), "nash + gain": (fm.alpha_fair(1), 1.0), "gini": (fm.gini(), 0.0),
    "max-min": (fm.max_min(), 0.0),
}  # fmt: skip


def of_world(world: str, seed: int, owed: bool) -> tuple[Problem, float, list[str]]:
    """A world whose states are groups, the noise of its rewards, and the names of the groups."""
    make, noise = WORLDS[world]
    problem = make(seed)
    groups = [Utility(f"state {s}", states=[s]) for s in range(problem.mdp.n_states)]
    taken = {
        tuple(np.sort(np.asarray(q.states)).tolist()): q.name for q in problem.quotas if q.states is not None
    }
    over = [taken.get((s,), f"state {s}") for s in range(problem.mdp.n_states)]
    rows: list[Quota] = [q for q in groups if q.name in over] + list(problem.quotas)
    whole = Problem(problem.mdp, rows)
    return whole if owed else whole.with_sets_unbounded(), noise, over


def run(
    world: str, word: str, per_pair: float, seed: int, owed: bool, delta: float
) -> tuple[bool, bool, float, float]:
    """Whether a claim was made, whether it is false, and how far floor, truth and best are apart."""
    problem, noise, over = of_world(world, seed, owed)
    objective, reward = ASKED[word]
    found = fm.learn(
        Noisy(problem.mdp, noise), problem.quotas, samples=int(per_pair * problem.mdp.n_pairs), seed=seed,
        delta=delta, objective=objective, over=over, reward=reward,
    )  # fmt: skip
    x = found.policy * Chain.of(problem.mdp, found.policy).shares[problem.mdp.s_of]
    shares = problem.members @ x
    index = [problem.quota_index(name) for name in over]
    truth = value_at(objective, shares[index]) + reward * float(problem.mdp.r @ x)
    missed = bool((shares < problem.at_least - 1e-9).any() or (shares > problem.at_most + 1e-9).any())
    best = fm.solve_welfare(problem, objective, over=over, reward=reward)
    unit = Asked.of(problem, best).unit(best.welfare)
    assert found.welfare is not None
    false = found.guaranteed and (missed or truth < found.welfare.low - 1e-12)
    return found.guaranteed, false, (truth - found.welfare.low) / unit, (best.welfare - truth) / unit


def measure(
    world: str, word: str, per_pair: float, owed: bool, seeds: range, delta: float
) -> dict[str, object]:
    """One row of the table."""
    began = time.process_time()
    runs = [run(world, word, per_pair, seed, owed, delta) for seed in seeds]
    n, claims, false = len(runs), sum(each[0] for each in runs), sum(each[1] for each in runs)
    floors = [short for claimed, _, short, _ in runs if claimed and np.isfinite(short)]
    return {
        "world": world, "objective": word, "reward": ASKED[word][1], "quotas": owed, "per_pair": per_pair,
        "delta": delta, "seeds": n, "claims": claims, "false": false, "false_share": round(false / n, 4),
        "false_upper": round(float(beta.ppf(0.975, false + 1, n - false)), 4),
        "short": f"{np.mean(floors):.2g}" if floors else "",
        "lost": f"{np.mean([lost for *_, lost in runs]):.2g}",
        "seconds": round(time.process_time() - began, 1),
    }  # fmt: skip


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="false claims of the learner on a welfare")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--budgets", default="100,400", help="samples per pair")
    parser.add_argument("--worlds", default="near ties,slow mixing,rare state,trap")
    parser.add_argument("--objectives", default=",".join(ASKED))
    parser.add_argument("--quotas", choices=["without", "with", "both"], default="both")
    parser.add_argument("--delta", type=float, default=0.05)
    args = parser.parse_args()
    with table("welfare_claims", FIELDS, args.out) as add:
        for owed in {"without": (False,), "with": (True,), "both": (False, True)}[args.quotas]:
            for per_pair in map(float, args.budgets.split(",")):
                for world in args.worlds.split(","):
                    for word in args.objectives.split(","):
                        row = measure(world, word, per_pair, owed, range(args.seeds), args.delta)
                        print(row, file=sys.stderr)
                        add(row)


if __name__ == "__main__":
    main()
