"""Quotas that cannot be met: the proof, and the reason in the user's terms.

The elastic problem ``min sum e`` with ``G x + e_low - e_high`` inside the bounds always has a solution; where
its value is positive, its prices are a proof that no policy meets the quotas, and ``e`` says how little the
bounds would have to move. An `Engine` solves it and two relatives of it; this module asks for a smallest
conflict, for what each of its quotas could have alone, and for what all could have together. `Programs` are
linear programs over all pairs; `conflict.Columns` does without.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

import numpy as np
from scipy.sparse import csr_array, eye_array, vstack

from fairmdp.backends.flow_lp import FlowLP
from fairmdp.certificate import rounded
from fairmdp.certificate.claim import certify_infeasible, certify_policy, evaluate
from fairmdp.certificate.facts import LongRun, proved_status
from fairmdp.certificate.limits import factor_limit, reach_limit
from fairmdp.chains.policy import policy_of
from fairmdp.deadline import Deadline
from fairmdp.errors import SolverError
from fairmdp.model.checks import Floats
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Infeasibility, Note, Remark, Solution, Status
from fairmdp.solvers.connect import repair

_PRICED = 1e-7  # share of the largest price below which a quota has no part in a conflict
_MOST_REACHES = 20  # quotas of a conflict whose own best share is worked out
_ROOMS = (0.0, 1e-6, 1e-4)  # by which what is proposed may stay away from the edge of what can be met
_USUAL_TOL = 1e-6  # gap up to which what is solved once more is optimal; it is to be fair, no more
_DIGITS = 1e9  # nearest quotas are rounded to this many parts, towards what can be met


class Witness(NamedTuple):
    """Relative values and prices, and where they prove something whatever they stand for."""

    h: Floats  # (S,)
    mu: Floats  # (K,)


class Engine(Protocol):
    """What answers questions about quotas that cannot be met together."""

    @property
    def most(self) -> float:
        """Quotas above which no smaller conflict is looked for."""

    def elastic(self, kept: Sequence[int]) -> Witness:
        """Witness of the least total break of some of the quotas."""

    def reach(self, k: int, capped: bool) -> Floats:
        """Relative values that limit the share of one quota alone, from above or from below, (S,)."""

    def factor(self) -> Witness | None:
        """Witness of the largest factor on all ``at_least`` that can be met together with the caps."""

    def stretch(self) -> tuple[Floats, Floats]:
        """By how much the bounds have to give way at least in total, below and above, (K,) each."""

    def first_met(self, problems: Sequence[Problem]) -> Problem | None:
        """The first of some bounds that a policy is proved to meet; None where none is."""


def explain(problem: Problem, *, tol: float, method: str, start: float) -> Solution:
    """Prove that the quotas cannot be met and say why, or return UNDECIDED where that cannot be proved."""
    engine = Programs(problem)
    first = engine.elastic(range(problem.n_quotas))
    x, counters = engine.x, {"iterations": float(engine.iterations)}
    witness, smallest = smallest_conflict(problem, engine, first)
    proved = ceiling_at_rest(problem, witness) < 0
    why = reasons(problem, engine, witness.mu) if proved else None
    counters["seconds"] = time.perf_counter() - start
    if not proved:
        edge = (Note(Remark.AT_THE_EDGE),)
        return certify_policy(
            problem,
            policy_of(problem.mdp, x),
            *witness,
            tol=tol,
            method=method,
            counters=counters,
            notes=edge,
        )
    notes = () if smallest else (Note(Remark.CONFLICT_MAY_SHRINK),)
    return certify_infeasible(problem, *witness, why, tol=tol, method=method, counters=counters, notes=notes)


def ceiling_at_rest(problem: Problem, witness: Witness) -> float:
    """Ceiling without rewards: negative where no policy meets the quotas."""
    return rounded.ceiling(problem, np.zeros(problem.mdp.n_pairs), *witness)


def smallest_conflict(problem: Problem, engine: Engine, witness: Witness) -> tuple[Witness, bool]:
    """Proof that charges as few quotas as a deletion filter leaves, and whether there are no fewer."""
    witness = _without_specks(witness)
    if np.count_nonzero(witness.mu) > engine.most:
        return witness, False
    needed: set[int] = set()
    while True:
        charged = np.flatnonzero(witness.mu).tolist()
        open_ = [k for k in charged if k not in needed]
        if not open_:
            return witness, True
        k = min(open_, key=lambda j: abs(witness.mu[j]))
        fewer = _without_specks(engine.elastic([j for j in charged if j != k]))
        if ceiling_at_rest(problem, fewer) < 0:
            witness = fewer
        else:
            needed.add(k)


def reasons(problem: Problem, engine: Engine, prices: Floats) -> Infeasibility:
    """What the quotas of a conflict could have, each alone and together."""
    conflict = tuple(np.flatnonzero(prices).tolist())
    looked_at = [(k, bool(prices[k] < 0)) for k in conflict[:_MOST_REACHES]]
    reach_bias = np.array([engine.reach(k, capped) for k, capped in looked_at])
    reach = [
        reach_limit(problem, k, h, capped=capped)
        for (k, capped), h in zip(looked_at, reach_bias, strict=True)
    ]
    factor = common_factor(problem, engine)
    if factor[0] is not None and not _reaches(problem, engine, factor[0]):
        factor = _no_factor(problem)
    return Infeasibility(conflict, np.array(reach), reach_bias, *factor, *_nearest(problem, engine))


def common_factor(problem: Problem, engine: Engine | None = None) -> tuple[float | None, Floats, Floats]:
    """Largest factor on all ``at_least`` that can be met together with the caps, and its witness."""
    found = (engine or Programs(problem)).factor() if problem.at_least.any() else None
    if found is None:
        return _no_factor(problem)
    limit = factor_limit(problem, *found)
    return (limit if math.isfinite(limit) else None), *found


def _no_factor(problem: Problem) -> tuple[float | None, Floats, Floats]:
    return None, np.zeros(problem.mdp.n_states), np.zeros(problem.n_quotas)


def _reaches(problem: Problem, engine: Engine, factor: float) -> bool:
    """Whether a policy is proved to meet the factor, or nearly: occupancies may mix what no policy can."""
    lowered = [
        problem.with_bounds(np.minimum((factor - room) * problem.at_least, problem.at_most))
        for room in _ROOMS
        if factor > room
    ]
    return engine.first_met(lowered) is not None


def _without_specks(witness: Witness) -> Witness:
    size = np.abs(witness.mu)
    return witness._replace(mu=np.where(size > _PRICED * size.max(initial=0.0), witness.mu, 0.0))


def _nearest(problem: Problem, engine: Engine) -> tuple[Floats, Floats]:
    """Bounds that a policy is proved to meet, moved as little as possible in total; else those given."""
    raised, lowered = engine.stretch()
    moved, near = 1 / _DIGITS, []
    for room in _ROOMS:
        down = np.floor((problem.at_least - raised - room) * _DIGITS) / _DIGITS
        up = np.ceil((problem.at_most + lowered + room) * _DIGITS) / _DIGITS
        at_least = np.where(raised > moved, np.clip(down, 0, 1), problem.at_least)
        at_most = np.where(lowered > moved, np.clip(up, 0, 1), problem.at_most)
        near.append(problem.with_bounds(at_least, at_most))
    met = engine.first_met(near) or problem
    return met.at_least, met.at_most


class Programs:
    """An `Engine` of linear programs over all state-action pairs."""

    most = 60

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        K = problem.n_quotas
        stretch = vstack([eye_array(K), -eye_array(K)], format="csr")
        self._lp = FlowLP(problem, np.zeros(problem.mdp.n_pairs), extra=stretch, c_extra=-np.ones(2 * K))
        self._kept = set(range(K))
        self._stretch: tuple[Floats, Floats] | None = None
        self._runs: list[LongRun] = []  # what is proved of the policies that came nearest

    def elastic(self, kept: Sequence[int]) -> Witness:
        """Witness of the least total break; the first one, of all quotas, is also that of the nearest."""
        for k in self._kept ^ set(kept):
            asked = (self._problem.at_least[k], self._problem.at_most[k]) if k in kept else (0.0, 1.0)
            self._lp.set_quota(k, *asked)
        self._kept = set(kept)
        answer = self._lp.find()
        if self._stretch is None:
            raised, lowered = np.split(answer.extra, 2)
            self._stretch, self.x, self.iterations = (raised, lowered), answer.x, answer.iterations
        return Witness(answer.h, answer.mu)

    def reach(self, k: int, capped: bool) -> Floats:
        """Relative values that limit the share of one quota alone."""
        counts = self._problem.members[[k]].toarray()[0] * (-1.0 if capped else 1.0)
        return FlowLP(self._problem.without_quotas(), counts).find().h

    def factor(self) -> Witness | None:
        """Witness of the largest common factor; None where the caps alone are too much."""
        problem = self._problem
        # G x - alpha * at_least >= 0, with alpha a column; the tiny positive bound keeps the row one-sided.
        owed = problem.at_least > 0
        scaled = problem.with_bounds(
            np.minimum(problem.at_least, 1e-300), np.where(owed, 1.0, problem.at_most)
        )
        column = csr_array(-problem.at_least[None, :])
        lp = FlowLP(scaled, np.zeros(problem.mdp.n_pairs), extra=column, c_extra=np.ones(1))
        for k in np.flatnonzero(owed & (problem.at_most < 1)).tolist():
            lp.add_cap(k, problem.at_most[k])  # on the share, not on what alpha's part leaves of it
        answer = lp.run()
        if answer is None:
            return None
        self._keep(answer.x)
        return Witness(answer.h, answer.mu)

    def stretch(self) -> tuple[Floats, Floats]:
        """What the first elastic program moved."""
        assert self._stretch is not None
        self._keep(self.x)
        return self._stretch

    def first_met(self, problems: Sequence[Problem]) -> Problem | None:
        """Ask the policies that are known already, then solve the program once more, with other bounds."""
        return first_met(problems, self._runs, _meets)

    def _keep(self, x: Floats) -> None:
        self._runs.append(evaluate(self._problem, policy_of(self._problem.mdp, x)).run)


def first_met(
    problems: Sequence[Problem], runs: Sequence[LongRun], meets: Callable[[Problem], bool]
) -> Problem | None:
    """The first problem that one of some policies is proved to meet, else the first that can be met."""
    for problem in problems:
        if any(proved_status(problem, run, math.inf, _USUAL_TOL) is Status.FEASIBLE for run in runs):
            return problem
    return next(filter(meets, problems), None)


def _meets(problem: Problem) -> bool:
    """Whether the policy of a linear program's answer is proved to be fair."""
    answer = None
    with suppress(SolverError):  # what cannot be solved is not proposed
        answer = FlowLP(problem, problem.mdp.r).run()
    if answer is None:
        return False
    policy = policy_of(problem.mdp, answer.x)
    found = certify_policy(problem, policy, answer.h, answer.mu, tol=_USUAL_TOL, method="lp")
    if found.status is Status.UNDECIDED:
        found = repair(problem, found, start=time.perf_counter(), deadline=Deadline(None))
    return found.status in (Status.OPTIMAL, Status.FEASIBLE)
