"""Infeasible quotas of large models: proof, reason and largest factor without an LP over all pairs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from fairmdp.backends.cpu.backend import CpuBackend
from fairmdp.certificate.claim import certify, certify_infeasible, evaluate
from fairmdp.certificate.facts import LongRun
from fairmdp.certificate.limits import factor_limit
from fairmdp.deadline import STOPS, Deadline, Stop, stop_of
from fairmdp.errors import ProblemError, SolverError
from fairmdp.model.checks import Floats, ReadOnly
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Infeasibility, Solution, Status
from fairmdp.solvers.columns import EXACT, PENALTIES, Mixture, Search
from fairmdp.solvers.infeasible import (
    Witness,
    ceiling_at_rest,
    explain,
    first_met,
    reasons,
    smallest_conflict,
)
from fairmdp.solvers.prices import price_box, tightened


@dataclass(frozen=True)
class Tuning:
    """How far the reason for a conflict is looked for."""

    lp_pairs: int = 20_000  # pairs and transitions up to which a linear program explains a conflict
    lp_transitions: int = 300_000
    glance: int = 4  # policies that a quick look for a proof may take


USUAL = Tuning()


_SURE = 1e-9  # break of the quotas that is no rounding
_ROOM = 1e-9  # by which quotas are tightened that are to be met
_FILTER_TOL, _FACTOR_TOL, _NEAREST_TOL, _REACH_TOL = 1e-2, 1e-4, 1e-4, 1e-7


def prove_infeasible(
    problem: Problem,
    witness: Witness,
    *,
    tol: float,
    method: str,
    counters: Mapping[str, float],
    began: float,
    deadline: Deadline,
    tuning: Tuning = USUAL,
) -> Solution | None:
    """Claim that no policy meets the quotas and say why, or None if the witness does not prove it.

    Where the search is stopped before the reason is known, the proof stands by itself.
    """
    if ceiling_at_rest(problem, witness) >= 0:
        return None
    why: Infeasibility | None = None
    stopped = Stop.NOT
    try:
        if problem.mdp.n_pairs <= tuning.lp_pairs and problem.mdp.P.nnz <= tuning.lp_transitions:
            with suppress(SolverError):  # the way of large models needs no linear program over all pairs
                return explain(problem, tol=tol, method=method, start=began)
        engine = Columns(problem, deadline)
        witness, _ = smallest_conflict(problem, engine, witness)
        why = reasons(problem, engine, witness.mu)
    except STOPS as stop:
        stopped = stop_of(stop)
    counters = {**counters, "seconds": time.perf_counter() - began}
    return certify_infeasible(
        problem, *witness, why, tol=tol, method=method, counters=counters, stopped=stopped
    )


def owed_too_much(problem: Problem, *, tol: float, method: str, deadline: Deadline) -> Solution | None:
    """The proof where disjoint quotas owe more than all of the time: prices of 1, whatever the model."""
    witness = Witness(np.zeros(problem.mdp.n_states), (problem.at_least > 0).astype(float))
    return prove_infeasible(
        problem, witness, tol=tol, method=method, counters={}, began=time.perf_counter(), deadline=deadline
    )


def quick_proof(problem: Problem, prices: Floats, tuning: Tuning = USUAL) -> Witness | None:
    """Witness that the quotas cannot be met, where a few policies suffice for one.

    It is scaled so that the ceiling is below -1 for any rewards between 0 and 1.
    """
    search = _search(problem, Mixture(*price_box(problem)), Deadline(None))
    search.master.penalty = 1.0
    search.run(prices, 1e-2, lambda s: s.upper < -_SURE or len(s.columns) >= tuning.glance)
    if search.upper >= -_SURE:
        return None
    h, mu = search.witness
    return Witness(2 / -search.upper * h, 2 / -search.upper * mu)


@dataclass(frozen=True, eq=False)
class CommonFactor(ReadOnly):
    """Bounds on the largest alpha such that ``alpha * at_least`` and the caps can be met together."""

    lower: float
    upper: float
    bias: Floats  # (S,)
    prices: Floats  # (K,): with bias, the witness of upper


def largest_factor(
    problem: Problem, *, tol: float = _FACTOR_TOL, deadline: Deadline | None = None
) -> CommonFactor:
    """Return how far all ``at_least`` quotas can be scaled together, within tol where possible."""
    search, broken = _largest_factor(problem, tol, deadline or Deadline(None))
    h, mu = search.witness
    lower = search.value if broken <= EXACT else 0.0
    return CommonFactor(lower, factor_limit(problem, h, mu), h, mu)


def _largest_factor(problem: Problem, tol: float, deadline: Deadline) -> tuple[Search, float]:
    """Search for the largest factor that has ended, and by how much its mixture breaks the caps."""
    low, high = price_box(problem)
    owed = np.isfinite(low)
    if not owed.any():
        raise ProblemError("no quota asks for at_least, so there is nothing to scale")
    search = _search(problem, Mixture(low, high, factor=True), deadline)
    mu = np.zeros(low.size)
    mu[owed] = 1 / (owed.sum() * low[owed])
    return search, search.run(mu, 0.8 * tol, lambda s: False)


def _search(problem: Problem, master: Mixture, deadline: Deadline, rewards: Floats | None = None) -> Search:
    """Search on the CPU, without rewards if none are given."""
    rewards = np.zeros(problem.mdp.n_pairs) if rewards is None else rewards
    return Search(CpuBackend(problem, rewards), master, deadline)


class Columns:
    """An `infeasible.Engine` of column generation, for models too large for a linear program."""

    most = np.inf

    def __init__(self, problem: Problem, deadline: Deadline) -> None:
        self._problem, self._deadline = problem, deadline
        self._runs: list[LongRun] = []  # what is proved of the policies that came nearest

    def elastic(self, kept: Sequence[int]) -> Witness:
        """Witness of the least total break of some of the quotas, once it is known to be positive or none."""
        problem = self._problem
        search = self._elastic(Problem(problem.mdp, [problem.quotas[j] for j in kept]), _FILTER_TOL, _SURE)
        mu = np.zeros(problem.n_quotas)
        mu[list(kept)] = search.witness[1]
        return Witness(search.witness[0], mu)

    def reach(self, k: int, capped: bool) -> Floats:
        """Relative values that limit the share of one quota alone."""
        counts = self._problem.members[[k]].toarray()[0] * (-1.0 if capped else 1.0)
        alone = self._problem.without_quotas()
        search = _search(alone, Mixture(*price_box(alone)), self._deadline, counts)
        h: Floats = search.best(np.zeros(0), _REACH_TOL)[1]
        return h

    def factor(self) -> Witness | None:
        """Witness of the largest common factor."""
        search, _ = _largest_factor(self._problem, _FACTOR_TOL, self._deadline)
        self._keep(search)
        return Witness(*search.witness)

    def stretch(self) -> tuple[Floats, Floats]:
        """What the elastic master has to move."""
        search = self._elastic(self._problem, _NEAREST_TOL, np.inf)
        self._keep(search)
        assert isinstance(search.master, Mixture)
        return search.master.stretched()

    def first_met(self, problems: Sequence[Problem]) -> Problem | None:
        """Ask the policies that are known already, then search once more, with other bounds."""
        return first_met(problems, self._runs, self._meets)

    def _keep(self, search: Search) -> None:
        self._runs.append(evaluate(self._problem, search.policy()).run)

    def _meets(self, problem: Problem) -> bool:
        low, high = tightened(*price_box(problem), _ROOM)
        search = _search(problem, Mixture(low, high), self._deadline)
        search.master.penalty = PENALTIES[-1]
        search.run(np.zeros(problem.n_quotas), _NEAREST_TOL, lambda s: s.upper < -_SURE)
        found = certify(
            search.backend, search.policy(), *search.witness, tol=_NEAREST_TOL, method="colgen",
            began=search.began,
        )  # fmt: skip
        return found.status in (Status.OPTIMAL, Status.FEASIBLE)

    def _elastic(self, problem: Problem, tol: float, sure: float) -> Search:
        search = _search(problem, Mixture(*price_box(problem)), self._deadline)
        search.master.penalty = 1.0
        search.run(np.zeros(problem.n_quotas), tol, lambda s: s.upper < -sure)
        return search
