# mypy: disable-error-code="untyped-decorator,no-any-return"
"""What a dispatch policy knows of components of one pattern, made from the prices of a plan.

A pair is worth its advantage at the prices, with what it uses given back: what it would be worth if nothing
had to be paid for now. A row follows one of the policies that its plan mixes; under each of them values are
those at a price moved a little in its favour, so that it is the only best one, in rare states as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairmdp.chains.small import OPTIONS, long_run_of
from fairmdp.decomposition.kernels import iterate_policy
from fairmdp.dispatch.kernels import NEVER
from fairmdp.model.checks import Floats, Ints
from fairmdp.world.plan import BlockPlan
from fairmdp.world.rows import Rows

_HARDLY = 1e-9  # weight below which a policy is no part of a mixture
_TILT = 0.1  # how far prices are moved in favour of a policy, in units of price
_PUT_OFF = 2.25  # windows behind or ahead at which a policy is changed for another
_MOST_LEAD = 8.0
_CHEAP = 0.1  # what a change of policies may cost to be free, in units of price
_LEAST_COST, _MOST_COST = 1e-30, 1e29  # what single precision can hold, below NEVER
_SECOND = 1e-3  # weight of all else where a share counts first


class Tables(NamedTuple):
    """Arrays of B rows with S states, SA pairs, J sides of local quotas and L layers of groups.

    What has 1 row where B are possible is the same for all of them. Shares are in parts of what a pair can
    count at most, so that arrears are steps.
    """

    pair_ptr: Ints  # (S + 1,)
    row_of: Ints  # (n,), row of each client
    columns: Ints  # (B,), how many policies are mixed
    cost: NDArray[np.float32]  # (B or 1, SA), price of what a pair uses; 0 where it uses nothing
    uses: Floats  # (B or 1, SA, K)
    value: NDArray[np.float32]  # (B, J + 1, SA), worth of a pair under each policy
    slope: NDArray[np.float32]  # (B, J + L, SA), how it grows with the prices of quotas
    follow: NDArray[np.int16]  # (B, J + 1, S), actions of the policies
    most: NDArray[np.int16]  # (B, J, S), actions for the largest share
    shares: Floats  # (B, J + 1, J)
    counts: Floats  # (B or 1, SA, J)
    owed: Floats  # (B, J), with the margin; -inf where nothing is owed
    unit: Floats  # (B, J), one unit of the price of a quota
    group_counts: Floats  # (B or 1, SA, L)
    group_of: Ints  # (B, L)
    chance: NDArray[np.float32]  # (B or 0, SA), the planned randomisation, where it is drawn from
    lead: NDArray[np.float32]  # (B, J + 1, S), windows by which a policy may be put off for where it begins


def tables_of(
    rows: Rows,
    plan: BlockPlan,
    lam: Floats,
    nu: Floats,
    floor: Floats,
    capacity: Floats,
    margin: float,
    planned: bool,
) -> Tables:
    """Tables of one pattern at prices lam (K,) and nu (G,); floor (K,) are prices above 0 to divide by."""
    B, S, SA = rows.size, rows.n_states, rows.row_ptr.size - 1
    J, L = rows.owed.shape[1], rows.group_of.shape[1]
    span = np.ptp(rows.counts, axis=1)  # (B or 1, J)
    span[span == 0] = 1.0
    unit = np.maximum(plan.mu, _typical(plan.mu, rows)[None])
    policies, columns, weights = _mixed(plan)
    value, slope = np.empty((B, J + 1, SA), np.float32), np.empty((B, J + L, SA), np.float32)
    most, shares = np.empty((B, J, S), np.int16), np.zeros((B, J + 1, J))
    chance = np.zeros((B if planned else 0, SA), np.float32)
    lead = np.zeros((B, J + 1, S), np.float32)
    sizes = np.tile(span, (B // len(span), 1))
    _fill(
        rows, policies, columns, weights, plan.mu, unit, sizes, lam, nu, value, slope, most, shares, chance,
        lead,
    )  # fmt: skip
    if planned:
        chance[plan.split] = plan.chances
    cost = _cost(rows, floor, capacity)
    return Tables(
        rows.pair_ptr, np.repeat(np.arange(B), rows.number), columns, cost, rows.uses, value, slope,
        policies, most, shares, rows.counts / span[:, None], rows.owed / sizes + margin, unit * sizes,
        rows.group_counts, rows.group_of, chance, lead,
    )  # fmt: skip


def greedy_tables(rows: Rows, floor: Floats, capacity: Floats) -> Tables:
    """Tables of one pattern where a pair is worth its reward, and nobody is owed anything."""
    B, S, SA, L = rows.size, rows.n_states, rows.row_ptr.size - 1, rows.group_of.shape[1]
    return Tables(
        rows.pair_ptr, np.repeat(np.arange(B), rows.number), np.ones(B, np.int64),
        _cost(rows, floor, capacity), rows.uses,
        np.broadcast_to(rows.r.astype(np.float32)[:, None], (B, 1, SA)).copy(),
        np.zeros((B, L, SA), np.float32), np.zeros((B, 1, S), np.int16), np.zeros((B, 0, S), np.int16),
        np.zeros((B, 1, 0)), np.zeros((1, SA, 0)), np.zeros((B, 0)), np.zeros((B, 0)), rows.group_counts,
        rows.group_of, np.zeros((0, SA), np.float32), np.zeros((B, 1, S), np.float32),
    )  # fmt: skip


def _cost(rows: Rows, floor: Floats, capacity: Floats) -> NDArray[np.float32]:
    """Price of what a pair uses: 0 only where that is nothing, and NEVER where it is more than there is."""
    paid = np.clip(rows.uses @ floor, _LEAST_COST, _MOST_COST)
    paid[(rows.uses > capacity).any(axis=2)] = NEVER
    return np.where((rows.uses > 0).any(axis=2), paid, 0.0).astype(np.float32)


def _typical(mu: Floats, rows: Rows) -> Floats:
    """A usual price of each side of a quota, (J,): the mean of those that are paid."""
    paid = (mu > 0).sum(axis=0)
    rewards = float(np.ptp(rows.r, axis=1).mean()) or 1.0
    return np.where(paid > 0, mu.sum(axis=0) / np.maximum(paid, 1), rewards)


def _mixed(plan: BlockPlan) -> tuple[NDArray[np.int16], Ints, Floats]:
    """Policies that each row mixes, those with weight first, how many these are, and their weights."""
    order = np.argsort(-plan.weights, axis=1, kind="stable")
    weights = np.take_along_axis(plan.weights, order, axis=1)
    policies = np.take_along_axis(plan.policies, order[:, :, None], axis=1)
    columns = (weights > _HARDLY).sum(axis=1)
    bare = columns == 0
    policies[bare, 0], weights[bare, 0] = plan.witness[bare], 1.0
    return np.ascontiguousarray(policies), np.maximum(columns, 1), weights


@njit(**OPTIONS)
def _advantages(
    rows: Rows, i: int, f: NDArray[Any], policy: NDArray[Any], ref: int, A: NDArray[Any], work: NDArray[Any],
    h: NDArray[Any], visits: NDArray[Any], out: NDArray[Any],
) -> None:  # fmt: skip
    """``f + P h - h(s) - gain`` of a policy of row i, and its long run in visits."""
    P = rows.P[i % rows.P.shape[0]]
    gain = long_run_of(rows.pair_ptr, rows.row_ptr, rows.cols, P, f, policy, ref, A, work, h, visits)
    for s in range(h.size):
        for pair in range(rows.pair_ptr[s], rows.pair_ptr[s + 1]):
            q = f[pair] - gain
            for e in range(rows.row_ptr[pair], rows.row_ptr[pair + 1]):
                q += P[e] * (h[rows.cols[e]] - h[s])
            out[pair] = q


@njit(**OPTIONS)
def _leads(
    begun: NDArray[Any], laws: NDArray[Any], shares: NDArray[Any], least: float, lead: NDArray[Any]
) -> None:
    """How far each policy of a row is ahead of the others in each state, by what it costs to begin with it.

    In windows of arrears: a client changes its policy when it is some `_PUT_OFF` windows behind or ahead,
    sooner in a state from which that is cheap. 0 in all states where changes cost less than the least.
    """
    n, S = begun.shape
    scale = 0.0
    for b in range(n):
        for other in range(b):
            cost, apart = 0.0, 0.0
            for s in range(S):
                cost -= laws[b, s] * begun[other, s] + laws[other, s] * begun[b, s]
            for j in range(shares.shape[1]):
                apart = max(apart, abs(shares[b, j] - shares[other, j]))
            if cost > least and apart > 0.0:
                scale = max(scale, cost / (2.0 * _PUT_OFF * apart))
    if scale == 0.0:
        return
    for b in range(n):
        mean = 0.0
        for other in range(n):
            for s in range(S):
                mean += laws[other, s] * begun[b, s]
        for s in range(S):
            ahead = (begun[b, s] - mean / (2.0 * (n - 1))) / scale
            lead[b, s] = min(max(ahead, -_MOST_LEAD), _MOST_LEAD)


@njit(**OPTIONS)
def _fill(
    rows: Rows, policies: NDArray[Any], columns: NDArray[Any], weights: NDArray[Any], mu: NDArray[Any],
    unit: NDArray[Any], span: NDArray[Any], lam: NDArray[Any], nu: NDArray[Any], value: NDArray[Any],
    slope: NDArray[Any], most: NDArray[Any], shares: NDArray[Any], chance: NDArray[Any],
    lead: NDArray[Any],
) -> None:  # fmt: skip
    """Fill in values, slopes, policies, shares and chances of all rows."""
    S, SA = rows.pair_ptr.size - 1, rows.row_ptr.size - 1
    J, K, L = rows.owed.shape[1], lam.size, rows.group_of.shape[1]
    A, work, h, visits = np.empty((S, S)), np.empty((3, S)), np.empty(S), np.empty(S)
    f, raised, out, tilt = np.empty(SA), np.empty(SA), np.empty(SA), np.empty(J)
    laws, last = np.empty((J + 1, S)), np.empty(S, np.int16)
    first = np.int64(0)  # else callees would be compiled for the constant as well
    begun = np.empty((J + 1, S))
    for i in range(rows.number.size):
        r, uses = rows.r[i % rows.r.shape[0]], rows.uses[i % rows.uses.shape[0]]
        counts = rows.counts[i % rows.counts.shape[0]]
        shared = rows.group_counts[i % rows.group_counts.shape[0]]
        largest = 1e-300
        for pair in range(SA):
            f[pair] = r[pair]
            for k in range(K):
                f[pair] -= lam[k] * uses[pair, k]
            for layer in range(L):
                if rows.group_of[i, layer] >= 0:
                    f[pair] += nu[rows.group_of[i, layer]] * shared[pair, layer]
            largest = max(largest, abs(f[pair]))
        n = columns[i]
        for b in range(n):
            _advantages(rows, i, f, policies[i, b], first, A, work, h, laws[b], out)
            for j in range(J):
                shares[i, b, j] = 0.0
                for s in range(S):
                    share = counts[rows.pair_ptr[s] + policies[i, b, s], j] / span[i, j]
                    shares[i, b, j] += laws[b, s] * share
        if chance.shape[0] > 0:
            for s in range(S):
                total = 0.0
                for b in range(n):
                    total += weights[i, b] * laws[b, s]
                for b in range(n):
                    part = weights[i, b] * laws[b, s] / total if total > 1e-12 else 1.0 / n
                    chance[i, rows.pair_ptr[s] + policies[i, b, s]] += part
        for b in range(value.shape[1]):
            if b >= n:
                value[i, b] = value[i, 0]
                continue
            size = 0.0
            for j in range(J):
                tilt[j] = 0.0
                for other in range(n):
                    tilt[j] += shares[i, b, j] - shares[i, other, j]
                size = max(size, abs(tilt[j]))
            for pair in range(SA):
                raised[pair] = f[pair]
                for j in range(J):
                    if rows.owed[i, j] > -np.inf:
                        more = _TILT * unit[i, j] * tilt[j] / size if size > 0.0 else 0.0
                        raised[pair] += max(mu[i, j] + more, 0.0) * counts[pair, j]
            ref = int(np.argmax(laws[b]))
            _, ref = iterate_policy(rows, i, raised, policies[i, b], ref, A, work, h, visits)
            _advantages(rows, i, raised, policies[i, b], ref, A, work, h, visits, out)
            for pair in range(SA):
                value[i, b, pair] = out[pair]
                for k in range(K):
                    value[i, b, pair] += lam[k] * uses[pair, k]
            if n > 1:
                for pair in range(SA):
                    raised[pair] = f[pair]
                    for j in range(J):
                        raised[pair] += mu[i, j] * counts[pair, j]
                _advantages(rows, i, raised, policies[i, b], ref, A, work, begun[b], laws[b], out)
                mean = 0.0
                for s in range(S):
                    mean += laws[b, s] * begun[b, s]
                for s in range(S):
                    begun[b, s] -= mean
        if n > 1:
            _leads(begun[:n], laws[:n], shares[i, :n], _CHEAP * unit[i].max(), lead[i])
        for j in range(J):
            b = int(np.argmax(shares[i, :n, j]))
            for pair in range(SA):
                raised[pair] = counts[pair, j] / span[i, j]
            _advantages(rows, i, raised, policies[i, b], int(np.argmax(laws[b])), A, work, h, visits, out)
            for pair in range(SA):
                slope[i, j, pair] = out[pair]
                raised[pair] += _SECOND * f[pair] / largest
            last[:] = policies[i, b]
            iterate_policy(rows, i, raised, last, int(np.argmax(laws[b])), A, work, h, visits)
            most[i, j] = last
        for layer in range(L):
            _advantages(
                rows, i, shared[:, layer].copy(), policies[i, 0], int(np.argmax(laws[0])), A, work, h, visits,
                out,
            )  # fmt: skip
            for pair in range(SA):
                slope[i, J + layer, pair] = out[pair]
