"""Check a solution against a problem: every number that it claims, and the status it carries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, overload

import numpy as np
from scipy.sparse import csr_array

from fairmdp import certificate
from fairmdp.certificate import checker_ends, conditions, exact_ends, rounded_ends
from fairmdp.certificate import rounded as rounded_arithmetic
from fairmdp.certificate.checker_ends import FromStart, StartArithmetic
from fairmdp.certificate.facts import (
    CLAIM_TOL,
    MOST_TOL,
    UNPROVED,
    LongRun,
    chargeable,
    check_tol,
    proved_status,
    reward_scale,
    unknown,
    worst_slack,
)
from fairmdp.certificate.law import Law
from fairmdp.certificate.limits import factor_limit, reach_limit
from fairmdp.certificate.welfare import WelfareVerdict, verify_welfare
from fairmdp.chains.chain import Chain
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, ReadOnly
from fairmdp.model.labels import Labels
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Infeasibility, Solution, Status
from fairmdp.solution.welfare import WelfareSolution
from fairmdp.world.plan import WorldPlan
from fairmdp.world.world import World

if TYPE_CHECKING:
    from fairmdp.certificate.world import WorldVerdict

_OF_A_POLICY = ("gain", "upper", "policy", "occupancy", "visitation", "shares")
_CLAIM_ULPS = 32  # and in units of the spacing of floats as large as the rewards


class Arithmetic(Protocol):
    """The two facts of the certificate, in some arithmetic."""

    def ceiling(self, problem: Problem, r: Floats, bias: Floats, prices: Floats) -> float: ...

    def long_run(self, problem: Problem, policy: Floats, chain: Chain | None = None) -> LongRun: ...


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(ReadOnly):
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
    worst_slack
        Smallest slack of a quota, at the worse end of its interval; infinite where nothing is owed.
    messages
        What was not confirmed, one sentence each.
    exact
        Whether the arithmetic was rational.
    estimates
        What the solution says that nothing proves, one sentence each. How it was found (method, notes,
        counters) is its own account and never looked at.
    """

    ok: bool
    status: Status
    gain: tuple[float, float]
    upper: float
    shares: Floats
    worst_slack: float
    messages: tuple[str, ...]
    exact: bool
    estimates: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """Proven: no fair policy earns more than the policy by more than this."""
        return self.upper - self.gain[0]

    def __repr__(self) -> str:
        said = f"{'confirmed' if self.ok else 'NOT CONFIRMED'}, {self.status}"
        low, high = self.gain
        return f"Verdict({said}, gain in [{low:.6g}, {high:.6g}], worst_slack={self.worst_slack:.3g})"


@overload
def verify(
    problem: Problem, solution: Solution, *, exact: bool = False, tol: float = MOST_TOL
) -> Verdict: ...


@overload
def verify(
    problem: Problem, solution: WelfareSolution, *, exact: bool = False, tol: float = MOST_TOL
) -> WelfareVerdict: ...


@overload
def verify(
    problem: World, solution: WorldPlan, *, exact: bool = False, tol: float = MOST_TOL
) -> WorldVerdict: ...


@np.errstate(over="ignore", invalid="ignore")  # a solution may hold anything; what overflows fits nothing
def verify(
    problem: Problem | World,
    solution: Solution | WelfareSolution | WorldPlan,
    *,
    exact: bool = False,
    tol: float = MOST_TOL,
) -> Verdict | WelfareVerdict | WorldVerdict:
    """Re-derive every claim of a solution from the problem and the solution's witnesses.

    Parameters
    ----------
    problem
        The model and quotas that were to be solved, or the world.
    solution
        The answer to check, of `solve`, `solve_welfare` or `solve_world`; it is not trusted in anything.
    exact
        Evaluate the proofs in rational arithmetic; for small problems.
    tol
        Largest relative gap that may be called optimal, whatever tolerance the solution says it had.

    Returns
    -------
    Verdict
        With ``ok`` True only if the policy's gain and every share, where its time goes, the upper bound and
        the status are what the solution says. ``estimates`` names what has no proof: the nearest bounds of
        an infeasibility, and the numbers of a policy whose long run cannot be proved. Of an answer of
        `solve_welfare` a `WelfareVerdict`, of one of `solve_world` a `WorldVerdict`.

    Examples
    --------
    >>> from fairmdp import scenarios, solve
    >>> problem = scenarios.three_state(rho=[0.1, 0.1, 0.25])
    >>> verdict = verify(problem, solve(problem), exact=True)
    >>> verdict.ok, round(verdict.upper, 6)
    (True, 0.443421)
    """
    if isinstance(problem, Problem) and isinstance(solution, WelfareSolution):
        return verify_welfare(problem, solution, exact=exact, tol=check_tol(tol))
    if isinstance(problem, World) and isinstance(solution, WorldPlan):
        return certificate.verify_world(problem, solution, exact=exact, tol=check_tol(tol))
    if not isinstance(problem, Problem):
        raise _unexpected("problem", problem, Problem)
    if not isinstance(solution, Solution):
        raise _unexpected("solution", solution, Solution)
    arithmetic: Arithmetic = rounded_arithmetic
    if exact:
        certificate.exact.require_small(problem)
        arithmetic = certificate.exact
    misfits = tuple(_misfits(problem, solution, check_tol(tol)))
    run = unknown(problem, UNPROVED)
    if misfits:
        return _verdict(problem, Status.UNDECIDED, run, math.inf, misfits, exact)
    flaw, chain = _policies_flaw(problem, solution) if solution.has_policy else "", None
    facts = _facts(arithmetic, solution)
    if solution.has_policy and not flaw:
        # Where the policy's time goes is a guess to start from, and no more than that.
        if solution.ends is None:
            chain = Chain.of(problem.mdp, solution.policy, guess=solution.visitation)
        run = facts.long_run(problem, solution.policy, chain)
    witness = (solution.bias, solution.prices)
    upper = facts.ceiling(problem, problem.mdp.r, *witness)
    nothing = np.zeros(problem.mdp.n_pairs)
    infeasible = facts.ceiling(problem, nothing, *witness) < 0
    status = proved_status(problem, run, upper, solution.tol)
    if infeasible and status is Status.UNDECIDED:  # a policy that is fair within FAIR_TOL comes first
        status = Status.INFEASIBLE
    messages = [*_status_messages(solution, status)]
    if flaw:
        messages.append(flaw)
    elif isinstance(facts, FromStart) and isinstance(run, Law):
        messages += checker_ends.messages(problem, solution, run, facts, claim_slip(problem))
    elif solution.has_policy:
        messages += _policy_messages(problem, solution, run)
        messages += conditions.messages(problem, solution, arithmetic.long_run, chain)
    if solution.ends is not None:
        messages += checker_ends.price_messages(problem, solution, run if isinstance(run, Law) else None)
    messages += _dual_messages(problem, solution, upper)
    if solution.infeasibility is not None:
        messages += _infeasibility_messages(problem, solution, solution.infeasibility, arithmetic)
    estimates = tuple(_estimates(problem, solution, run))
    return _verdict(problem, status, run, upper, tuple(messages), exact, estimates)


def _unexpected(what: str, given: object, kind: type) -> ProblemError:
    return ProblemError(
        f"{what} is {type(given).__name__}, expected {kind.__name__}\n"
        "  what was learned from samples is proved by certify"
    )


def _facts(arithmetic: Arithmetic, solution: Solution) -> Arithmetic:
    """The facts in an arithmetic, about runs from the start where that is what a solution speaks of."""
    if solution.ends is None:
        return arithmetic
    of_start: StartArithmetic = rounded_ends if arithmetic is rounded_arithmetic else exact_ends
    return FromStart(of_start, solution.ends, solution.visitation)


def _verdict(
    problem: Problem,
    status: Status,
    run: LongRun,
    upper: float,
    messages: tuple[str, ...],
    exact: bool,
    estimates: tuple[str, ...] = (),
) -> Verdict:
    worst = worst_slack(problem, run.shares)
    return Verdict(not messages, status, run.gain, upper, run.shares, worst, messages, exact, estimates)


def _misfits(problem: Problem, solution: Solution, tol: float) -> Iterator[str]:
    """Reasons why a solution cannot even be compared with a problem."""
    digest = solution.provenance.get("problem")
    if digest != problem.digest:
        yield f"this is a solution of another problem ({str(digest)[:12]}, this one is {problem.digest[:12]})"
    S, SA, K = problem.mdp.n_states, problem.mdp.n_pairs, problem.n_quotas
    if solution.has_policy:
        yield from _unusable(solution, occupancy=(SA,), visitation=(S,), shares=(K,))
    if solution.has_policy and (solution.ends is None or solution.ends.policies is None):
        yield from _unusable(solution, policy=(SA,))
    yield from checker_ends.misfits(problem, solution)
    if solution.infeasibility is not None and solution.status is not Status.INFEASIBLE:
        yield f"it explains why no policy meets the quotas, and its status is {solution.status.value}"
    yield from _unusable(solution, bias=(S,), prices=(K,), at_least=(K,), at_most=(K,))
    for name in ("at_least", "at_most"):
        claimed, asked = getattr(solution, name), getattr(problem, name)
        usable = claimed.shape == asked.shape and np.isfinite(claimed).all()
        if usable and (np.abs(claimed - asked) > CLAIM_TOL).any():
            yield f"{name} is not what the problem asks for"
    if solution.quota_names != problem.names:
        yield "the names of its quotas are not the problem's"
    if solution.infeasibility is not None:
        yield from _unusable_witnesses(problem, solution.infeasibility)
    if solution.units != problem.units:
        yield "units are not those of the problem's weights"
    yield from conditions.misfits(problem, solution)
    if solution.labels is not None and solution.labels != Labels.of(problem.mdp):
        yield "its states and actions have not the names of the problem's"
    if not 0 < solution.tol <= tol:
        yield f"tol is {solution.tol:g}, expected a relative gap above 0 and at most {tol:g}"


def _unusable_witnesses(problem: Problem, why: Infeasibility) -> Iterator[str]:
    S, K, looked_at = problem.mdp.n_states, problem.n_quotas, len(why.reach)
    if looked_at > len(why.conflict) or not all(0 <= k < K for k in why.conflict):
        yield f"the conflict is not among the {K} quotas, or has fewer of them than reach"
    if len(set(why.conflict)) < len(why.conflict):
        yield "the conflict names a quota twice"
    yield from _unusable(why, reach=(looked_at,), reach_bias=(looked_at, S), factor_bias=(S,))
    yield from _unusable(why, factor_prices=(K,), nearest_at_least=(K,), nearest_at_most=(K,))


def _unusable(claims: Solution | Infeasibility, **shapes: tuple[int, ...]) -> Iterator[str]:
    """What is wrong with arrays that are needed in these shapes."""
    for name, shape in shapes.items():
        array = getattr(claims, name)
        if array.shape != shape:
            yield f"{name} has shape {array.shape}, expected {shape}"
        elif not np.isfinite(array).all():
            yield f"{name} holds numbers that are not finite"


def _status_messages(solution: Solution, proved: Status) -> Iterator[str]:
    strength = {Status.UNDECIDED: 0, Status.FEASIBLE: 1, Status.OPTIMAL: 2}
    claimed = solution.status
    if claimed is proved or claimed is Status.UNDECIDED:
        return
    if Status.INFEASIBLE in (claimed, proved) or strength[proved] < strength[claimed]:
        yield f"the status {claimed.value} is not proved: the witnesses show {proved.value}"


def _policies_flaw(problem: Problem, solution: Solution) -> str:
    """Why a policy, or one of those of which one is drawn, is none, or nothing."""
    several = None if solution.ends is None else solution.ends.policies
    policies = [solution.policy] if several is None else several
    return next(filter(None, (_policy_flaw(problem, policy) for policy in policies)), "")


def _policy_flaw(problem: Problem, policy: Floats) -> str:
    """Why a policy is none, or nothing."""
    mdp = problem.mdp
    sums = np.add.reduceat(policy, mdp.pair_ptr[:-1])
    bad = (np.abs(sums - 1) > 1e-9) | (np.minimum.reduceat(policy, mdp.pair_ptr[:-1]) < 0)
    if not bad.any():
        return ""
    s = int(np.argmax(bad))
    return f"the policy is not a distribution at state {mdp.state_name(s)}: it sums to {sums[s]:.12g}"


def claim_slip(problem: Problem) -> float:
    """How far a printed gain or ceiling may be from what is proved."""
    size = float(np.abs(problem.mdp.rates).max())
    return CLAIM_TOL * reward_scale(problem) + _CLAIM_ULPS * rounded_arithmetic.EPS * size


def _policy_messages(problem: Problem, solution: Solution, run: LongRun) -> Iterator[str]:
    mdp, nu = problem.mdp, solution.visitation
    x = mdp.per_step(solution.policy) * nu[mdp.s_of]
    (low, high), shares = run.gain, run.shares
    if run.visitation is None:  # of estimates it can only be said that they are of one piece
        if solution.status is not Status.UNDECIDED:
            yield run.reason
        owner, shares = "occupancy", np.tile(problem.members @ x, (2, 1)).T
        low = high = float(mdp.rates @ x)
        off_by = np.abs(x @ mdp.uniform.P - nu).sum() + abs(nu.sum() - 1)
    else:
        owner, off_by = "policy", np.abs(nu - run.visitation).sum() - 2 * run.error
    slip = claim_slip(problem)
    if not low - slip <= solution.gain <= high + slip:
        yield f"the gain {solution.gain:.12g} is not the {owner}'s: it lies in [{low:.12g}, {high:.12g}]"
    off = (solution.shares < shares[:, 0] - CLAIM_TOL) | (solution.shares > shares[:, 1] + CLAIM_TOL)
    if off.any():
        k = int(np.argmax(off))
        yield (
            f"the share {solution.shares[k]:.12g} of quota {problem.names[k]} is not the {owner}'s: "
            f"it lies in [{shares[k, 0]:.12g}, {shares[k, 1]:.12g}]"
        )
    if not (max(off_by, np.abs(solution.occupancy - x).sum()) <= CLAIM_TOL and nu.min() >= 0):
        yield "visitation and occupancy are not the long-run shares of time of the policy"


def _dual_messages(problem: Problem, solution: Solution, upper: float) -> Iterator[str]:
    """What is wrong with prices, and with the ceiling that they and the relative values prove."""
    mu = solution.prices
    unit = reward_scale(problem) if solution.has_policy else float(np.abs(mu).max(initial=0.0))
    idle = np.abs(mu - chargeable(problem, mu)) > CLAIM_TOL * unit
    if idle.any():
        k = int(np.argmax(idle))
        yield f"the price {mu[k]:.12g} of quota {problem.names[k]} is on a bound that every policy meets"
    if not solution.has_policy:
        claimed = (getattr(solution, name) for name in _OF_A_POLICY)
        if not all(np.isnan(numbers).all() for numbers in claimed):
            yield "where no policy meets the quotas there is none to have a gain or shares"
        return
    # Claims were made with rounding added outward: exactly evaluated, the same witness may prove more.
    in_floats = _facts(rounded_arithmetic, solution).ceiling(problem, problem.mdp.r, solution.bias, mu)
    proved = (upper, in_floats)
    slip = claim_slip(problem)
    missing = not math.isfinite(solution.upper)
    unclaimed = missing and solution.upper != -math.inf and solution.status is not Status.OPTIMAL
    if unclaimed and math.inf in proved:
        return
    if missing or not min(proved) - slip <= solution.upper <= max(proved) + slip:
        yield f"the upper bound {solution.upper:.12g} is not proved: bias and prices give {upper:.12g}"


def _estimates(problem: Problem, solution: Solution, run: LongRun) -> Iterator[str]:
    """What a solution says that has no proof."""
    if solution.has_policy and run.flaw is not None:
        yield f"gain, shares and where the time goes are estimates: {run.reason}"
    elif solution.has_policy and run.error > CLAIM_TOL:
        yield f"where the time goes is proved within {run.error:.1g} only"
    why = solution.infeasibility
    if why is None:
        return
    yield "the nearest quotas, and that no part of the conflict is enough, are advice without a witness"
    if why.common_factor is None and problem.at_least.any():
        yield "that the caps alone are too much is advice without a witness"


def _infeasibility_messages(
    problem: Problem, solution: Solution, why: Infeasibility, arithmetic: Arithmetic
) -> Iterator[str]:
    """What an explanation of infeasibility claims beyond its proof."""
    outside = np.delete(solution.prices, why.conflict)
    own = None if solution.ends is None else np.diff(csr_array(solution.ends.component_prices).indptr)
    if outside.any() or (own is not None and np.delete(own, why.conflict).any()):
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
    return not min(proved) - CLAIM_TOL <= claimed <= max(proved) + CLAIM_TOL
