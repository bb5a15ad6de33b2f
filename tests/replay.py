"""Algorithm 1 from its definition: given draws, logarithms throughout, O(pairs) exponentials a step.

Slow on purpose, and without a line of the kernels that are tested against it.
"""

import numpy as np
from numba import njit


@njit(cache=True)
def replay(draws, r, s_of, unit_of, rho, eta_x, eta_lam, lam_max, logx, lam, x_sum, lam_sum):
    """Steps with recorded draws ``(j, s'', i, s')``, the x-sampled query first; log x, lam, sums in place."""
    L, U = r.size, rho.size
    top, Y, log_y = np.empty(U), np.empty(U), np.empty(U)
    for t in range(draws.shape[0]):
        j, s_next2, i, s_next = draws[t, 0], draws[t, 1], draws[t, 2], draws[t, 3]
        logx[i] -= eta_x * L * (lam[s_next] - lam[s_of[i]] - r[i])
        top[:] = -np.inf
        for p in range(L):
            top[unit_of[p]] = max(top[unit_of[p]], logx[p])
        Y[:] = 0.0
        for p in range(L):
            if top[unit_of[p]] > -np.inf:
                Y[unit_of[p]] += np.exp(logx[p] - top[unit_of[p]])
        shift = -np.inf
        for u in range(U):
            log_y[u] = top[u] + np.log(Y[u]) if top[u] > -np.inf else -np.inf
            shift = max(shift, log_y[u])
        for u in range(U):
            Y[u] = np.exp(log_y[u] - shift)
        c = water_level(Y, rho)
        for u in range(U):  # log_y becomes the log multiplier
            log_y[u] = np.log(c) - shift if Y[u] * c >= rho[u] else np.log(rho[u]) - log_y[u]
        for p in range(L):
            logx[p] += log_y[unit_of[p]]
            x_sum[p] += np.exp(logx[p])
        if s_of[j] != s_next2:
            lam[s_of[j]] = max(lam[s_of[j]] - eta_lam, -lam_max)
            lam[s_next2] = min(lam[s_next2] + eta_lam, lam_max)
        for s in range(lam.size):
            lam_sum[s] += lam[s]


@njit(cache=True)
def water_level(Y, rho):
    """The c with ``sum max(c Y, rho) == 1``: what is pinned lowers c, and a lower c pins more."""
    c = 1.0 / Y.sum()
    for _ in range(Y.size):
        loose, pinned = 0.0, 0.0
        for u in range(Y.size):
            if Y[u] * c < rho[u]:
                pinned += rho[u]
            else:
                loose += Y[u]
        lower = max(1.0 - pinned, 0.0) / loose if loose > 0.0 else 0.0
        if pinned == 0.0 or lower >= c:
            break
        c = lower
    return c
