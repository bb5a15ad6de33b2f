"""The chain of a policy on a device, and its transpose."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairmdp.kernels.bellman import Chain
from fairmdp.kernels.cuda.launcher import Launcher, Variant

_COLUMNS = 512  # of a bucket, as in sweeps.cu


def follow(launcher: Launcher, rows: Variant, ptr: Any, P: tuple[Any, Any, Any], pi: Any) -> Chain:
    """Chain of a policy in a model; `rows` is the variant whose lanes share a row of it."""
    xp, n = launcher.xp, ptr.size - 1
    starts = xp.zeros(n + 1, np.int64)
    sizes = starts[1:]
    launcher.launch(rows._replace(lanes=1), "chain_sizes", n, n, ptr, P[0], pi, sizes)
    xp.cumsum(sizes, out=sizes)
    entries = int(starts[-1])
    cols, vals = xp.empty(entries, np.int32), xp.empty(entries)
    launcher.launch(rows, "chain_rows", n, n, ptr, *P, pi, starts, cols, vals)
    return Chain(starts, cols, vals)


def transposed(launcher: Launcher, chain: Chain) -> Chain:
    """Transpose of a chain; entries of a row come in any order."""
    xp, n, entries = launcher.xp, chain.starts.size - 1, chain.cols.size
    buckets = -(-n // _COLUMNS)
    places = xp.zeros(buckets + 1, np.int64)
    sizes = places[1:]
    launcher.launch(Variant(), "bucket_sizes", entries, entries, chain.cols, sizes)
    xp.cumsum(sizes, out=sizes)
    by_bucket = xp.empty((entries, 2))  # 16 bytes for each entry: row, column, value
    rows = Variant(launcher.row_lanes(entries / n))
    launcher.launch(rows, "fill_buckets", n, n, *chain, places[:-1].copy(), by_bucket)
    turned = Chain(xp.full(n + 1, entries), xp.empty_like(chain.cols), xp.empty_like(chain.vals))
    launcher.launch(Variant(), "turn", n, buckets, n, places, by_bucket, *turned)
    return turned
