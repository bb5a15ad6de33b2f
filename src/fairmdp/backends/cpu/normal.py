# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""The normal equations of the linear program over occupancies, one element for each state.

With ``B[i] = e_s - P[i]`` for each pair i of state s and weights d of the pairs, the flow rows give
``N = B.T D B``, a matrix over the states whose entries tie states that some state leads to in one step. A
quota on a state's own pairs, with coefficients w and slack T, is eliminated within that state ::

    W = D - D w w.T D / (w.T D w + T)          N = B.T W B
"""

import numpy as np
from numba import njit

from fairmdp.chains.sweeps import F8, I4, I8


@njit(cache=True, nogil=True)
def cliques(ptr: I8, row: I4, col: I4, n_states: int, local: I4) -> tuple[I8, I8]:
    """States that each state's element is over, itself first, and where each transition stands in it."""
    starts = np.zeros(n_states + 1, np.int64)
    place = np.full(n_states, -1, np.int64)
    nodes = np.empty(col.size + n_states, np.int64)
    at = 0
    for s in range(n_states):
        first = at
        nodes[at] = s
        place[s] = 0
        at += 1
        for k in range(row[ptr[s]], row[ptr[s + 1]]):
            t = col[k]
            if place[t] < 0:
                place[t] = at - first
                nodes[at] = t
                at += 1
            local[k] = place[t]
        for k in range(first, at):
            place[nodes[k]] = -1
        starts[s + 1] = at
    return starts, nodes[:at].copy()


@njit(cache=True, nogil=True)
def elements(
    ptr: I8, row: I4, val: F8, local: I4, starts: I8, d: F8, w: F8, slack: F8, most: int, out: F8
) -> None:
    """Out <- the element B_s.T W_s B_s of each state in turn; `most` pairs of a state at most."""
    widest = 0
    for s in range(starts.size - 1):
        widest = max(widest, starts[s + 1] - starts[s])
    B, WB = np.empty((most, widest)), np.empty((most, widest))
    at = 0
    for s in range(starts.size - 1):
        size, pairs, first = starts[s + 1] - starts[s], ptr[s + 1] - ptr[s], ptr[s]
        total, bound = slack[s], False
        for i in range(pairs):
            B[i, :size] = 0.0
            B[i, 0] = 1.0
            for k in range(row[first + i], row[first + i + 1]):
                B[i, local[k]] -= val[k]
            total += d[first + i] * w[first + i] ** 2
            bound = bound or w[first + i] != 0.0
        for i in range(pairs):
            own = d[first + i]
            if bound:  # the diagonal of W without a difference of large numbers
                others = slack[s]
                for j in range(pairs):
                    if j != i:
                        others += d[first + j] * w[first + j] ** 2
                own *= others / total
            WB[i, :size] = own * B[i, :size]
            if bound:
                for j in range(pairs):
                    if j != i:
                        part = d[first + i] * w[first + i] * (d[first + j] * w[first + j] / total)
                        for c in range(size):
                            WB[i, c] -= part * B[j, c]
        for a in range(size):
            for b in range(size):
                out[at + a * size + b] = 0.0
        for i in range(pairs):
            for a in range(size):
                if B[i, a] != 0.0:
                    for b in range(size):
                        out[at + a * size + b] += B[i, a] * WB[i, b]
        at += size * size
