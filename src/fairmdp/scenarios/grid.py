"""States that are vectors of levels, such as queue lengths, each of which changes on its own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import numpy as np
from scipy.sparse import csr_array, kron

from fairmdp.model.checks import Floats, Ints


def grid(room: Ints) -> Ints:
    """All vectors of levels from 0 to ``room``, the last one running fastest, (C, S)."""
    levels: Ints = np.indices(tuple((room + 1).tolist())).reshape(room.size, -1)
    return levels


def strides(room: Ints) -> Ints:
    """Weights that turn levels into a place in the `grid`, (C,)."""
    return np.cumprod([1, *(room[:0:-1] + 1)])[::-1]


def joint(parts: Iterable[csr_array]) -> csr_array:
    """Transition matrix of a vector of levels from those of its independent parts, (S, S)."""
    return reduce(lambda A, B: kron(A, B, format="csr"), map(slim, parts))


def binomial(most: int, chance: float, cap: int) -> Floats:
    """Distribution of ``min(B, cap)`` for a binomial B of n trials, one row per n up to ``most``."""
    rows = np.zeros((most + 1, cap + 1))  # P(min(B, cap) = k) in rows[n, k]
    rows[0, 0] = 1
    for n in range(most):
        rows[n + 1] = (1 - chance) * rows[n]
        rows[n + 1, 1:] += chance * rows[n, :-1]
        rows[n + 1, -1] += chance * rows[n, -1]
    return rows


def slim(P: csr_array) -> csr_array:
    """Return the same with indices of 4 bytes, which scipy keeps in all that is made of it."""
    return csr_array((P.data, P.indices.astype(np.int32), P.indptr.astype(np.int32)), shape=P.shape)
