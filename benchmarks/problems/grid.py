"""A grid with goals far apart: nearly decomposable, so that LP optima are often no policies."""

import itertools

import numpy as np
from scipy.sparse import coo_array

from fairmdp import MDP, Problem, Quota


def grid(side, slip=0.2, owed=0.12):
    """Four moves with slip, smooth rewards; blocks in the corners and the middle are owed 0.12 each."""
    n = side * side
    y, x = np.divmod(np.arange(n), side)
    moves = [
        np.clip(y + dy, 0, side - 1) * side + np.clip(x + dx, 0, side - 1)
        for dy, dx in ((-1, 0), (1, 0), (0, -1), (0, 1))
    ]
    rows, cols, vals = [], [], []
    for a, b in itertools.product(range(4), repeat=2):
        rows.append(np.arange(n) * 4 + a)
        cols.append(moves[b])
        vals.append(np.full(n, (1 - slip) * (a == b) + slip / 4))
    entries = np.concatenate(vals), (np.concatenate(rows), np.concatenate(cols))
    P = coo_array(entries, shape=(n * 4, n)).tocsr()
    r = 0.5 + 0.25 * np.sin(2 * np.pi * x / side) + 0.25 * np.cos(3 * np.pi * y / side)
    block = side // 5
    corners = ((0, 0), (4, 0), (2, 2), (0, 4), (4, 4))
    blocks = [np.flatnonzero((x // block == i) & (y // block == j)) for i, j in corners]
    mdp = MDP(P, np.repeat(r, 4), np.repeat(np.arange(n), 4))
    return Problem(mdp, [Quota(f"block {k}", states=blocks[k], at_least=owed) for k in range(len(blocks))])
