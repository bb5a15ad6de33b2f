"""Ready-made worlds at the sizes of a benchmark, where quotas bind and chains mix slowly."""

import numpy as np

from fairmdp import Chain, Problem, scenarios


def jobs(clients, room, withdraw=0.05, quota=0.3):
    """One server; all clients but the first are owed a queue of at most one job for a share of the time."""
    return scenarios.jobs(
        clients,
        queue=room,
        capacity=1,
        arrivals=(0.9, 0.7, 0.5, 0.4)[:clients],
        pay=(1.0, 0.3, 0.2, 0.1)[:clients],
        withdraw=withdraw,
        quota=(0.0, *[quota / (clients - 1)] * (clients - 1)),
        max_arrivals=1,
        max_withdrawals=1,
    )


def postal(room):
    """Three districts; the village is owed a backlog of at most a quarter for 0.4 of the time."""
    return scenarios.postal(backlog=room, limit=room // 4)


def taxi(zones, quota=0.1):
    """Zones on a ring, fewer passengers the farther out; every tenth zone is owed a waiting taxi."""
    zone = np.arange(zones)
    around = np.abs(zone[:, None] - zone)
    away = np.minimum(around, zones - around)
    demand = np.exp(-away / 5.0 - away[0][:, None] / zones)
    demand *= 0.6 / demand.sum(axis=1).max()
    owed = np.where(zone % 10 == 5, quota / max(zones // 10, 1), 0.0)
    return scenarios.taxi(zones, travel=1 + away, demand=demand, fares=2.0 + away, quota=owed)


def each_state(problem, part=0.3):
    """The same model with a quota for every state: a part of the uniform policy's share."""
    mdp = problem.mdp
    return Problem(mdp, rho=part * Chain.of(mdp, 1.0 / mdp.n_actions[mdp.s_of]).shares)
