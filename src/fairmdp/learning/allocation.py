"""Where the samples of the default learner go: to the pairs whose errors matter (Neyman allocation)."""

from __future__ import annotations

import numpy as np

from fairmdp.learning.aim import Welfare
from fairmdp.learning.counts import Counts, spread_evenly
from fairmdp.learning.fitting import Fit
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.problem import Problem

FIRST = 50  # samples of every pair before any are steered; fewer miss rare successors
_STEERED = 0.9  # share of the samples that goes where the errors are; the rest is spread evenly
_ACCURACY = 0.01  # of the rewards' span and of each quota: what the allocation aims at for a fixed budget


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
