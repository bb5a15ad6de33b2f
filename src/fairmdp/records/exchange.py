"""Is what followed exchangeable within strata? Tests with exact moments, pooled over all strata.

In a Markov log, what follows the n-th record of a pair is an independent draw from the pair's row, whatever
was before. So the next states f of one pair may be permuted among its records. (Exactly so for a fixed number
of records; how often a pair was tried may depend a little on what followed, with which the level was
measured, in ``benchmarks/checks.py``.) Four statistics are compared with their permutations, of which the
mean and the variance are known in closed form ::

    table      sum (O - E)^2 / E                   of f against a label           (Nass 1959)
    likeness   sum over lags 1..w 1{f_k == f_(k + lag)}       k: visits to one pair (join counts)
    against    T' Cov(T)^-1 T,  T = sum_n y_n z_n  y_n = phi(f_n) - mean over the pair, z_n a label
    lasting    sum over lags 1..w y_n . y_(n - lag)           n: records, whatever their pairs

The first two find anything, if there is enough of it for one pair. The last two find what has the same
direction everywhere, however little of it there is for one pair: phi are the slowest eigenvectors of the
chain that was recorded.

References
----------
.. [1] Nass, *The chi^2 test for small expectations in contingency tables*, Biometrika 46, 1959.
.. [2] Cliff and Ord, *Spatial Processes*, Pion 1981, chapter 2, for join counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, gammaincc, ndtr

from fairmdp.model.checks import Bools, Floats, Ints

_LEAST_VARIANCE = 1e-12
_ROUNDING = 1e-9  # deviation, relative to their size, of numbers that are all the same
_SPARSE = 8  # largest value, relative to their number, up to which values are counted and not sorted


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a test has shown: its p-value, and by how many deviations each stratum is off."""

    p: float
    z: Floats


def table(stratum: Ints, label: Ints, following: Ints, times: Ints | None = None) -> Outcome | None:
    """Next states against a label in each stratum, numbered from 0; None where nothing can be compared.

    ``times`` says how many equal records each entry stands for; by default one.
    """
    n = np.bincount(stratum, times).astype(float)
    of_rows, row = _within(stratum, label)
    of_columns, column = _within(stratum, following)
    row_n, column_n = np.bincount(row, times), np.bincount(column, times)
    row_of, cell = _within(row, column)
    column_of = np.zeros(row_of.size, np.int64)
    column_of[cell] = column
    seen, of = np.bincount(cell, times), of_rows[row_of]
    expected = row_n[row_of] * column_n[column_of] / n[of]
    chi2 = np.bincount(of, seen**2 / expected, minlength=n.size) - n
    mean, variance = _nass(n, _side(n, of_rows, row_n), _side(n, of_columns, column_n))
    told = variance > _LEAST_VARIANCE
    if not told.any():
        return None
    z = np.where(told, (chi2 - mean) / np.sqrt(np.where(told, variance, 1.0)), 0.0)
    return Outcome(_above(chi2[told].sum(), mean[told].sum(), variance[told].sum()), z)


def likeness(stratum: Ints, following: Ints, window: int) -> Outcome | None:
    """Whether next states are more often equal at visits up to so many apart; strata stand together."""
    n = np.bincount(stratum).astype(float)
    equal = np.zeros(n.size)
    for lag in range(1, min(window, following.size - 1) + 1):
        same = (stratum[lag:] == stratum[:-lag]) & (following[lag:] == following[:-lag])
        equal += np.bincount(stratum[lag:][same], minlength=n.size)
    place = np.arange(stratum.size) - np.searchsorted(stratum, stratum)  # of a visit, in its stratum
    joins = np.minimum(place, window) + np.minimum(n[stratum] - 1 - place, window)
    edges, meeting = np.bincount(stratum, joins) / 2, np.bincount(stratum, joins * (joins - 1))
    of_columns, column = _within(stratum, following)
    times = np.bincount(column)
    two, three, four = (_falling(of_columns, times, k, n.size) for k in (2, 3, 4))
    squares = np.bincount(of_columns, _falls(times, 2) ** 2, minlength=n.size)
    p2, p3 = _part(two, n, 2), _part(three, n, 3)
    p22 = _part(four + two**2 - squares, n, 4)
    mean = edges * p2
    variance = mean + meeting * p3 + (edges * (edges - 1) - meeting) * p22 - mean**2
    told = (n >= 4) & (variance > _LEAST_VARIANCE)
    if not told.any():
        return None
    z = np.where(told, (equal - mean) / np.sqrt(np.where(told, variance, 1.0)), 0.0)
    # Pieces of `window` visits are nearly independent, and each counts like a chi-square over the columns.
    pieces = (n / window * (np.bincount(of_columns, minlength=n.size) - 1))[told].sum()
    skew = math.sqrt(8 / max(pieces, 1.0))
    return Outcome(_above(equal[told].sum(), mean[told].sum(), variance[told].sum(), skew), z)


def against(stratum: Ints, y: Floats, labels: Floats, times: Ints | None = None) -> Outcome | None:
    """Deviations of what followed, (N, d), against numbers known before, (N, m); ``times`` as in `table`."""
    if not y.size or not labels.size:
        return None
    n = np.bincount(stratum, times)
    roots = np.sqrt(np.ones(stratum.size) if times is None else times)[:, None]
    y, labels = (roots * _centred(stratum, values, times) for values in (y, labels))
    T = (y.T @ labels).ravel()
    of_y = _products(stratum, y) / np.maximum(n - 1, 1)[:, None, None]  # (strata, d, d)
    covariance = np.einsum("sab,sjk->ajbk", of_y, _products(stratum, labels), optimize=True)
    covariance = covariance.reshape(T.size, T.size)
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    kept = values > 1e-9 * max(values.max(initial=0.0), _LEAST_VARIANCE)
    if not kept.any():
        return None
    return Outcome(
        float(chdtrc(kept.sum(), ((vectors[:, kept].T @ T) ** 2 / values[kept]).sum())), np.zeros(0)
    )


def numbers(values: Ints) -> Ints:
    """Values, at least 0, as numbers from 0 in their order."""
    if values.size and int(values.max()) > _SPARSE * values.size:
        return np.asarray(np.unique(values, return_inverse=True)[1])
    there = np.bincount(values) > 0
    return np.asarray((np.cumsum(there) - 1)[values])


def _within(stratum: Ints, values: Ints) -> tuple[Ints, Ints]:
    """What each stratum has of the values: the stratum of each such cell, and the cell of each record."""
    cell = numbers(stratum * (int(values.max(initial=0)) + 1) + values)
    of = np.zeros(int(cell.max(initial=-1)) + 1, np.int64)
    of[cell] = stratum
    return of, cell


def _products(stratum: Ints, values: Floats) -> Floats:
    """Sum of ``v v'`` over the rows v of each stratum, (strata, m, m)."""
    ends = np.cumsum(np.bincount(stratum))[:-1]
    parts = np.split(values[np.argsort(stratum, kind="stable")], ends)
    return np.array([part.T @ part for part in parts])


def lasting(stratum: Ints, y: Floats, window: int) -> Outcome | None:
    """Deviations of what followed, in the order of the log, (N, d), against the sum of the last few."""
    if not y.size:
        return None
    y = _centred(stratum, y)
    sums = np.concatenate([np.zeros((1, y.shape[1])), np.cumsum(y, axis=0)])
    before = sums[:-1] - sums[np.maximum(np.arange(y.shape[0]) - window, 0)]
    n, spread = np.bincount(stratum), np.zeros(y.shape[0])  # variance of y_n . before_n, given the past
    for a in range(y.shape[1]):
        for b in range(y.shape[1]):
            both = np.bincount(stratum, y[:, a] * y[:, b]) / np.maximum(n - 1, 1)
            spread += both[stratum] * before[:, a] * before[:, b]
    if spread.sum() <= _LEAST_VARIANCE:
        return None
    return Outcome(float(ndtr(-(y * before).sum() / np.sqrt(spread.sum()))), np.zeros(0))


def ranked(stratum: Ints, values: Floats) -> tuple[Floats, Bools]:
    """Ranks of values beside their stratum, from -0.5 to 0.5, and whether values vary in it at all.

    Ties have the same rank. Of outliers nothing is left but that they are the first or the last.
    """
    n = np.bincount(stratum)
    y = _centred(stratum, values[:, None])[:, 0]
    deviation = np.sqrt(np.bincount(stratum, y**2) / np.maximum(n - 1, 1))
    size = np.bincount(stratum, np.abs(values)) / n
    varies = deviation > _ROUNDING * size
    y = np.where(varies[stratum], y / np.where(varies, deviation, 1.0)[stratum], 0.0)
    _, tie, times = np.unique(np.round(y, 9), return_inverse=True, return_counts=True)
    return ((np.cumsum(times) - times / 2) / y.size - 0.5)[tie], varies[stratum]


def slow_directions(chain: Floats, most: int = 3) -> Floats:
    """The slowest eigenvectors of a chain but the constant one, as real columns, (S, at most ``most``)."""
    values, vectors = np.linalg.eig(chain)
    found: list[Floats] = []
    for k in np.argsort(-np.abs(values), kind="stable")[1:].tolist():
        if values[k].imag >= 0:
            found += [vectors[:, k].real] if values[k].imag == 0 else [vectors[:, k].real, vectors[:, k].imag]
    return np.array(found[:most]).reshape(-1, chain.shape[0]).T


def _centred(stratum: Ints, values: Floats, times: Ints | None = None) -> Floats:
    """Values less their means over the strata, (N, d)."""
    n, weight = np.bincount(stratum, times), 1 if times is None else times
    means = np.array([np.bincount(stratum, weight * column) / n for column in values.T]).reshape(-1, n.size).T
    return np.asarray(values - means[stratum])


def _side(n: Floats, of: Ints, sizes: Ints) -> tuple[Floats, Floats, Floats]:
    """Rows, or columns, of each stratum's table: their number, and Nass's v and w."""
    r = np.bincount(of, minlength=n.size).astype(float)
    inverse = np.bincount(of, 1 / sizes, minlength=n.size)
    v = (r - 1) * (n - r) / np.maximum(n - 1, 1)
    w = (n * inverse - r**2) / np.maximum(n - 2, 1)
    return r, v, w


def _nass(
    n: Floats, rows: tuple[Floats, Floats, Floats], columns: tuple[Floats, Floats, Floats]
) -> tuple[Floats, Floats]:
    """Mean and variance of chi-square given both margins, (strata,) each; 0 where there is no choice."""
    (r, v1, w1), (c, v2, w2) = rows, columns
    mean = n * (r - 1) * (c - 1) / np.maximum(n - 1, 1)
    variance = 2 * n / np.maximum(n - 3, 1) * (v1 - w1) * (v2 - w2) + n**2 / np.maximum(n - 1, 1) * w1 * w2
    return mean, np.where((n >= 4) & (r > 1) & (c > 1), variance, 0.0)


def _falls(times: Ints | Floats, k: int) -> Floats:
    """``times (times - 1) ... (times - k + 1)``."""
    product = np.ones(times.size)
    for j in range(k):
        product = product * (times - j)
    return np.asarray(product)


def _falling(of: Ints, times: Ints, k: int, strata: int) -> Floats:
    return np.asarray(np.bincount(of, _falls(times, k), minlength=strata), float)


def _part(ways: Floats, n: Floats, k: int) -> Floats:
    """Ways among those of k different visits; 0 where there are fewer."""
    all_ways = _falls(n, k)
    return np.asarray(np.divide(ways, all_ways, out=np.zeros(n.size), where=all_ways > 0))


def _above(seen: float, mean: float, variance: float, skew: float = 0.0) -> float:
    """Chance of so much or more, by the gamma distribution with these moments; its skewness at the least."""
    deviation = math.sqrt(variance)
    shape = 4 / max(2 * deviation / mean, skew) ** 2
    return float(gammaincc(shape, max(shape + (seen - mean) / deviation * math.sqrt(shape), 0.0)))
