"""The default learner: an exact Fair-LP on the counts of a simulator, with a margin on every quota.

The policy of an estimated model is unbiased around its quotas, so it would miss a binding one half of the
time however many samples are drawn. Each quota is therefore made stricter by ``z * se``, where ``se`` is
the first-order error of its share. For a policy with occupancy ``x``, chain ``P_pi``, law ``nu`` and
``H = (I - P_pi + 1 nu)^-1 f`` ::

    nu_true @ f - nu @ f ~ sum_i x(i) (P_true - P)(i) @ H,      se^2 = sum_i x(i)^2 Var_i(H) / n(i)

and samples go where this says that they matter (Neyman allocation).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack
from scipy.special import ndtri

from fairmdp.chain import NEARLY_REDUCIBLE, Chain
from fairmdp.errors import ProblemError, SimulatorError
from fairmdp.learning.counts import (
    Counts,
    RunChunks,
    Tally,
    sample_pairs,
    seed_stream,
    shell_model,
    spread_evenly,
)
from fairmdp.learning.estimate import Estimate
from fairmdp.mdp import MDP
from fairmdp.problem import Problem
from fairmdp.quota import Quota
from fairmdp.simulator import CheckedSimulator, Simulator
from fairmdp.solvers.flow_lp import Answer, FlowLP
from fairmdp.solvers.policy import policy_of
from fairmdp.validation import Floats, Ints

Progress = Callable[[int, int, Callable[[], Estimate]], None]

LEARNING = 0
"""Key of the stream of seeds that learning draws from; `certify` has one of its own."""

FLOOR = 100  # samples per pair, on average, from which the level of the margin was measured to hold
FIRST = 50  # samples of every pair before any are steered; fewer miss rare successors
_STEERED = 0.9  # share of the samples that goes where the errors are; the rest is spread evenly
_ACCURACY = 0.01  # of the rewards' span and of each quota: what the allocation aims at for a fixed budget
_PASSES = 2  # times that the margin is computed at the policy of the last one
_HALVINGS = 10  # of the margin, where the whole of it cannot be met
_MOST_SAMPLES = 10**9  # where a run for an accuracy gives up
_DENSE = 2000  # states up to which the deviation matrix is formed
_JOIN = 1e-10  # probability of a jump that joins closed classes which the samples left apart


def learn_plugin(
    simulator: Simulator,
    quotas: Iterable[Quota],
    *,
    samples: int | None = None,
    eps: float | None = None,
    delta: float = 0.05,
    seed: int | np.random.SeedSequence = 0,
    progress: Progress | None = None,
    run_chunks: RunChunks = map,
) -> Estimate:
    """Learn a fair policy from a simulator: it meets the quotas with probability ``1 - delta``.

    Parameters
    ----------
    simulator
        A generative model; see `Simulator`. Rewards may be random.
    quotas
        What is owed: sets of states by number, or of pairs by state and action.
    samples
        Budget: answers for single pairs. Give this or ``eps``.
    eps
        Accuracy, in units of reward: sampling goes on, in doublings from 100 per pair, until no fair policy
        seems to earn ``eps`` more.
    delta
        Probability with which the claim may fail. It is made from 100 samples per pair on; normal
        approximations stand behind it (`certify` with ``rigorous=True`` needs none).
    seed
        Everything random follows from it: chunk ``k`` of the samples has the seed ``(seed, 0, k)``.
    progress
        Called after every chunk with the samples drawn, those planned so far, and a function that returns
        the estimate so far.
    run_chunks
        How chunks are executed: the built-in ``map``, or an engine, `ProcessPool` or `RayCluster`. Results do
        not depend on it.

    Returns
    -------
    Estimate
        Quotas that cannot be met on the estimated model, or not with the whole margin, are an answer, not
        an exception: ``guaranteed`` is False and ``claim`` says why. Ctrl-C returns the estimate so far
        with ``finished=False``; a `SimulatorError` carries it as ``partial``.

    Examples
    --------
    >>> from fairmdp import Quota, scenarios
    >>> simulator = scenarios.three_state().mdp.simulator()
    >>> learned = learn_plugin(simulator, [Quota("s2", states=[2], at_least=0.25)], samples=6000, seed=1)
    >>> learned
    Estimate(gain=0.4394 +- 0.002, worst_slack=0.0036, samples=6000, guaranteed)
    >>> print(learned.claim)
    the policy meets every quota, with probability 0.95 over the samples
    """
    started = time.perf_counter()
    _check_goal(samples, eps, delta)
    checked = CheckedSimulator(simulator)
    owed = Problem(shell_model(checked), quotas)
    n_pairs = owed.mdp.n_pairs
    if samples is not None and samples < n_pairs:
        raise ProblemError(
            f"{samples} samples are too few for {n_pairs} state-action pairs\n"
            f"  give at least one per pair; a claim takes {FLOOR} per pair, {FLOOR * n_pairs} in all"
        )
    level = _Level.of(owed, delta, eps)
    tally = Tally(n_pairs, owed.mdp.n_states)
    seeds = seed_stream(seed, LEARNING)

    def estimate(finished: bool) -> Estimate:
        fit = _fit(owed, tally.counts, level)
        return _estimate(owed, tally.counts, fit, level, finished, time.perf_counter() - started)

    def draw(times: Ints) -> None:
        planned = tally.total + int(times.sum())
        for chunk in sample_pairs(checked, times, seeds, run_chunks):
            tally.add(chunk)
            if progress is not None:
                progress(tally.total, planned, lambda: estimate(finished=False))

    try:
        fit = None
        for target in _targets(samples, n_pairs):
            draw(_allocation(owed, tally.counts, fit, target - tally.total, eps))
            fit = _fit(owed, tally.counts, level)
            if fit.settles(eps):
                break
    except KeyboardInterrupt:
        if tally.total == 0:
            raise
        return estimate(finished=False)
    except SimulatorError as error:
        error.partial = estimate(finished=False) if tally.total else None
        raise
    assert fit is not None
    finished = eps is None or fit.settles(eps)
    return _estimate(owed, tally.counts, fit, level, finished, time.perf_counter() - started)


@dataclass(frozen=True)
class _Level:
    """Normal quantiles: of each quota's margin, and of each side of the gap; ``eps`` if the claim has one."""

    delta: float
    z_quota: float
    z_gap: float
    eps: float | None

    @classmethod
    def of(cls, owed: Problem, delta: float, eps: float | None) -> _Level:
        bounds = max(int((owed.at_least > 0).sum() + (owed.at_most < 1).sum()), 1)
        share = delta if eps is None else delta / 2  # a claim on the gap takes the other half
        return cls(delta, -float(ndtri(share / bounds)), -float(ndtri(share / 2)), eps)


@dataclass(frozen=True, eq=False)
class Errors:
    """A policy on an estimated model, with the first-order errors of its gain and shares."""

    x: Floats  # (SA,)
    gain: float
    gain_se: float
    shares: Floats  # (K,)
    share_se: Floats  # (K,)
    gain_variance: Floats  # (SA,), of reward + h(s')
    share_variance: Floats  # (SA, K), of H(s')
    deviation: float


@dataclass(frozen=True, eq=False)
class _Fit:
    """Fair-LP on the counts: the policy of the tightened quotas, and what it may lack."""

    policy: Floats
    answer: Answer
    errors: Errors
    margins: Floats
    fraction: float
    gap: float
    short: float  # total shortfall on the estimated model, 0 where the quotas can be met
    surely_short: bool

    def settles(self, eps: float | None) -> bool:
        """Whether the accuracy is reached with the whole margin, or the quotas are out of reach."""
        return eps is not None and ((self.gap <= eps and self.fraction == 1) or self.surely_short)


def pooled_upper(owed: Problem, counts: Counts, z: float) -> float:
    """Value of Fair-LP on the counts plus z standard errors; infinite where the quotas cannot be met."""
    problem = _estimated(owed, counts)
    answer = FlowLP(problem, problem.mdp.r).run()
    return math.inf if answer is None else answer.objective + z * _value_se(problem.mdp, counts, answer)


def evaluate(problem: Problem, counts: Counts, policy: Floats) -> Errors:
    """Gain and shares of a policy on the model of the counts, with standard errors."""
    mdp = problem.mdp
    chain, joined = _joined(Chain.of(mdp, policy))
    nu = chain.shares
    mix = csr_array((policy, np.arange(mdp.n_pairs), mdp.pair_ptr), shape=(mdp.n_states, mdp.n_pairs))
    f = np.column_stack([(mix @ problem.members.T).toarray(), mix @ mdp.r])  # (S, K + 1)
    H, deviation = _relative_values(chain, f)
    x = policy * nu[mdp.s_of]
    unseen = _unseen(counts, nu, H)
    share_variance = counts.variances(H[:, :-1]) + unseen[:, :-1]
    gain_variance = counts.reward_variances(H[:, -1]) + unseen[:, -1]
    weights = x**2 / np.maximum(counts.per_pair, 1)
    return Errors(
        x=x,
        gain=float(mdp.r @ x),
        gain_se=math.sqrt(weights @ gain_variance),
        shares=problem.members @ x,
        share_se=np.sqrt(weights @ share_variance),
        gain_variance=gain_variance,
        share_variance=share_variance,
        deviation=math.inf if joined else deviation,
    )


def _fit(owed: Problem, counts: Counts, level: _Level) -> _Fit:
    """Solve with the quotas as asked, then with the margins that the errors of the last policy call for."""
    problem = _estimated(owed, counts)
    mdp = problem.mdp
    lp = FlowLP(problem, mdp.r)
    free = lp.run()
    if free is None:
        return _least_short(problem, counts, level)
    answer, fraction, margins = free, 1.0, np.zeros(problem.n_quotas)
    errors = evaluate(problem, counts, policy_of(mdp, free.x))
    for _ in range(_PASSES if problem.n_quotas else 0):
        margins = level.z_quota * errors.share_se
        answer, fraction = _tightened(lp, problem, margins, free)
        errors = evaluate(problem, counts, policy_of(mdp, answer.x))
    upper = free.objective + level.z_gap * _value_se(mdp, counts, free)
    return _Fit(
        policy=policy_of(mdp, answer.x),
        answer=answer,
        errors=errors,
        margins=fraction * margins,
        fraction=fraction,
        gap=max(upper - errors.gain + level.z_gap * errors.gain_se, 0.0),
        short=0.0,
        surely_short=False,
    )


def _least_short(problem: Problem, counts: Counts, level: _Level) -> _Fit:
    """Where the quotas cannot be met on the estimate: the policy that misses them by the least in total."""
    K = problem.n_quotas
    stretch = vstack([csr_array(np.eye(K)), csr_array(-np.eye(K))], format="csr")
    nothing = np.zeros(problem.mdp.n_pairs)
    answer = FlowLP(problem, nothing, extra=stretch, c_extra=-np.ones(2 * K)).find()
    policy = policy_of(problem.mdp, answer.x)
    short = max(-answer.objective, 1e-12)  # not 0, even where only rounding stands in the way
    weights = answer.x**2 / np.maximum(counts.per_pair, 1)
    se = math.sqrt(weights @ counts.variances(answer.h[:, None])[:, 0])
    return _Fit(
        policy=policy,
        answer=answer,
        errors=evaluate(problem, counts, policy),
        margins=np.zeros(K),
        fraction=0.0,
        gap=math.inf,
        short=short,
        surely_short=short > level.z_gap * se,
    )


def _tightened(lp: FlowLP, problem: Problem, margins: Floats, free: Answer) -> tuple[Answer, float]:
    """Solve with the largest fraction of the margins that can be met: all of it, or by bisection."""

    def attempt(fraction: float) -> Answer | None:
        low, high = problem.at_least + fraction * margins, problem.at_most - fraction * margins
        low, high = np.where(problem.at_least > 0, low, 0.0), np.where(problem.at_most < 1, high, 1.0)
        if (low > high).any():
            return None
        for k in range(problem.n_quotas):
            lp.set_quota(k, low[k], high[k])
        return lp.run()

    best, fraction = attempt(1.0), 1.0
    if best is not None:
        return best, fraction
    best, fraction, step = free, 0.0, 0.5
    for _ in range(_HALVINGS):
        trial = attempt(fraction + step)
        if trial is not None:
            best, fraction = trial, fraction + step
        step /= 2
    return best, fraction


def _estimate(
    owed: Problem, counts: Counts, fit: _Fit, level: _Level, finished: bool, seconds: float
) -> Estimate:
    errors, feasible = fit.errors, fit.short == 0
    claim, guaranteed = _claim(owed, counts, fit, level)
    unknown = np.nan if not feasible else 0.0
    return Estimate(
        policy=fit.policy,
        gain=errors.gain,
        gain_se=errors.gain_se,
        shares=errors.shares,
        share_se=errors.share_se,
        margins=fit.margins,
        margin_fraction=fit.fraction,
        gap=fit.gap,
        prices=fit.answer.mu + unknown,
        bias=fit.answer.h + unknown,
        feasible=feasible,
        guaranteed=guaranteed,
        claim=claim,
        quota_names=owed.names,
        at_least=owed.at_least,
        at_most=owed.at_most,
        samples=counts.total,
        min_samples=int(counts.per_pair.min()),
        deviation=errors.deviation,
        delta=level.delta,
        counts=counts,
        finished=finished,
        seconds=seconds,
        notes=_notes(counts, fit, finished),
    )


def _claim(owed: Problem, counts: Counts, fit: _Fit, level: _Level) -> tuple[str, bool]:
    """What holds with probability ``1 - delta``, or why nothing is claimed."""
    needed = FLOOR * owed.mdp.n_pairs
    least = int(counts.per_pair.min())
    if fit.short > 0:
        if least == 0:
            return "no claim: some pairs were never sampled, and without them the quotas are not met", False
        sure = "no policy seems to meet the quotas" if fit.surely_short else "the quotas are not met"
        return f"no claim: {sure}; on the estimated model at least {fit.short:.3g} of share is missing", False
    if counts.total < needed or least < FIRST:
        return (
            f"no claim: {counts.total} samples are too few for it; it takes {needed}, {FLOOR} per pair on "
            f"average and {FIRST} of every pair (the fewest is {least})",
            False,
        )
    if math.isinf(fit.errors.deviation):
        return "no claim: the policy's estimated chain has several closed classes", False
    if fit.fraction < 1:
        return (
            f"no claim: only {fit.fraction:.1%} of the margin that it needs can be met; "
            "draw more samples or lower the quotas",
            False,
        )
    parts = ["meets every quota"] if owed.n_quotas else []
    if level.eps is not None and fit.gap <= level.eps:
        parts.append(f"is within {level.eps:g} of the best fair gain")
    if not parts:
        return "no claim: no quota is owed and no accuracy was asked for", False
    return f"the policy {' and '.join(parts)}, with probability {1 - level.delta:g} over the samples", True


def _notes(counts: Counts, fit: _Fit, finished: bool) -> tuple[str, ...]:
    notes = []
    unseen = int((counts.per_pair == 0).sum())
    if unseen:
        notes.append(f"{unseen} pairs were never sampled: they are taken to stay where they are")
    if fit.errors.deviation > NEARLY_REDUCIBLE:
        notes.append(
            f"the policy's chain is nearly reducible (deviation {fit.errors.deviation:.1e}): small errors in "
            "the model move its long-run shares a lot, and they take long to show"
        )
    if not finished:
        notes.append("stopped before the end")
    return tuple(notes)


def _targets(samples: int | None, n_pairs: int) -> Iterator[int]:
    """Samples in all at the end of each round."""
    if samples is not None:
        first = min(samples, max(samples // 4, FIRST * n_pairs))
        yield from sorted({first, max(first, samples // 2), samples})
        return
    target = FLOOR * n_pairs
    while target <= max(_MOST_SAMPLES, FLOOR * n_pairs):
        yield target
        target *= 2


def _allocation(owed: Problem, counts: Counts, fit: _Fit | None, new: int, eps: float | None) -> Ints:
    """How often each pair is asked in the next round: what the ideal allocation still lacks."""
    n_pairs = owed.mdp.n_pairs
    if fit is None:
        return spread_evenly(new, np.ones(n_pairs))
    ideal = _neyman(owed, counts, fit, eps)
    lacking = np.maximum(ideal * (counts.total + new) - counts.per_pair, 0.0)
    return spread_evenly(new, lacking)


def _neyman(owed: Problem, counts: Counts, fit: _Fit, eps: float | None) -> Floats:
    """Shares of samples that make the errors of the gain and of the binding quotas small together."""
    errors, n_pairs = fit.errors, owed.mdp.n_pairs
    if eps is None:
        eps = _ACCURACY * float(np.ptp(counts.rewards)) or 1.0
    binding = np.flatnonzero(np.abs(fit.answer.mu) > 1e-9 * np.abs(fit.answer.mu).max(initial=0.0))
    bound = np.where(fit.answer.mu > 0, owed.at_least, owed.at_most)[binding]
    variance = errors.gain_variance / eps**2
    variance = variance + errors.share_variance[:, binding] @ (_ACCURACY * bound) ** -2.0
    weight = errors.x * np.sqrt(variance)
    if weight.sum() == 0:
        weight = errors.x
    return _STEERED * weight / weight.sum() + (1 - _STEERED) / n_pairs


def _estimated(owed: Problem, counts: Counts) -> Problem:
    """The quotas over the model of the counts."""
    return owed.with_mdp(counts.model(owed.mdp))


def _value_se(mdp: MDP, counts: Counts, answer: Answer) -> float:
    """Standard error of the program's value: its multiplier h plays the part of the relative values."""
    nu = np.add.reduceat(answer.x, mdp.pair_ptr[:-1])
    variance = counts.reward_variances(answer.h) + _unseen(counts, nu, answer.h[:, None])[:, 0]
    return math.sqrt(answer.x**2 / np.maximum(counts.per_pair, 1) @ variance)


def _unseen(counts: Counts, nu: Floats, H: Floats) -> Floats:
    """Variance for successors not seen: one more sample might have led to any state, (SA, columns)."""
    spread = np.maximum(nu @ H**2 - (nu @ H) ** 2, 0.0)
    return spread / (counts.per_pair[:, None] + 1)


def _joined(chain: Chain) -> tuple[Chain, bool]:
    """The chain, with a rare jump to one state where the samples left several closed classes."""
    classes = chain.closed_classes
    if len(classes) == 1:
        return chain, False
    S = chain.n_states
    target = int(max(classes, key=len)[0])
    jump = csr_array((np.ones(S), (np.arange(S), np.full(S, target))), shape=(S, S))
    return Chain(((1 - _JOIN) * chain.P + _JOIN * jump).tocsr()), True


def _relative_values(chain: Chain, f: Floats) -> tuple[Floats, float]:
    """Relative values of each column of f, up to constants, and the norm of the deviation matrix."""
    if chain.n_states > _DENSE:
        return np.column_stack([chain.bias(column) for column in f.T]), math.nan
    nu = chain.shares
    Z = np.linalg.inv(np.eye(chain.n_states) - chain.P.toarray() + nu)
    return Z @ f, float(np.abs(Z - nu).sum(axis=1).max())


def _check_goal(samples: Any, eps: Any, delta: Any) -> None:
    if (samples is None) == (eps is None):
        both = "both" if samples is not None else "neither"
        raise ProblemError(f"{both} of samples and eps given\n  give a budget or an accuracy")
    if samples is not None and (isinstance(samples, bool) or not isinstance(samples, int | np.integer)):
        raise ProblemError(f"samples is {samples!r}, expected a whole number")
    if eps is not None and not (isinstance(eps, int | float) and 0 < eps < math.inf):
        raise ProblemError(f"eps is {eps!r}, expected a positive accuracy in units of reward")
    check_delta(delta)


def check_delta(delta: Any) -> None:
    """Raise unless delta is the probability of a failure."""
    if not (isinstance(delta, int | float) and 0 < delta < 1):
        raise ProblemError(f"delta is {delta!r}, expected a probability of failure between 0 and 1")
