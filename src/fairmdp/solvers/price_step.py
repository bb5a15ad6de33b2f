"""Newton's step on prices: a convex quadratic less what the bounds pay, which has a kink at prices of zero.

Rounds over the coordinates find out which prices are zero and which moves are as long as they may be; the
others are then solved for at once. Rounds alone need thousands where hundreds of quotas overlap.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from fairmdp.backends.cpu.kernels import price_rounds
from fairmdp.model.checks import Bools, Floats
from fairmdp.solvers.prices import dual_value

_ROUNDS = 20  # over the coordinates before the free ones are solved for
_MOST = 500  # times that this is done


def price_step(A: Floats, g: Floats, mu: Floats, low: Floats, high: Floats, radius: float) -> Floats:
    """Minimise d'Ad/2 + g'd - sum_k b_k (mu + d)_k over |d| <= radius; returns d.

    b is low above 0 and high below it.
    """
    d = np.zeros_like(mu)
    for _ in range(_MOST):
        if price_rounds(A, g, mu, low, high, radius, d, _ROUNDS):
            break
        d = _on_face(A, g, mu, low, high, radius, d)
    return d


def _on_face(A: Floats, g: Floats, mu: Floats, low: Floats, high: Floats, radius: float, d: Floats) -> Floats:
    """Solve for the prices that are free at d, and go there, or as far as none of them is 0 or at its end."""

    def value(d: Floats) -> float:
        return float(d @ (A @ d) / 2 + g @ d) - dual_value(mu + d, low, high)

    t = mu + d
    free: Bools = (t != 0) & (np.abs(d) < radius)
    if not free.any():
        return d
    try:
        factor = cho_factor(A[np.ix_(free, free)])
    except (LinAlgError, ValueError):  # numerically singular, or not finite
        return d
    slope = (g + A @ d)[free] - np.where(t > 0, low, high)[free]
    move = np.zeros_like(d)
    move[free] = -cho_solve(factor, slope)
    straight = np.clip(d + move, -radius, radius)
    straight = np.where(np.sign(mu + straight) * np.sign(t) < 0, -mu, straight)
    if value(straight) < value(d):
        return straight
    ahead = np.where(move > 0, radius - d, radius + d)
    room = np.minimum(ahead, np.where(move * t < 0, np.abs(t), np.inf))[free]
    with np.errstate(divide="ignore"):
        part = min(1.0, float((room / np.abs(move[free])).min()))
    return np.clip(d + part * move, -radius, radius)
