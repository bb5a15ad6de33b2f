"""A hint to the memory: a sweep over a large chain gathers from all over a vector, and waits for each entry.

Asked for a few entries ahead, they arrive together: a block sweep over a million states takes less than half
the time. Where the vector fits into the cache the hint would be a loss.
"""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

AHEAD = 24
"""How many entries ahead of its use to ask for one."""

NEAR = 1 << 17
"""Number of entries that are near anyway."""


def prefetch(array: Any, i: int) -> None:
    """Ask for the cache line of ``array[i]``, or of a row's first entry; does nothing uncompiled."""


def row_pointer(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Address of ``array[i]`` (its first element if two-dimensional), without wrap-around."""
    ary = context.make_array(sig.args[0])(context, builder, args[0])
    zero = context.get_constant(types.intp, 0)
    inds = [args[1]] + [zero] * (sig.args[0].ndim - 1)
    return cgutils.get_item_pointer(context, builder, sig.args[0], ary, inds, wraparound=False)


@intrinsic
def _hint(typingctx: Any, array: Any, i: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = builder.bitcast(row_pointer(context, builder, sig, args), cgutils.voidptr_t)
        i32 = ir.IntType(32)
        fnty = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32])
        fn = cgutils.get_or_insert_function(builder.module, fnty, "llvm.prefetch.p0")
        builder.call(fn, [pointer, i32(0), i32(3), i32(1)])  # to read, to keep, data
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@overload(prefetch)
def _compiled(array: Any, i: Any) -> Any:
    def hint(array: Any, i: Any) -> Any:
        return _hint(array, i)  # type: ignore[call-arg]

    return hint
