"""The two facts of the certificate where the arrays are, by the rules of `rounded`.

With few quotas their shares need no stationary distribution: for every vector ``h`` the long-run mean of
``f`` under a policy, from whatever start, lies between the smallest and the largest entry of
``f + P_pi h - h``. With h near the bias of f that is a short interval, whose width does not grow with the
number of states.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairmdp.backends.base import Backend, Residuals
from fairmdp.certificate.facts import UNPROVED, LongRun, chargeable, unknown
from fairmdp.certificate.rounded import EPS, less_dual_value, relative_error
from fairmdp.model.checks import Floats

_NARROW = 3e-10  # width of an interval, relative to what is averaged, at which to be content
_MOST = 300  # sweeps for a stationary distribution up to rounding


def ceiling(backend: Backend, bias: Any, prices: Floats, *, pay: float = 1.0) -> float:
    """Proven upper bound on ``pay * r @ x`` over the occupancies that meet the quotas."""
    h, size = _centred(bias)
    prices = chargeable(backend.stated, prices)
    return less_dual_value(backend.stated, residuals_of(backend).top(h, prices, pay, size), prices)


def long_run(backend: Backend, policy: Any) -> LongRun:
    """Proven intervals for the gain and the shares of a policy."""
    there = residuals_of(backend)
    r = backend.stated.mdp.r
    low, high = float(r.min()), float(r.max())
    columns = backend.n_quotas + 1  # the rewards, in units of their span, then the quotas
    sizes = [max(abs(low), abs(high)), *[1.0] * backend.n_quotas]
    units = [(high - low) or 1.0, *[1.0] * backend.n_quotas]
    F, nowhere = there.columns(columns), backend.full(0.0)
    for k in range(columns):
        f, _, _ = there.mean_bounds(policy, k - 1, nowhere, sizes[k], 0.0)
        F[:, k] = (f - float(f.mean())) / units[k]
    chain = backend.follow(policy)
    H, left = backend.way("sweeps").biases(chain, F, None, columns, _NARROW)
    if left > _NARROW:
        way = backend.patient()
        way.stationary(chain, backend.full(1 / backend.n_states), _NARROW)  # biases are 0 where it often is
        H, _ = way.biases(chain, F, None, columns, _NARROW)
    intervals = []
    for k in range(columns):
        h, size = _centred(H[:, k] * units[k])
        intervals.append(there.mean_bounds(policy, k - 1, h, sizes[k], size)[1:])
    shares = np.clip(np.array(intervals[1:]).reshape(-1, 2), 0.0, 1.0)
    return LongRun(intervals[0], shares, float(np.diff(shares, axis=1).max(initial=0.0)))


def each_state_long_run(backend: Backend, policy: Any, start: Any = None) -> tuple[LongRun, Any]:
    """Proven intervals where every state has a quota of its own, and the stationary distribution in them."""
    there = residuals_of(backend)
    turned = there.transposed(backend.follow(policy))
    v = _at_rest(there, turned, backend.full(1 / backend.n_states) if start is None else start)
    sizes = there.column_sizes(turned)
    error = relative_error(lambda x: there.push(turned, x), sizes, v, int(v.argmax()), there.defect(policy))
    if error is None:
        return unknown(backend.stated, UNPROVED), v
    gain, _ = there.earned(backend.occupancy(policy, v))
    _, radius = there.earned(backend.occupancy(policy, v * (error + 4096 * EPS)))
    shares = np.column_stack([backend.get(v * (1 - error)), backend.get(v * (1 + error))])
    return LongRun((gain - radius, gain + radius), shares, float((v * error).sum())), v


def _at_rest(there: Residuals, turned: Any, v: Any) -> Any:
    """Stationary distribution of a chain from a guess, up to rounding in every state."""
    best = math.inf
    for sweep in range(_MOST):
        pushed = there.push(turned, v)
        if sweep % 10 == 0:
            off = float(abs(pushed / v - 1).max())
            if off > 0.5 * best and off < 1e-12:
                break
            best = min(best, off)
        v = 0.9 * pushed + 0.1 * v
        v /= v.sum()
    return v


def residuals_of(backend: Backend) -> Residuals:
    """What a certificate needs, of a backend that has it."""
    assert backend.residuals is not None, "this backend's certificate is evaluated from the problem itself"
    return backend.residuals


def _centred(h: Any) -> tuple[Any, float]:
    """Vector less its middle, and its size then."""
    h = h - (float(h.max()) + float(h.min())) / 2
    return h, float(abs(h).max())
