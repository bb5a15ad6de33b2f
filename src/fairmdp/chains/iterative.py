"""Damped sweeps over one chain until it is at rest, in NumPy: as fast as compiled ones, and ready at once.

`sweeps` has the compiled ones of the solvers, which ask many chains for a few sweeps each.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from fairmdp.model.checks import Floats

_DAMPING = 0.1  # share of the old vector kept by a sweep, so that periodic chains converge too
_AT_REST = 1e-15  # change of a distribution in L1 that is nothing but rounding
_SLOW = 1e-14  # part that must be left after the most sweeps, at the rate of now, for them to be given up
_ROUND, _PATIENCE = 25, 200  # sweeps from one look at the rate to the next, and before a slow one counts


def stationary(P: csr_array, nu: Floats, most: int) -> tuple[Floats, bool]:
    """Stationary distribution of an irreducible chain from a guess, and whether sweeps came to rest."""
    turned, last, look = P.T, math.inf, 5
    for sweep in range(1, most + 1):
        left = turned @ nu
        left -= nu
        if sweep % look == 0 or sweep == 1:
            change = float(np.abs(left).sum())
            if change <= _AT_REST:
                return nu / nu.sum(), True
        left *= 1 - _DAMPING
        nu = nu + left
        if sweep % _ROUND == 0:
            nu /= nu.sum()
            if change < 1e-14 and change > last / 2:  # rounding is all that is left
                return nu, True
            if sweep >= _PATIENCE:
                if change > max(last * _SLOW ** (_ROUND / most), 1e-13):
                    return nu, False
                look = _ROUND
            last, turned = change, turned.tocsr()  # the transpose pays for itself by now
    return nu, False


def values(P: csr_array, f: Floats, tol: Any, most: int) -> Floats | None:
    """Solution of ``h - P @ h == f`` up to a constant, or None where sweeps take too long to it.

    Columns of f, (S,) or (S, K), have mean 0 in the long run; what is left of each has a span within tol, or
    within its own entry of it.
    """
    h, e, last, look = np.zeros_like(f), f.copy(), math.inf, 5
    for sweep in range(1, most + 1):
        h += (1 - _DAMPING) * e
        moved = P @ e  # e <- P e, damped, is what is left after h <- h + e
        e -= moved
        e *= _DAMPING
        e += moved
        if sweep % look == 0:
            low, high = e.min(axis=0), e.max(axis=0)
            e -= (low + high) / 2
            if (high - low <= tol).all():
                return h
            if sweep % _ROUND == 0:
                span = float(np.max(high - low))
                if sweep >= _PATIENCE:
                    if span > last * _SLOW ** (_ROUND / most):
                        return None
                    look = _ROUND
                last = span
    return None
