"""What capacity is worth to a world, what a common quota costs it, and its policies side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fairmdp.decomposition.solve import solve_world
from fairmdp.dispatch.make import dispatch_policy
from fairmdp.dispatch.simulation import WorldSimulation, simulate_world
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, ReadOnly, numeric, there_are
from fairmdp.solution.solution import Status
from fairmdp.tables import Table
from fairmdp.world.plan import WorldPlan
from fairmdp.world.world import World

_EVEN = 11  # values where none were given

_OF_PLAN = {
    "fair": "fair", "fair, in a fixed order": "fair_id", "index at fair prices": "index",
    "fixed order (ID)": "id", "greedy": "greedy",
}  # fmt: skip
_WITHOUT = "without quotas"


@dataclass(frozen=True, eq=False)
class WorldFrontier(ReadOnly):
    """Ceilings of a world against the capacity of a resource, or against what a quota asks of all alike.

    Attributes
    ----------
    name : str
        The resource or quota that moves.
    capacity : bool
        Whether it is a resource.
    values : ndarray
        Its capacity or bound at each point, in the order given, (N,).
    uppers : ndarray
        Proven: what no joint policy exceeds, (N,); NaN where the quotas cannot be met.
    gains : ndarray
        What the plan gains in the mean, (N,).
    worst_slacks : ndarray
        `WorldPlan.worst_slack`, (N,).
    prices : ndarray
        What one more unit of capacity is worth, or of a group's quota costs, (N,); NaN of a local quota, of
        which every component has its own price.
    statuses : tuple of Status
        Of each plan.
    needed : ndarray
        Where one resource is all there is, and quotas cannot be met: what meeting them needs at least, (N,).
    """

    name: str
    capacity: bool
    values: Floats
    uppers: Floats
    gains: Floats
    worst_slacks: Floats
    prices: Floats
    statuses: tuple[Status, ...]
    needed: Floats

    def to_table(self) -> Table:
        """One row for each value."""
        head = ("value", "upper", "plan", "worst_slack", "price", "needed", "status")
        arrays = self.values, self.uppers, self.gains, self.worst_slacks, self.prices, self.needed
        columns = [[None if math.isnan(v) else v for v in array.tolist()] for array in arrays]
        return Table(zip(head, [*columns, [status.value for status in self.statuses]], strict=True))


def world_frontier(
    world: World, name: str, values: Iterable[float] | None = None, *, tol: float = 1e-6
) -> WorldFrontier:
    """Solve a world for several capacities of a resource, or several bounds that a quota asks of all alike.

    Parameters
    ----------
    world
        The world.
    name
        A resource, a local quota or a group's quota. A local quota's bound moves for those of whom it asks
        something, as by `World.with_common_quota`.
    values
        Capacities or bounds. By default eleven even ones: half to one and a half times the capacity; from 0
        to 1 of a local quota; from 0 to twice what is asked of a group.
    tol
        Relative gap that counts as optimal.

    Examples
    --------
    >>> import fairmdp as fm
    >>> curve = fm.world_frontier(fm.scenarios.job_server(50), "slots", [10, 16, 22])
    >>> print(curve.uppers.round(3), curve.prices.round(3))
    [14.878 22.865 28.284] [1.604 1.168 0.652]
    """
    resources, groups = [r.name for r in world.resources], [g.name for g in world.groups]
    known = [*resources, *(quota.name for quota in world.quotas), *groups]
    if name not in known:
        raise ProblemError(f"there is no resource or quota called {name!r}{there_are(known, name)}")
    moves_capacity = name in resources
    given = _even(world, name) if values is None else numeric("values", np.atleast_1d(np.asarray(values)))
    worlds = [
        world.with_capacity(name, value) if moves_capacity else world.with_common_quota(name, value)
        for value in given.tolist()
    ]
    plans = [solve_world(each, tol=tol) for each in worlds]
    return WorldFrontier(
        name=name,
        capacity=moves_capacity,
        values=given,
        uppers=np.array([plan.upper for plan in plans]),
        gains=np.array([plan.value if math.isfinite(plan.value) else math.nan for plan in plans]),
        worst_slacks=np.array([p.worst_slack(w) for p, w in zip(plans, worlds, strict=True)]),
        prices=np.array([_price(w, p, name) for p, w in zip(plans, worlds, strict=True)]),
        statuses=tuple(plan.status for plan in plans),
        needed=np.array([_needed(plan) for plan in plans]),
    )


def _even(world: World, name: str) -> Floats:
    for resource in world.resources:
        if resource.name == name:
            return np.linspace(0.5, 1.5, _EVEN) * float(resource.capacity)
    for group in world.groups:
        if group.name == name:
            return np.linspace(0.0, 2.0, _EVEN) * float(group.at_least or 0.0)
    return np.linspace(0.0, 1.0, _EVEN)


def _price(world: World, plan: WorldPlan, name: str) -> float:
    for price, resource in zip(plan.prices, world.resources, strict=True):
        if resource.name == name:
            return float(price)
    for price, (group, sign) in zip(plan.group_prices, world.group_sides, strict=True):
        if world.groups[group].name == name and sign > 0:
            return float(price)
    return math.nan


def _needed(plan: WorldPlan) -> float:
    if plan.shortage is None or plan.prices.size != 1:
        return math.nan
    return plan.shortage.needed


@dataclass(frozen=True, eq=False)
class WorldComparison(ReadOnly):
    """Policies of a world, simulated side by side.

    Attributes
    ----------
    plan : WorldPlan
        Whose ceiling holds for every policy that meets the quotas. One that does not may gain more.
    runs : dict
        What each policy did, `WorldSimulation` by name.
    """

    plan: WorldPlan
    runs: Mapping[str, WorldSimulation]

    def to_table(self) -> Table:
        """One row for each policy."""
        head = ("policy", "gain", "error", "gap", "quotas_met", "worst_slack", "most_behind", "most_used")
        rows = []
        for name, seen in self.runs.items():
            part = max((u / c for u, c in zip(seen.most_used, seen.capacity, strict=True) if c), default=0.0)
            rows.append([
                name, seen.gain, seen.gain_se, seen.gap(self.plan.upper), seen.met, seen.worst_slack,
                float(seen.arrears.max(initial=0.0)), float(part),
            ])  # fmt: skip
        return Table.of(head, rows)


def compare_world(
    world: World, plan: WorldPlan, *, steps: int = 5_000, seed: int = 0, window: float = 20.0,
    margin: float = 0.005,
) -> WorldComparison:  # fmt: skip
    """Simulate policies of a world: both fair ones, the indices with and without quotas, ID, and greedy.

    ``without quotas`` is the index of the linear program of nobody being owed anything, and ``greedy`` knows
    rewards and no future; `dispatch_policy` says what the others are.

    Parameters
    ----------
    world
        The world.
    plan
        Its plan, from `solve_world`.
    steps, seed
        As of `simulate_world`, the same for all.
    window, margin
        As of `dispatch_policy`, for the fair ones.

    Examples
    --------
    >>> import fairmdp as fm
    >>> world = fm.scenarios.job_server(100)
    >>> seen = fm.compare_world(world, fm.solve_world(world), steps=2_000)
    >>> {name: bool(run.worst_slack > -0.05) for name, run in seen.runs.items() if name in ("fair", "greedy")}
    {'fair': True, 'greedy': False}
    """
    if not plan.has_policy:
        raise ProblemError("the quotas of this world cannot be met: there is no policy to compare")
    bare = world.without_quotas()
    policies = {
        name: dispatch_policy(world, plan, kind, window=window, margin=margin)
        for name, kind in _OF_PLAN.items()
    }
    if world.sides or world.group_sides:
        policies[_WITHOUT] = dispatch_policy(bare, solve_world(bare), "index")
    return WorldComparison(
        plan, {name: simulate_world(world, policy, steps, seed) for name, policy in policies.items()}
    )
