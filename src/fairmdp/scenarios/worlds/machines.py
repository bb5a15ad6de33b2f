"""Machines that wear out, and share fitters and spare parts."""

from __future__ import annotations

import numpy as np

from fairmdp.model.checks import Floats
from fairmdp.scenarios.parameters import probability, whole_number
from fairmdp.scenarios.worlds.rows import capacity_or, rows_like
from fairmdp.world.components import Components
from fairmdp.world.demands import LocalQuota, Resource
from fairmdp.world.world import World

_RUN, _MAINTAIN, _REPLACE = range(3)
_WORKS = 0.85  # chance that maintenance does


def machine_park(
    machines: int = 1000,
    *,
    ages: int = 10,
    fitters: float | None = None,
    spares: float | None = None,
    owed: float = 0.6,
    seed: int = 0,
) -> World:
    """Return machines that wear out and share fitters and spare parts; many are owed time in good order.

    A machine earns less the older it gets, and may break down. A fitter can maintain it, which mostly makes
    it several ages younger, or replace it, which takes a spare part as well. A broken machine seldom comes
    back by itself.

    Parameters
    ----------
    machines
        Number of machines, all different.
    ages
        Ages of a machine in working order.
    fitters, spares
        How many there are in a step; by default 0.07 and 0.005 for each machine.
    owed
        Part of the machines that is owed to be in the younger half of its ages, for a share of the time
        between 0.3 and 0.75 that is drawn as well.
    seed
        Everything random follows from it.

    Examples
    --------
    >>> machine_park(200)
    World(200 components in 200 rows, 2 resources, 1 local quota)
    """
    machines, ages = whole_number("machines", machines, 1), whole_number("ages", ages, 2)
    owed = probability("owed", owed)
    rng = np.random.default_rng(seed)
    wear, fails = rng.uniform(0.1, 0.3, machines), rng.uniform(0.05, 0.15, machines) / ages
    pay, shares = rng.lognormal(-0.2, 0.6, machines), rng.uniform(0.3, 0.75, machines)
    asked = np.where(rng.random(machines) < owed, shares, 0.0)
    state, action = np.repeat(np.arange(ages + 1), 3), np.tile(np.arange(3), ages + 1)

    def targets(s: int, a: int) -> list[int]:
        if a == _REPLACE or (a == _MAINTAIN and s == 0):
            return [0]
        if s == ages:
            return [0, ages]
        if a == _MAINTAIN:
            return [max(0, s - max(1, 2 * ages // 5)), s]
        return [s, ages] if s == ages - 1 else [s, s + 1, ages]

    def chance(pair: int, to: int) -> Floats:
        s, a = int(state[pair]), int(action[pair])
        if len(targets(s, a)) == 1:
            return np.ones(machines)
        if s == ages:
            alone = 0.01 if a == _RUN else 0.02
            return np.full(machines, alone if to == 0 else 1 - alone)
        if a == _MAINTAIN:
            return np.full(machines, _WORKS if to < s else 1 - _WORKS)
        breaks = (s + 1) * fails
        older = (1 - breaks) * wear if s < ages - 1 else np.zeros(machines)
        return breaks if to == ages else older if to > s else 1 - breaks - older

    lists = [targets(int(s), int(a)) for s, a in zip(state, action, strict=True)]
    names = [("run", "maintain", "replace")[a] for a in action]
    pattern, P = rows_like(lists, state, chance, machines, names)
    working = np.where(state < ages, 1 - 0.6 * state / ages, 0.0) * np.array([1.0, 0.3, 0.0])[action]
    resources = [
        Resource(
            "fitters", capacity_or("fitters", fitters, 0.07 * machines), {"maintain": 1.0, "replace": 1.0}
        ),
        Resource("spares", capacity_or("spares", spares, 0.005 * machines), {"replace": 1.0}),
    ]
    young = LocalQuota("good order", at_least=asked, states=np.arange(ages // 2))
    return World([Components("machine", pattern, P=P, r=pay[:, None] * working)], resources, [young])
