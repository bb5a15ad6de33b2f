"""Kernels without the compiler (NUMBA_DISABLE_JIT=1), as coverage and debuggers need them: slow, and the same.

numba runs an intrinsic in compiled code only; these are the two of the sum trees in Python.
"""

from fairmdp.mirror import trees


def install():
    trees.node_child = lambda tree, node, v: int((tree[node] <= v).sum())
    trees.node_add = _node_add


def _node_add(tree, node, child, d):
    tree[node, child + 1 :] += d
