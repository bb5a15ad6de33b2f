"""The chain of a policy on a device, and its transpose."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairmdp.backends.cuda.launcher import Launcher, Variant
from fairmdp.chains.sweeps import ChainRows

_COLUMNS = 512  # of a bucket, as in sweeps.cu
ROOM = 1 << 28
"""Entries that are put into buckets at a time, 16 bytes each."""


def follow(launcher: Launcher, rows: Variant, ptr: Any, P: tuple[Any, Any, Any], pi: Any) -> ChainRows:
    """Chain of a policy in a model; `rows` is the variant whose lanes share a row of it."""
    xp, n = launcher.xp, ptr.size - 1
    starts = xp.zeros(n + 1, np.int64)
    sizes = starts[1:]
    launcher.launch(rows._replace(lanes=1), "chain_sizes", n, n, ptr, P[0], pi, sizes)
    xp.cumsum(sizes, out=sizes)
    chain = _with_room(xp, starts, int(starts[-1]))
    launcher.launch(rows, "chain_rows", n, n, ptr, *P, pi, *chain)
    return chain


def transposed(launcher: Launcher, chain: ChainRows) -> ChainRows:
    """Transpose of a chain; entries of a row come in any order."""
    xp, n, entries = launcher.xp, chain.starts.size - 1, chain.cols.size
    places = xp.zeros(-(-n // _COLUMNS) + 1, np.int64)
    sizes = places[1:]
    launcher.launch(Variant(), "bucket_sizes", entries, entries, chain.cols, sizes)
    xp.cumsum(sizes, out=sizes)
    free, rows = places.copy(), Variant(launcher.row_lanes(entries / n))
    turned = _with_room(xp, xp.full(n + 1, entries), entries)
    ends = launcher.get(places)
    low = 0
    while low < ends.size - 1:
        high = max(int(np.searchsorted(ends, ends[low] + ROOM, side="right")) - 1, low + 1)
        origin = int(ends[low])
        by_bucket = xp.empty((int(ends[high]) - origin, 2))  # 16 bytes for each entry: row, column, value
        launcher.launch(rows, "fill_buckets", n, n, *chain, low, high, origin, free, by_bucket)
        launcher.launch(Variant(), "turn", n, n, low, high, origin, places, by_bucket, *turned)
        low = high
    return turned


def _with_room(xp: Any, starts: Any, entries: int) -> ChainRows:
    """Chain with space for its entries, a whole number for each state: freed space fits the next one too."""
    n = starts.size - 1
    space = -(-entries // n) * n
    return ChainRows(starts, xp.empty(space, np.int32)[:entries], xp.empty(space)[:entries])
