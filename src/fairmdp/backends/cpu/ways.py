"""Ways to solve a policy's chain on the CPU: damped sweeps, and multigrid where these take too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmdp.backends.factoring import Factoring
from fairmdp.chains.slow import SlowChain
from fairmdp.chains.sweeps import F4, F8, ChainRows, block_sweeps, stationary_sweeps, value_sweeps

if TYPE_CHECKING:
    from fairmdp.backends.cpu.backend import CpuBackend

__all__ = ["Factoring", "Slowly", "Sweeping"]

_RESTART = 1e-12  # of chains whose classes nobody has counted
_LONGEST = 64  # chains for which GMRES is asked alone, at most, before multigrid is tried again


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


class Slowly:
    """Multigrid, alone or with GMRES where that stalls: see `chains.slow`."""

    def __init__(self, backend: CpuBackend, *, alone: bool = False) -> None:
        self._backend, self._alone, self._pin = backend, alone, 0
        self._without, self._pause = 0, 1  # chains still to be solved without multigrid; after its next stall
        self._known: tuple[F8, SlowChain] | None = None

    def evaluate(self, chain: ChainRows, h: F8, e: F8, tol: float) -> tuple[F8, float]:
        """Relative values of the policy whose backup at h is off by e, and the span of what is left."""
        change, left = self._slow(chain).bias(e, tol)
        self._count()
        return (h + change, left) if np.isfinite(left) else (h, np.inf)

    def stationary(self, chain: ChainRows, nu: F8, tol: float) -> tuple[F8, float]:
        """Stationary distribution of a chain from a guess, and an estimate of its L1 error."""
        self._pin = int(np.argmax(nu))
        better, error = self._slow(chain).stationary(nu, tol)
        self._count()
        return (better, error) if np.isfinite(error) else (nu, np.inf)

    def biases(self, chain: ChainRows, F: F4, H: F4 | None, columns: int, tol: float) -> tuple[F4, float]:
        """Bias of every column of F, and the largest span of what is left."""
        found = [self._slow(chain).bias(f, tol) for f in F.T.astype(float)]
        return np.column_stack([h for h, _ in found]).astype(np.float32), max(left for _, left in found)

    def _slow(self, chain: ChainRows) -> SlowChain:
        if self._known is None or self._known[0] is not chain.vals:
            rested = self._without == 0
            self._without = max(self._without - 1, 0)
            self._known = (
                chain.vals,
                SlowChain(
                    chain,
                    self._backend.aggregates,
                    self._pin,
                    _RESTART,
                    multigrid=rested,
                    gmres=not self._alone,
                ),
            )
        return self._known[1]

    def _count(self) -> None:
        """Leave multigrid out for a while where it stalled, for longer each time."""
        assert self._known is not None
        slow = self._known[1]
        if self._alone or not slow.has_multigrid:
            return
        if slow.stalled:
            self._without, self._pause = self._pause, min(2 * self._pause, _LONGEST)
        else:
            self._pause = 1
