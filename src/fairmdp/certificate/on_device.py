"""The two facts of the certificate on a GPU, by the rules of `rounded`.

With few quotas their shares need no law: for every vector ``h`` the long-run mean of ``f`` under a policy,
from whatever start, lies between the smallest and the largest entry of ``f + P_pi h - h``. With h near the
bias of f that is a short interval, whose width does not grow with the number of states.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairmdp.certificate.law import Law
from fairmdp.certificate.rounded import less_paid
from fairmdp.kernels.cuda.sweeps import CudaSweeps
from fairmdp.validation import Floats

_NARROW = 1e-10  # width of an interval, relative to what is averaged, at which to be content


def ceiling(device: CudaSweeps, bias: Any, prices: Floats, *, pay: float = 1.0) -> float:
    """Proven upper bound on ``pay * r @ x`` over the occupancies that meet the quotas."""
    h, size = _centred(bias)
    return less_paid(device.problem, device.top(h, prices, pay, size), prices)


def law(device: CudaSweeps, policy: Any) -> Law:
    """Proven intervals for the gain and the shares of a policy."""
    r = device.problem.mdp.r
    low, high = float(r.min()), float(r.max())
    chain = device.follow(policy)
    intervals = [
        _mean(device, policy, chain, k, size, span)
        for k, size, span in (
            (-1, max(abs(low), abs(high)), high - low),
            *((k, 1.0, 1.0) for k in range(device.n_quotas)),
        )
    ]
    shares = np.clip(np.array(intervals[1:]).reshape(-1, 2), 0.0, 1.0)
    return Law(intervals[0], shares, float(np.diff(shares, axis=1).max(initial=0.0)))


def _mean(
    device: CudaSweeps, policy: Any, chain: Any, k: int, size_f: float, span: float
) -> tuple[float, float]:
    """Interval for the long-run mean of quota k, or of the rewards where k is -1."""
    h = device.full(0.0)
    f, _, _ = device.mean_bounds(policy, k, h, size_f, 0.0)
    h, _ = device.settle(chain, h, f - float(f.mean()), _NARROW * span)
    h, size = _centred(h)
    _, low, high = device.mean_bounds(policy, k, h, size_f, size)
    return low, high


def _centred(h: Any) -> tuple[Any, float]:
    """Vector less its middle, and its size then."""
    h = h - (float(h.max()) + float(h.min())) / 2
    return h, float(abs(h).max())
