"""What ready-made worlds are made of: one pattern of transitions, and chances for every row.

What differs between components is drawn from a seed, so that a world of a million rows is a few numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.sparse import csr_array

from fairmdp.model.checks import Floats, Ints
from fairmdp.model.mdp import MDP
from fairmdp.scenarios.parameters import AMOUNT, number


def rows_like(
    targets: Sequence[Sequence[int]],
    s_of: Ints,
    chance: Callable[[int, int], Floats],
    rows: int,
    actions: Sequence[str],
) -> tuple[MDP, Floats]:
    """A model with the states that each pair may lead to, and the chances of every row, (rows, n)."""
    lengths = [len(each) for each in targets]
    P = np.empty((rows, sum(lengths)))
    entries = [(pair, to) for pair, each in enumerate(targets) for to in each]
    for entry, (pair, to) in enumerate(entries):
        P[:, entry] = chance(pair, to)
    alike = csr_array(
        (np.repeat(1 / np.array(lengths), lengths), [to for _, to in entries], np.cumsum([0, *lengths])),
        shape=(len(targets), int(s_of[-1]) + 1),
    )
    return MDP(alike, np.zeros(len(targets)), s_of, actions=actions), P


def capacity_or(what: str, given: float | None, usual: float) -> float:
    """A capacity as it was given, or the usual one as a whole number."""
    return float(max(1, round(usual))) if given is None else number(what, given, AMOUNT)
