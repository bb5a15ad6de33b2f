# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""An order of elimination that fills in little: nested dissection of a graph.

A few nodes are looked for whose removal leaves two parts of nearly the same size. They are eliminated last,
and so on within each part. Separators are found as by METIS: the graph is made coarser by joining neighbours,
the coarsest one is split by growing one part from a node at its rim, and on the way back nodes are moved out
of the separator as long as that makes it lighter (Fiduccia and Mattheyses; that the separator itself is
refined, and no cut of edges, is Ashcraft and Liu's).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.sparse import csr_array

from fairmdp.chains.sweeps import I4, I8
from fairmdp.model.checks import Ints

_COARSE = 100  # nodes of a graph that is split as it is
_SHRINKS = 0.9  # a coarser graph has at most this part of the nodes, or is not worth it
_UNEVEN = 0.62  # part of the weight that one side may have
_IDLE = 60  # moves without a gain after which a pass of refinement ends
_PASSES = 6
_ROOTS = 5  # nodes from which a part is grown
_LEFT, _RIGHT, _BETWEEN = 0, 1, 2


class Graph(NamedTuple):
    """Neighbours of each node, how close they are, and how much each node weighs."""

    starts: I4
    nodes: I4
    ties: I4
    weights: I8

    @property
    def size(self) -> int:
        """Number of nodes."""
        return int(self.weights.size)


class Block(NamedTuple):
    """Nodes that are eliminated together; its children are eliminated before, its parent after it."""

    nodes: Ints
    parent: int  # -1 at the root


def dissect(pattern: csr_array, leaf: int) -> list[Block]:
    """Blocks of a symmetric pattern in the order of elimination, children before parents.

    Parts of up to `leaf` nodes are not split further. The values of the pattern say how close neighbours are.
    """
    n = pattern.shape[0]
    whole = Graph(
        pattern.indptr.astype(np.int32), pattern.indices.astype(np.int32), pattern.data.astype(np.int32),
        np.ones(n, np.int64),
    )  # fmt: skip
    found: list[Block] = []  # parents before children, turned round in the end
    waiting = [(np.arange(n), -1)]
    while waiting:
        nodes, parent = waiting.pop()
        graph = whole if nodes.size == n else subgraph(whole, nodes, np.full(n, -1, np.int32))
        part = separated(graph) if nodes.size > leaf else np.full(nodes.size, _BETWEEN)
        sides = [nodes[part == side] for side in (_LEFT, _RIGHT)]
        if min(side.size for side in sides) == 0:  # nothing separates them
            sides, part = [], np.full(nodes.size, _BETWEEN)
        found.append(Block(nodes[part == _BETWEEN], parent))
        waiting += [(side, len(found) - 1) for side in sides]
    last = len(found) - 1
    return [Block(block.nodes, last - block.parent if block.parent >= 0 else -1) for block in reversed(found)]


def separated(graph: Graph) -> Ints:
    """Side of each node, or that it lies between the two."""
    if graph.size > _COARSE:
        coarse_of = matched(*graph, 2 * int(graph.weights.sum()) // _COARSE)
        size = int(coarse_of.max()) + 1
        if size <= _SHRINKS * graph.size:
            side = separated(coarsened(graph, coarse_of, size))[coarse_of]
            refine(*graph, side)
            return side
    best, least = np.full(graph.size, _BETWEEN), np.inf
    root = 0
    for _ in range(_ROOTS):
        side, last = grown(*graph, root)
        refine(*graph, side)
        weight = np.bincount(side, graph.weights, 3)
        cost = weight[_BETWEEN] if min(weight[:2]) > 0 else np.inf
        if cost < least:
            best, least = side, cost
        root = last if last != root else (root * 7919 + 13) % graph.size
    return best


@njit(cache=True, nogil=True)
def _taken(starts: I4, nodes: I4, ties: I4, kept: I8, place: I4) -> tuple[I4, I4, I4]:
    ends = np.zeros(kept.size + 1, np.int32)
    for j in range(kept.size):
        place[kept[j]] = j
    for j in range(kept.size):
        count = 0
        for k in range(starts[kept[j]], starts[kept[j] + 1]):
            count += place[nodes[k]] >= 0
        ends[j + 1] = ends[j] + count
    to, tie = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.int32)
    at = 0
    for j in range(kept.size):
        for k in range(starts[kept[j]], starts[kept[j] + 1]):
            if place[nodes[k]] >= 0:
                to[at], tie[at] = place[nodes[k]], ties[k]
                at += 1
    return ends, to, tie


def subgraph(graph: Graph, kept: Ints, place: I4) -> Graph:
    """Graph of some nodes; `place` is -1 everywhere."""
    return Graph(*_taken(graph.starts, graph.nodes, graph.ties, kept, place), graph.weights[kept])


@njit(cache=True, nogil=True)
def matched(starts: I4, nodes: I4, ties: I4, weights: I8, heaviest: int) -> I8:
    """Pair each node with a neighbour that is close and not heavy yet; number of the pair of each node."""
    n = weights.size
    mate = np.full(n, -1, np.int64)
    number = np.full(n, -1, np.int64)
    count = 0
    step = max(int(n * 0.618), 1)
    while np.gcd(step, n) != 1:
        step += 1
    for turn in range(n):
        v = (turn * step) % n  # in an order that is not that of the lattice
        if mate[v] >= 0:
            continue
        best, closest = v, -1.0
        for k in range(starts[v], starts[v + 1]):
            u = nodes[k]
            if u != v and mate[u] < 0 and weights[u] + weights[v] <= heaviest:
                close = ties[k] / weights[u]
                if close > closest:
                    best, closest = u, close
        mate[v], mate[best] = best, v
        number[v] = number[best] = count
        count += 1
    return number


def coarsened(graph: Graph, coarse_of: I8, size: int) -> Graph:
    """Graph of the joined nodes."""
    gather = csr_array(
        (np.ones(graph.size, np.int32), (coarse_of, np.arange(graph.size))), shape=(size, graph.size)
    )
    matrix = csr_array((graph.ties, graph.nodes, graph.starts), shape=(graph.size, graph.size))
    joined = (gather @ matrix @ gather.T).tocsr()
    return Graph(
        joined.indptr.astype(np.int32), joined.indices.astype(np.int32), joined.data.astype(np.int32),
        np.bincount(coarse_of, graph.weights, size).astype(np.int64),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def grown(starts: I4, nodes: I4, ties: I4, weights: I8, root: int) -> tuple[I8, int]:
    """Half of the weight around a node, the rest, and the rest's rim between; the node that is farthest."""
    n = weights.size
    side = np.full(n, _RIGHT)
    seen = np.zeros(n, np.bool_)
    line = np.empty(n, np.int64)
    total, inside = weights.sum(), 0
    head = tail = 0
    fresh = 0
    last = root
    for start in range(n + 1):  # parts that hang together, that of the root first
        v = root if start == 0 else start - 1
        if seen[v]:
            continue
        seen[v] = True
        line[tail] = v
        tail += 1
        while head < tail:
            v = line[head]
            head += 1
            last = v
            if 2 * inside < total:
                side[v] = _LEFT
                inside += weights[v]
                fresh = head
            for k in range(starts[v], starts[v + 1]):
                if not seen[nodes[k]]:
                    seen[nodes[k]] = True
                    line[tail] = nodes[k]
                    tail += 1
    for at in range(fresh):
        v = line[at]
        for k in range(starts[v], starts[v + 1]):
            if side[nodes[k]] == _RIGHT:
                side[nodes[k]] = _BETWEEN
    return side, last


@njit(cache=True, nogil=True)
def refine(starts: I4, nodes: I4, ties: I4, weights: I8, side: I8) -> None:
    """Move nodes out of the separator, in place, while that makes it lighter and leaves the sides even."""
    n = weights.size
    most = _UNEVEN * weights.sum()
    size = np.zeros(3)
    for v in range(n):
        size[side[v]] += weights[v]
    pull = np.zeros((n, 2))  # weight that joins the separator where a node of it moves to a side
    moved = np.empty(n * 4 + 16, np.int64)
    before = np.empty(n * 4 + 16, np.int64)
    for _ in range(_PASSES):
        between = [v for v in range(n) if side[v] == _BETWEEN]
        for v in between:
            pull[v] = 0.0
            for k in range(starts[v], starts[v + 1]):
                if side[nodes[k]] != _BETWEEN:
                    pull[v, 1 - side[nodes[k]]] += weights[nodes[k]]
        locked = np.zeros(n, np.bool_)
        count = best_count = idle = 0
        best = size[_BETWEEN] + 1e-3 * abs(size[0] - size[1])
        first = best
        while idle < _IDLE and count < moved.size - 256:
            chosen, to, gain = -1, 0, -np.inf
            for v in between:
                if side[v] != _BETWEEN or locked[v]:
                    continue
                for p in range(2):
                    if size[p] + weights[v] <= most or size[p] < size[1 - p]:
                        worth = (
                            weights[v] - pull[v, p] + 1e-6 * (size[1 - p] - size[p]) / (size[0] + size[1] + 1)
                        )
                        if worth > gain:
                            chosen, to, gain = v, p, worth
            if chosen < 0:
                break
            locked[chosen] = True
            moved[count], before[count] = chosen, _BETWEEN
            count += 1
            side[chosen] = to
            size[to] += weights[chosen]
            size[_BETWEEN] -= weights[chosen]
            for k in range(starts[chosen], starts[chosen + 1]):
                u = nodes[k]
                if side[u] == _BETWEEN:
                    pull[u, 1 - to] += weights[chosen]
                elif side[u] == 1 - to:
                    moved[count], before[count] = u, 1 - to
                    count += 1
                    side[u] = _BETWEEN
                    size[1 - to] -= weights[u]
                    size[_BETWEEN] += weights[u]
                    between.append(u)
                    pull[u] = 0.0
                    for m in range(starts[u], starts[u + 1]):
                        x = nodes[m]
                        if side[x] == _BETWEEN:
                            if x != u:
                                pull[x, to] -= weights[u]
                        else:
                            pull[u, 1 - side[x]] += weights[x]
            score = size[_BETWEEN] + 1e-3 * abs(size[0] - size[1])
            idle += 1
            if score < best:
                best, best_count, idle = score, count, 0
        while count > best_count:
            count -= 1
            v = moved[count]
            size[side[v]] -= weights[v]
            side[v] = before[count]
            size[side[v]] += weights[v]
        if not best < first:
            break
