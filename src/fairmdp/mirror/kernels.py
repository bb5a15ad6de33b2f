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

What is here: the projection (`multipliers`), plain runs with their own draws (`dense_run`, the reference,
and `dense_run_any`), minibatches of any simulator (`propose`, `take_answers`), and the experiments of the
paper on given uniforms (`run_protocol`, both published variants). For large models with disjoint quotas
there is `lazy`.
"""

import numpy as np
from numba import njit

from fairmdp.mirror.primitives import (
    DEEP,
    DRAWS_PER_STEP,
    F8,
    I8,
    OPTIONS,
    U8,
    next_state,
    rescale,
    shifted,
    uniform,
)
from fairmdp.mirror.tables import CROSSING, DISJOINT, NESTED, Batch, Dense, Model, Quotas, Scratch

DEFINITION, PUBLISHED = 0, 1  # variants of `run_protocol`
_RESIDUAL = 1e-13  # shortfall of a quota at which the projection onto crossing quotas is done
# A set without any mass cannot be filled: where quotas nest or cross, such a division is an error.
_LOUD = OPTIONS | {"error_model": "python"}


def project(y: F8, unit_of: I8, quotas: Quotas) -> F8:
    """KL projection of positive weights, in pair order, onto ``{x >= 0, sum x == 1, quotas met}``."""
    n_units = int(unit_of.max()) + 1 if quotas.kind == CROSSING else quotas.rho.size
    scratch = Scratch.of(n_units, quotas.rho.size)
    unit_masses(y, unit_of, scratch.Y)
    multipliers(quotas, scratch)
    return np.asarray(y * scratch.mult[unit_of])


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


@njit(**_LOUD)
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


@njit(**_LOUD)
def fill_laminar(Y: F8, rho: F8, parent: I8, first: I8, work: F8, mult: F8) -> None:
    """Multipliers of form 3 on a laminar family in postorder, the whole set last.

    ``Y[H]`` is the mass whose smallest set is H, ``first[H]..H`` the subtree of H, ``parent[-1] == -1``
    and ``rho[-1] == 1`` (all mass). ``F_H(c) = c Y_H + sum_children max(F_K(c), rho_K)`` is convex and
    piecewise linear; kappa_H = F_H^{-1}(rho_H) by Newton from the right, which is finite.
    """
    K = rho.size
    val, slope, kappa = work[0], work[1], work[2]
    for H in range(K):
        a = first[H]
        kappa[H] = 0.0
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


@njit(**_LOUD)
def fill_overlapping(Y: F8, rho: F8, ptr: I8, member: I8, work: F8, mult: F8) -> float:
    """Multipliers of form 4: atom a gets ``exp(sum of mu_g over its groups) / Z``; returns the residual.

    ``member[ptr[g]:ptr[g+1]]`` are the atoms of group g. Exact coordinate ascent on mu >= 0; the residual
    is the largest quota shortfall or slack of a priced group.
    """
    A, K = Y.size, rho.size
    p, mu = work[0], work[1]
    total = 0.0
    for a in range(A):
        total += Y[a]
    for a in range(A):
        p[a], mult[a] = Y[a] / total, 1.0 / total
    for g in range(K):
        mu[g] = 0.0
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
        if residual <= _RESIDUAL:
            break
    return residual


def multipliers(quotas: Quotas, scratch: Scratch) -> None:
    """What the projection multiplies the pairs of each unit by; from Python only one kind is compiled."""
    if quotas.kind == DISJOINT:
        fill_blocks(scratch.Y, quotas.rho, scratch.mult)
    elif quotas.kind == NESTED:
        fill_laminar(scratch.Y, quotas.rho, quotas.shape[0], quotas.shape[1], scratch.work, scratch.mult)
    else:
        fill_overlapping(scratch.Y, quotas.rho, quotas.shape[0], quotas.shape[1], scratch.work, scratch.mult)


_multipliers = njit(**OPTIONS)(multipliers)


@njit(**OPTIONS)
def unit_masses(y: F8, unit_of: I8, Y: F8) -> None:
    """Y[u] = sum of y over unit u."""
    Y[:] = 0.0
    for i in range(y.size):
        Y[unit_of[i]] += y[i]


@njit(**OPTIONS, forceinline=True)
def _lam_step(lam: F8, s: int, s_next: int, eta_lam: float, lam_max: float) -> None:
    """Clipped step against e[s] - e[s_next]."""
    if s != s_next:
        lam[s] = max(lam[s] - eta_lam, -lam_max)
        lam[s_next] = min(lam[s_next] + eta_lam, lam_max)


# --- dense runs with their own draws ----------------------------------------------------------------


@njit(**OPTIONS)
def _tilt_pair(w: F8, ws: F8, start: I8, u: int, p: int, d: float) -> float:
    """``w[p] *= exp(-d)``; returns the log of the unit's new sum over its old one."""
    a, b = start[u], start[u + 1]
    old, before = ws[u], max(w[p], 0.0)
    w[p] = shifted(w[p], d)
    ws[u] += max(w[p], 0.0) - before
    if 0.5 * old < ws[u] < 16.0 * (b - a) and ws[u] > 0.0625:
        return np.log(ws[u] / old)
    shift = rescale(w, a, b)  # cancelled or far from one: sum anew
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
def dense_run(
    model: Model, quotas: Quotas, state: Dense, steps: int, eta_x: float, eta_lam: float, lam_max: float
) -> None:
    """``steps`` steps under disjoint quotas, in place."""
    nu, rho = state.nu, quotas.rho
    for _ in range(steps):
        _half_step(model, state, state.clock[0], eta_x, eta_lam, lam_max)
        c = water_fill(nu, rho)
        for u in range(nu.size):
            nu[u] = max(c * nu[u], rho[u]) if nu[u] > 0.0 or rho[u] > 0.0 else shifted(nu[u], -np.log(c))
        _accumulate(model, state)
        state.clock[0] += DRAWS_PER_STEP


@njit(**OPTIONS)
def dense_run_any(
    model: Model, quotas: Quotas, state: Dense, steps: int, eta_x: float, eta_lam: float, lam_max: float
) -> None:
    """As `dense_run`, under any quotas; apart, since it takes longer to compile."""
    nu, Y, mult = state.nu, state.scratch.Y, state.scratch.mult
    for _ in range(steps):
        _half_step(model, state, state.clock[0], eta_x, eta_lam, lam_max)
        for u in range(nu.size):
            Y[u] = max(nu[u], 0.0)
        _multipliers(quotas, state.scratch)
        for u in range(nu.size):
            nu[u] = Y[u] * mult[u] if Y[u] * mult[u] >= DEEP else shifted(nu[u], -np.log(mult[u]))
        _accumulate(model, state)
        state.clock[0] += DRAWS_PER_STEP


# --- minibatches: propose, ask any simulator, take its answers ----------------------------------------


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
def tilt(b: Batch, s_of: I8, unit_of: I8, eta_x: float, eta_lam: float, lam_max: float) -> None:
    """Apply the answers in ``b``: x and lam against the mean slopes; leaves exp(logx) and unit masses.

    Step sizes multiply the *mean* of the batch: B eta keeps the progress per sample of single steps.
    """
    x, logx, lam, flow = b.x, b.logx, b.lam, b.flow
    B = b.reward.size
    scale_x, scale_lam = eta_x * logx.size / B, eta_lam / B
    for k in range(B):
        i = b.uniform_pairs[k]
        logx[i] -= scale_x * (lam[b.s_next[k]] - lam[s_of[i]] - b.reward[k])
    flow[:] = 0.0
    for k in range(B):
        flow[s_of[b.x_pairs[k]]] += 1.0
        flow[b.s_next2[k]] -= 1.0
    for s in range(lam.size):
        lam[s] = min(max(lam[s] - scale_lam * flow[s], -lam_max), lam_max)
        b.lam_sum[s] += lam[s]
    top = -np.inf
    for i in range(x.size):
        top = max(top, logx[i])
    for i in range(x.size):
        logx[i] -= top
        x[i] = np.exp(logx[i])
    unit_masses(x, unit_of, b.scratch.Y)


@njit(**OPTIONS)
def scale(b: Batch, unit_of: I8) -> None:
    """Apply the multipliers (overwritten by their logs) and add x to its sum."""
    x, mult = b.x, b.scratch.mult
    for i in range(x.size):
        x[i] *= mult[unit_of[i]]
        b.x_sum[i] += x[i]
    for u in range(mult.size):
        mult[u] = np.log(mult[u])
    for i in range(x.size):
        b.logx[i] += mult[unit_of[i]]


@njit(**OPTIONS)
def take_answers(
    quotas: Quotas, b: Batch, s_of: I8, unit_of: I8, s_next: I8, rewards: F8, low: float, span: float,
    eta_x: float, eta_lam: float, lam_max: float,
) -> None:  # fmt: skip
    """Finish a step with a simulator's answers to both lists of pairs; rewards are ``low + span r``."""
    B = b.reward.size
    for k in range(B):
        b.reward[k] = (rewards[k] - low) / span
        b.s_next[k], b.s_next2[k] = s_next[k], s_next[B + k]
    tilt(b, s_of, unit_of, eta_x, eta_lam, lam_max)
    _multipliers(quotas, b.scratch)
    scale(b, unit_of)


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
    uniforms: F8, indptr: I8, indices: I8, data: F8, r: F8, s_of: I8, rho: F8, eta: float, lam_max: float,
    variant: int, x: F8, lam: F8, x_sum: F8, lam_sum: F8,
) -> None:  # fmt: skip
    """Run ``len(uniforms)`` steps on given uniforms (T, 4), updating x, lam and their sums in place.

    Columns: pair of the x-gradient, its successor, pair of the lambda-gradient by cumulated x, its
    successor. ``rho`` (S,) is owed to the states. ``DEFINITION`` is the KL step; ``PUBLISHED`` is the
    authors' code: the reversed KL step (form 5) and half of ``eta`` in lam. Plain doubles: meant for runs
    short of underflow (1e5 steps).
    """
    L, S = x.size, rho.size
    Y, mult = np.empty(S), np.empty(S)
    eta_lam = 0.5 * eta if variant == PUBLISHED else eta
    for t in range(uniforms.shape[0]):
        i = int(L * uniforms[t, 0])
        s_next = _first_above(indptr, indices, data, i, uniforms[t, 1])
        v, total, j = uniforms[t, 2] * x.sum(), 0.0, 0
        for j in range(L):
            total += x[j]
            if total > v:
                break
        s_next2 = _first_above(indptr, indices, data, j, uniforms[t, 3])
        d = eta * L * (lam[s_next] - lam[s_of[i]] - r[i])
        if variant == PUBLISHED:
            unit_masses(x, s_of, Y)
            k = s_of[i]
            c, w = _reverse_root(Y, rho, k, x[i], d)
            for s in range(S):
                mult[s] = 1.0 / c if c * rho[s] < Y[s] else rho[s] / Y[s]
            mult[k] = 1.0 / min(c, w)
            touched = x[i] / (min(c, w) + d)
            for p in range(L):
                x[p] *= mult[s_of[p]]
            x[i] = touched
        else:
            x[i] *= np.exp(-d)
            unit_masses(x, s_of, Y)
            fill_blocks(Y, rho, mult)
            for p in range(L):
                x[p] *= mult[s_of[p]]
        _lam_step(lam, s_of[j], s_next2, eta_lam, lam_max)
        for p in range(L):
            x_sum[p] += x[p]
        for s in range(S):
            lam_sum[s] += lam[s]
