"""Policies of a drawn model: the one that earns, the one that restores, and how much cushion it takes.

With h the bias of an account under the restoring policy and ``sigma^2`` its asymptotic variance, the account
is a walk that rises by ``slack`` a step, and falls by y with probability about ``exp(-2 slack y / sigma^2)``.
A cushion that grows like a logarithm is therefore enough, once the model is right ::

    cushion(t) = 2 span(h) + sigma^2 / (2 slack) * log((t + 10) / delta)

The slack is what the plan was made for or, of each bound, what all records until now confirm of it, where
that is more: a start from a short log has more slack than it can claim, and the run finds out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtri

from fairmdp.backends.flow_lp import Answer, FlowLP
from fairmdp.backends.highs import Basis
from fairmdp.chains.chain import Chain
from fairmdp.chains.policy import policy_of
from fairmdp.errors import SolverError
from fairmdp.learning.evaluation import per_state
from fairmdp.model.checks import Floats, ReadOnly
from fairmdp.model.mdp import MDP
from fairmdp.online.bounds import Bounds

Mode = Literal["earn", "restore"]

_LOOSER = (1e-9, 1e-7, 1e-5, 1e-3)  # than the largest room that was found, until HiGHS agrees
_HEAD_START = 10  # steps in the logarithm of the cushion at the beginning


@dataclass(frozen=True, eq=False)
class Plan(ReadOnly):
    """A policy, and by how much it oversteps every bound on the model that it was made for."""

    policy: Floats  # (SA,)
    room: float  # negative where the bounds cannot be met


@dataclass(frozen=True, eq=False)
class Cushion(ReadOnly):
    """What the accounts are to hold so that the restoring policy nearly never comes too late."""

    span: Floats  # (B,)
    variance: Floats  # (B,)
    slack: Floats  # (B,)
    delta: float

    def __call__(self, t: int) -> Floats:
        """Height after t steps, (B,); infinite where the restoring policy does not restore."""
        if (self.slack <= 0).any():
            return np.full(self.span.size, np.inf)
        return 2 * self.span + self.variance / (2 * self.slack) * np.log((t + _HEAD_START) / self.delta)


def cushion(
    mean: MDP, records: Floats, policy: Floats, bounds: Bounds, slack: float, delta: float
) -> Cushion:
    """Span, variance and slack of the accounts under a policy, on the mean of what was recorded."""
    chain = Chain.of(mean, policy)
    f = bounds.increments
    average = per_state(mean, policy)
    h = chain.bias(average @ f)
    nu = chain.shares
    x = policy * nu[mean.s_of]
    off = f - x @ f - h[mean.s_of]  # what a step brings, without what follows
    ahead, squared = mean.P @ h, mean.P @ h**2
    variance = x @ (off**2 + 2 * off * ahead + squared)
    error = np.sqrt(x**2 / (records + 1) @ np.maximum(squared - ahead**2, 0.0))
    confirmed = x @ f + float(ndtri(delta)) * error if slack > 0 else slack
    return Cushion(np.ptp(h, axis=0), np.maximum(variance, 0.0), np.maximum(confirmed, slack), delta)


class Planner:
    """Solves drawn models; each linear program begins with the basis of the last one of its kind."""

    def __init__(self, bounds: Bounds, part: float) -> None:
        self._bounds, self._part = bounds, part
        self.bases: dict[str, Basis] = {}

    def earn(self, mdp: MDP) -> Plan:
        """The most reward with the bounds as asked, or missed by the least in common."""
        answer = self._solved("earn", FlowLP(self._bounds.rows(mdp, 0.0), mdp.r))
        return Plan(policy_of(mdp, answer.x), 0.0) if answer is not None else self._least_short(mdp)

    def restore(self, mdp: MDP) -> Plan:
        """The most reward with a part of the largest room that all bounds can have together."""
        room = self._largest_room(mdp)
        answer = None
        if room > 0:
            asked = self._part * room
            answer = self._solved("restore", FlowLP(self._bounds.rows(mdp, asked), mdp.r))
        return self._least_short(mdp, room) if answer is None else Plan(policy_of(mdp, answer.x), asked)

    def _least_short(self, mdp: MDP, room: float | None = None) -> Plan:
        room = min(self._largest_room(mdp) if room is None else room, 0.0)
        for looser in _LOOSER:
            answer = self._solved("least short", FlowLP(self._bounds.rows(mdp, room - looser), mdp.r))
            if answer is not None:
                return Plan(policy_of(mdp, answer.x), room)
        raise SolverError("HiGHS finds no policy that misses the quotas by the least")

    def _largest_room(self, mdp: MDP) -> float:
        """The largest t such that every bound can be overstepped by t, negative if they cannot be met."""
        shift = csr_array(np.outer([-1.0, 1.0], self._bounds.sign))
        rows, nothing = self._bounds.rows(mdp, 0.0), np.zeros(mdp.n_pairs)
        answer = self._solved("room", FlowLP(rows, nothing, extra=shift, c_extra=np.array([1.0, -1.0])))
        if answer is None:
            raise SolverError("HiGHS finds no occupancy of a drawn model")
        return answer.objective

    def _solved(self, kind: str, lp: FlowLP) -> Answer | None:
        if kind in self.bases:
            lp.start_from(self.bases[kind])
        answer = lp.run()
        if answer is not None:
            self.bases[kind] = lp.basis
        return answer
