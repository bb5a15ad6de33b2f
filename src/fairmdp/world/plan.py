"""What `solve_world` returns: prices, what each component does at them, and witnesses of the ceiling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairmdp import world as package
from fairmdp.deadline import Stop
from fairmdp.model.checks import Floats, Ints, ReadOnly
from fairmdp.solution.solution import Status
from fairmdp.tables import Table
from fairmdp.world.rows import Rows
from fairmdp.world.world import World


class BlockPlan(NamedTuple):
    """What the rows of one of the world's `components` do."""

    witness: NDArray[np.int16]  # (B, S), action of a policy that is best at all prices
    mu: Floats  # (B, J), prices of the sides of local quotas
    policies: NDArray[np.int16]  # (B, J + 1, S), actions of the policies that are mixed
    weights: Floats  # (B, J + 1), of these; they sum to 1
    outcomes: Floats  # (B, 1 + J + K + L): reward, shares, uses, group shares of one component in the optimum
    split: Ints  # (R,), rows that also mix policies so that components together use what there is
    chances: Floats  # (R, SA), of the pairs of each state of these


@dataclass(frozen=True, eq=False)
class Alone(ReadOnly):
    """Components whose own quotas no policy meets, whatever the others do.

    Attributes
    ----------
    rows : ndarray
        Their rows in the world.
    sides : ndarray
        Which of the world's ``World.sides`` is out of reach; -1 where several are, together.
    reach : ndarray
        A proven bound on what can be had of it; NaN where several are out of reach together.
    """

    rows: Ints
    sides: Ints
    reach: Floats


@dataclass(frozen=True, eq=False)
class Shortage(ReadOnly):
    """Prices at which what is owed needs more than there is.

    Attributes
    ----------
    prices : ndarray
        Of resources and of sides of group quotas, (K + G,), the largest of a resource being 1.
    needed : float
        A proven bound on what meeting all quotas uses at least in a step, at these prices.
    available : float
        What there is, ``prices @ capacity``.
    """

    prices: Floats
    needed: float
    available: float


@dataclass(frozen=True, eq=False, repr=False)
class WorldPlan(ReadOnly):
    """The best plan for a world in the mean, and a ceiling that no joint policy exceeds.

    Attributes
    ----------
    status : Status
        OPTIMAL: the plan is worth the ceiling, within the tolerance. It speaks of the plan, which keeps
        capacity in the mean; what a policy that keeps it at every step gains is only ever measured.
    upper : float
        Proven: no joint policy that meets the quotas gains more per step.
    value : float
        What the plan gains per step in the mean, in plain floating point.
    prices : ndarray
        What one more unit of each resource is worth, (K,).
    group_prices : ndarray
        What one more unit of each side of a group quota costs, (G,).
    blocks : tuple of BlockPlan
        For each of the world's `components`.
    alone : Alone or None
        Components that cannot be served even alone, where there are some.
    shortage : Shortage or None
        Why the quotas cannot be met together, where that is so.
    tol : float
        Relative gap up to which the plan is called optimal.
    method : str
        ``"whole program"`` or ``"price decomposition"``.
    stopped : Stop
        Why the search ended early, if it did.
    counters : dict
        Evaluations of all rows, seconds.
    """

    status: Status
    upper: float
    value: float
    prices: Floats
    group_prices: Floats
    blocks: tuple[BlockPlan, ...]
    tol: float
    method: str
    alone: Alone | None = None
    shortage: Shortage | None = None
    stopped: Stop = Stop.NOT
    counters: Mapping[str, float] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """How much the ceiling is above the plan, as a part of the ceiling."""
        return relative_gap(self.upper, self.value)

    @property
    def has_policy(self) -> bool:
        """Whether there is a plan to follow."""
        return self.status is not Status.INFEASIBLE

    def clients(self, world: World) -> Table:
        """One line for every row: what it is owed and gets, what that costs everyone, what it uses and earns.

        With several local quotas, ``share``, ``asked`` and ``price`` are those of the first one.
        """
        columns: dict[str, list[object]] = {
            name: [] for name in ("name", "count", "share", "asked", "price", "use", "reward")
        }
        J, K = len(world.sides), world.capacity.size
        for of, rows, block in zip(world.components, world.blocks, self.blocks, strict=True):
            sign = world.sides[0].sign if J else 1
            asked = np.where(np.isfinite(rows.owed[:, 0]), sign * rows.owed[:, 0], np.nan) if J else np.nan
            values = {
                "name": [of.row_name(i) for i in range(of.n_rows)], "count": of.count.tolist(),
                "share": sign * block.outcomes[:, 1] if J else np.full(of.n_rows, np.nan), "asked": asked,
                "price": block.mu[:, 0] if J else np.zeros(of.n_rows),
                "use": block.outcomes[:, 1 + J : 1 + J + K].sum(axis=1), "reward": block.outcomes[:, 0],
            }  # fmt: skip
            for name, column in values.items():
                columns[name] += np.broadcast_to(np.asarray(column, dtype=object), of.n_rows).tolist()
        return Table(columns)

    def worst_slack(self, world: World) -> float:
        """Least of what components and groups have more than they are owed, in plain floating point.

        That of a group is per component of the world. Infinite where nothing is owed.
        """
        J = len(world.sides)
        of_groups = (self.totals(world)[1] - world.group_owed) / world.n_components
        slacks = [(b.outcomes[:, 1 : 1 + J] - rows.owed).ravel() for rows, b in self._rows(world)]
        return float(np.concatenate([*slacks, of_groups]).min(initial=np.inf))

    def totals(self, world: World) -> tuple[Floats, Floats]:
        """What all components use of every resource, (K,), and have of every side of a group quota, (G,)."""
        K, J = world.capacity.size, len(world.sides)
        used, had = np.zeros(K), np.zeros(world.group_owed.size)
        for rows, block in self._rows(world):
            used += rows.number @ block.outcomes[:, 1 + J : 1 + J + K]
            for layer in range(rows.group_of.shape[1]):
                inside = rows.group_of[:, layer] >= 0
                values = (rows.number * block.outcomes[:, 1 + J + K + layer])[inside]
                had += np.bincount(rows.group_of[inside, layer], values, minlength=had.size)
        return used, had

    def _rows(self, world: World) -> Iterator[tuple[Rows, BlockPlan]]:
        return zip(world.blocks, self.blocks, strict=True)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan with its witnesses as an ``.npz`` file, atomically."""
        package.plan_file.write(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> WorldPlan:
        """Read a plan that `save` wrote."""
        return package.plan_file.read(path)

    def __repr__(self) -> str:
        return f"WorldPlan({self.status.value}, upper={self.upper:.8g}, value={self.value:.8g})"


def relative_gap(upper: float, value: float) -> float:
    """Distance of a value from its ceiling, as a part of the ceiling."""
    if not (math.isfinite(upper) and math.isfinite(value)):
        return math.inf
    return (upper - value) / (abs(upper) or 1.0)
