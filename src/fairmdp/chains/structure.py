"""The graph of a chain: closed classes and periods."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from fairmdp.model.checks import Ints


def closed_classes(P: csr_array) -> tuple[Ints, ...]:
    """Sets of states that are never left and within which every state is reached, in state order."""
    n_classes, label = connected_components(P, directed=True, connection="strong")
    if n_classes == 1:
        return (np.arange(label.size),)
    rows = np.repeat(label, np.diff(P.indptr))
    closed = np.ones(n_classes, bool)
    closed[rows[rows != label[P.indices]]] = False
    members = np.flatnonzero(closed[label])
    order = members[np.argsort(label[members], kind="stable")]
    groups = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return tuple(sorted(groups, key=lambda group: int(group[0])))


def period(P: csr_array) -> int:
    """Greatest common divisor of the cycle lengths of an irreducible chain."""
    order, before = breadth_first_order(P, 0, directed=True)
    level = np.zeros(P.shape[0], np.int64)
    for s in order[1:]:
        level[s] = level[before[s]] + 1
    rows = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))
    return int(np.gcd.reduce(level[rows] + 1 - level[P.indices]))
