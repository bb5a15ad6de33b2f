"""Transitions, rewards and states of pairs as somebody gives them: checked, and brought to one form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, Ints, count_of, first, numeric, real_vector, refuse
from fairmdp.model.labels import Labelled

ROW_SUM_TOL = 1e-9
"""How far the probabilities of a pair may be from summing to 1 before they are refused."""

SINGLE_SUM_TOL = 1e-6
"""The same for probabilities that are all float32 numbers, which cannot say it more exactly."""

EXACT_SUM_TOL = 1e-12
"""How far a sum of shares or probabilities may be from its due through rounding alone."""

LARGEST_REWARD, SMALLEST_REWARD = 1e300, 1e-280
"""The largest reward must lie between these, or all be 0: their sums and gaps stay within floating point."""


def as_csr(P: Any) -> csr_array:
    """P as float64 CSR on arrays of our own."""
    shape_wanted = "expected (SA, S): one row per state-action pair"
    if are_sparse(P):
        raise ProblemError(
            f"P is a list of {len(P)} matrices, {shape_wanted}\n"
            "  for one matrix per action use MDP.from_action_tensor"
        )
    if not issparse(P):
        if isinstance(P, Mapping):
            raise ProblemError(
                f"P is a {type(P).__name__}, {shape_wanted}\n"
                "  for P[s][a] of Gymnasium use from_gymnasium, for a table of transitions MDP.from_table, "
                "for a function MDP.from_rules"
            )
        dense = numeric("P", P)
        if dense.ndim != 2:
            raise ProblemError(f"P has shape {dense.shape}, {shape_wanted}{_constructor(dense.shape)}")
        return csr_array(dense)
    if P.ndim != 2:
        raise ProblemError(f"P has shape {P.shape}, {shape_wanted}")
    if P.dtype.kind not in "fiub":
        raise ProblemError(f"P holds {P.dtype}, expected real numbers")
    csr = csr_array(P)
    if csr.indptr[-1] != csr.data.size or (np.diff(csr.indptr) < 0).any():
        raise ProblemError("P is not a well-formed CSR matrix: indptr does not fit its data")
    small = max(csr.data.size, *csr.shape) < 2**31
    index = np.int32 if small else np.int64  # a third less memory than the 8 bytes that many builders give
    return csr_array(
        (csr.data.astype(np.float64), csr.indices.astype(index), csr.indptr.astype(index)), shape=csr.shape
    )


def are_sparse(matrices: Any) -> bool:
    """Whether these are several matrices, in a list, of which one at least is sparse."""
    several = isinstance(matrices, list | tuple) or (
        isinstance(matrices, np.ndarray) and matrices.dtype == object and matrices.ndim == 1
    )
    return several and any(issparse(matrix) for matrix in matrices)


def _constructor(shape: tuple[int, ...]) -> str:
    """Which constructor takes an array of three dimensions."""
    if len(shape) != 3:
        return ""
    by_state, by_action = shape[0] == shape[2], shape[1] == shape[2]
    if by_action and not by_state:
        return "\n  for P of shape (A, S, S) use MDP.from_action_tensor"
    other = ", of shape (A, S, S) MDP.from_action_tensor" if by_action else ""
    return f"\n  for P of shape (S, A, S) use MDP.from_tensor{other}"


def state_of_pairs(s_of: ArrayLike | None, n_pairs: int, n_states: int) -> Ints:
    """State of each pair, (SA,), as a new vector: sorted, and every state at least once."""
    if s_of is None:
        refuse(
            "s_of is missing: which state each row of P is an action of",
            f"P has {n_pairs} rows and {n_states} columns, one row per state-action pair",
            "give one state per row, such as s_of=[0, 0, 1]; with nothing to choose, np.arange(n)",
        )
    given = np.asarray(s_of)
    if given.shape != (n_pairs,):
        raise ProblemError(f"s_of has shape {given.shape}, expected ({n_pairs},): one state per row of P")
    if not np.issubdtype(given.dtype, np.integer):
        raise ProblemError(f"s_of holds {given.dtype}, expected integers")
    outside = (given < 0) | (given >= n_states)
    if (i := first(outside)) is not None:
        raise ProblemError(
            f"s_of[{i}] is {given[i]}, expected a state from 0 to {n_states - 1}; "
            f"{count_of(outside.sum(), n_pairs, 'entries')} out of range"
        )
    states = given.astype(np.int64)
    falls = np.diff(states) < 0
    if falls.any():
        i = int(np.argmax(falls)) + 1
        raise ProblemError(
            f"s_of is not sorted: pair {i} belongs to state {states[i]}, after state {states[i - 1]}\n"
            "  sort P, r and s_of by state"
        )
    missing = np.bincount(states, minlength=n_states) == 0
    if missing.any():
        raise ProblemError(
            f"state {int(np.argmax(missing))} has no action; "
            f"{count_of(missing.sum(), n_states, 'states')} without one\n"
            "  a state where nothing can be done needs one action that says what happens next"
        )
    return states


def check_transitions(P: csr_array, of: Labelled) -> None:
    """Bring P to canonical form, once every row is known to be a distribution."""
    stray = (P.indices < 0) | (P.indices >= of.n_states)
    if (k := first(stray)) is not None:
        refuse(
            f"P moves to state {P.indices[k]}, expected 0 to {of.n_states - 1}",
            f"this is {of.pair_text(_row_of(P, k))}; "
            f"{count_of(stray.sum(), P.nnz, 'transitions')} out of range",
            "number the states from 0, or give P as many columns as there are states",
        )
    bad = ~(np.isfinite(P.data) & (P.data >= 0))
    if (k := first(bad)) is not None:
        row = _row_of(P, k)
        refuse(
            f"P[{row}, {P.indices[k]}] is {P.data[k]}, expected a probability",
            f"row {row} is {of.pair_text(row)}, to state {of.state_name(int(P.indices[k]))}; "
            f"{count_of(bad.sum(), P.nnz, 'transitions')} negative or not finite",
            "probabilities lie between 0 and 1",
        )
    if not P.has_canonical_format:
        P.sum_duplicates()
    if not P.data.all():
        P.eliminate_zeros()
    sums = P @ np.ones(of.n_states)
    off = np.abs(sums - 1)
    bad = off > (ROW_SUM_TOL if off.max() <= ROW_SUM_TOL else sum_tol(P.data))
    if (i := first(bad)) is not None:
        refuse(
            f"P[{i}] is not a probability row: it sums to {sums[i]:.12g}, "
            f"expected 1 (within {ROW_SUM_TOL:g})",
            f"row {i} is {of.pair_text(i)}; {count_of(bad.sum(), sums.size, 'rows')} off",
            "if the missing mass means the episode ends there, send it to an explicit restart state"
            if sums[i] < 1
            else "divide the row by its sum if these are weights",
        )
    lengths = np.diff(P.indptr)
    inexact = off > np.maximum(EXACT_SUM_TOL, 4 * lengths * np.finfo(float).eps)
    if inexact.any():
        P.data /= np.repeat(np.where(inexact, sums, 1.0), lengths)


def entries_at(R: Any, P: csr_array) -> Floats:
    """What R, dense or sparse, has where P has its entries."""
    rows = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))
    return np.asarray(csr_array(R)[rows, P.indices] if issparse(R) else R[rows, P.indices], float).ravel()


def finite_rewards(what: str, r: Any, P: csr_array, of: Labelled) -> Floats:
    """Rewards of the pairs, (SA,), as a new vector: one of each pair, or the mean of its transitions."""
    r = r if issparse(r) else numeric(what, r)
    r = _mean(what, r, P) if r.ndim == 2 else real_vector(what, r, of.n_pairs)
    bad = ~np.isfinite(r)
    if (i := first(bad)) is not None:
        refuse(
            f"{what}[{i}] is {r[i]}, expected a finite number",
            f"pair {i} is {of.pair_text(i)}; {count_of(bad.sum(), r.size, 'rewards')} not finite",
            "leave an action that must not be taken out of the model (from_tensor reads R = -inf so)",
        )
    i = int(np.argmax(np.abs(r)))
    size = abs(float(r[i]))
    if size > LARGEST_REWARD or 0 < size < SMALLEST_REWARD:
        too = "large" if size > 1 else "small"
        refuse(
            f"the largest reward is {r[i]:.3g}, too {too} for floating point",
            f"pair {i} is {of.pair_text(i)}; it may be {SMALLEST_REWARD:g} to {LARGEST_REWARD:g}",
            "state rewards in another unit: policies and shares stay the same",
        )
    return r


def _mean(what: str, R: Any, P: csr_array) -> Floats:
    """Mean over where each pair leads of rewards of transitions, (SA, S)."""
    n_pairs = P.shape[0]
    if R.shape != P.shape:
        table = f"\n  for {what}[s, a] beside P[s, a, s'] use MDP.from_tensor" if R.size == n_pairs else ""
        raise ProblemError(
            f"{what} has shape {R.shape}, expected ({n_pairs},), one reward per pair, "
            f"or {P.shape}, one per transition{table}"
        )
    return csr_array((P.data * entries_at(R, P), P.indices, P.indptr), shape=P.shape) @ np.ones(P.shape[1])


def staying(s_of: Ints, n_states: int) -> csr_array:
    """Transitions of pairs of which nothing is known: each stays where it is, (SA, S)."""
    return csr_array((np.ones(s_of.size), s_of, np.arange(s_of.size + 1)), shape=(s_of.size, n_states))


def sum_tol(p: Floats) -> float:
    """How far these probabilities may be from summing to 1."""
    with np.errstate(over="ignore"):
        return SINGLE_SUM_TOL if (p == p.astype(np.float32)).all() else ROW_SUM_TOL


def _row_of(P: csr_array, entry: int) -> int:
    """Row of the entry-th stored value."""
    return int(np.searchsorted(P.indptr, entry, side="right")) - 1
