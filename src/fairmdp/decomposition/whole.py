"""The program over all occupancies at once, handed to HiGHS: for few rows, where kinks are large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import highspy
import numpy as np
from scipy.sparse import block_diag, coo_array, csc_array, csr_array, hstack, vstack

from fairmdp.backends.highs import INFINITE, linear_program, quiet
from fairmdp.model.checks import Floats
from fairmdp.world.rows import Rows
from fairmdp.world.world import World


class Whole(NamedTuple):
    """An optimum of the program."""

    value: float
    prices: Floats  # (K + G,)
    outcomes: tuple[Floats, ...]  # of every row, (B, 1 + J + K + L)
    occupancies: tuple[Floats, ...]  # (B, SA)


class Program(NamedTuple):
    """The program as HiGHS takes it: rows of the components, then resources and sides of group quotas."""

    lp: Any
    scale: float  # rewards are divided by it
    first_coupled: int  # row


def whole_program(world: World) -> Program:
    """The program over all occupancies."""
    own = [_own(rows, i) for rows in world.blocks for i in range(rows.size)]
    own_matrix = block_diag([matrix for matrix, _, _ in own], format="csr")
    coupled = hstack(
        [_coupling(world, rows, i) for rows in world.blocks for i in range(rows.size)], format="csr"
    )
    n = np.concatenate([np.full(rows.row_ptr.size - 1, c) for rows in world.blocks for c in rows.number])
    r = np.concatenate([rows.r[i % len(rows.r)] for rows in world.blocks for i in range(rows.size)])
    K, G = world.capacity.size, world.group_owed.size
    matrix = csc_array(vstack([own_matrix, coupled]))
    scale = float(np.abs(n * r).max()) or 1.0
    lower = [low for _, low, _ in own] + [np.full(K, -INFINITE), world.group_owed]
    upper = [up for _, _, up in own] + [world.capacity, np.full(G, INFINITE)]
    lp = linear_program(-n * r / scale, matrix, np.concatenate(lower), np.concatenate(upper))
    return Program(lp, scale, own_matrix.shape[0])


def solve_whole(world: World) -> Whole | None:
    """Optimum of the program over all occupancies, or None where HiGHS finds none, which proves nothing."""
    lp, scale, first_coupled = whole_program(world)
    K = world.capacity.size
    highs = quiet(primal_feasibility_tolerance=1e-9, dual_feasibility_tolerance=1e-9)
    highs.passModel(lp)
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    solution = highs.getSolution()
    x = np.maximum(np.array(solution.col_value), 0.0)
    duals = np.array(solution.row_dual)[first_coupled:] * scale
    prices = np.maximum(np.r_[-duals[:K], duals[K:]], 0.0)
    occupancies = tuple(_occupancies(world, x))
    value = -highs.getInfo().objective_function_value * scale
    return Whole(value, prices, _outcomes(world, occupancies), occupancies)


def _own(rows: Rows, i: int) -> tuple[csr_array, Floats, Floats]:
    """Flow, mass and quotas of one row: matrix and bounds."""
    S, SA = rows.n_states, rows.row_ptr.size - 1
    s_of = np.repeat(np.arange(S), np.diff(rows.pair_ptr))
    pair_of = np.repeat(np.arange(SA), np.diff(rows.row_ptr))
    leaves = coo_array((np.ones(SA), (s_of, np.arange(SA))), shape=(S, SA))
    enters = coo_array((rows.P[i % len(rows.P)], (rows.cols, pair_of)), shape=(S, SA))
    owed = np.flatnonzero(np.isfinite(rows.owed[i]))
    counts = rows.counts[i % len(rows.counts)][:, owed].T
    matrix = vstack(
        [csr_array(leaves) - csr_array(enters), np.ones((1, SA)), csr_array(counts)], format="csr"
    )
    bounds = np.r_[np.zeros(S), 1.0]
    return matrix, np.r_[bounds, rows.owed[i, owed]], np.r_[bounds, np.full(owed.size, INFINITE)]


def _coupling(world: World, rows: Rows, i: int) -> csr_array:
    """What the pairs of one row use and count for groups, (K + G, SA)."""
    K = world.capacity.size
    dense = np.zeros((K + world.group_owed.size, rows.row_ptr.size - 1))
    dense[:K] = rows.uses[i % len(rows.uses)].T
    for layer, g in enumerate(rows.group_of[i]):
        if g >= 0:
            dense[K + g] += rows.group_counts[i % len(rows.group_counts)][:, layer]
    return csr_array(int(rows.number[i]) * dense)


def _occupancies(world: World, x: Floats) -> Iterator[Floats]:
    """The columns of the program, (B, SA) for every block."""
    start = 0
    for rows in world.blocks:
        SA = rows.row_ptr.size - 1
        yield x[start : start + rows.size * SA].reshape(rows.size, SA)
        start += rows.size * SA


def _outcomes(world: World, occupancies: Iterable[Floats]) -> tuple[Floats, ...]:
    """Outcome of every row under its occupancy."""
    found = []
    for rows, part in zip(world.blocks, occupancies, strict=True):
        weights = np.concatenate([
            np.broadcast_to(each, (rows.size, *each.shape[1:]))
            for each in (rows.r[:, :, None], rows.counts, rows.uses, rows.group_counts)
        ], axis=2)  # fmt: skip
        found.append(np.einsum("bp,bpq->bq", part, weights))
    return tuple(found)
