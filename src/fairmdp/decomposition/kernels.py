# mypy: disable-error-code="untyped-decorator,no-any-return"
"""Every component's best answer to given prices, under its own quotas: one compiled loop over rows.

For a row with reward ``f = r - lambda c + nu w`` at the prices, the program over occupancies ``x`` ::

    maximise f @ x    subject to    x in X,    m_j @ x >= rho_j    [mu_j >= 0]

is solved by the primal simplex method whose columns are policies: a basis of J + 1 policies and slacks, from
which the prices ``mu`` follow, and policy iteration on ``f + mu @ m`` to find the column that enters. With
one quota this is an exact line search on ``mu``: the next price is where the lines of two policies cross. A
basis stays feasible when prices change, so from one sweep to the next there is little left to do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairmdp.chains.small import OPTIONS, long_run_of, reference_of
from fairmdp.world.rows import Rows

POLICY, ARTIFICIAL, EMPTY = 0, -1, -2  # what a column of a basis is; 1 + j is the slack of quota j
DONE, ALONE, CUT = 0, 1, 2  # how a row ended: solved; its quotas cannot be met; out of pivots
_MOST_PIVOTS, _MOST_ITERATIONS = 60, 60
_TOL = 1e-11  # relative reduced cost below which nothing enters a basis
_HARDLY = 1e-13  # relative gain below which another action is no better
_MET = 1e-9  # share of time that may be missing
_NO_PIVOT = 1e-12


class Bases(NamedTuple):
    """Where the search of each row stands."""

    policies: NDArray[np.int16]  # (B, J + 1, S), actions of the columns that are policies
    kinds: NDArray[np.int8]  # (B, J + 1)
    outcomes: NDArray[np.float64]  # (B, J + 1, 1 + J + K + L): reward, shares, uses and group shares
    weights: NDArray[np.float64]  # (B, J + 1)
    last: NDArray[np.int16]  # (B, S), the policy that is best at the prices
    refs: NDArray[np.int64]  # (B,)
    mu: NDArray[np.float64]  # (B, J)
    over: NDArray[np.float64]  # (B,), what a column may earn above the basis: 0 but for rounding
    ended: NDArray[np.int8]  # (B,)


def cold(rows: Rows) -> Bases:
    """Bases of nothing."""
    B, S, J = rows.size, rows.n_states, rows.owed.shape[1]
    width = 1 + J + rows.uses.shape[2] + rows.group_of.shape[1]
    return Bases(
        np.zeros((B, J + 1, S), np.int16), np.full((B, J + 1), EMPTY, np.int8), np.zeros((B, J + 1, width)),
        np.zeros((B, J + 1)), np.zeros((B, S), np.int16), np.zeros(B, np.int64), np.zeros((B, J)),
        np.zeros(B), np.zeros(B, np.int8),
    )  # fmt: skip


@njit(**OPTIONS)
def _solve(M: NDArray[Any], b: NDArray[Any], n: int) -> None:
    """Solve ``M x = b`` in place, with partial pivoting; M is used up."""
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(M[i, k]) > abs(M[p, k]):
                p = i
        if p != k:
            for j in range(n):
                M[k, j], M[p, j] = M[p, j], M[k, j]
            b[k], b[p] = b[p], b[k]
        for i in range(k + 1, n):
            factor = M[i, k] / M[k, k]
            if factor != 0.0:
                for j in range(k, n):
                    M[i, j] -= factor * M[k, j]
                b[i] -= factor * b[k]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            b[k] -= M[k, j] * b[j]
        b[k] /= M[k, k]


@njit(**OPTIONS)
def iterate_policy(
    rows: Rows, i: int, f: NDArray[Any], policy: NDArray[Any], ref: int,
    A: NDArray[Any], work: NDArray[Any], h: NDArray[Any], nu: NDArray[Any],
) -> tuple[float, int]:  # fmt: skip
    """Gain of the best policy of row i for the reward f, from the one given; and the reference state."""
    pair_ptr, row_ptr, cols = rows.pair_ptr, rows.row_ptr, rows.cols
    P = rows.P[i % rows.P.shape[0]]
    gain = 0.0
    for _ in range(_MOST_ITERATIONS):
        gain = long_run_of(pair_ptr, row_ptr, cols, P, f, policy, ref, A, work, h, nu)
        better = reference_of(nu, ref)
        if better != ref:
            ref = better
            gain = long_run_of(pair_ptr, row_ptr, cols, P, f, policy, ref, A, work, h, nu)
        changed = False
        for s in range(h.size):
            now = pair_ptr[s] + policy[s]
            best, best_size, choice = -np.inf, 0.0, now
            own, own_size = 0.0, 0.0
            for pair in range(pair_ptr[s], pair_ptr[s + 1]):
                q, size = f[pair], abs(f[pair])
                for e in range(row_ptr[pair], row_ptr[pair + 1]):
                    d = P[e] * (h[cols[e]] - h[s])
                    q += d
                    size += abs(d)
                if pair == now:
                    own, own_size = q, size
                if q > best:
                    best, best_size, choice = q, size, pair
            if best > own + _HARDLY * (own_size + best_size):
                policy[s] = choice - pair_ptr[s]
                changed = True
        if not changed:
            break
    return gain, ref


@njit(**OPTIONS)
def _record(rows: Rows, i: int, policy: NDArray[Any], nu: NDArray[Any], out: NDArray[Any]) -> None:
    """Outcome of a policy: reward, shares, uses and group shares."""
    J, K, L = rows.counts.shape[2], rows.uses.shape[2], rows.group_counts.shape[2]
    r, counts = rows.r[i % rows.r.shape[0]], rows.counts[i % rows.counts.shape[0]]
    uses, shares = rows.uses[i % rows.uses.shape[0]], rows.group_counts[i % rows.group_counts.shape[0]]
    out[:] = 0.0
    for s in range(nu.size):
        pair, x = rows.pair_ptr[s] + policy[s], nu[s]
        out[0] += x * r[pair]
        for j in range(J):
            out[1 + j] += x * counts[pair, j]
        for k in range(K):
            out[1 + J + k] += x * uses[pair, k]
        for g in range(L):
            out[1 + J + K + g] += x * shares[pair, g]


@njit(**OPTIONS)
def _priced(rows: Rows, i: int, reward: float, lam: NDArray[Any], nu: NDArray[Any], f: NDArray[Any]) -> float:
    """``f = reward r - lambda c + nu w`` of row i; returns its size."""
    r, uses = rows.r[i % rows.r.shape[0]], rows.uses[i % rows.uses.shape[0]]
    shares = rows.group_counts[i % rows.group_counts.shape[0]]
    largest = 0.0
    for pair in range(f.size):
        value = reward * r[pair]
        for k in range(lam.size):
            value -= lam[k] * uses[pair, k]
        for g in range(rows.group_of.shape[1]):
            if rows.group_of[i, g] >= 0:
                value += nu[rows.group_of[i, g]] * shares[pair, g]
        f[pair] = value
        largest = max(largest, abs(value))
    return largest


@njit(**OPTIONS)
def _worth(
    rows: Rows, i: int, reward: float, lam: NDArray[Any], nu: NDArray[Any], outcome: NDArray[Any]
) -> float:
    """What an outcome of row i is worth at the prices."""
    J, K = rows.counts.shape[2], lam.size
    value = reward * outcome[0]
    for k in range(K):
        value -= lam[k] * outcome[1 + J + k]
    for g in range(rows.group_of.shape[1]):
        if rows.group_of[i, g] >= 0:
            value += nu[rows.group_of[i, g]] * outcome[1 + J + K + g]
    return value


@njit(**OPTIONS)
def _matrix(
    rows: Rows, i: int, bases: Bases, active: NDArray[Any], n: int, transposed: bool, M: NDArray[Any]
) -> None:
    """Columns of a basis: mass and shares of a policy; a slack; an artificial one that meets every quota."""
    for b in range(n):
        kind = bases.kinds[i, b]
        for a in range(n):
            if a == 0:
                value = 0.0 if kind > POLICY else 1.0
            else:
                j = active[a - 1]
                if kind == POLICY:
                    value = bases.outcomes[i, b, 1 + j]
                elif kind == ARTIFICIAL:
                    value = rows.owed[i, j]
                else:
                    value = -1.0 if kind - 1 == j else 0.0
            if transposed:
                M[b, a] = value
            else:
                M[a, b] = value


@njit(**OPTIONS)
def _weights(
    rows: Rows, i: int, bases: Bases, active: NDArray[Any], n: int, M: NDArray[Any], w: NDArray[Any]
) -> None:
    """Weights of the columns of a basis: mass 1, and every quota met with its slack."""
    w[0] = 1.0
    for a in range(1, n):
        w[a] = rows.owed[i, active[a - 1]]
    _matrix(rows, i, bases, active, n, False, M)
    _solve(M, w, n)


@njit(**OPTIONS)
def _drop_artificial(
    rows: Rows, i: int, bases: Bases, active: NDArray[Any], n: int, at: int, M: NDArray[Any], d: NDArray[Any]
) -> None:
    """Put the slack in place of an artificial column of weight 0 that keeps the basis regular best."""
    best, choice = -1.0, 0
    for j in range(n - 1):
        d[:] = 0.0
        d[1 + j] = -1.0
        _matrix(rows, i, bases, active, n, False, M)
        _solve(M, d, n)
        if abs(d[at]) > best:
            best, choice = abs(d[at]), j
    bases.kinds[i, at] = 1 + active[choice]


@njit(**OPTIONS)
def sweep(rows: Rows, bases: Bases, reward: float, lam: NDArray[Any], nu: NDArray[Any]) -> None:
    """Bring every basis to its optimum at prices lam (K,) and nu (G,); reward is 1, or 0 for none."""
    S, SA, J = rows.pair_ptr.size - 1, rows.row_ptr.size - 1, rows.owed.shape[1]
    A, work, h, visits = np.empty((S, S)), np.empty((3, S)), np.empty(S), np.empty(S)
    f, raised = np.empty(SA), np.empty(SA)
    M, y, w, d = np.empty((J + 1, J + 1)), np.empty(J + 1), np.empty(J + 1), np.empty(J + 1)
    active, found = np.empty(J, np.int64), np.empty(bases.outcomes.shape[2])
    for i in range(rows.number.size):
        counts = rows.counts[i % rows.counts.shape[0]]
        size = _priced(rows, i, reward, lam, nu, f)
        last = bases.last[i]
        n = np.int64(1)  # else callees would be compiled for the constant as well
        for j in range(J):
            bases.mu[i, j] = 0.0
            if rows.owed[i, j] > -np.inf:
                active[n - 1] = j
                n += 1
        if n == 1 or bases.kinds[i, 0] == EMPTY:
            _, bases.refs[i] = iterate_policy(rows, i, f, last, bases.refs[i], A, work, h, visits)
            if n == 1:
                bases.kinds[i, 0], bases.weights[i, 0] = POLICY, 1.0
                bases.policies[i, 0] = last
                bases.over[i], bases.ended[i] = 0.0, DONE
                _record(rows, i, last, visits, bases.outcomes[i, 0])
                continue
            bases.kinds[i, 0] = ARTIFICIAL
            for b in range(1, n):
                bases.kinds[i, b] = 1 + active[b - 1]
        bases.ended[i] = CUT
        for _ in range(_MOST_PIVOTS):
            artificial: Any = np.int64(-1)
            for b in range(n):
                if bases.kinds[i, b] == ARTIFICIAL:
                    artificial = b
            for b in range(n):  # prices (gain, -mu) at which every column of the basis earns nothing more
                if artificial >= 0:
                    y[b] = -1.0 if b == artificial else 0.0
                elif bases.kinds[i, b] == POLICY:
                    y[b] = _worth(rows, i, reward, lam, nu, bases.outcomes[i, b])
                else:
                    y[b] = 0.0
            _matrix(rows, i, bases, active, n, True, M)
            _solve(M, y, n)
            _weights(rows, i, bases, active, n, M, w)
            scale = 1.0 if artificial >= 0 else size + 1e-300
            entering, least = -1, -_TOL * scale
            for a in range(1, n):
                if -y[a] < least:
                    entering, least = a - 1, -y[a]
                bases.mu[i, active[a - 1]] = max(-y[a], 0.0)
            d[:] = 0.0
            if entering >= 0:
                d[1 + entering] = -1.0
            else:
                for pair in range(SA):
                    raised[pair] = f[pair] if artificial < 0 else 0.0
                    for a in range(1, n):
                        raised[pair] += bases.mu[i, active[a - 1]] * counts[pair, active[a - 1]]
                gain, bases.refs[i] = iterate_policy(rows, i, raised, last, bases.refs[i], A, work, h, visits)
                bases.over[i] = max(gain - y[0], 0.0)
                if gain <= y[0] + _TOL * scale:
                    if artificial < 0:
                        bases.ended[i] = DONE
                        break
                    if w[artificial] > _MET:
                        bases.ended[i] = ALONE
                        break
                    _drop_artificial(rows, i, bases, active, n, artificial, M, d)
                    continue
                _record(rows, i, last, visits, found)
                d[0] = 1.0
                for a in range(1, n):
                    d[a] = found[1 + active[a - 1]]
            _matrix(rows, i, bases, active, n, False, M)
            _solve(M, d, n)
            leaving, step = -1, np.inf
            for b in range(n):
                if d[b] > _NO_PIVOT and max(w[b], 0.0) / d[b] < step:
                    leaving, step = b, max(w[b], 0.0) / d[b]
            if leaving < 0:
                break
            if artificial >= 0 and d[artificial] > _NO_PIVOT and w[artificial] <= d[artificial] * step + _MET:
                leaving = artificial
            if entering >= 0:
                bases.kinds[i, leaving] = 1 + active[entering]
            else:
                bases.kinds[i, leaving] = POLICY
                bases.policies[i, leaving] = last
                bases.outcomes[i, leaving] = found
        if bases.ended[i] == CUT:
            _weights(rows, i, bases, active, n, M, w)
        for b in range(n):
            bases.weights[i, b] = max(w[b], 0.0)


@njit(**OPTIONS)
def occupancies(rows: Rows, bases: Bases, out: NDArray[Any]) -> None:
    """Occupancy of every row under the mixture that its basis is, (B, SA)."""
    S = rows.pair_ptr.size - 1
    A, work, h, visits = np.empty((S, S)), np.empty((3, S)), np.empty(S), np.empty(S)
    nothing = np.zeros(rows.row_ptr.size - 1)
    out[:] = 0.0
    for i in range(out.shape[0]):
        P = rows.P[i % rows.P.shape[0]]
        for b in range(bases.kinds.shape[1]):
            if bases.kinds[i, b] == POLICY and bases.weights[i, b] > 0.0:
                policy = bases.policies[i, b]
                long_run_of(
                    rows.pair_ptr, rows.row_ptr, rows.cols, P, nothing, policy, bases.refs[i], A, work, h,
                    visits,
                )  # fmt: skip
                for s in range(S):
                    out[i, rows.pair_ptr[s] + policy[s]] += bases.weights[i, b] * visits[s]


@njit(**OPTIONS)
def mixed(bases: Bases, out: NDArray[Any]) -> None:
    """Outcome of every row under the mixture that its basis is, (B, 1 + J + K + L)."""
    for i in range(out.shape[0]):
        out[i] = 0.0
        for b in range(bases.kinds.shape[1]):
            if bases.kinds[i, b] == POLICY:
                for q in range(out.shape[1]):
                    out[i, q] += bases.weights[i, b] * bases.outcomes[i, b, q]
