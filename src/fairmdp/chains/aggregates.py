# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""Groups of states among which a model moves most, level upon level, and an order that keeps moves short.

Both are found once for all policies of a model, from the chain of one that tries every action. States are
matched in pairs by the heaviest ``p_ij + p_ji``, pairs with pairs, and these once more: about eight states
to a group.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from fairmdp.chains.sweeps import F8, I4, I8, ChainRows

COARSEST = 64
"""States of a level that is solved by a dense matrix."""

_PASSES = 3  # of matching, from one level to the next
_LITTLE = 0.8  # part of the states that a level keeps where matching has come to its end
_DEAR = 2.0  # factors of a level beside those of the states beyond which it does not pay
_NEARER = 0.5  # part of the mean distance of neighbours that another order must leave


class Aggregates(NamedTuple):
    """An order of the states, and the groups of every level laid end to end."""

    order: I8  # (S,), states in the order in which they are solved
    sizes: I8  # (L,), states of each level
    group: I4  # of each state of each level but the last, in this order, the number of its group


def aggregated(chain: ChainRows) -> Aggregates:
    """Order and groups by a chain that knows all moves of its model."""
    P = chain.matrix()
    graph = csr_array(P + P.T)
    order = near_order(graph)
    if (np.diff(order) != 1).any():
        graph = csr_array(graph[order][:, order])
    fine, sizes, groups = graph.nnz**2 / graph.shape[0], [graph.shape[0]], []
    while sizes[-1] > COARSEST:
        group = np.arange(sizes[-1], dtype=np.int32)
        for _ in range(_PASSES):
            pair, count = matched(graph.indptr.astype(np.int32), graph.indices.astype(np.int32), graph.data)
            graph, group = _merged(graph, pair, count), pair[group]
        dear = graph.nnz**2 / graph.shape[0]  # what factors take, if rows are about alike
        if graph.shape[0] > _LITTLE * sizes[-1] or dear > _DEAR * fine:
            break
        sizes.append(graph.shape[0])
        groups.append(group)
    return Aggregates(order, np.array(sizes), np.concatenate([*groups, np.zeros(0, np.int32)]))


def near_order(graph: csr_array) -> I8:
    """The order of the states as it is, or Cuthill and McKee's where that brings neighbours nearer."""
    n = graph.shape[0]
    given = np.arange(n)
    other = reverse_cuthill_mckee(graph, symmetric_mode=True)
    rank = np.empty(n, np.int64)
    rank[other] = given
    rows = np.repeat(given, np.diff(graph.indptr))
    before = np.abs(rows - graph.indices).sum()
    after = np.abs(rank[rows] - rank[graph.indices]).sum()
    return other.astype(np.int64) if after < _NEARER * before else given


@njit(cache=True, nogil=True)
def matched(starts: I4, cols: I4, weights: F8) -> tuple[I4, int]:
    """Number of the pair of each state, and how many; who finds nobody left joins its best neighbour."""
    n = starts.size - 1
    pair = np.full(n, -1, np.int32)
    count = 0
    for i in range(n):
        if pair[i] >= 0:
            continue
        best, free, heaviest, heavy = -1, -1, 0.0, 0.0
        for k in range(starts[i], starts[i + 1]):
            j = cols[k]
            if j == i:
                continue
            if pair[j] < 0 and weights[k] > heavy:
                free, heavy = j, weights[k]
            if pair[j] >= 0 and weights[k] > heaviest:
                best, heaviest = j, weights[k]
        if free < 0 and best >= 0:
            pair[i] = pair[best]
            continue
        pair[i] = count
        if free >= 0:
            pair[free] = count
        count += 1
    return pair, count


def _merged(graph: csr_array, pair: I4, count: int) -> csr_array:
    entries = graph.tocoo()
    rows, cols = entries.coords
    return coo_array((entries.data, (pair[rows], pair[cols])), shape=(count, count)).tocsr()
