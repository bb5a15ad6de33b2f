# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""Array functions under `fairmdp.solvers.proximal`: one pass over the model each, plain arrays in and out.

States are ordered so that a group (the states that share a quota, or one state by itself) is a run of
states, and a state a run of pairs. ``z`` is an occupancy in units of the weights, ``x_i = w_s z_i``, and
every scalar product over pairs carries the weights. Rows of flow are ``a_i = P_i - e_{s(i)}``.

A projection splits the groups: a *tight* group g sits on its quota, ``z_i = (v_i - theta_g)+`` with a
threshold of its own; all *loose* groups share the threshold ``lam > theta_g``. The rows with ``z_i > 0`` of
one tight group, or of all loose ones together, are a *block*, and the curvature of the dual is ::

    H / sigma = sum over blocks of  A_b^T (W_b - w_b w_b^T / sum w_b) A_b

Sums outside of the Newton steps are NumPy's. All jitted functions are in this file: numba's disk cache does
not notice changes of callees elsewhere.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairmdp.backends.by_quota import ROUNDS, Model

F8 = NDArray[np.float64]
I8 = NDArray[np.int64]
I4 = NDArray[np.int32]
Flags = NDArray[np.bool_]


class Scratch(NamedTuple):
    """Scratch space for the rows of a chain or of the curvature: ``n_pairs`` rows with room for ``-e_s``."""

    ptr: I8  # (SA + 2,)
    to: I4  # (nnz + SA,)
    value: F8  # (nnz + SA,)
    weight: F8  # (SA,)
    seen: F8  # (SA,), products of one block's rows
    block: I8  # (SA + 1,), first row of each block of three rows and more
    mean: F8  # (S,), sum over the loose rows of weight * row
    top: F8  # (S,), largest value of each state
    second: F8  # (S,), and the next


def put(array: F8) -> F8:
    """Bring an array to the device: it is there."""
    return array


def get(array: F8) -> F8:
    """Bring an array back."""
    return array


def scratch_for(model: Model) -> Scratch:
    """Return scratch space that fits a model."""
    SA, nnz, S = model.indptr.size - 1, model.data.size, model.w.size
    return Scratch(
        np.zeros(SA + 2, np.int64),
        np.zeros(nnz + SA, np.int32),
        np.zeros(nnz + SA),
        np.zeros(SA),
        np.zeros(SA),
        np.zeros(SA + 1, np.int64),
        np.zeros(S),
        np.zeros(S),
        np.zeros(S),
    )


@njit(cache=True, nogil=True)
def advantages(model: Model, r: F8, h: F8, out: F8) -> None:
    """out_i = r_i + P_i h - h_s, (SA,)."""
    indptr, indices, data, pairs = model.indptr, model.indices, model.data, model.pairs
    for s in range(pairs.size - 1):
        for i in range(pairs[s], pairs[s + 1]):
            ahead = 0.0
            for k in range(indptr[i], indptr[i + 1]):
                ahead += data[k] * h[indices[k]]
            out[i] = r[i] + ahead - h[s]


@njit(cache=True, nogil=True)
def project(
    model: Model, scratch: Scratch, centre: F8, q: F8, u: F8, step: float, sigma: float, c: F8, lam: float,
    z: F8, theta: F8,
) -> tuple[float, float]:  # fmt: skip
    """Z = the point of {z >= 0, sum w z = 1, group sums >= c} nearest to v = centre + sigma (q + step u).

    ``theta`` (G,) gets the threshold of each group, and lam is the guess of the common one. Returns the
    common threshold and the slope ``sum w z u`` of the dual along u.
    """
    pairs, groups, w, top, second = model.pairs, model.groups, model.w, scratch.top, scratch.second
    mass = 0.0
    weight = 0.0
    for s in range(w.size):
        best = -np.inf
        next_best = -np.inf
        of_state = 0.0
        for i in range(pairs[s], pairs[s + 1]):
            v = centre[i] + sigma * (q[i] + step * u[i])
            z[i] = v
            of_state += v
            next_best = max(next_best, min(best, v))
            best = max(best, v)
        top[s] = best
        second[s] = next_best
        mass += w[s] * of_state
        weight += w[s] * (pairs[s + 1] - pairs[s])
    for g in range(c.size):
        # A single pair would carry what is owed at v - c / w: the root is not left of that, and it is
        # the root itself where every other pair lies below.
        first, stop = groups[g], groups[g + 1]
        t = np.inf
        if c[g] > 0:
            t = -np.inf
            for s in range(first, stop):
                t = max(t, top[s] - c[g] / w[s])
            if stop > first + 1 or second[first] > t:
                t = _threshold(pairs, w, z, first, stop, c[g], t)
        theta[g] = t
    lam = _common_threshold(model, scratch, z, c, theta, lam, (mass - 1.0) / weight)
    slope = 0.0
    for g in range(c.size):
        t = min(theta[g], lam)
        theta[g] = t
        for s in range(groups[g], groups[g + 1]):
            along = 0.0
            for i in range(pairs[s], pairs[s + 1]):
                v = max(z[i] - t, 0.0)
                z[i] = v
                along += v * u[i]
            slope += w[s] * along
    return lam, slope


@njit(cache=True, nogil=True)
def _threshold(pairs: I8, w: F8, v: F8, first: int, stop: int, owed: float, t: float) -> float:
    """Root of ``sum w (v - t)+ = owed`` over a run of states, by Newton from t, a point left of it."""
    active = -1
    for _ in range(ROUNDS):
        mass = 0.0
        weight = 0.0
        count = 0
        for s in range(first, stop):
            for i in range(pairs[s], pairs[s + 1]):
                if v[i] > t:
                    mass += w[s] * v[i]
                    weight += w[s]
                    count += 1
        # From the left the active set only shrinks, so an unchanged count is an unchanged set.
        if count == active or count == 0:
            break
        active = count
        t = (mass - owed) / weight
    return t


@njit(cache=True, nogil=True)
def _common_threshold(
    model: Model, scratch: Scratch, v: F8, c: F8, theta: F8, lam: float, left: float
) -> float:
    """Root of ``sum_g max(c_g, sum w (v - lam)+) = 1`` by Newton; `left` is a point left of it."""
    pairs, groups, w, top, second = model.pairs, model.groups, model.w, scratch.top, scratch.second
    restarted = False
    for _ in range(ROUNDS):
        mass = 0.0
        weight = 0.0
        owed = 0.0
        for g in range(c.size):
            if theta[g] <= lam:
                owed += c[g]
                continue
            for s in range(groups[g], groups[g + 1]):
                if second[s] <= lam:  # the usual case: at most one pair is above
                    if top[s] > lam:
                        mass += w[s] * top[s]
                        weight += w[s]
                    continue
                for i in range(pairs[s], pairs[s + 1]):
                    if v[i] > lam:
                        mass += w[s] * v[i]
                        weight += w[s]
        if weight == 0.0:
            if restarted:  # every group is tight: the quotas take all there is
                break
            restarted = True
            lam = left
            continue
        new = (mass - (1.0 - owed)) / weight
        # An unchanged set of pairs gives the same root again; rounding may move a pair in and out.
        if abs(new - lam) <= 1e-14 * (1.0 + abs(lam)):
            break
        lam = new
    return lam


@njit(cache=True, nogil=True)
def flow(model: Model, z: F8, out: F8) -> tuple[float, float]:
    """Out = sum_i w z_i a_i, inflow less outflow; returns sqrt(sum out^2 / w) and max |out / w|."""
    indptr, indices, data, pairs, w = model.indptr, model.indices, model.data, model.pairs, model.w
    out[:] = 0.0
    for s in range(pairs.size - 1):
        for i in range(pairs[s], pairs[s + 1]):
            if z[i] > 0:
                x = w[s] * z[i]
                out[s] -= x
                for k in range(indptr[i], indptr[i + 1]):
                    out[indices[k]] += x * data[k]
    square = 0.0
    worst = 0.0
    for s in range(w.size):
        off = abs(out[s]) / w[s]
        square += off * abs(out[s])
        worst = max(worst, off)
    return np.sqrt(square), worst


@njit(cache=True, nogil=True)
def direction(
    model: Model, rows: Scratch, z: F8, loose: Flags, g: F8, damping: F8, tol: float, most: int, d: F8
) -> int:
    """Solve ``(H / sigma + diag(damping)) d = -g`` by conjugate gradients from 0; returns their number."""
    w = model.w
    single, blocks, total = _curvature_rows(model, rows, z, loose)
    S = w.size
    diagonal = np.empty(S)
    for s in range(S):
        diagonal[s] = damping[s]
    for row in range(rows.block[blocks]):
        for k in range(rows.ptr[row], rows.ptr[row + 1]):
            diagonal[rows.to[k]] += rows.weight[row] * rows.value[k] ** 2
    d[:] = 0.0
    left = -g
    p = np.empty(S)
    Hp = np.empty(S)
    size = 0.0
    for s in range(S):
        p[s] = left[s] / diagonal[s]
        size += left[s] * p[s]
    goal = tol * tol * size
    count = 0
    while count < most and size > goal:
        count += 1
        _curvature(rows, single, blocks, total, damping, p, Hp)
        curvature = 0.0
        for s in range(S):
            curvature += p[s] * Hp[s]
        if curvature <= 0.0:
            break
        a = size / curvature
        new = 0.0
        for s in range(S):
            d[s] += a * p[s]
            left[s] -= a * Hp[s]
            new += left[s] * left[s] / diagonal[s]
        for s in range(S):
            p[s] = left[s] / diagonal[s] + (new / size) * p[s]
        size = new
    return count


@njit(cache=True, nogil=True)
def _curvature_rows(model: Model, rows: Scratch, z: F8, loose: Flags) -> tuple[int, int, float]:
    """Gather the rows of H: loose ones, then differences of tight pairs, then blocks of three and more.

    A tight block of two rows is one difference with weight ``w1 w2 / (w1 + w2)``; one of a single row
    adds no curvature. Returns the number of loose rows and differences, of blocks, and the weight of the
    loose rows.
    """
    indptr, indices, data, pairs, groups, w = model
    ptr, to, value, weight, mean, block = rows.ptr, rows.to, rows.value, rows.weight, rows.mean, rows.block
    G = groups.size - 1
    row = 0
    end = 0
    total = 0.0
    ptr[0] = 0
    mean[:] = 0.0
    for g in range(G):
        if not loose[g]:
            continue
        for s in range(groups[g], groups[g + 1]):
            for i in range(pairs[s], pairs[s + 1]):
                if z[i] > 0:
                    end = _add_row(indptr, indices, data, i, s, 1.0, to, value, end)
                    for k in range(ptr[row], end):
                        mean[to[k]] += w[s] * value[k]
                    weight[row] = w[s]
                    total += w[s]
                    row += 1
                    ptr[row] = end
    several = 0
    for g in range(G):
        if loose[g]:
            continue
        support = 0
        for i in range(pairs[groups[g]], pairs[groups[g + 1]]):
            support += z[i] > 0
        several += support > 2
        if support != 2:
            continue
        sign = 1.0
        resistance = 0.0
        for s in range(groups[g], groups[g + 1]):
            for i in range(pairs[s], pairs[s + 1]):
                if z[i] > 0:
                    end = _add_row(indptr, indices, data, i, s, sign, to, value, end)
                    sign = -1.0
                    resistance += 1.0 / w[s]
        weight[row] = 1.0 / resistance
        row += 1
        ptr[row] = end
    single = row
    blocks = 0
    for g in range(G):
        if loose[g] or several == 0:
            continue
        support = 0
        for i in range(pairs[groups[g]], pairs[groups[g + 1]]):
            support += z[i] > 0
        if support <= 2:
            continue
        block[blocks] = row
        blocks += 1
        for s in range(groups[g], groups[g + 1]):
            for i in range(pairs[s], pairs[s + 1]):
                if z[i] > 0:
                    end = _add_row(indptr, indices, data, i, s, 1.0, to, value, end)
                    weight[row] = w[s]
                    row += 1
                    ptr[row] = end
    block[blocks] = row
    return single, blocks, total


@njit(inline="always")
def _add_row(
    indptr: I8, indices: I4, data: F8, i: int, s: int, sign: float, to: I4, value: F8, end: int
) -> int:
    """Append ``sign * a_i`` at position `end` and return the new end."""
    to[end] = s
    value[end] = -sign
    end += 1
    for k in range(indptr[i], indptr[i + 1]):
        to[end] = indices[k]
        value[end] = sign * data[k]
        end += 1
    return end


@njit(cache=True, nogil=True)
def _curvature(rows: Scratch, single: int, blocks: int, total: float, damping: F8, p: F8, out: F8) -> None:
    """Out = (H / sigma + diag(damping)) p."""
    ptr, to, value, weight, seen = rows.ptr, rows.to, rows.value, rows.weight, rows.seen
    common = 0.0
    for s in range(p.size):
        out[s] = damping[s] * p[s]
        common += rows.mean[s] * p[s]
    if total > 0:
        common /= total
        for s in range(p.size):
            out[s] -= common * rows.mean[s]
    for row in range(single):
        y = 0.0
        for k in range(ptr[row], ptr[row + 1]):
            y += value[k] * p[to[k]]
        y *= weight[row]
        for k in range(ptr[row], ptr[row + 1]):
            out[to[k]] += y * value[k]
    for b in range(blocks):
        mean = 0.0
        mass = 0.0
        for row in range(rows.block[b], rows.block[b + 1]):
            y = 0.0
            for k in range(ptr[row], ptr[row + 1]):
                y += value[k] * p[to[k]]
            seen[row] = y
            mean += weight[row] * y
            mass += weight[row]
        mean /= mass
        for row in range(rows.block[b], rows.block[b + 1]):
            y = weight[row] * (seen[row] - mean)
            for k in range(ptr[row], ptr[row + 1]):
                out[to[k]] += y * value[k]


@njit(cache=True, nogil=True)
def resist(model: Model, pull: float, start: F8, h: F8, g: F8) -> float:
    """Add the slope of ``pull |h - start|^2 / 2`` to g; returns sqrt(sum g^2 / w)."""
    square = 0.0
    for s in range(g.size):
        g[s] += pull * model.w[s] * (h[s] - start[s])
        square += g[s] * g[s] / model.w[s]
    return np.sqrt(square)


@njit(cache=True, nogil=True)
def along(model: Model, pull: float, start: F8, h: F8, g: F8, d: F8) -> tuple[float, float, float, float]:
    """Longest move of a state in direction d; g @ d; slope and curvature of the pull towards the start."""
    longest, slope, drift, curvature = 0.0, 0.0, 0.0, 0.0
    for s in range(d.size):
        longest = max(longest, abs(d[s]))
        slope += g[s] * d[s]
        drift += pull * model.w[s] * (h[s] - start[s]) * d[s]
        curvature += pull * model.w[s] * d[s] * d[s]
    return longest, slope, drift, curvature


@njit(cache=True, nogil=True)
def advance(
    model: Model, step: float, d: F8, u: F8, common: float, radius: float, h: F8, q: F8, extra: F8
) -> None:
    """H += step d and q += step u, in place.

    The damping of states that d moves beyond a radius grows with the excess; that of the others fades.
    """
    for s in range(h.size):
        h[s] += step * d[s]
        for i in range(model.pairs[s], model.pairs[s + 1]):
            q[i] += step * u[i]
        move = abs(d[s])
        if move > radius:
            extra[s] = min(max(extra[s], common) * min(move / max(radius, 1e-300), 50.0), 10.0)
        else:
            extra[s] *= 0.5


@njit(cache=True, nogil=True)
def distance(model: Model, z: F8, centre: F8) -> float:
    """sqrt(sum w (z - centre)^2)."""
    square = 0.0
    for s in range(model.w.size):
        of_state = 0.0
        for i in range(model.pairs[s], model.pairs[s + 1]):
            of_state += (z[i] - centre[i]) ** 2
        square += model.w[s] * of_state
    return np.sqrt(square)


def tops(model: Model, q: F8, out: F8) -> None:
    """out_g = max of q over the pairs of a group, (G,)."""
    np.maximum.reduceat(q, model.pairs[model.groups[:-1]], out=out)


@njit(cache=True, nogil=True)
def sweep(model: Model, r: F8, level: F8, h: F8, times: int) -> None:
    """Gauss-Seidel: h_s so that ``max_a (r + P h) - h_s = level_g``; groups with level NaN stay as they are.

    The probability of staying is solved for; a pair that never leaves its state cannot move h and is
    passed over.
    """
    indptr, indices, data, pairs, groups = model.indptr, model.indices, model.data, model.pairs, model.groups
    for _ in range(times):
        for g in range(groups.size - 1):
            if np.isnan(level[g]):
                continue
            for s in range(groups[g], groups[g + 1]):
                best = -np.inf
                for i in range(pairs[s], pairs[s + 1]):
                    ahead = r[i] - level[g]
                    leave = 0.0
                    for k in range(indptr[i], indptr[i + 1]):
                        if indices[k] != s:
                            ahead += data[k] * h[indices[k]]
                            leave += data[k]
                    if leave > 1e-9:
                        best = max(best, ahead / leave)
                if best > -np.inf:
                    h[s] = best


@njit(cache=True, nogil=True)
def policy(model: Model, z: F8, q: F8, out: F8) -> None:
    """Out = z over its sum in each state; the pair of largest q where there is none."""
    pairs = model.pairs
    for s in range(pairs.size - 1):
        mass = 0.0
        best = pairs[s]
        for i in range(pairs[s], pairs[s + 1]):
            mass += z[i]
            if q[i] > q[best]:
                best = i
        for i in range(pairs[s], pairs[s + 1]):
            out[i] = z[i] / mass if mass > 1e-12 else (1.0 if i == best else 0.0)


@njit(cache=True, nogil=True)
def stationary(model: Model, rows: Scratch, pi: F8, nu: F8, tol: float, most: int) -> float:
    """Power sweeps of a policy's chain from nu, in place; returns the last relative change, max |dnu| / w."""
    indptr, indices, data, pairs, w = model.indptr, model.indices, model.data, model.pairs, model.w
    S = w.size
    end = 0
    rows.ptr[0] = 0
    for s in range(S):
        for i in range(pairs[s], pairs[s + 1]):
            if pi[i] > 0:
                for k in range(indptr[i], indptr[i + 1]):
                    rows.to[end] = indices[k]
                    rows.value[end] = pi[i] * data[k]
                    end += 1
        rows.ptr[s + 1] = end
    pushed = np.empty(S)
    change = np.inf
    for _ in range(most):
        pushed[:] = 0.0
        for s in range(S):
            for k in range(rows.ptr[s], rows.ptr[s + 1]):
                pushed[rows.to[k]] += nu[s] * rows.value[k]
        mass = pushed.sum()
        change = 0.0
        for s in range(S):
            new = 0.1 * nu[s] + 0.9 * pushed[s] / mass  # some of the old, so that periodic chains settle
            change = max(change, abs(new - nu[s]) / w[s])
            nu[s] = new
        if change <= tol:
            break
    return change


def visits(model: Model, x: F8, out: F8) -> None:
    """out_s = sum of x over the pairs of a state, (S,)."""
    np.add.reduceat(x, model.pairs[:-1], out=out)


def shares(model: Model, nu: F8, out: F8) -> None:
    """out_g = sum of nu over the states of a group, (G,)."""
    np.add.reduceat(nu, model.groups[:-1], out=out)
