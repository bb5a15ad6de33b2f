# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""Cholesky factors of a sum of small dense matrices, front by front (Duff and Reid's multifrontal method).

An *element* is a dense symmetric matrix over a few nodes. Each block of the order of elimination has a front:
its own nodes, and those of later blocks that they are tied to by then. The elements whose first node is its
own are added up there, with what its children have left; its own nodes are eliminated by LAPACK, and what is
left goes to its parent. All work is done in dense matrices, and where the nonzeros are is worked out once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from scipy.linalg import blas, lapack

from fairmdp.backends.cpu.dissection import Block
from fairmdp.chains.sweeps import F8, I8
from fairmdp.model.checks import Floats, Ints

_HUGE = 1e128  # pivot in place of one that is not positive: its unknown is zero then


class Fronts:
    """Where the nonzeros of the factors are, and the factors themselves once `factor` was called.

    The nodes of element e are ``nodes[starts[e] : starts[e + 1]]``.
    """

    def __init__(self, blocks: Sequence[Block], starts: Ints, nodes: Ints) -> None:
        self._order = np.concatenate([block.nodes for block in blocks])
        self._place = np.empty(self._order.size, np.int64)  # of each node in the order
        self._place[self._order] = np.arange(self._order.size)
        self._own = np.array([block.nodes.size for block in blocks])
        self._first = np.concatenate([[0], np.cumsum(self._own)])
        self._block_of = np.repeat(np.arange(len(blocks)), self._own)
        self._children: list[list[int]] = [[] for _ in blocks]
        for j, block in enumerate(blocks):
            if block.parent >= 0:
                self._children[block.parent].append(j)
        self._starts, places = starts, self._place[nodes]
        first = self._block_of[np.minimum.reduceat(places, starts[:-1])]
        by_block = np.argsort(first, kind="stable")
        self._elements = np.split(by_block, np.searchsorted(first[by_block], np.arange(1, len(blocks))))
        self._rows: list[Ints] = []  # places beyond its own that a front reaches
        self._local = np.empty(places.size, np.int64)  # where each node of an element stands in its front
        self._lifted = [np.zeros(0, np.int64) for _ in blocks]  # where a block's rows stand in its parent's
        for j, elements in enumerate(self._elements):
            at = _ranges(starts, elements)
            tied = np.unique(np.concatenate([places[at], *(self._rows[c] for c in self._children[j])]))
            self._rows.append(tied[tied >= self._first[j + 1]])
            self._local[at] = self._within(j, places[at])
            for c in self._children[j]:
                self._lifted[c] = self._within(j, self._rows[c])
        reach = np.array([rows.size for rows in self._rows])
        self._values = np.concatenate([[0], np.cumsum(self._own * (self._own + reach))])
        self._row_starts = np.concatenate([[0], np.cumsum(reach)])
        self._all_rows = np.concatenate(self._rows)
        self._L = np.zeros(0)
        own = self._own.astype(float)
        self.operations = float((own**3 / 3 + own**2 * reach + own * reach**2).sum())

    @property
    def entries(self) -> int:
        """Numbers that the factors take."""
        return int(self._values[-1])

    def factor(self, elements: Floats, more: tuple[int, float]) -> int:
        """Factor the sum of elements, each a full matrix in turn, with something more on one diagonal entry.

        Pivots that are not positive are replaced; their number is returned.
        """
        if not self._L.size:
            self._L = np.empty(self.entries)
        left: dict[int, Floats] = {}
        value_starts = np.concatenate([[0], np.cumsum(np.diff(self._starts) ** 2)])
        node, replaced = self._place[more[0]], 0
        for j, own in enumerate(self._own.tolist()):
            reach = self._rows[j].size
            panel = self._L[self._values[j] : self._values[j + 1]]
            panel[:], rest = 0.0, np.zeros(reach * reach)
            add_elements(
                self._elements[j], self._starts, value_starts, self._local, elements, own, panel, rest
            )
            for c in self._children[j]:
                add_left(left.pop(c), self._lifted[c], own, panel, rest)
            if self._block_of[node] == j:
                panel[(node - self._first[j]) * (own + 1)] += more[1]
            if own:
                L11, L21 = self._panels(j)
                replaced += _eliminate(L11)
                if reach:
                    blas.dtrsm(1.0, L11, L21, side=1, lower=1, trans_a=1, overwrite_b=1)
                    square = rest.reshape((reach, reach), order="F")
                    blas.dsyrk(-1.0, L21, beta=1.0, c=square, lower=1, overwrite_c=1)
            left[j] = rest
        return replaced

    def solve(self, b: Floats) -> Floats:
        """Solution of the factored equations, (n,)."""
        x = b[self._order]
        substitute(x, self._first, self._row_starts, self._all_rows, self._values, self._L)
        out = np.empty_like(x)
        out[self._order] = x
        return out

    def solve_columns(self, B: Floats) -> Floats:
        """Solution for each column of B, (n, K): many at a time are quicker than one by one."""
        X = np.asfortranarray(B[self._order])
        for j in range(self._own.size):
            own = slice(self._first[j], self._first[j + 1])
            L11, L21 = self._panels(j)
            X[own] = blas.dtrsm(1.0, L11, X[own], lower=1)
            X[self._rows[j]] -= L21 @ X[own]
        for j in reversed(range(self._own.size)):
            own = slice(self._first[j], self._first[j + 1])
            L11, L21 = self._panels(j)
            X[own] = blas.dtrsm(1.0, L11, X[own] - L21.T @ X[self._rows[j]], lower=1, trans_a=1)
        out = np.empty_like(X)
        out[self._order] = X
        return out

    def _panels(self, j: int) -> tuple[Floats, Floats]:
        """The two parts of a block's columns of the factor."""
        own, reach, start = int(self._own[j]), self._rows[j].size, int(self._values[j])
        middle, end = start + own * own, start + own * (own + reach)
        return (
            self._L[start:middle].reshape((own, own), order="F"),
            self._L[middle:end].reshape((reach, own), order="F"),
        )

    def _within(self, j: int, places: Ints) -> Ints:
        """Where places stand in a front."""
        own = places - self._first[j]
        beyond = self._own[j] + np.searchsorted(self._rows[j], places)
        return np.where(places < self._first[j + 1], own, beyond)


def _ranges(starts: Ints, chosen: Ints) -> Ints:
    """Indices of some of the runs that begin at `starts`."""
    sizes = starts[chosen + 1] - starts[chosen]
    shift = np.repeat(starts[chosen] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
    return np.arange(int(sizes.sum())) + shift


def _eliminate(L: Floats) -> int:
    """Factor a dense matrix in place; pivots that are not positive are made huge, and counted."""
    given, replaced = L.copy(order="F"), 0
    while True:
        _, failed = lapack.dpotrf(L, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return replaced
        given[failed - 1, failed - 1] = _HUGE
        L[:] = given
        replaced += 1


# Matrices are handed over as one-dimensional arrays, column by column: numba would compile another version
# for those of a single column, which are laid out by rows as well.


@njit(cache=True, nogil=True)
def add_elements(
    chosen: I8, starts: I8, value_starts: I8, local: I8, values: F8, own: int, panel: F8, rest: F8
) -> None:
    """Add elements to the lower triangle of a front."""
    reach = round(np.sqrt(rest.size))
    for e in chosen:
        first, size, at = starts[e], starts[e + 1] - starts[e], value_starts[e]
        for a in range(size):
            j = local[first + a]
            for b in range(size):
                i, value = local[first + b], values[at + a * size + b]
                if i < j:
                    continue
                if j >= own:
                    rest[(j - own) * reach + i - own] += value
                elif i >= own:
                    panel[own * own + j * reach + i - own] += value
                else:
                    panel[j * own + i] += value


@njit(cache=True, nogil=True)
def add_left(left: F8, lifted: I8, own: int, panel: F8, rest: F8) -> None:
    """Add what a child has left to the lower triangle of a front; `lifted` ascends."""
    reach, size = round(np.sqrt(rest.size)), lifted.size
    inner = int(np.searchsorted(lifted, own))  # rows from here on are beyond the front's own
    for b in range(size):
        j, column = lifted[b], left[b * size : (b + 1) * size]
        if j >= own:
            beyond = rest[(j - own) * reach : (j - own + 1) * reach]
        else:
            beyond = panel[own * own + j * reach : own * own + (j + 1) * reach]
            for a in range(b, inner):
                panel[j * own + lifted[a]] += column[a]
        for a in range(max(b, inner), size):
            beyond[lifted[a] - own] += column[a]


@njit(cache=True, nogil=True)
def substitute(x: F8, first: I8, row_starts: I8, rows: I8, values: I8, L: F8) -> None:
    """Replace x, in the order of elimination, by the solution."""
    longest = 0
    for j in range(first.size - 1):
        longest = max(longest, row_starts[j + 1] - row_starts[j])
    work = np.empty(longest)
    for j in range(first.size - 1):
        own, reach = first[j + 1] - first[j], row_starts[j + 1] - row_starts[j]
        at, below = values[j], values[j] + own * own
        y, w = x[first[j] : first[j + 1]], work[:reach]
        w[:] = 0.0
        for c in range(own):
            y[c] /= L[at + c * own + c]
            for i in range(c + 1, own):
                y[i] -= L[at + c * own + i] * y[c]
            for i in range(reach):
                w[i] += L[below + c * reach + i] * y[c]
        for i in range(reach):
            x[rows[row_starts[j] + i]] -= w[i]
    for j in range(first.size - 2, -1, -1):
        own, reach = first[j + 1] - first[j], row_starts[j + 1] - row_starts[j]
        at, below = values[j], values[j] + own * own
        y, w = x[first[j] : first[j + 1]], work[:reach]
        for i in range(reach):
            w[i] = x[rows[row_starts[j] + i]]
        for c in range(own - 1, -1, -1):
            total = y[c]
            for i in range(c + 1, own):
                total -= L[at + c * own + i] * y[i]
            for i in range(reach):
                total -= L[below + c * reach + i] * w[i]
            y[c] = total / L[at + c * own + c]
