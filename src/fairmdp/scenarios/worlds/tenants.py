"""Tenants of a GPU cluster, in three tiers."""

from __future__ import annotations

import numpy as np

from fairmdp.model.checks import Floats
from fairmdp.scenarios.parameters import probability, whole_number
from fairmdp.scenarios.worlds.rows import capacity_or, rows_like
from fairmdp.world.components import Components
from fairmdp.world.demands import GroupQuota, LocalQuota, Resource
from fairmdp.world.world import World


def gpu_tenants(
    tenants: int = 1000,
    *,
    backlog: int = 9,
    capacity: float | None = None,
    served: float = 0.45,
    owed: float = 0.5,
    seed: int = 0,
) -> World:
    """Return tenants of a GPU cluster in three tiers, who share GPUs, memory and network.

    A tenant has up to ``backlog`` jobs and is calm or busy; jobs come faster when it is busy. It can be given
    1, 2 or 4 GPUs, with memory and network to match, and waiting jobs cost a little. Many tenants are owed a
    short backlog, and every tier is owed that a part of it is served in the mean step.

    Parameters
    ----------
    tenants
        Number of tenants, all different.
    backlog
        Jobs that may wait.
    capacity
        GPUs, units of memory and of network in a step; by default 0.48 for each tenant.
    served
        Part of each tier that is to be served in the mean step.
    owed
        Part of the tenants that is owed at most 3 jobs waiting, for a share of the time between 0.3 and 0.6
        that is drawn as well.
    seed
        Everything random follows from it.

    Examples
    --------
    >>> gpu_tenants(200)
    World(200 components in 200 rows, 3 resources, 1 local quota, 3 group quotas)
    """
    tenants, backlog = whole_number("tenants", tenants, 3), whole_number("backlog", backlog, 4)
    owed, served = probability("owed", owed), probability("served", served)
    rng = np.random.default_rng(seed)
    comes = rng.uniform(0.1, 0.3, tenants), rng.uniform(0.4, 0.8, tenants)  # chance of a job: calm, busy
    turns = rng.uniform(0.05, 0.2, tenants), rng.uniform(0.1, 0.3, tenants)  # and of the other mode
    speed, pay = rng.uniform(0.4, 0.8, tenants), rng.lognormal(0.0, 0.5, tenants)
    shares = rng.uniform(0.3, 0.6, tenants)
    asked = np.where(rng.random(tenants) < owed, shares, 0.0)
    need = rng.uniform(0.5, 1.6, (tenants, 2))  # memory and network for each GPU
    tier = np.r_[0, 1, 2, rng.integers(0, 3, tenants - 3)]
    states = [(n, mode) for n in range(backlog + 1) for mode in (0, 1)]
    pairs = [(n, mode, g) for n, mode in states for g in (0, 1, 2, 4) if n >= {0: 0, 4: 2}.get(g, 1)]
    done = [_done(n, g, speed) for n, _, g in pairs]

    def chance(pair: int, to: int) -> Floats:
        n, mode, _ = pairs[pair]
        then, next_mode = states[to]
        total = np.zeros(tenants)
        for jobs, often in enumerate(done[pair]):
            more = 0.0 if n - jobs == backlog else comes[mode]
            total = total + often * ((then == n - jobs) * (1 - more) + (then == n - jobs + 1) * more)
        return total * (turns[mode] if next_mode != mode else 1 - turns[mode])

    lists = [
        [
            2 * then + m
            for then in range(max(0, n - len(chances) + 1), min(n + 1, backlog) + 1)
            for m in (0, 1)
        ]
        for (n, *_), chances in zip(pairs, done, strict=True)
    ]
    s_of, gpus = np.array([2 * n + mode for n, mode, _ in pairs]), np.array([float(g) for *_, g in pairs])
    pattern, P = rows_like(lists, s_of, chance, tenants, [f"{g:.0f} GPUs" for g in gpus])
    means = np.stack([sum((m * c for m, c in enumerate(each)), np.zeros(1)) for each in done], axis=1)
    waiting = np.array([float(n) for n, *_ in pairs])
    amount = capacity_or("capacity", capacity, 0.48 * tenants)
    resources = [Resource("GPUs", amount, gpus)] + [
        Resource(what, amount, np.round(need[:, [k]] * gpus, 1))
        for k, what in enumerate(("memory", "network"))
    ]
    short = LocalQuota("short backlog", at_least=asked, states=np.arange(8))
    groups = [
        GroupQuota(f"tier {t + 1}", served * int((tier == t).sum()), weights=gpus > 0, members=tier == t)
        for t in range(3)
    ]
    rewards = pay[:, None] * means - 0.0125 * waiting
    return World([Components("tenant", pattern, P=P, r=rewards)], resources, [short], groups)


def _done(n: int, g: int, speed: Floats) -> list[Floats]:
    """Chances that 0, 1 or 2 jobs of n are done by g GPUs."""
    if g == 0:
        return [np.ones(speed.size)]
    if g == 1 or n == 1:
        fails = np.exp(-speed * g)
        return [fails, 1 - fails]
    fails = np.exp(-speed * g / 2)
    return [fails**2, 2 * fails * (1 - fails), (1 - fails) ** 2]
