"""The rows of quotas as somebody gives them: sets that there are, names of their own, nothing said twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats, Ints, first, first_repeat, refuse
from fairmdp.model.mdp import MDP


def check_names(names: Sequence[str]) -> None:
    """Raise if two quotas have one name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ProblemError(f"two quotas are called {name!r}\n  give every quota a name of its own")
        seen.add(name)


def check_sets(mdp: MDP, names: Sequence[str], weights: csr_array, over_states: Bools) -> None:
    """Raise unless every row holds sorted, distinct pairs of the model, and whole states where it says so."""
    pairs, data, lengths = weights.indices, weights.data, np.diff(weights.indptr)
    quota = np.repeat(np.arange(len(names)), lengths)

    def refuse_first(bad: Bools, quotas: Ints, what: Callable[[int], str]) -> None:
        if (k := first(bad)) is not None:
            raise ProblemError(f"quota {names[quotas[k]]}{what(k)}")

    stray = (pairs < 0) | (pairs >= mdp.n_pairs)
    refuse_first(stray, quota, lambda k: f" counts pair {pairs[k]}, which does not exist")
    empty = lengths == 0
    refuse_first(empty, np.arange(empty.size), lambda _: f" counts nothing; {empty.sum()} quotas are empty")
    unsorted = (np.diff(quota) == 0) & (np.diff(pairs) <= 0)
    refuse_first(unsorted, quota[1:], lambda _: ": its pairs are not sorted, or not distinct")
    useless = (data == 0) | ~np.isfinite(data)
    refuse_first(useless, quota, lambda k: f" has weight {data[k]}, expected others than 0")
    place = quota * mdp.n_states + mdp.s_of[pairs]
    uneven = over_states[quota[1:]] & (np.diff(place) == 0) & (np.diff(data) != 0)
    refuse_first(uneven, quota[1:], lambda _: " is over states but weighs actions of one apart")
    found, count = np.unique(place, return_counts=True)
    of, state = np.divmod(found, mdp.n_states)
    partial = over_states[of] & (count != mdp.n_actions[state])
    refuse_first(partial, of, lambda _: " is over states but counts only some actions of one")


def refuse_twins(
    names: Sequence[str], members: csr_array, at_least: Floats, at_most: Floats, expected: Bools
) -> None:
    """Raise if two quotas bound the same set on the same side, both in every run or both in the mean."""
    hashes = _row_hashes(members) ^ expected
    for bounded in (np.flatnonzero(at_least > 0), np.flatnonzero(at_most < 1)):
        again = first_repeat(hashes[bounded])
        if again is not None:
            later = bounded[again]
            earlier = bounded[np.argmax(hashes[bounded] == hashes[later])]
            refuse(
                f"quotas {names[earlier]} and {names[later]} bound one set on one side twice",
                f"both hold {np.diff(members.indptr)[later]} pairs",
                "keep the stricter one",
            )


def _row_hashes(members: csr_array) -> NDArray[np.uint64]:
    """One 64-bit number per row that depends on its columns and their weights only."""
    keys = np.random.default_rng(0).integers(0, 2**64, members.shape[1], dtype=np.uint64)
    # Odd factors lose nothing modulo 2**64; the bit shifted out is the sign, which is always the same.
    weighed = keys[members.indices] * (members.data.view(np.uint64) * np.uint64(2) + np.uint64(1))
    prefix = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weighed, dtype=np.uint64)])
    hashes: NDArray[np.uint64] = prefix[members.indptr[1:]] - prefix[members.indptr[:-1]]
    return hashes
