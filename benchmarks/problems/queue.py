"""One server and three clients in overload: mixes slowly, and its prices are sharp."""

import itertools

import numpy as np
from scipy.sparse import coo_array

from fairmdp import MDP, Problem, Quota


def queue(room, clients=3, arrival=0.4, rewards=(1.0, 0.6, 0.3), owed=(0.5, 0.5, 0.5)):
    """State: length of every client's queue; action: whom to serve; then arrivals.

    Each client's queue is to be at most a quarter full for the share of the time that it is owed.
    """
    sizes = (room + 1,) * clients
    n = (room + 1) ** clients
    lengths = np.stack(np.unravel_index(np.arange(n), sizes), axis=1)
    rows, cols, vals, r = [], [], [], np.zeros(n * clients)
    for a in range(clients):
        pair = np.arange(n) * clients + a
        after = lengths.copy()
        after[:, a] = np.maximum(after[:, a] - 1, 0)
        r[pair] = rewards[a] * (lengths[:, a] > 0)
        for arrivals in itertools.product((0, 1), repeat=clients):
            rows.append(pair)
            cols.append(np.ravel_multi_index(np.minimum(after + arrivals, room).T, sizes))
            vals.append(np.full(n, np.prod(np.where(arrivals, arrival, 1 - arrival))))
    entries = np.concatenate(vals), (np.concatenate(rows), np.concatenate(cols))
    P = coo_array(entries, shape=(n * clients, n)).tocsr()
    short = [np.flatnonzero(lengths[:, c] <= room // 4) for c in range(clients)]
    quotas = [Quota(f"client {c}", states=short[c], at_least=owed[c]) for c in range(clients)]
    return Problem(MDP(P, r, np.repeat(np.arange(n), clients)), quotas)
