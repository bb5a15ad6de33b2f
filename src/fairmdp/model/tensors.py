"""Models given as ``P[s, a, s']`` or, as in mdptoolbox, as one matrix per action, dense or sparse.

Both become rows in the order of pairs: row ``s A + a`` for action ``a`` of state ``s``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse, vstack

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats, names_of, numeric, refuse
from fairmdp.model.mdp import MDP
from fairmdp.model.transitions import are_sparse, entries_at


def by_state(P: ArrayLike, R: Any, names: dict[str, Any]) -> MDP:
    """Build from ``P[s, a, s']``; `MDP.from_tensor` says how."""
    if issparse(P) or are_sparse(P):
        refuse(
            "from_tensor needs P of shape (S, A, S), got sparse matrices",
            "one matrix (S, S) per action is what from_action_tensor takes",
            "one matrix with a row per state-action pair is what MDP(P, r, s_of) takes",
        )
    P = numeric("P", P)
    if P.ndim != 3 or P.shape[0] != P.shape[2]:
        advice = "\n  for P of shape (A, S, S) use from_action_tensor" if P.ndim == 3 else ""
        raise ProblemError(f"from_tensor needs P of shape (S, A, S), got {P.shape}{advice}")
    n_states, n_actions, _ = P.shape
    rows, R = csr_array(P.reshape(-1, n_states)), _read("R", R)
    if isinstance(R, list) or R.ndim != 3:
        return _model(rows, _per_pair(R, n_states, n_actions), n_actions, names)
    if R.shape != P.shape:
        raise ProblemError(
            f"R has shape {R.shape}, expected that of P, {P.shape}, or {(n_states, n_actions)}"
        )
    return _model(rows, R.reshape(-1, n_states), n_actions, names)


def by_action(P: Any, R: Any, names: dict[str, Any]) -> MDP:
    """Build from one matrix per action; `MDP.from_action_tensor` says how."""
    rows, n_actions = _by_action("P", _read("P", P))
    n_states, R = rows.shape[1], _read("R", R)
    if not isinstance(R, list) and R.ndim != 3:
        return _model(csr_array(rows), _per_pair(R, n_states, n_actions), n_actions, names)
    paid, for_actions = _by_action("R", R)
    if (paid.shape[1], for_actions) != (n_states, n_actions):
        raise ProblemError(
            f"R is for {for_actions} actions of {paid.shape[1]} states, P for {n_actions} of {n_states}"
        )
    return _model(csr_array(rows), paid, n_actions, names)


def _read(what: str, given: Any) -> Any:
    """A list of sparse matrices, one sparse matrix, or an array of numbers."""
    if not are_sparse(given):
        return given if issparse(given) else numeric(what, given)
    parts = [csr_array(part) for part in given]
    for a, part in enumerate(parts):
        if part.dtype.kind not in "fiub":
            raise ProblemError(f"{what}[{a}] holds {part.dtype}, expected real numbers")
    return parts


def _by_action(what: str, given: Any) -> tuple[Any, int]:
    """Matrices of the actions as rows in the order of pairs, and how many actions there are."""
    if isinstance(given, list):
        size = given[0].shape[-1]
        for a, part in enumerate(given):
            if part.shape != (size, size):
                raise ProblemError(
                    f"{what}[{a}] has shape {part.shape}, expected {(size, size)}: a square matrix per action"
                )
        by_pair = np.arange(size * len(given)).reshape(len(given), size).T.ravel()
        return vstack(given, format="csr")[by_pair], len(given)
    if given.ndim == 3 and given.shape[1] == given.shape[2]:
        return given.transpose(1, 0, 2).reshape(-1, given.shape[1]), given.shape[0]
    advice = {
        2: "\n  one matrix with a row per state-action pair is what MDP(P, r, s_of) takes",
        3: "\n  for P of shape (S, A, S) use from_tensor",
    }.get(given.ndim, "")
    raise ProblemError(
        f"from_action_tensor needs {what} of shape (A, S, S), or a list of A matrices (S, S), "
        f"got {given.shape}{advice}"
    )


def _per_pair(R: Any, n_states: int, n_actions: int) -> Floats:
    """Rewards of the pairs, (S A,), from one per pair or one per state."""
    if isinstance(R, list):
        raise ProblemError("R is a list of matrices, one per action\n  give P so too, to from_action_tensor")
    R = R.toarray() if issparse(R) else R
    if R.shape == (n_states,):
        R = np.repeat(R[:, None], n_actions, axis=1)
    if R.shape != (n_states, n_actions):
        turned = "\n  give R.T" if R.shape == (n_actions, n_states) else ""
        raise ProblemError(
            f"R has shape {R.shape}, expected {(n_states, n_actions)} (one number per state and action), "
            f"{(n_states,)}, or one number per transition{turned}"
        )
    return R.ravel()


def _model(rows: csr_array, R: Any, n_actions: int, names: dict[str, Any]) -> MDP:
    """The model of the pairs that are available: whose reward is not ``-inf`` wherever they lead."""
    rows.eliminate_zeros()
    closed = np.isneginf(R) if R.ndim == 1 else _closed(rows, R)
    pairs = np.flatnonzero(~closed)
    s_of, a_of = np.divmod(pairs, n_actions)
    labels = names_of("actions", names.pop("actions", None), n_actions)
    if labels is None and closed.any():
        labels = tuple(f"a{a}" for a in range(n_actions))
    if labels is not None:
        names["actions"] = [labels[a] for a in a_of]
    return MDP(rows[pairs], R[pairs], s_of, **names)


def _closed(rows: csr_array, R: Any) -> Bools:
    """Whether all that a pair may be paid is ``-inf``; where it leads nowhere, all of its row."""
    lowest = np.isneginf(entries_at(R, rows))
    lengths = np.diff(rows.indptr)
    pair = np.repeat(np.arange(lengths.size), lengths)
    closed = (lengths > 0) & (np.bincount(pair[lowest], minlength=lengths.size) == lengths)
    return closed if issparse(R) else closed | np.isneginf(R).all(axis=1)  # the second of rows that are 0
