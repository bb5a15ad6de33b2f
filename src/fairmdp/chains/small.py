# mypy: disable-error-code="untyped-decorator,no-any-return"
"""Chains of a few dozen states, of which there may be millions: one kernel for the long run of one of them.

States are eliminated from the last to the second without subtractions (Grassmann, Taksar, Heyman 1985), the
reference state being the first. With ``A`` the chain censored on the states that are left, ``s_k`` what leads
out of k and ``f, t`` reward and time until the next visit to a state that is left ::

    A_ij += A_ik A_kj / s_k,    f_i += A_ik f_k / s_k,    t_i += A_ik t_k / s_k
    gain = f_0 / t_0,           h_k = (f_k - gain t_k + sum_{j<k} A_kj h_j) / s_k,    h_0 = 0

A chance of `LEAK` to go to the reference state keeps ``h`` finite where it cannot be reached otherwise. What
is proved with such an ``h`` does not depend on the leak.

The loops of other files compile this into themselves, and numba's disk cache does not notice a change here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}

LEAK = 1e-10
_RARE = 1e-4  # a reference state that is visited less is given up for a better one


@njit(**OPTIONS)
def long_run_of(
    pair_ptr: NDArray[Any],  # (S + 1,)
    row_ptr: NDArray[Any],  # (SA + 1,)
    cols: NDArray[Any],  # (n,)
    P: NDArray[Any],  # (n,)
    f: NDArray[Any],  # (SA,)
    policy: NDArray[Any],  # (S,), number of the action within its state
    ref: int,
    A: NDArray[Any],  # (S, S), scratch
    work: NDArray[Any],  # (3, S), scratch
    h: NDArray[Any],  # (S,), out
    nu: NDArray[Any],  # (S,), out
) -> float:
    """Gain of a policy; relative values (0 at ref) and the stationary distribution in h and nu."""
    n = h.size
    reward, time, out = work[0], work[1], work[2]
    A[:, :] = 0.0
    for s in range(n):
        i = 0 if s == ref else (ref if s == 0 else s)
        pair = pair_ptr[s] + policy[s]
        reward[i], time[i] = f[pair], 1.0
        for e in range(row_ptr[pair], row_ptr[pair + 1]):
            t = cols[e]
            A[i, 0 if t == ref else (ref if t == 0 else t)] += P[e]
        A[i, 0] += LEAK
    for k in range(n - 1, 0, -1):
        leaving = 0.0
        for j in range(k):
            leaving += A[k, j]
        out[k] = leaving
        for i in range(k):
            if A[i, k] != 0.0:
                a = A[i, k] / leaving
                A[i, k] = a
                reward[i] += a * reward[k]
                time[i] += a * time[k]
                for j in range(k):
                    A[i, j] += a * A[k, j]
    gain = reward[0] / time[0]
    h[0], nu[0] = 0.0, 1.0
    total = 1.0
    for k in range(1, n):
        ahead, into = reward[k] - gain * time[k], 0.0
        for j in range(k):
            ahead += A[k, j] * h[j]
            into += nu[j] * A[j, k]
        h[k], nu[k] = ahead / out[k], into
        total += into
    for k in range(n):
        nu[k] /= total
    h[0], h[ref] = h[ref], h[0]
    nu[0], nu[ref] = nu[ref], nu[0]
    return gain


@njit(**OPTIONS)
def reference_of(nu: NDArray[Any], ref: int) -> int:
    """State to refer to: the one in use unless it is rarely visited."""
    best = int(np.argmax(nu))
    return best if nu[ref] < _RARE * nu[best] else ref
