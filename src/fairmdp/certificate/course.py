"""Where the runs of a policy end: what its graph alone says of it, and what is then left to reckon with.

A run is followed from the start along every successor of every pair that has a positive probability, however
small, so nothing here rounds. It ends in a *closed class*. States from which every way leads through the same
state, or into the same class, end where that one ends, however long they wander before; they have it for
their *gate*. Only at *forks*, which are their own gates, is anything decided, and with ``N`` (forks, forks
and classes) for the gate that is next, ``p`` for the gates of the start and ``u`` for the visits of forks ::

    u = p[forks] + u N[:, forks],        chance of ending = p[classes] + u N[:, classes]

For every u this is right within ``|p + u N - u|_1`` for every set of classes, whatever N is, as a chance of
ending somewhere is at most 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import splu

from fairmdp.certificate.ends import positive
from fairmdp.certificate.facts import Witness, find_witness
from fairmdp.chains.chain import Chain
from fairmdp.chains.side_by_side import SMALL, side_by_side
from fairmdp.chains.structure import closed_classes
from fairmdp.model.checks import Bools, Floats, Ints
from fairmdp.model.mdp import MDP

_MANY = 8  # small classes from which they are solved side by side
_SWEEPS = 1000  # for the visits of forks, before they are solved for
_SETTLED = 1e-15  # change of a sweep, relative to all visits, at which they are taken


@dataclass(frozen=True, eq=False)
class Course:
    """Closed classes that a policy can reach from the start, and gates: checked on the graph.

    Gates are numbered: first the classes, then the forks.
    """

    mdp: MDP
    policy: Floats  # (SA,) per decision
    states: Ints  # of the classes, class by class, (n,)
    ptr: Ints  # where each class begins in them, (m + 1,)
    forks: Ints  # (f,)
    gate: Ints  # (S,), -1 for states that are not reached
    stands: bool  # whether all this was confirmed

    @property
    def n_classes(self) -> int:
        """Number of closed classes, m."""
        return self.ptr.size - 1

    @property
    def class_of(self) -> Ints:
        """Class of each of `states`, (n,)."""
        return np.repeat(np.arange(self.n_classes), np.diff(self.ptr))

    @cached_property
    def pairs(self) -> Ints:
        """Pairs that are used in the classes, class by class, state by state."""
        return pairs_of(self.mdp, self.states, self.policy)


def course_of(mdp: MDP, policy: Floats) -> Course:
    """Follow a policy from the start."""
    graph = _graph(mdp, policy)
    reached = np.zeros(mdp.n_states, bool)
    reached[_search(graph, np.flatnonzero(mdp.start))] = True
    alive = np.flatnonzero(reached)
    classes = [alive[states] for states in closed_classes(graph[alive][:, alive])]
    states, ptr = np.concatenate(classes), np.cumsum([0, *map(len, classes)])
    gate = np.full(mdp.n_states, -1)
    gate[states] = np.repeat(np.arange(len(classes)), np.diff(ptr))
    between = alive[gate[alive] < 0]
    forks = _find_gates(graph, between, gate, len(classes))
    stands = _confirmed(graph, reached, states, forks, gate)
    return Course(mdp, policy, states, ptr, forks, gate, stands)


def _graph(mdp: MDP, policy: Floats) -> csr_array:
    """Successors of each state under a policy, (S, S), one for each positive probability."""
    used = np.flatnonzero(policy > 0)
    rows = positive(mdp.P[used])
    indptr = rows.indptr[np.searchsorted(used, mdp.pair_ptr)]
    graph = csr_array((np.ones(rows.nnz), rows.indices, indptr), shape=(mdp.n_states, mdp.n_states))
    graph.sum_duplicates()  # which scipy's search for strong components does not survive
    return graph


def _search(graph: csr_array, sources: Ints) -> Ints:
    """Nodes that can be reached from some, these among them."""
    S = graph.shape[0]
    indices = np.concatenate([graph.indices, sources])
    indptr = np.concatenate([graph.indptr, [indices.size]])
    order = breadth_first_order(
        csr_array((np.ones(indices.size), indices, indptr), shape=(S + 1, S + 1)),
        S,
        return_predecessors=False,
    )
    return np.asarray(order[order < S])


def _find_gates(graph: csr_array, between: Ints, gate: Ints, m: int) -> Ints:
    """Fill in the gates of the states that are passed through, and return the forks among them."""
    if not between.size:
        return between
    _, label = connected_components(graph[between][:, between], connection="strong")
    forks: list[int] = []
    for group in _groups(between, label):  # labels count up against the arrows: what comes after is known
        own = set(group.tolist())
        leave = {s: [t for t in _successors(graph, s) if t not in own] for s in own}
        gates = {int(gate[t]) for ahead in leave.values() for t in ahead}
        exits = [s for s in group.tolist() if leave[s]] if len(gates) > 1 else []
        if len(exits) > 1:  # any of them may be the last
            gate[group] = m + len(forks) + np.arange(group.size)
            forks += group.tolist()
        else:
            gate[group] = m + len(forks) if exits else gates.pop()
            forks += exits
    return np.array(forks, dtype=np.int64)


def _successors(graph: csr_array, s: int) -> list[int]:
    after: list[int] = graph.indices[graph.indptr[s] : graph.indptr[s + 1]].tolist()
    return after


def _groups(states: Ints, label: Ints) -> Iterator[Ints]:
    order = np.argsort(label, kind="stable")
    cuts = np.flatnonzero(np.diff(label[order], prepend=-1, append=-1))
    return (states[order[start:stop]] for start, stop in pairwise(cuts.tolist()))


def _confirmed(graph: csr_array, reached: Bools, states: Ints, forks: Ints, gate: Ints) -> bool:
    """Whether classes are closed and ahead of every state, and none but forks lead to several gates."""
    rows = np.repeat(np.arange(reached.size), np.diff(graph.indptr))
    closed, fork, ahead = (np.zeros(reached.size, bool) for _ in range(3))
    closed[states], fork[forks] = True, True
    ahead[_search(graph.T.tocsr(), states)] = True
    follows = reached[rows] & ~fork[rows]
    same = gate[rows[follows]] == gate[graph.indices[follows]]
    return bool(
        same.all()
        and closed[graph.indices[closed[rows]]].all()
        and ahead[reached].all()
        and reached[graph.indices[reached[rows]]].all()
        and (gate[reached] >= 0).all()
    )


def pairs_of(mdp: MDP, states: Ints, policy: Floats) -> Ints:
    """Pairs of some states that a policy uses, state by state."""
    counts = mdp.n_actions[states]
    first = np.repeat(mdp.pair_ptr[states] - (np.cumsum(counts) - counts), counts)
    pairs = first + np.arange(counts.sum())
    return pairs[policy[pairs] > 0]


@dataclass(frozen=True, eq=False)
class Rest:
    """For each closed class a stationary distribution, a state, and steps to it: unproved."""

    Q: csr_array  # (n, n), in the order of `Course.states`
    shares: Floats  # (n,), summing to one in each class
    heads: Ints  # (m,), places of the states that are stepped to
    steps: Floats  # (n,)
    flawed: bool  # whether steps are missing


def rest_of(course: Course, guess: Floats | None) -> Rest:
    """Where a policy's time goes in each class, and a witness for it."""
    Q, n = _within(course), course.states.size
    shares, steps, heads = np.ones(n), np.zeros(n), course.ptr[:-1].copy()
    flawed, sizes = False, np.diff(course.ptr)
    left = np.flatnonzero(sizes > 1)
    together = left[sizes[left] <= SMALL]
    if together.size >= _MANY:
        places = np.flatnonzero(np.isin(course.class_of, together))
        found = side_by_side(Q[places][:, places], np.append(0, np.cumsum(sizes[together])))
        shares[places], steps[places], heads[together] = found.shares, found.steps, places[found.pins]
        left = np.setdiff1d(left, together[found.close])
    for c in left.tolist():
        start, stop = course.ptr[c : c + 2].tolist()
        entries = slice(Q.indptr[start], Q.indptr[stop])
        block = Q.data[entries], Q.indices[entries] - start, Q.indptr[start : stop + 1] - Q.indptr[start]
        there = None if guess is None else guess[course.states[start:stop]]
        chain = Chain(csr_array(block, shape=(stop - start, stop - start)), there)
        witness = find_witness(chain)
        shares[start:stop] = chain.stationary[0]
        if isinstance(witness, Witness):
            heads[c], steps[start:stop] = start + witness.s0, witness.steps
        else:
            flawed = True
    return Rest(Q, shares, heads, steps, flawed)


def _within(course: Course) -> csr_array:
    """Chain of a policy in its classes, (n, n)."""
    Q = Chain.of(course.mdp, course.policy).P[course.states]
    place = np.full(course.mdp.n_states, -1)
    place[course.states] = np.arange(course.states.size)
    # What is stored as zero may lead elsewhere.
    inside = csr_array((Q.data, np.maximum(place[Q.indices], 0), Q.indptr), shape=(Q.shape[0],) * 2)
    return positive(inside)


def visits(p: Floats, N: csr_array) -> Floats:
    """Solve ``u = p + u N`` for nonnegative N, by sweeps or where these are slow by factors, (f,)."""
    backwards = N.T.tocsr()
    u = part = p
    for _ in range(_SWEEPS):
        part = backwards @ part
        u = u + part
        if part.sum() <= _SETTLED * u.sum():
            return u
    try:
        solved = splu((eye_array(p.size, format="csr") - backwards).tocsc()).solve(p)
    except RuntimeError:  # singular: some forks are hardly ever left
        return u
    return np.maximum(solved, 0.0)


class NextGates(NamedTuple):
    """Where the next gate after each fork is, as far as floats tell."""

    N: csr_array  # (f, m + f), summing to one in each row
    moved: Floats  # (f,), chance to go on to another gate, by which it was divided
    pairs: Ints  # that are used at forks, fork by fork
    ptr: Ints  # (f + 1,), where those of each fork begin
    terms: Ints  # (f,), products that its entries are made of


def next_gates(course: Course) -> NextGates:
    """Chances of the gate that comes after each fork, without those to come back to it at once."""
    mdp, f = course.mdp, course.forks.size
    pairs = pairs_of(mdp, course.forks, course.policy)
    place = np.empty(mdp.n_states, np.int64)
    place[course.forks] = np.arange(f)
    ptr = np.searchsorted(place[mdp.s_of[pairs]], np.arange(f + 1))
    P = positive(mdp.P[pairs])
    ahead = csr_array((course.policy[pairs], np.arange(pairs.size), ptr), shape=(f, pairs.size)) @ P
    N = csr_array((ahead.data, course.gate[ahead.indices], ahead.indptr), shape=(f, course.n_classes + f))
    terms = np.diff(ptr) + np.diff(ahead.indptr)
    N.sum_duplicates()
    row = np.repeat(np.arange(f), np.diff(N.indptr))
    N.data[N.indices == course.n_classes + row] = 0.0
    moved = N @ np.ones(N.shape[1])
    N.data /= moved[row]
    return NextGates(N, moved, pairs, ptr, terms)


def first_gates(course: Course) -> tuple[Floats, Ints]:
    """Chances of the first gate, (m + f,), and how many states of the start have it."""
    start = course.mdp.start
    support = np.flatnonzero(start)
    size = course.n_classes + course.forks.size
    p = np.bincount(course.gate[support], start[support], size) / math.fsum(start)
    return p, np.bincount(course.gate[support], minlength=size)
