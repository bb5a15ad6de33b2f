"""`dispatch_policy`: a policy of a world, from the prices of its plan."""

from __future__ import annotations

import numpy as np

from fairmdp.decomposition.solve import solve_world
from fairmdp.dispatch.pilot import CANDIDATES, FEW, Candidate, better
from fairmdp.dispatch.policy import KINDS, PLANNED, DispatchPolicy, Groups
from fairmdp.dispatch.tables import greedy_tables, tables_of
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, there_are
from fairmdp.world.plan import WorldPlan
from fairmdp.world.world import World

_LEAST_PRICE = 0.02  # of a resource, as a part of what a unit of it is worth in the mean
_OF_GROUPS = 0.2  # part of the margin that groups have: what many do together swings little


def dispatch_policy(
    world: World, plan: WorldPlan, kind: str = "auto", *, window: float = 20.0, margin: float = 0.005,
    reserve: float = 0.0,
) -> DispatchPolicy:  # fmt: skip
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
        order, each with what its plan says. ``"auto"`` tries both in simulations, ``"fair"`` with several
        reserves, until they have settled, and keeps the one that gains most of those under which nobody falls
        behind.

        For comparison, without accounts, so that quotas are not kept: ``"index"`` is ``"fair"`` and ``"id"``
        is ``"fair_id"`` without them; ``"greedy"`` knows rewards and no future. The index of a linear program
        without quotas is ``dispatch_policy(bare, solve_world(bare), "index")`` of
        ``bare = world.without_quotas()``.
    window
        In steps: clients are behind and ahead of what they are owed by about two windows in turn. Long
        windows gain more, and share more coarsely in time.
    margin
        What is aimed at above every quota, in parts of the time, and a fifth of it for groups, whose accounts
        swing less. Shares of T steps are short by at most what arrears have grown, divided by T, less the
        margin.
    reserve
        Part of every capacity without which the prices are found; the policy still uses all there is. To
        bring clients from bad states into good ones, and back again a few windows later, takes more than the
        plan in the mean knows of; prices of a little less capacity make room for that.

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
    if not 0 <= reserve < 1:
        raise ProblemError(f"reserve is {reserve!r}, expected a part of the capacity, 0 to 1")
    if kind == "auto":
        candidates = CANDIDATES if world.n_components <= FEW else CANDIDATES[:2]
        tried = (_reserving(world, plan, each, window, margin) for each in candidates)
        return better(world, [policy for policy in tried if policy is not None])
    policy = _reserving(world, plan, Candidate(kind, reserve), window, margin)
    if policy is None:
        raise ProblemError(f"with a reserve of {reserve:g} no policy meets the quotas")
    return policy


def _reserving(
    world: World, plan: WorldPlan, of: Candidate, window: float, margin: float
) -> DispatchPolicy | None:
    """A policy at the prices of a world with less capacity; None where its quotas cannot be met there."""
    if of.reserve > 0:
        less = world
        for each in world.resources:
            less = less.with_capacity(each.name, (1 - of.reserve) * each.capacity)
        plan = solve_world(less, tol=plan.tol)
        if not plan.has_policy:
            return None
    floor = np.maximum(plan.prices, _LEAST_PRICE * _worth(world, plan))
    if of.kind == "greedy":
        tables = tuple(greedy_tables(rows, floor, world.capacity) for rows in world.blocks)
    else:
        tables = tuple(
            tables_of(
                rows,
                block,
                plan.prices,
                plan.group_prices,
                floor,
                world.capacity,
                margin,
                of.kind in PLANNED,
            )
            for rows, block in zip(world.blocks, plan.blocks, strict=True)
        )
    groups = _groups(world, plan, margin)
    return DispatchPolicy(
        of.kind, tables, world.capacity, groups, window=window, margin=margin, reserve=of.reserve
    )


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
    return Groups(world.group_owed + _OF_GROUPS * margin * size, size, np.maximum(prices, usual), prices)
