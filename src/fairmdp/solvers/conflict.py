"""Infeasible quotas of large models: proof, reason and largest factor without an LP over all pairs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from fairmdp.certificate import rounded
from fairmdp.certificate.checker import factor_limit, reach_limit
from fairmdp.errors import ProblemError, SolverError
from fairmdp.kernels.bellman import Sweeps
from fairmdp.problem import Problem
from fairmdp.solution import Infeasibility, Solution
from fairmdp.solvers.columns import EXACT, Mixture, Search
from fairmdp.solvers.conclude import conclude_infeasible
from fairmdp.solvers.deadline import STOPS, Deadline, stop_note
from fairmdp.solvers.infeasible import explain
from fairmdp.solvers.prices import price_box
from fairmdp.validation import Floats

_SMALL, _SPARSE = 20_000, 300_000  # pairs and transitions up to which a linear program explains a conflict
_MOST_REACHES = 20  # quotas of a conflict whose own best share is worked out
_PRICED = 1e-7  # share of the largest price below which a quota has no part in a conflict
_GLANCE = 4  # policies that a quick look for a proof may take
_SURE = 1e-9  # break of the quotas that is no rounding


def prove_infeasible(
    problem: Problem,
    bias: Floats,
    prices: Floats,
    *,
    tol: float,
    method: str,
    counters: Mapping[str, float],
    began: float,
    deadline: Deadline,
) -> Solution | None:
    """Claim that no policy meets the quotas and say why, or None if bias and prices do not prove it.

    Where the search is stopped before the reason is known, the proof stands by itself.
    """
    if _ceiling_at_rest(problem, bias, prices) >= 0:
        return None
    why: Infeasibility | None = None
    notes: tuple[str, ...] = ()
    try:
        if problem.mdp.n_pairs <= _SMALL and problem.mdp.P.nnz <= _SPARSE:
            with suppress(SolverError):  # the way of large models needs no linear program over all pairs
                return explain(problem, tol=tol, method=method, start=began)
        bias, prices = _smallest_conflict(problem, bias, prices, deadline)
        why = _reason(problem, prices, deadline)
    except STOPS as stop:
        notes = (stop_note(stop),)
    counters = {**counters, "seconds": time.perf_counter() - began}
    return conclude_infeasible(
        problem, bias, prices, why, tol=tol, method=method, counters=counters, notes=notes
    )


def _reason(problem: Problem, prices: Floats, deadline: Deadline) -> Infeasibility:
    """What the quotas of a conflict could have, each alone and together."""
    conflict = tuple(np.flatnonzero(prices).tolist())
    looked_at = conflict[:_MOST_REACHES]
    reach_bias = np.array([_reach_witness(problem, k, deadline, capped=prices[k] < 0) for k in looked_at])
    reach = [
        reach_limit(problem, k, h, capped=prices[k] < 0) for k, h in zip(looked_at, reach_bias, strict=True)
    ]
    factor, factor_bias, factor_prices = _factor_witness(problem, deadline)
    nearest = _nearest(problem, deadline)
    return Infeasibility(conflict, np.array(reach), reach_bias, factor, factor_bias, factor_prices, *nearest)


def quick_proof(problem: Problem, prices: Floats) -> tuple[Floats, Floats] | None:
    """Bias and prices of a proof that the quotas cannot be met, where a few policies suffice for one.

    They are scaled so that the ceiling is below -1 for any rewards between 0 and 1.
    """
    search = _search(problem, Mixture(*price_box(problem)), None)
    search.master.penalty = 1.0
    search.run(prices, 1e-2, lambda s: s.upper < -_SURE or len(s.columns) >= _GLANCE)
    if search.upper >= -_SURE:
        return None
    h, mu = search.witness
    return 2 / -search.upper * h, 2 / -search.upper * mu


@dataclass(frozen=True, eq=False)
class CommonFactor:
    """Bounds on the largest alpha such that ``alpha * at_least`` and the caps can be met together."""

    lower: float
    upper: float
    bias: Floats  # (S,)
    prices: Floats  # (K,): with bias, the witness of upper


def largest_factor(problem: Problem, *, tol: float = 1e-4, deadline: Deadline | None = None) -> CommonFactor:
    """Return how far all ``at_least`` quotas can be scaled together, within tol where possible."""
    low, high = price_box(problem)
    owed = np.isfinite(low)
    if not owed.any():
        raise ProblemError("no quota asks for at_least, so there is nothing to scale")
    search = _search(problem, Mixture(low, high, factor=True), deadline)
    mu = np.zeros(low.size)
    mu[owed] = 1 / (owed.sum() * low[owed])
    broken = search.run(mu, 0.8 * tol, lambda s: False)
    h, mu = search.witness
    lower = search.value if broken <= EXACT else 0.0
    return CommonFactor(lower, factor_limit(problem, h, mu), h, mu)


def _ceiling_at_rest(problem: Problem, bias: Floats, prices: Floats) -> float:
    """Ceiling without rewards: negative where no policy meets the quotas."""
    return rounded.ceiling(problem, np.zeros(problem.mdp.n_pairs), bias, prices)


def _search(problem: Problem, master: Mixture, deadline: Deadline | None) -> Search:
    """Search without rewards."""
    search = _rewarded(problem, np.zeros(problem.mdp.n_pairs), master)
    search.deadline = deadline or search.deadline
    return search


def _rewarded(problem: Problem, rewards: Floats, master: Mixture) -> Search:
    return Search(problem, Sweeps(problem.mdp, problem.members, rewards), master)


def _elastic(problem: Problem, tol: float, deadline: Deadline) -> Search:
    """Search for the least total break of the quotas, until it is known to be positive or none."""
    search = _search(problem, Mixture(*price_box(problem)), deadline)
    search.master.penalty = 1.0
    search.run(np.zeros(problem.n_quotas), tol, lambda s: s.upper < -_SURE and tol > 1e-3)
    return search


def _smallest_conflict(
    problem: Problem, bias: Floats, prices: Floats, deadline: Deadline
) -> tuple[Floats, Floats]:
    """Proof that charges as few quotas as a deletion filter leaves."""
    needed: set[int] = set()
    while True:
        prices = np.where(np.abs(prices) > _PRICED * np.abs(prices).max(), prices, 0.0)
        open_ = [k for k in np.flatnonzero(prices).tolist() if k not in needed]
        if not open_:
            return bias, prices
        k = min(open_, key=lambda j: abs(prices[j]))
        kept = np.flatnonzero(prices).tolist()
        kept.remove(k)
        fewer = Problem(problem.mdp, [problem.quotas[j] for j in kept])
        search = _elastic(fewer, 1e-2, deadline)
        trial = np.zeros(problem.n_quotas)
        trial[kept] = search.witness[1]
        if _ceiling_at_rest(problem, search.witness[0], trial) < 0:
            bias, prices = search.witness[0], trial
        else:
            needed.add(k)


def _reach_witness(problem: Problem, k: int, deadline: Deadline, *, capped: bool) -> Floats:
    """Relative values that limit the share of one quota alone."""
    counts = problem.members[[k]].toarray()[0] * (-1.0 if capped else 1.0)
    alone = problem.without_quotas()
    search = _rewarded(alone, counts, Mixture(*price_box(alone)))
    search.deadline = deadline
    _, h = search.best(np.zeros(0), 1e-7)
    return h


def _factor_witness(problem: Problem, deadline: Deadline) -> tuple[float | None, Floats, Floats]:
    """Largest common factor of what is owed, with its witness."""
    if not (problem.at_least > 0).any():
        return None, np.zeros(problem.mdp.n_states), np.zeros(problem.n_quotas)
    found = largest_factor(problem, deadline=deadline)
    return (found.upper if math.isfinite(found.upper) else None), found.bias, found.prices


def _nearest(problem: Problem, deadline: Deadline) -> tuple[Floats, Floats]:
    """Bounds that a mixture meets, moved by nearly as little as possible in total."""
    low, high = price_box(problem)
    search = _elastic(problem, 1e-4, deadline)
    near_low, near_high = search.master.stretched(low, high)
    return (
        np.where(np.isfinite(low), np.clip(np.floor(near_low * 1e9) / 1e9, 0, 1), 0.0),
        np.where(np.isfinite(high), np.clip(np.ceil(near_high * 1e9) / 1e9, 0, 1), 1.0),
    )
