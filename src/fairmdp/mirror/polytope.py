"""The set in which Algorithm 1 moves its occupancies: distributions over pairs that meet the quotas.

``Delta_rho = {x >= 0, sum x == 1, x(G_k) >= rho_k}`` knows nothing of the dynamics. What it takes to project
onto it, or to maximise a linear function over it, depends on how the sets lie: disjoint ones are filled
like vessels, nested ones from the inside out, crossing ones by prices on their atoms (pairs that lie in the
same sets). With the largest value of a linear function the gap of a saddle point is found, `gap`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, hstack

from fairmdp.backends.highs import INFINITE, quiet
from fairmdp.errors import ProblemError
from fairmdp.mirror import kernels, tables
from fairmdp.model.checks import Floats, Ints, real_vector
from fairmdp.model.problem import Problem

_MET = 1e-9

KINDS: tuple[Literal["disjoint", "nested", "crossing"], ...] = ("disjoint", "nested", "crossing")


@dataclass(frozen=True, eq=False)
class QuotaPolytope:
    """The distributions that meet the quotas, in units: pairs that a projection scales together."""

    quotas: tables.Quotas  # what each unit by itself is owed; crossing sets: what is owed to each
    owed: Ints  # numbers of the quotas that ask for something
    rho: Floats  # (owed,) their shares
    members: csr_array  # (owed, SA)
    unit_of: Ints  # (SA,)
    n_units: int

    @classmethod
    def of(cls, problem: Problem) -> QuotaPolytope:
        """Sort out how the quotas of a problem lie; caps and weights are not for this method."""
        for unsuitable, what in (
            (problem.weighted, "has weights; mirror descent takes sets only"),
            (problem.at_most < 1, "is a cap; mirror descent takes at_least only"),
        ):
            if unsuitable.any():
                name = problem.names[int(np.argmax(unsuitable))]
                raise ProblemError(f"quota {name} {what}\n  use method 'lp'")
        mdp = problem.mdp
        owed = np.flatnonzero(problem.at_least > 0)
        rho, members = problem.at_least[owed], problem.members[owed]
        if (members.T @ np.ones(owed.size)).max(initial=0.0) <= 1:
            group = np.full(mdp.n_pairs, -1, np.int64)
            group[members.indices] = np.repeat(np.arange(owed.size), np.diff(members.indptr))
            unit_of, unit_rho = units_of_groups(group, rho, mdp.s_of)
            quotas = tables.Quotas(tables.DISJOINT, unit_rho)
            return cls(quotas, owed, rho, members, unit_of, unit_rho.size)
        sets = np.split(members.indices.astype(np.int64), members.indptr[1:-1])
        tree = laminar_tree(sets, rho, mdp.n_pairs)
        if tree is not None:
            unit_of, tree_rho, shape = tree
            quotas = tables.Quotas(tables.NESTED, tree_rho, shape)
            return cls(quotas, owed, rho, members, unit_of, tree_rho.size)
        if rho.max() > 1 - _MET:
            name = problem.names[owed[int(np.argmax(rho))]]
            raise ProblemError(f"quota {name} owes all of the time while others cross it\n  use method 'lp'")
        unit_of, shape = atoms(sets, mdp.n_pairs)
        quotas = tables.Quotas(tables.CROSSING, rho, shape)
        return cls(quotas, owed, rho, members, unit_of, int(unit_of.max()) + 1)

    @property
    def kind(self) -> Literal["disjoint", "nested", "crossing"]:
        """How the sets lie."""
        return KINDS[self.quotas.kind]

    @property
    def course(self) -> tuple[np.ndarray[Any, Any], ...]:
        """All that a run depends on, for the name of its checkpoint."""
        unit_rho = np.zeros(self.n_units) if self.kind == "crossing" else self.quotas.rho
        return (self.unit_of, unit_rho, self.rho, *self.quotas.shape)

    def project(self, y: Floats) -> Floats:
        """KL projection of positive weights, (SA,)."""
        return kernels.project(y, self.unit_of, self.quotas)

    @cached_property
    def start(self) -> Floats:
        """The distribution of largest entropy, from which every other is at most log(SA) away."""
        x = self.project(np.full(self.unit_of.size, 1 / self.unit_of.size))
        if abs(x.sum() - 1) > _MET or (self.members @ x < self.rho - _MET).any():
            raise ProblemError(
                f"no distribution of time meets the {self.rho.size} quotas with room to spare, whatever the "
                "policy\n  method 'lp' says which of them conflict and how far to lower them"
            )
        return x

    def support(self, q: Floats) -> tuple[float, Floats]:
        """``max q @ x`` over the polytope, and the prices of the quotas that prove it, (owed,).

        ``value == max_i (q_i + sum_{k: i in G_k} mu_k) - rho @ mu``.
        """
        if self.kind == "disjoint":
            best = (
                np.maximum.reduceat(q[self.members.indices], self.members.indptr[:-1])
                if self.rho.size
                else self.rho
            )
            mu = float(q.max()) - best
            return float(q.max() - self.rho @ mu), mu
        return self._support_by_prices(q)

    def _support_by_prices(self, q: Floats) -> tuple[float, Floats]:
        """Minimise ``beta - rho @ mu`` over ``beta >= Q_a + sum_{k: a in G_k} mu_k`` for every unit a."""
        Q = np.full(self.n_units, -np.inf)
        np.maximum.at(Q, self.unit_of, q)
        used = np.flatnonzero(np.isfinite(Q))
        example = np.zeros(self.n_units, np.int64)
        example[self.unit_of] = np.arange(self.unit_of.size)
        inside = self.members.tocsc()[:, example[used]]  # (owed, used)
        rows = hstack([np.ones((used.size, 1)), -inside.T], format="csr")
        scale = float(np.abs(q).max()) or 1.0
        highs = quiet()
        nothing = np.zeros(0, np.int32)
        cost, lower = np.concatenate([[1.0], -self.rho]), np.zeros(1 + self.rho.size)
        lower[0] = -INFINITE
        highs.addCols(cost.size, cost, lower, np.full(cost.size, INFINITE), 0, nothing, nothing, np.zeros(0))
        highs.addRows(
            used.size,
            Q[used] / scale,
            np.full(used.size, INFINITE),
            rows.nnz,
            rows.indptr,
            rows.indices,
            rows.data,
        )
        highs.run()
        columns = np.array(highs.getSolution().col_value) * scale
        mu = np.maximum(columns[1:], 0.0)
        raised = q + self.members.T @ mu
        return float(raised.max() - self.rho @ mu), mu


def units_of_groups(group: Ints, rho: Floats, s_of: Ints) -> tuple[Ints, Floats]:
    """Unit of each pair, and what units are owed; the pairs of a state in no group (-1) share a unit."""
    free = group < 0
    states, unit = np.unique(s_of[free], return_inverse=True)
    unit_of = np.array(group, np.int64)
    unit_of[free] = rho.size + unit
    return unit_of, np.concatenate([rho, np.zeros(states.size)])


def laminar_tree(
    sets: Sequence[Ints], rho: Floats, n_pairs: int
) -> tuple[Ints, Floats, tuple[Ints, Ints]] | None:
    """``home, rho, (parent, first)`` of a laminar family, in postorder with the whole set last.

    ``home[i]`` is the smallest set that holds pair i. None if two sets cross.
    """
    by_size = sorted(range(len(sets)), key=lambda k: -len(sets[k]))  # parents before children
    owner = np.full(n_pairs, -1, dtype=np.int64)  # smallest set so far
    up: dict[int, int] = {}
    for k in by_size:
        above = np.unique(owner[sets[k]])
        if above.size != 1:
            return None
        up[k] = int(above[0])
        owner[sets[k]] = k
    children: dict[int, list[int]] = {k: [] for k in [-1, *by_size]}
    for k in by_size:
        children[up[k]].append(k)
    post: list[int] = []
    first_of = {}
    todo = [(-1, False)]
    while todo:  # iterative postorder: nesting may be deep
        k, done = todo.pop()
        if done:
            post.append(k)
        else:
            first_of[k] = len(post)
            todo.append((k, True))
            todo.extend((c, False) for c in children[k])
    at = {k: n for n, k in enumerate(post)}
    home = np.array([at[int(k)] for k in owner], dtype=np.int64)
    parent = np.array([-1 if k == -1 else at[up[k]] for k in post], dtype=np.int64)
    first = np.array([first_of[k] for k in post], dtype=np.int64)
    return home, np.array([1.0 if k == -1 else rho[k] for k in post]), (parent, first)


def atoms(sets: Sequence[Ints], n_pairs: int) -> tuple[Ints, tuple[Ints, Ints]]:
    """``atom_of, (ptr, member)``: pairs in the same sets share an atom; the atoms of each set, as CSR."""
    inside = np.zeros((n_pairs, len(sets)), dtype=bool)
    for g, pairs in enumerate(sets):
        inside[pairs, g] = True
    signature, atom_of = np.unique(inside, axis=0, return_inverse=True)
    lists = [np.flatnonzero(signature[:, g]) for g in range(len(sets))]
    ptr = np.concatenate([[0], np.cumsum([len(m) for m in lists])]).astype(np.int64)
    member = np.concatenate([*lists, np.zeros(0)]).astype(np.int64)
    return atom_of.ravel().astype(np.int64), (ptr, member)


def gap(
    problem: Problem, x: ArrayLike, lam: ArrayLike, M: float, *, polytope: QuotaPolytope | None = None
) -> float:
    """What the two sides could still win: ``max_x' f(x', lam) - min_lam' f(x, lam')``.

    ::

        max over x' of q @ x'  -  r @ x  +  2 M |nu - P.T @ x|_1,      q = r + lam[s_of] - P @ lam

    It is never negative for ``x`` in the polytope and ``|lam| <= 2 M``, and zero exactly at saddle points.
    The last term charges 2 M for a unit of broken flow: with a large M the gap says little but that.

    Parameters
    ----------
    problem
        Quotas with ``at_least`` only; their sets may lie as they like.
    x, lam
        Shares of pairs, (SA,), and prices of flow, (S,).
    M
        Half of the bound on ``lam``.
    polytope
        ``QuotaPolytope.of(problem)``, to save finding it again.

    Examples
    --------
    >>> from fairmdp import scenarios, solve_lp
    >>> problem = scenarios.three_state()
    >>> sol = solve_lp(problem)
    >>> abs(gap(problem, sol.occupancy, -sol.bias, M=1.0)) < 1e-12
    True
    >>> round(gap(problem, QuotaPolytope.of(problem).start, [0, 0, 0], M=1.0), 12)      # 0.685 - 0.25
    0.435

    References
    ----------
    .. [1] Ghalme, Nair, Patil and Zhou, AAMAS 2022, Section 5.
    """
    mdp = problem.mdp
    x, lam = real_vector("x", x, mdp.n_pairs), real_vector("lam", lam, mdp.n_states)
    if not 0 <= M < math.inf:
        raise ProblemError(f"M is {M}, expected a finite number that is not negative")
    polytope = QuotaPolytope.of(problem) if polytope is None else polytope
    broken_flow = np.bincount(mdp.s_of, weights=x, minlength=mdp.n_states) - x @ mdp.P  # (S,)
    best, _ = polytope.support(mdp.r + lam[mdp.s_of] - mdp.P @ lam)
    return best - float(mdp.r @ x) + 2 * M * float(np.abs(broken_flow).sum())
