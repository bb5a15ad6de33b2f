"""`solve_world`: the best plan of a world in the mean, by prices, with a ceiling on every joint policy."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from fairmdp.certificate.facts import check_tol
from fairmdp.certificate.world_ceiling import ceiling_of, row_ceilings
from fairmdp.deadline import STOPS, Deadline, Stop, stop_of
from fairmdp.decomposition.columns import Column, Sweeps
from fairmdp.decomposition.kernels import POLICY
from fairmdp.decomposition.master import Progress, Tuning, descend
from fairmdp.decomposition.split import Split, split_rows
from fairmdp.decomposition.whole import solve_whole
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, Ints
from fairmdp.solution.solution import Status
from fairmdp.world.plan import Alone, BlockPlan, Shortage, WorldPlan, relative_gap
from fairmdp.world.rows import sealed
from fairmdp.world.world import World


class _Found(NamedTuple):
    """What a search found: prices, what the plan is worth, and the outcome of every row; or a proof."""

    prices: Floats
    value: float
    outcomes: tuple[Floats, ...] | None
    impossible: bool = False
    occupancies: tuple[Floats, ...] | None = None  # where the whole program was solved
    columns: tuple[tuple[float, Column], ...] = ()  # and where it was not: what is mixed, with weights


def solve_world(
    world: World,
    *,
    tol: float = 1e-6,
    seconds: float | None = None,
    progress: Progress | None = None,
    tuning: Tuning | None = None,
) -> WorldPlan:
    """Find the best plan of a world, and prove a ceiling on what any joint policy gains.

    The plan keeps capacity in the mean. At prices of resources and groups the components fall apart, each
    with its own quotas; the few prices are found by a bundle method, warmed up on samples of rows. Up to 200
    rows the whole linear program is solved instead. Either way the ceiling is proved from the prices alone.

    Parameters
    ----------
    world
        The world.
    tol
        Relative gap between ceiling and plan that counts as optimal.
    seconds
        Time to stop at, with the best ceiling by then.
    progress
        Called before each evaluation of all rows with ``evaluations``, ``rows``, ``lower``, ``upper``.
    tuning
        How the prices are searched.

    Returns
    -------
    WorldPlan
        Quotas that cannot be met are an answer: INFEASIBLE, with what is ``alone`` or the ``shortage``.

    Examples
    --------
    >>> import fairmdp as fm
    >>> names = ["wait", "serve", "wait"]
    >>> queue = fm.MDP([[0.5, 0.5], [1, 0], [0.3, 0.7]], [0, 1.0, 0], [0, 1, 1], actions=names)
    >>> clients = fm.Components("clients", queue, count=100)
    >>> plan = fm.solve_world(fm.World([clients], [fm.Resource("slots", 20, {"serve": 1})]))
    >>> print(plan.status, round(plan.upper, 6), plan.prices.round(6))
    optimal 20.0 [1.]
    """
    if not isinstance(world, World):
        raise ProblemError(f"world is a {type(world).__name__}, expected a fairmdp.World")
    tol, deadline, begin = check_tol(tol), Deadline(seconds), time.perf_counter()
    tuning = tuning or Tuning()
    sweeps, stopped, method = Sweeps(world), Stop.NOT, "price decomposition"
    found = _Found(np.zeros(world.capacity.size + world.group_owed.size), -np.inf, None)
    try:
        whole = solve_whole(world) if world.n_rows <= tuning.few_rows else None
        if whole is None:
            found = _descend(sweeps, tol, deadline, progress, tuning)
        else:
            found = _Found(whole.prices, whole.value, whole.outcomes, occupancies=whole.occupancies)
            method = "whole program"
    except STOPS as stop:
        stopped = stop_of(stop)
    plan = _concluded(sweeps, found, tol, method, stopped)
    counters = {"evaluations": float(sweeps.evaluations), "seconds": time.perf_counter() - begin}
    plan.__dict__["counters"] = counters
    return plan


def _descend(
    sweeps: Sweeps, tol: float, deadline: Deadline, progress: Progress | None, tuning: Tuning
) -> _Found:
    """Best prices, on samples of growing size and then on all rows."""
    world = sweeps.world
    samples = [Sweeps(world, _sample(world, n)) for n in tuning.samples if 3 * n < world.n_rows]
    search = descend([*samples, sweeps], tol, deadline, progress, tuning)
    if search.impossible is not None:
        return _Found(search.impossible.prices, -np.inf, None, True)
    assert search.center is not None
    if search.mixture is None:
        return _Found(search.center.prices, search.lower, None)
    weighted = zip(search.mixture.weights.tolist(), search.columns, strict=True)
    used = tuple((weight, column) for weight, column in weighted if weight > 0)
    outcomes = tuple(
        sum((weight * column.outcomes[b] for weight, column in used), np.zeros(1))
        for b in range(len(world.blocks))
    )
    return _Found(search.center.prices, search.lower, outcomes, columns=used)


def _sample(world: World, size: int) -> tuple[Ints, ...]:
    """Rows of a sample, sorted, for every block; the same for the same world."""
    chosen = np.sort(np.random.default_rng(0).choice(world.n_rows, size, replace=False))
    ends = zip(world.starts[:-1], world.starts[1:], strict=True)
    return tuple(chosen[(chosen >= a) & (chosen < b)] - a for a, b in ends)


def _concluded(sweeps: Sweeps, found: _Found, tol: float, method: str, stopped: Stop) -> WorldPlan:
    """The plan at the prices found, with what is proved of it."""
    world = sweeps.world
    column = sweeps.at(found.prices, reward=0.0 if found.impossible else 1.0)
    K = world.capacity.size
    plan: dict[str, Any] = {"tol": tol, "method": method, "stopped": stopped}
    if alone := sweeps.alone():
        return _infeasible(sweeps, plan, alone=_alone(sweeps, alone))
    witnesses = [(bases.last, bases.mu) for bases in sweeps.bases]
    if found.impossible:
        unit = float(found.prices[:K].max(initial=0.0)) or float(found.prices.max(initial=1.0))
        prices = found.prices / unit
        proved = ceiling_of(world, prices, [(last, mu / unit) for last, mu in witnesses], 0.0)
        if proved < 0:
            available = float(prices[:K] @ world.capacity)
            return _infeasible(sweeps, plan, Shortage(prices, available - proved, available), unit=unit)
        return _infeasible(sweeps, plan, undecided=True)
    upper = ceiling_of(world, found.prices, witnesses)
    status = Status.UNDECIDED if not np.isfinite(found.value) else Status.FEASIBLE
    if relative_gap(upper, found.value) <= tol:
        status = Status.OPTIMAL
    outcomes = column.outcomes if found.outcomes is None else found.outcomes
    split = split_rows(sweeps, column, outcomes, found.occupancies, found.columns)
    blocks = _blocks(sweeps, outcomes, split)
    return WorldPlan(status, upper, found.value, found.prices[:K], found.prices[K:], blocks, **plan)


def _blocks(
    sweeps: Sweeps, outcomes: tuple[Floats, ...], split: tuple[Split, ...], unit: float = 1.0
) -> tuple[BlockPlan, ...]:
    return tuple(
        BlockPlan(
            bases.last.copy(), bases.mu / unit, bases.policies.copy(),
            np.where(bases.kinds == POLICY, bases.weights, 0.0), out, *mixing,
        )
        for bases, out, mixing in zip(sweeps.bases, outcomes, split, strict=True)
    )  # fmt: skip


def _infeasible(
    sweeps: Sweeps, plan: dict[str, Any], shortage: Shortage | None = None, *,
    alone: Alone | None = None, unit: float = 1.0, undecided: bool = False,
) -> WorldPlan:  # fmt: skip
    """A plan of nothing, with the witnesses of what was proved."""
    world = sweeps.world
    none = tuple(np.full((b.ended.size, b.outcomes.shape[2]), np.nan) for b in sweeps.bases)
    unsplit = tuple(Split(np.zeros(0, int), np.zeros((0, b.row_ptr.size - 1))) for b in sweeps.blocks)
    status = Status.UNDECIDED if undecided else Status.INFEASIBLE
    K, G = world.capacity.size, world.group_owed.size
    return WorldPlan(
        status, np.nan, np.nan, np.full(K, np.nan), np.full(G, np.nan), _blocks(sweeps, none, unsplit, unit),
        alone=alone, shortage=shortage, **plan,
    )  # fmt: skip


def _alone(sweeps: Sweeps, found: list[tuple[int, Ints]]) -> Alone:
    """Which rows cannot be served even alone, and how much of what they are owed is within reach."""
    rows, sides, reach = [], [], []
    K, G = sweeps.world.capacity.size, sweeps.world.group_owed.size
    for b, numbers in found:
        block = sweeps.blocks[b].taken(numbers)
        bases = sweeps.bases[b]
        owing = np.isfinite(block.owed)
        side = np.where(owing.sum(axis=1) == 1, owing.argmax(axis=1), -1)
        free = sealed(block._replace(owed=np.where(owing, 0.0, -np.inf)))
        best = row_ceilings(free, bases.last[numbers], owing.astype(float), np.zeros(K), np.zeros(G), 0.0)
        rows.append(sweeps.world.starts[b] + numbers)
        sides.append(side)
        reach.append(np.where(side >= 0, best, np.nan))
    return Alone(np.concatenate(rows), np.concatenate(sides), np.concatenate(reach))
