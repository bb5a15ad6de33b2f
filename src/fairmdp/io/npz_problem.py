"""Problems as npz, the format for large models: plain arrays in a zip, nothing that could run code.

Texts are UTF-8, names one per line; integers have 4 or 8 bytes, floats 8. Everything that the headers say is
checked before an array is allocated, so a hostile file costs no more than a good one of its size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from fairmdp import npz
from fairmdp.errors import FormatError
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.npz import BOOL, FLOAT, INT, MAX_BYTES, TEXT, Arrays, Kind, Member

VERSION = 1

_MEMBERS = {
    "fairmdp": Member(INT, "one"),  # version of the format
    "P_indptr": Member(INT, "SA", 1),  # transitions, CSR
    "P_indices": Member(INT, "transitions"),
    "P_data": Member(FLOAT, "transitions"),
    "r": Member(FLOAT, "SA"),  # reward of each pair ...
    "s_of": Member(INT, "SA"),  # ... and its state
    "initial": Member(FLOAT, "S", optional=True),
    "durations": Member(FLOAT, "SA", optional=True),  # mean time that each pair takes
    "time_unit": Member(TEXT, "unit text", optional=True),
    "state_names": Member(TEXT, "state text", optional=True),
    "action_names": Member(TEXT, "action text", optional=True),
    "reward_rows": Member(FLOAT, "named rewards", optional=True),  # rewards with names, one after the other
    "reward_names": Member(TEXT, "reward text", optional=True),
    "quota_indptr": Member(INT, "K", 1),  # pairs of each quota, CSR
    "quota_indices": Member(INT, "members"),
    "quota_weights": Member(FLOAT, "members", optional=True),  # what each of these pairs counts; else 1
    "at_least": Member(FLOAT, "K"),  # bounds, in the units of the weights
    "at_most": Member(FLOAT, "K"),
    "over_states": Member(BOOL, "K"),  # whether the quota is over states
    "expected": Member(BOOL, "K", optional=True),  # whether it is one of the mean over runs
    "of_indptr": Member(INT, "K", 1, optional=True),  # pairs of each quota's condition, CSR
    "of_indices": Member(INT, "conditions", optional=True),
    "quota_names": Member(TEXT, "quota text"),
}

_KIND = Kind("problem", "fairmdp", VERSION, lambda names: _MEMBERS)


def read(path: str, *, max_bytes: int = MAX_BYTES) -> Problem:
    """Read a problem."""
    return from_arrays(npz.read_arrays(path, _KIND, max_bytes=max_bytes))


def write(problem: Problem, path: str) -> None:
    """Write a problem; the same problem gives the same bytes."""
    npz.write_arrays(path, to_arrays(problem))


def to_arrays(problem: Problem) -> Arrays:
    """Members of the file of a problem."""
    mdp = problem.mdp
    arrays: Arrays = {
        "fairmdp": np.array([VERSION]),
        "P_indptr": mdp.P.indptr,
        "P_indices": mdp.P.indices,
        "P_data": mdp.P.data,
        "r": mdp.r,
        "s_of": mdp.s_of,
        "quota_indptr": problem.weights.indptr,
        "quota_indices": problem.weights.indices,
        "at_least": problem.lower,
        "at_most": problem.upper,
        "over_states": problem.over_states,
        "quota_names": npz.text_of(problem.names),
    }
    if problem.weighted.any():
        arrays["quota_weights"] = problem.weights.data
    if problem.conditions:
        arrays |= _conditional(problem)
    if problem.expected.any():
        arrays["expected"] = problem.expected
    if mdp.initial is not None:
        arrays["initial"] = mdp.initial
    if mdp.durations is not None:
        arrays["durations"] = mdp.durations
    if mdp.time_unit is not None:
        arrays["time_unit"] = npz.text_of((mdp.time_unit,))
    if mdp.states is not None:
        arrays["state_names"] = npz.text_of(mdp.states)
    if mdp.actions is not None:
        arrays["action_names"] = npz.text_of(mdp.actions)
    if mdp.reward_names:
        arrays["reward_rows"] = mdp.reward_rows.ravel()
        arrays["reward_names"] = npz.text_of(mdp.reward_names)
    return npz.little(arrays)


def _conditional(problem: Problem) -> Arrays:
    """Quotas as they were stated, with the sets of conditional ones in place of their weights."""
    lower, upper = problem.stated_bounds
    rows, empty = [problem.weights[[k]] for k in range(problem.n_quotas)], csr_array((1, problem.mdp.n_pairs))
    of = [empty] * problem.n_quotas
    for c in problem.conditions:
        rows[c.quota], of[c.quota] = _row(c.within, empty.shape), _row(c.of, empty.shape)
    sets, conditions = vstack(rows, format="csr"), vstack(of, format="csr")
    return {
        "quota_indptr": sets.indptr, "quota_indices": sets.indices, "quota_weights": sets.data,
        "at_least": lower, "at_most": upper,
        "of_indptr": conditions.indptr, "of_indices": conditions.indices,
    }  # fmt: skip


def _row(pairs: NDArray[np.int64], shape: tuple[int, int]) -> csr_array:
    """One row with a 1 for each pair."""
    return csr_array((np.ones(pairs.size), pairs, [0, pairs.size]), shape=shape)


def from_arrays(arrays: Arrays) -> Problem:
    """Problem of the members of a file."""
    s_of, n_pairs = arrays["s_of"], arrays["s_of"].size
    # Every state has a pair, so a larger number would only make the model allocate what it then refuses.
    n_states = int(s_of.max(initial=-1)) + 1
    if n_states > n_pairs:
        raise FormatError(f"s_of names state {n_states - 1}, but there are only {n_pairs} pairs")
    npz.check_pointers("P_indptr", arrays["P_indptr"], arrays["P_data"].size)
    P = csr_array((arrays["P_data"], arrays["P_indices"], arrays["P_indptr"]), shape=(n_pairs, n_states))
    actions = npz.names_in("action_names", arrays)
    if actions is not None and len(actions) != n_pairs:
        raise FormatError(f"action_names has {len(actions)} names, expected {n_pairs}: one per pair")
    states = npz.names_in("state_names", arrays)
    unit = npz.names_in("time_unit", arrays)
    mdp = MDP(
        P, arrays["r"], s_of, states=states, actions=actions, initial=arrays.get("initial"),
        durations=arrays.get("durations"), time_unit=None if unit is None else "\n".join(unit),
        rewards=_named_rewards(arrays, n_pairs),
    )  # fmt: skip
    return _with_quotas(mdp, arrays)


def _with_quotas(mdp: MDP, arrays: Arrays) -> Problem:
    indptr, indices = arrays["quota_indptr"], arrays["quota_indices"]
    npz.check_pointers("quota_indptr", indptr, indices.size)
    names = npz.names_in("quota_names", arrays) or []
    if len(names) != indptr.size - 1:
        raise FormatError(f"quota_names has {len(names)} names, expected {indptr.size - 1}")
    data = arrays.get("quota_weights", np.ones(indices.size))
    weights = csr_array((data, indices, indptr), shape=(len(names), mdp.n_pairs))
    of = None
    if "of_indptr" in arrays or "of_indices" in arrays:
        of = _conditions(arrays, mdp.n_pairs)
    return Problem.from_members(
        mdp, names, weights, arrays["at_least"], arrays["at_most"], arrays["over_states"], of,
        arrays.get("expected"),
    )  # fmt: skip


def _named_rewards(arrays: Arrays, n_pairs: int) -> dict[str, NDArray[Any]]:
    names = npz.names_in("reward_names", arrays) or []
    rows = arrays.get("reward_rows", np.empty(0))
    if rows.size != len(names) * n_pairs or len(set(names)) < len(names):
        raise FormatError(f"reward_rows has {rows.size} numbers, expected {n_pairs} for each of {len(names)}")
    return dict(zip(names, rows.reshape(-1, n_pairs), strict=True)) if names else {}


def _conditions(arrays: Arrays, n_pairs: int) -> csr_array:
    """Pairs of each quota's condition."""
    for name in ("of_indptr", "of_indices"):
        if name not in arrays:
            raise FormatError(f"the member {name!r} is missing")
    indptr, indices = arrays["of_indptr"], arrays["of_indices"]
    npz.check_pointers("of_indptr", indptr, indices.size)
    if ((indices < 0) | (indices >= n_pairs)).any():
        raise FormatError(f"of_indices names pairs that are not among the {n_pairs:,} of the model")
    return csr_array((np.ones(indices.size), indices, indptr), shape=(indptr.size - 1, n_pairs))
