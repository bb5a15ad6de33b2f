"""What all components do together at given prices: one column of the master program for each price.

A column has a reward ``R`` and a surplus ``u``: capacity less use for each resource, what is had less what is
owed for each group. The dual function at prices ``p >= 0`` is ``D(p) = R(p) + p @ u(p)``, and every column is
a cut, ``D(q) >= R + q @ u``.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from fairmdp.decomposition.kernels import ALONE, Bases, cold, mixed, sweep
from fairmdp.model.checks import Floats, Ints
from fairmdp.world.rows import Rows
from fairmdp.world.world import World


class Column(NamedTuple):
    """Outcome of all components together at some prices, each fair to itself and best for these prices."""

    prices: Floats  # (M,)
    reward: float
    surplus: Floats  # (M,)
    over: float  # what the dual function may be above its cut, from rows that were not solved to the end
    outcomes: tuple[Floats, ...]  # of every row in every block, (B, 1 + J + K + L)

    @property
    def value(self) -> float:
        """The dual function at the prices."""
        return self.reward + float(self.prices @ self.surplus) + self.over


class Rounds(Protocol):
    """Rows that answer prices, wherever they are."""

    owed: Floats
    """Capacities, and what groups are owed, (M,)."""

    n_resources: int
    evaluations: int

    @property
    def size(self) -> int:
        """Number of rows."""

    def at(self, prices: Floats, reward: float = 1.0) -> Column:
        """The column at some prices; with ``reward=0`` the one that would do most for what is owed."""

    def alone(self) -> list[tuple[int, Ints]]:
        """Rows whose quotas cannot be met even alone, as block (or shard) and numbers."""


class Sweeps:
    """Rows of a world, or a sample that stands for all, with the bases that their search goes on from."""

    def __init__(self, world: World, taken: tuple[Ints, ...] | None = None) -> None:
        blocks, scale = world.blocks, 1.0
        if taken is not None:
            pairs = zip(world.blocks, taken, strict=True)
            blocks = tuple(rows.taken(some) for rows, some in pairs if some.size)
            scale = world.n_components / sum(int(rows.number.sum()) for rows in blocks)
        self.world = world
        self._begin(blocks, np.concatenate([world.capacity, world.group_owed]), world.capacity.size, scale)

    @classmethod
    def of_sample(cls, blocks: tuple[Rows, ...], owed: Floats, n_resources: int, scale: float) -> Sweeps:
        """Rows of which each stands for ``scale`` others, of a world that is elsewhere."""
        made = cls.__new__(cls)
        made._begin(blocks, owed, n_resources, scale)
        return made

    def _begin(self, blocks: tuple[Rows, ...], owed: Floats, n_resources: int, scale: float) -> None:
        self.blocks, self.owed, self.n_resources, self.scale = blocks, owed, n_resources, scale
        self._signs = np.where(np.arange(owed.size) < n_resources, -1.0, 1.0)
        self.bases: tuple[Bases, ...] = tuple(map(cold, blocks))
        self.evaluations = 0

    @property
    def size(self) -> int:
        """Number of rows."""
        return sum(rows.size for rows in self.blocks)

    def at(self, prices: Floats, reward: float = 1.0) -> Column:
        """The column at some prices; with ``reward=0`` the one that would do most for what is owed."""
        self.evaluations += 1
        lam, nu = (
            np.ascontiguousarray(prices[: self.n_resources]),
            np.ascontiguousarray(prices[self.n_resources :]),
        )
        totals, earned, over, outcomes = np.zeros(self.owed.size), 0.0, 0.0, []
        for rows, bases in zip(self.blocks, self.bases, strict=True):
            sweep(rows, bases, reward, lam, nu)
            out = np.empty((rows.size, bases.outcomes.shape[2]))
            mixed(bases, out)
            outcomes.append(out)
            earned += float(rows.number @ out[:, 0])
            over += float(rows.number @ bases.over)
            totals += self._coupled(rows, out)
        surplus = self._signs * (self.scale * totals - self.owed)
        return Column(prices, self.scale * earned, surplus, self.scale * over, tuple(outcomes))

    def alone(self) -> list[tuple[int, Ints]]:
        """Rows whose quotas cannot be met even alone, as block and numbers."""
        found = ((b, np.flatnonzero(bases.ended == ALONE)) for b, bases in enumerate(self.bases))
        return [(b, rows) for b, rows in found if rows.size]

    def _coupled(self, rows: Rows, out: Floats) -> Floats:
        """Uses of resources and what groups have, (M,)."""
        J, K = rows.owed.shape[1], self.n_resources
        totals = np.zeros(self.owed.size)
        totals[:K] = rows.number @ out[:, 1 + J : 1 + J + K]
        for layer in range(rows.group_of.shape[1]):
            g = rows.group_of[:, layer]
            inside = g >= 0
            values = (rows.number * out[:, 1 + J + K + layer])[inside]
            totals[K:] += np.bincount(g[inside], values, minlength=totals.size - K)
        return totals
