"""The linear program of a model that falls apart, for quotas of every run and of the mean over runs at once.

With ``x`` on the pairs of the components and ``y``, expected numbers, on all other pairs ::

    maximise    r @ x                                                        multiplier
    subject to  flow of x is 0 in every state of a component                 h
                m(C) - sum x(C)                           == 0
                m(C) + y out of a node - y into it        == start(node)     g
                at_least <= G x <= at_most                for the mean       mu
                (G - at_least) x(C) >= 0 >= (G - at_most) x(C)  every run    mu_C
                x, y, m >= 0

it has the value of Hordijk and Kallenberg's program, with x and y on all pairs [1]_, in half the columns.
Where that has no point, `EndsLP` may be built to give way: mass may be lost in a component, and means over
runs may miss their bounds, at a cost of 1 each. If the least cost is positive, its multipliers prove that.
It may also be built to lift some means: then the least of them is maximised instead of the rewards.

References
----------
.. [1] Hordijk and Kallenberg, Constrained undiscounted stochastic dynamic programming, Math. Oper. Res. 1984.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import block_array, csr_array, eye_array

from fairmdp.backends.flow_lp import without_specks
from fairmdp.backends.highs import INFINITE, Program, linear_program
from fairmdp.chains.components import Components
from fairmdp.deadline import Deadline
from fairmdp.model.checks import Bools, Floats, Ints, ReadOnly
from fairmdp.model.problem import Problem


@dataclass(frozen=True, eq=False)
class EndsAnswer(ReadOnly):
    """A solved program: occupancy and moves, and the multipliers."""

    objective: float
    x: Floats  # (SA,), 0 outside of the components
    y: Floats  # (SA,), 0 inside of them
    h: Floats  # (S,)
    mu: Floats  # (K,), prices of quotas of the mean over runs
    mu_each: csr_array  # (K, nodes), prices of quotas of every run
    iterations: int


class EndsLP:
    """The program above; bounds may be changed between runs."""

    def __init__(
        self,
        problem: Problem,
        found: Components,
        *,
        give_way: bool = False,
        lifted: Bools | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        self._problem, self._found = problem, found
        mdp = problem.mdp
        self._n = float(found.reachable.sum())
        self._inner = np.flatnonzero(found.internal)
        self._moves = np.flatnonzero(found.reachable[mdp.s_of] & ~found.internal)
        asks = (problem.at_least > 0) | (problem.at_most < 1)
        self._in_mean = np.flatnonzero(asks & problem.expected)
        self._each = _EveryRun.of(problem, found, np.flatnonzero(asks & ~problem.expected))
        self._place = np.unique(mdp.s_of[self._inner])  # states of components
        matrix = self._matrix()
        cost = np.zeros(matrix.shape[1])
        cost[: self._inner.size] = mdp.r[self._inner]
        low, high = self._row_bounds(problem.at_least, problem.at_most)
        if give_way:
            matrix, cost = self._giving_way(matrix)
        if lifted is not None:
            matrix, cost = self._lifting(matrix, lifted)
        r, earns = mdp.r[self._inner], not give_way and lifted is None
        self._shift = float(r.max() + r.min()) / 2 if earns else 0.0
        cost[: self._inner.size] -= self._shift
        self._scale = float(np.abs(cost).max()) or 1.0
        lp = linear_program(-cost / self._scale, matrix, low, high)
        self._program = Program(lp, "simplex", deadline or Deadline(None), conserving=self._place.size)

    def run(self) -> EndsAnswer | None:
        """Solve; None means that HiGHS found no point."""
        if not self._program.solve():
            return None
        point, SA = self._program.point, self._problem.mdp.n_pairs
        columns = np.maximum(point.columns, 0.0) / self._n
        duals = -point.row_duals * self._scale
        x, y = np.zeros(SA), np.zeros(SA)
        x[self._inner] = columns[: self._inner.size]
        y[self._moves] = columns[self._inner.size : self._inner.size + self._moves.size]
        h, mu = np.zeros(self._problem.mdp.n_states), np.zeros(self._problem.n_quotas)
        h[self._place] = duals[: self._place.size]
        at = self._place.size + self._found.count + self._found.n_nodes
        mu[self._in_mean] = 0.0 - duals[at : at + self._in_mean.size]
        each = 0.0 - duals[at + self._in_mean.size :]
        objective = -point.cost * self._scale / self._n
        return EndsAnswer(
            objective=objective + self._shift,
            x=x, y=y, h=h, mu=mu,
            mu_each=self._each.table(each, self._problem.n_quotas, self._found.n_nodes),
            iterations=point.iterations,
        )  # fmt: skip

    def _matrix(self) -> csr_array:
        """Rows of the program over the columns x, y and m."""
        mdp, found, inner, moves = self._problem.mdp, self._found, self._inner, self._moves
        P = without_specks(mdp.P)
        S, C, N = mdp.n_states, found.count, found.n_nodes
        out = csr_array((np.ones(inner.size), (mdp.s_of[inner], np.arange(inner.size))), (S, inner.size))
        flow = (out - P[inner].T)[self._place]
        label = found.labels[mdp.s_of[inner]]
        mass = csr_array((-np.ones(inner.size), (label, np.arange(inner.size))), (C, inner.size))
        rows = P[moves]
        into = csr_array((rows.data, found.labels[rows.indices], rows.indptr), (moves.size, N)).T
        leaving = csr_array(
            (np.ones(moves.size), (found.labels[mdp.s_of[moves]], np.arange(moves.size))), (N, moves.size)
        )
        nodes = eye_array(N, C, format="csr")
        means = self._problem.members[self._in_mean][:, inner]
        blocks = [
            [flow, None, None],
            [mass, None, eye_array(C)],
            [None, leaving - into, nodes],
            [means, None, None],
            [self._each.counts[:, inner], None, self._each.masses],
        ]
        # Empty blocks would leave the widths of their columns unknown.
        height = [self._place.size, C, N, self._in_mean.size, self._each.quota.size]
        widths = [inner.size, moves.size, C]
        filled = [
            [
                csr_array((rows, width)) if block is None else block
                for block, width in zip(row, widths, strict=True)
            ]
            for row, rows in zip(blocks, height, strict=True)
        ]
        return csr_array(block_array(filled, format="csr"))

    def _giving_way(self, matrix: csr_array) -> tuple[csr_array, Floats]:
        """The program with columns for mass that is lost and means that miss their bounds; its rewards."""
        C, K = self._found.count, self._in_mean.size
        nodes = self._place.size + C
        first_mean = nodes + self._found.n_nodes
        rows = np.concatenate([nodes + np.arange(C), first_mean + np.arange(K), first_mean + np.arange(K)])
        data = np.concatenate([np.ones(C), np.ones(K), -np.ones(K)])
        more = csr_array((data, (rows, np.arange(rows.size))), (matrix.shape[0], rows.size))
        cost = np.concatenate([np.zeros(matrix.shape[1]), -np.ones(rows.size)])
        return csr_array(block_array([[matrix, more]], format="csr")), cost

    def _lifting(self, matrix: csr_array, lifted: Bools) -> tuple[csr_array, Floats]:
        """The program with a column that has to be less than some means over runs; its rewards."""
        first = self._place.size + self._found.count + self._found.n_nodes
        rows = first + np.flatnonzero(lifted[self._in_mean])
        entries = -np.ones(rows.size), (rows, np.zeros(rows.size, np.int64))
        more = csr_array(entries, (matrix.shape[0], 1))
        cost = np.append(np.zeros(matrix.shape[1]), 1.0)
        return csr_array(block_array([[matrix, more]], format="csr")), cost

    def _row_bounds(self, at_least: Floats, at_most: Floats) -> tuple[Floats, Floats]:
        found, n, inf = self._found, self._n, INFINITE
        start = np.bincount(
            found.labels[found.reachable], self._problem.mdp.start[found.reachable], found.n_nodes
        )
        fixed = np.concatenate([np.zeros(self._place.size + found.count), n * start])
        low, high = at_least[self._in_mean], at_most[self._in_mean]
        each = np.zeros(self._each.quota.size)
        return (
            np.concatenate([fixed, np.where(low > 0, n * low, -inf), np.where(self._each.least, each, -inf)]),
            np.concatenate([fixed, np.where(high < 1, n * high, inf), np.where(self._each.least, inf, each)]),
        )


@dataclass(frozen=True, eq=False)
class _EveryRun(ReadOnly):
    """Rows of quotas that every run has to meet, one for each bound and component."""

    quota: Ints  # (rows,)
    node: Ints  # (rows,)
    least: Bools  # (rows,), whether it is a bound from below
    counts: csr_array  # (rows, SA)
    masses: csr_array  # (rows, C)

    @classmethod
    def of(cls, problem: Problem, found: Components, owed: Ints) -> _EveryRun:
        mdp, C = problem.mdp, found.count
        label = np.where(found.internal, found.labels[mdp.s_of], -1)
        quotas: list[Ints] = []
        nodes: list[Ints] = []
        least: list[Bools] = []
        bounds: list[Floats] = []
        rows: list[Ints] = []
        cols: list[Ints] = []
        data: list[Floats] = []
        size = 0
        for k in owed.tolist():
            row = slice(problem.members.indptr[k], problem.members.indptr[k + 1])
            pairs, counts = problem.members.indices[row], problem.members.data[row]
            within = label[pairs] >= 0
            pairs, counts = pairs[within], counts[within]
            touched = np.unique(label[pairs])
            for bound, below in ((problem.at_least[k], True), (problem.at_most[k], False)):
                if bound <= 0 if below else bound >= 1:
                    continue
                # A component of which nothing counts is within a cap, and short of what is owed.
                used = np.arange(C) if below else touched
                place = np.full(C, -1)
                place[used] = size + np.arange(used.size)
                size += used.size
                quotas.append(np.full(used.size, k))
                nodes.append(used)
                least.append(np.full(used.size, below))
                rows.append(place[label[pairs]])
                cols.append(pairs)
                data.append(counts)
                bounds.append(np.full(used.size, -bound))
        if not quotas:
            none = np.zeros(0, np.int64)
            return cls(none, none, none.astype(bool), csr_array((0, mdp.n_pairs)), csr_array((0, C)))
        quota, node = np.concatenate(quotas), np.concatenate(nodes)
        return cls(
            quota,
            node,
            np.concatenate(least),
            csr_array(
                (np.concatenate(data), (np.concatenate(rows), np.concatenate(cols))), (size, mdp.n_pairs)
            ),
            csr_array((np.concatenate(bounds), (np.arange(size), node)), (size, C)),
        )

    def table(self, prices: Floats, n_quotas: int, n_nodes: int) -> csr_array:
        """Prices of the rows as those of quotas and nodes, (K, nodes)."""
        found = csr_array((prices, (self.quota, self.node)), (n_quotas, n_nodes))
        found.eliminate_zeros()
        return found
