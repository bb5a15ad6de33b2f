# mypy: disable-error-code="untyped-decorator,no-any-return"
"""What no joint policy of a world can exceed, from prices and one policy of each row.

For all prices ``lambda, nu, mu >= 0`` and all relative values ``h_i`` ::

    U = lambda C - nu R + sum_i n_i (max_sa [r - lambda c + nu w + mu m + sum_t P_t (h(t) - h(s))] - mu rho)

bounds the gain of every policy that keeps capacity in the mean and meets the quotas, whatever it knows:
joint, dependent on history, with any number of closed classes. Only the balance of flow is used. With rewards
0 a negative U proves that there is no such policy. Where ``h_i`` comes from does not matter; it is made here
from a policy, so that a witness of a million rows is small.

Differences of relative values are rounded to a part of themselves: a row's error is
``eps sum P |h(t) - h(s)|`` and not ``eps max |h|``. All errors are added outward. The model is the stored
chances divided by their sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairmdp.certificate.rounded import EPS, TINY
from fairmdp.chains.small import OPTIONS, long_run_of, reference_of
from fairmdp.model.checks import Floats
from fairmdp.world.rows import Rows
from fairmdp.world.world import World

Witnesses = Sequence[tuple[NDArray[np.int16], Floats]]
"""A policy, (B, S), and prices of local quotas, (B, J), for every block of a world."""

_EPS = float(EPS)


def ceiling_of(world: World, prices: Floats, witnesses: Witnesses, reward: float = 1.0) -> float:
    """Proven bound on the gain of every policy of a world; for ``reward=0`` on a gain of 0.

    ``prices`` are those of resources and of sides of group quotas, (K + G,).
    """
    lam, nu = split(world, prices)
    tops = [
        row_ceilings(rows, w, mu, lam, nu, reward)
        for rows, (w, mu) in zip(world.blocks, witnesses, strict=True)
    ]
    terms = [rows.number * top for rows, top in zip(world.blocks, tops, strict=True)]
    owed = np.concatenate([lam * world.capacity, -nu * world.group_owed])
    all_terms = np.concatenate([*terms, owed])
    if not np.isfinite(all_terms).all():
        return math.inf
    error = 2 * _EPS * math.fsum(np.abs(all_terms)) + TINY * all_terms.size
    return math.nextafter(math.fsum(all_terms) + error, math.inf)


def row_ceilings(
    rows: Rows, policies: NDArray[np.int16], mu: Floats, lam: Floats, nu: Floats, reward: float = 1.0
) -> Floats:
    """Bound on what a component of every row adds, (B,); infinite where the witness proves nothing."""
    policies, mu = usable(rows, policies, mu)
    out = np.empty(rows.size)
    _row_ceilings(rows, policies, mu, lam, nu, reward, out)
    out[~np.isfinite(out)] = np.inf
    return out


def exact_ceiling(world: World, prices: Floats, witnesses: Witnesses, reward: float = 1.0) -> Fraction:
    """The bound of `ceiling_of` in rational arithmetic, for small worlds."""
    lam, nu = split(world, prices)
    total = _dot(lam, world.capacity) - _dot(nu, world.group_owed)
    for rows, (policies, mu) in zip(world.blocks, witnesses, strict=True):
        bounds = exact_rows(rows, policies, mu, lam, nu, reward)
        total += sum((int(n) * bound for n, bound in zip(rows.number, bounds, strict=True)), Fraction(0))
    return total


def exact_rows(
    rows: Rows, policies: NDArray[np.int16], mu: Floats, lam: Floats, nu: Floats, reward: float = 1.0
) -> list[Fraction]:
    """The bounds of `row_ceilings` in rational arithmetic."""
    policies, mu = usable(rows, policies, mu)
    values = np.empty((rows.size, rows.n_states))
    relative_values(rows, policies, mu, lam, nu, reward, values)
    return [_exact_row(rows, i, mu[i], lam, nu, reward, values[i]) for i in range(rows.size)]


def _dot(a: Floats, b: Floats) -> Fraction:
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    return sum((Fraction(x) * Fraction(y) for x, y in pairs), Fraction(0))


def split(world: World, prices: Floats) -> tuple[Floats, Floats]:
    """Prices of resources and of groups, with nothing below 0."""
    prices = np.where(np.isfinite(prices), np.maximum(prices, 0.0), 0.0).astype(np.float64)
    K = world.capacity.size
    return np.ascontiguousarray(prices[:K]), np.ascontiguousarray(prices[K:])


def usable(rows: Rows, policies: NDArray[np.int16], mu: Floats) -> tuple[NDArray[np.int16], Floats]:
    """A witness whose numbers mean something: actions that exist, prices of what is owed."""
    most = np.diff(rows.pair_ptr) - 1
    policies = np.clip(policies, 0, most).astype(np.int16)
    priced = np.isfinite(mu) & (mu > 0) & np.isfinite(rows.owed)
    return np.ascontiguousarray(policies), np.where(priced, mu, 0.0)


@njit(**OPTIONS)
def _raised(
    rows: Rows, i: int, mu: NDArray[Any], lam: NDArray[Any], nu: NDArray[Any], reward: float,
    f: NDArray[Any], size: NDArray[Any],
) -> None:  # fmt: skip
    """``reward r - lambda c + nu w + mu m`` of row i, and the sum of the sizes of these terms."""
    r, uses = rows.r[i % rows.r.shape[0]], rows.uses[i % rows.uses.shape[0]]
    counts, shares = rows.counts[i % rows.counts.shape[0]], rows.group_counts[i % rows.group_counts.shape[0]]
    for pair in range(f.size):
        value = reward * r[pair]
        total = abs(value)
        for k in range(lam.size):
            value -= lam[k] * uses[pair, k]
            total += lam[k] * uses[pair, k]
        for g in range(rows.group_of.shape[1]):
            if rows.group_of[i, g] >= 0:
                term = nu[rows.group_of[i, g]] * shares[pair, g]
                value += term
                total += abs(term)
        for j in range(mu.shape[1]):
            term = mu[i, j] * counts[pair, j]
            value += term
            total += abs(term)
        f[pair], size[pair] = value, total


@njit(**OPTIONS)
def _values_of(
    rows: Rows, i: int, policy: NDArray[Any], f: NDArray[Any], ref: int,
    A: NDArray[Any], work: NDArray[Any], h: NDArray[Any], visits: NDArray[Any],
) -> int:  # fmt: skip
    """Relative values of a policy of row i, referred to a state that is often visited."""
    P = rows.P[i % rows.P.shape[0]]
    for _ in range(3):
        long_run_of(rows.pair_ptr, rows.row_ptr, rows.cols, P, f, policy, ref, A, work, h, visits)
        better = reference_of(visits, ref)
        if better == ref:
            break
        ref = better
    return ref


@njit(**OPTIONS)
def relative_values(
    rows: Rows, policies: NDArray[Any], mu: NDArray[Any], lam: NDArray[Any], nu: NDArray[Any], reward: float,
    values: NDArray[Any],
) -> None:  # fmt: skip
    """Relative values of every row, (B, S)."""
    S, SA = rows.pair_ptr.size - 1, rows.row_ptr.size - 1
    A, work, visits = np.empty((S, S)), np.empty((3, S)), np.empty(S)
    f, size = np.empty(SA), np.empty(SA)
    ref = np.int64(0)  # else callees would be compiled for the constant as well
    for i in range(rows.number.size):
        _raised(rows, i, mu, lam, nu, reward, f, size)
        ref = _values_of(rows, i, policies[i], f, ref, A, work, values[i], visits)


@njit(**OPTIONS)
def _row_ceilings(
    rows: Rows, policies: NDArray[Any], mu: NDArray[Any], lam: NDArray[Any], nu: NDArray[Any], reward: float,
    out: NDArray[Any],
) -> None:  # fmt: skip
    S, SA = rows.pair_ptr.size - 1, rows.row_ptr.size - 1
    A, work, h, visits = np.empty((S, S)), np.empty((3, S)), np.empty(S), np.empty(S)
    f, size = np.empty(SA), np.empty(SA)
    J, wide = mu.shape[1], lam.size + rows.group_of.shape[1] + mu.shape[1] + 8
    ref = np.int64(0)  # else callees would be compiled for the constant as well
    for i in range(rows.number.size):
        P = rows.P[i % rows.P.shape[0]]
        _raised(rows, i, mu, lam, nu, reward, f, size)
        ref = _values_of(rows, i, policies[i], f, ref, A, work, h, visits)
        top = -np.inf
        for s in range(S):
            for pair in range(rows.pair_ptr[s], rows.pair_ptr[s + 1]):
                ahead, moved, mass = 0.0, 0.0, 0.0
                for e in range(rows.row_ptr[pair], rows.row_ptr[pair + 1]):
                    d = P[e] * (h[rows.cols[e]] - h[s])
                    ahead += d
                    moved += abs(d)
                    mass += P[e]
                length = rows.row_ptr[pair + 1] - rows.row_ptr[pair]
                error = wide * _EPS * size[pair] + ((length + wide) * _EPS + 2 * abs(mass - 1)) * moved
                value = f[pair] + ahead + error + TINY * length
                if not value <= top:  # a NaN is kept
                    top = value
        dual, paid = 0.0, 0.0
        for j in range(J):
            if mu[i, j] > 0:
                dual += mu[i, j] * rows.owed[i, j]
                paid += abs(mu[i, j] * rows.owed[i, j])
        out[i] = top - dual + (J + 4) * _EPS * (abs(top) + paid) + TINY


def _exact_row(rows: Rows, i: int, mu: Floats, lam: Floats, nu: Floats, reward: float, h: Floats) -> Fraction:
    """Bound of one row."""
    P, r = rows.P[i % len(rows.P)].tolist(), rows.r[i % len(rows.r)].tolist()
    uses, counts = rows.uses[i % len(rows.uses)], rows.counts[i % len(rows.counts)]
    shares, values = rows.group_counts[i % len(rows.group_counts)], [Fraction(v) for v in h.tolist()]
    own = np.where(rows.group_of[i] >= 0, nu[rows.group_of[i]] if nu.size else 0.0, 0.0)
    s_of = np.repeat(np.arange(rows.n_states), np.diff(rows.pair_ptr))

    def pair_value(pair: int) -> Fraction:
        entries = range(rows.row_ptr[pair], rows.row_ptr[pair + 1])
        here = values[s_of[pair]]
        ahead = sum((Fraction(P[e]) * (values[rows.cols[e]] - here) for e in entries), Fraction(0))
        mass = sum((Fraction(P[e]) for e in entries), Fraction(0))
        priced = _dot(own, shares[pair]) - _dot(lam, uses[pair]) + _dot(mu, counts[pair])
        return Fraction(reward) * Fraction(r[pair]) + priced + ahead / mass

    owed = np.where(mu > 0, rows.owed[i], 0.0)
    return max(pair_value(pair) for pair in range(s_of.size)) - _dot(mu, owed)
