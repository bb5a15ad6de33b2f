"""CPU seconds to make one model from rules, tables and arrays, beside stormpy and QuantEcon where they can.

A walk on a torus: five actions in each place, each with five outcomes. All builders must make a model of the
same size, and the rule is the same Python for all who ask it state by state. Rivals run where they are
installed; else their rows say that they are not.

python -m benchmarks.models_in --wide 1000 5 --wide 3163 2 --out benchmarks/results/models_in.csv
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from benchmarks.table import table
from scipy.sparse import csr_array, csr_matrix

from fairmdp import MDP

MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1), (0, 0))
MEANT = 0.6


class Torus:
    """The walk on a torus of width w: as rules, as arrays and as a table."""

    def __init__(self, width: int, moves: int = len(MOVES)) -> None:
        self.width, self.n_states, self.moves = width, width * width, MOVES[:moves]
        self.actions = tuple(range(moves))
        self.slipped = (1 - MEANT) / (moves - 1)

    def step(self, state, action):
        """Where an action leads from a place, and what it pays: the rule that is asked state by state."""
        x, y = state
        w = self.width
        next_states = {
            ((x + dx) % w, (y + dy) % w): MEANT if a == action else self.slipped
            for a, (dx, dy) in enumerate(self.moves)
        }
        return next_states, float(x == action)

    def steps(self, states, action):
        """The same for an array of places, as `MDP.from_array_rules` asks."""
        chances = np.where(np.arange(len(self.moves)) == int(action), MEANT, self.slipped)
        targets = (states[:, None, :] + np.array(self.moves)) % self.width
        return np.tile(chances, (len(states), 1)), targets, (states[:, 0] == int(action)).astype(float)

    def number(self, state):
        """Number of a place."""
        return state[0] * self.width + state[1]

    def places(self):
        """All places, in the order of their numbers."""
        return ((x, y) for x in range(self.width) for y in range(self.width))

    def arrays(self):
        """Rows of the pairs: transitions in CSR, rewards, states."""
        states = np.array(list(self.places()))
        each = [self.steps(states, a) for a in self.actions]
        chances = np.stack([p for p, _, _ in each], axis=1).ravel()
        targets = np.stack([t @ [self.width, 1] for _, t, _ in each], axis=1).ravel()
        rewards = np.stack([r for _, _, r in each], axis=1).ravel()
        pairs = self.n_states * len(self.actions)
        P = csr_array(
            (chances, targets, np.arange(pairs + 1) * len(self.moves)), shape=(pairs, self.n_states)
        )
        P.sort_indices()
        return P, rewards, np.repeat(np.arange(self.n_states), len(self.actions))

    def columns(self):
        """One row for each outcome, as a table has them."""
        P, r, s_of = self.arrays()
        row = np.repeat(np.arange(r.size), np.diff(P.indptr))
        return {
            "state": s_of[row],
            "action": row % len(self.actions),
            "next": P.indices.astype(np.int64),
            "probability": P.data,
            "reward": r[row],
        }


def asked_by_hand(torus):
    """Rows of the pairs by a loop over states and actions, which a user of arrays writes."""
    chances, targets, ends, rewards = [], [], [0], []
    for state in torus.places():
        for action in torus.actions:
            outcomes, reward = torus.step(state, action)
            for target, p in sorted((torus.number(t), p) for t, p in outcomes.items()):
                targets.append(target)
                chances.append(p)
            ends.append(len(targets))
            rewards.append(reward)
    shape = (len(rewards), torus.n_states)
    return csr_matrix((chances, targets, ends), shape=shape), np.array(rewards)


def quantecon_by_rules(torus):
    """QuantEcon has no rules: the loop, and then its sparse pair form."""
    from quantecon.markov import DiscreteDP

    P, r = asked_by_hand(torus)
    s_of, a_of = np.divmod(np.arange(r.size), len(torus.actions))
    DiscreteDP(r, P, 0.95, s_of, a_of)
    return P.nnz


def stormpy_by_rules(torus):
    """Row by row with the explicit builder of stormpy."""
    from stormpy.datastructures import SparseMatrixBuilder
    from stormpy.models import SparseMdp, SparseModelComponents, SparseRewardModel, StateLabeling

    builder = SparseMatrixBuilder[float](force_dimensions=False, has_custom_row_grouping=True)
    rewards, row = [], 0
    for state in torus.places():
        builder.new_row_group(row)
        for action in torus.actions:
            outcomes, reward = torus.step(state, action)
            for target, p in sorted((torus.number(t), p) for t, p in outcomes.items()):
                builder.add_next_value(row, target, p)
            rewards.append(reward)
            row += 1
    components = SparseModelComponents[float](
        transition_matrix=builder.build(),
        state_labeling=StateLabeling(torus.n_states),
        reward_models={"reward": SparseRewardModel[float](optional_state_action_reward_vector=rewards)},
    )
    return SparseMdp[float](components).nr_transitions


def quantecon_by_arrays(arrays):
    """QuantEcon's constructor alone."""
    from quantecon.markov import DiscreteDP

    P, r, s_of = arrays
    DiscreteDP(r, csr_matrix(P), 0.95, s_of, np.arange(s_of.size) - np.searchsorted(s_of, s_of))
    return P.nnz


def by_rules(torus):
    """Builders that ask the rule, each a function that returns how many transitions there are."""
    shape = (torus.width, torus.width)
    return {
        "from_rules": lambda: MDP.from_rules((0, 0), torus.actions, torus.step).P.nnz,
        "stormpy SparseMatrixBuilder": lambda: stormpy_by_rules(torus),
        "QuantEcon DiscreteDP after a loop": lambda: quantecon_by_rules(torus),
        "from_array_rules": lambda: (
            MDP.from_array_rules([[0, 0]], list(map(str, torus.actions)), torus.steps, shape=shape).P.nnz
        ),
    }


def by_tables(torus, folder):
    """Builders that read a table of one row for each outcome."""
    columns = torus.columns()
    found = {"from_table, dict of arrays": lambda: MDP.from_table(columns).P.nnz}
    if find_spec("pandas"):
        import pandas

        frame = pandas.DataFrame(columns)
        frame.to_csv(folder / "t.csv", index=False)
        found["from_table, pandas"] = lambda: MDP.from_table(frame).P.nnz
        found["from_table, CSV"] = lambda: MDP.from_table(folder / "t.csv").P.nnz
    if find_spec("pyarrow"):
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table(columns), folder / "t.parquet")
        found["from_table, Parquet"] = lambda: MDP.from_table(folder / "t.parquet").P.nnz
    return found


def by_arrays(torus):
    """Constructors on arrays that are there."""
    arrays = torus.arrays()
    return {
        "MDP": lambda: MDP(*arrays).P.nnz,
        "QuantEcon DiscreteDP": lambda: quantecon_by_arrays(arrays),
    }


def seconds(build: Callable[[], int], transitions: int) -> str:
    """CPU seconds of a builder, which must make the whole model."""
    begin = time.process_time()
    try:
        made = build()
    except ModuleNotFoundError as error:
        return f"not installed: {error.name}"
    took = time.process_time() - begin
    if made != transitions:
        raise AssertionError(f"{made} transitions, expected {transitions}")
    return f"{took:.2f}"


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="CPU seconds to make a model")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--width", type=int, default=316, help="width of the torus for all builders")
    parser.add_argument(
        "--wide", type=int, nargs=2, action="append", default=[], metavar=("WIDTH", "MOVES"),
        help="a torus for arrays of states alone, with so many actions and outcomes",
    )  # fmt: skip
    args = parser.parse_args()
    with (
        table("models_in", ("from", "states", "transitions", "builder", "seconds"), args.out) as add,
        tempfile.TemporaryDirectory() as folder,
    ):

        def run(kind, torus, builders):
            size = {"states": torus.n_states, "transitions": torus.n_states * len(torus.moves) ** 2}
            for name, build in builders.items():
                taken = seconds(build, size["transitions"])
                add({"from": kind, **size, "builder": name, "seconds": taken})

        warm = Torus(10)  # what is compiled is compiled
        for build in {**by_rules(warm), **by_arrays(warm)}.values():
            seconds(build, warm.n_states * 25)
        torus = Torus(args.width)
        run("rules", torus, by_rules(torus))
        run("table", torus, by_tables(torus, Path(folder)))
        run("arrays", torus, by_arrays(torus))
        for width, moves in args.wide:
            torus = Torus(width, moves)
            run("rules", torus, {"from_array_rules": by_rules(torus)["from_array_rules"]})


if __name__ == "__main__":
    main()
