"""What a learner maximises on the counts: the gain, or a welfare of what the groups get."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairmdp import welfare
from fairmdp.backends.flow_lp import Answer, FlowLP
from fairmdp.learning.counts import Counts
from fairmdp.learning.evaluation import Evaluation, unseen_variance
from fairmdp.model.checks import Floats
from fairmdp.model.objectives import Objective, value_at
from fairmdp.model.problem import Problem
from fairmdp.welfare.setting import Setting, setting_of

_NEAR = 1e-6  # gap of a welfare on counts, which are rougher than that


class Gain:
    """The long-run average reward."""

    def program(self, problem: Problem) -> GainProgram:
        """A linear program that is kept from one set of bounds to the next."""
        return GainProgram(problem)

    def worth(self, answer: Answer) -> tuple[float, Floats]:
        """What one more unit of the gain is worth, and of each share, (K,); here the gain alone counts."""
        return 1.0, np.zeros(answer.mu.size)


class GainProgram:
    """A counted model, whose quotas may be moved."""

    def __init__(self, problem: Problem) -> None:
        self._lp, self._n = FlowLP(problem, problem.mdp.r), problem.n_quotas

    def best(self, low: Floats, high: Floats) -> Answer | None:
        """The best occupancy under these bounds, in shares; None where none meets them."""
        if (low > high).any():
            return None
        for k in range(self._n):
            self._lp.set_quota(k, low[k], high[k])
        return self._lp.run()


@dataclass(frozen=True, eq=False)
class FairAnswer(Answer):
    """The fair point of a counted model; ``objective`` is a ceiling on its welfare."""

    marginals: Floats  # (groups,), what one more unit of a utility is worth


@dataclass(frozen=True, eq=False)
class Welfare:
    """A welfare of the groups, with some weight on the gain."""

    objective: Objective
    reward: float
    rows: tuple[int, ...]  # of the problem: the groups
    owed: Problem  # whose units the utilities are in

    @classmethod
    def of(cls, owed: Problem, objective: Objective, over: object, reward: float) -> Welfare:
        """Check what was asked for."""
        setting: Setting = setting_of(owed, objective, over, reward)  # type: ignore[arg-type]
        return cls(objective, setting.reward, setting.rows, owed)

    @cached_property
    def over(self) -> tuple[str, ...]:
        """Names of the groups."""
        return tuple(self.owed.names[k] for k in self.rows)

    def program(self, problem: Problem) -> WelfareProgram:
        """Each set of bounds is solved anew."""
        return WelfareProgram(self, problem)

    def worth(self, answer: Answer) -> tuple[float, Floats]:
        """The weight of the gain, and the marginals in shares."""
        assert isinstance(answer, FairAnswer)
        worth = np.zeros(self.owed.n_quotas)
        scale = np.broadcast_to(self.owed.units.scale, worth.shape)
        worth[list(self.rows)] = answer.marginals * scale[list(self.rows)]
        return self.reward, worth

    def utilities(self, shares: Floats) -> Floats:
        """What each group gets, (..., groups), from the shares of all rows, (..., K)."""
        values: Floats = self.owed.units.values(shares)
        return values[..., list(self.rows)]

    def value(self, shares: Floats, gain: float) -> float:
        """Welfare of some shares, (K,), and a gain."""
        return value_at(self.objective, self.utilities(shares)) + (self.reward * gain if self.reward else 0.0)

    def values(self, shares: Floats, gains: Floats) -> Floats:
        """The same for many, (m, K) and (m,)."""
        found = np.array([value_at(self.objective, u) for u in self.utilities(shares)])
        return found + self.reward * gains if self.reward else found


class WelfareProgram:
    """A counted model, whose quotas may be moved."""

    def __init__(self, aim: Welfare, problem: Problem) -> None:
        self._aim, self._problem = aim, problem

    def best(self, low: Floats, high: Floats) -> Answer | None:
        """The fair point under these bounds; None where none meets them."""
        aim = self._aim
        if (low > high).any():
            return None
        fair = welfare.solve_welfare(
            self._problem.with_bounds(low, high) if low.size else self._problem,
            aim.objective, over=aim.over, reward=aim.reward, tol=_NEAR,
        )  # fmt: skip
        if not fair.has_policy:
            return None
        upper = fair.welfare_upper if math.isfinite(fair.welfare) else -math.inf
        solution = fair.solution
        return FairAnswer(
            upper, solution.occupancy, np.zeros(0), fair.bias, fair.prices, 0, marginals=fair.marginals
        )


Aim = Gain | Welfare
"""What is to be as large as possible."""

Program = GainProgram | WelfareProgram


def variance(aim: Aim, seen: Evaluation, answer: Answer) -> Floats:
    """Of the value, for one more sample of each pair, to first order and without covariances, (SA,)."""
    reward, worth = aim.worth(answer)
    return reward**2 * seen.gain_variance + seen.share_variance @ worth**2


def value_error(aim: Aim, problem: Problem, counts: Counts, answer: Answer) -> float:
    """Standard error of the largest value: the multiplier h plays the part of the relative values."""
    reward, _ = aim.worth(answer)
    h = answer.h
    nu = np.add.reduceat(answer.x, problem.mdp.pair_ptr[:-1])
    moved = counts.reward_variances(h / reward) * reward**2 if reward else counts.variances(h[:, None])[:, 0]
    spread = moved + unseen_variance(counts, nu, h[:, None])[:, 0]
    return math.sqrt(answer.x**2 / np.maximum(counts.per_pair, 1) @ spread)
