"""The chain of a policy on a device, and its transpose."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairmdp.kernels.bellman import Chain
from fairmdp.kernels.cuda.launcher import Launcher, Variant


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
    starts = xp.zeros(n + 1, np.int64)
    sizes = starts[1:]
    launcher.launch(Variant(), "column_sizes", entries, entries, chain.cols, sizes)
    xp.cumsum(sizes, out=sizes)
    cols, vals = xp.empty_like(chain.cols), xp.empty_like(chain.vals)
    variant = Variant(launcher.row_lanes(entries / n))
    launcher.launch(variant, "turn", n, n, *chain, starts[:-1].copy(), cols, vals)
    return Chain(starts, cols, vals)
