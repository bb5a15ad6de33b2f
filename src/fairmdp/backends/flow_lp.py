"""Linear programs over the occupancies of an MDP, handed to HiGHS.

All of them share the rows ::

    x(s, .) - sum_i x(i) P(i, s) == 0   each s   (flow)
    sum x                        == 1            (mass)
    at_least <= G x <= at_most                   (quotas)

and may add columns of their own. Inside, ``sum x`` is scaled to the number of states: HiGHS's tolerances
are absolute, and would mean nothing for shares of 1e-5.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
from scipy.sparse import csc_array, csr_array, hstack, vstack

from fairmdp.backends.highs import INFINITE, Algorithm, Basis, Program, linear_program
from fairmdp.deadline import Deadline
from fairmdp.errors import SolverError
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.rows import Rows

_BASIC = int(highspy.HighsBasisStatus.kBasic)
_SPECK = 1e-9  # HiGHS's small_matrix_value; with a lower one it ends without a verdict more often


@dataclass(frozen=True, eq=False)
class Answer:
    """A solved linear program in shares: primal columns, and prices of its rows."""

    objective: float
    x: Floats  # (SA,)
    extra: Floats  # values of the columns beyond x
    h: Floats  # (S,), multiplier of flow: g + h[s] >= r + mu + P @ h
    mu: Floats  # (K,), price of the quotas: positive where at_least binds, negative where at_most does
    iterations: int


class FlowLP:
    """Maximise ``c @ x + c_extra @ y`` over the occupancies; bounds of quotas may be changed between runs.

    ``extra`` has one row per additional column ``y >= 0``, over the K quota rows.
    """

    def __init__(
        self,
        problem: Rows,
        c: Floats,
        *,
        extra: csr_array | None = None,
        c_extra: Floats | None = None,
        algorithm: Algorithm = "simplex",
        deadline: Deadline | None = None,
    ) -> None:
        mdp = problem.mdp
        S, SA, K = mdp.n_states, mdp.n_pairs, problem.n_quotas
        self._sizes, self._n = (S, SA, K), float(S)
        self._members = problem.members
        self._capped: dict[int, int] = {}  # quotas of rows that were added, by row
        self.algorithm = algorithm
        flow = csr_array((np.ones(SA), (np.arange(SA), mdp.s_of)), shape=(SA, S)) - without_specks(mdp.P)
        columns = _columns(flow, problem.members.tocsc())
        if extra is not None:
            assert c_extra is not None
            more = vstack([csr_array((S + 1, extra.shape[0])), extra.T])
            columns = hstack([columns, more], format="csc")
            c = np.concatenate([c, c_extra])
        self._cost_shift = float(c[:SA].max() + c[:SA].min()) / 2  # sum x is fixed, so a shift is free
        c = c - np.where(np.arange(c.size) < SA, self._cost_shift, 0.0)
        self._cost_scale = float(np.abs(c).max()) or 1.0
        low, high = (
            np.concatenate([np.zeros(S), [self._n], bound])
            for bound in _row_bounds(problem.at_least, problem.at_most, self._n)
        )
        lp = linear_program(-c / self._cost_scale, columns, low, high)
        self._program = Program(lp, algorithm, deadline or Deadline(None), conserving=S)

    def set_quota(self, k: int, at_least: float, at_most: float) -> None:
        """Change the bounds of one quota; the next run starts from the last basis."""
        lower, upper = _row_bounds(np.array([at_least]), np.array([at_most]), self._n)
        self._program.highs.changeRowBounds(self._sizes[0] + 1 + k, lower[0], upper[0])

    def add_cap(self, k: int, at_most: float) -> None:
        """Cap the share of one quota by a row of its own, which columns beyond x have no part in."""
        row, highs = self._members[[k]], self._program.highs
        upper = _row_bounds(np.zeros(1), np.array([at_most]), self._n)[1][0]
        self._capped[highs.getNumRow()] = k
        highs.addRow(-INFINITE, upper, row.nnz, row.indices, row.data)

    def add_floor(self, columns: Ints, counts: Floats, at_least: float) -> None:
        """Ask for at least so much of some columns, those beyond x among them."""
        highs = self._program.highs
        highs.addRow(at_least * self._n, INFINITE, columns.size, columns.astype(np.int32), counts)

    @property
    def basis(self) -> Basis:
        """Status of each column and row at the end of the last run."""
        return self._program.basis

    def start_from(self, basis: Basis) -> None:
        """Let the next run begin with the basis of a program of the same size."""
        self._program.start_from(basis)

    def start_from_policy(self, choice: Ints) -> None:
        """Let the next run begin with the basis of a deterministic policy, the pair of each state, (S,).

        Quotas may be broken there: where the policy is the best without them, few steps of the dual simplex
        method lead to the optimum.
        """
        S, SA, K = self._sizes
        basis = np.zeros(SA + S + 1 + K, np.int8)
        basis[choice] = _BASIC
        basis[SA] = _BASIC  # one row of the flow follows from the others
        basis[SA + S + 1 :] = _BASIC
        self.start_from(basis)

    def run(self) -> Answer | None:
        """Solve; None means that HiGHS found no point that meets the quotas (which proves nothing yet)."""
        return self.point() if self._program.solve() else None

    def point(self) -> Answer:
        """Where the search is: at the optimum after a run, on the way to it after one that was cut off."""
        S, SA, K = self._sizes
        point = self._program.point
        columns = point.columns / self._n
        duals = -point.row_duals * self._cost_scale
        mu = 0.0 - duals[S + 1 : S + 1 + K]
        np.subtract.at(mu, list(self._capped.values()), duals[list(self._capped)])
        return Answer(
            objective=self._cost_shift - point.cost * self._cost_scale / self._n,
            x=np.maximum(columns[:SA], 0.0),
            extra=columns[SA:],
            h=duals[:S],
            mu=mu,
            iterations=point.iterations,
        )

    def find(self) -> Answer:
        """Solve a program that has a solution for certain."""
        answer = self.run()
        if answer is None:
            raise SolverError("HiGHS finds no occupancy at all: some probabilities are too small for it")
        return answer


def _columns(flow: csr_array, members: csc_array) -> csc_array:
    """Columns of the pairs: what flows out of states, (SA, S), their mass, what quotas count, (K, SA)."""
    SA, S = flow.shape
    first, last = flow.indptr, members.indptr
    ptr = first + np.arange(SA + 1) + last
    at = np.arange(flow.nnz) + np.repeat(ptr[:-1] - first[:-1], np.diff(first))
    mass = ptr[1:] - np.diff(last) - 1
    after = np.arange(members.nnz) + np.repeat(mass + 1 - last[:-1], np.diff(last))
    rows, data = np.empty(ptr[-1], np.int32), np.empty(ptr[-1])
    rows[at], rows[mass], rows[after] = flow.indices, S, S + 1 + members.indices
    data[at], data[mass], data[after] = flow.data, 1.0, members.data
    return csc_array((data, rows, ptr), shape=(S + 1 + members.shape[0], SA))


def without_specks(P: csr_array) -> csr_array:
    """P with what HiGHS would take for zero added to the largest entry of its row.

    Rows that lose mass leave no point that conserves flow; moved about, it changes the answer by that little.
    """
    speck = P.data < _SPECK
    if not speck.any():
        return P
    rows = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))
    values = np.where(speck, 0.0, P.data)
    largest = np.lexsort((values, rows))[P.indptr[1:] - 1]
    values[largest] += np.bincount(rows[speck], P.data[speck], minlength=P.shape[0])
    return csr_array((values, P.indices, P.indptr), shape=P.shape)


def _row_bounds(at_least: Floats, at_most: Floats, n: float) -> tuple[Floats, Floats]:
    """Bounds of quota rows, free where a quota asks for nothing."""
    return (
        np.where(at_least > 0, at_least * n, -INFINITE),
        np.where(at_most < 1, at_most * n, INFINITE),
    )
