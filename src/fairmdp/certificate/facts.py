"""What is to be proved of a policy, the witness from which it is proved, and what it amounts to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fairmdp.chains.chain import Chain
from fairmdp.chains.components import components_of
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats
from fairmdp.model.mdp import MDP
from fairmdp.solution.solution import Note, Remark, Status, slacks

FAIR_TOL = 1e-9
"""Share of time by which a quota may be missed and still count as met: binding quotas meet rounding."""

MOST_TOL = 1e-2
"""Largest relative gap that `verify` lets a solution call optimal, unless it is told otherwise."""

CLAIM_TOL = 1e-8
"""How far a printed number may be from what is proved, relative to its scale."""

UNPROVED = Note(Remark.SHARES_UNPROVED)

_ROUGH = 1e-3  # error of hitting times; one that is proved is scaled up by it, so finer ones gain nothing


class Stated(Protocol):
    """What is asked for, wherever the model is."""

    @property
    def mdp(self) -> Any: ...

    @property
    def n_quotas(self) -> int: ...

    @property
    def at_least(self) -> Floats: ...

    @property
    def at_most(self) -> Floats: ...


@dataclass(frozen=True, eq=False)
class LongRun:
    """Proven intervals for the long-run gain and shares of a policy; `flaw` says why there are none."""

    gain: tuple[float, float]
    shares: Floats  # (K, 2)
    error: float  # bound on |f @ v - f @ nu| for every f of states within [0, 1], such as a set
    flaw: Note | None = None
    visitation: Floats | None = None  # (S,), whose share of every set of states is right within `error`

    @property
    def reason(self) -> str:
        """Why nothing was proved, in words."""
        if self.flaw is None:
            return ""
        if self.flaw.remark is Remark.SEVERAL_CLASSES:
            classes = int(self.flaw.value)
            return f"the policy's chain has {classes} closed classes: its long-run shares depend on the start"
        return "the policy's chain is so nearly reducible that its shares cannot be proved"


@dataclass(frozen=True, eq=False)
class Witness:
    """A stationary distribution, a state that every other one leads to, and how long that takes: unproved."""

    chain: Chain
    s0: int
    steps: Floats  # (S,), 0 at s0


def find_witness(chain: Chain) -> Witness | Note:
    """Return a witness for the long run of a chain, or the reason why there is none."""
    classes = len(chain.closed_classes)
    if classes > 1:
        return Note(Remark.SEVERAL_CLASSES, classes)
    s0 = int(np.argmax(chain.shares))
    steps = chain.hitting_times(s0, _ROUGH)
    return Witness(chain, s0, steps) if np.isfinite(steps).all() and steps.min() >= 0 else UNPROVED


def unknown(problem: Stated, flaw: Note) -> LongRun:
    """Nothing is known."""
    return LongRun((-math.inf, math.inf), np.tile([0.0, 1.0], (problem.n_quotas, 1)), 1.0, flaw)


def chargeable(problem: Stated, prices: Floats) -> Floats:
    """Prices of bounds that ask for something, (K,), and 0 for those that every policy meets.

    A ceiling holds whatever the prices are. Rounding could leave an idle bound of a weighted quota inside of
    its weights, where a price on it would prove what is not so.
    """
    idle = np.where(prices > 0, problem.at_least <= 0, problem.at_most >= 1)
    return np.where(idle, 0.0, prices)


def worst_slack(problem: Stated, shares: Floats) -> float:
    """Smallest slack of a quota at the worse end of its interval, (K, 2); infinite where nothing is owed."""
    return min(
        float(slacks(ends, problem.at_least, problem.at_most).min(initial=math.inf)) for ends in shares.T
    )


def reward_scale(problem: Stated) -> float:
    """Unit in which gaps are judged: the span of the rewards, or their size where they are all equal.

    Rewards that no run earns again and again, on the way or out of reach, do not count.
    """
    r = problem.mdp.rates
    if isinstance(problem.mdp, MDP):
        lasting = components_of(problem.mdp).internal
        r = r if lasting.all() else r[lasting]
    return float(r.max() - r.min()) or float(abs(r).max()) or 1.0


def proved_status(problem: Stated, run: LongRun, upper: float, tol: float) -> Status:
    """What is proved of a policy and a proven ceiling amount to."""
    if run.flaw is not None or not worst_slack(problem, run.shares) >= -FAIR_TOL:
        return Status.UNDECIDED
    return Status.OPTIMAL if upper - run.gain[0] <= tol * reward_scale(problem) else Status.FEASIBLE


def check_tol(tol: float) -> float:
    """Return tol if it is a sensible accuracy."""
    if not 0 < tol < 1:
        raise ProblemError(f"tol is {tol}, expected a relative gap between 0 and 1, such as 1e-6")
    return float(tol)
