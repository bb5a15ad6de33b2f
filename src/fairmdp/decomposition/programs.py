"""The small programs of the master, solved by HiGHS: mixtures of columns, and the next prices to try."""

from __future__ import annotations

from typing import NamedTuple

import highspy
import numpy as np

from fairmdp.backends.highs import INFINITE, linear_program, quiet
from fairmdp.model.checks import Floats

_SOLVED = highspy.HighsModelStatus.kOptimal
_MOST_ITERATIONS = 60
_PRECISE = 1e-11


class Mixture(NamedTuple):
    """Weights of columns, what they earn together, and prices of the surpluses."""

    weights: Floats  # (columns,)
    value: float
    prices: Floats  # (M,)


def best_mixture(rewards: Floats, surplus: Floats) -> Mixture | None:
    """``max w @ R`` over mixtures with ``w @ u >= 0``; None if there is none. surplus (columns, M)."""
    n, M = surplus.shape
    columns = np.vstack([np.ones(n), surplus.T])  # (1 + M, n)
    lower, upper = np.r_[1.0, np.zeros(M)], np.r_[1.0, np.full(M, INFINITE)]
    return _mixture(-rewards, columns, lower, upper, n)


def most_surplus(surplus: Floats) -> Mixture:
    """``max t`` over mixtures with ``w @ u >= t`` in every coordinate; prices are at least 0 and sum to 1."""
    n, M = surplus.shape
    columns = np.vstack([np.r_[np.ones(n), 0.0], np.column_stack([surplus.T, -np.ones(M)])])
    lower, upper = np.r_[1.0, np.zeros(M)], np.r_[1.0, np.full(M, INFINITE)]
    found = _mixture(np.r_[np.zeros(n), -1.0], columns, lower, upper, n)
    assert found is not None
    return found


def proximal_step(errors: Floats, slopes: Floats, center: Floats, H: Floats) -> tuple[Floats, float]:
    """Minimise ``max_c (slopes_c @ d - errors_c) + d @ H @ d / 2`` over ``d >= -center``.

    Returns d and what the maximum is there. errors (C,), slopes (C, M), center (M,), H (M, M).
    """
    C, M = slopes.shape
    unit = max(
        float(np.sqrt(_decrease(errors, slopes, center, H))), 1e-14
    )  # of d; its square is that of values
    A = np.block([[-slopes / unit, np.ones((C, 1))], [np.eye(M), np.zeros((M, 1))]])
    b = np.r_[-errors / unit**2, -center / unit]
    Q = np.zeros((M + 1, M + 1))
    Q[:M, :M] = H
    d = np.maximum(_quadratic(Q, np.r_[np.zeros(M), 1.0], A, b)[:M] * unit, -center)
    return d, float((slopes @ d - errors).max())


def _decrease(errors: Floats, slopes: Floats, center: Floats, H: Floats) -> float:
    """About what a step can gain: that of Newton from the cut at the centre."""
    at = slopes[int(np.argmin(errors))]
    step = np.maximum(-np.linalg.solve(H, at), -center)
    return abs(float(at @ step)) / 2 + abs(float(errors.min()))


def _quadratic(Q: Floats, g: Floats, A: Floats, b: Floats) -> Floats:
    """Minimise ``z @ Q @ z / 2 + g @ z`` where ``A z >= b``: interior points after Mehrotra."""
    z = np.zeros(g.size)
    s, y = np.maximum(A @ z - b, 1.0), np.ones(b.size)
    for _ in range(_MOST_ITERATIONS):
        dual, primal, mu = Q @ z + g - A.T @ y, A @ z - s - b, float(s @ y) / b.size
        if max(float(np.abs(dual).max()), float(np.abs(primal).max()), mu) < _PRECISE:
            break
        normal = Q + (A.T * (y / s)) @ A

        def direction(target: Floats, d=dual, p=primal, N=normal, s=s, y=y) -> tuple[Floats, Floats, Floats]:  # type: ignore[no-untyped-def]
            dz = np.linalg.lstsq(N, -d + A.T @ ((target - y * p) / s - y), rcond=None)[0]
            ds = A @ dz + p
            return dz, ds, (target - y * ds) / s - y

        _, ds, dy = direction(np.zeros(b.size))
        length = min(_room(s, ds), _room(y, dy))
        ahead = float((s + length * ds) @ (y + length * dy)) / b.size
        dz, ds, dy = direction(mu * (ahead / mu) ** 3 - ds * dy)
        length = 0.99 * min(_room(s, ds), _room(y, dy))
        z, s, y = z + length * dz, s + length * ds, y + length * dy
    return z


def _room(x: Floats, d: Floats) -> float:
    """How far one can go from x > 0 along d, at most 1 / 0.99."""
    shrinking = d < 0
    return min(1 / 0.99, float((-x[shrinking] / d[shrinking]).min(initial=np.inf)))


def _mixture(cost: Floats, columns: Floats, lower: Floats, upper: Floats, n: int) -> Mixture | None:
    """Minimise a cost over columns of at least 0, of which those behind the first n are free."""
    highs = quiet(presolve="off", primal_feasibility_tolerance=1e-10, dual_feasibility_tolerance=1e-10)
    scale = float(np.abs(cost).max()) or 1.0
    sizes = np.abs(columns).max(axis=1)
    sizes[sizes == 0] = 1.0
    least = np.r_[np.zeros(n), np.full(cost.size - n, -INFINITE)]
    highs.passModel(
        linear_program(cost / scale, columns / sizes[:, None], lower / sizes, upper / sizes, least)
    )
    highs.run()
    if highs.getModelStatus() != _SOLVED:
        return None
    solution = highs.getSolution()
    weights = np.maximum(np.array(solution.col_value)[:n], 0.0)
    value = -float(cost @ np.array(solution.col_value))
    prices = np.maximum(np.array(solution.row_dual)[1:] * scale / sizes[1:], 0.0)
    return Mixture(weights / weights.sum(), value, prices)
