"""The best fair policy of a counted model, with quotas made stricter by what its errors call for.

What is sampled next goes to the pairs whose errors matter (Neyman allocation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack
from scipy.special import ndtri

from fairmdp.backends.flow_lp import Answer, FlowLP
from fairmdp.chains.policy import policy_of
from fairmdp.learning.aim import Aim, FairAnswer, Gain, Program, Welfare, value_error
from fairmdp.learning.counts import Counts, spread_evenly
from fairmdp.learning.evaluation import Evaluation, estimated, evaluate
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.problem import Problem

_PASSES = 2  # times that the margin is computed at the policy of the last one
_HALVINGS = 10  # of the margin, where the whole of it cannot be met
GAIN = Gain()

FIRST = 50  # samples of every pair before any are steered; fewer miss rare successors
_STEERED = 0.9  # share of the samples that goes where the errors are; the rest is spread evenly
_ACCURACY = 0.01  # of the rewards' span and of each quota: what the allocation aims at for a fixed budget


@dataclass(frozen=True)
class Level:
    """Level of the test, and normal quantiles: of margins, and of each side of the gap."""

    quota: float
    z_quota: float
    z_gap: float

    @classmethod
    def of(cls, owed: Problem, delta: float, eps: float | None, number: int = 1) -> Level:
        """A claim on the gap takes half of the level, and round k ``1 / (k (k + 1))`` of each half."""
        share = delta if eps is None else delta / 2 / (number * (number + 1))
        return cls(share, max(-float(ndtri(share)), 0.0), -float(ndtri(share / 2)))


@dataclass(frozen=True, eq=False)
class Fit:
    """The best on the counts: the policy of the tightened quotas, and what it may lack of the gain."""

    seen: Evaluation
    answer: Answer
    margins: Floats
    fraction: float
    gap: float
    short: float = 0.0  # total shortfall on the estimated model, 0 where the quotas can be met
    surely_short: bool = False

    def settles(self, eps: float | None) -> bool:
        """Whether the accuracy is reached with the whole margin, or the quotas are out of reach."""
        return eps is not None and ((self.gap <= eps and self.fraction == 1) or self.surely_short)


def pooled_upper(owed: Problem, counts: Counts, z: float, aim: Aim = GAIN) -> float:
    """The largest value on the counts plus z standard errors; infinite where the quotas cannot be met."""
    problem = estimated(owed, counts)
    answer = aim.program(problem).best(problem.at_least, problem.at_most)
    return math.inf if answer is None else answer.objective + z * value_error(aim, problem, counts, answer)


def gap_above(seen: Evaluation, upper: float, level: Level) -> float:
    """What a policy may lack of an upper bound on the gain, its own error counted."""
    return max(upper - seen.gain + level.z_gap * seen.gain_se, 0.0)


def fitted(owed: Problem, counts: Counts, level: Level, aim: Aim = GAIN) -> Fit:
    """Solve with the quotas as asked, then with the margins that the errors of the last policy call for."""
    problem = estimated(owed, counts)
    mdp = problem.mdp
    program, linear = aim.program(problem), GAIN.program(problem)
    free = program.best(problem.at_least, problem.at_most)
    if free is None:
        return _least_short(problem, counts, level)
    answer, fraction, margins = free, 1.0, np.zeros(problem.n_quotas)
    seen = evaluate(problem, counts, policy_of(mdp, free.x))
    bounds = int((owed.at_least > 0).sum() + (owed.at_most < 1).sum())
    z = -float(ndtri(level.quota / max(bounds, 1)))
    for _ in range(_PASSES if bounds else 0):
        margins = z * seen.share_se
        answer, fraction = _tightened(program, linear, problem, margins, free)
        seen = evaluate(problem, counts, policy_of(mdp, answer.x))
    gap = math.inf
    if aim is GAIN:
        upper = free.objective + level.z_gap * value_error(aim, problem, counts, free)
        gap = gap_above(seen, upper, level)
    return Fit(seen, answer, fraction * margins, fraction, gap)


def _least_short(problem: Problem, counts: Counts, level: Level) -> Fit:
    """Where the quotas cannot be met on the estimate: the policy that misses them by the least in total."""
    K = problem.n_quotas
    stretch = vstack([csr_array(np.eye(K)), csr_array(-np.eye(K))], format="csr")
    nothing = np.zeros(problem.mdp.n_pairs)
    answer = FlowLP(problem, nothing, extra=stretch, c_extra=-np.ones(2 * K)).find()
    seen = evaluate(problem, counts, policy_of(problem.mdp, answer.x))
    short = max(-answer.objective, 1e-12)  # not 0, even where only rounding stands in the way
    weights = answer.x**2 / np.maximum(counts.per_pair, 1)
    se = math.sqrt(weights @ counts.variances(answer.h[:, None])[:, 0])
    return Fit(seen, answer, np.zeros(K), 0.0, math.inf, short, short > level.z_gap * se)


def _tightened(
    program: Program, linear: Program, problem: Problem, margins: Floats, free: Answer
) -> tuple[Answer, float]:
    """Solve with the largest fraction of the margins that can be met: all of it, or by bisection.

    What can be met does not depend on what is maximised, and a linear program is quicker to ask.
    """

    def bounds(fraction: float) -> tuple[Floats, Floats]:
        low, high = problem.at_least + fraction * margins, problem.at_most - fraction * margins
        return np.where(problem.at_least > 0, low, 0.0), np.where(problem.at_most < 1, high, 1.0)

    best, fraction = linear.best(*bounds(1.0)), 1.0
    if best is None:
        fraction, step = 0.0, 0.5
        for _ in range(_HALVINGS):
            trial = linear.best(*bounds(fraction + step))
            if trial is not None:
                best, fraction = trial, fraction + step
            step /= 2
    if isinstance(free, FairAnswer) and fraction:
        best = program.best(*bounds(fraction))
    return (free, 0.0) if best is None else (best, fraction)


def targets(samples: int, n_pairs: int) -> list[int]:
    """Samples in all at the end of each round that chooses policies."""
    first = min(samples, max(samples // 4, FIRST * n_pairs))
    return sorted({first, max(first, samples // 2), samples})


def allocation(
    owed: Problem, counts: Counts, fit: Fit | None, new: int, eps: float | None, aim: Welfare | None = None
) -> Ints:
    """How often each pair is asked in the next round: what the ideal allocation still lacks."""
    n_pairs = owed.mdp.n_pairs
    if fit is None:
        return spread_evenly(new, np.ones(n_pairs))
    ideal = _neyman(owed, counts, fit, eps, aim)
    lacking = np.maximum(ideal * (counts.total + new) - counts.per_pair, 0.0)
    return spread_evenly(new, lacking)


def _neyman(owed: Problem, counts: Counts, fit: Fit, eps: float | None, aim: Welfare | None = None) -> Floats:
    """Shares of samples that make the errors of the value and of the binding quotas small together."""
    seen, mu = fit.seen, fit.answer.mu
    of_gain, of_shares = (1.0, np.zeros(mu.size)) if aim is None or fit.short else aim.worth(fit.answer)
    if eps is None:
        eps = _ACCURACY * (of_gain * float(np.ptp(counts.rewards)) + float(np.abs(of_shares).sum())) or 1.0
    binding = np.flatnonzero(np.abs(mu) > 1e-9 * np.abs(mu).max(initial=0.0))
    bound = np.where(mu > 0, owed.at_least, owed.at_most)[binding]
    spread = of_gain**2 * seen.gain_variance + seen.share_variance @ of_shares**2
    spread = spread / eps**2 + seen.share_variance[:, binding] @ (_ACCURACY * bound) ** -2.0
    weight = seen.x * np.sqrt(spread)
    if weight.sum() == 0:
        weight = seen.x
    return _STEERED * weight / weight.sum() + (1 - _STEERED) / owed.mdp.n_pairs
