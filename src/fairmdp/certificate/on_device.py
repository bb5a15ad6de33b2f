"""The two facts of the certificate on a GPU, by the rules of `rounded`.

With few quotas their shares need no law: for every vector ``h`` the long-run mean of ``f`` under a policy,
from whatever start, lies between the smallest and the largest entry of ``f + P_pi h - h``. With h near the
bias of f that is a short interval, whose width does not grow with the number of states.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairmdp.certificate.law import NEARLY_REDUCIBLE, Law, no_law
from fairmdp.certificate.rounded import EPS, less_paid, relative_error
from fairmdp.kernels.cuda.chains import transposed
from fairmdp.kernels.cuda.sweeps import CudaSweeps
from fairmdp.validation import Floats

_NARROW = 3e-10  # width of an interval, relative to what is averaged, at which to be content


def ceiling(device: CudaSweeps, bias: Any, prices: Floats, *, pay: float = 1.0) -> float:
    """Proven upper bound on ``pay * r @ x`` over the occupancies that meet the quotas."""
    h, size = _centred(bias)
    return less_paid(device.problem, device.top(h, prices, pay, size), prices)


def law(device: CudaSweeps, policy: Any) -> Law:
    """Proven intervals for the gain and the shares of a policy."""
    r = device.problem.mdp.r
    low, high = float(r.min()), float(r.max())
    columns = device.n_quotas + 1  # the rewards, in units of their span, then the quotas
    H = device.launcher.xp.zeros((device.n_states, device.width(columns)))
    sizes = [max(abs(low), abs(high)), *[1.0] * device.n_quotas]
    units = [(high - low) or 1.0, *[1.0] * device.n_quotas]
    nowhere = device.full(0.0)
    for k in range(columns):
        f, _, _ = device.mean_bounds(policy, k - 1, nowhere, sizes[k], 0.0)
        H[:, k] = (f - float(f.mean())) / units[k]
    F, chain = H, device.follow(policy)
    H, left = device.biases(chain, F, columns, _NARROW)
    if left > _NARROW:
        H, _ = device.patient().biases(chain, F, columns, _NARROW)
    intervals = []
    for k in range(columns):
        h, size = _centred(H[:, k] * units[k])
        intervals.append(device.mean_bounds(policy, k - 1, h, sizes[k], size)[1:])
    shares = np.clip(np.array(intervals[1:]).reshape(-1, 2), 0.0, 1.0)
    return Law(intervals[0], shares, float(np.diff(shares, axis=1).max(initial=0.0)))


def each_state_law(device: CudaSweeps, policy: Any) -> tuple[Law, Any]:
    """Proven intervals where every state has a quota of its own, and the law that they are around."""
    turned = transposed(device.launcher, device.follow(policy))
    v = _resting(device, turned)
    sizes = turned.starts[1:] - turned.starts[:-1]
    error = relative_error(lambda x: device.push(turned, x), sizes, v, int(v.argmax()), device.defect(policy))
    if error is None:
        return no_law(device.problem, NEARLY_REDUCIBLE), v
    r = device.problem.mdp.r
    gain = float((r * device.occupancy(policy, v)).sum())
    radius = float((abs(r) * device.occupancy(policy, v * (error + 4096 * EPS))).sum())
    shares = np.column_stack([device.get(v * (1 - error)), device.get(v * (1 + error))])
    return Law((gain - radius, gain + radius), shares, float((v * error).sum())), v


def _resting(device: CudaSweeps, turned: Any) -> Any:
    """Law of a chain, up to rounding in every state."""
    v, best = device.full(1 / device.n_states), math.inf
    for sweep in range(device.most):
        pushed = device.push(turned, v)
        if sweep % 10 == 0:
            off = float(abs(pushed / v - 1).max())
            if off > 0.5 * best and off < 1e-12:
                break
            best = min(best, off)
        v = 0.9 * pushed + 0.1 * v
        v /= v.sum()
    return v


def _centred(h: Any) -> tuple[Any, float]:
    """Vector less its middle, and its size then."""
    h = h - (float(h.max()) + float(h.min())) / 2
    return h, float(abs(h).max())
