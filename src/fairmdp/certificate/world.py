"""Check a world's plan from the world alone: its ceiling, or why its quotas cannot be met."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairmdp.certificate.elementary import up
from fairmdp.certificate.facts import MOST_TOL
from fairmdp.certificate.world_ceiling import Witnesses, ceiling_of, exact_ceiling, exact_rows, row_ceilings
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, ReadOnly
from fairmdp.solution.solution import Status
from fairmdp.world.plan import Alone, WorldPlan, relative_gap
from fairmdp.world.world import World

_CLAIM_TOL = 1e-8  # how far a number of the plan may be from what is proved, relative to its size
_SUM_TOL = 1e-6  # and sums of what its components do from what it says, or what there is


@dataclass(frozen=True, eq=False)
class WorldVerdict(ReadOnly):
    """What could be proved about a world's plan.

    Attributes
    ----------
    ok
        Whether every claim of the plan was confirmed.
    status
        What the witnesses prove: INFEASIBLE, else what the plan says of itself if its numbers fit together,
        else UNDECIDED.
    upper
        Proven ceiling on what any joint policy that meets the quotas gains; NaN where there is none.
    messages
        What was not confirmed, one sentence each.
    exact
        Whether the arithmetic was rational.
    estimates
        What nothing proves, one sentence each.
    """

    ok: bool
    status: Status
    upper: float
    messages: tuple[str, ...]
    exact: bool
    estimates: tuple[str, ...] = ()


def verify_world(
    world: World, plan: WorldPlan, *, exact: bool = False, tol: float = MOST_TOL
) -> WorldVerdict:
    """Re-derive what a plan claims from the world and the plan's witnesses."""
    _check_shapes(world, plan)
    if plan.status is Status.INFEASIBLE:
        messages = tuple(_of_impossible(world, plan, exact))
        status = Status.UNDECIDED if messages else Status.INFEASIBLE
        return WorldVerdict(not messages, status, math.nan, messages, exact)
    upper = _ceiling(world, np.concatenate([plan.prices, plan.group_prices]), _witnesses(plan), 1.0, exact)
    messages = tuple(_of_plan(world, plan, upper, tol))
    estimates = ("the value of the plan, and what each component does, are sums in floating point",)
    status = Status.UNDECIDED if messages else plan.status
    return WorldVerdict(not messages, status, upper, messages, exact, estimates)


def _witnesses(plan: WorldPlan) -> Witnesses:
    return [(block.witness, block.mu) for block in plan.blocks]


def _ceiling(world: World, prices: Floats, witnesses: Witnesses, reward: float, exact: bool) -> float:
    if not np.isfinite(prices).all():
        return math.inf
    return (
        up(exact_ceiling(world, prices, witnesses, reward))
        if exact
        else ceiling_of(world, prices, witnesses, reward)
    )


def _of_plan(world: World, plan: WorldPlan, upper: float, tol: float) -> Iterator[str]:
    """What is wrong with a plan."""
    if not upper <= plan.upper + _CLAIM_TOL * abs(plan.upper):
        yield f"the plan says that nobody gains more than {plan.upper:.9g}, and {upper:.9g} is what it proves"
    if plan.status is Status.UNDECIDED:
        return
    earned = math.fsum(
        value for rows, block in zip(world.blocks, plan.blocks, strict=True)
        for value in (rows.number * block.outcomes[:, 0]).tolist()
    )  # fmt: skip
    size = _SUM_TOL * max(abs(earned), abs(plan.value), 1e-300)
    if not abs(earned - plan.value) <= size:
        yield f"the plan says that it gains {plan.value:.9g}, its components gain {earned:.9g} together"
    if plan.status is Status.OPTIMAL and not relative_gap(upper, plan.value) <= min(max(plan.tol, 0.0), tol):
        yield f"the plan calls itself optimal, and is {relative_gap(upper, plan.value):.1e} below its ceiling"
    yield from _of_outcomes(world, plan)


def _of_outcomes(world: World, plan: WorldPlan) -> Iterator[str]:
    """Where the sums of what components do break a quota or a capacity."""
    K, J = world.capacity.size, len(world.sides)
    used, had = np.zeros(K), np.zeros(world.group_owed.size)
    missing = 0
    for rows, block in zip(world.blocks, plan.blocks, strict=True):
        out = block.outcomes
        used += rows.number @ out[:, 1 + J : 1 + J + K]
        for layer in range(rows.group_of.shape[1]):
            inside = rows.group_of[:, layer] >= 0
            values = (rows.number * out[:, 1 + J + K + layer])[inside]
            had += np.bincount(rows.group_of[inside, layer], values, minlength=had.size)
        missing += int((~(out[:, 1 : 1 + J] >= rows.owed - _SUM_TOL)).sum())
    if missing:
        yield f"{missing} local quotas are not met"
    for k, resource in enumerate(world.resources):
        if not used[k] <= resource.capacity + _SUM_TOL * max(used[k], 1.0):
            yield f"{resource.name}: {used[k]:.9g} are used in the mean, there are {resource.capacity:.9g}"
    for g, (number, _) in enumerate(world.group_sides):
        if not had[g] >= world.group_owed[g] - _SUM_TOL * max(abs(had[g]), 1.0):
            yield f"{world.groups[number].name}: {abs(had[g]):.9g} of {abs(world.group_owed[g]):.9g}"


def _of_impossible(world: World, plan: WorldPlan, exact: bool) -> Iterator[str]:
    """What is wrong with a proof that quotas cannot be met."""
    if plan.shortage is None and plan.alone is None:
        yield "the plan says that the quotas cannot be met, and gives no proof"
    if plan.shortage is not None:
        shortage = plan.shortage
        proved = _ceiling(world, shortage.prices, _witnesses(plan), 0.0, exact)
        available = float(np.maximum(shortage.prices[: world.capacity.size], 0.0) @ world.capacity)
        if not proved < 0:
            yield "the prices of the shortage prove nothing"
        elif not shortage.needed <= (available - proved) * (1 + _CLAIM_TOL):
            yield f"the plan says that {shortage.needed:.9g} are needed, {available - proved:.9g} is proved"
        if not abs(available - shortage.available) <= _CLAIM_TOL * max(available, 1.0):
            yield f"the plan says that there are {shortage.available:.9g}, there are {available:.9g}"
    if plan.alone is not None:
        yield from _of_alone(world, plan, plan.alone, exact)


def _of_alone(world: World, plan: WorldPlan, alone: Alone, exact: bool) -> Iterator[str]:
    """Rows of which it is not proved that they cannot be served even alone."""
    K, G = world.capacity.size, world.group_owed.size
    for row, side, reach in zip(alone.rows, alone.sides, alone.reach, strict=True):
        b = int(np.searchsorted(world.starts, row, side="right")) - 1
        i = int(row - world.starts[b])
        rows, block = world.blocks[b].taken(slice(i, i + 1)), plan.blocks[b]
        witness, mu = block.witness[i : i + 1], block.mu[i : i + 1]
        rest = np.zeros(K), np.zeros(G), 0.0
        if not (exact_rows if exact else row_ceilings)(rows, witness, mu, *rest)[0] < 0:
            yield f"it is not proved that {world.row_name(int(row))} cannot be served"
        if side >= 0:
            free = rows._replace(owed=np.where(np.arange(rows.owed.shape[1]) == side, 0.0, -np.inf)[None])
            unit = (np.arange(rows.owed.shape[1]) == side).astype(float)[None]
            best = row_ceilings(free, witness, unit, *rest)[0]
            if not best <= reach + _CLAIM_TOL:
                yield f"{world.row_name(int(row))} may reach {best:.6g}, and not only {reach:.6g}"


def _check_shapes(world: World, plan: WorldPlan) -> None:
    """Raise where a plan is not one of this world."""
    fits = len(plan.blocks) == len(world.blocks) and plan.prices.shape == world.capacity.shape
    fits = fits and plan.group_prices.shape == world.group_owed.shape
    for rows, block in zip(world.blocks, plan.blocks, strict=False):
        S, J = rows.n_states, rows.owed.shape[1]
        wide = 1 + J + rows.uses.shape[2] + rows.group_of.shape[1]
        shapes = [(rows.size, *rest) for rest in ((S,), (J,), (J + 1, S), (J + 1,), (wide,))]
        split = [block.split.shape, (block.split.size, rows.row_ptr.size - 1)]
        fits = fits and [array.shape for array in block] == [*shapes, *split]
        fits = fits and bool(((block.split >= 0) & (block.split < rows.size)).all())
    if (alone := plan.alone) is not None:
        fits = fits and alone.rows.shape == alone.sides.shape == alone.reach.shape
        fits = fits and bool(((alone.rows >= 0) & (alone.rows < world.n_rows)).all())
        fits = fits and bool((alone.sides < len(world.sides)).all())
    if plan.shortage is not None:
        fits = fits and plan.shortage.prices.size == world.capacity.size + world.group_owed.size
    if not fits:
        raise ProblemError("the plan is of another world: its arrays have other shapes")
