"""Prices of quotas: which signs they may have, what they amount to, and where to start from."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairmdp.backends.base import Backend, Bounds
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats
from fairmdp.solution.solution import Solution


def price_box(asked: Bounds) -> tuple[Floats, Floats]:
    """Bounds of the quotas, infinite where there is none: then a price cannot have that sign."""
    return (
        np.where(asked.at_least > 0, asked.at_least, -np.inf),
        np.where(asked.at_most < 1, asked.at_most, np.inf),
    )


def tightened(low: Floats, high: Floats, margin: float | Floats) -> tuple[Floats, Floats]:
    """Bounds moved inwards by a margin, at most to their middle."""
    both = np.isfinite(low) & np.isfinite(high)
    middle = np.where(both, np.where(both, low, 0) + np.where(both, high, 0), 0) / 2
    return (
        np.where(both, np.minimum(low + margin, middle), low + margin),
        np.where(both, np.maximum(high - margin, middle), high - margin),
    )


def dual_value(mu: Floats, low: Floats, high: Floats) -> float:
    """Return ``b @ mu`` with b = low where mu > 0 and high where mu < 0."""
    up, down = mu > 0, mu < 0
    return float(low[up] @ mu[up] + high[down] @ mu[down])


def dual_feasible(asked: Bounds, mu: Floats) -> Floats:
    """Prices with those of a sign that no bound allows set to zero."""
    low, high = price_box(asked)
    return np.clip(mu, np.where(np.isfinite(high), -np.inf, 0.0), np.where(np.isfinite(low), np.inf, 0.0))


def start_from(backend: Backend, start: Solution | None) -> tuple[Floats, Any, Any]:
    """Prices (K,), relative values and stationary distribution (S,) to start from, rewards from 0 to 1."""
    S, SA, scale = backend.n_states, backend.n_pairs, backend.scale
    if start is None or not start.has_policy:
        return np.zeros(backend.n_quotas), backend.full(0.0), backend.full(1 / S)
    check_start(start, S, SA)
    known = dict(zip(start.quota_names, start.prices.tolist(), strict=True))
    mu = dual_feasible(backend, np.array([known.get(name, 0.0) for name in backend.names]) / scale)
    return mu, backend.put(start.bias) / scale, backend.put(start.visitation)


def check_start(start: Solution, n_states: int, n_pairs: int) -> None:
    """Refuse a start from another model."""
    if start.bias.shape != (n_states,) or start.policy.shape != (n_pairs,):
        raise ProblemError(
            f"start is a solution of {start.bias.size} states and {start.policy.size} pairs, "
            f"this problem has {n_states} and {n_pairs}\n  start from a solution of the same model"
        )
