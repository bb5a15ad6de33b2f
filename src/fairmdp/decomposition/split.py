"""Rows that mix policies for the sake of all.

At the prices several policies are best, of which one would use too much and another too little. Where
components differ few rows mix them; where many are alike it may be every one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairmdp.decomposition.columns import Column, Sweeps
from fairmdp.decomposition.kernels import Bases, occupancies
from fairmdp.model.checks import Floats, Ints
from fairmdp.world.rows import Rows

_DIFFERENT = 1e-7  # part of the largest outcome: what is closer is the same
_VISITED = 1e-9  # share of a state below which nothing is planned there


class Split(NamedTuple):
    """Such rows of a block, and the chances of their pairs."""

    rows: Ints  # (R,)
    chances: Floats  # (R, SA), of the pairs of each state


def split_rows(
    sweeps: Sweeps,
    at_prices: Column,
    planned: tuple[Floats, ...],
    whole: tuple[Floats, ...] | None,
    mixture: Sequence[tuple[float, Column]],
) -> tuple[Split, ...]:
    """Rows whose planned outcomes are not those of their best answer to the prices, for every block.

    What they are to do is in their occupancies, (B, SA), where the whole program was solved, and else in a
    mixture of columns.
    """
    chosen = []
    for own, plan in zip(at_prices.outcomes, planned, strict=True):
        size = np.maximum(np.abs(plan).max(axis=0, initial=0.0), 1e-300)
        chosen.append(np.flatnonzero((np.abs(plan - own) > _DIFFERENT * size).any(axis=1)))
    if whole is None:
        x = _replayed(sweeps, chosen, mixture)
    else:
        x = [each[rows] for each, rows in zip(whole, chosen, strict=True)]
    return tuple(
        Split(rows, _chances(block, each, bases.last[rows]))
        for block, bases, rows, each in zip(sweeps.blocks, sweeps.bases, chosen, x, strict=True)
    )


def _replayed(sweeps: Sweeps, chosen: list[Ints], mixture: Sequence[tuple[float, Column]]) -> list[Floats]:
    """Occupancies of some rows under a mixture of columns, by answering the columns' prices again."""
    x = [np.zeros((r.size, b.row_ptr.size - 1)) for b, r in zip(sweeps.blocks, chosen, strict=True)]
    if not any(rows.size for rows in chosen):
        return x
    again = Sweeps(sweeps.world, tuple(chosen))
    filled = [b for b, rows in enumerate(chosen) if rows.size]
    for weight, column in mixture:
        again.at(column.prices)
        for b, rows, bases in zip(filled, again.blocks, again.bases, strict=True):
            x[b] += weight * _occupancies(rows, bases)
    return x


def _occupancies(rows: Rows, bases: Bases) -> Floats:
    out = np.empty((rows.size, rows.row_ptr.size - 1))
    occupancies(rows, bases, out)
    return out


def _chances(rows: Rows, x: Floats, otherwise: NDArray[np.int16]) -> Floats:
    """Chances of the pairs of each state under occupancies; a policy's where a state is not visited."""
    lengths = np.diff(rows.pair_ptr)
    mass = np.repeat(np.add.reduceat(x, rows.pair_ptr[:-1], axis=1), lengths, axis=1)
    first = np.repeat(rows.pair_ptr[:-1], lengths)
    fixed = np.repeat(otherwise, lengths, axis=1) == np.arange(x.shape[1]) - first
    return np.where(mass > _VISITED, x / np.maximum(mass, _VISITED), fixed)
