"""Quotas that cannot be met: the proof, and the reason in the user's terms.

The elastic program ``min sum e`` with ``G x + e_low - e_high`` inside the bounds always has a solution;
where its value is positive, its duals are a proof that no policy meets the quotas, and ``e`` says how
little the bounds would have to move.
"""

from __future__ import annotations

import math
import time

import numpy as np
from scipy.sparse import csr_array, eye_array, vstack

from fairmdp.certificate import rounded
from fairmdp.certificate.checker import factor_limit, reach_limit
from fairmdp.problem import Problem
from fairmdp.solution import Infeasibility, Solution
from fairmdp.solvers.conclude import conclude, conclude_infeasible
from fairmdp.solvers.flow_lp import Answer, FlowLP
from fairmdp.solvers.policy import policy_of
from fairmdp.validation import Floats

_PRICED = 1e-7  # a quota with a smaller price has no part in a conflict
_LARGE_CONFLICT = 60  # quotas above which no smaller conflict is looked for
_MOST_REACHES = 20  # quotas of a conflict whose own best share is worked out
_DIGITS = 1e9  # nearest quotas are rounded to this many parts, towards what can be met
_NOT_SMALLEST = "the conflict is large, and a part of it may be enough"
_EDGE = "the quotas lie within rounding of what can be met: neither a fair policy nor its absence is proved"


def explain(problem: Problem, *, tol: float, method: str, start: float) -> Solution:
    """Prove that the quotas cannot be met and say why, or return UNDECIDED where that cannot be proved."""
    lp = _Elastic(problem)
    first = lp.run()
    counters = {"iterations": float(first.iterations)}
    conflict, last = _smallest_conflict(lp, first)
    prices, ceiling = _proof(problem, conflict, last)
    smallest = ceiling < 0 and len(conflict) <= _LARGE_CONFLICT
    if ceiling >= 0:  # the last program's duals may be poor where the first one's are not
        conflict, last = np.flatnonzero(np.abs(first.mu) > _PRICED).tolist(), first
        prices, ceiling = _proof(problem, conflict, first)
    if ceiling >= 0:
        return conclude(
            problem,
            policy_of(problem.mdp, first.x),
            last.h,
            prices,
            tol=tol,
            method=method,
            counters={**counters, "seconds": time.perf_counter() - start},
            notes=(_EDGE,),
        )
    looked_at = conflict[:_MOST_REACHES]
    reach_bias = np.array([_reach_witness(problem, k, capped=prices[k] < 0) for k in looked_at])
    reach = [
        reach_limit(problem, k, h, capped=prices[k] < 0) for k, h in zip(looked_at, reach_bias, strict=True)
    ]
    factor, factor_bias, factor_prices = common_factor(problem)
    nearest = lp.nearest(first)
    why = Infeasibility(
        tuple(conflict), np.array(reach), reach_bias, factor, factor_bias, factor_prices, *nearest
    )
    counters["seconds"] = time.perf_counter() - start
    notes = () if smallest else (_NOT_SMALLEST,)
    return conclude_infeasible(
        problem, last.h, prices, why, tol=tol, method=method, counters=counters, notes=notes
    )


class _Elastic:
    """The elastic program over a changing choice of quotas."""

    def __init__(self, problem: Problem) -> None:
        K = problem.n_quotas
        self._problem = problem
        stretch = vstack([eye_array(K), -eye_array(K)], format="csr")
        self._lp = FlowLP(problem, np.zeros(problem.mdp.n_pairs), extra=stretch, c_extra=-np.ones(2 * K))

    def run(self) -> Answer:
        return self._lp.find()

    def drop(self, k: int) -> None:
        self._lp.set_quota(k, 0.0, 1.0)

    def restore(self, k: int) -> None:
        self._lp.set_quota(k, self._problem.at_least[k], self._problem.at_most[k])

    def nearest(self, answer: Answer) -> tuple[Floats, Floats]:
        """Bounds that can be met, moved as little as possible in total."""
        raised, lowered = np.split(answer.extra, 2)
        at_least, at_most = self._problem.at_least, self._problem.at_most
        down = np.floor((at_least - raised) * _DIGITS) / _DIGITS
        up = np.ceil((at_most + lowered) * _DIGITS) / _DIGITS
        moved = 1 / _DIGITS
        return (
            np.where(raised > moved, np.clip(down, 0, 1), at_least),
            np.where(lowered > moved, np.clip(up, 0, 1), at_most),
        )


def _proof(problem: Problem, conflict: list[int], answer: Answer) -> tuple[Floats, float]:
    """Prices of a conflict alone, and what they prove: negative where it cannot be met."""
    prices = np.zeros(problem.n_quotas)
    prices[conflict] = answer.mu[conflict]
    return prices, rounded.ceiling(problem, np.zeros(problem.mdp.n_pairs), answer.h, prices)


def _smallest_conflict(lp: _Elastic, first: Answer) -> tuple[list[int], Answer]:
    """Quotas that cannot hold together, none of which can be spared, and their proof: a deletion filter."""
    priced = np.abs(first.mu) > _PRICED
    suspects = np.flatnonzero(priced).tolist()
    if len(suspects) > _LARGE_CONFLICT:
        return suspects, first
    for k in np.flatnonzero(~priced).tolist():
        lp.drop(k)
    needed: list[int] = []
    last = first
    while suspects:
        k = suspects.pop()
        lp.drop(k)
        without = lp.run()
        if without.objective < -_PRICED:
            last = without
            priced = np.abs(without.mu) > _PRICED
            suspects = [j for j in suspects if priced[j]]
        else:
            lp.restore(k)
            needed.append(k)
    return sorted(needed), lp.run() if last is not first else first


def _reach_witness(problem: Problem, k: int, *, capped: bool) -> Floats:
    """Relative values that prove the largest share of one quota alone, or its smallest."""
    counts = problem.members[[k]].toarray()[0] * (-1.0 if capped else 1.0)
    return FlowLP(problem.without_quotas(), counts).find().h


def common_factor(problem: Problem) -> tuple[float | None, Floats, Floats]:
    """Largest factor on all ``at_least`` that can be met together with the caps, and its witness."""
    S, K = problem.mdp.n_states, problem.n_quotas
    # G x - alpha * at_least >= 0, with alpha a column; the tiny positive bound keeps the row one-sided.
    scaled = problem.with_bounds(at_least=np.where(problem.at_least > 0, 1e-300, 0.0))
    answer = FlowLP(
        scaled, np.zeros(problem.mdp.n_pairs), extra=csr_array(-problem.at_least[None, :]), c_extra=np.ones(1)
    ).run()
    if answer is None or not problem.at_least.any():
        return None, np.zeros(S), np.zeros(K)
    limit = factor_limit(problem, answer.h, answer.mu)
    return (limit if math.isfinite(limit) else None), answer.h, answer.mu
