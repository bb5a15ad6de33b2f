"""A chain that mixes slowly: multigrid, and GMRES where that stalls."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from fairmdp.chains.aggregates import Aggregates, aggregated
from fairmdp.chains.krylov import Pinned
from fairmdp.chains.multigrid import Multigrid
from fairmdp.chains.sweeps import F8, ChainRows

_CLOSE = 1e-11  # error of a distribution that is good enough whatever was asked


class SlowChain:
    """Bias and stationary distribution of a chain whose states have been grouped.

    Either may be left out. Multigrid works with the chain as it is, whatever its classes; GMRES solves
    ``(1 - restart) P + restart e_pin``, which has one class if the restart is positive.

    Attributes
    ----------
    stalled
        Whether multigrid fell short of what was asked last.
    """

    def __init__(
        self,
        rows: ChainRows,
        aggregates: Aggregates,
        pin: int,
        restart: float = 0.0,
        *,
        multigrid: bool = True,
        gmres: bool = True,
    ) -> None:
        self._rows, self._pin, self._restart, self._gmres = rows, pin, restart, gmres
        self._order = aggregates.order
        grouped = multigrid and aggregates.sizes.size > 1
        self._multigrid = Multigrid(rows, aggregates, restart) if grouped else None
        self.stalled = False

    @classmethod
    def of(cls, P: csr_array, pin: int) -> SlowChain:
        """Return a chain that is grouped by its own moves."""
        rows = ChainRows(P.indptr.astype(np.int64), P.indices.astype(np.int32), P.data.copy())
        return cls(rows, aggregated(rows), pin)

    @property
    def has_multigrid(self) -> bool:
        """Whether multigrid is asked first."""
        return self._multigrid is not None

    def bias(self, f: F8, tol: float) -> tuple[F8, float]:
        """Bias of f, up to a constant, and the span of what is left of the equations."""
        if self._multigrid is not None:
            h, left = self._multigrid.bias(f, tol)
            self.stalled = not left <= tol
            if not (self._gmres and self.stalled):
                return h, left
        elif not self._gmres:
            return np.zeros_like(f), np.inf
        h, _, left = self._pinned.bias(f, tol)
        return h, left

    def stationary(self, nu: F8, tol: float) -> tuple[F8, float]:
        """Stationary distribution from a guess, and an estimate of its L1 error."""
        if self._multigrid is not None:
            found, error = self._multigrid.stationary(nu, tol)
            self.stalled = not error <= max(tol, _CLOSE)
            if not (self._gmres and self.stalled):
                return found, error
        elif not self._gmres:
            return nu, np.inf
        return self._pinned.stationary(nu, tol)

    @cached_property
    def _pinned(self) -> Pinned:
        return Pinned(self._rows.matrix(), self._pin, self._restart, self._order)
