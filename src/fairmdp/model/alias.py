"""Alias tables, from which a successor is drawn with one uniform number, however many there are."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairmdp.model.checks import Floats, Ints

Ints4 = NDArray[np.int32]


@njit(cache=True, nogil=True)
def build_alias(row: Ints, indices: Ints4, data: Floats, alias: Floats, alias_i: Ints4) -> None:
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


@njit(cache=True, nogil=True)
def draw_alias(row: Ints, alias: Floats, alias_i: Ints4, picks: Ints, uniforms: Floats) -> Ints:
    """A state of each picked row, from one uniform number each."""
    drawn = np.empty(picks.size, np.int64)
    for k in range(picks.size):
        first = row[picks[k]]
        place = uniforms[k] * (row[picks[k] + 1] - first)
        column = int(place)
        entry = first + column
        drawn[k] = alias_i[entry, 2] if place - column < alias[entry, 0] else alias_i[entry, 3]
    return drawn
