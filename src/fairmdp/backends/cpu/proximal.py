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

Projections are in `projection`, Newton directions in `newton`. Sums outside of the Newton steps are NumPy's.
No jitted function calls one of another file: numba's disk cache does not notice changes there.
"""

import numpy as np
from numba import njit

from fairmdp.backends.by_quota import Model
from fairmdp.backends.cpu.newton import direction
from fairmdp.backends.cpu.projection import project
from fairmdp.backends.cpu.scratch import F8, Scratch, scratch_for

__all__ = [
    "advance", "advantages", "along", "direction", "distance", "flow", "get", "policy", "project",
    "put", "resist", "scratch_for", "shares", "stationary", "sweep", "tops", "visits",
]  # fmt: skip


def put(array: F8) -> F8:
    """Bring an array to the device: it is there."""
    return array


def get(array: F8) -> F8:
    """Bring an array back."""
    return array


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
