"""The best fair policy of a counted model, with quotas made stricter by what its errors call for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack
from scipy.special import ndtri

from fairmdp.backends.flow_lp import Answer, FlowLP
from fairmdp.chains.policy import policy_of
from fairmdp.learning.aim import Aim, FairAnswer, Gain, Program, value_error
from fairmdp.learning.counts import Counts
from fairmdp.learning.evaluation import Evaluation, estimated, evaluate
from fairmdp.model.checks import Floats
from fairmdp.model.problem import Problem

_PASSES = 2  # times that the margin is computed at the policy of the last one
_HALVINGS = 10  # of the margin, where the whole of it cannot be met
GAIN = Gain()


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
        gap = max(upper - seen.gain + level.z_gap * seen.gain_se, 0.0)
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
