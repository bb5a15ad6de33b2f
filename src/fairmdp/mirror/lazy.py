# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""Stochastic mirror descent in O(log pairs) per step: the same algorithm as `kernels.dense_run`, lazily.

A step changes one weight, one or two entries of lam, and *all* of x through the projection. Here the
projection is never carried out on untouched blocks. A *block* is a unit of `kernels`: a set of pairs
with one quota ``rho >= 0``. Everything below is exact (tests replay the draws from the definition).

**Frame.** Block b holds ``nu_b = W_b / Wtot`` and its pair p holds ``x_p = nu_b w_p / ws_b``. The KL
projection scales every block by one c unless its quota binds, so c only moves Wtot. Write
``kappa_b = W_b / rho_b`` (the *key*); quotas hold exactly when every key is at least Wtot. If, after a
change, some keys are below the total, pin them in ascending order::

    kp = (mass not pinned) / (1 - rho pinned),   pin while the smallest key < kp

then pinned blocks get ``W = rho kp`` and Wtot is kp again. The projection acts on x_t, so a raised key
stays where it was left: for an untouched block ``kappa(t) = max(kappa(t0), max_{t0<u<=t} Wtot(u))``.

**Pools.** Blocks pinned together share one key from then on: they live in a pool (key, R = sum of rho,
count). A new pool is pinned at Wtot, below every other key, so the pools form a stack sorted by key.
Pools met on the way up are merged, smaller under larger, by a union-find with offsets. A touched
member leaves: R and count fall, and nothing in the forest changes.

**Heap.** Free blocks with key below ``Wmax = phi Wtot(epoch start)`` are candidates for pinning: a binary
heap of (key, block) with lazy deletion (an entry is live iff the block is free and has that very key).

**Trees.** Two sum trees (`trees`) over the blocks (free: W; pooled: rho) sample b ~ nu. A large block carries
a tree of its own over its weights; small blocks are scanned.

**Averages.** With ``SC = sum of 1/Wtot`` over iterates, a free block's share of time since its mark is
``W (SC - mark)``, a pooled one's ``rho (Q - mark)`` with ``Q = integral of key d SC`` kept by the pool. A
block accumulates ``A = sum nu/ws``; a pair ``acc += w (A - seen)`` when it is touched.

**Epochs.** Every max(L, 512) steps, and whenever the numbers could go bad (Wtot leaves [1/16, Wmax]; the
free mass F halves, so that subtractions cancel; a quota block sinks below DEEP; a table is full), all is
flushed, summed anew and projected from scratch in O(L).

**Deep numbers** as in `primitives`: below 1e-150 a weight is kept as its logarithm.

**Order of a step.** Uniform pairs do not depend on the state: they are drawn three steps ahead and their
cache lines prefetched stage by stage. The lam update of a step is applied at the start of the next one,
when its line has arrived.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from fairmdp.chains.prefetch import prefetch
from fairmdp.mirror.primitives import (
    DEEP,
    DRAWS_PER_STEP,
    F8,
    I4,
    I8,
    OPTIONS,
    U8,
    alias_entry,
    alias_state,
    mix,
    rescale,
    shifted,
    unit,
)
from fairmdp.mirror.trees import heap_pop, heap_push, leaf_base, tree_add, tree_build, tree_find

INF = np.inf

# columns; the int ones are read through the int64 view of the same memory
W, WS, A, MARK, RHO, NODE, START, TREE = range(8)  # blk
ACC, SEEN, REWARD, HOME = range(4)  # pair; HOME = block << 32 | alias row
LAM, LSUM, LAST = range(3)  # lam
KEY, R, Q, SCQ, OFF, PARENT, COUNT = range(7)  # pool
WTOT, F, FREF, SC, WMAX, PHI, RPIN = range(7)  # scal
T, CLOCK, NHEAP, DEPTH, NSPARE, AGE, EPOCH, REBUILDS, FILLS, FROZEN = range(10)  # cnt


class Lazy(NamedTuple):
    """State of a lazy run; fields ending in ``_i`` are integer views of the field before."""

    blk: F8  # (B+1, 8) one cache line per block; the last row only ends the ranges
    blk_i: I8
    w: F8  # (L,)
    pair: F8  # (L+1, 4)
    pair_i: I8
    s_of: I4  # (L,)
    alias: F8  # (nnz, 2)
    alias_i: I4
    lam: F8  # (S, 4)
    free_tree: F8
    pin_tree: F8
    row_tree: F8  # trees of the large blocks, one after the other
    scratch: F8
    pool: F8  # (cap, 8)
    pool_i: I8
    stack: I4  # (cap,) pools by falling key
    spare: I4  # (cap,) unused pools
    heap_key: F8
    heap_id: I4
    scal: F8
    cnt: I8
    key: U8  # (2,)


# The arrays that a run changes: copied out they are a checkpoint, copied back (``[...] =``) they resume it.
LAZY_STATE = (
    "blk", "w", "pair", "lam", "free_tree", "pin_tree", "row_tree",
    "pool", "stack", "spare", "heap_key", "heap_id", "scal", "cnt", "key",
)  # fmt: skip


# --- pools ------------------------------------------------------------------------------------------


@njit(**OPTIONS, forceinline=True)
def pool_walk(pool: F8, pool_i: I8, k: int) -> tuple[int, float]:
    """Root of pool k and the sum of offsets on the way."""
    off = 0.0
    while pool_i[k, PARENT] != k:
        off += pool[k, OFF]
        k = pool_i[k, PARENT]
    return k, off


@njit(**OPTIONS)
def pool_root(pool: F8, pool_i: I8, k: int) -> tuple[int, float]:
    """As `pool_walk`, compressing the path."""
    root, off = pool_walk(pool, pool_i, k)
    rest = off
    while k != root:
        up, step = pool_i[k, PARENT], pool[k, OFF]
        pool_i[k, PARENT], pool[k, OFF] = root, rest
        rest -= step
        k = up
    return root, off


@njit(**OPTIONS)
def pool_merge(pool: F8, pool_i: I8, a: int, b: int) -> int:
    """Hang the smaller of two flushed roots under the larger; returns the larger."""
    if pool_i[a, COUNT] < pool_i[b, COUNT]:
        a, b = b, a
    pool_i[b, PARENT] = a
    pool[b, OFF] = pool[b, Q] - pool[a, Q]
    pool_i[a, COUNT] += pool_i[b, COUNT]
    return a


@njit(**OPTIONS)
def stack_mass(pool: F8, stack: I4, depth: int) -> float:
    """Mass of all pools."""
    mass = 0.0
    for k in range(depth):
        mass += pool[stack[k], KEY] * pool[stack[k], R]
    return mass


@njit(**OPTIONS)
def water_fill(
    blk: F8, blk_i: I8, pool: F8, pool_i: I8, stack: I4, spare: I4, heap_key: F8, heap_id: I4,
    free_tree: F8, pin_tree: F8, base: int, scal: F8, cnt: I8,
) -> None:  # fmt: skip
    """Pin pools and free blocks in ascending key; sets WTOT, or INF where only a rebuild can decide.

    On giving up the new pool's key is the last key popped: below the final kp, so that the rebuild,
    which starts from it, pins the same blocks.
    """
    depth, n_heap = cnt[DEPTH], cnt[NHEAP]
    rest = stack_mass(pool, stack, depth)  # pools still on the stack
    pinned, new, popped = 0.0, -1, 0.0
    kp = scal[F] + rest
    sc = scal[SC]
    while True:
        while n_heap > 0:  # drop dead entries
            b = int(heap_id[0])
            if blk_i[b, NODE] < 0 and blk[b, W] / blk[b, RHO] == heap_key[0]:
                break
            heap_pop(heap_key, heap_id, n_heap)
            n_heap -= 1
        hk = heap_key[0] if n_heap > 0 else INF
        pk = pool[stack[depth - 1], KEY] if depth > 0 else INF
        if min(hk, pk) >= kp:
            break
        popped = min(hk, pk)
        if pk <= hk:
            depth -= 1
            k = int(stack[depth])
            if pool_i[k, COUNT] == 0:  # everybody left
                spare[cnt[NSPARE]] = k
                cnt[NSPARE] += 1
            else:
                pool[k, Q] += pk * (sc - pool[k, SCQ])
                pinned += pool[k, R]
                new = k if new < 0 else pool_merge(pool, pool_i, new, k)
            rest = stack_mass(pool, stack, depth)
        else:
            heap_pop(heap_key, heap_id, n_heap)
            n_heap -= 1
            if new < 0:
                cnt[NSPARE] -= 1
                new = int(spare[cnt[NSPARE]])
                pool_i[new, PARENT], pool_i[new, COUNT] = new, 0
                pool[new, Q] = 0.0
            mass, rho = blk[b, W], blk[b, RHO]
            blk[b, A] += mass * (sc - blk[b, MARK]) / blk[b, WS]
            blk[b, MARK] = pool[new, Q]
            blk_i[b, NODE] = new
            pool_i[new, COUNT] += 1
            pinned += rho
            scal[RPIN] += rho
            scal[F] -= mass
            tree_add(free_tree, 0, base, b, -mass)
            tree_add(pin_tree, 0, base, b, rho)
        kp = (scal[F] + rest) / (1.0 - pinned)
    good = kp <= scal[WMAX] and scal[F] >= 0.5 * scal[FREF]
    if new >= 0:
        pool[new, KEY] = kp if good else popped
        pool[new, R], pool[new, SCQ] = pinned, sc
        stack[depth] = new
        depth += 1
    scal[WTOT] = kp if good else INF
    cnt[DEPTH], cnt[NHEAP] = depth, n_heap
    cnt[FILLS] += 1


# --- epochs -----------------------------------------------------------------------------------------


@njit(**OPTIONS)
def block_integral(blk: F8, blk_i: I8, pool: F8, pool_i: I8, b: int, sc: float) -> float:
    """Sum of nu_b over the iterates since its mark."""
    k = blk_i[b, NODE]
    if k < 0:
        return free_integral(blk, b, sc)
    root, off = pool_root(pool, pool_i, k)
    return pooled_integral(blk, pool, b, root, off, sc)


@njit(**OPTIONS, forceinline=True)
def free_integral(blk: F8, b: int, sc: float) -> float:
    """`block_integral` of a free block."""
    return max(blk[b, W], 0.0) * (sc - blk[b, MARK])


@njit(**OPTIONS, forceinline=True)
def pooled_integral(blk: F8, pool: F8, b: int, root: int, off: float, sc: float) -> float:
    """`block_integral` of a block in a pool."""
    q = pool[root, Q] + pool[root, KEY] * (sc - pool[root, SCQ])
    return blk[b, RHO] * (q + off - blk[b, MARK])


@njit(**OPTIONS)
def flush_blocks(m: Lazy) -> None:
    """Bring W, A, acc and ws of every block up to date; pooled blocks point at their root."""
    for b in range(m.blk.shape[0] - 1):
        a = m.blk[b, A] + block_integral(m.blk, m.blk_i, m.pool, m.pool_i, b, m.scal[SC]) / m.blk[b, WS]
        if m.blk_i[b, NODE] >= 0:
            root, _ = pool_root(m.pool, m.pool_i, m.blk_i[b, NODE])
            m.blk_i[b, NODE] = root
            m.blk[b, W] = m.blk[b, RHO] * m.pool[root, KEY]
        flush_row(m.blk, m.blk_i, m.w, m.pair, b, a)
        row_sum(m.blk, m.blk_i, m.w, m.row_tree, m.scratch, b)


@njit(**OPTIONS)
def flush_row(blk: F8, blk_i: I8, w: F8, pair: F8, b: int, a: float) -> None:
    """Settle the pairs of block b at A = a and restart A at zero."""
    for p in range(blk_i[b, START], blk_i[b + 1, START]):
        pair[p, ACC] += max(w[p], 0.0) * (a - pair[p, SEEN])
        pair[p, SEEN] = 0.0
    blk[b, A] = 0.0


@njit(**OPTIONS)
def row_sum(blk: F8, blk_i: I8, w: F8, row_tree: F8, scratch: F8, b: int) -> None:
    """Sum the weights of block b anew, and its tree if it has one."""
    a, n = blk_i[b, START], blk_i[b + 1, START] - blk_i[b, START]
    total = 0.0
    for p in range(a, a + n):
        total += max(w[p], 0.0)
    blk[b, WS] = total
    if blk_i[b, TREE] >= 0:
        base = leaf_base(n)
        for k in range(n):
            scratch[base + k] = max(w[a + k], 0.0)
        tree_build(row_tree, blk_i[b, TREE], base, n, scratch)


@njit(**OPTIONS)
def lift(m: Lazy) -> None:
    """If all mass has sunk, divide W by its maximum in logarithms; pools dissolve."""
    B = m.blk.shape[0] - 1
    top = -INF
    for b in range(B):
        v = m.blk[b, W]
        top = max(top, np.log(v) if v > 0.0 else v)
    if top > -230.0:
        return
    for b in range(B):
        m.blk[b, W] = shifted(m.blk[b, W], top)
        m.blk_i[b, NODE] = -1
    m.cnt[DEPTH] = 0


@njit(**OPTIONS)
def threshold(m: Lazy) -> float:
    """The kp with ``sum max(W, rho kp) == kp``, from scratch: the pinned set grows until it is right."""
    B = m.blk.shape[0] - 1
    kp = 0.0
    for b in range(B):
        kp += max(m.blk[b, W], 0.0)
    pinned_before = 0.0
    while not m.cnt[FROZEN]:
        loose, pinned = 0.0, 0.0
        for b in range(B):
            if below(m.blk, m.blk_i, m.pool, b, kp):
                pinned += m.blk[b, RHO]
            else:
                loose += max(m.blk[b, W], 0.0)
        higher = loose / (1.0 - pinned)
        if pinned <= pinned_before or higher <= kp:  # rounding must not turn it round
            break
        kp, pinned_before = higher, pinned
    return kp


@njit(**OPTIONS, forceinline=True)
def below(blk: F8, blk_i: I8, pool: F8, b: int, kp: float) -> bool:
    """Whether the key of block b is less than kp; members of a pool agree to the bit."""
    k = blk_i[b, NODE]
    return pool[k, KEY] < kp if k >= 0 else blk[b, RHO] > 0.0 and blk[b, W] < blk[b, RHO] * kp


@njit(**OPTIONS)
def rebuild(m: Lazy) -> None:
    """Flush, project from scratch, and set up pools, heap and trees at Wtot = 1."""
    blk, blk_i, pool, pool_i, stack, spare, scal, cnt = (
        m.blk, m.blk_i, m.pool, m.pool_i, m.stack, m.spare, m.scal, m.cnt,
    )  # fmt: skip
    B = blk.shape[0] - 1
    flush_blocks(m)
    lift(m)
    kp = threshold(m)
    scal[PHI] = next_phi(scal[PHI], cnt[AGE], cnt[EPOCH], B)

    # pools from kp to 1.5 kp stay, those below join the new one, the others dissolve
    pool_i[:, COUNT] = -1
    depth = 0
    for k in range(cnt[DEPTH]):
        q = stack[k]
        if kp <= pool[q, KEY] < 1.5 * kp:
            stack[depth] = q
            depth += 1
            pool_i[q, COUNT] = 0
            pool[q, KEY] /= kp
    n_spare = 0
    for k in range(pool.shape[0]):
        if pool_i[k, COUNT] < 0:
            spare[n_spare] = k
            n_spare += 1
        pool_i[k, PARENT] = k
        pool[k, R], pool[k, Q], pool[k, SCQ] = 0.0, 0.0, 0.0
    n_spare -= 1
    new = int(spare[n_spare])
    # blocks look up their old pool's key below: only kept pools were rescaled
    n_heap, free, pinned = 0, 0.0, 0.0
    log_kp = np.log(kp)
    for b in range(B):
        rho, k = blk[b, RHO], blk_i[b, NODE]
        blk[b, MARK] = 0.0
        kept = k >= 0 and pool_i[k, COUNT] >= 0 and k != new
        if not kept:
            k = new if below(blk, blk_i, pool, b, kp) and not cnt[FROZEN] else -1
        blk_i[b, NODE] = k
        if k >= 0:
            pool_i[k, COUNT] = max(pool_i[k, COUNT], 0) + 1
            pool[k, R] += rho
            pinned += rho
            continue
        v = blk[b, W]
        blk[b, W] = v / kp if v / kp >= DEEP else (np.log(v) if v > 0.0 else v) - log_kp
        free += max(blk[b, W], 0.0)
        if rho > 0.0 and blk[b, W] < rho * scal[PHI] and not cnt[FROZEN]:
            heap_push(m.heap_key, m.heap_id, n_heap, blk[b, W] / rho, b)
            n_heap += 1
    kept_depth = depth
    depth = 0
    for k in range(kept_depth):  # pools that everybody left
        if pool_i[stack[k], COUNT] > 0:
            stack[depth] = stack[k]
            depth += 1
        else:
            spare[n_spare] = stack[k]
            n_spare += 1
    if pool_i[new, COUNT] > 0:
        pool[new, KEY] = 1.0
        stack[depth] = new
        depth += 1
    else:
        spare[n_spare] = new
        n_spare += 1
    build_block_trees(m)
    scal[F], scal[FREF], scal[RPIN] = free, free, pinned
    scal[WTOT] = free + stack_mass(pool, stack, depth)
    scal[SC], scal[WMAX] = 0.0, scal[PHI]
    cnt[NHEAP], cnt[DEPTH], cnt[NSPARE], cnt[AGE] = n_heap, depth, n_spare, 0
    cnt[REBUILDS] += 1


@njit(**OPTIONS)
def next_phi(phi: float, age: int, epoch: int, B: int) -> float:
    """Room above Wtot in the heap: less after a full epoch, more after one that ended early."""
    if age >= epoch:
        return 1.0 + max(0.7 * (phi - 1.0), 0.02)
    if 2 * age < B:
        return min(1.0 + 2.0 * (phi - 1.0), 16.0)
    return phi


@njit(**OPTIONS)
def build_block_trees(m: Lazy) -> None:
    """Sampling trees of the free and of the pooled blocks."""
    B = m.blk.shape[0] - 1
    base = leaf_base(B)
    for b in range(B):
        m.scratch[base + b] = max(m.blk[b, W], 0.0) if m.blk_i[b, NODE] < 0 else 0.0
    tree_build(m.free_tree, 0, base, B, m.scratch)
    for b in range(B):
        m.scratch[base + b] = 0.0 if m.blk_i[b, NODE] < 0 else m.blk[b, RHO]
    tree_build(m.pin_tree, 0, base, B, m.scratch)


# --- the run ----------------------------------------------------------------------------------------


@njit(**OPTIONS)
def slow_row(blk: F8, blk_i: I8, w: F8, pair: F8, row_tree: F8, scratch: F8, b: int, old: float) -> float:
    """Rescale the weights of block b by their maximum; returns log(new sum / old sum) before rescaling."""
    flush_row(blk, blk_i, w, pair, b, blk[b, A])
    top = rescale(w, blk_i[b, START], blk_i[b + 1, START])
    row_sum(blk, blk_i, w, row_tree, scratch, b)
    return top + np.log(blk[b, WS]) - np.log(old)


@njit(**OPTIONS, forceinline=True)
def add_lam(lam: F8, s: int, d: float, t: int, lam_max: float) -> None:
    """``lam[s] += d``, clipped, once the old value has been summed over the first t iterates."""
    lam[s, LSUM] += lam[s, LAM] * (t - lam[s, LAST])
    lam[s, LAST] = t
    lam[s, LAM] = min(max(lam[s, LAM] + d, -lam_max), lam_max)


@njit(**OPTIONS)
def pick_in_tree(blk_i: I8, w: F8, row_tree: F8, b: int, ws: float, bits: np.uint64, odd: np.uint64) -> int:
    """Pair of a large block by weight."""
    a, n = blk_i[b, START], blk_i[b + 1, START] - blk_i[b, START]
    base = leaf_base(n)
    while True:
        k = tree_find(row_tree, blk_i[b, TREE], base, n, unit(bits) * ws)
        if k >= 0 and w[a + k] > 0.0:
            return a + k
        bits = mix(bits + odd)


@njit(**OPTIONS)
def lazy_run(m: Lazy, steps: int, eta_x: float, eta_lam: float, lam_max: float, draws: I8) -> None:
    """``steps`` steps, in place; a run cut into chunks is the same run to the bit.

    ``draws`` (steps, 4) receives ``(j, s'', i, s')``, pairs by position; (0, 4) records nothing. The caller
    sees to ``eta_x L (2 lam_max + |r|) <= 300``, so that no single factor underflows.
    """
    blk, blk_i, w, pair, pair_i, s_of = m.blk, m.blk_i, m.w, m.pair, m.pair_i, m.s_of
    alias, alias_i, lam = m.alias, m.alias_i, m.lam
    free_tree, pin_tree, row_tree = m.free_tree, m.pin_tree, m.row_tree
    pool, pool_i, stack = m.pool, m.pool_i, m.stack
    heap_key, heap_id, scal, cnt = m.heap_key, m.heap_id, m.scal, m.cnt
    L, B = w.size, blk.shape[0] - 1
    base = leaf_base(B)
    gain = eta_x * L
    record = draws.shape[0] > 0
    frozen, epoch = cnt[FROZEN] != 0, cnt[EPOCH]
    k0, odd = m.key[0], m.key[1]
    low32 = 0xFFFFFFFF
    wtot, free, fref, sc, wmax, rpin = scal[WTOT], scal[F], scal[FREF], scal[SC], scal[WMAX], scal[RPIN]
    t = cnt[T]
    n = np.uint64(cnt[CLOCK])
    stride = np.uint64(DRAWS_PER_STEP)

    # fill the pipeline: i0 with its successor, i1 with its alias entry, i2
    i0 = int(unit(mix(k0 + n * odd)) * L)
    e1, f1 = alias_entry(
        pair_i[i0, HOME] & low32, pair_i[i0 + 1, HOME] & low32, unit(mix(k0 + (n + np.uint64(1)) * odd))
    )
    s0 = alias_state(alias, alias_i, e1, f1)
    n1 = n + stride
    i1 = int(unit(mix(k0 + n1 * odd)) * L)
    e1, f1 = alias_entry(
        pair_i[i1, HOME] & low32, pair_i[i1 + 1, HOME] & low32, unit(mix(k0 + (n1 + np.uint64(1)) * odd))
    )
    n2 = n1 + stride
    i2 = int(unit(mix(k0 + n2 * odd)) * L)
    from_s, to_s = 0, 0  # pending lam update

    for step in range(steps):
        # 1. pipeline: draw the pair of t+3, the alias entry of t+2, the successor of t+1
        n3 = n + np.uint64(3) * stride
        i3 = int(unit(mix(k0 + n3 * odd)) * L)
        prefetch(pair, i3)
        prefetch(s_of, i3)
        prefetch(w, i3)
        n2 = n + np.uint64(2) * stride + np.uint64(1)
        e2, f2 = alias_entry(pair_i[i2, HOME] & low32, pair_i[i2 + 1, HOME] & low32, unit(mix(k0 + n2 * odd)))
        prefetch(alias, e2)
        prefetch(blk, pair_i[i2, HOME] >> 32)
        prefetch(lam, int(s_of[i2]))
        s1 = alias_state(alias, alias_i, e1, f1)
        prefetch(lam, s1)

        # 2. block of the lambda-gradient: free by W, pooled by rho and a rejection on the pool's key
        depth = cnt[DEPTH]
        khi = pool[stack[0], KEY] if depth > 0 else 0.0
        bits = mix(k0 + (n + np.uint64(2)) * odd)
        while True:
            v = unit(bits) * (free + khi * rpin)
            if v < free or khi == 0.0:
                c = tree_find(free_tree, 0, base, B, v)
                if c >= 0 and blk_i[c, NODE] < 0 and blk[c, W] > 0.0:
                    break
            else:
                c = tree_find(pin_tree, 0, base, B, (v - free) / khi)
                if c >= 0 and blk_i[c, NODE] >= 0:
                    if depth == 1:
                        break
                    root, _ = pool_root(pool, pool_i, blk_i[c, NODE])
                    bits = mix(bits + odd)
                    if unit(bits) * khi < pool[root, KEY]:
                        break
            bits = mix(bits + odd)
        first = blk_i[c, START]
        prefetch(w, first)
        prefetch(pair, first)
        prefetch(pair, first + 2)
        prefetch(pair, first + 4)
        prefetch(s_of, first)

        # 3. lam of the previous step, now that its lines are here
        if from_s != to_s:
            add_lam(lam, from_s, -eta_lam, t - 1, lam_max)
            add_lam(lam, to_s, eta_lam, t - 1, lam_max)
        t += 1

        # 4. x-gradient
        d = gain * (lam[s0, LAM] - lam[s_of[i0], LAM] - pair[i0, REWARD])

        # 5. pair of the lambda-gradient, before any weight changes
        bits = mix(k0 + (n + np.uint64(3)) * odd)
        if blk_i[c, TREE] < 0:
            v, total, j = unit(bits) * blk[c, WS], 0.0, first
            for p in range(first, blk_i[c + 1, START]):
                if w[p] > 0.0:
                    j = p
                    total += w[p]
                    if total > v:
                        break
        else:
            j = pick_in_tree(blk_i, w, row_tree, c, blk[c, WS], bits, odd)
        e, fraction = alias_entry(
            pair_i[j, HOME] & low32, pair_i[j + 1, HOME] & low32, unit(mix(k0 + (n + np.uint64(4)) * odd))
        )
        prefetch(alias, e)

        # 6. touch (b, i0): settle its averages, take it out of its pool, tilt
        b = pair_i[i0, HOME] >> 32
        rho, ws = blk[b, RHO], blk[b, WS]
        k = blk_i[b, NODE]
        if k >= 0:
            blk[b, A] += block_integral(blk, blk_i, pool, pool_i, b, sc) / ws
            root, _ = pool_root(pool, pool_i, k)
            mass, in_tree = rho * pool[root, KEY], 0.0
            pool_i[root, COUNT] -= 1
            pool[root, R] = pool[root, R] - rho if pool_i[root, COUNT] > 0 else 0.0
            rpin -= rho
            tree_add(pin_tree, 0, base, b, -rho)
            blk_i[b, NODE] = -1
        else:
            mass = blk[b, W]
            in_tree = max(mass, 0.0)
            blk[b, A] += in_tree * (sc - blk[b, MARK]) / ws
        blk[b, MARK] = sc
        before = max(w[i0], 0.0)
        pair[i0, ACC] += before * (blk[b, A] - pair[i0, SEEN])
        pair[i0, SEEN] = blk[b, A]
        after = before * np.exp(-d)
        if after >= DEEP:
            w[i0] = after
        else:
            w[i0] = shifted(w[i0], d)
            after = max(w[i0], 0.0)
        ws_new = ws + (after - before)
        if ws_new > 0.5 * ws and 0.0625 < ws_new < 16.0 * (blk_i[b + 1, START] - blk_i[b, START]):
            blk[b, WS] = ws_new
            ratio = ws_new / ws
            new = mass * ratio
            if not frozen and (mass <= 0.0 or new < DEEP):
                new = shifted(mass, -np.log(ratio))
            if blk_i[b, TREE] >= 0:
                tree_add(
                    row_tree, blk_i[b, TREE], leaf_base(blk_i[b + 1, START] - blk_i[b, START]),
                    i0 - blk_i[b, START], after - before,
                )  # fmt: skip
        else:  # cancelled or far from one
            new = shifted(mass, -slow_row(blk, blk_i, w, pair, row_tree, m.scratch, b, ws))

        # 7. threshold
        again = cnt[NSPARE] < 1
        if not frozen:
            blk[b, W] = new
            linear = max(new, 0.0)
            free += linear - in_tree
            tree_add(free_tree, 0, base, b, linear - in_tree)
            if rho > 0.0 and new < rho * wmax:
                if new <= 0.0 or cnt[NHEAP] >= heap_key.size:
                    again = True
                else:
                    heap_push(heap_key, heap_id, cnt[NHEAP], new / rho, b)
                    cnt[NHEAP] += 1
            again = again or free < 0.5 * fref
            if not again:
                total = free + stack_mass(pool, stack, depth)
                top = int(stack[depth - 1]) if depth > 0 else 0
                pk = pool[top, KEY] if depth > 0 else INF
                hk = heap_key[0] if cnt[NHEAP] > 0 else INF
                kp = free / (1.0 - pool[top, R])
                if pk >= total and hk >= total:
                    wtot = total
                elif depth == 1 and pk < total and hk >= kp and pool_i[top, COUNT] > 0:  # the pool alone
                    pool[top, Q] += pk * (sc - pool[top, SCQ])
                    pool[top, SCQ] = sc
                    pool[top, KEY] = kp
                    wtot = kp
                else:
                    scal[F], scal[SC], scal[RPIN], scal[FREF] = free, sc, rpin, fref
                    water_fill(
                        blk, blk_i, pool, pool_i, stack, m.spare, heap_key, heap_id,
                        free_tree, pin_tree, base, scal, cnt,
                    )  # fmt: skip
                    wtot, free, rpin = scal[WTOT], scal[F], scal[RPIN]
                again = not 0.0625 <= wtot <= wmax
        cnt[AGE] += 1
        if again or cnt[AGE] >= epoch:
            scal[SC] = sc
            rebuild(m)
            wtot, free, sc, wmax, rpin = scal[WTOT], scal[F], scal[SC], scal[WMAX], scal[RPIN]
            fref = free
        fref = max(fref, free)
        sc += 1.0 / wtot  # the new iterate enters the averages

        # 8. successor of j: the pending lam update
        from_s, to_s = int(s_of[j]), alias_state(alias, alias_i, e, fraction)
        prefetch(lam, from_s)
        prefetch(lam, to_s)
        if record:
            draws[step, 0], draws[step, 1], draws[step, 2], draws[step, 3] = j, to_s, i0, s0
        n += stride
        i0, s0, i1, e1, f1, i2 = i1, s1, i2, e2, f2, i3

    if from_s != to_s:
        add_lam(lam, from_s, -eta_lam, t - 1, lam_max)
        add_lam(lam, to_s, eta_lam, t - 1, lam_max)
    scal[WTOT], scal[F], scal[FREF], scal[SC], scal[RPIN] = wtot, free, fref, sc, rpin
    cnt[T] = t
    cnt[CLOCK] = int(n)


@njit(**OPTIONS)
def lazy_read(m: Lazy, order: I8, x: F8, x_sum: F8, lam: F8, lam_sum: F8) -> None:
    """Current x and lam and the sums of iterates so far, in pair order; leaves the run as it is."""
    for b in range(m.blk.shape[0] - 1):
        if m.blk_i[b, NODE] < 0:
            mass = max(m.blk[b, W], 0.0)
            share = free_integral(m.blk, b, m.scal[SC])
        else:  # no path compression: reading must not change rounding
            root, off = pool_walk(m.pool, m.pool_i, m.blk_i[b, NODE])
            mass = m.blk[b, RHO] * m.pool[root, KEY]
            share = pooled_integral(m.blk, m.pool, b, root, off, m.scal[SC])
        a = m.blk[b, A] + share / m.blk[b, WS]
        coef = mass / (m.scal[WTOT] * m.blk[b, WS])
        for p in range(m.blk_i[b, START], m.blk_i[b + 1, START]):
            v = max(m.w[p], 0.0)
            x[order[p]] = coef * v
            x_sum[order[p]] = m.pair[p, ACC] + v * (a - m.pair[p, SEEN])
    for s in range(lam.size):
        lam[s] = m.lam[s, LAM]
        lam_sum[s] = m.lam[s, LSUM] + m.lam[s, LAM] * (m.cnt[T] - m.lam[s, LAST])
