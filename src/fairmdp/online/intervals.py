"""The long-run shares of a policy in force, with intervals that may be looked at whenever one likes.

Cycles between visits of an anchor state are independent and alike. With n of them, lengths L, times Y in a
quota's set and residuals ``Y - ratio L`` of standard deviation s, the ratio ``sum Y / sum L`` is within ::

    s / mean(L) * sqrt(2 (n q + 1) / (n^2 q) * log(sqrt(n q + 1) / alpha))

of the long-run share at all n together, but for a share alpha of all runs: an asymptotic confidence sequence
(Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, *Annals of Statistics* 2024). It holds for one policy, so a
change of the policy begins anew; a cycle that the change cuts off is left out. How often intervals were ever
wrong was measured (``benchmarks/online_intervals.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmdp.model.checks import Bools, Floats, Ints, ReadOnly

FEWEST = 200
"""Cycles below which nothing is said: from 50 on, 12 % of runs were ever wrong with five quotas."""

_SHARPEST = 500  # cycles after which the interval is as narrow as a sequence of its kind can be


@dataclass(frozen=True, eq=False)
class ShareIntervals(ReadOnly):
    """Long-run shares of the policy in force, all of them together at the level of the agent.

    Attributes
    ----------
    shares, low, high : ndarray
        Estimates and intervals, (K,); NaN and [0, 1] before there were 200 cycles.
    cycles, steps : int
        Complete cycles, and their steps.
    """

    shares: Floats
    low: Floats
    high: Floats
    cycles: int
    steps: int


class Cycles:
    """Sums over the cycles of one policy, which grow."""

    def __init__(self, counts: Floats, anchors: Bools) -> None:
        self._counts, self._anchors = counts, anchors  # (SA, K), (SA,)
        K = counts.shape[1]
        self.n = 0
        self.sums = np.zeros((K, 5))  # of Y, L, Y^2, Y L, L^2
        self.begun = False
        self.part = np.zeros(K + 1)  # Y and L of the cycle that goes on

    def add(self, pairs: Ints) -> None:
        """Count steps, in their order."""
        at = np.flatnonzero(self._anchors[pairs])  # where cycles end and begin
        if not self.begun:
            if not at.size:
                return
            pairs, at, self.begun = pairs[at[0] :], at[1:] - at[0], True
        rows = np.column_stack([self._counts[pairs], np.ones(pairs.size)])
        sums = np.concatenate([np.zeros((1, rows.shape[1])), rows.cumsum(axis=0)])
        cycles = np.diff(sums[np.concatenate([[0], at, [pairs.size]])], axis=0)
        cycles[0] += self.part
        self.part = cycles[-1]
        self._complete(cycles[:-1])

    def _complete(self, cycles: Floats) -> None:
        Y, L = cycles[:, :-1], cycles[:, -1:]
        columns = (Y, np.broadcast_to(L, Y.shape), Y**2, Y * L, np.broadcast_to(L**2, Y.shape))
        self.sums = self.sums + np.stack([column.sum(axis=0) for column in columns], axis=1)
        self.n += cycles.shape[0]

    def intervals(self, alpha: float) -> ShareIntervals:
        """Shares and intervals, at level alpha for all together."""
        K, n = self.sums.shape[0], self.n
        y, length, yy, yl, ll = self.sums.T
        steps = int(length[0]) if K else 0
        if n < FEWEST:
            return ShareIntervals(np.full(K, np.nan), np.zeros(K), np.ones(K), n, steps)
        ratio = y / length
        variance = np.maximum(yy - 2 * ratio * yl + ratio**2 * ll, 0.0) / (n - 1)
        radius = np.sqrt(variance) / (length / n) * half_width(n, alpha / max(K, 1))
        return ShareIntervals(
            ratio, np.maximum(ratio - radius, 0.0), np.minimum(ratio + radius, 1.0), n, steps
        )


def half_width(n: int, alpha: float) -> float:
    """Half width of the sequence at its n-th term, for residuals of standard deviation 1."""
    a = -2 * np.log(alpha)
    q = (a + np.log(a + 1)) / _SHARPEST
    return float(np.sqrt(2 * (n * q + 1) / (n**2 * q) * np.log(np.sqrt(n * q + 1) / alpha)))
