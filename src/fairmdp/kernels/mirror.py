# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""Dense kernels of stochastic mirror descent: Algorithm 1 of the paper, O(pairs) per step.

One step from ``(x, lam)``, with L pairs, sampled next states and step sizes ``eta_x, eta_lam``::

    i uniform,  s'  ~ P[i]     g_x   = L (lam[s'] - lam[s_i] - r_i)   at coordinate i
    j ~ x,      s'' ~ P[j]     g_lam = e[s_j] - e[s'']
    x   <- KL projection of x exp(-eta_x g_x) onto {sum x == 1, quotas met}
    lam <- clip(lam - eta_lam g_lam, -lam_max, lam_max)

Both updates start from the same ``(x, lam)``. Running sums take the iterates *after* each step,
``x_2 .. x_{T+1}`` (docs/paper.md); the box of the paper sums ``x_1 .. x_T``, which is the same sum
plus ``x_1`` minus ``x_{T+1}``.

**Units.** The projection multiplies all pairs of a *unit* by one number, so it only needs the masses
of the units: a state, a group of states, a single pair (quota forms 1 and 2 of docs/paper.md), the
pairs whose smallest set is the same (laminar, form 3), or the pairs with the same memberships
(overlapping, form 4). Units partition the pairs: pairs without a quota form units with ``rho == 0``.

**Numbers that underflow.** On the three-state problem log x of a bad action is -5e6 after 1e9 steps.
A weight or mass below `DEEP` is therefore stored as its negative logarithm in the same slot ("deep");
it counts as zero in sums and returns to the linear scale when it grows. Exact zeros are ``-inf``.

**Random numbers.** Draw n of a stream is ``mix(key[0] + n key[1])``: SplitMix64 with a stream's own odd
increment (Steele, Lea and Flood, OOPSLA 2014), addressed by n. A run cut into chunks is thus the same
run, and a checkpoint is the arrays and the counter ``clock``.

What is here: `project_*` (projections of a weight vector), `run_protocol` (given uniforms, both
published variants), `replay` (given draws, log domain: the reference), `dense_run*` (own draws), and
the minibatch parts `propose`, `simulate`, `tilt`, `exponentiate`, `scale`, which let any simulator
answer the queries (`batch_run` puts them together for a known model).
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

F8 = NDArray[np.float64]
I8 = NDArray[np.int64]
I4 = NDArray[np.int32]
U8 = NDArray[np.uint64]

# Kernels that allocate nothing leave out the reference counts of their arrays: atomic updates on every
# call that cost more than a small step. Divisions follow IEEE.
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}

DEEP = 1e-150  # below this a weight is kept as its logarithm
LOG_DEEP = float(np.log(DEEP))
DRAWS_PER_STEP = 8  # counters set aside for one step; five are used
TINY = 2.0**-53
DEFINITION, PUBLISHED = 0, 1  # variants of `run_protocol`


# --- tables, in Python ------------------------------------------------------------------------------


class Model(NamedTuple):
    """Pairs in unit order (``order[p]`` is the pair at position p) with their sampling tables."""

    order: I8  # (L,)
    start: I8  # (U+1,) positions of unit u are start[u] .. start[u+1]-1
    unit: I8  # (L,) unit of each position
    rho: F8  # (U,) quota of each unit, 0 where there is none
    row: I8  # (L+1,) alias row of position p is row[p] .. row[p+1]-1
    alias: F8  # (nnz, 2) threshold, then two int32: own state, other state
    alias_i: I4  # (nnz, 4) the same memory
    s_of: I4  # (L,) state of each position
    r: F8  # (L,)


class Dense(NamedTuple):
    """State of a dense run: ``x[p] = nu[u] w[p] / ws[u]``, sums of iterates, stream."""

    w: F8  # (L,) weights inside units; deep below DEEP
    ws: F8  # (U,) their sums
    nu: F8  # (U,) masses of units; deep below DEEP
    x_sum: F8  # (L,)
    lam: F8  # (S,)
    lam_sum: F8  # (S,)
    key: U8  # (2,) stream
    clock: I8  # (1,) draws consumed


class Batch(NamedTuple):
    """State of a minibatch run and its work space; ``x = exp(logx)``, so nothing underflows."""

    x: F8  # (L,)
    logx: F8  # (L,)
    lam: F8  # (S,)
    x_sum: F8  # (L,)
    lam_sum: F8  # (S,)
    key: U8  # (2,)
    clock: I8  # (1,)
    uniform_pairs: I8  # (B,) what follows is scratch
    x_pairs: I8  # (B,)
    s_next: I8  # (B,)
    s_next2: I8  # (B,)
    reward: F8  # (B,)
    work: F8  # (S,)
    Y: F8  # (U,)
    mult: F8  # (U,)


BATCH_STATE = ("x", "logx", "lam", "x_sum", "lam_sum", "key", "clock")  # a checkpoint


def stream(seed: np.random.SeedSequence | int) -> U8:
    """Key of a SplitMix64 stream: a start and an odd increment with enough bit changes."""
    if not isinstance(seed, np.random.SeedSequence):
        seed = np.random.SeedSequence(seed)
    start, gamma = (int(v) for v in seed.generate_state(2, np.uint64))
    gamma |= 1
    if (gamma ^ (gamma >> 1)).bit_count() < 24:  # the paper's guard against weak increments
        gamma ^= 0xAAAAAAAAAAAAAAAA
    return np.array([start, gamma], dtype=np.uint64)


def units_of_groups(group: I8, rho: F8, s_of: I8) -> tuple[I8, F8]:
    """Units of disjoint groups of pairs; the pairs of a state in no group (-1) share a unit of quota 0."""
    free = group < 0
    states, unit = np.unique(s_of[free], return_inverse=True)
    unit_of = np.array(group, dtype=np.int64)
    unit_of[free] = rho.size + unit
    return unit_of, np.concatenate([np.asarray(rho, dtype=np.float64), np.zeros(states.size)])


def build_model(indptr: I8, indices: I8, data: F8, r: F8, s_of: I8, unit_of: I8, rho: F8) -> Model:
    """Sort the pairs by unit and tabulate their transitions for O(1) sampling."""
    n_units = rho.size
    order = np.argsort(unit_of, kind="stable").astype(np.int64)
    start = np.searchsorted(unit_of[order], np.arange(n_units + 1)).astype(np.int64)
    row = np.asarray(indptr, dtype=np.int64)
    if not np.array_equal(order, np.arange(order.size)):
        length = np.diff(row)[order]
        row_new = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(length)])
        take = np.repeat(row[order] - row_new[:-1], length) + np.arange(row_new[-1])
        row, indices, data = row_new, indices[take], data[take]
    alias = np.zeros((row[-1], 2))
    alias_i = alias.view(np.int32)
    build_alias(
        row, np.ascontiguousarray(indices, np.int32), np.ascontiguousarray(data, np.float64), alias, alias_i
    )
    return Model(
        order=order,
        start=start,
        unit=np.asarray(unit_of, dtype=np.int64)[order],
        rho=np.ascontiguousarray(rho, dtype=np.float64),
        row=row,
        alias=alias,
        alias_i=alias_i,
        s_of=np.ascontiguousarray(s_of[order], dtype=np.int32),
        r=np.ascontiguousarray(r[order], dtype=np.float64),
    )


def start_dense(model: Model, x: F8, lam: F8, key: U8) -> Dense:
    """Dense state at the pair vector x (in pair order, inside the quota set) and lam."""
    L = model.r.size
    w = np.ascontiguousarray(x[model.order], dtype=np.float64)
    nu = np.add.reduceat(np.append(w, 0.0), np.minimum(model.start[:-1], L))
    nu[np.diff(model.start) == 0] = 0.0
    empty = np.repeat(nu == 0.0, np.diff(model.start))
    w = np.where(empty, 1.0, w) / np.repeat(np.where(nu > 0, nu, 1.0), np.diff(model.start))
    return Dense(
        w=_deepen(w),
        ws=np.add.reduceat(np.append(w, 0.0), np.minimum(model.start[:-1], L)),
        nu=_deepen(nu),
        x_sum=np.zeros(L),
        lam=np.array(lam, dtype=np.float64),
        lam_sum=np.zeros(lam.size),
        key=np.array(key, dtype=np.uint64),
        clock=np.zeros(1, dtype=np.int64),
    )


def start_batch(x: F8, n_states: int, n_units: int, batch: int, key: U8) -> Batch:
    """Minibatch state at the positive vector x (inside the quota set) and lam = 0."""
    L = x.size
    return Batch(
        x=np.array(x, dtype=np.float64),
        logx=np.log(x),
        lam=np.zeros(n_states),
        x_sum=np.zeros(L),
        lam_sum=np.zeros(n_states),
        key=np.array(key, dtype=np.uint64),
        clock=np.zeros(1, dtype=np.int64),
        uniform_pairs=np.zeros(batch, dtype=np.int64),
        x_pairs=np.zeros(batch, dtype=np.int64),
        s_next=np.zeros(batch, dtype=np.int64),
        s_next2=np.zeros(batch, dtype=np.int64),
        reward=np.zeros(batch),
        work=np.zeros(n_states),
        Y=np.zeros(n_units),
        mult=np.zeros(n_units),
    )


def _deepen(v: F8) -> F8:
    """Weights in the mixed scale: logarithms below DEEP."""
    with np.errstate(divide="ignore"):
        return np.where(v >= DEEP, v, np.log(v))


def dense_x(model: Model, state: Dense) -> F8:
    """Current x in pair order."""
    x = np.empty(model.r.size)
    size = np.diff(model.start)
    coef = np.maximum(state.nu, 0.0) / state.ws
    x[model.order] = np.repeat(coef, size) * np.maximum(state.w, 0.0)
    return x


# --- random numbers and sampling --------------------------------------------------------------------


@njit(**OPTIONS, forceinline=True)
def uniform(key: U8, n: int) -> float:
    """Draw n of the stream, in [0, 1) with 53 bits; ``int(u L) < L`` for every L < 2**53."""
    z = key[0] + np.uint64(n) * key[1]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * TINY


@njit(**OPTIONS)
def next_state(row: I8, alias: F8, alias_i: I4, p: int, u: float) -> int:
    """Alias draw of a successor of position p from one uniform."""
    v = u * (row[p + 1] - row[p])
    k = int(v)
    e = row[p] + k
    return int(alias_i[e, 2] if v - k < alias[e, 0] else alias_i[e, 3])


@njit(cache=True, nogil=True)
def build_alias(row: I8, indices: I4, data: F8, alias: F8, alias_i: I4) -> None:
    """Vose's alias table of each row: keep entry k with probability ``alias[k, 0]``, else its other state."""
    longest = 0
    for p in range(row.size - 1):
        longest = max(longest, row[p + 1] - row[p])
    todo = np.empty(longest, np.int64)  # short entries from the left, long ones from the right
    for p in range(row.size - 1):
        a, n = row[p], row[p + 1] - row[p]
        total = 0.0
        for k in range(n):
            total += data[a + k]
        small, large = 0, n
        for k in range(n):
            alias[a + k, 0] = data[a + k] * n / total
            alias_i[a + k, 2] = indices[a + k]
            alias_i[a + k, 3] = indices[a + k]
            if alias[a + k, 0] < 1.0:
                todo[small] = k
                small += 1
            else:
                large -= 1
                todo[large] = k
        while small > 0 and large < n:
            small -= 1
            s, b = todo[small], todo[large]
            alias_i[a + s, 3] = indices[a + b]
            alias[a + b, 0] -= 1.0 - alias[a + s, 0]
            if alias[a + b, 0] < 1.0:
                large += 1
                todo[small] = b
                small += 1
        for k in range(small):  # what rounding left over is certain
            alias[a + todo[k], 0] = 1.0
        for k in range(large, n):
            alias[a + todo[k], 0] = 1.0


# --- projections: unit masses Y -> multipliers ------------------------------------------------------


@njit(**OPTIONS, fastmath={"reassoc", "nsz"})
def positive_sum(v: F8) -> float:
    """Sum of the linear entries."""
    total = 0.0
    for u in range(v.size):
        total += v[u] if v[u] > 0.0 else 0.0
    return total


@njit(**OPTIONS)
def any_short(Y: F8, rho: F8, c: float) -> bool:
    """Whether some quota exceeds its share c Y; counted, not returned early, so that it vectorises."""
    short = 0
    for u in range(Y.size):
        short += Y[u] * c < rho[u]
    return short > 0


@njit(**OPTIONS)
def water_fill(Y: F8, rho: F8) -> float:
    """The c with ``sum max(c Y, rho) == 1``; deep (negative) masses count as zero.

    Pinning only lowers c, so the pinned set grows until it is right: at most one pass per unit, two
    in the usual case. The loose mass is summed anew in each pass: subtracting would cost ten digits.
    """
    c, pinned_before = 1.0 / positive_sum(Y), 0.0
    if not any_short(Y, rho, c):
        return c
    while True:
        loose, pinned = 0.0, 0.0
        for u in range(Y.size):
            y = max(Y[u], 0.0)
            if y * c < rho[u]:
                pinned += rho[u]
            else:
                loose += y
        lower = max(1.0 - pinned, 0.0) / loose if loose > 0.0 else 0.0
        if pinned <= pinned_before or lower >= c:  # rounding (ties, sum rho near 1) must not turn it round
            return c
        c, pinned_before = lower, pinned


@njit(**OPTIONS)
def fill_blocks(Y: F8, rho: F8, mult: F8) -> None:
    """Multipliers of form 1: ``max(c, rho/Y)``."""
    c = water_fill(Y, rho)
    for u in range(Y.size):
        mult[u] = c if Y[u] * c >= rho[u] else rho[u] / Y[u]


@njit(cache=True, nogil=True)
def _served(Y: F8, rho: F8, parent: I8, a: int, H: int, c: float, val: F8, slope: F8) -> None:
    """F_H(c) and its slope into ``val[H], slope[H]``; a..H is the subtree of H in postorder."""
    for k in range(a, H + 1):
        val[k], slope[k] = c * Y[k], Y[k]
    for k in range(a, H):
        q = parent[k]
        if val[k] >= rho[k]:
            val[q] += val[k]
            slope[q] += slope[k]
        else:
            val[q] += rho[k]


@njit(cache=True, nogil=True)
def fill_laminar(Y: F8, rho: F8, parent: I8, first: I8, mult: F8) -> None:
    """Multipliers of form 3 on a laminar family in postorder, the whole set last.

    ``Y[H]`` is the mass whose smallest set is H, ``first[H]..H`` the subtree of H, ``parent[-1] == -1``
    and ``rho[-1] == 1`` (all mass). ``F_H(c) = c Y_H + sum_children max(F_K(c), rho_K)`` is convex and
    piecewise linear; kappa_H = F_H^{-1}(rho_H) by Newton from the right, which is finite.
    """
    K = rho.size
    val, slope, kappa = np.empty(K), np.empty(K), np.zeros(K)
    for H in range(K):
        a = first[H]
        _served(Y, rho, parent, a, H, 0.0, val, slope)
        if val[H] >= rho[H]:
            continue  # its children's quotas alone fill it
        total = 0.0
        for k in range(a, H + 1):
            total += Y[k]
        c = rho[H] / total  # F_H(c) >= c total: on the right of the root
        while True:
            _served(Y, rho, parent, a, H, c, val, slope)
            lower = c - (val[H] - rho[H]) / slope[H] if slope[H] > 0.0 else c
            if not lower < c * (1.0 - 1e-15):
                break
            c = lower
        kappa[H] = c
    for H in range(K - 1, -1, -1):
        mult[H] = kappa[H] if parent[H] < 0 else max(kappa[H], mult[parent[H]])


@njit(cache=True, nogil=True)
def fill_overlapping(Y: F8, rho: F8, ptr: I8, member: I8, tol: float, mult: F8) -> float:
    """Multipliers of form 4: atom a gets ``exp(sum of mu_g over its groups) / Z``; returns the residual.

    ``member[ptr[g]:ptr[g+1]]`` are the atoms of group g. Exact coordinate ascent on mu >= 0; the residual
    is the largest quota shortfall or slack of a priced group.
    """
    A, K = Y.size, rho.size
    p, mu = np.empty(A), np.zeros(K)
    total = 0.0
    for a in range(A):
        total += Y[a]
    for a in range(A):
        p[a], mult[a] = Y[a] / total, 1.0 / total
    residual = 1.0
    for _ in range(10_000):
        residual = 0.0
        for g in range(K):
            if rho[g] <= 0.0:
                continue
            inside = 0.0
            for e in range(ptr[g], ptr[g + 1]):
                inside += p[member[e]]
            short = rho[g] - inside
            residual = max(residual, short if mu[g] == 0.0 else abs(short))
            outside = 1.0 - inside
            if outside <= 0.0:
                step = -mu[g]
            else:
                step = max(-mu[g], np.log(rho[g] * outside / ((1.0 - rho[g]) * inside)))
            if step == 0.0:
                continue
            mu[g] += step
            z = inside * np.exp(step) + outside
            up = np.exp(step)
            for a in range(A):
                p[a] /= z
                mult[a] /= z
            for e in range(ptr[g], ptr[g + 1]):
                p[member[e]] *= up
                mult[member[e]] *= up
        if residual <= tol:
            break
    return residual


@njit(**OPTIONS)
def unit_masses(y: F8, unit_of: I8, Y: F8) -> None:
    """Y[u] = sum of y over unit u."""
    Y[:] = 0.0
    for i in range(y.size):
        Y[unit_of[i]] += y[i]


def project_blocks(y: F8, unit_of: I8, rho: F8) -> F8:
    """KL projection onto ``{x >= 0, sum x == 1, x(unit) >= rho}``; units partition the pairs (forms 1, 2)."""
    Y, mult = np.empty(rho.size), np.empty(rho.size)
    unit_masses(y, unit_of, Y)
    fill_blocks(Y, rho, mult)
    return np.asarray(y * mult[unit_of])


def project_laminar(y: F8, home: I8, rho: F8, parent: I8, first: I8) -> F8:
    """KL projection under nested quotas (form 3); see `laminar_tree` for home, parent and first."""
    Y, mult = np.empty(rho.size), np.empty(rho.size)
    unit_masses(y, home, Y)
    fill_laminar(Y, rho, parent, first, mult)
    return np.asarray(y * mult[home])


def project_overlapping(y: F8, atom_of: I8, rho: F8, ptr: I8, member: I8, tol: float = 1e-13) -> F8:
    """KL projection under arbitrary groups (form 4); see `atoms` for atom_of, ptr and member."""
    n_atoms = int(atom_of.max()) + 1
    Y, mult = np.empty(n_atoms), np.empty(n_atoms)
    unit_masses(y, atom_of, Y)
    fill_overlapping(Y, rho, ptr, member, tol, mult)
    return np.asarray(y * mult[atom_of])


def laminar_tree(sets: list[I8], rho: F8, n_pairs: int) -> tuple[I8, F8, I8, I8]:
    """``home, rho, parent, first`` of a laminar family, in postorder with the whole set last.

    ``home[i]`` is the smallest set that holds pair i. Raises ValueError if two sets cross.
    """
    by_size = sorted(range(len(sets)), key=lambda k: -len(sets[k]))  # parents before children
    owner = np.full(n_pairs, -1, dtype=np.int64)  # smallest set so far
    up = {}
    for k in by_size:
        above = np.unique(owner[sets[k]])
        if above.size != 1:
            raise ValueError(f"set {k} crosses another set: it lies in none or in several of the larger ones")
        up[k] = int(above[0])
        owner[sets[k]] = k
    children: dict[int, list[int]] = {k: [] for k in [-1, *by_size]}
    for k in by_size:
        children[up[k]].append(k)
    post: list[int] = []
    first_of = {}
    todo = [(-1, False)]
    while todo:  # iterative postorder: nesting may be deep
        k, done = todo.pop()
        if done:
            post.append(k)
        else:
            first_of[k] = len(post)
            todo.append((k, True))
            todo.extend((c, False) for c in children[k])
    at = {k: n for n, k in enumerate(post)}
    home = np.array([at[int(k)] for k in owner], dtype=np.int64)
    parent = np.array([-1 if k == -1 else at[up[k]] for k in post], dtype=np.int64)
    first = np.array([first_of[k] for k in post], dtype=np.int64)
    return home, np.array([1.0 if k == -1 else rho[k] for k in post]), parent, first


def atoms(sets: list[I8], n_pairs: int) -> tuple[I8, I8, I8]:
    """``atom_of, ptr, member``: pairs with equal memberships share an atom; the atoms of each group, CSR."""
    inside = np.zeros((n_pairs, len(sets)), dtype=bool)
    for g, pairs in enumerate(sets):
        inside[pairs, g] = True
    signature, atom_of = np.unique(inside, axis=0, return_inverse=True)
    lists = [np.flatnonzero(signature[:, g]) for g in range(len(sets))]
    ptr = np.concatenate([[0], np.cumsum([len(m) for m in lists])]).astype(np.int64)
    member = np.concatenate([*lists, np.zeros(0)]).astype(np.int64)
    return atom_of.ravel().astype(np.int64), ptr, member


# --- the protocol of the experiments (docs/paper.md): given uniforms --------------------------------


@njit(cache=True, nogil=True)
def _first_above(row: I8, indices: I8, data: F8, i: int, u: float) -> int:
    """First successor whose cumulative probability exceeds u."""
    total = 0.0
    for e in range(row[i], row[i + 1]):
        total += data[e]
        if total > u:
            return indices[e]
    return indices[row[i + 1] - 1]


@njit(cache=True, nogil=True)
def _reverse_root(Y: F8, rho: F8, k: int, xk: float, d: float) -> tuple[float, float]:
    """``c`` and the touched unit's ``w`` of form 5: sum_u of masses over (min(c, w_u) + d) is one."""
    rest = Y[k] - xk
    w = np.inf
    if rho[k] > 0.0:  # the positive root of rest/w + xk/(w + d) == rho, without cancellation
        b = Y[k] - rho[k] * d
        root = np.sqrt(b * b + 4.0 * rho[k] * rest * d) if b * b + 4.0 * rho[k] * rest * d > 0.0 else 0.0
        w = (b + root) / (2.0 * rho[k]) if b >= 0.0 else 2.0 * rest * d / (root - b)
    low, high = max(0.0, -d), 1.0 + abs(d)
    c = high if d < 0.0 else 1.0
    for _ in range(200):  # Newton kept inside the bracket; the sum is convex and falls with c
        m = min(c, w)
        total = rest / m + xk / (m + d)
        slope = -rest / (m * m) - xk / ((m + d) * (m + d)) if c < w else 0.0
        for u in range(Y.size):
            if u != k:
                if c * rho[u] < Y[u]:
                    total += Y[u] / c
                    slope -= Y[u] / (c * c)
                else:
                    total += rho[u]
        if total > 1.0:
            low = c
        else:
            high = c
        c_new = c - (total - 1.0) / slope if slope < 0.0 else 0.5 * (low + high)
        if not low < c_new < high:
            c_new = 0.5 * (low + high)
        if abs(c_new - c) <= 2e-16 * c:
            break
        c = c_new
    return c, w


@njit(cache=True, nogil=True)
def run_protocol(
    uniforms: F8,
    indptr: I8,
    indices: I8,
    data: F8,
    r: F8,
    s_of: I8,
    unit_of: I8,
    rho: F8,
    eta_x: float,
    eta_lam: float,
    lam_max: float,
    variant: int,
    x: F8,
    lam: F8,
    x_sum: F8,
    lam_sum: F8,
) -> None:
    """Run ``len(uniforms)`` steps on given uniforms (T, 4), updating x, lam and their sums in place.

    Columns: pair of the x-gradient, its successor, pair of the lambda-gradient by cumulated x, its
    successor. ``DEFINITION`` is the KL step; ``PUBLISHED`` is the authors' code: the reversed KL step
    (form 5) and half of ``eta_lam``. Plain doubles: meant for runs short of underflow (1e5 steps).
    """
    L, U = x.size, rho.size
    Y, mult = np.empty(U), np.empty(U)
    if variant == PUBLISHED:
        eta_lam = 0.5 * eta_lam
    for t in range(uniforms.shape[0]):
        i = int(L * uniforms[t, 0])
        s_next = _first_above(indptr, indices, data, i, uniforms[t, 1])
        v, total, j = uniforms[t, 2] * x.sum(), 0.0, 0
        for j in range(L):
            total += x[j]
            if total > v:
                break
        s_next2 = _first_above(indptr, indices, data, j, uniforms[t, 3])
        d = eta_x * L * (lam[s_next] - lam[s_of[i]] - r[i])
        if variant == PUBLISHED:
            unit_masses(x, unit_of, Y)
            k = unit_of[i]
            c, w = _reverse_root(Y, rho, k, x[i], d)
            for u in range(U):
                mult[u] = 1.0 / c if c * rho[u] < Y[u] else rho[u] / Y[u]
            mult[k] = 1.0 / min(c, w)
            xi = x[i] / (min(c, w) + d)
            for p in range(L):
                x[p] *= mult[unit_of[p]]
            x[i] = xi
        else:
            x[i] *= np.exp(-d)
            unit_masses(x, unit_of, Y)
            fill_blocks(Y, rho, mult)
            for p in range(L):
                x[p] *= mult[unit_of[p]]
        _lam_step(lam, s_of[j], s_next2, eta_lam, lam_max)
        for p in range(L):
            x_sum[p] += x[p]
        for s in range(lam.size):
            lam_sum[s] += lam[s]


@njit(**OPTIONS, forceinline=True)
def _lam_step(lam: F8, s: int, s_next: int, eta_lam: float, lam_max: float) -> None:
    """Clipped step against e[s] - e[s_next]."""
    if s != s_next:
        lam[s] = max(lam[s] - eta_lam, -lam_max)
        lam[s_next] = min(lam[s_next] + eta_lam, lam_max)


# --- the reference: given draws, logarithms throughout ----------------------------------------------


@njit(cache=True, nogil=True)
def replay(
    draws: I8,
    r: F8,
    s_of: I8,
    unit_of: I8,
    rho: F8,
    eta_x: float,
    eta_lam: float,
    lam_max: float,
    logx: F8,
    lam: F8,
    x_sum: F8,
    lam_sum: F8,
) -> None:
    """Steps with recorded draws ``(j, s'', i, s')``, the x-sampled query first; log x, lam, sums in place.

    Straight from the definition and slow on purpose (O(L) exponentials a step): every faster kernel is
    tested against it.
    """
    L, U = r.size, rho.size
    top, Y, logY = np.empty(U), np.empty(U), np.empty(U)
    for t in range(draws.shape[0]):
        j, s_next2, i, s_next = draws[t, 0], draws[t, 1], draws[t, 2], draws[t, 3]
        logx[i] -= eta_x * L * (lam[s_next] - lam[s_of[i]] - r[i])
        top[:] = -np.inf
        for p in range(L):
            top[unit_of[p]] = max(top[unit_of[p]], logx[p])
        Y[:] = 0.0
        for p in range(L):
            if top[unit_of[p]] > -np.inf:
                Y[unit_of[p]] += np.exp(logx[p] - top[unit_of[p]])
        shift = -np.inf
        for u in range(U):
            logY[u] = top[u] + np.log(Y[u]) if top[u] > -np.inf else -np.inf
            shift = max(shift, logY[u])
        for u in range(U):
            Y[u] = np.exp(logY[u] - shift)
        c = water_fill(Y, rho)
        for u in range(U):  # logY becomes the log multiplier
            logY[u] = np.log(c) - shift if Y[u] * c >= rho[u] else np.log(rho[u]) - logY[u]
        for p in range(L):
            logx[p] += logY[unit_of[p]]
            x_sum[p] += np.exp(logx[p])
        _lam_step(lam, s_of[j], s_next2, eta_lam, lam_max)
        for s in range(lam.size):
            lam_sum[s] += lam[s]


# --- dense runs with their own draws ----------------------------------------------------------------


@njit(**OPTIONS)
def shifted(v: float, d: float) -> float:
    """``v exp(-d)`` in the mixed scale of linear and deep numbers."""
    if v > 0.0:
        y = v * np.exp(-d)
        return y if y >= DEEP else np.log(v) - d
    return np.exp(v - d) if v - d >= LOG_DEEP else v - d


@njit(**OPTIONS)
def _rescale(w: F8, a: int, b: int) -> float:
    """Divide ``w[a:b]`` by its maximum, in logarithms; returns the log of the divisor."""
    top = -np.inf
    for p in range(a, b):
        top = max(top, np.log(w[p]) if w[p] > 0.0 else w[p])
    for p in range(a, b):
        w[p] = shifted(w[p], top) if w[p] != -np.inf else w[p]
    return top


@njit(**OPTIONS)
def _tilt_pair(w: F8, ws: F8, start: I8, u: int, p: int, d: float) -> float:
    """``w[p] *= exp(-d)``; returns the log of the unit's new sum over its old one."""
    a, b = start[u], start[u + 1]
    old, before = ws[u], max(w[p], 0.0)
    w[p] = shifted(w[p], d)
    ws[u] += max(w[p], 0.0) - before
    if 0.5 * old < ws[u] < 16.0 * (b - a) and ws[u] > 0.0625:
        return np.log(ws[u] / old)
    shift = _rescale(w, a, b)  # cancelled or far from one: sum anew
    ws[u] = 0.0
    for q in range(a, b):
        ws[u] += max(w[q], 0.0)
    return shift + np.log(ws[u]) - np.log(old)


@njit(**OPTIONS, forceinline=True)
def _pick(state: Dense, start: I8, u1: float, u2: float) -> int:
    """Position j ~ x: a unit by its mass, then a pair by its weight."""
    nu, w = state.nu, state.w
    total, b = 0.0, -1
    for u in range(nu.size):
        m = max(nu[u], 0.0)
        if m > 0.0:
            b = u
        total += m
        if total > u1:
            break
    v, total, j = u2 * state.ws[b], 0.0, -1
    for p in range(start[b], start[b + 1]):
        m = max(w[p], 0.0)
        if m > 0.0:
            j = p
        total += m
        if total > v:
            break
    return j


@njit(**OPTIONS, forceinline=True)
def _half_step(model: Model, state: Dense, n: int, eta_x: float, eta_lam: float, lam_max: float) -> None:
    """Everything of a step but the projection: draws n.., lam, and the tilt of one pair and its unit."""
    L, lam, key = model.r.size, state.lam, state.key
    i = int(uniform(key, n) * L)
    s_next = next_state(model.row, model.alias, model.alias_i, i, uniform(key, n + 1))
    j = _pick(state, model.start, uniform(key, n + 2), uniform(key, n + 3))
    s_next2 = next_state(model.row, model.alias, model.alias_i, j, uniform(key, n + 4))
    d = eta_x * L * (lam[s_next] - lam[model.s_of[i]] - model.r[i])
    u = model.unit[i]
    state.nu[u] = shifted(state.nu[u], -_tilt_pair(state.w, state.ws, model.start, u, i, d))
    _lam_step(lam, model.s_of[j], s_next2, eta_lam, lam_max)


@njit(**OPTIONS, forceinline=True)
def _accumulate(model: Model, state: Dense) -> None:
    """Add the iterate to the running sums."""
    w, x_sum, start = state.w, state.x_sum, model.start
    for u in range(state.nu.size):
        coef = max(state.nu[u], 0.0) / state.ws[u]
        for p in range(start[u], start[u + 1]):
            x_sum[p] += coef * w[p] if w[p] > 0.0 else 0.0
    for s in range(state.lam.size):
        state.lam_sum[s] += state.lam[s]


@njit(**OPTIONS)
def dense_run(model: Model, state: Dense, steps: int, eta_x: float, eta_lam: float, lam_max: float) -> None:
    """``steps`` steps under unit quotas (forms 1 and 2), in place."""
    nu, rho = state.nu, model.rho
    for _ in range(steps):
        _half_step(model, state, state.clock[0], eta_x, eta_lam, lam_max)
        c = water_fill(nu, rho)
        for u in range(nu.size):
            nu[u] = max(c * nu[u], rho[u]) if nu[u] > 0.0 or rho[u] > 0.0 else shifted(nu[u], -np.log(c))
        _accumulate(model, state)
        state.clock[0] += DRAWS_PER_STEP


@njit(cache=True, nogil=True)
def _multiply(nu: F8, mult: F8, Y: F8) -> None:
    """Apply multipliers to masses in the mixed scale."""
    for u in range(nu.size):
        nu[u] = Y[u] * mult[u] if Y[u] * mult[u] >= DEEP else shifted(nu[u], -np.log(mult[u]))


@njit(cache=True, nogil=True)
def dense_run_laminar(
    model: Model,
    state: Dense,
    parent: I8,
    first: I8,
    steps: int,
    eta_x: float,
    eta_lam: float,
    lam_max: float,
) -> None:
    """As `dense_run` under nested quotas: units are `laminar_tree`'s homes, ``model.rho`` its rho."""
    Y, mult = np.empty(state.nu.size), np.empty(state.nu.size)
    for _ in range(steps):
        _half_step(model, state, state.clock[0], eta_x, eta_lam, lam_max)
        for u in range(Y.size):
            Y[u] = max(state.nu[u], 0.0)
        fill_laminar(Y, model.rho, parent, first, mult)
        _multiply(state.nu, mult, Y)
        _accumulate(model, state)
        state.clock[0] += DRAWS_PER_STEP


@njit(cache=True, nogil=True)
def dense_run_overlapping(
    model: Model,
    state: Dense,
    rho: F8,
    ptr: I8,
    member: I8,
    steps: int,
    eta_x: float,
    eta_lam: float,
    lam_max: float,
) -> float:
    """As `dense_run` under arbitrary groups; returns the worst residual of a projection.

    Units are the atoms of `atoms`; their ``model.rho`` is not used.
    """
    Y, mult = np.empty(state.nu.size), np.empty(state.nu.size)
    worst = 0.0
    for _ in range(steps):
        _half_step(model, state, state.clock[0], eta_x, eta_lam, lam_max)
        for u in range(Y.size):
            Y[u] = max(state.nu[u], 0.0)
        worst = max(worst, fill_overlapping(Y, rho, ptr, member, 1e-13, mult))
        _multiply(state.nu, mult, Y)
        _accumulate(model, state)
        state.clock[0] += DRAWS_PER_STEP
    return worst


# --- minibatches: propose, ask any simulator, apply -------------------------------------------------
#
# propose(x, ...) -> simulator -> tilt(logx, lam, ...) -> exponentiate -> fill_* -> scale.
# Pairs are in pair order; logx is the state, x = exp(logx) its image, so nothing underflows.


@njit(**OPTIONS)
def propose(x: F8, key: U8, clock: I8, uniform_pairs: I8, x_pairs: I8) -> None:
    """Pairs to query: B uniform ones and B drawn from x (sum 1), stratified at ``(k + U_k)/B``.

    Both lists come out sorted. Each stratum is sampled once, so the mean of B gradients is unbiased.
    """
    L, B, n = x.size, uniform_pairs.size, clock[0]
    for k in range(B):
        i = int((k + uniform(key, n + k)) / B * L)
        uniform_pairs[k] = i if i < L else L - 1
    j, last, total = 0, 0, x[0]
    for k in range(B):
        v = (k + uniform(key, n + B + k)) / B
        while total <= v and j < L - 1:
            j += 1
            total += x[j]
            if x[j] > 0.0:
                last = j
        x_pairs[k] = last
    clock[0] += 2 * B


@njit(**OPTIONS)
def simulate(row: I8, alias: F8, alias_i: I4, pairs: I8, key: U8, clock: I8, s_next: I8) -> None:
    """Next states of the queried pairs from the alias table (a model of pairs in their own order)."""
    n = clock[0]
    for k in range(pairs.size):
        s_next[k] = next_state(row, alias, alias_i, pairs[k], uniform(key, n + k))
    clock[0] += pairs.size


@njit(**OPTIONS)
def tilt(
    logx: F8,
    lam: F8,
    s_of: I8,
    uniform_pairs: I8,
    reward: F8,
    s_next: I8,
    x_pairs: I8,
    s_next2: I8,
    eta_x: float,
    eta_lam: float,
    lam_max: float,
    work: F8,
) -> None:
    """Apply the answers: log x against the mean x-gradient, lam against the mean lambda-gradient.

    ``reward`` (B,) are the simulator's rewards of ``uniform_pairs``; ``work`` (S,) is scratch. Step sizes
    multiply the *mean* of the batch: B eta keeps the progress per sample of single steps.
    """
    B = uniform_pairs.size
    scale_x, scale_lam = eta_x * logx.size / B, eta_lam / B
    for k in range(B):
        i = uniform_pairs[k]
        logx[i] -= scale_x * (lam[s_next[k]] - lam[s_of[i]] - reward[k])
    work[:] = 0.0
    for k in range(B):
        work[s_of[x_pairs[k]]] += 1.0
        work[s_next2[k]] -= 1.0
    for s in range(lam.size):
        lam[s] = min(max(lam[s] - scale_lam * work[s], -lam_max), lam_max)


@njit(**OPTIONS)
def exponentiate(logx: F8, unit_of: I8, x: F8, Y: F8) -> None:
    """Shift log x to maximum 0, ``x = exp(logx)``, and the unit masses Y, ready for a ``fill_*``."""
    top = -np.inf
    for i in range(x.size):
        top = max(top, logx[i])
    Y[:] = 0.0
    for i in range(x.size):
        logx[i] -= top
        x[i] = np.exp(logx[i])
        Y[unit_of[i]] += x[i]


@njit(**OPTIONS)
def scale(logx: F8, x: F8, unit_of: I8, mult: F8, lam: F8, x_sum: F8, lam_sum: F8) -> None:
    """Apply the multipliers of a ``fill_*`` (overwritten by their logs) and add the iterate to the sums."""
    for i in range(x.size):
        x[i] *= mult[unit_of[i]]
        x_sum[i] += x[i]
    for u in range(mult.size):
        mult[u] = np.log(mult[u])
    for i in range(x.size):
        logx[i] += mult[unit_of[i]]
    for s in range(lam.size):
        lam_sum[s] += lam[s]


@njit(**OPTIONS)
def batch_run(
    model: Model, s_of: I8, unit_of: I8, b: Batch, steps: int, eta_x: float, eta_lam: float, lam_max: float
) -> None:
    """``steps`` minibatch steps on a known model under unit quotas, in place; pairs by position.

    ``s_of`` and ``unit_of`` are the model's, in the integers of the other kernels.
    """
    for _ in range(steps):
        propose(b.x, b.key, b.clock, b.uniform_pairs, b.x_pairs)
        simulate(model.row, model.alias, model.alias_i, b.uniform_pairs, b.key, b.clock, b.s_next)
        simulate(model.row, model.alias, model.alias_i, b.x_pairs, b.key, b.clock, b.s_next2)
        for k in range(b.reward.size):
            b.reward[k] = model.r[b.uniform_pairs[k]]
        tilt(
            b.logx, b.lam, s_of, b.uniform_pairs, b.reward, b.s_next, b.x_pairs, b.s_next2,
            eta_x, eta_lam, lam_max, b.work,
        )  # fmt: skip
        exponentiate(b.logx, unit_of, b.x, b.Y)
        fill_blocks(b.Y, model.rho, b.mult)
        scale(b.logx, b.x, unit_of, b.mult, b.lam, b.x_sum, b.lam_sum)
