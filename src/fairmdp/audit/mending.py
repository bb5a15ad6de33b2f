"""The least change that makes a policy fair: as little of its time as possible goes elsewhere.

With ``x0`` the long-run shares of the pairs under the policy ::

    minimise    sum_i max(x0_i - x_i, 0)       over the occupancies x that meet the quotas,

which is the share of time that moves, half of ``sum |x - x0|``: a linear program with one column ``y_i`` and
one row ``x_i + y_i >= x0_i`` for each pair that the policy uses. What comes out is a policy like any other,
and shown only once the certificate has proved it fair. That it is the least change is the program's word.
Of all that move as little, the one that earns the most is taken, which a second program finds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, eye_array, hstack, vstack

from fairmdp.audit.outcomes import occupancy
from fairmdp.backends.cpu.backend import CpuBackend
from fairmdp.backends.flow_lp import FlowLP
from fairmdp.certificate.claim import certify_policy
from fairmdp.chains.policy import NO_MASS, policy_of
from fairmdp.deadline import Deadline, OutOfTimeError
from fairmdp.model.checks import Floats, ReadOnly
from fairmdp.model.problem import Problem
from fairmdp.model.rows import PlainRows
from fairmdp.policy.policy import Policy
from fairmdp.solution.solution import Note, Solution, Status
from fairmdp.solvers.connect import connect, uniform_spread

MOST_PAIRS = 20_000
"""Pairs up to which the least change is looked for."""

_SAME = 1e-6  # probabilities that differ by less are the same
_MOVED = 1e-9  # share of time that may move beyond the least, so that what earns the most can be looked for


class Change(NamedTuple):
    """Another probability of an action, where the policy spends time before or after."""

    state: str
    action: str
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class Mended(ReadOnly):
    """A policy that is fair, as near as can be to one that was not.

    Attributes
    ----------
    solution : Solution
        The policy with all that is proved of it.
    moved : float
        Share of time that goes to other pairs than before.
    changes : tuple of Change
        What is done otherwise, the largest part of the time first.
    """

    solution: Solution
    moved: float
    changes: tuple[Change, ...]


def mend(problem: Problem, policy: Policy, best: Solution, deadline: Deadline) -> Mended | None:
    """Return the least change of a policy that is proved fair, or None where none was proved in time.

    ``best`` is a solution of the problem, whose prices prove what the mended policy could still earn.
    """
    before = occupancy(problem, policy)
    program = _Program(problem.uniform, before, deadline)
    typical = _typical(problem, policy, before)

    def claim(x: Floats, *notes: Note) -> Solution:
        # What was done before where no time is spent now may hold a run there: then all leads to the rest.
        for pi in (_near(problem, x, typical), _decisions(problem, x)):
            found = certify_policy(
                problem, pi, best.bias, best.prices, tol=best.tol, method="mend", notes=notes,
                counters={"seconds": time.perf_counter() - began},
            )  # fmt: skip
            if found.status is not Status.UNDECIDED:
                break
        return found

    began = time.perf_counter()
    try:
        x = program.least(np.zeros(problem.n_quotas))
        if x is None:
            return None
        found = claim(x)
        if found.status is Status.UNDECIDED:
            backend = CpuBackend(problem.uniform)
            spread = uniform_spread(backend)
            if spread is not None:
                found = connect(problem, found, backend.scale, spread, program.least, claim)
    except OutOfTimeError:
        return None
    if found.status is Status.UNDECIDED:
        return None
    moved = float(np.maximum(before - found.occupancy, 0).sum())
    return Mended(found, moved, tuple(_changes(problem, typical, before, found)))


class _Program:
    """The linear programs of the least change, for quotas that may be asked for with some room.

    The first finds how little may move, the second what earns the most of all that moves no more.
    """

    def __init__(self, problem: Problem, before: Floats, deadline: Deadline) -> None:
        self._problem = problem
        K, used = problem.n_quotas, np.flatnonzero(before)
        kept = csr_array((np.ones(used.size), (np.arange(used.size), used)), shape=(used.size, before.size))
        rows = PlainRows(
            problem.mdp,
            vstack([problem.members, kept, csr_array((1, before.size))], format="csr"),
            np.concatenate([problem.at_least, before[used], [0.0]]),
            np.concatenate([problem.at_most, np.ones(used.size + 1)]),
        )
        each, all_ = eye_array(used.size), np.ones((used.size, 1))
        lost = hstack([csr_array((used.size, K)), each, all_], format="csr")  # the last row is what moves
        self._budget = rows.n_quotas - 1
        self._nearest, self._richest = (
            FlowLP(rows, pay, extra=lost, c_extra=np.full(used.size, cost), deadline=deadline)
            for pay, cost in ((np.zeros(before.size), -1.0), (problem.mdp.r, 0.0))
        )

    def least(self, room: Floats) -> Floats | None:
        """Nearest occupancy that meets the quotas with so much room, (K,); None if there is none."""
        low, high = self._problem.at_least, self._problem.at_most
        lower = np.where(low > 0, np.minimum(low + room, 1), 0)
        upper = np.where(high < 1, np.maximum(high - room, 0), 1)
        if (lower > upper).any():
            return None
        for lp in (self._nearest, self._richest):
            for k in range(self._problem.n_quotas):
                lp.set_quota(k, lower[k], upper[k])
        nearest = self._nearest.run()
        if nearest is None:
            return None
        self._richest.set_quota(self._budget, 0.0, nearest.extra.sum() + _MOVED)
        richest = self._richest.run()
        return (nearest if richest is None else richest).x


def _decisions(problem: Problem, x: Floats) -> Floats:
    """Policy of an occupancy, with its probabilities per decision where steps take time, (SA,)."""
    return problem.mdp.per_decision(policy_of(problem.mdp.uniform, x))


def _typical(problem: Problem, policy: Policy, x: Floats) -> Floats:
    """The policy, or of a mixture the stationary one that spends its time alike, (SA,)."""
    return policy.array if not policy.is_mixture else _decisions(problem, x)


def _near(problem: Problem, x: Floats, typical: Floats) -> Floats:
    """Policy of an occupancy; where it spends no time, what was done there before."""
    mdp = problem.mdp
    nu = np.add.reduceat(x, mdp.pair_ptr[:-1])
    idle = (nu <= NO_MASS / mdp.n_states)[mdp.s_of]
    return np.where(idle, typical, _decisions(problem, x))


def _changes(problem: Problem, typical: Floats, before: Floats, found: Solution) -> list[Change]:
    """What is done otherwise where time is spent, by how much of the time that may concern."""
    mdp = problem.mdp
    nu = np.maximum(np.add.reduceat(before, mdp.pair_ptr[:-1]), found.visitation)
    other = np.abs(found.policy - typical)
    concerned = nu[mdp.s_of] * other
    changed = np.flatnonzero((other > _SAME) & (nu > NO_MASS)[mdp.s_of])
    return [
        Change(
            mdp.state_name(int(mdp.s_of[i])), mdp.action_name(i), float(typical[i]), float(found.policy[i])
        )
        for i in changed[np.argsort(-concerned[changed], kind="stable")].tolist()
    ]
