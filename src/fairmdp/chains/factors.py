"""Exact sparse factors of a chain."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import splu

from fairmdp.model.checks import Floats


class Factors:
    """Factors of ``I - P`` without one state, the pin: a chain's bias, hitting times and distribution.

    The chain is ``(1 - restart) P + restart e_pin``, which has one class whatever P is if the restart is
    positive. Without the pin ``I - P`` is an M-matrix, so no pivoting is needed; one that is singular,
    because the pin is not reached from everywhere, raises a RuntimeError.
    """

    def __init__(self, P: csr_array, pin: int, restart: float = 0.0) -> None:
        self._pin, n = pin, P.shape[0]
        moves = (1 - restart) * P.data
        own = slice(P.indptr[pin], P.indptr[pin + 1])
        self._row = np.bincount(P.indices[own], moves[own], n)  # (S,)
        self._row[pin] = 0.0
        moves[own] = 0.0
        moves[P.indices == pin] = 0.0
        A = (eye_array(n, format="csr") - csr_array((moves, P.indices, P.indptr), shape=P.shape)).tocsc()
        options = {"SymmetricMode": True}
        self._lu = splu(A, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    @cached_property
    def hitting_times(self) -> Floats:
        """Expected steps to the pin, 0 from itself, (S,)."""
        return self._solve(np.ones(self._row.size))

    def bias(self, F: NDArray[Any]) -> Floats:
        """Bias of f, (S,), or of each column, (S, K), zero at the pin."""
        u = self._solve(F)
        gain = (F[self._pin] + self._row @ u) / (1 + self._row @ self.hitting_times)
        return u - np.multiply.outer(self.hitting_times, gain)

    def stationary(self) -> Floats:
        """Stationary distribution, (S,)."""
        nu = np.maximum(self._lu.solve(self._row, trans="T"), 0.0)
        nu[self._pin] = 1.0
        return nu / nu.sum()

    def _solve(self, b: NDArray[Any]) -> Floats:
        b = b.astype(float)
        b[self._pin] = 0.0
        x: Floats = self._lu.solve(b)
        return x
