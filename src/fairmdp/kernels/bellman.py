# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""Sweeps over an MDP and over the chain of one policy, on one CPU thread.

A model is plain arrays. The pairs of state ``s`` are ``ptr[s] .. ptr[s+1]-1``; pair ``i`` moves to
``col[e]`` with probability ``val[e]`` for ``e`` in ``row[i] .. row[i+1]-1``, and counts for the quotas
``gcol[j]`` with weight ``gval[j]``, ``j`` in ``gptr[i] .. gptr[i+1]-1``. A chain is CSR arrays of the same
kind over states.

Sweeps are damped, ``P <- (1 - damping) P + damping I``, so that periodic chains come to rest too.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import splu

from fairmdp.kernels.prefetch import AHEAD, NEAR, prefetch
from fairmdp.mdp import MDP

F8 = NDArray[np.float64]
F4 = NDArray[np.float32]
I8 = NDArray[np.int64]
I4 = NDArray[np.int32]

RARE = 1e-12  # an action whose weight is below this share of the best one's is not played
DENSE = 300  # states up to which chains are factored as dense matrices
FACTORED = 5000  # states up to which a slowly mixing chain is factored
ROUNDING = 5e-15  # error of the certificate's shares, per state: 2.6e-10 at 1e5 states


@njit(cache=True, nogil=True)
def soft_backup(
    ptr: I8,
    row: I4,
    col: I4,
    val: F8,
    gptr: I4,
    gcol: I4,
    gval: F8,
    r: F8,
    mu: F8,
    h: F8,
    tau: float,
    pi: F8,
    e: F8,
) -> tuple[float, float, float]:
    """Pi = softmax(q / tau), q = r + G.T mu + P h; e = soft maximum of q - h; min e, max e, max q - h."""
    low, high, top = np.inf, -np.inf, -np.inf
    last, far = col.size - 1, h.size > NEAR
    for s in range(h.size):
        best = -np.inf
        for i in range(ptr[s], ptr[s + 1]):
            q = r[i]
            for j in range(gptr[i], gptr[i + 1]):
                q += gval[j] * mu[gcol[j]]
            for k in range(row[i], row[i + 1]):
                if far:
                    prefetch(h, col[min(k + AHEAD, last)])
                q += val[k] * h[col[k]]
            pi[i] = q
            best = max(best, q)
        total = 0.0
        for i in range(ptr[s], ptr[s + 1]):
            weight = np.exp((pi[i] - best) / tau)
            if weight < RARE:
                weight = 0.0
            pi[i] = weight
            total += weight
        for i in range(ptr[s], ptr[s + 1]):
            pi[i] /= total
        e[s] = best + tau * np.log(total) - h[s]
        low = min(low, e[s])
        high = max(high, e[s])
        top = max(top, best - h[s])
    return low, high, top


@njit(cache=True, nogil=True)
def greedy_backup(
    ptr: I8,
    row: I4,
    col: I4,
    val: F8,
    gptr: I4,
    gcol: I4,
    gval: F8,
    r: F8,
    mu: F8,
    h: F8,
    tie: float,
    choice: I4,
    e: F8,
) -> tuple[float, float]:
    """Choice = argmax q, the old one where it is within tie of it; e = max q - h; min e, max e."""
    low, high = np.inf, -np.inf
    last, far = col.size - 1, h.size > NEAR
    for s in range(h.size):
        best, kept, arg = -np.inf, -np.inf, -1
        for i in range(ptr[s], ptr[s + 1]):
            q = r[i]
            for j in range(gptr[i], gptr[i + 1]):
                q += gval[j] * mu[gcol[j]]
            for k in range(row[i], row[i + 1]):
                if far:
                    prefetch(h, col[min(k + AHEAD, last)])
                q += val[k] * h[col[k]]
            if q > best:
                best, arg = q, i
            if i == choice[s]:
                kept = q
        if kept < best - tie:
            choice[s] = arg
        e[s] = best - h[s]
        low = min(low, e[s])
        high = max(high, e[s])
    return low, high


@njit(cache=True, nogil=True)
def chain_starts(ptr: I8, row: I4, pi: F8, starts: I8) -> None:
    """Starts = row starts of the policy's chain, the rows of the actions played laid end to end."""
    starts[0] = 0
    for s in range(ptr.size - 1):
        count = 0
        for i in range(ptr[s], ptr[s + 1]):
            if pi[i] > 0:
                count += row[i + 1] - row[i]
        starts[s + 1] = starts[s] + count


@njit(cache=True, nogil=True)
def chain_entries(ptr: I8, row: I4, col: I4, val: F8, pi: F8, cols: I4, vals: F8) -> None:
    """Fill the chain whose row starts `chain_starts` gave."""
    at = 0
    for i in range(ptr[-1]):
        if pi[i] > 0:
            for k in range(row[i], row[i + 1]):
                cols[at] = col[k]
                vals[at] = pi[i] * val[k]
                at += 1


@njit(cache=True, nogil=True)
def value_sweeps(
    starts: I8, cols: I4, vals: F8, h: F8, e: F8, work: F8, damping: float, tol: float, most: int
) -> tuple[float, int]:
    """H += sum_j P^j e until span(P^j e) <= tol: solves (I - P) dh = e up to a constant; span, sweeps."""
    n, last = h.size, cols.size - 1
    far = n > NEAR
    for s in range(n):
        h[s] += (1 - damping) * e[s]
    span = np.inf
    for sweep in range(1, most + 1):
        low, high = np.inf, -np.inf
        for s in range(n):
            acc = 0.0
            for k in range(starts[s], starts[s + 1]):
                if far:
                    prefetch(e, cols[min(k + AHEAD, last)])
                acc += vals[k] * e[cols[k]]
            acc += damping * (e[s] - acc)
            work[s] = acc
            low = min(low, acc)
            high = max(high, acc)
        centre = (low + high) / 2
        for s in range(n):
            e[s] = work[s] - centre
            h[s] += (1 - damping) * e[s]
        span = high - low
        if span <= tol:
            return span, sweep
    return span, most


@njit(cache=True, nogil=True)
def law_sweeps(
    starts: I8, cols: I4, vals: F8, nu: F8, work: F8, damping: float, tol: float, most: int
) -> tuple[float, int]:
    """Nu <- nu P until it is within tol of rest in L1, at the rate it converges; that distance, sweeps."""
    n, last = nu.size, cols.size - 1
    far = n > NEAR
    before, rate, error = np.inf, 0.0, np.inf
    for sweep in range(1, most + 1):
        for s in range(n):
            work[s] = damping * nu[s]
        for s in range(n):
            moving = (1 - damping) * nu[s]
            for k in range(starts[s], starts[s + 1]):
                if far:
                    prefetch(work, cols[min(k + AHEAD, last)])
                work[cols[k]] += vals[k] * moving
        change, total = 0.0, 0.0
        for s in range(n):
            change += abs(work[s] - nu[s])
            total += work[s]
        for s in range(n):
            nu[s] = work[s] / total
        rate = max(change / before, 0.95 * rate)  # complex eigenvalues make single ratios oscillate
        before = change
        error = change / (1 - rate) if rate < 1 else np.inf
        if error <= tol or change <= 1e-15:
            return error, sweep
    return error, most


@njit(cache=True, nogil=True)
def block_sweeps(
    starts: I8, cols: I4, vals: F8, F: F4, H: F4, work: F4, damping: float, tol: float, most: int
) -> tuple[float, int]:
    """H <- F + P H column by column until every residual has span <= tol; largest span, sweeps."""
    n, K = H.shape
    last, far = cols.size - 1, H.size > NEAR
    acc = np.empty(K)
    low, high = np.empty(K), np.empty(K)
    source, target = H, work
    widest, sweep = np.inf, 0
    while sweep < most and widest > tol:
        low[:], high[:] = np.inf, -np.inf
        for s in range(n):
            for m in range(K):
                acc[m] = F[s, m]
            for k in range(starts[s], starts[s + 1]):
                if far:
                    prefetch(source, cols[min(k + AHEAD, last)])
                weight = vals[k]
                t = cols[k]
                for m in range(K):
                    acc[m] += weight * source[t, m]
            for m in range(K):
                error = acc[m] - source[s, m]
                low[m] = min(low[m], error)
                high[m] = max(high[m], error)
                target[s, m] = acc[m] - damping * error
        source, target = target, source
        widest = np.max(high - low)
        sweep += 1
    if sweep % 2:
        H[:] = work
    return widest, sweep


@njit(cache=True, nogil=True)
def quota_block(ptr: I8, gptr: I4, gcol: I4, gval: F8, pi: F8, shares: F8, F: F4) -> None:
    """F[s, k] = sum_a pi(a|s) G_k(s, a) - shares[k]."""
    for s in range(F.shape[0]):
        for k in range(F.shape[1]):
            F[s, k] = -shares[k]
        for i in range(ptr[s], ptr[s + 1]):
            if pi[i] > 0:
                for j in range(gptr[i], gptr[i + 1]):
                    F[s, gcol[j]] += pi[i] * gval[j]


@njit(cache=True, nogil=True)
def totals(
    ptr: I8, gptr: I4, gcol: I4, gval: F8, r: F8, pi: F8, nu: F8, e: F8, shares: F8
) -> tuple[float, float]:
    """Shares = G x with x = pi nu; r @ x and nu @ e."""
    shares[:] = 0.0
    gain, mean = 0.0, 0.0
    for s in range(nu.size):
        mean += nu[s] * e[s]
        for i in range(ptr[s], ptr[s + 1]):
            if pi[i] > 0:
                x = pi[i] * nu[s]
                gain += r[i] * x
                for j in range(gptr[i], gptr[i + 1]):
                    shares[gcol[j]] += gval[j] * x
    return gain, mean


@njit(cache=True, nogil=True)
def curvature(
    ptr: I8, row: I4, col: I4, val: F8, gptr: I4, gcol: I4, gval: F8, pi: F8, nu: F8, H: F4, C: F8
) -> None:
    """C[k, l] = sum_s nu_s Cov_{a ~ pi(s)}(q_k, q_l) with q_k(s, a) = G_k(s, a) + P_sa H_k."""
    K = H.shape[1]
    last, far = col.size - 1, H.size > NEAR
    q, base, mean = np.empty(K), np.empty(K), np.empty(K)
    square = np.empty((K, K))
    C[:] = 0.0
    for s in range(nu.size):
        played = 0
        for i in range(ptr[s], ptr[s + 1]):
            if pi[i] > 0:
                played += 1
        if played < 2:
            continue
        mean[:] = 0.0
        square[:] = 0.0
        first = True
        for i in range(ptr[s], ptr[s + 1]):
            if pi[i] > 0:
                q[:] = 0.0
                for j in range(gptr[i], gptr[i + 1]):
                    q[gcol[j]] += gval[j]
                for k in range(row[i], row[i + 1]):
                    if far:
                        prefetch(H, col[min(k + AHEAD, last)])
                    for m in range(K):
                        q[m] += val[k] * H[col[k], m]
                if (
                    first
                ):  # deviations from the first action's values, which keeps the digits of a small spread
                    base[:] = q
                    first = False
                for m in range(K):
                    q[m] -= base[m]
                for m in range(K):
                    mean[m] += pi[i] * q[m]
                    for n in range(m + 1):
                        square[m, n] += pi[i] * q[m] * q[n]
        for m in range(K):
            for n in range(m + 1):
                C[m, n] += nu[s] * (square[m, n] - mean[m] * mean[n])
    for m in range(K):
        for n in range(m):
            C[n, m] = C[m, n]


@njit(cache=True, nogil=True)
def shift(h: F8, H: F4, d: F8, out: F8) -> None:
    """Out = h + H d: the relative values at prices mu + d, to first order."""
    for s in range(h.size):
        acc = h[s]
        for k in range(d.size):
            acc += H[s, k] * d[k]
        out[s] = acc


@njit(cache=True, nogil=True)
def eliminate(A: F8) -> None:
    """A <- its factors L and U in one, without pivoting: safe for the M-matrices of chains, no threads."""
    n = A.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            if A[i, k] != 0.0:
                A[i, k] /= A[k, k]
                for j in range(k + 1, n):
                    A[i, j] -= A[i, k] * A[k, j]


@njit(cache=True, nogil=True)
def substitute(LU: F8, B: F8) -> None:
    """B <- A^-1 B from the factors of A."""
    n, m = B.shape
    for i in range(n):
        for k in range(i):
            for j in range(m):
                B[i, j] -= LU[i, k] * B[k, j]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            for j in range(m):
                B[i, j] -= LU[i, k] * B[k, j]
        for j in range(m):
            B[i, j] /= LU[i, i]


@njit(cache=True, nogil=True)
def substitute_transposed(LU: F8, b: F8) -> None:
    """Replace b by A^-T b, from the factors of A."""
    n = b.size
    for i in range(n):
        b[i] /= LU[i, i]
        for k in range(i + 1, n):
            b[k] -= LU[i, k] * b[i]
    for i in range(n - 1, -1, -1):
        for k in range(i):
            b[k] -= LU[i, k] * b[i]


@njit(cache=True, nogil=True)
def price_step(A: F8, g: F8, mu: F8, low: F8, high: F8, radius: float, most: int) -> F8:
    """Minimise d'Ad/2 + g'd - sum_k b_k (mu + d)_k over |d| <= radius; returns d.

    b is low above 0 and high below it. By coordinates, until a round moves next to nothing.
    """
    K = mu.size
    d = np.zeros(K)
    slope = g.copy()  # g + A d
    for _ in range(most):
        largest, moved = 0.0, 0.0
        for k in range(K):
            c = slope[k] - A[k, k] * (mu[k] + d[k])  # the slope in t = mu + d is c + A_kk t - b(t)
            t = 0.0
            if low[k] > c:
                t = (low[k] - c) / A[k, k]
            elif high[k] < c:
                t = (high[k] - c) / A[k, k]
            change = min(max(t - mu[k], -radius), radius) - d[k]
            if change != 0.0:
                d[k] += change
                for m in range(K):
                    slope[m] += A[m, k] * change
            moved = max(moved, abs(change))
            largest = max(largest, abs(d[k]))
        if moved <= 1e-10 * largest:
            break
    return d


# --- the kernel set: what a solver may ask of a device ------------------------------------------------


class Chain(NamedTuple):
    """A policy's chain as CSR."""

    starts: I8  # (S+1,)
    cols: I4
    vals: F8


class Backup(NamedTuple):
    """A policy that is best at some relative values, with the error of those values."""

    pi: F8  # (SA,)
    e: F8  # (S,), maximum of q over the actions, soft or hard, minus h
    low: float  # min e
    high: float  # max e
    top: float  # max q - h: the ceiling before the quotas are paid


class Sweeps:
    """The array functions of the dual solvers, on one CPU thread.

    A solver keeps vectors over states, pairs and chains as it gets them from here and looks into none of
    them; what it computes with itself are numbers, prices (K,) and K x K matrices. `settle`, `law` and
    `block` say how exact their answer is: sweeps stop short on a chain that mixes slowly.
    """

    def __init__(self, mdp: MDP, members: csr_array, r: F8) -> None:
        P, sets = mdp.P, members.T.tocsr()
        self._made_of = mdp, members, r
        self.n_states, self.n_pairs, self.n_quotas = mdp.n_states, mdp.n_pairs, members.shape[0]
        self.damping = 0.0
        self.most = 300  # sweeps of one call
        self.sweeps = 0  # so far, counted over vectors
        self._ptr = mdp.pair_ptr
        self._P = P.indptr, P.indices, P.data
        self._G = sets.indptr, sets.indices, sets.data
        self._r = r
        self._work = np.empty(self.n_states)

    @property
    def margin(self) -> float:
        """Room with which a share must meet its bound for the certificate to prove that it does."""
        return ROUNDING * self.n_states

    def put(self, vector: F8) -> F8:
        """Bring a vector to the device."""
        return np.ascontiguousarray(vector, dtype=np.float64)

    def get(self, vector: F8) -> F8:
        """Bring a vector back."""
        return vector

    def full(self, value: float) -> F8:
        """Vector over the states with one value."""
        return np.full(self.n_states, value)

    def made(self, kind: type["Sweeps"]) -> "Sweeps":
        """Another kernel set for the same model."""
        return kind(*self._made_of)

    def patient(self) -> "Sweeps":
        """These functions for chains on which sweeps stop short: factors, or many damped sweeps."""
        if 1 < self.n_states <= FACTORED:
            return self.made(Factored)
        self.damping, self.most = 0.1, 3000
        return self

    def improve(self, h: F8, mu: F8, tau: float) -> Backup:
        """Softmax policy of r + G.T mu at relative values h."""
        pi, e = np.empty(self.n_pairs), np.empty(self.n_states)
        return Backup(pi, e, *soft_backup(self._ptr, *self._P, *self._G, self._r, mu, h, tau, pi, e))

    def first_pairs(self) -> I4:
        """First pair of every state."""
        return self._ptr[:-1].astype(np.int32)

    def play(self, choice: I4) -> F8:
        """Policy of one pair in every state."""
        pi = np.zeros(self.n_pairs)
        pi[choice] = 1.0
        return pi

    def uniform(self) -> F8:
        """Every action of a state with the same probability."""
        actions = np.diff(self._ptr)
        return np.repeat(1 / actions, actions)

    def greedy(self, h: F8, mu: F8, choice: I4, tie: float) -> tuple[I4, Backup]:
        """Best pair of every state at h, the old one where it is within tie of it."""
        choice, e = choice.copy(), np.empty(self.n_states)
        low, high = greedy_backup(self._ptr, *self._P, *self._G, self._r, mu, h, tie, choice, e)
        return choice, Backup(self.play(choice), e, low, high, high)

    def follow(self, pi: F8) -> Chain:
        """Chain of a policy."""
        starts = np.empty(self.n_states + 1, np.int64)
        chain_starts(self._ptr, self._P[0], pi, starts)
        cols, vals = np.empty(starts[-1], np.int32), np.empty(starts[-1])
        chain_entries(self._ptr, *self._P, pi, cols, vals)
        return Chain(starts, cols, vals)

    def settle(self, chain: Chain, h: F8, e: F8, tol: float) -> tuple[F8, float]:
        """Relative values of the policy whose backup at h is off by e, and the span of what is left."""
        h, e = h.copy(), e.copy()
        span, count = value_sweeps(*chain, h, e, self._work, self.damping, tol, self.most)
        self.sweeps += count
        return h, span

    def law(self, chain: Chain, nu: F8, tol: float) -> tuple[F8, float]:
        """Long-run law of a chain from a guess, and an estimate of its L1 error."""
        nu = nu.copy()
        error, count = law_sweeps(*chain, nu, self._work, self.damping, tol, self.most)
        self.sweeps += count
        return nu, error

    def totals(self, pi: F8, nu: F8, e: F8) -> tuple[F8, float, float]:
        """Share of each quota, reward, and mean of e under a policy and its law."""
        shares = np.empty(self.n_quotas)
        gain, mean = totals(self._ptr, *self._G, self._r, pi, nu, e, shares)
        return shares, gain, mean

    def occupancy(self, pi: F8, nu: F8) -> F8:
        """Share of time of each pair under a policy and its law."""
        return pi * np.repeat(nu, np.diff(self._ptr))

    def block(self, chain: Chain, pi: F8, shares: F8, H: F4 | None, tol: float) -> tuple[F4, float]:
        """Bias of every quota's set, (S, K), from a guess, and the largest span of what is left."""
        F = self._quota_block(pi, shares)
        H = F.copy() if H is None else H.copy()
        span, count = block_sweeps(*chain, F, H, np.empty_like(F), self.damping, tol, self.most)
        self.sweeps += count * self.n_quotas
        return H, span

    def curvature(self, pi: F8, nu: F8, H: F4) -> F8:
        """Mean covariance of the quotas' pair values under the policy, (K, K)."""
        C = np.empty((self.n_quotas, self.n_quotas))
        curvature(self._ptr, *self._P, *self._G, pi, nu, H, C)
        return C

    def shift(self, h: F8, H: F4, d: F8) -> F8:
        """Return h + H d."""
        out = np.empty_like(h)
        shift(h, H, d, out)
        return out

    def _quota_block(self, pi: F8, shares: F8) -> F4:
        F = np.empty((self.n_states, self.n_quotas), np.float32)
        quota_block(self._ptr, *self._G, pi, shares, F)
        return F


class Factored(Sweeps):
    """The same functions with every chain factored: for chains that mix slowly and factor cheaply."""

    def __init__(self, mdp: MDP, members: csr_array, r: F8, *, restart: float = 1e-12) -> None:
        super().__init__(mdp, members, r)
        self.restart = restart
        self._pin = 0
        self._factored: tuple[F8, Factors] | None = None

    def settle(self, chain: Chain, h: F8, e: F8, tol: float) -> tuple[F8, float]:
        """Relative values of the policy whose backup at h is off by e."""
        return h + self._factors(chain).bias(e[:, None])[:, 0], 0.0

    def law(self, chain: Chain, nu: F8, tol: float) -> tuple[F8, float]:
        """Long-run law of a chain."""
        nu = self._factors(chain).law()
        self._pin = int(np.argmax(nu))
        return nu, 0.0

    def block(self, chain: Chain, pi: F8, shares: F8, H: F4 | None, tol: float) -> tuple[F4, float]:
        """Bias of every quota's set, (S, K)."""
        return self._factors(chain).bias(self._quota_block(pi, shares)).astype(np.float32), 0.0

    def _factors(self, chain: Chain) -> "Factors":
        if self._factored is None or self._factored[0] is not chain.vals:
            self._factored = chain.vals, Factors(chain, self._pin, self.restart)
        return self._factored[1]


class Factors:
    """Factors of a chain that restarts in one state now and then, so that it always has one class.

    With ``(1 - restart) P + restart e_pin`` for P, the matrix ``I - P`` without the pinned state is an
    M-matrix with a dominant diagonal; it gives relative values as well as the law.
    """

    def __init__(self, chain: Chain, pin: int, restart: float) -> None:
        n = chain.starts.size - 1
        P = csr_array(((1 - restart) * chain.vals, chain.cols, chain.starts), shape=(n, n))
        self._pin, self._rest = pin, np.delete(np.arange(n), pin)
        self._row = P[[pin]].toarray()[0, self._rest]
        A = eye_array(n - 1, format="csr") - P[self._rest][:, self._rest]
        self._dense = A.toarray() if n <= DENSE else None
        if self._dense is not None:
            eliminate(self._dense)
        else:
            options = {"SymmetricMode": True}
            self._sparse = splu(A.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    def bias(self, F: NDArray[Any]) -> F8:
        """Bias of each column of F, (S, K), zero at the pinned state."""
        both = np.column_stack([F[self._rest], np.ones(self._rest.size)])
        if self._dense is None:
            both = self._sparse.solve(both)
        else:
            substitute(self._dense, both)
        u, w = both[:, :-1], both[:, -1]
        gain = (F[self._pin] + self._row @ u) / (1 + self._row @ w)  # (K,)
        H = np.zeros(F.shape)
        H[self._rest] = u - w[:, None] * gain
        return H

    def law(self) -> F8:
        """Long-run law."""
        nu = np.ones(self._rest.size + 1)
        others = self._row.copy()
        if self._dense is None:
            others = self._sparse.solve(others, trans="T")
        else:
            substitute_transposed(self._dense, others)
        nu[self._rest] = np.maximum(others, 0.0)
        return nu / nu.sum()
