"""`dispatch_policy`: a policy of a world, from the prices of its plan."""

from __future__ import annotations

import numpy as np

from fairmdp.dispatch.policy import KINDS, PLANNED, DispatchPolicy, Groups
from fairmdp.dispatch.simulation import QUANTILES, WorldSimulation, simulate_world
from fairmdp.dispatch.tables import greedy_tables, tables_of
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, there_are
from fairmdp.world.plan import WorldPlan
from fairmdp.world.world import World

_LEAST_PRICE = 0.02  # of a resource, as a part of what a unit of it is worth in the mean
_PILOT = 50  # windows that a policy is tried for
_PILOTED = ("fair", "fair_id")
_RISING = 0.25  # windows that the median client may fall behind from one third of a pilot to the next
_HELD = 4.0  # windows that a client may be behind in the worst step of a pilot, or a group in its last


def dispatch_policy(
    world: World, plan: WorldPlan, kind: str = "auto", *, window: float = 20.0, margin: float = 0.005
) -> DispatchPolicy:
    """Make a policy that keeps capacity at every step and gives everybody what it is owed over time.

    Parameters
    ----------
    world
        The world.
    plan
        Its plan, from `solve_world`: prices and policies are taken from there.
    kind
        ``"fair"`` puts first who makes most of what it uses at the prices of the plan, where those who are
        behind pay more. ``"fair_id"`` puts those first who are far behind, and then everybody in a fixed
        order, each with what its plan says. ``"auto"`` tries both for a while and keeps the better one.

        For comparison, without accounts, so that quotas are not kept: ``"index"`` is ``"fair"`` and ``"id"``
        is ``"fair_id"`` without them; ``"greedy"`` knows rewards and no future. The index of a linear program
        without quotas is ``dispatch_policy(bare, solve_world(bare), "index")`` of
        ``bare = world.without_quotas()``.
    window
        In steps: clients are behind and ahead of what they are owed by about two windows in turn. Long
        windows gain more, and share more coarsely in time.
    margin
        What is aimed at above every quota, in parts of the time. Shares of T steps are short by at most what
        arrears have grown, divided by T, less the margin.

    Returns
    -------
    DispatchPolicy
        Usable without the plan, the world, or a solver.

    Examples
    --------
    >>> import numpy as np
    >>> import fairmdp as fm
    >>> world = fm.scenarios.job_server(100)
    >>> policy = fm.dispatch_policy(world, fm.solve_world(world), "fair")
    >>> actions = policy.act(np.full(100, 3), np.random.default_rng(0))  # three jobs wait for everybody
    >>> int(actions.sum()), world.capacity  # jobs done, slots
    (33, array([33.]))
    """
    known = ("auto", *KINDS)
    if kind not in known:
        raise ProblemError(f"kind is {kind!r}{there_are(known, str(kind))}")
    if not 1 <= window < np.inf:
        raise ProblemError(f"window is {window!r}, expected at least 1 step")
    if not 0 <= margin < 1:
        raise ProblemError(f"margin is {margin!r}, expected a part of the time, 0 to 1")
    if len(plan.blocks) != len(world.blocks) or plan.prices.shape != world.capacity.shape:
        raise ProblemError("the plan is of another world: its arrays have other shapes")
    if not plan.has_policy or not np.isfinite(plan.prices).all():
        raise ProblemError(f"there is no plan to follow: {plan.status.meaning}")
    if kind == "auto":
        return _better(world, plan, window, margin)
    floor = np.maximum(plan.prices, _LEAST_PRICE * _worth(world, plan))
    if kind == "greedy":
        tables = tuple(greedy_tables(rows, floor) for rows in world.blocks)
    else:
        tables = tuple(
            tables_of(rows, block, plan.prices, plan.group_prices, floor, margin, kind in PLANNED)
            for rows, block in zip(world.blocks, plan.blocks, strict=True)
        )
    groups = _groups(world, plan, margin)
    return DispatchPolicy(kind, tables, world.capacity, groups, window=window, margin=margin)


def _better(world: World, plan: WorldPlan, window: float, margin: float) -> DispatchPolicy:
    """The policy that gains more in a pilot among those that hold arrears, or else is less short."""
    tried = []
    for kind in _PILOTED:
        policy = dispatch_policy(world, plan, kind, window=window, margin=margin)
        seen = simulate_world(world, policy, int(_PILOT * window))
        behind = float(seen.arrears.max(initial=0.0)) / window
        short = (seen.group_owed - seen.group_shares) / policy.groups.size
        missing = max(behind / _HELD - 1, 0.0) + max(float(short.max(initial=0.0)) - margin, 0.0)
        missing += max(_drift(seen) / window - _RISING, 0.0)
        tried.append((missing == 0, seen.gain if missing == 0 else -missing, policy))
    return max(tried, key=lambda each: each[:2])[2]


def _drift(seen: WorldSimulation) -> float:
    """By how many steps the median client falls behind from the second third of a run to the last."""
    median = seen.history.arrears[:, QUANTILES.index(0.5)]
    third = len(median) // 3
    drift = float(median[-third:].mean() - median[-2 * third : -third].mean())
    return drift if np.isfinite(drift) else 0.0


def _worth(world: World, plan: WorldPlan) -> Floats:
    """What a unit of each resource is worth in the mean, about, (K,)."""
    size = abs(plan.upper) if np.isfinite(plan.upper) else 0.0
    return (size or 1.0) / np.maximum(world.capacity, 1e-9) / max(world.capacity.size, 1)


def _groups(world: World, plan: WorldPlan, margin: float) -> Groups:
    """What the policy knows of groups."""
    size = np.zeros(world.group_owed.size)
    for rows in world.blocks:
        span = np.broadcast_to(np.ptp(rows.group_counts, axis=1), rows.group_of.shape)
        for layer in range(rows.group_of.shape[1]):
            inside = rows.group_of[:, layer] >= 0
            np.add.at(size, rows.group_of[inside, layer], (rows.number * span[:, layer])[inside])
    size = np.maximum(size, 1e-300)
    prices = plan.group_prices
    usual = max(float(prices.mean()) if prices.size else 0.0, 1e-3 * abs(plan.upper) / world.n_components)
    return Groups(world.group_owed + margin * size, size, np.maximum(prices, usual), prices)
