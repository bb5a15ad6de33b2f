"""States that are vectors of levels, such as queue lengths, each of which changes on its own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import numpy as np
from scipy.sparse import csr_array, kron

from fairmdp.validation import Ints


def grid(room: Ints) -> Ints:
    """All vectors of levels from 0 to ``room``, the last one running fastest, (C, S)."""
    levels: Ints = np.indices(tuple((room + 1).tolist())).reshape(room.size, -1)
    return levels


def strides(room: Ints) -> Ints:
    """Weights that turn levels into a place in the `grid`, (C,)."""
    return np.cumprod([1, *(room[:0:-1] + 1)])[::-1]


def joint_law(laws: Iterable[csr_array]) -> csr_array:
    """Law of a vector of levels from the laws of its independent parts, (S, S)."""
    return reduce(lambda A, B: kron(A, B, format="csr"), map(slim, laws))


def slim(law: csr_array) -> csr_array:
    """Return the same with indices of 4 bytes, which scipy keeps in all that is made of it."""
    return csr_array((law.data, law.indices.astype(np.int32), law.indptr.astype(np.int32)), shape=law.shape)
