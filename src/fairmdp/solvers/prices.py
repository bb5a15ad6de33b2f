"""Prices of quotas: which signs they may have, what they amount to, and where to start from."""

from __future__ import annotations

import numpy as np

from fairmdp.device_problem import DeviceProblem
from fairmdp.errors import ProblemError
from fairmdp.problem import Problem
from fairmdp.solution import Solution
from fairmdp.validation import Floats


def price_box(problem: Problem | DeviceProblem) -> tuple[Floats, Floats]:
    """Bounds of the quotas, infinite where there is none: then a price cannot have that sign."""
    return (
        np.where(problem.at_least > 0, problem.at_least, -np.inf),
        np.where(problem.at_most < 1, problem.at_most, np.inf),
    )


def tightened(low: Floats, high: Floats, hair: float | Floats) -> tuple[Floats, Floats]:
    """Bounds moved inwards by a hair, at most to their middle."""
    both = np.isfinite(low) & np.isfinite(high)
    middle = np.where(both, np.where(both, low, 0) + np.where(both, high, 0), 0) / 2
    return (
        np.where(both, np.minimum(low + hair, middle), low + hair),
        np.where(both, np.maximum(high - hair, middle), high - hair),
    )


def paid(mu: Floats, low: Floats, high: Floats) -> float:
    """Return ``b @ mu`` with b = low where mu > 0 and high where mu < 0."""
    up, down = mu > 0, mu < 0
    return float(low[up] @ mu[up] + high[down] @ mu[down])


def legal(problem: Problem | DeviceProblem, mu: Floats) -> Floats:
    """Prices with those of a sign that no bound allows set to zero."""
    low, high = price_box(problem)
    return np.clip(mu, np.where(np.isfinite(high), -np.inf, 0.0), np.where(np.isfinite(low), np.inf, 0.0))


def start_from(
    problem: Problem | DeviceProblem, start: Solution | None, scale: float
) -> tuple[Floats, Floats, Floats]:
    """Prices (K,), relative values and law (S,) to start from."""
    S = problem.mdp.n_states
    cold = np.zeros(problem.n_quotas), np.zeros(S), np.full(S, 1 / S)
    if start is None or not start.has_policy:
        return cold
    if start.bias.shape != (S,) or start.policy.shape != (problem.mdp.n_pairs,):
        raise ProblemError(
            f"start is a solution of {start.bias.size} states and {start.policy.size} pairs, "
            f"this problem has {S} and {problem.mdp.n_pairs}"
        )
    known = dict(zip(start.quota_names, start.prices.tolist(), strict=True))
    mu = legal(problem, np.array([known.get(name, 0.0) for name in problem.names]) / scale)
    return mu, start.bias / scale, start.visitation
