"""Check a solution against a problem: every number that it claims, and the status it carries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fairmdp.certificate import rounded as rounded_arithmetic
from fairmdp.certificate.law import Law, no_law
from fairmdp.device_problem import DeviceProblem
from fairmdp.errors import ProblemError
from fairmdp.problem import Problem
from fairmdp.solution import Infeasibility, Solution, Status
from fairmdp.validation import Floats

FAIR_TOL = 1e-9
"""Share of time by which a quota may be missed and still count as met: binding quotas meet rounding."""

_CLAIM_TOL = 1e-8  # how far a printed number may be from what is proved, relative to its scale


class Arithmetic(Protocol):
    """The two facts of the certificate, in some arithmetic."""

    def ceiling(self, problem: Problem, r: Floats, bias: Floats, prices: Floats) -> float: ...

    def law(self, problem: Problem, policy: Floats) -> Law: ...


@dataclass(frozen=True, eq=False)
class Verdict:
    """What could be proved about a solution.

    Attributes
    ----------
    ok
        Whether every claim of the solution was confirmed.
    status
        What the witnesses prove, whatever the solution says of itself.
    gain
        Interval that contains the long-run average reward of the policy.
    upper
        Proven ceiling on the gain of every policy that meets the quotas.
    shares
        Interval that contains the share of each quota's set, (K, 2).
    messages
        What was not confirmed, one sentence each.
    exact
        Whether the arithmetic was rational.
    """

    ok: bool
    status: Status
    gain: tuple[float, float]
    upper: float
    shares: Floats
    messages: tuple[str, ...]
    exact: bool


def verify(problem: Problem, solution: Solution, *, exact: bool = False) -> Verdict:
    """Re-derive every claim of a solution from the problem and the solution's witnesses.

    Parameters
    ----------
    problem
        The model and quotas that were to be solved.
    solution
        The answer to check; it is not trusted in anything.
    exact
        Evaluate the proofs in rational arithmetic; for small problems.

    Returns
    -------
    Verdict
        With ``ok`` True only if the policy's gain and every share, the upper bound and the status are
        what the solution says. The nearest bounds of an infeasibility are advice without a witness.

    Examples
    --------
    >>> from fairmdp import scenarios, solve
    >>> problem = scenarios.three_state(rho=[0.1, 0.1, 0.25])
    >>> verdict = verify(problem, solve(problem), exact=True)
    >>> verdict.ok, round(verdict.upper, 6)
    (True, 0.443421)
    """
    for what, given, kind in (("problem", problem, Problem), ("solution", solution, Solution)):
        if not isinstance(given, kind):
            raise ProblemError(
                f"{what} is {type(given).__name__}, expected {kind.__name__}\n"
                "  what was learned from samples is proved by certify"
            )
    arithmetic: Arithmetic = rounded_arithmetic
    if exact:
        from fairmdp.certificate import exact as exact_arithmetic

        exact_arithmetic.require_small(problem)
        arithmetic = exact_arithmetic
    misfits = tuple(_misfits(problem, solution))
    law = no_law(problem, "there is no policy")
    if misfits:
        return Verdict(False, Status.UNDECIDED, law.gain, math.inf, law.shares, misfits, exact)
    flaw = _policy_flaw(problem, solution.policy) if solution.has_policy else ""
    if solution.has_policy and not flaw:
        law = arithmetic.law(problem, solution.policy)
    witness = (solution.bias, solution.prices)
    upper = arithmetic.ceiling(problem, problem.mdp.r, *witness)
    infeasible = arithmetic.ceiling(problem, np.zeros(problem.mdp.n_pairs), *witness) < 0
    status = proved_status(problem, law, upper, solution.tol)
    if infeasible and status is Status.UNDECIDED:  # a policy that is fair within FAIR_TOL comes first
        status = Status.INFEASIBLE
    messages = [*_status_messages(solution, status)]
    if flaw:
        messages.append(flaw)
    elif solution.has_policy:
        messages += _policy_messages(problem, solution, law)
    if math.isfinite(solution.upper) and upper > solution.upper + _CLAIM_TOL * reward_scale(problem):
        messages.append(
            f"the upper bound {solution.upper:.12g} is not proved: bias and prices give {upper:.12g}"
        )
    if solution.infeasibility is not None:
        messages += _infeasibility_messages(problem, solution, solution.infeasibility, arithmetic)
    return Verdict(not messages, status, law.gain, upper, law.shares, tuple(messages), exact)


def proved_status(problem: Problem | DeviceProblem, law: Law, upper: float, tol: float) -> Status:
    """What a proven law of a policy and a proven ceiling amount to."""
    fair = not law.reason and bool(
        (law.shares[:, 0] - problem.at_least >= -FAIR_TOL).all()  # as slacks are shown
        and (problem.at_most - law.shares[:, 1] >= -FAIR_TOL).all()
    )
    if not fair:
        return Status.UNDECIDED
    return Status.OPTIMAL if upper - law.gain[0] <= tol * reward_scale(problem) else Status.FEASIBLE


def reward_scale(problem: Problem | DeviceProblem) -> float:
    """Unit in which gaps are judged: the span of the rewards, or their size where they are all equal."""
    r = problem.mdp.r
    return float(r.max() - r.min()) or float(np.abs(r).max()) or 1.0


def _misfits(problem: Problem, solution: Solution) -> Iterator[str]:
    """Reasons why a solution cannot even be compared with a problem."""
    digest = solution.provenance.get("problem")
    if digest != problem.digest:
        yield f"this is a solution of another problem ({str(digest)[:12]}, this one is {problem.digest[:12]})"
    S, SA, K = problem.mdp.n_states, problem.mdp.n_pairs, problem.n_quotas
    for name, size in (("policy", SA), ("occupancy", SA), ("visitation", S), ("shares", K)):
        array = getattr(solution, name)
        if not solution.has_policy:
            continue
        if array.shape != (size,):
            yield f"{name} has shape {array.shape}, expected ({size},)"
        elif not np.isfinite(array).all():
            yield f"{name} holds numbers that are not finite"
    for name, size in (("bias", S), ("prices", K), ("at_least", K), ("at_most", K)):
        array = getattr(solution, name)
        if array.shape != (size,) or not np.isfinite(array).all():
            yield f"{name} is not a vector of {size} finite numbers"
        elif name.startswith("at_") and (np.abs(array - getattr(problem, name)) > _CLAIM_TOL).any():
            yield f"{name} is not what the problem asks for"
    if solution.quota_names != problem.names:
        yield "the names of its quotas are not the problem's"
    if solution.infeasibility is not None:
        yield from _unusable_witnesses(problem, solution.infeasibility)
    if solution.units != problem.units:
        yield "units are not those of the problem's weights"
    if not (math.isfinite(solution.tol) and solution.tol > 0):
        yield f"tol is {solution.tol}, expected a positive number"


def _unusable_witnesses(problem: Problem, why: Infeasibility) -> Iterator[str]:
    S, K, looked_at = problem.mdp.n_states, problem.n_quotas, len(why.reach)
    if looked_at > len(why.conflict) or not all(0 <= k < K for k in why.conflict):
        yield f"the conflict is not among the {K} quotas, or has fewer of them than reach"
    for name, shape in (
        ("reach", (looked_at,)), ("reach_bias", (looked_at, S)), ("factor_bias", (S,)),
        ("factor_prices", (K,)), ("nearest_at_least", (K,)), ("nearest_at_most", (K,)),
    ):  # fmt: skip
        array = getattr(why, name)
        if array.shape != shape or not np.isfinite(array).all():
            yield f"{name} is not an array of finite numbers of shape {shape}"


def _status_messages(solution: Solution, proved: Status) -> Iterator[str]:
    strength = {Status.UNDECIDED: 0, Status.FEASIBLE: 1, Status.OPTIMAL: 2}
    claimed = solution.status
    if claimed is proved or claimed is Status.UNDECIDED:
        return
    if Status.INFEASIBLE in (claimed, proved) or strength[proved] < strength[claimed]:
        yield f"the status {claimed.value} is not proved: the witnesses show {proved.value}"


def _policy_flaw(problem: Problem, policy: Floats) -> str:
    """Why a policy is none, or nothing."""
    mdp = problem.mdp
    sums = np.add.reduceat(policy, mdp.pair_ptr[:-1])
    bad = (np.abs(sums - 1) > 1e-9) | (np.minimum.reduceat(policy, mdp.pair_ptr[:-1]) < 0)
    if not bad.any():
        return ""
    s = int(np.argmax(bad))
    return f"the policy is not a distribution at state {mdp.state_name(s)}: it sums to {sums[s]:.12g}"


def _policy_messages(problem: Problem, solution: Solution, law: Law) -> Iterator[str]:
    mdp, policy = problem.mdp, solution.policy
    if law.reason:
        if solution.status is not Status.UNDECIDED:
            yield law.reason
        return
    tol = _CLAIM_TOL + law.error
    low, high = law.gain
    slip = tol * reward_scale(problem)
    if not low - slip <= solution.gain <= high + slip:
        yield f"the gain {solution.gain:.12g} is not the policy's: it lies in [{low:.12g}, {high:.12g}]"
    off = (solution.shares < law.shares[:, 0] - tol) | (solution.shares > law.shares[:, 1] + tol)
    if off.any():
        k = int(np.argmax(off))
        yield (
            f"the share {solution.shares[k]:.12g} of quota {problem.names[k]} is not the policy's: "
            f"it lies in [{law.shares[k, 0]:.12g}, {law.shares[k, 1]:.12g}]"
        )
    nu = solution.visitation
    x = policy * nu[mdp.s_of]
    off_law = (abs(nu.sum() - 1), np.abs(solution.occupancy - x).sum(), np.abs(x @ mdp.P - nu).sum())
    if not max(off_law) <= tol:
        yield "visitation and occupancy are not the long-run law of the policy"


def _infeasibility_messages(
    problem: Problem, solution: Solution, why: Infeasibility, arithmetic: Arithmetic
) -> Iterator[str]:
    """What an explanation of infeasibility claims beyond its proof."""
    outside = np.delete(solution.prices, why.conflict)
    if outside.any():
        yield "the conflict is not proved: the proof also charges quotas outside of it"
    # Claims were made with rounding added outward: exactly evaluated, the same witness may prove more.
    ways = (arithmetic, rounded_arithmetic)
    for k, reach, bias in zip(why.conflict, why.reach, why.reach_bias, strict=False):
        capped = bool(solution.prices[k] < 0)
        limits = [reach_limit(problem, k, bias, capped=capped, arithmetic=way) for way in ways]
        if _strays(reach, limits):
            yield (
                f"the best share {reach:.12g} of quota {problem.names[k]} is not proved: "
                f"its witness gives {limits[0]:.12g}"
            )
    if why.common_factor is not None:
        limits = [factor_limit(problem, why.factor_bias, why.factor_prices, arithmetic=way) for way in ways]
        if _strays(why.common_factor, limits):
            yield (
                f"the largest common factor {why.common_factor:.12g} is not proved: "
                f"its witness gives {limits[0]:.12g}"
            )


def _strays(claimed: float, proved: list[float]) -> bool:
    return not min(proved) - _CLAIM_TOL <= claimed <= max(proved) + _CLAIM_TOL


def reach_limit(
    problem: Problem, k: int, bias: Floats, *, capped: bool, arithmetic: Arithmetic = rounded_arithmetic
) -> float:
    """Proven limit of one quota's share over all policies: no more, or no less where it is capped."""
    counts = problem.members[[k]].toarray()[0] * (-1.0 if capped else 1.0)
    limit = arithmetic.ceiling(problem.without_quotas(), counts, bias, np.zeros(0))
    return -limit if capped else limit


def factor_limit(
    problem: Problem, bias: Floats, prices: Floats, *, arithmetic: Arithmetic = rounded_arithmetic
) -> float:
    """Proven upper bound on alpha such that ``alpha * at_least`` and the caps can be met together."""
    lifted = float(problem.at_least @ np.maximum(prices, 0))
    if lifted <= 0:
        return math.inf
    # The ceiling of r = 0 charges at_least * mu once; at factor alpha it is ceiling - (alpha - 1) * lifted,
    # and a negative one would be a proof of infeasibility.
    return 1 + arithmetic.ceiling(problem, np.zeros(problem.mdp.n_pairs), bias, prices) / lifted
