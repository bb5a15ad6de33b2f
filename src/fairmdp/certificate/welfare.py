"""The proof of a welfare: the ceiling of `rounded` or `exact`, with marginals as rewards, and a conjugate.

For any relative values h, marginals q of the utilities and prices p of the quotas, every policy that meets
the quotas has ::

    w r @ x + W(u)  <=  max_i [ w r_i + (M.T q)_i + (G.T p)_i + (P h)_i - h_{s(i)} ] - p @ b + conj(q)

which is the ceiling of the model that is paid ``w r + M.T q`` plus what `worth.conjugate` proves. A level of
leximin is the same with ``W = 0``, and with what earlier groups have among the quotas: the least utility of
the others is at most ``q @ u`` for q that add up to one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array

from fairmdp import certificate
from fairmdp.certificate import rounded
from fairmdp.certificate.elementary import down, up
from fairmdp.certificate.facts import FAIR_TOL, LongRun, reward_scale, worst_slack
from fairmdp.certificate.worth import conjugate, worth
from fairmdp.model.checks import Floats, ReadOnly
from fairmdp.model.objectives import AlphaFair, Leximin, Objective, group_weights
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Status
from fairmdp.solution.welfare import Level, WelfareSolution

SERVED = 1e-9
"""Utility, in spans of its weights, that counts as nothing where the logarithm of nothing is asked for."""

_CLAIM_TOL = 1e-8
_UNPROVED_STATUS = "the status {} is not proved: the witnesses show {}"


@dataclass(frozen=True, eq=False)
class WelfareVerdict(ReadOnly):
    """What could be proved about an answer of `solve_welfare`.

    Attributes
    ----------
    ok
        Whether every claim was confirmed, of the policy and of its welfare.
    status
        What the witnesses prove of the welfare.
    welfare
        Interval that contains the welfare of the policy.
    upper
        Proven ceiling on the welfare of every policy that meets the quotas.
    gain
        Interval that contains the policy's long-run average reward.
    worst_slack
        Smallest slack of a quota at the worse end of its interval; infinite where nothing is owed.
    levels
        Proven value of each level of leximin.
    messages
        What was not confirmed, one sentence each.
    exact
        Whether the arithmetic was rational.
    """

    ok: bool
    status: Status
    welfare: tuple[float, float]
    upper: float
    gain: tuple[float, float]
    worst_slack: float
    levels: tuple[float, ...]
    messages: tuple[str, ...]
    exact: bool

    @property
    def gap(self) -> float:
        """Proven: no policy that meets the quotas has more welfare than this one by more than this."""
        return self.upper - self.welfare[0]


@dataclass(frozen=True)
class Asked:
    """The welfare that is asked for: of which rows of a problem, and with which weight of the gain."""

    problem: Problem
    objective: Objective
    rows: tuple[int, ...]
    reward: float

    @classmethod
    def of(cls, problem: Problem, fair: WelfareSolution) -> Asked:
        """What an answer says that it was asked."""
        rows = tuple(problem.quota_index(name) for name in fair.over)
        return cls(problem, fair.objective, rows, fair.reward)

    def unit(self, welfare: float) -> float:
        """What gaps of a welfare are measured in: its own size, and the span of the rewards."""
        span = max(float(high - low) for low, high in self.box())
        own = span
        if isinstance(self.objective, AlphaFair) and self.objective.alpha > 0:
            w, alpha = float(group_weights(self.objective, len(self.rows)).sum()), self.objective.alpha
            own = w * span ** (1 - alpha) / (1 - alpha) if alpha < 1 else w if alpha == 1 else abs(welfare)
        return own + self.reward * (reward_scale(self.problem) if self.reward else 0.0)

    def box(self) -> list[tuple[Fraction, Fraction]]:
        """Least and largest utility that the weights allow, for each group."""
        return [_range(self.problem, k) for k in self.rows]

    def utilities(self, shares: Floats) -> tuple[list[Fraction], list[Fraction]]:
        """Ends of the utilities, from those of all shares, (K, 2)."""
        low, high = ([_stated(self.problem, k, float(shares[k, end])) for k in self.rows] for end in (0, 1))
        return low, high

    def welfare(self, run: LongRun) -> tuple[float, float]:
        """Interval of the welfare of a policy whose long run is proved."""
        low, high = worth(self.objective, *self.utilities(run.shares))
        return down(self._with_gain(low, run.gain[0])), up(self._with_gain(high, run.gain[1]))

    def _with_gain(self, worth: Fraction | float, gain: float) -> Fraction | float:
        if not self.reward or not isinstance(worth, Fraction):
            return worth
        return worth + Fraction(self.reward) * Fraction(gain) if math.isfinite(gain) else gain

    def ceiling(
        self, bias: Floats, marginals: Floats, prices: Floats, arithmetic: certificate.checker.Arithmetic
    ) -> float:
        """Proven bound on the welfare of every policy that meets the quotas."""
        raised, lost = self._paid(self.reward, marginals, arithmetic is certificate.exact)
        top = arithmetic.ceiling(self.problem, raised, bias, prices)
        beyond = conjugate(self.objective, [Fraction(q) for q in marginals.tolist()], self.box())
        if not (math.isfinite(top) and math.isfinite(beyond)):
            return math.inf if top == math.inf or beyond == math.inf else -math.inf
        return up(Fraction(top) + lost + Fraction(beyond))

    def level(
        self, level: Level, kept: Sequence[int], shares: Floats, arithmetic: certificate.checker.Arithmetic
    ) -> float:
        """Proven bound on what all groups can have that are not among those which keep their shares."""
        q = [Fraction(value) for value in level.marginals.tolist()]
        closed = [k in kept for k in self.rows]
        if min(q) < 0 or sum(q) <= 0 or any(value for value, shut in zip(q, closed, strict=True) if shut):
            return math.inf
        floors = self.problem.at_least.copy()
        floors[list(kept)] = np.maximum(floors, np.minimum(shares[:, 0], self.problem.at_most))[list(kept)]
        raised, lost = self._paid(0.0, level.marginals, arithmetic is certificate.exact)
        top = arithmetic.ceiling(
            self.problem.with_bounds(floors) if kept else self.problem, raised, level.bias, level.prices
        )
        return up((Fraction(top) + lost) / sum(q)) if math.isfinite(top) else top

    def _paid(self, reward: float, marginals: Floats, exact: bool) -> tuple[Floats, Fraction]:
        """``reward r + M.T q`` of a decision, rounded, (SA,), and how much per time any pair may lack."""
        r, M = self.problem.mdp.r, self.problem.weights[list(self.rows)]
        durations = self.problem.mdp.durations
        times = np.ones(r.size) if durations is None else durations  # of a decision, which earns u all along
        paid = reward * r + times * (M.T @ marginals)
        if exact:
            return paid, _shortfall(paid, reward, r, M, marginals, times)
        size = np.abs(reward * r) / times + abs(M).T @ np.abs(marginals)
        terms = np.bincount(M.indices, minlength=r.size) + 6
        return paid, Fraction(float((terms * rounded.EPS * size).max())) + Fraction(rounded.TINY)


def verify_welfare(problem: Problem, fair: WelfareSolution, *, exact: bool, tol: float) -> WelfareVerdict:
    """Re-derive every claim of an answer of `solve_welfare`; `verify` comes here."""
    arithmetic: certificate.checker.Arithmetic = certificate.exact if exact else rounded
    policy = certificate.verify(problem, fair.solution, exact=exact, tol=max(tol, fair.solution.tol))
    messages = [*policy.messages, *_misfits(problem, fair, tol)]
    nowhere = (-math.inf, math.inf)
    if messages or not fair.has_policy:
        status = Status.UNDECIDED if messages else policy.status
        if not messages and fair.status is not status:
            messages.append(_UNPROVED_STATUS.format(fair.status.value, status.value))
        return WelfareVerdict(
            not messages, status, nowhere, math.inf, policy.gain, policy.worst_slack, (), tuple(messages),
            exact,
        )  # fmt: skip
    asked = Asked.of(problem, fair)
    proved = prove(asked, fair, policy.gain, policy.shares, arithmetic)
    again = prove(asked, fair, policy.gain, policy.shares, rounded) if exact else proved
    messages += _claims(asked, fair, proved, again)
    return WelfareVerdict(
        not messages, proved.status, proved.welfare, proved.upper, policy.gain, policy.worst_slack,
        proved.levels, tuple(messages), exact,
    )  # fmt: skip


@dataclass(frozen=True)
class Proved:
    """What the witnesses of an answer amount to."""

    status: Status
    welfare: tuple[float, float]
    upper: float
    levels: tuple[float, ...]


def prove(
    asked: Asked,
    fair: WelfareSolution,
    gain: tuple[float, float],
    shares: Floats,
    arithmetic: certificate.checker.Arithmetic,
) -> Proved:
    """Evaluate the witnesses of an answer whose policy has this gain and these shares, (K, 2)."""
    run = LongRun(gain, shares, 0.0)
    low, high = asked.welfare(run)
    levels: list[float] = []
    kept: list[int] = []
    for level in fair.levels:
        levels.append(asked.level(level, kept, shares, arithmetic))
        kept += [asked.problem.quota_index(name) for name in level.groups]
    span = max(float(b - a) for a, b in asked.box())
    if fair.levels and not isinstance(asked.objective, Leximin):
        none = levels[0] <= SERVED * span + _reference(asked.objective)
        return Proved(Status.INFEASIBLE if none else Status.UNDECIDED, (low, high), math.inf, tuple(levels))
    fair_enough = worst_slack(asked.problem, shares) >= -FAIR_TOL and math.isfinite(low)
    if isinstance(asked.objective, Leximin):
        upper, gap = levels[0] if levels else math.inf, _worst_level(asked, fair, levels, shares)
    else:
        upper = asked.ceiling(fair.bias, fair.marginals, fair.prices, arithmetic)
        gap = upper - low
    best = gap <= fair.tol * asked.unit(low)
    status = Status.OPTIMAL if best else Status.FEASIBLE
    return Proved(status if fair_enough else Status.UNDECIDED, (low, high), upper, tuple(levels))


def certify_welfare(problem: Problem, fair: WelfareSolution, run: LongRun) -> WelfareSolution:
    """Fill in what is proved of a policy and its witnesses, in rounded arithmetic."""
    proved = prove(Asked.of(problem, fair), fair, run.gain, run.shares, rounded)
    levels = tuple(
        replace(level, value=value) for level, value in zip(fair.levels, proved.levels, strict=True)
    )
    return replace(fair, status=proved.status, welfare_upper=proved.upper, levels=levels)


def _worst_level(asked: Asked, fair: WelfareSolution, levels: Sequence[float], shares: Floats) -> float:
    """By how much a level is missed at most, and infinite where groups are left without one."""
    index = {k: i for i, k in enumerate(asked.rows)}
    low, _ = asked.utilities(shares)
    left, gaps = set(asked.rows), []
    for level, value in zip(fair.levels, levels, strict=True):
        if not left:
            return math.inf
        gaps.append(value - float(min(low[index[k]] for k in left)))
        left -= {asked.problem.quota_index(name) for name in level.groups}
    return max(gaps, default=math.inf) if not left else math.inf


def _misfits(problem: Problem, fair: WelfareSolution, tol: float) -> Iterator[str]:
    """Why an answer cannot be looked at."""
    S, K = problem.mdp.n_states, problem.n_quotas
    unknown = [name for name in fair.over if name not in problem.names]
    if unknown or not fair.over or len(set(fair.over)) < len(fair.over):
        yield f"its groups are not distinct rows of the problem: {', '.join(unknown or fair.over) or 'none'}"
        return
    n = len(fair.over)
    stated = getattr(fair.objective, "weights", None)
    if stated is not None and len(stated) != n:
        yield f"the welfare has {len(stated)} weights for {n} groups"
    if not (math.isfinite(fair.reward) and fair.reward >= 0):
        yield f"reward is {fair.reward}, expected a weight of 0 or more"
    if not 0 < fair.tol <= tol:
        yield f"tol is {fair.tol:g}, expected a relative gap above 0 and at most {tol:g}"
    shapes = {"marginals": n, "prices": K, "bias": S}
    for claims in (fair, *fair.levels):
        for name, size in shapes.items():
            array = getattr(claims, name)
            if array.shape != (size,):
                yield f"{name} has shape {array.shape}, expected ({size},)"
            elif not np.isfinite(array).all():
                yield f"{name} holds numbers that are not finite"
    named = [name for level in fair.levels for name in level.groups]
    if len(set(named)) < len(named) or not set(named) <= set(fair.over):
        yield "a level names what is no group, or names a group twice"


def _claims(asked: Asked, fair: WelfareSolution, proved: Proved, again: Proved) -> Iterator[str]:
    """What an answer says that is not what its witnesses give; `again` is the same in rounded arithmetic."""
    strength = {Status.UNDECIDED: 0, Status.FEASIBLE: 1, Status.OPTIMAL: 2}
    claimed = fair.status
    odd = Status.INFEASIBLE in (claimed, proved.status) and claimed is not proved.status
    if odd or strength.get(proved.status, 3) < strength.get(claimed, 0):
        yield _UNPROVED_STATUS.format(claimed.value, proved.status.value)
    slip = _CLAIM_TOL * asked.unit(fair.welfare if math.isfinite(fair.welfare) else 1.0)
    low, high = proved.welfare
    if not low - slip <= fair.welfare <= high + slip:
        yield f"the welfare {fair.welfare:.12g} is not the policy's: it lies in [{low:.12g}, {high:.12g}]"
    if not _near(fair.welfare_upper, (proved.upper, again.upper), slip):
        upper = fair.welfare_upper
        yield f"the upper bound {upper:.12g} is not proved: the witnesses give {proved.upper:.12g}"
    for k, level in enumerate(fair.levels):
        value = proved.levels[k]
        if not _near(level.value, (value, again.levels[k]), slip):
            yield f"level {k + 1}, {level.value:.12g}, is not proved: its witness gives {value:.12g}"


def _near(claimed: float, proved: tuple[float, float], slip: float) -> bool:
    return claimed in proved or min(proved) - slip <= claimed <= max(proved) + slip


def _range(problem: Problem, k: int) -> tuple[Fraction, Fraction]:
    """Least and largest mean that a row allows, as stated."""
    if not problem.weighted[k]:
        return Fraction(0), Fraction(1)
    counted = problem.weights.data[problem.weights.indptr[k] : problem.weights.indptr[k + 1]]
    rest = [0.0] if counted.size < problem.mdp.n_pairs else []
    return Fraction(min([float(counted.min()), *rest])), Fraction(max([float(counted.max()), *rest]))


def _stated(problem: Problem, k: int, share: float) -> Fraction:
    """A share in the numbers of its row, without rounding."""
    if not problem.weighted[k]:
        return Fraction(share)
    units = problem.units.of(k)
    return Fraction(float(units.offset)) + Fraction(float(units.scale)) * Fraction(share)


def _reference(objective: Objective) -> float:
    return objective.reference if isinstance(objective, AlphaFair) else 0.0


def _shortfall(
    paid: Floats, reward: float, r: Floats, M: csr_array, marginals: Floats, times: Floats
) -> Fraction:
    """Most by which ``reward r + M.T marginals`` is above what it was rounded to, per unit of time."""
    tau = [Fraction(time) for time in times.tolist()]
    owed = [Fraction(reward) * Fraction(value) for value in r.tolist()]
    for k, q in enumerate(marginals.tolist()):
        row = slice(M.indptr[k], M.indptr[k + 1])
        for i, weight in zip(M.indices[row].tolist(), M.data[row].tolist(), strict=True):
            owed[i] += tau[i] * Fraction(q) * Fraction(weight)
    given = [Fraction(value) for value in paid.tolist()]
    return max((a - b) / time for a, b, time in zip(owed, given, tau, strict=True))
