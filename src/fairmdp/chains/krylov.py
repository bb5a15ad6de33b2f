# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""Chains that mix slowly, by GMRES with an incomplete factorisation.

Let ``A`` be ``I - P`` with the column of one state, the pin, replaced by ones. Then ::

    A x = f        x is the bias of f, up to a constant, and x[pin] its gain
    nu A = e_pin   nu is the stationary distribution

Sweeps take as long as the chain takes to mix, and an exact factorisation of a large lattice fills up. The
incomplete one has the pattern of A: it costs no more than a sweep, and some dozen steps of GMRES do the rest.
"""

from collections.abc import Callable

import numpy as np
from numba import njit
from scipy.sparse import csr_array, eye_array, hstack
from scipy.sparse.linalg import LinearOperator, gmres

from fairmdp.chains.structure import closed_classes
from fairmdp.chains.sweeps import F8, I4, I8

_RELAX = 0.9  # part of the dropped fill that is moved to the diagonal, which keeps smooth errors small
_STEPS, _ROUNDS = 60, 3  # of GMRES before it starts over, and how often it may
_PART = 1e-3  # what one solve leaves of a distribution's residual ...
_TRUST = 0.1  # ... and what the next one may find, at most, in units of the last correction
_CORRECTIONS = 6
_TINY = 1e-14  # pivot that is nothing but rounding


@njit(cache=True, nogil=True)
def incomplete_factors(starts: I4 | I8, cols: I4, diagonal: I8, vals: F8, relax: float) -> None:
    """Vals <- factors L and U of a CSR matrix with sorted rows, in its own pattern.

    Fill outside of the pattern is dropped; a part of it goes to the diagonal, but for the last row.
    """
    n = starts.size - 1
    place = np.full(n, -1, np.int64)  # of each column in the row at hand
    for i in range(n):
        moved = relax if i < n - 1 else 0.0
        for k in range(starts[i], starts[i + 1]):
            place[cols[k]] = k
        for k in range(starts[i], diagonal[i]):
            j = cols[k]
            vals[k] /= vals[diagonal[j]]
            for m in range(diagonal[j] + 1, starts[j + 1]):
                at = place[cols[m]]
                if at >= 0:
                    vals[at] -= vals[k] * vals[m]
                else:
                    vals[diagonal[i]] -= moved * vals[k] * vals[m]
        for k in range(starts[i], starts[i + 1]):
            place[cols[k]] = -1
        if abs(vals[diagonal[i]]) < _TINY:  # the last row of a matrix whose rows add up to 0
            vals[diagonal[i]] = 1.0


@njit(cache=True, nogil=True)
def sparse_substitute(starts: I4 | I8, cols: I4, diagonal: I8, vals: F8, x: F8) -> None:
    """Replace x by U^-1 L^-1 x."""
    n = x.size
    for i in range(n):
        for k in range(starts[i], diagonal[i]):
            x[i] -= vals[k] * x[cols[k]]
    for i in range(n - 1, -1, -1):
        for k in range(diagonal[i] + 1, starts[i + 1]):
            x[i] -= vals[k] * x[cols[k]]
        x[i] /= vals[diagonal[i]]


@njit(cache=True, nogil=True)
def sparse_substitute_transposed(starts: I4 | I8, cols: I4, diagonal: I8, vals: F8, x: F8) -> None:
    """Replace x by L^-T U^-T x."""
    n = x.size
    for i in range(n):
        x[i] /= vals[diagonal[i]]
        for k in range(diagonal[i] + 1, starts[i + 1]):
            x[cols[k]] -= vals[k] * x[i]
    for i in range(n - 1, -1, -1):
        for k in range(starts[i], diagonal[i]):
            x[cols[k]] -= vals[k] * x[i]


class Pinned:
    """The matrix A of a chain, its incomplete factors, and what they solve.

    The chain is ``(1 - restart) P + restart e_pin``, which has one class whatever P is; the stationary
    distribution is that of P itself where P has one class.
    """

    def __init__(self, P: csr_array, pin: int, restart: float = 0.0, order: I8 | None = None) -> None:
        given = np.arange(P.shape[0]) if order is None else order
        self._order = np.append(given[given != pin], pin)
        self._P, self._restart = P, restart
        self._A = A = self._matrix(restart)
        rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        diagonal = np.flatnonzero(A.indices == rows)
        self._factors = A.indptr, A.indices, diagonal, A.data.copy()
        incomplete_factors(*self._factors, _RELAX)

    def bias(self, f: F8, tol: float) -> tuple[F8, float, float]:
        """Bias of f, zero at the pin, its gain, and the span of what is left of the equations."""
        f = f[self._order]
        x = self._solve(self._A, sparse_substitute, f, tol / 2)
        h = np.empty_like(f)
        h[self._order] = np.append(x[:-1], 0.0)
        return h, float(x[-1]), float(np.ptp(f - self._A @ x))

    def stationary(self, nu: F8, tol: float) -> tuple[F8, float]:
        """Stationary distribution from a guess, and an estimate of its L1 error."""
        one_class = self._restart > 0 and len(closed_classes(self._P)) == 1
        AT = (self._matrix(0.0) if one_class else self._A).T.tocsr()
        target = np.zeros_like(nu)
        target[-1] = 1.0
        y, error = nu[self._order], np.inf
        for _ in range(_CORRECTIONS):
            residual = target - AT @ y
            size = float(np.linalg.norm(residual))
            step = self._solve(AT, sparse_substitute_transposed, residual, _PART * size)
            y = y + step
            error = _TRUST * float(np.abs(step).sum())
            if not error > tol:
                break
        out = np.empty_like(nu)
        out[self._order] = np.maximum(y, 0.0)
        return out / out.sum(), error

    def _matrix(self, restart: float) -> csr_array:
        n = self._P.shape[0]
        moves = self._P[self._order][:, self._order[:-1]]
        A = hstack([eye_array(n, n - 1) - (1 - restart) * moves, np.ones((n, 1))], format="csr")
        A.sum_duplicates()
        return A

    def _solve(self, A: csr_array, substitute: Callable[..., None], b: F8, tol: float) -> F8:
        def precondition(x: F8) -> F8:
            x = x.copy()
            substitute(*self._factors, x)
            return x

        M = LinearOperator(A.shape, precondition, dtype=np.float64)
        x, _ = gmres(A, b, M=M, rtol=0.0, atol=tol, restart=_STEPS, maxiter=_ROUNDS)
        return x
