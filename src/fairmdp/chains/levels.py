# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""The matrices of a chain on groups of states, level upon level, for `multigrid`.

With ``A = I - P`` the matrix of the next level is ``R A E``: E has a column for each group, R takes means
over the states of a group. It is I minus a chain again, of how the groups move.

`multigrid` compiles into itself what is called there, and numba's disk cache does not notice a change here.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from fairmdp.chains.aggregates import COARSEST
from fairmdp.chains.krylov import incomplete_factors
from fairmdp.chains.sweeps import F8, I4, I8


class Levels(NamedTuple):
    """The matrices of all levels, laid end to end, and their incomplete factors."""

    at: I8  # (L + 1,), where the states of each level begin
    begin: I8  # (L + 1,), where its entries begin
    starts: I8  # rows; a level has one more than states
    cols: I4
    vals: F8
    diagonal: I8  # within the entries of the level
    factors: F8
    group: I4
    weight: F8  # of each state in its group
    inverse: F8  # of the last level, one column replaced by ones


class Level(NamedTuple):
    """One of them."""

    starts: I8
    cols: I4
    vals: F8
    diagonal: I8
    factors: F8
    group: I4
    weight: F8


@njit(cache=True, nogil=True)
def level_of(levels: Levels, number: int) -> Level:
    """Level of a number, 0 being the chain itself."""
    first, last = levels.at[number], levels.at[number + 1]
    entries = slice(levels.begin[number], levels.begin[number + 1])
    return Level(
        levels.starts[first + number : last + number + 1], levels.cols[entries], levels.vals[entries],
        levels.diagonal[first:last], levels.factors[entries], levels.group[first:last],
        levels.weight[first:last],
    )  # fmt: skip


@njit(cache=True, nogil=True)
def finest(starts: I8, cols: I4, vals: F8, order: I8) -> tuple[I8, I4, F8, I8]:
    """``I - P`` in an order of the states: rows, columns in order, entries, places of the diagonal."""
    n = order.size
    rank = np.empty(n, np.int64)
    for i in range(n):
        rank[order[i]] = i
    new, out_cols, out = np.empty(n + 1, np.int64), np.empty(cols.size + n, np.int32), np.empty(cols.size + n)
    diagonal, seen, at = np.empty(n, np.int64), np.full(n, -1, np.int64), 0
    new[0] = 0
    for i in range(n):
        first = at
        out_cols[at], out[at], seen[i] = i, 1.0, at
        at += 1
        for k in range(starts[order[i]], starts[order[i] + 1]):
            j = rank[cols[k]]
            if seen[j] < first:
                seen[j], out_cols[at], out[at] = at, j, 0.0
                at += 1
            out[seen[j]] -= vals[k]
        sort_row(out_cols, out, first, at)
        for k in range(first, at):
            seen[out_cols[k]] = -1
            if out_cols[k] == i:
                diagonal[i] = k
        new[i + 1] = at
    return new, out_cols[:at].copy(), out[:at].copy(), diagonal


@njit(cache=True, nogil=True)
def sort_row(cols: I4, vals: F8, first: int, last: int) -> None:
    """Sort the entries of a short row by column."""
    for k in range(first + 1, last):
        col, val, m = cols[k], vals[k], k - 1
        while m >= first and cols[m] > col:
            cols[m + 1], vals[m + 1] = cols[m], vals[m]
            m -= 1
        cols[m + 1], vals[m + 1] = col, val


@njit(cache=True, nogil=True)
def coarser(starts: I8, cols: I4, vals: F8, group: I4, weight: F8, count: int) -> tuple[I8, I4, F8, I8]:
    """Matrix ``R A E`` of the groups of a level."""
    n = group.size
    first_of, next_of = np.full(count, -1, np.int64), np.empty(n, np.int64)
    for i in range(n - 1, -1, -1):
        next_of[i] = first_of[group[i]]
        first_of[group[i]] = i
    new, out_cols, out = (
        np.empty(count + 1, np.int64),
        np.empty(cols.size + count, np.int32),
        np.empty(cols.size + count),
    )
    diagonal, seen, at = np.empty(count, np.int64), np.full(count, -1, np.int64), 0
    new[0] = 0
    for g in range(count):
        first = at
        out_cols[at], out[at], seen[g] = g, 0.0, at
        at += 1
        i = first_of[g]
        while i >= 0:
            for k in range(starts[i], starts[i + 1]):
                j = group[cols[k]]
                if seen[j] < first:
                    seen[j], out_cols[at], out[at] = at, j, 0.0
                    at += 1
                out[seen[j]] += weight[i] * vals[k]
            i = next_of[i]
        sort_row(out_cols, out, first, at)
        for k in range(first, at):
            seen[out_cols[k]] = -1
            if out_cols[k] == g:
                diagonal[g] = k
        new[g + 1] = at
    return new, out_cols[:at].copy(), out[:at].copy(), diagonal


@njit(cache=True, nogil=True)
def group_weights(nu: F8, group: I4, count: int) -> tuple[F8, F8]:
    """Part of each state in its group by masses, and the masses of the groups."""
    mass, size = np.zeros(count), np.zeros(count)
    for i in range(group.size):
        mass[group[i]] += nu[i]
        size[group[i]] += 1
    weight = np.empty(group.size)
    for i in range(group.size):
        g = group[i]
        weight[i] = nu[i] / mass[g] if mass[g] > 0 else 1 / size[g]
    return weight, mass


@njit(cache=True, nogil=True)
def inverted(starts: I8, cols: I4, vals: F8) -> F8:
    """Inverse of a small matrix whose last column is replaced by ones, by elimination."""
    n = starts.size - 1
    M, out = np.zeros((n, n)), np.eye(n)
    for i in range(n):
        for k in range(starts[i], starts[i + 1]):
            M[i, cols[k]] = vals[k]
        M[i, n - 1] = 1.0
    for i in range(n):
        best = i
        for k in range(i + 1, n):
            if abs(M[k, i]) > abs(M[best, i]):
                best = k
        if best != i:
            for j in range(n):
                M[i, j], M[best, j] = M[best, j], M[i, j]
                out[i, j], out[best, j] = out[best, j], out[i, j]
        pivot = M[i, i] if abs(M[i, i]) > 1e-14 else 1.0
        for j in range(n):
            M[i, j] /= pivot
            out[i, j] /= pivot
        for k in range(n):
            if k != i and M[k, i] != 0.0:
                factor = M[k, i]
                for j in range(n):
                    M[k, j] -= factor * M[i, j]
                    out[k, j] -= factor * out[i, j]
    return out


@njit(cache=True, nogil=True)
def built(starts: I8, cols: I4, vals: F8, order: I8, sizes: I8, group: I4, nu: F8) -> Levels:
    """Levels of a chain; the states of a group count by the masses nu."""
    L = sizes.size
    at, begin = np.zeros(L + 1, np.int64), np.zeros(L + 1, np.int64)
    for level in range(L):
        at[level + 1] = at[level] + sizes[level]
    S = at[L]
    all_starts, all_diagonal, weight = np.empty(S + L, np.int64), np.empty(S, np.int64), np.ones(S)
    all_cols, all_vals = np.empty(2 * (cols.size + S), np.int32), np.empty(2 * (cols.size + S))
    mass = np.empty(order.size)
    for i in range(order.size):
        mass[i] = nu[order[i]]
    rows, these_cols, these, diagonal = finest(starts, cols, vals, order)
    for level in range(L):
        if level > 0:
            here = group[at[level - 1] : at[level]]
            weight[at[level - 1] : at[level]], mass = group_weights(mass, here, sizes[level])
            rows, these_cols, these, diagonal = coarser(
                rows, these_cols, these, here, weight[at[level - 1] : at[level]], sizes[level]
            )
        begin[level + 1] = begin[level] + these.size
        if begin[level + 1] > all_cols.size:
            more = np.empty(2 * begin[level + 1], np.int32)
            more[: begin[level]] = all_cols[: begin[level]]
            all_cols = more
            more_vals = np.empty(2 * begin[level + 1])
            more_vals[: begin[level]] = all_vals[: begin[level]]
            all_vals = more_vals
        all_starts[at[level] + level : at[level + 1] + level + 1] = rows
        all_cols[begin[level] : begin[level + 1]] = these_cols
        all_vals[begin[level] : begin[level + 1]] = these
        all_diagonal[at[level] : at[level + 1]] = diagonal
    inverse = inverted(rows, these_cols, these) if sizes[-1] <= COARSEST else np.empty((0, 0))
    levels = Levels(
        at, begin, all_starts, all_cols[: begin[L]], all_vals[: begin[L]], all_diagonal,
        all_vals[: begin[L]].copy(), group, weight, inverse,
    )  # fmt: skip
    for number in range(L):
        one = level_of(levels, number)
        incomplete_factors(one.starts, one.cols, one.diagonal, one.factors, 0.0)
    return levels
