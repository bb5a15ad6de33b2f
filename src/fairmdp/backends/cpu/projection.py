# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""The nearest point that gives every group what it is owed, with thresholds; `proximal` says how.

No jitted function calls one of another file: numba's disk cache does not notice changes there.
"""

import numpy as np
from numba import njit

from fairmdp.backends.by_quota import ROUNDS, Model
from fairmdp.backends.cpu.scratch import F8, I8, Scratch


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
