"""Ways to solve a policy's chain on the CPU: damped sweeps, and GMRES where these take too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmdp.backends.factoring import Factoring
from fairmdp.chains.krylov import Pinned
from fairmdp.chains.sweeps import F4, F8, ChainRows, block_sweeps, stationary_sweeps, value_sweeps

if TYPE_CHECKING:
    from fairmdp.backends.cpu.backend import CpuBackend

__all__ = ["Factoring", "Krylov", "Sweeping"]

_RESTART = 1e-12  # of chains whose classes nobody has counted


class Sweeping:
    """Sweeps over a chain, at most so many for each answer; they stop short on a chain that mixes slowly."""

    def __init__(self, backend: CpuBackend, damping: float = 0.0, most: int = 300) -> None:
        self._backend, self._damping, self._most = backend, damping, most

    def evaluate(self, chain: ChainRows, h: F8, e: F8, tol: float) -> tuple[F8, float]:
        """Relative values of the policy whose backup at h is off by e, and the span of what is left."""
        h, e = h.copy(), e.copy()
        span, count = value_sweeps(*chain, h, e, np.empty_like(h), self._damping, tol, self._most)
        self._backend.sweeps += count
        return h, span

    def stationary(self, chain: ChainRows, nu: F8, tol: float) -> tuple[F8, float]:
        """Stationary distribution of a chain from a guess, and an estimate of its L1 error."""
        nu = nu.copy()
        error, count = stationary_sweeps(*chain, nu, np.empty_like(nu), self._damping, tol, self._most)
        self._backend.sweeps += count
        return nu, error

    def biases(self, chain: ChainRows, F: F4, H: F4 | None, columns: int, tol: float) -> tuple[F4, float]:
        """Bias of every column of F from a guess, and the largest span of what is left."""
        H = F.copy() if H is None else H.copy()
        span, count = block_sweeps(*chain, F, H, np.empty_like(F), self._damping, tol, self._most)
        self._backend.sweeps += count * columns
        return H, span


class Krylov:
    """GMRES with incomplete factors, see `chains.krylov`."""

    def __init__(self) -> None:
        self._pin = 0
        self._known: tuple[F8, Pinned] | None = None

    def evaluate(self, chain: ChainRows, h: F8, e: F8, tol: float) -> tuple[F8, float]:
        """Relative values of the policy whose backup at h is off by e, and the span of what is left."""
        change, _, left = self._pinned(chain).bias(e, tol)
        return (h + change, left) if np.isfinite(left) else (h, np.inf)

    def stationary(self, chain: ChainRows, nu: F8, tol: float) -> tuple[F8, float]:
        """Stationary distribution of a chain from a guess, and an estimate of its L1 error."""
        self._pin = int(np.argmax(nu))
        better, error = self._pinned(chain).stationary(nu, tol)
        return (better, error) if np.isfinite(error) else (nu, np.inf)

    def biases(self, chain: ChainRows, F: F4, H: F4 | None, columns: int, tol: float) -> tuple[F4, float]:
        """Bias of every column of F, and the largest span of what is left."""
        found = [self._pinned(chain).bias(f, tol) for f in F.T.astype(float)]
        return np.column_stack([h for h, _, _ in found]).astype(np.float32), max(left for _, _, left in found)

    def _pinned(self, chain: ChainRows) -> Pinned:
        if self._known is None or self._known[0] is not chain.vals:
            self._known = chain.vals, Pinned(chain.matrix(), self._pin, _RESTART)
        return self._known[1]
