"""How far quotas can go at most, by the witnesses of an infeasible answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fairmdp.certificate import rounded as rounded_arithmetic
from fairmdp.model.checks import Floats
from fairmdp.model.problem import Problem

if TYPE_CHECKING:
    from fairmdp.certificate.checker import Arithmetic


def reach_limit(
    problem: Problem, k: int, bias: Floats, *, capped: bool, arithmetic: Arithmetic = rounded_arithmetic
) -> float:
    """Proven limit of one quota's share over all policies: no more, or no less where it is capped."""
    counts = problem.members[[k]].toarray()[0] * (-1.0 if capped else 1.0)
    per_decision = counts if problem.mdp.durations is None else counts * problem.mdp.durations
    limit = arithmetic.ceiling(problem.without_quotas(), per_decision, bias, np.zeros(0))
    return -limit if capped else limit


def factor_limit(
    problem: Problem, bias: Floats, prices: Floats, *, arithmetic: Arithmetic = rounded_arithmetic
) -> float:
    """Proven upper bound on alpha such that ``alpha * at_least`` and the caps can be met together.

    A quota's own cap is a bound too, and has no price: a witness has one price for both bounds of a quota.
    """
    both = (problem.at_least > 0) & (problem.at_most < 1)
    own = np.nextafter(problem.at_most[both] / problem.at_least[both], math.inf).min(initial=math.inf)
    lifted = float(problem.at_least @ np.maximum(prices, 0))
    if lifted <= 0:
        return float(own)
    # The ceiling of r = 0 charges at_least * mu once; at factor alpha it is ceiling - (alpha - 1) * lifted,
    # and a negative one would be a proof of infeasibility.
    ceiling = arithmetic.ceiling(problem, np.zeros(problem.mdp.n_pairs), bias, prices)
    return min(1 + ceiling / lifted, float(own))
