"""Chains factored on the host, for any backend: small chains that mix slowly."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from fairmdp.backends.base import Block, Rows, Vector
from fairmdp.chains.factors import Factors
from fairmdp.chains.sweeps import ChainRows


class Carrier(Protocol):
    """What brings vectors to the host and back."""

    def put(self, vector: Any) -> Vector: ...

    def get(self, vector: Vector) -> Any: ...


class Factoring:
    """A way of solving chains: factors of the chain at hand, exact but for rounding."""

    def __init__(self, carrier: Carrier, restart: float = 1e-12) -> None:
        self._carrier, self._restart, self._pin = carrier, restart, 0
        self._known: tuple[Any, int, Factors] | None = None  # the chain, its pin and its factors

    def evaluate(self, chain: Rows, h: Vector, e: Vector, tol: float) -> tuple[Vector, float]:
        """Relative values of the policy whose backup at h is off by e."""
        bias = self._factors(chain).bias(self._carrier.get(e)[:, None])[:, 0]
        return h + self._carrier.put(bias), 0.0

    def stationary(self, chain: Rows, nu: Vector, tol: float) -> tuple[Vector, float]:
        """Stationary distribution of a chain; its heaviest state is where biases are zero from then on."""
        nu = self._factors(chain).stationary()
        self._pin = int(np.argmax(nu))
        return self._carrier.put(nu), 0.0

    def biases(self, chain: Rows, F: Block, H: Block | None, columns: int, tol: float) -> tuple[Block, float]:
        """Bias of every column of F."""
        bias = self._factors(chain).bias(self._carrier.get(F))
        return self._carrier.put(bias.astype(F.dtype)), 0.0

    def _factors(self, chain: Rows) -> Factors:
        if self._known is None or self._known[0] is not chain.vals or self._known[1] != self._pin:
            host = ChainRows(*(self._carrier.get(array) for array in chain)).matrix()
            self._known = chain.vals, self._pin, Factors(host, self._pin, self._restart)
        return self._known[2]
