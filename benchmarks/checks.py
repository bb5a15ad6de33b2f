r"""How often the checks of a log raise an alarm: on logs of Markov models, and on six kinds that are not.

    python -m benchmarks.checks --seeds 200 --first 1000 --kinds markov,adaptive --records 4000 \
        --out benchmarks/results/checks.csv

A row per model, kind and number of records: alarms of any check, and of each, among so many seeds. Alarms are
to be at most 1 % where ``kind`` is ``markov`` or ``adaptive`` (Markov, but what is done depends on the whole
past). The kinds that are not Markov: ``before`` (rows differ by the state before), ``hidden`` (a second model
is in force at times that are not recorded, left with probability 0.01), ``lumped`` (only every other state is
told apart: two states share a name), ``drift`` (a second model from the middle on), ``paid before`` and
``paid hidden`` (the rewards alone, by a quarter of their standard deviation). Rewards are skewed and noisy.

``told`` counts the alarms, at 1 %, of a test that is told both models and which of them is in force when (of
``hidden`` how likely each is, on all that was seen): what no check that has to find that out can do better.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.claims import WORLDS
from benchmarks.table import table
from scipy.special import ndtri

from fairmdp import Log, scenarios
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.mdp import MDP

CHECKS = (
    "drift", "memory of the state before", "memory of the action before", "likeness to earlier records",
    "drift of rewards", "likeness of rewards", "memory of the state before in rewards",
)  # fmt: skip
FIELDS = ["model", "kind", "records", "seeds", "alarms", "told", *CHECKS, "cpu_seconds"]
KINDS = ("markov", "adaptive", "before", "hidden", "lumped", "drift", "paid before", "paid hidden")
PAID = 0.25  # of the deviation of rewards, which is 1
LEFT = 0.01  # chance that the hidden model is changed at a step
MODELS: dict[str, tuple[MDP, MDP]] = {
    "three-state": (scenarios.three_state().mdp, None),
    "jobs": (scenarios.jobs().mdp, scenarios.jobs(arrivals=(2.0, 1.4)).mdp),
    "garnet": (scenarios.garnet(12, 3, seed=5).mdp, None),
    "slow mixing": (WORLDS["slow mixing"][0](0).mdp, None),
}  # type: ignore[dict-item]


def rows_of(name: str) -> tuple[MDP, Floats, Floats]:
    """A model, its rows, and those of a second one, less or more far from them."""
    mdp, other = MODELS[name]
    P = mdp.P.toarray()
    if other is not None:
        return mdp, P, other.P.toarray()
    rng = np.random.default_rng(0)
    return mdp, P, 0.5 * P + 0.5 * np.array([rng.dirichlet(np.maximum(row * row.size, 0.05)) for row in P])


def made(name: str, kind: str, steps: int, seed: int, *, noise: bool = False) -> Log:
    """A log of so many records."""
    return run(name, kind, steps, seed, noise=noise)[0]


def run(name: str, kind: str, steps: int, seed: int, *, noise: bool) -> tuple[Log, Ints, Ints, Floats]:
    """A log, the true pair and next state of each record, and whether the second model was in force."""
    mdp, P, other = rows_of(name)
    rng, S = np.random.default_rng([seed, 11]), mdp.n_states
    sums = [np.cumsum(P, axis=1), np.cumsum(other, axis=1)]
    first, n_actions = mdp.pair_ptr[:-1].tolist(), mdp.n_actions.tolist()
    tried = np.zeros(mdp.n_pairs)
    s, before, second = 0, 0, False
    pairs, s_next, in_force = [], [], []
    for t, (u, v, w) in enumerate(rng.random((steps, 3)).tolist()):
        i = first[s] + int(u * n_actions[s])
        if kind == "adaptive":
            i = first[s] + int(np.argmin(tried[first[s] : first[s] + n_actions[s]] * (1 + 0.2 * before)))
            tried[i] += 1
        if kind in ("hidden", "paid hidden"):
            second ^= w < LEFT
        elif kind in ("before", "paid before"):
            second = before % 2 == 1
        elif kind == "drift":
            second = t >= steps / 2
        row = sums[int(second and not kind.startswith("paid"))][i]
        to = min(int(np.searchsorted(row, v * row[-1], side="right")), S - 1)
        pairs.append(i)
        s_next.append(to)
        in_force.append(second)
        before, s = s, to
    states, second = (mdp.s_of[pairs], np.array(s_next)), np.array(in_force, float)
    if kind == "lumped":
        states = states[0] // 2, states[1] // 2
    actions = np.array(pairs) - mdp.pair_ptr[mdp.s_of[pairs]]
    noises = np.random.default_rng([seed, 12, KINDS.index(kind), *name.encode()])
    rewards = noises.exponential(1.0, steps) if noise else np.zeros(steps)
    if kind.startswith("paid"):
        rewards = rewards + PAID * second
    log = Log.from_table({"state": states[0], "action": actions, "reward": rewards, "next": states[1]})
    return log, np.array(pairs), np.array(s_next), second


def deviations_told(name: str, kind: str, pairs: Ints, s_next: Ints, second: Floats) -> float:
    """By how many deviations what followed leans to the second model when that is in force."""
    _, P, other = rows_of(name)
    p, q = P[pairs, s_next], other[pairs, s_next]
    lean = (q - p) / (p + q)
    if kind == "hidden":
        second, chance = np.zeros(pairs.size), 0.0
        for n, (one, two) in enumerate(zip(p.tolist(), q.tolist(), strict=True)):
            second[n] = chance = chance * (1 - LEFT) + (1 - chance) * LEFT
            chance = chance * two / (chance * two + (1 - chance) * one)
    of = np.bincount(pairs)
    lean, second = (each - (np.bincount(pairs, each) / np.maximum(of, 1))[pairs] for each in (lean, second))
    variance = np.bincount(pairs, lean**2) * np.bincount(pairs, second**2) / np.maximum(of - 1, 1)
    return float((lean * second).sum() / np.sqrt(variance.sum()))


def measure(name: str, kind: str, steps: int, seeds: range) -> dict[str, object]:
    """One row of the table."""
    began, alarms, told = time.process_time(), dict.fromkeys(["any", *CHECKS], 0), 0
    for seed in seeds:
        log, *truth = run(name, kind, steps, seed, noise=True)
        seen = {finding.check for finding in log.check() if finding.alarm}
        for check in seen | ({"any"} if seen else set()):
            alarms[check] += 1
        if kind in ("before", "hidden", "drift"):
            told += deviations_told(name, kind, *truth) > float(ndtri(0.99))
    return {
        "model": name, "kind": kind, "records": steps, "seeds": len(seeds), "alarms": alarms.pop("any"),
        "told": told if kind in ("before", "hidden", "drift") else "", **alarms,
        "cpu_seconds": round(time.process_time() - began, 1),
    }  # fmt: skip


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="alarms of the checks of a log")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--records", default="2000,10000")
    args = parser.parse_args()
    with table("checks", FIELDS, args.out) as add:
        for name in args.models.split(","):
            for kind in args.kinds.split(","):
                for steps in args.records.split(","):
                    row = measure(name, kind, int(steps), range(args.first, args.first + args.seeds))
                    print(row, file=sys.stderr)
                    add(row)


if __name__ == "__main__":
    main()
