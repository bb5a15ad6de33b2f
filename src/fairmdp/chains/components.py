"""Where runs may end: the maximal end components of what can be reached, and what lies between them.

An *end component* is a set of states and pairs, all of whose transitions stay within it, in which every state
is reached from every other. Whatever the policy, a run ends in one of the maximal ones with probability 1 and
stays there. They are found by dropping pairs that may leave their strongly connected class, then, by a
worklist, states that have no pair left and pairs that may lead to such a state, until none is dropped [1]_.

Put together, each component is a *node*, as is every other state by itself. On these nodes pairs that are in
no component, the *moves*, form a model without end components: it is left sooner or later, by staying in
a component for good.

References
----------
.. [1] de Alfaro, *Formal Verification of Probabilistic Systems*, Stanford 1997, Section 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from fairmdp.model.checks import Bools, Floats, Ints, ReadOnly
from fairmdp.model.mdp import MDP


@dataclass(frozen=True, eq=False)
class Components(ReadOnly):
    """End components of a model, as seen from where it starts.

    Attributes
    ----------
    labels
        Node of each state, (S,): components come first, -1 is what cannot be reached.
    internal
        Whether a pair is in a component, (SA,).
    count
        Number of components.
    """

    labels: Ints
    internal: Bools
    count: int

    @property
    def whole(self) -> bool:
        """Whether all states are one component."""
        return self.count == 1 and not self.labels.any()

    @cached_property
    def n_nodes(self) -> int:
        """Number of components and states in none."""
        return int(self.labels.max()) + 1

    @property
    def reachable(self) -> Bools:
        """Which states can be reached, (S,)."""
        return np.asarray(self.labels >= 0)

    @cached_property
    def sizes(self) -> Ints:
        """States of each component, (C,)."""
        inside = (self.labels >= 0) & (self.labels < self.count)
        return np.bincount(self.labels[inside], minlength=self.count)


def components_of(mdp: MDP) -> Components:
    """Return the end components that can be reached from where a model starts, if it says so.

    They are looked for once: whoever asks next is told what was found.
    """
    if mdp not in _KNOWN:
        _KNOWN[mdp] = _look_for_components(mdp)
    return _KNOWN[mdp]


_KNOWN: WeakKeyDictionary[MDP, Components] = WeakKeyDictionary()  # which do not hold their model


def _look_for_components(mdp: MDP) -> Components:
    graph = _Graph.of(mdp)
    S, SA = mdp.n_states, mdp.n_pairs
    reachable = np.ones(S, bool) if mdp.initial is None else graph.reached_from(np.flatnonzero(mdp.initial))
    if reachable.all() and graph.strong_classes(np.ones(SA, bool))[0] == 1:
        return Components(np.zeros(S, np.int64), np.ones(SA, bool), 1)
    internal, classes = _internal_pairs(graph, reachable)
    inside = np.zeros(S, bool)
    inside[mdp.s_of[internal]] = True
    found, number = np.unique(classes[inside], return_inverse=True)
    labels = np.full(S, -1, np.int64)
    labels[inside] = number
    between = reachable & ~inside
    labels[between] = found.size + np.arange(between.sum())
    return Components(labels, internal, int(found.size))


@dataclass(frozen=True, eq=False)
class _Graph:
    """Which state each pair may lead to."""

    starts: Ints  # (SA + 1,), of the successors of each pair
    successors: Ints
    s_of: Ints
    pair_ptr: Ints

    @classmethod
    def of(cls, mdp: MDP) -> _Graph:
        P = mdp.P
        if not P.data.all():
            P = P.copy()
            P.eliminate_zeros()
        return cls(P.indptr, P.indices, mdp.s_of, mdp.pair_ptr)

    @cached_property
    def pair_of(self) -> Ints:
        """Pair of each transition."""
        return np.repeat(np.arange(self.s_of.size), np.diff(self.starts))

    @cached_property
    def predecessors(self) -> csr_array:
        """Row ``t`` holds the pairs that may lead to state ``t``, (S, SA)."""
        shape = self.s_of.size, self.pair_ptr.size - 1
        return csr_array((np.ones(self.successors.size, bool), self.successors, self.starts), shape).T.tocsr()

    def reached_from(self, states: Ints) -> Bools:
        """Mask of the states that can be reached, (S,)."""
        S = self.pair_ptr.size - 1
        # One more state leads to all first ones, so that one search is enough.
        ends = np.append(self.starts[self.pair_ptr], self.successors.size + states.size)
        columns = np.concatenate([self.successors, states])
        graph = csr_array((np.ones(columns.size), columns, ends), shape=(S + 1, S + 1))
        found = np.zeros(S + 1, bool)
        found[breadth_first_order(graph, S, return_predecessors=False)] = True
        return found[:S]

    def strong_classes(self, kept: Bools) -> tuple[int, Ints]:
        """Strongly connected classes of the states, by the pairs that are kept."""
        S = self.pair_ptr.size - 1
        if kept.all():
            ends, columns = self.starts[self.pair_ptr], self.successors.copy()
        else:
            used = kept[self.pair_of]
            columns = self.successors[used]
            ends = np.searchsorted(self.pair_of[used], self.pair_ptr)
        graph = csr_array((np.ones(columns.size), columns, ends), shape=(S, S))
        graph.sum_duplicates()  # scipy's search may not end where an edge is there twice
        count, label = connected_components(graph, directed=True, connection="strong")
        return int(count), label.astype(np.int64)


def _internal_pairs(graph: _Graph, reachable: Bools) -> tuple[Bools, Ints]:
    """Pairs of the maximal end components, (SA,), and the class of each state, (S,)."""
    kept = reachable[graph.s_of]
    left = np.where(reachable, np.diff(graph.pair_ptr), 0)  # pairs of each state that are kept
    while True:
        _, classes = graph.strong_classes(kept)
        crossing = classes[graph.s_of[graph.pair_of]] != classes[graph.successors]
        leaves = np.zeros(kept.size, bool)
        leaves[graph.pair_of[crossing]] = True
        dropped = np.flatnonzero(leaves & kept)
        if not dropped.size:
            return kept, classes
        kept[dropped] = False
        left -= np.bincount(graph.s_of[dropped], minlength=left.size)
        _drop_dead_ends(graph, kept, left, np.unique(graph.s_of[dropped]))


def _drop_dead_ends(graph: _Graph, kept: Bools, left: Ints, touched: Ints) -> None:
    """Drop, in place, pairs that may lead to a state without pairs, and so on backwards."""
    before = graph.predecessors
    dead = [s for s in touched.tolist() if not left[s]]
    while dead:
        t = dead.pop()
        for i in before.indices[before.indptr[t] : before.indptr[t + 1]].tolist():
            if kept[i]:
                kept[i] = False
                s = graph.s_of[i]
                left[s] -= 1
                if not left[s]:
                    dead.append(s)


def node_moves(mdp: MDP, found: Components) -> tuple[Ints, csr_array]:
    """Return the moves between nodes: their pairs, (rows,), and where they lead, (rows, nodes)."""
    moves = np.flatnonzero(found.reachable[mdp.s_of] & ~found.internal)
    rows = mdp.P[moves]
    together = csr_array((rows.data, found.labels[rows.indices], rows.indptr), (moves.size, found.n_nodes))
    together.sum_duplicates()
    return moves, together


def start_of_nodes(mdp: MDP, found: Components) -> Floats:
    """Probability to start in each node, (nodes,)."""
    inside = found.reachable
    return np.asarray(np.bincount(found.labels[inside], mdp.start[inside], found.n_nodes), float)
