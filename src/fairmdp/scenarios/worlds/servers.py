"""Clients who share the slots of a server, each with a queue of its own."""

from __future__ import annotations

import numpy as np

from fairmdp.model.checks import Floats
from fairmdp.scenarios.parameters import AMOUNT, number, probability, whole_number
from fairmdp.scenarios.worlds.rows import capacity_or, rows_like
from fairmdp.world.components import Components
from fairmdp.world.demands import LocalQuota, Resource
from fairmdp.world.world import World


def job_server(
    clients: int = 1000,
    *,
    queue: int = 12,
    capacity: float | None = None,
    memory: float | None = None,
    limit: int = 3,
    owed: float = 0.6,
    seed: int = 0,
) -> World:
    """Return clients who share a server's slots; many are owed a short queue.

    A client has up to ``queue`` jobs waiting. In every step the server does 0, 1 or 2 of them, each takes a
    slot and pays what this client pays; then the client may send a job, and a job may be withdrawn, the more
    likely the longer the queue.

    Parameters
    ----------
    clients
        Number of clients, all different.
    queue
        Jobs that may wait.
    capacity
        Slots in a step; by default 0.326 for each client.
    memory
        Units of memory in a step, of which a job takes one or two; by default memory is not scarce.
    limit, owed
        A part ``owed`` of the clients is owed at most ``limit`` jobs waiting, for a share of the time between
        0.2 and 0.6 that is drawn as well.
    seed
        Everything random follows from it.

    Examples
    --------
    >>> job_server(1000)
    World(1000 components in 1000 rows, 1 resource, 1 local quota)
    """
    clients, queue = whole_number("clients", clients, 1), whole_number("queue", queue, 2)
    limit, owed = whole_number("limit", limit, 0), probability("owed", owed)
    rng = np.random.default_rng(seed)
    arrivals, withdrawn = rng.uniform(0.2, 0.9, clients), rng.uniform(0.1, 0.45, clients) / queue
    pay, shares = rng.lognormal(0.0, 0.6, clients), rng.uniform(0.2, 0.6, clients)
    asked = np.where(rng.random(clients) < owed, shares, 0.0)
    takes = rng.integers(1, 3, clients).astype(float)
    waiting, served = np.array([(n, m) for n in range(queue + 1) for m in range(min(n, 2) + 1)]).T
    left = waiting - served

    def chance(pair: int, to: int) -> Floats:
        down = left[pair] * withdrawn
        comes = np.zeros(clients) if left[pair] == queue else arrivals
        fewer, more = down * (1 - comes), (1 - down) * comes
        return (fewer, 1 - fewer - more, more)[1 + to - left[pair]]

    targets = [[t for t in (n - 1, n, n + 1) if 0 <= t <= queue] for n in left]
    pattern, P = rows_like(targets, waiting, chance, clients, [f"serve {m}" for m in served])
    resources = [Resource("slots", capacity_or("capacity", capacity, 0.326 * clients), served.astype(float))]
    if memory is not None:
        resources.append(Resource("memory", number("memory", memory, AMOUNT), takes[:, None] * served))
    short = LocalQuota("short queue", at_least=asked, states=np.arange(min(limit, queue) + 1))
    return World([Components("client", pattern, P=P, r=pay[:, None] * served)], resources, [short])
