"""Do records that have something in common lead the same way? A test for what is weak in every pair.

Each record leads to a cell, its pair and next state. Let y_n be its cell as a unit vector, less the mean of
its pair, and ``near`` a weight of every two records that is known before: the state before is the same, say,
or few steps are between them. In a Markov log nothing is alike but by chance. If it is, with a direction d in
the space of the cells, the largest eigenvalue of ::

    sum over n, m of  near(n, m) y_n y_m'        (each cell divided by the root of its records)

is large, even where no pair alone has enough records to show it. What the eigenvalue is by chance is seen
where next states are permuted among the records of each pair. It is approached by a few steps of Lanczos's
method from one vector, the same for all permutations: the test is one of that number.

Few permutations are made first, and more where the log is extreme among them, so that a log without memory
costs little. Beyond what they can count, the tail is that of the gamma distribution with their mean and
variance, and with their skewness or what it may be.

References
----------
.. [1] Baik, Ben Arous and Péché, *Phase transition of the largest eigenvalue for nonnull complex sample
   covariance matrices*, Annals of Probability 33, 2005, for how weak a direction can be to be seen so.
.. [2] Besag and Clifford, *Sequential Monte Carlo p-values*, Biometrika 78, 1991.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import gammaincc

from fairmdp.model.checks import Floats, Ints
from fairmdp.records.exchange import Outcome, numbers

Near = Callable[[Floats], Floats]
"""Sums of what is near each record, (N,) to (N,)."""

_KRYLOV = 20
_RARE = 20.0  # records by which every cell counts as having more: one seldom seen says little
_PERMUTATIONS = (9, 39, 99, 399)
_ENOUGH = 2  # permutations that lie above the log: it is not extreme
_FOR_A_TAIL, _CLEAR = 99, 1e-5  # permutations whose tail says enough, if it says so little
_SKEW_ERRORS = 2  # by which the skewness may be larger than that of the permutations
_LEAST_SKEW = 0.3  # that of the largest eigenvalue of a large random matrix


def alike(label: Ints) -> Near:
    """Records are near each other where they have the same label."""
    weight = 1 / (np.bincount(label) + _RARE)
    return lambda y: (weight * np.bincount(label, y))[label]


def within(window: int) -> Near:
    """Records are near each other where at most so many are between them."""

    def sums(y: Floats) -> Floats:
        total, n = np.concatenate([np.zeros(1), np.cumsum(y)]), np.arange(y.size)
        return np.asarray(total[np.minimum(n + window + 1, y.size)] - total[np.maximum(n - window, 0)] - y)

    return sums


def common(stratum: Ints, cell: Ints, near: Near) -> Outcome | None:
    """Test the largest eigenvalue, strata and cells numbered from 0; None where nothing can be compared."""
    if numbers(stratum * cell.size + cell).max(initial=-1) == stratum.max(initial=-1):
        return None  # every stratum has one cell
    rng = np.random.default_rng(0)
    start = rng.standard_normal(int(cell.max()) + 1)
    order = np.argsort(stratum, kind="stable")
    seen, by_chance = _largest(stratum, cell, near, start), list[float]()
    for many in _PERMUTATIONS:
        while len(by_chance) < many:
            shuffled = np.empty_like(cell)
            shuffled[order] = cell[np.argsort(stratum + rng.random(cell.size))]
            by_chance.append(_largest(stratum, shuffled, near, start))
        p = _above(seen, np.array(by_chance))
        if np.sum(np.array(by_chance) >= seen) >= _ENOUGH or (many >= _FOR_A_TAIL and p < _CLEAR):
            break
    return Outcome(p, np.zeros(0))


def _largest(stratum: Ints, cell: Ints, near: Near, start: Floats) -> float:
    """The largest eigenvalue in the Krylov space of a vector over the cells."""
    n = np.bincount(stratum)
    scale = 1 / np.sqrt(np.bincount(cell, minlength=start.size) + _RARE)

    def centred(y: Floats) -> Floats:
        return np.asarray(y - (np.bincount(stratum, y) / n)[stratum])

    basis, image = [start / np.linalg.norm(start)], list[Floats]()
    for _ in range(min(_KRYLOV, start.size)):
        y = centred(near(centred((scale * basis[-1])[cell])))
        image.append(scale * np.bincount(cell, y, minlength=start.size))
        rest = image[-1]
        for _ in range(2):  # once leaves rounding errors
            rest = rest - np.array(basis).T @ (np.array(basis) @ rest)
        size = float(np.linalg.norm(rest))
        if size <= 1e-10 * float(np.linalg.norm(image[-1])):
            break
        basis.append(rest / size)
    inner = np.array(basis[: len(image)]) @ np.array(image).T
    return float(np.linalg.eigvalsh((inner + inner.T) / 2)[-1])


def _above(seen: float, by_chance: Floats) -> float:
    """Chance of so much or more."""
    above, n = int((by_chance >= seen).sum()), by_chance.size
    deviation = float(by_chance.std(ddof=1))
    if above >= _ENOUGH or deviation == 0:
        return (above + 1) / (n + 1)
    off = (by_chance - by_chance.mean()) / deviation
    skew = max(float((off**3).mean()) + _SKEW_ERRORS * np.sqrt(6 / n), _LEAST_SKEW)
    shape = 4 / skew**2
    place = shape + (seen - float(by_chance.mean())) / deviation * np.sqrt(shape)
    return float(gammaincc(shape, max(place, 0.0)))
