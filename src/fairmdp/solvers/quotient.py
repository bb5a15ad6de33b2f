"""Stay or go: what is best on the nodes of a model, once it is known what staying in each is worth.

Components are nodes, and so is every state in none (`chains.components`). On them ::

    v(n) = max( stay(n),  max over the moves i of n of  pay + (P v)(i) )

has one solution, found by policy iteration: moves close no cycle, so every choice ends. With ``pay = 0`` it
is the best that can be had from each node; with ``stay = 0`` and ``pay = 1`` the most moves that can be made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.sparse.linalg import SuperLU, splu

from fairmdp.chains.components import Components, node_moves, start_of_nodes
from fairmdp.errors import SolverError
from fairmdp.model.checks import Bools, Floats, Ints, ReadOnly
from fairmdp.model.mdp import MDP

STAY = -1
"""Choice of a node that is not left."""

_MOST_ROUNDS = 1000
_BETTER = 1e-12  # by how much of the size of the values another choice must be better


@dataclass(frozen=True, eq=False)
class Quotient(ReadOnly):
    """The nodes of a model and the moves between them."""

    start: Floats  # (nodes,)
    node_of: Ints  # (rows,), node of each move, ascending
    pairs: Ints  # (rows,), its pair in the model
    P: csr_array  # (rows, nodes)

    @classmethod
    def of(cls, mdp: MDP, found: Components) -> Quotient:
        """Return the nodes of a model."""
        pairs, P = node_moves(mdp, found)
        node_of = found.labels[mdp.s_of[pairs]]
        order = np.argsort(node_of, kind="stable")
        return cls(start_of_nodes(mdp, found), node_of[order], pairs[order], P[order])

    @cached_property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.start.size)

    @cached_property
    def _backwards(self) -> csr_array:
        return self.P.T.tocsr()

    def sure(self, stays: Bools) -> Bools:
        """Nodes from which it is certain, with the right moves, to end in a node that may be stayed in."""
        usable, left = np.ones(self.node_of.size, bool), np.bincount(self.node_of, minlength=self.n_nodes)
        sure = stays | (left > 0)
        dead, back = np.flatnonzero(~sure).tolist(), self._backwards
        while dead:
            n = dead.pop()
            for i in back.indices[back.indptr[n] : back.indptr[n + 1]].tolist():
                if usable[i]:
                    usable[i] = False
                    before = self.node_of[i]
                    left[before] -= 1
                    if not left[before] and not stays[before]:
                        sure[before] = False
                        dead.append(before)
        return sure

    def worth(self, values: Floats) -> float:
        """Mean of values of the nodes over the start; -inf where one of them is."""
        begun = self.start > 0
        return float(self.start[begun] @ values[begun])

    def best(self, stay: Floats, pay: float = 0.0, begin: Ints | None = None) -> tuple[Floats, Ints]:
        """Return the values of the nodes, (nodes,), and the choice in each: a row of `P`, or `STAY`.

        Where ``stay`` is -inf a node cannot be stayed in; if that cannot be avoided, its value is -inf too.
        The search may ``begin`` with the choices of another one in which the same nodes could be stayed in.
        """
        sure = self.sure(stay > -np.inf)
        inside = np.ones(self.node_of.size, bool)
        if not sure.all():
            inside = sure[self.node_of] & (self.P @ (~sure).astype(float) == 0)
        rows = np.flatnonzero(inside)
        if begin is None:
            choice = np.full(self.n_nodes, STAY)
            choice[self.node_of[rows[::-1]]] = rows[::-1]  # the first row of each node
            choice[~sure | (stay > -np.inf)] = STAY
        else:
            choice = begin
        v = np.full(self.n_nodes, -np.inf)
        for _ in range(_MOST_ROUNDS):
            v = self._values(choice, stay, pay)
            better = self._improved(choice, v, stay, pay, rows, sure)
            if better is None:
                return v, choice
            choice = better
        raise SolverError(f"staying and going go round in circles after {_MOST_ROUNDS} rounds")

    def reached(self, choice: Ints) -> Floats:
        """Expected visits of each node from the start, (nodes,), by the choices made."""
        going = np.flatnonzero(choice >= 0)
        if not going.size:
            return self.start
        rows = self.P[choice[going]]
        visits = self.start.copy()
        visits[going] = _leaving(rows, going).solve(self.start[going], "T")
        arrived = rows.T @ visits[going]
        staying = choice < 0
        visits[staying] = self.start[staying] + arrived[staying]
        return np.maximum(visits, 0.0)

    def seen(self, choice: Ints) -> Bools:
        """Nodes that may be reached from the start by the choices made."""
        seen = self.start > 0
        new = np.flatnonzero(seen).tolist()
        while new:
            i = choice[new.pop()]
            if i >= 0:
                for n in self.P.indices[self.P.indptr[i] : self.P.indptr[i + 1]].tolist():
                    if not seen[n]:
                        seen[n] = True
                        new.append(n)
        return seen

    def _values(self, choice: Ints, stay: Floats, pay: float) -> Floats:
        """Values of the nodes by the choices made."""
        v = stay.copy()
        going = np.flatnonzero(choice >= 0)
        if going.size:
            rows = self.P[choice[going]]
            ends = np.where(choice >= 0, 0.0, np.where(np.isfinite(stay), stay, 0.0))
            v[going] = _leaving(rows, going).solve(pay + rows @ ends)
        return v

    def _improved(
        self, choice: Ints, v: Floats, stay: Floats, pay: float, rows: Ints, sure: Bools
    ) -> Ints | None:
        """Return better choices where there are any."""
        known = np.where(sure, v, 0.0)
        size = float(np.abs(known).max(initial=0.0)) + pay
        q = pay + self.P[rows] @ known
        best, row = np.where(sure, stay, -np.inf), np.full(self.n_nodes, STAY)
        if rows.size:
            nodes = self.node_of[rows]
            starts = np.flatnonzero(np.diff(nodes, prepend=-1))
            top = np.maximum.reduceat(q, starts)
            first = rows[np.lexsort((np.arange(q.size), -q, nodes))[starts]]
            owner = nodes[starts]
            ahead = top > best[owner]
            best[owner[ahead]], row[owner[ahead]] = top[ahead], first[ahead]
        with np.errstate(invalid="ignore"):
            change = sure & (best > v + _BETTER * size)
        return np.where(change, row, choice) if change.any() else None


def _leaving(rows: csr_array, nodes: Ints) -> SuperLU:
    """Factors of ``I - P`` on nodes that are left, by the rows taken there, (len(nodes), all nodes).

    What leads out of a node is summed, not found by subtraction: it may be left once in 1e17 steps.
    """
    own = np.repeat(nodes, np.diff(rows.indptr))
    away = csr_array((np.where(rows.indices == own, 0.0, rows.data), rows.indices, rows.indptr), rows.shape)
    inner = (diags_array(away.sum(axis=1)) - away[:, nodes]).tocsc()
    try:
        return splu(inner)
    except RuntimeError:  # a circle of nodes that is hardly left
        return splu((inner + np.finfo(float).eps * eye_array(nodes.size)).tocsc())
