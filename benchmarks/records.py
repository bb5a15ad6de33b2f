"""How often a claim from a log is made, how often it is false, and whether the advised records suffice.

    python -m benchmarks.records --seeds 100 --budgets 100,400 --out benchmarks/results/records.csv

A row per world, behaviour and budget (in records per pair): runs, claims, false claims with the upper end of
their 95 % interval (Clopper and Pearson). A claim is false if the true chain of the returned policy, begun in
a state that the policy knows, misses a quota. Where no claim is made and about a number of further records is
advised (at most `MOST`), the log is made that much longer: ``advised`` counts these, ``enough`` those that
then had a claim; ``lost`` is the mean lost gain of the claims that are true. Behaviours: ``uniform``;
``biased``, seven in ten for the first action; ``unfair``, the best policy without quotas in nine steps of
ten, else uniform.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.claims import WORLDS
from benchmarks.table import table
from scipy.stats import beta

from fairmdp import MDP, Chain, Log, Problem, Quota, learn, record, scenarios, solve_lp
from fairmdp.chains.policy import uniform_policy
from fairmdp.model.checks import Floats

FIELDS = [
    "world", "behaviour", "per_pair", "seeds", "claims", "false", "false_upper", "advised", "enough", "lost",
    "cpu_seconds",
]  # fmt: skip
BEHAVIOURS = ("uniform", "biased", "unfair")
MOST = 30_000


def tides(seed: int) -> Problem:
    """A place that is reached by chance alone, and can be held at a price."""
    P = [[0.9, 0.1, 0], [0.6, 0.35, 0.05], [0.5, 0.5, 0], [0.1, 0.8, 0.1], [0, 0.4, 0.6], [0, 0.05, 0.95]]
    return Problem(MDP(P, [1, 0.8, 0.5, 0.3, 0.2, 0], [0, 0, 1, 1, 2, 2]), [Quota("2", [2], at_least=0.3)])


OWN = {
    "three-state": lambda seed: scenarios.three_state(),
    "jobs": lambda seed: scenarios.jobs(),
    "tides": tides,
    "garnet8": lambda seed: scenarios.garnet(8, 3, n_quotas=3, seed=1000 + seed),
}


def world(name: str, seed: int) -> tuple[Problem, float]:
    """A problem and the noise of its rewards."""
    return (OWN[name](seed), 0.1) if name in OWN else (WORLDS[name][0](seed), WORLDS[name][1])


def behaviour(problem: Problem, name: str) -> Floats:
    """What was done, (SA,)."""
    mdp, even = problem.mdp, uniform_policy(problem.mdp)
    if name == "biased":
        first = np.zeros(mdp.n_pairs)
        first[mdp.pair_ptr[:-1]] = 1.0
        return 0.7 * first + 0.3 * even
    if name == "unfair":
        return 0.9 * solve_lp(problem.without_quotas()).policy + 0.1 * even
    return even


def logged(problem: Problem, noise: float, policy: Floats, steps: int, seed: int) -> Log:
    """A log of the true model with noisy rewards; a longer one begins as a shorter one does."""
    log = record(problem.mdp, policy, steps=steps, seed=seed)
    noisy = log.rewards + noise * np.random.default_rng([seed, 1]).standard_normal(steps)
    return Log(log.labels, log.pairs, log.s_next, noisy, log.times, log.follows)


def misses(problem: Problem, policy: Floats) -> tuple[bool, float]:
    """Whether a policy misses a quota on the true model, and its gain."""
    x = policy * Chain.of(problem.mdp, policy).shares[problem.mdp.s_of]
    shares = problem.members @ x
    missed = (shares < problem.at_least - 1e-9).any() or (shares > problem.at_most + 1e-9).any()
    return bool(missed), float(problem.mdp.r @ x)


def measure(name: str, how: str, per_pair: float, seeds: range) -> dict[str, object]:
    """One row of the table."""
    began, claims, false, advised, enough, lost = time.process_time(), 0, 0, 0, 0, []
    for seed in seeds:
        problem, noise = world(name, seed)
        policy, steps = behaviour(problem, how), int(per_pair * problem.mdp.n_pairs)
        found = learn(logged(problem, noise, policy, steps, seed), problem.quotas, seed=seed)
        missed, gain = misses(problem, found.policy)
        claims += found.guaranteed
        false += found.guaranteed and missed
        if found.guaranteed and not missed:
            lost.append(max(solve_lp(problem).gain - gain, 0.0))
        more = found.records.more_records if found.records else None
        if more is not None and more <= MOST and "it takes about" in found.claim:
            advised += 1
            again = learn(logged(problem, noise, policy, steps + more, seed), problem.quotas, seed=seed)
            enough += again.guaranteed
    n = len(seeds)
    return {
        "world": name,
        "behaviour": how,
        "per_pair": per_pair,
        "seeds": n,
        "claims": claims,
        "false": false,
        "false_upper": round(float(beta.ppf(0.975, false + 1, n - false)), 4),
        "advised": advised,
        "enough": enough,
        "lost": round(float(np.mean(lost)), 5) if lost else "",
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="claims from logs")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--budgets", default="100,400", help="records per pair")
    parser.add_argument("--worlds", default=",".join([*WORLDS, *OWN]))
    parser.add_argument("--behaviours", default=",".join(BEHAVIOURS))
    args = parser.parse_args()
    seeds = range(args.first, args.first + args.seeds)
    with table("records", FIELDS, args.out) as add:
        for name in args.worlds.split(","):
            for how in args.behaviours.split(","):
                for per_pair in args.budgets.split(","):
                    row = measure(name, how, float(per_pair), seeds)
                    print(row, file=sys.stderr)
                    add(row)


if __name__ == "__main__":
    main()
