# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""Newton directions of the dual, by conjugate gradients on its curvature; `proximal` says how.

No jitted function calls one of another file: numba's disk cache does not notice changes there.
"""

import numpy as np
from numba import njit

from fairmdp.backends.by_quota import Model
from fairmdp.backends.cpu.scratch import F8, I4, I8, Flags, Scratch


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
