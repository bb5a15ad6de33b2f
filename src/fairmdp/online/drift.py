"""Has the world changed? The latest records against all before them, at a level that many looks share.

Next states of every pair are compared by the pooled chi-square test with exact moments of `exchange.table`,
mean rewards by Welch's test for each pair, pooled after Fisher. Look j may err in a share
``level / (j (j + 1))`` of all runs, so all looks together in a share ``level``. How often a pair was tried
depends a little on what was seen, so the level was measured (``benchmarks/online.py``), not proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, stdtr

from fairmdp.model.checks import Floats, Ints
from fairmdp.model.labels import Labelled
from fairmdp.online.belief import Belief, Seen
from fairmdp.records import exchange

_NAMED = 3
_FEWEST = 5  # records of a pair on either side for its rewards to be compared
_SAME = 1e-9  # difference of rewards, relative to their size, that rounding makes


@dataclass(frozen=True)
class Tuning:
    """How often, and how surely."""

    level: float = 0.001
    block: float = 0.125  # records that are compared, relative to all before
    fewest: int = 250  # records that are compared, at least


TUNING = Tuning()


class Drift(NamedTuple):
    """A change that was found."""

    steps: int
    """Steps that had been observed."""
    p: float
    """How often a world that does not change looks so or worse, in all looks together."""
    sentence: str


class Watch:
    """Compares the latest records of a belief with all before them, now and then."""

    def __init__(self, labels: Labelled, before: Seen, tuning: Tuning = TUNING) -> None:
        self._labels, self._tuning = labels, tuning
        self.before, self.looks = before, 0

    def look(self, belief: Belief, steps: int) -> Drift | None:
        """Find a change, if there are enough new records to look at; then they alone are believed."""
        old, total = self.before.records, belief.now.records
        if old and total - old < max(self._tuning.fewest, self._tuning.block * old):
            return None
        if not old and total < self._tuning.fewest:
            return None
        new, self.looks = belief.now.since(self.before), self.looks + 1
        found = self._compared(self.before, new, steps) if old else None
        self.before = belief.now if found is None else new
        if found is not None:
            belief.now = new
        return found

    def _compared(self, old: Seen, new: Seen, steps: int) -> Drift | None:
        rows, z = _rows(old, new)
        pays = _rewards(old, new)
        p = min(2 * min(rows, pays) * self.looks * (self.looks + 1), 1.0)
        if p > self._tuning.level:
            return None
        worst = [self._labels.pair_name(i) for i in np.argsort(-z)[:_NAMED].tolist() if z[i] > 2]
        where = f", most of all after {', '.join(worst)}" if rows <= pays and worst else ""
        what = "what follows" if rows <= pays else "what is paid"
        how = "p below 1e-9" if p < 1e-9 else f"p = {p:.1g}"
        return Drift(steps, p, f"{what} seems to have changed by step {steps:,}{where} ({how})")


def _rows(old: Seen, new: Seen) -> tuple[float, Floats]:
    """P-value of all rows together, and by how many deviations each is off, (SA,)."""
    pairs, following, times, late = (
        np.concatenate(columns) for columns in zip(_entries(old, 0), _entries(new, 1), strict=True)
    )
    numbers, stratum = np.unique(pairs, return_inverse=True)
    found = exchange.table(stratum, late, following, times)
    z = np.zeros(old.counts.shape[0])
    if found is None:
        return 1.0, z
    z[numbers] = found.z
    return found.p, z


def _entries(seen: Seen, late: int) -> tuple[Ints, ...]:
    pairs, following = np.nonzero(seen.counts)
    times: Ints = seen.counts[pairs, following].astype(np.int64)
    return pairs.astype(np.int64), following.astype(np.int64), times, np.full(pairs.size, late)


def _rewards(old: Seen, new: Seen) -> float:
    """P-value of all mean rewards together."""
    n, m = old.per_pair, new.per_pair
    both = np.flatnonzero((n >= _FEWEST) & (m >= _FEWEST))
    if not both.size:
        return 1.0
    n, m = n[both], m[both]
    a, b = old.paid[both] / n, new.paid[both] / m
    size = np.abs(a) + np.abs(b)
    size = np.where(size > 0, size, 1.0)
    va, vb = (
        np.maximum(seen.squares[both] / k - mean**2, 0.0) / (k - 1)
        for seen, k, mean in ((old, n, a), (new, m, b))
    )
    told = (va + vb > 0) | (np.abs(a - b) > _SAME * size)  # what is always the same says nothing
    if not told.any():
        return 1.0
    a, b, n, m, size, va, vb = (each[told] for each in (a, b, n, m, size, va, vb))
    error2 = va + vb + (_SAME * size) ** 2
    freedom = error2**2 / (va**2 / (n - 1) + vb**2 / (m - 1) + (_SAME * size) ** 4)
    p = np.maximum(2 * stdtr(np.clip(freedom, 1, 1e9), -np.abs(a - b) / np.sqrt(error2)), 1e-300)
    return float(chdtrc(2 * p.size, -2 * np.log(p).sum()))
