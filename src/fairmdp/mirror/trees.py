# mypy: disable-error-code="untyped-decorator,no-any-return,call-arg"
# (numba's decorators carry no types: the signatures below are checked, what a decorator
# returns cannot be, and an intrinsic's typing argument is not the caller's)
"""Sum trees to sample from changing weights in O(log n), and a heap of keys: what `lazy` is made of.

A tree over n leaves has fan-out 16; a node is 16 exclusive prefix sums = two cache lines; the children of
node k are ``16 k + 1 ..``. Several trees may stand one after the other in one array, each from a ``root`` on.

The loops of `lazy` compile these functions into themselves, and numba's disk cache does not notice a change
here: as those of `primitives` they are settled.
"""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from fairmdp.chains.prefetch import row_pointer
from fairmdp.mirror.primitives import F8, I4, OPTIONS

FAN = 16


def plain_leaf_base(n: int) -> int:
    """Number of the first leaf of a tree over n leaves: 1 + 16 + .. + 16^(depth-1)."""
    base, width = 1, FAN
    while width < n:
        base, width = base + width, width * FAN
    return base


leaf_base = njit(**OPTIONS, forceinline=True)(plain_leaf_base)


def tree_nodes(n: int) -> int:
    """Inner nodes that a tree over n leaves can reach."""
    return (plain_leaf_base(n) - 1) // FAN + -(-n // FAN)


# --- intrinsics -------------------------------------------------------------------------------------


_V16 = ir.VectorType(ir.DoubleType(), FAN)
_I16 = ir.IntType(32)


def _splat(builder: Any, value: Any, vector: Any) -> Any:
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, _I16(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_I16, FAN), [0] * FAN))


@intrinsic
def node_child(typingctx: Any, tree: Any, node: Any, v: Any) -> Any:
    """Number of the 16 prefix sums of a node that are <= v: one vector compare and a bit count."""
    sig = types.int64(tree, types.intp, types.float64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = builder.bitcast(row_pointer(context, builder, sig, args), _V16.as_pointer())
        prefix = builder.load(pointer, align=8, typ=_V16)
        hit = builder.fcmp_ordered("<=", prefix, _splat(builder, args[2], _V16))
        mask = builder.bitcast(hit, ir.IntType(FAN))
        return builder.zext(builder.ctpop(mask), ir.IntType(64))

    return sig, codegen


@intrinsic
def node_add(typingctx: Any, tree: Any, node: Any, child: Any, d: Any) -> Any:
    """Add d to the prefix sums after ``child``: one masked vector add."""
    sig = types.void(tree, types.intp, types.int64, types.float64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = builder.bitcast(row_pointer(context, builder, sig, args), _V16.as_pointer())
        lane = ir.VectorType(ir.IntType(64), FAN)
        after = builder.icmp_signed(">", ir.Constant(lane, list(range(FAN))), _splat(builder, args[2], lane))
        zero = ir.Constant(_V16, [0.0] * FAN)
        step = builder.select(after, _splat(builder, args[3], _V16), zero)
        total = builder.fadd(builder.load(pointer, align=8, typ=_V16), step)
        builder.store(total, pointer, align=8)
        return context.get_dummy_value()

    return sig, codegen


# --- sum trees --------------------------------------------------------------------------------------


@njit(**OPTIONS, forceinline=True)
def tree_find(tree: F8, root: int, base: int, n: int, v: float) -> int:
    """Leaf whose interval of cumulated weight holds v; -1 if rounding led outside."""
    node, inner = 0, (base - 1) // FAN + (n + FAN - 1) // FAN
    while node < base:
        if node >= inner:
            return -1
        c = max(node_child(tree, root + node, v) - 1, 0)
        v -= tree[root + node, c]
        node = node * FAN + 1 + c
    return node - base if node - base < n else -1


@njit(**OPTIONS, forceinline=True)
def tree_add(tree: F8, root: int, base: int, leaf: int, d: float) -> None:
    """Add d to the weight of a leaf."""
    node = base + leaf
    while node > 0:
        c = (node - 1) & (FAN - 1)
        node = (node - 1) >> 4
        node_add(tree, root + node, c, d)


@njit(**OPTIONS)
def tree_build(tree: F8, root: int, base: int, n: int, total: F8) -> None:
    """Prefix sums from the leaf weights ``total[base:base+n]``; overwrites ``total[:base]``."""
    inner = (base - 1) // FAN + (n + FAN - 1) // FAN
    total[inner:base] = 0.0
    for node in range(inner - 1, -1, -1):
        so_far = 0.0
        for c in range(FAN):
            tree[root + node, c] = so_far
            child = node * FAN + 1 + c
            if child < base + n:
                so_far += total[child]
        total[node] = so_far


# --- heap of candidates -----------------------------------------------------------------------------


@njit(**OPTIONS)
def heap_push(keys: F8, ids: I4, n: int, key: float, b: int) -> None:
    """Insert into a binary heap of n entries."""
    k = n
    while k > 0 and keys[(k - 1) >> 1] > key:
        keys[k], ids[k] = keys[(k - 1) >> 1], ids[(k - 1) >> 1]
        k = (k - 1) >> 1
    keys[k], ids[k] = key, b


@njit(**OPTIONS)
def heap_pop(keys: F8, ids: I4, n: int) -> None:
    """Remove the smallest of n entries."""
    last = n - 1
    key, b = keys[last], ids[last]
    k = 0
    while 2 * k + 1 < last:
        c = 2 * k + 1
        if c + 1 < last and keys[c + 1] < keys[c]:
            c += 1
        if keys[c] >= key:
            break
        keys[k], ids[k] = keys[c], ids[c]
        k = c
    keys[k], ids[k] = key, b
