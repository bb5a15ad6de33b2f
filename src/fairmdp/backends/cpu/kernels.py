# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""Loops over an MDP, on one CPU thread.

A `Model` is plain arrays. The pairs of state ``s`` are ``ptr[s] .. ptr[s+1]-1``; pair ``i`` moves to
``col[e]`` with probability ``val[e]`` for ``e`` in ``row[i] .. row[i+1]-1``, and counts for the quotas
``gcol[j]`` with weight ``gval[j]``, ``j`` in ``gptr[i] .. gptr[i+1]-1``.
"""

import numpy as np
from numba import njit

from fairmdp.chains.prefetch import AHEAD, NEAR, prefetch
from fairmdp.chains.sweeps import F4, F8, I4, I8, ChainRows

# Pairs of states, transitions of pairs, quotas of pairs, rewards: a plain tuple, since a kernel of a
# microsecond would spend as long again on telling the type of a named one.
Model = tuple[I8, I4, I4, F8, I4, I4, F8, F8]


@njit(cache=True, nogil=True)
def soft_backup(
    model: Model, mu: F8, h: F8, tau: float, rare: float, pi: F8, e: F8
) -> tuple[float, float, float]:
    """Pi = softmax(q / tau), q = r + G.T mu + P h; e = soft maximum of q - h; min e, max e, max q - h."""
    ptr, row, col, val, gptr, gcol, gval, r = model
    low, high, top = np.inf, -np.inf, -np.inf
    last, far = col.size - 1, h.size > NEAR
    for s in range(h.size):
        best = -np.inf
        for i in range(ptr[s], ptr[s + 1]):
            q = r[i]
            for j in range(gptr[i], gptr[i + 1]):
                q += gval[j] * mu[gcol[j]]
            for k in range(row[i], row[i + 1]):
                if far:
                    prefetch(h, col[min(k + AHEAD, last)])
                q += val[k] * h[col[k]]
            pi[i] = q
            best = max(best, q)
        total = 0.0
        for i in range(ptr[s], ptr[s + 1]):
            weight = np.exp((pi[i] - best) / tau)
            if weight < rare:
                weight = 0.0
            pi[i] = weight
            total += weight
        for i in range(ptr[s], ptr[s + 1]):
            pi[i] /= total
        e[s] = best + tau * np.log(total) - h[s]
        low = min(low, e[s])
        high = max(high, e[s])
        top = max(top, best - h[s])
    return low, high, top


@njit(cache=True, nogil=True)
def greedy_backup(model: Model, mu: F8, h: F8, tie: float, choice: I4, e: F8) -> tuple[float, float]:
    """Choice = argmax q, the old one where it is within tie of it; e = max q - h; min e, max e."""
    ptr, row, col, val, gptr, gcol, gval, r = model
    low, high = np.inf, -np.inf
    last, far = col.size - 1, h.size > NEAR
    for s in range(h.size):
        best, kept, arg = -np.inf, -np.inf, -1
        for i in range(ptr[s], ptr[s + 1]):
            q = r[i]
            for j in range(gptr[i], gptr[i + 1]):
                q += gval[j] * mu[gcol[j]]
            for k in range(row[i], row[i + 1]):
                if far:
                    prefetch(h, col[min(k + AHEAD, last)])
                q += val[k] * h[col[k]]
            if q > best:
                best, arg = q, i
            if i == choice[s]:
                kept = q
        if kept < best - tie:
            choice[s] = arg
        e[s] = best - h[s]
        low = min(low, e[s])
        high = max(high, e[s])
    return low, high


def chain(model: Model, pi: F8) -> ChainRows:
    """Chain of a policy: the rows of the actions played, laid end to end."""
    return ChainRows(*_rows_played(model, pi))


@njit(cache=True, nogil=True)
def _rows_played(model: Model, pi: F8) -> tuple[I8, I4, F8]:
    ptr, row, col, val, _, _, _, _ = model
    starts = np.empty(ptr.size, np.int64)
    starts[0] = 0
    for s in range(ptr.size - 1):
        count = 0
        for i in range(ptr[s], ptr[s + 1]):
            if pi[i] > 0:
                count += row[i + 1] - row[i]
        starts[s + 1] = starts[s] + count
    cols, vals = np.empty(starts[-1], np.int32), np.empty(starts[-1])
    at = 0
    for i in range(ptr[-1]):
        if pi[i] > 0:
            for k in range(row[i], row[i + 1]):
                cols[at] = col[k]
                vals[at] = pi[i] * val[k]
                at += 1
    return starts, cols, vals


@njit(cache=True, nogil=True)
def quota_block(model: Model, pi: F8, shares: F8, F: F4) -> None:
    """F[s, k] = sum_a pi(a|s) G_k(s, a) - shares[k]."""
    ptr, _, _, _, gptr, gcol, gval, _ = model
    for s in range(F.shape[0]):
        for k in range(F.shape[1]):
            F[s, k] = -shares[k]
        for i in range(ptr[s], ptr[s + 1]):
            if pi[i] > 0:
                for j in range(gptr[i], gptr[i + 1]):
                    F[s, gcol[j]] += pi[i] * gval[j]


@njit(cache=True, nogil=True)
def totals(model: Model, pi: F8, nu: F8, e: F8, shares: F8) -> tuple[float, float]:
    """Shares = G x with x = pi nu; r @ x and nu @ e."""
    ptr, _, _, _, gptr, gcol, gval, r = model
    shares[:] = 0.0
    gain, mean = 0.0, 0.0
    for s in range(nu.size):
        mean += nu[s] * e[s]
        for i in range(ptr[s], ptr[s + 1]):
            if pi[i] > 0:
                x = pi[i] * nu[s]
                gain += r[i] * x
                for j in range(gptr[i], gptr[i + 1]):
                    shares[gcol[j]] += gval[j] * x
    return gain, mean


@njit(cache=True, nogil=True)
def curvature(model: Model, pi: F8, nu: F8, H: F4, C: F8) -> None:
    """C[k, l] = sum_s nu_s Cov_{a ~ pi(s)}(q_k, q_l) with q_k(s, a) = G_k(s, a) + P_sa H_k."""
    ptr, row, col, val, gptr, gcol, gval, _ = model
    K = H.shape[1]
    last, far = col.size - 1, H.size > NEAR
    q, base, mean = np.empty(K), np.empty(K), np.empty(K)
    square = np.empty((K, K))
    C[:] = 0.0
    for s in range(nu.size):
        played = 0
        for i in range(ptr[s], ptr[s + 1]):
            if pi[i] > 0:
                played += 1
        if played < 2:
            continue
        mean[:] = 0.0
        square[:] = 0.0
        first = True
        for i in range(ptr[s], ptr[s + 1]):
            if pi[i] > 0:
                q[:] = 0.0
                for j in range(gptr[i], gptr[i + 1]):
                    q[gcol[j]] += gval[j]
                for k in range(row[i], row[i + 1]):
                    if far:
                        prefetch(H, col[min(k + AHEAD, last)])
                    for m in range(K):
                        q[m] += val[k] * H[col[k], m]
                if (
                    first
                ):  # deviations from the first action's values, which keeps the digits of a small spread
                    base[:] = q
                    first = False
                for m in range(K):
                    q[m] -= base[m]
                for m in range(K):
                    mean[m] += pi[i] * q[m]
                    for n in range(m + 1):
                        square[m, n] += pi[i] * q[m] * q[n]
        for m in range(K):
            for n in range(m + 1):
                C[m, n] += nu[s] * (square[m, n] - mean[m] * mean[n])
    for m in range(K):
        for n in range(m):
            C[n, m] = C[m, n]


@njit(cache=True, nogil=True)
def shift(h: F8, H: F4, d: F8, out: F8) -> None:
    """Out = h + H d: the relative values at prices mu + d, to first order."""
    for s in range(h.size):
        acc = h[s]
        for k in range(d.size):
            acc += H[s, k] * d[k]
        out[s] = acc


@njit(cache=True, nogil=True)
def price_rounds(A: F8, g: F8, mu: F8, low: F8, high: F8, radius: float, d: F8, most: int) -> bool:
    """Move each d_k to the minimum of d'Ad/2 + g'd - sum_k b_k (mu + d)_k over |d_k| <= radius, in turn.

    b is low above 0 and high below it. Whether a round has moved next to nothing.
    """
    K = mu.size
    slope = g.copy()  # g + A d
    for k in range(K):
        if d[k] != 0.0:
            for m in range(K):
                slope[m] += A[m, k] * d[k]
    for _ in range(most):
        largest, moved = 0.0, 0.0
        for k in range(K):
            c = slope[k] - A[k, k] * (mu[k] + d[k])  # the slope in t = mu + d is c + A_kk t - b(t)
            t = 0.0
            if low[k] > c:
                t = (low[k] - c) / A[k, k]
            elif high[k] < c:
                t = (high[k] - c) / A[k, k]
            to = min(max(t - mu[k], -radius), radius)
            change = to - d[k]
            if change != 0.0:
                d[k] = to  # so that mu + d is 0 to the last digit where t is
                for m in range(K):
                    slope[m] += A[k, m] * change
            moved = max(moved, abs(change))
            largest = max(largest, abs(d[k]))
        if moved <= 1e-10 * largest:
            return True
    return False
