"""How often the checks of a log raise an alarm: on logs of Markov models, and on three kinds that are not.

    python -m benchmarks.checks --seeds 100 --out benchmarks/results/checks.csv

A row per model, kind and number of records: alarms of any check, and of each, among so many seeds. Alarms are
to be at most 1 % where ``kind`` is ``markov`` or ``adaptive`` (Markov, but what is done depends on the whole
past). The kinds that are not Markov: ``before`` (rows differ by the state before), ``hidden`` (a second model
is in force at times that are not recorded, left with probability 0.01), ``lumped`` (only every other state is
told apart: two states share a name), ``drift`` (a second model from the middle on).
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.claims import WORLDS
from benchmarks.table import table

from fairmdp import Log, scenarios
from fairmdp.model.checks import Floats
from fairmdp.model.mdp import MDP

CHECKS = (
    "drift", "memory of the state before", "memory of the action before", "likeness to earlier records",
)  # fmt: skip
FIELDS = ["model", "kind", "records", "seeds", "alarms", *CHECKS, "cpu_seconds"]
KINDS = ("markov", "adaptive", "before", "hidden", "lumped", "drift")
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


def made(name: str, kind: str, steps: int, seed: int) -> Log:
    """A log of so many records."""
    mdp, P, other = rows_of(name)
    rng, S = np.random.default_rng([seed, 11]), mdp.n_states
    sums = [np.cumsum(P, axis=1), np.cumsum(other, axis=1)]
    first, n_actions = mdp.pair_ptr[:-1].tolist(), mdp.n_actions.tolist()
    tried = np.zeros(mdp.n_pairs)
    s, before, second = 0, 0, False
    pairs, s_next = [], []
    for t, (u, v, w) in enumerate(rng.random((steps, 3)).tolist()):
        i = first[s] + int(u * n_actions[s])
        if kind == "adaptive":
            i = first[s] + int(np.argmin(tried[first[s] : first[s] + n_actions[s]] * (1 + 0.2 * before)))
            tried[i] += 1
        if kind == "hidden":
            second ^= w < LEFT
        elif kind == "before":
            second = before % 2 == 1
        elif kind == "drift":
            second = t >= steps / 2
        row = sums[int(second)][i]
        to = min(int(np.searchsorted(row, v * row[-1], side="right")), S - 1)
        pairs.append(i)
        s_next.append(to)
        before, s = s, to
    states = mdp.s_of[pairs], np.array(s_next)
    if kind == "lumped":
        states = states[0] // 2, states[1] // 2
    actions = np.array(pairs) - mdp.pair_ptr[mdp.s_of[pairs]]
    return Log.from_table(
        {"state": states[0], "action": actions, "reward": np.zeros(steps), "next": states[1]}
    )


def measure(name: str, kind: str, steps: int, seeds: range) -> dict[str, object]:
    """One row of the table."""
    began, alarms = time.process_time(), dict.fromkeys(["any", *CHECKS], 0)
    for seed in seeds:
        seen = {finding.check for finding in made(name, kind, steps, seed).check() if finding.alarm}
        for check in seen | ({"any"} if seen else set()):
            alarms[check] += 1
    return {
        "model": name, "kind": kind, "records": steps, "seeds": len(seeds), "alarms": alarms.pop("any"),
        **alarms, "cpu_seconds": round(time.process_time() - began, 1),
    }  # fmt: skip


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="alarms of the checks of a log")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--records", default="2000,10000")
    args = parser.parse_args()
    with table("checks", FIELDS, args.out) as add:
        for name in args.models.split(","):
            for kind in args.kinds.split(","):
                for steps in args.records.split(","):
                    row = measure(name, kind, int(steps), range(args.seeds))
                    print(row, file=sys.stderr)
                    add(row)


if __name__ == "__main__":
    main()
