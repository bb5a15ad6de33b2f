# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""Sweeps over a Markov chain on one CPU thread: bias, stationary distribution, and blocks of biases.

Sweeps are damped, ``P <- (1 - damping) P + damping I``, so that
periodic chains come to rest too.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fairmdp.chains.prefetch import AHEAD, NEAR, prefetch

F8 = NDArray[np.float64]
F4 = NDArray[np.float32]
I8 = NDArray[np.int64]
I4 = NDArray[np.int32]


class ChainRows(NamedTuple):
    """A transition matrix as CSR arrays, on any device."""

    starts: I8  # (S+1,)
    cols: I4
    vals: F8

    def matrix(self) -> csr_array:
        """The same arrays as a scipy matrix, where they are on the host."""
        n = self.starts.size - 1
        return csr_array((self.vals, self.cols, self.starts), shape=(n, n))


@njit(cache=True, nogil=True)
def value_sweeps(
    starts: I8, cols: I4, vals: F8, h: F8, e: F8, work: F8, damping: float, tol: float, most: int
) -> tuple[float, int]:
    """H += sum_j P^j e until span(P^j e) <= tol: solves (I - P) dh = e up to a constant; span, sweeps."""
    n, last = h.size, cols.size - 1
    far = n > NEAR
    for s in range(n):
        h[s] += (1 - damping) * e[s]
    span = np.inf
    for sweep in range(1, most + 1):
        low, high = np.inf, -np.inf
        for s in range(n):
            acc = 0.0
            for k in range(starts[s], starts[s + 1]):
                if far:
                    prefetch(e, cols[min(k + AHEAD, last)])
                acc += vals[k] * e[cols[k]]
            acc += damping * (e[s] - acc)
            work[s] = acc
            low = min(low, acc)
            high = max(high, acc)
        centre = (low + high) / 2
        for s in range(n):
            e[s] = work[s] - centre
            h[s] += (1 - damping) * e[s]
        span = high - low
        if span <= tol:
            return span, sweep
    return span, most


@njit(cache=True, nogil=True)
def stationary_sweeps(
    starts: I8, cols: I4, vals: F8, nu: F8, work: F8, damping: float, tol: float, most: int
) -> tuple[float, int]:
    """Nu <- nu P until it is within tol of rest in L1, at the rate it converges; that distance, sweeps."""
    n, last = nu.size, cols.size - 1
    far = n > NEAR
    before, rate, error = np.inf, 0.0, np.inf
    for sweep in range(1, most + 1):
        for s in range(n):
            work[s] = damping * nu[s]
        for s in range(n):
            moving = (1 - damping) * nu[s]
            for k in range(starts[s], starts[s + 1]):
                if far:
                    prefetch(work, cols[min(k + AHEAD, last)])
                work[cols[k]] += vals[k] * moving
        change, total = 0.0, 0.0
        for s in range(n):
            change += abs(work[s] - nu[s])
            total += work[s]
        for s in range(n):
            nu[s] = work[s] / total
        rate = max(change / before, 0.95 * rate)  # complex eigenvalues make single ratios oscillate
        before = change
        error = change / (1 - rate) if rate < 1 else np.inf
        if error <= tol or change <= 1e-15:
            return error, sweep
    return error, most


@njit(cache=True, nogil=True)
def block_sweeps(
    starts: I8, cols: I4, vals: F8, F: F4, H: F4, work: F4, damping: float, tol: float, most: int
) -> tuple[float, int]:
    """H <- F + P H column by column until every residual has span <= tol; largest span, sweeps."""
    n, K = H.shape
    last, far = cols.size - 1, H.size > NEAR
    acc = np.empty(K)
    low, high = np.empty(K), np.empty(K)
    source, target = H, work
    widest, sweep = np.inf, 0
    while sweep < most and widest > tol:
        low[:], high[:] = np.inf, -np.inf
        for s in range(n):
            for m in range(K):
                acc[m] = F[s, m]
            for k in range(starts[s], starts[s + 1]):
                if far:
                    prefetch(source, cols[min(k + AHEAD, last)])
                weight = vals[k]
                t = cols[k]
                for m in range(K):
                    acc[m] += weight * source[t, m]
            for m in range(K):
                error = acc[m] - source[s, m]
                low[m] = min(low[m], error)
                high[m] = max(high[m], error)
                target[s, m] = acc[m] - damping * error
        source, target = target, source
        widest = np.max(high - low)
        sweep += 1
    if sweep % 2:
        H[:] = work
    return widest, sweep
