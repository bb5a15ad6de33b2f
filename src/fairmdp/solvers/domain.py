"""The set in which Algorithm 1 moves its occupancies: distributions over pairs that meet the quotas.

``Delta_rho = {x >= 0, sum x == 1, x(G_k) >= rho_k}`` knows nothing of the dynamics. What it takes to project
onto it, or to maximise a linear function over it, depends on how the sets lie: disjoint ones are filled
like vessels, nested ones from the inside out, crossing ones by prices on their atoms (pairs that lie in the
same sets).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import highspy
import numpy as np
from scipy.sparse import csr_array

from fairmdp.errors import ProblemError
from fairmdp.kernels import mirror as kernels
from fairmdp.problem import Problem
from fairmdp.validation import Floats, Ints

_MET = 1e-9


@dataclass(frozen=True, eq=False)
class Domain:
    """Quotas in the terms of the kernels: units of pairs that a projection scales together."""

    kind: Literal["disjoint", "nested", "crossing"]
    owed: Ints  # numbers of the quotas that ask for something
    rho: Floats  # (owed,) their shares
    members: csr_array  # (owed, SA)
    unit_of: Ints  # (SA,)
    unit_rho: Floats  # (units,) what a unit by itself is owed; crossing sets: nothing
    shape: tuple[Ints, Ints]  # nested: parent, first; crossing: ptr, member

    @classmethod
    def of(cls, problem: Problem) -> Domain:
        """Sort out how the quotas of a problem lie; caps and weights are not for this method."""
        if problem.weighted.any():
            k = int(np.argmax(problem.weighted))
            raise ProblemError(
                f"quota {problem.names[k]} has weights; mirror descent takes sets only\n  use method 'lp'"
            )
        if (problem.at_most < 1).any():
            k = int(np.argmax(problem.at_most < 1))
            raise ProblemError(
                f"quota {problem.names[k]} is a cap; mirror descent takes at_least only\n  use method 'lp'"
            )
        mdp = problem.mdp
        owed = np.flatnonzero(problem.at_least > 0)
        rho, members = problem.at_least[owed], problem.members[owed]
        none = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        if (members.T @ np.ones(owed.size)).max(initial=0.0) <= 1:
            group = np.full(mdp.n_pairs, -1, np.int64)
            group[members.indices] = np.repeat(np.arange(owed.size), np.diff(members.indptr))
            unit_of, unit_rho = kernels.units_of_groups(group, rho, mdp.s_of)
            return cls("disjoint", owed, rho, members, unit_of, unit_rho, none)
        sets = np.split(members.indices.astype(np.int64), members.indptr[1:-1])
        try:
            home, tree_rho, parent, first = kernels.laminar_tree(sets, rho, mdp.n_pairs)
        except ValueError:  # two sets cross
            if rho.max() > 1 - _MET:
                k = owed[int(np.argmax(rho))]
                raise ProblemError(
                    f"quota {problem.names[k]} owes all of the time while others cross it\n  use method 'lp'"
                ) from None
            atom_of, ptr, member = kernels.atoms(sets, mdp.n_pairs)
            nothing = np.zeros(int(atom_of.max()) + 1)
            return cls("crossing", owed, rho, members, atom_of, nothing, (ptr, member))
        return cls("nested", owed, rho, members, home, tree_rho, (parent, first))

    def project(self, y: Floats) -> Floats:
        """KL projection of positive weights, (SA,)."""
        if self.kind == "disjoint":
            return kernels.project_blocks(y, self.unit_of, self.unit_rho)
        if self.kind == "nested":
            return kernels.project_laminar(y, self.unit_of, self.unit_rho, *self.shape)
        return kernels.project_overlapping(y, self.unit_of, self.rho, *self.shape)

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
        """``max q @ x`` over the domain, and the prices of the quotas that prove it, (owed,).

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
        n_units = int(self.unit_of.max()) + 1
        Q = np.full(n_units, -np.inf)
        np.maximum.at(Q, self.unit_of, q)
        used = np.flatnonzero(np.isfinite(Q))
        example = np.zeros(n_units, np.int64)
        example[self.unit_of] = np.arange(self.unit_of.size)
        inside = self.members.tocsc()[:, example[used]]  # (owed, used)
        scale = float(np.abs(q).max()) or 1.0
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        infinity = highspy.kHighsInf
        highs.addCol(1.0, -infinity, infinity, 0, np.zeros(0, np.int32), np.zeros(0))
        for rho in self.rho:
            highs.addCol(-rho, 0.0, infinity, 0, np.zeros(0, np.int32), np.zeros(0))
        for column, a in enumerate(used):
            groups = inside.indices[inside.indptr[column] : inside.indptr[column + 1]]
            places = np.concatenate([[0], 1 + groups]).astype(np.int32)
            values = np.concatenate([[1.0], -np.ones(groups.size)])
            highs.addRow(Q[a] / scale, infinity, places.size, places, values)
        highs.run()
        columns = np.array(highs.getSolution().col_value) * scale
        mu = np.maximum(columns[1:], 0.0)
        raised = q + self.members.T @ mu
        return float(raised.max() - self.rho @ mu), mu
