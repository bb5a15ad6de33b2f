"""Where a lazy run begins: the arrays of `lazy`, laid out for a model, quotas and a first point."""

import numpy as np

from fairmdp.mirror.lazy import (
    EPOCH,
    FROZEN,
    HOME,
    NODE,
    NSPARE,
    PHI,
    REWARD,
    RHO,
    START,
    TREE,
    WS,
    Lazy,
    W,
    rebuild,
)
from fairmdp.mirror.primitives import F8, U8, deepen
from fairmdp.mirror.tables import Model
from fairmdp.mirror.trees import FAN, plain_leaf_base, tree_nodes

SMALL = 128  # blocks up to this many pairs are scanned


def start_lazy(model: Model, rho: F8, x: F8, n_states: int, key: U8, *, epoch: int = 0) -> Lazy:
    """Lazy state at the pair vector x (pair order) and lam = 0; x is projected onto the quotas if outside.

    ``rho`` is owed to the units. Needs ``sum rho <= 1``, fewer than 2**31 blocks and 2**32 transitions.
    Quotas below 1e-100 count as none. ``epoch`` (0: max(L, 512)) is the most steps between two rebuilds.
    """
    L, B = model.r.size, rho.size
    size = np.diff(model.start)
    epoch = epoch or max(L, 512)
    blk = _aligned((B + 1, 8))
    blk_i = blk.view(np.int64)
    w = x[model.order].astype(np.float64)
    mass: F8 = np.asarray(np.bincount(model.unit, weights=w, minlength=B), dtype=np.float64)
    w = np.where(mass[model.unit] > 0, w, 1.0) / np.where(mass > 0, mass, 1.0)[model.unit]
    rho = np.where(rho < 1e-100, 0.0, rho)
    frozen = rho.sum() > 1 - 1e-12  # then nu == rho for ever
    blk[:B, W] = deepen(rho if frozen else mass)
    blk[:B, WS] = np.bincount(model.unit, weights=w, minlength=B)
    blk[:B, RHO] = rho
    blk_i[:, NODE] = -1
    blk_i[:, START] = model.start
    large = size > SMALL
    nodes = np.where(large, [tree_nodes(int(n)) if n > SMALL else 0 for n in size], 0)
    blk_i[:B, TREE] = np.where(large, np.cumsum(nodes) - nodes, -1)
    pair = _aligned((L + 1, 4))
    pair[:L, REWARD] = model.r
    pair.view(np.int64)[:, HOME] = np.append(model.unit, 0) << 32 | model.row
    cap = max(B, 512) + 2
    pool = _aligned((cap, 8))
    heap = B + epoch + 1
    widest = max(B, int(size.max(initial=1)))
    m = Lazy(
        blk=blk,
        blk_i=blk_i,
        w=deepen(w),
        pair=pair,
        pair_i=pair.view(np.int64),
        s_of=model.s_of,
        alias=model.alias,
        alias_i=model.alias_i,
        lam=_aligned((n_states, 4)),
        free_tree=_aligned((tree_nodes(B), FAN)),
        pin_tree=_aligned((tree_nodes(B), FAN)),
        row_tree=_aligned((max(int(nodes.sum()), 1), FAN)),
        scratch=np.zeros(plain_leaf_base(widest) + widest),
        pool=pool,
        pool_i=pool.view(np.int64),
        stack=np.zeros(cap, dtype=np.int32),
        spare=np.arange(cap, dtype=np.int32),
        heap_key=np.zeros(heap),
        heap_id=np.zeros(heap, dtype=np.int32),
        scal=np.zeros(8),
        cnt=np.zeros(16, dtype=np.int64),
        key=np.array(key, dtype=np.uint64),
    )
    m.scal[PHI] = 2.0
    m.cnt[NSPARE], m.cnt[EPOCH], m.cnt[FROZEN] = cap, epoch, int(frozen)
    rebuild(m)
    return m


def _aligned(shape: tuple[int, int]) -> F8:
    """Zeros on a cache line; from numpy, whose large arrays get huge pages (numba's do not)."""
    n = shape[0] * shape[1]
    raw = np.zeros(n + 8)
    skip = -raw.ctypes.data % 64 // 8
    return raw[skip : skip + n].reshape(shape)
