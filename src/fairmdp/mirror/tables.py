"""What the dense and minibatch kernels work on: quotas by unit, sampling tables, and the states of runs.

Units are explained in `kernels`. A state is laid out at a first point, and a run changes it in place.
"""

from typing import NamedTuple

import numpy as np

from fairmdp.mirror.primitives import F8, I4, I8, U8, deepen
from fairmdp.model.alias import build_alias

DISJOINT, NESTED, CROSSING = 0, 1, 2  # how quotas lie


class Quotas(NamedTuple):
    """What is owed, as the projection takes it."""

    kind: int
    rho: F8  # quota of each unit, 0 where there is none; of each group where they cross
    shape: tuple[I8, I8] = (
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
    )  # see `fill_laminar`, `fill_overlapping`


class Model(NamedTuple):
    """Pairs in unit order (``order[p]`` is the pair at position p) with their sampling tables."""

    order: I8  # (L,)
    start: I8  # (U+1,) positions of unit u are start[u] .. start[u+1]-1
    unit: I8  # (L,) unit of each position
    row: I8  # (L+1,) alias row of position p is row[p] .. row[p+1]-1
    alias: F8  # (nnz, 2) threshold, then two int32: own state, other state
    alias_i: I4  # (nnz, 4) the same memory
    s_of: I4  # (L,) state of each position
    r: F8  # (L,)


class Scratch(NamedTuple):
    """Work space of a projection."""

    Y: F8  # (U,) unit masses
    mult: F8  # (U,) multipliers
    work: F8  # (3, units or groups)

    @classmethod
    def of(cls, n_units: int, n_quotas: int) -> "Scratch":
        """Space for so many units and groups."""
        return cls(np.empty(n_units), np.empty(n_units), np.empty((3, max(n_units, n_quotas))))


class Dense(NamedTuple):
    """State of a dense run: ``x[p] = nu[u] w[p] / ws[u]``, sums of iterates, stream; and its work space."""

    w: F8  # (L,) weights inside units; deep below DEEP
    ws: F8  # (U,) their sums
    nu: F8  # (U,) masses of units; deep below DEEP
    x_sum: F8  # (L,)
    lam: F8  # (S,)
    lam_sum: F8  # (S,)
    key: U8  # (2,) stream
    clock: I8  # (1,) draws consumed
    scratch: Scratch


class Batch(NamedTuple):
    """State of a minibatch run and its work space; ``x = exp(logx)``, so nothing underflows."""

    x: F8  # (L,)
    logx: F8  # (L,)
    lam: F8  # (S,)
    x_sum: F8  # (L,)
    lam_sum: F8  # (S,)
    key: U8  # (2,)
    clock: I8  # (1,)
    uniform_pairs: I8  # (B,) what is asked
    x_pairs: I8  # (B,)
    reward: F8  # (B,) what is answered: rewards of the uniform pairs, next states of both
    s_next: I8  # (B,)
    s_next2: I8  # (B,)
    flow: F8  # (S,)
    scratch: Scratch


# The arrays that a run changes, in the order of a checkpoint.
DENSE_STATE = Dense._fields[:8]
BATCH_STATE = Batch._fields[:7]


def build_model(indptr: I8, indices: I8, data: F8, r: F8, s_of: I8, unit_of: I8, n_units: int) -> Model:
    """Sort the pairs by unit and tabulate their transitions for O(1) sampling."""
    order = np.argsort(unit_of, kind="stable").astype(np.int64)
    start = np.searchsorted(unit_of[order], np.arange(n_units + 1)).astype(np.int64)
    row = np.asarray(indptr, dtype=np.int64)
    if not np.array_equal(order, np.arange(order.size)):
        length = np.diff(row)[order]
        row_new = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(length)])
        take = np.repeat(row[order] - row_new[:-1], length) + np.arange(row_new[-1])
        row, indices, data = row_new, indices[take], data[take]
    alias = np.zeros((row[-1], 2))
    alias_i = alias.view(np.int32)
    build_alias(
        row, np.ascontiguousarray(indices, np.int32), np.ascontiguousarray(data, np.float64), alias, alias_i
    )
    return Model(
        order=order,
        start=start,
        unit=np.asarray(unit_of, dtype=np.int64)[order],
        row=row,
        alias=alias,
        alias_i=alias_i,
        s_of=np.ascontiguousarray(s_of[order], dtype=np.int32),
        r=np.ascontiguousarray(r[order], dtype=np.float64),
    )


def start_dense(model: Model, quotas: Quotas, x: F8, n_states: int, key: U8) -> Dense:
    """Dense state at the pair vector x (in pair order, inside the quota set) and lam = 0."""
    L, U = model.r.size, model.start.size - 1
    mass = np.ascontiguousarray(x[model.order], dtype=np.float64)
    size, first = np.diff(model.start), np.minimum(model.start[:-1], L)
    nu = np.add.reduceat(np.append(mass, 0.0), first)
    nu[size == 0] = 0.0
    empty = np.repeat(nu == 0.0, size)
    w = np.where(empty, 1.0, mass) / np.repeat(np.where(nu > 0, nu, 1.0), size)
    return Dense(
        w=deepen(w),
        ws=np.add.reduceat(np.append(w, 0.0), first),
        nu=deepen(nu),
        x_sum=np.zeros(L),
        lam=np.zeros(n_states),
        lam_sum=np.zeros(n_states),
        key=np.array(key, dtype=np.uint64),
        clock=np.zeros(1, dtype=np.int64),
        scratch=Scratch.of(U, quotas.rho.size),
    )


def start_batch(quotas: Quotas, x: F8, n_states: int, n_units: int, batch: int, key: U8) -> Batch:
    """Minibatch state at the positive vector x (inside the quota set) and lam = 0."""
    return Batch(
        x=np.array(x, dtype=np.float64),
        logx=np.log(x),
        lam=np.zeros(n_states),
        x_sum=np.zeros(x.size),
        lam_sum=np.zeros(n_states),
        key=np.array(key, dtype=np.uint64),
        clock=np.zeros(1, dtype=np.int64),
        uniform_pairs=np.zeros(batch, dtype=np.int64),
        x_pairs=np.zeros(batch, dtype=np.int64),
        reward=np.zeros(batch),
        s_next=np.zeros(batch, dtype=np.int64),
        s_next2=np.zeros(batch, dtype=np.int64),
        flow=np.zeros(n_states),
        scratch=Scratch.of(n_units, quotas.rho.size),
    )
