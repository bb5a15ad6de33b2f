"""Scratch space that the array functions under `fairmdp.solvers.proximal` share."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairmdp.backends.by_quota import Model

F8 = NDArray[np.float64]
I8 = NDArray[np.int64]
I4 = NDArray[np.int32]
Flags = NDArray[np.bool_]


class Scratch(NamedTuple):
    """Scratch space for the rows of a chain or of the curvature: ``n_pairs`` rows with room for ``-e_s``."""

    ptr: I8  # (SA + 2,)
    to: I4  # (nnz + SA,)
    value: F8  # (nnz + SA,)
    weight: F8  # (SA,)
    seen: F8  # (SA,), products of one block's rows
    block: I8  # (SA + 1,), first row of each block of three rows and more
    mean: F8  # (S,), sum over the loose rows of weight * row
    top: F8  # (S,), largest value of each state
    second: F8  # (S,), and the next


def scratch_for(model: Model) -> Scratch:
    """Return scratch space that fits a model."""
    SA, nnz, S = model.indptr.size - 1, model.data.size, model.w.size
    return Scratch(
        np.zeros(SA + 2, np.int64),
        np.zeros(nnz + SA, np.int32),
        np.zeros(nnz + SA),
        np.zeros(SA),
        np.zeros(SA),
        np.zeros(SA + 1, np.int64),
        np.zeros(S),
        np.zeros(S),
        np.zeros(S),
    )
