"""Small chains as dense matrices, in O(n^3)."""

from __future__ import annotations

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats

_MOST_DOUBLINGS = 60  # of a chain that is looked at until it mixes


def eliminated(A: Floats) -> Floats:
    """Stationary distribution of an irreducible chain A, which is used up.

    By elimination without subtractions (Grassmann, Taksar, Heyman 1985).
    """
    n = A.shape[0]
    for k in range(n - 1, 0, -1):
        leaving = max(float(A[k, :k].sum()), 5e-324)  # a product of rare moves may be 0
        with np.errstate(over="ignore"):
            A[:k, k] = np.minimum(A[:k, k] / leaving, 1e290)
        A[:k, :k] += np.outer(A[:k, k], A[k, :k])
    nu = np.zeros(n)
    nu[0] = 1.0
    for k in range(1, n):
        nu[k] = nu[:k] @ A[:k, k]
        if nu[k] > 1e10:  # rare states may be 1e-300 as heavy as common ones
            nu[: k + 1] /= nu[k]
    return nu / nu.sum()


def pinned_down(P: Floats, nu: Floats) -> Floats:
    """``I - P + 1 nu``, which is regular for one closed class; ``nu @ h == nu @ f`` where it takes h to f."""
    return np.eye(nu.size) - P + nu


def mixing_steps(P: Floats, nu: Floats) -> int:
    """Least t >= 1 with ``max_s |P^t(s, .) - nu|_1 <= 1/2``, for an aperiodic chain."""

    def far(M: Floats) -> bool:
        return bool(np.abs(M - nu).sum(axis=1).max() > 0.5)

    powers = [P]
    while far(powers[-1]):
        powers.append(powers[-1] @ powers[-1])
        if len(powers) > _MOST_DOUBLINGS:
            raise ProblemError(
                f"the chain is so nearly reducible that its mixing time exceeds 2^{_MOST_DOUBLINGS}"
            )
    if len(powers) == 1:
        return 1
    t, M = 2 ** (len(powers) - 2), powers[-2]  # the last power of two that is still too early
    for k in range(len(powers) - 3, -1, -1):
        trial = M @ powers[k]
        if far(trial):
            t, M = t + 2**k, trial
    return t + 1
