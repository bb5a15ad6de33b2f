"""Steps of interior points: the normal equations of the program over occupancies, factored and solved.

The rows are the flow of each state, the mass, and the quotas. A quota on the pairs of one state is eliminated
by hand; the flow rows are factored by fronts; the mass and the other quotas border them. Conjugate gradients
on the bordered equations, preconditioned by the factors, mend what rounding has left: where a model hardly
hangs together the flow between its classes is smaller than the error of a factorisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse import csr_array

from fairmdp.backends import cpu
from fairmdp.model.checks import Bools, Floats, Ints
from fairmdp.model.mdp import MDP

_ROUNDING = 1e-15
_TINY = 1e-280  # a weight below this has no inverse to speak of


class Step(NamedTuple):
    """Changes of the occupancy, the relative values, the gain and the prices."""

    x: Floats  # (SA,)
    h: Floats  # (S,)
    g: float
    mu: Floats  # (K,)


class Aim(NamedTuple):
    """Right-hand sides of a step.

    ::

    x / d + ahead(h) + g - G.T mu == w      each pair
    flow(x) == flow,  sum x == mass,  G x + slack mu == quota
    """

    w: Floats  # (SA,)
    flow: Floats  # (S,)
    mass: float
    quota: Floats  # (K,)

    @property
    def largest(self) -> float:
        """Largest entry of the rows."""
        return max(float(np.abs(part).max(initial=0.0)) for part in (self.flow, self.mass, self.quota))


@dataclass(frozen=True)
class Tuning:
    """How exactly the equations are solved."""

    leaf: int = 48  # states of a part of the model that is eliminated without looking for an order
    steps: int = 12  # of conjugate gradients, at most
    part: float = 1e-4  # of a right-hand side that they may leave
    refinements: int = 4
    left: float = 1e-12  # of an average state's flow, or ...
    early: float = 1e-7  # ... of the gap, where that is more: 1e-5 keeps grids from ending


USUAL = Tuning()


def own_states(mdp: MDP, G: csr_array) -> Ints:
    """For each row the state whose pairs alone it counts, unless an earlier row does that; else -1."""
    owner = np.full(G.shape[0], -1)
    sizes = np.diff(G.indptr)
    some = sizes > 0
    if some.any():
        states = mdp.s_of[G.indices]
        firsts = G.indptr[:-1][some]
        low, high = np.minimum.reduceat(states, firsts), np.maximum.reduceat(states, firsts)
        owner[some] = np.where(low == high, low, -1)
    local = np.flatnonzero(owner >= 0)
    _, kept = np.unique(owner[local], return_index=True)
    again = np.ones(local.size, bool)
    again[kept] = False
    owner[local[again]] = -1
    return owner


class Pattern:
    """What is the same for all quotas: the elements of a model's states, and the order of elimination."""

    def __init__(self, mdp: MDP, tuning: Tuning = USUAL) -> None:
        self._pair_ptr, self._most = mdp.pair_ptr, int(mdp.n_actions.max())
        self._row, col, self._val = mdp.P.indptr.astype(np.int32), mdp.P.indices.astype(np.int32), mdp.P.data
        self._local, self._leaf = np.empty(mdp.P.nnz, np.int32), tuning.leaf
        self.starts, self.nodes = cpu.normal.cliques(
            self._pair_ptr, self._row, col, mdp.n_states, self._local
        )

    @classmethod
    def of(cls, mdp: MDP) -> Pattern:
        """Pattern of a model, known already if it was asked for before."""
        if mdp not in _PATTERNS:
            _PATTERNS[mdp] = cls(mdp)
        return _PATTERNS[mdp]

    @cached_property
    def fronts(self) -> cpu.fronts.Fronts:
        """Fronts of the factorisation."""
        n = self.starts.size - 1
        of_states = csr_array((np.ones(self.nodes.size, np.int32), self.nodes, self.starts), shape=(n, n))
        blocks = cpu.dissection.dissect((of_states.T @ of_states).tocsr(), self._leaf)
        return cpu.fronts.Fronts(blocks, self.starts, self.nodes)

    @property
    def entries(self) -> int:
        """Numbers that the elements take."""
        return int((np.diff(self.starts) ** 2).sum())

    def elements(self, d: Floats, w: Floats, slack: Floats) -> Floats:
        """Element of each state, one after the other."""
        out = np.empty(self.entries)
        cpu.normal.elements(
            self._pair_ptr, self._row, self._val, self._local, self.starts, d, w, slack, self._most, out
        )
        return out


_PATTERNS: WeakKeyDictionary[MDP, Pattern] = WeakKeyDictionary()  # a pattern does not hold its model


class Equations:
    """Normal equations for one model and its quotas, whose weights change from step to step."""

    def __init__(self, mdp: MDP, G: csr_array, tuning: Tuning = USUAL) -> None:
        self._mdp, self._G, self._tuning = mdp, G, tuning
        self._pattern = Pattern.of(mdp)
        self._owner = own_states(mdp, G)
        self.n_wide = int((self._owner < 0).sum())

    @property
    def fronts(self) -> cpu.fronts.Fronts:
        """Fronts of the flow rows."""
        return self._pattern.fronts

    @cached_property
    def _mine(self) -> tuple[Bools, Ints, Floats]:
        """Which quotas are one state's own, of which one, and their coefficients on the pairs."""
        local = self._owner >= 0
        return local, self._owner[local], np.asarray(self._G[local].sum(axis=0)).ravel()

    @cached_property
    def _PT(self) -> csr_array:
        return self._mdp.P.T.tocsr()

    @cached_property
    def _border(self) -> Floats:
        """Mass and wide quotas, (SA, 1 + K)."""
        wide = self._G[self._owner < 0].toarray()
        return np.vstack([np.ones(self._mdp.n_pairs), wide]).T.copy()

    def flow(self, x: Floats) -> Floats:
        """What leaves each state less what comes in, (S,)."""
        return np.add.reduceat(x, self._mdp.pair_ptr[:-1]) - self._PT @ x

    def ahead(self, h: Floats) -> Floats:
        """How much more of h a pair's state has than what follows it, (SA,)."""
        return h[self._mdp.s_of] - self._mdp.P @ h

    def factor(self, d: Floats, slack: Floats, gap: float = 0.0) -> bool:
        """Turn to weights d of the pairs, (SA,), and slacks of the quotas, (K,); False if that overflows.

        Steps need not be more exact than a small part of the gap.
        """
        self._enough = max(self._tuning.left, self._tuning.early * gap)
        local, states, w = self._mine
        own_slack = np.zeros(self._mdp.n_states)
        own_slack[states] = slack[local]
        self._d, self._w, self._slack = d, w, slack
        wdw = np.add.reduceat(d * w * w, self._mdp.pair_ptr[:-1])
        self._total = np.where(wdw > 0, wdw + own_slack, 1.0)
        elements = self._pattern.elements(d, w, own_slack)
        own = elements[np.concatenate([[0], np.cumsum(np.diff(self._pattern.starts) ** 2)[:-1]])]
        heavy = int(np.argmax(own))
        self._pin = heavy, float(own[heavy])
        self.replaced = self.fronts.factor(elements, self._pin)
        WA = np.column_stack([self._weighted(column) for column in self._border.T])
        self._U = np.column_stack([self.flow(column) for column in WA.T])
        self._C = self._border.T @ WA
        wide = np.arange(1, WA.shape[1])
        self._C[wide, wide] += slack[~local]
        self._NU = self.fronts.solve_columns(self._U)
        schur = self._C - self._U.T @ self._NU
        scale = 1 / np.sqrt(np.maximum(np.diag(self._C), _TINY))
        scaled = scale[:, None] * schur * scale
        if not np.isfinite(scaled).all():
            return False
        self._schur = scale[:, None] * _steady_inverse(scaled) * scale
        return True

    def solve(self, aim: Aim) -> Step:
        """One step, and small ones for what rounding has left of its rows."""
        step = self._solve_once(aim)
        off = self._off(aim, step)
        for _ in range(self._tuning.refinements):
            if off.largest <= self._enough:
                break
            more = self._solve_once(off)
            finer = Step(step.x + more.x, step.h + more.h, step.g + more.g, step.mu + more.mu)
            still = self._off(aim, finer)
            if not still.largest < off.largest:
                break
            step, off = finer, still
        return step

    def _off(self, aim: Aim, step: Step) -> Aim:
        """What is left of the rows after a step."""
        return Aim(
            np.zeros_like(step.x),
            aim.flow - self.flow(step.x),
            aim.mass - float(step.x.sum()),
            aim.quota - self._G @ step.x - self._slack * step.mu,
        )

    def _solve_once(self, aim: Aim) -> Step:
        local, states, w = self._mine
        d = self._d
        raised = np.zeros(self._mdp.n_states)
        raised[states] = aim.quota[local] / self._total[states]
        due = self._weighted(aim.w) + d * w * raised[self._mdp.s_of]
        b = np.concatenate(
            [self.flow(due) - aim.flow, self._border.T @ due - np.append(aim.mass, aim.quota[~local])]
        )
        v = self._conjugate_gradients(b)
        S = self._mdp.n_states
        rest = aim.w - self.ahead(v[:S]) - self._border @ v[S:]
        x = self._weighted(rest) + d * w * raised[self._mdp.s_of]
        mu = np.empty(local.size)
        mu[~local] = -v[S + 1 :]
        along = np.add.reduceat(d * w * rest, self._mdp.pair_ptr[:-1])[states]
        mu[local] = (aim.quota[local] - along) / self._total[states]
        return Step(x, v[:S], float(v[S]), mu)

    def _weighted(self, y: Floats) -> Floats:
        """Return W y."""
        local, _, w = self._mine
        if not local.any():
            return self._d * y
        along = np.add.reduceat(self._d * w * y, self._mdp.pair_ptr[:-1]) / self._total
        return self._d * (y - w * along[self._mdp.s_of])

    def _apply(self, v: Floats) -> Floats:
        S = self._mdp.n_states
        weighted = self._weighted(self.ahead(v[:S]) + self._border @ v[S:])
        out = np.concatenate([self.flow(weighted), self._border.T @ weighted])
        out[self._pin[0]] += self._pin[1] * v[self._pin[0]]
        out[S + 1 :] += self._slack[self._owner < 0] * v[S + 1 :]
        return out

    def _precondition(self, b: Floats) -> Floats:
        S = self._mdp.n_states
        y = self.fronts.solve(b[:S])
        beta = self._schur @ (b[S:] - self._U.T @ y)
        return np.concatenate([y - self._NU @ beta, beta])

    def _conjugate_gradients(self, b: Floats) -> Floats:
        v = self._precondition(b)
        left = b - self._apply(v)
        best, best_left = v, float(np.abs(left).max())
        goal = max(self._enough, self._tuning.part * float(np.abs(b).max()))
        p, last = np.zeros_like(b), 1.0
        self.cg = 0
        for _ in range(self._tuning.steps):
            if best_left <= goal:
                break
            z = self._precondition(left)
            rho = float(left @ z)
            p = z + (rho / last) * p if self.cg else z
            last = rho
            Ap = self._apply(p)
            curve = float(p @ Ap)
            if not curve > 0 or not rho > 0:
                break
            v = v + rho / curve * p
            left = left - rho / curve * Ap
            self.cg += 1
            now = float(np.abs(left).max())
            if not np.isfinite(now):
                break
            if now < best_left:
                best, best_left = v, now
        self.left = best_left
        return best


def _steady_inverse(matrix: Floats) -> Floats:
    """Inverse of a small matrix of entries up to 1 that is positive definite but for rounding."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, _ROUNDING * values.size)
    return (vectors / values) @ vectors.T
