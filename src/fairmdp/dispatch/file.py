"""Policies of worlds as npz: tables and accounts, so that a policy goes on where it was, without a solver.

Of a policy of N clients with J sides of local quotas, K resources and G sides of group quotas; ``.b`` stands
for the number of a pattern of n clients in B rows with S states, SA pairs and L layers of groups.

====================================  =======  ==================  ===========================================
member                                type     size                content
====================================  =======  ==================  ===========================================
fairmdp_dispatch                      int      1                   version of the format
kind                                  uint8    any                 see `dispatch_policy`
numbers                               float    3                   window, margin, reserve
capacity                              float    K
group_owed, group_size                float    G
group_unit, group_prices              float    G
account, column, group_account        f, i, f  N J, N, G           what the policy remembers
size.b                                int      8                   n, B, S, SA, J, K, L, policies of a row
the tables of `Tables`, each with .b
====================================  =======  ==================  ===========================================

What is read is checked as far as a step needs it: nothing in a file can lead a step out of its arrays, or to
use more than the capacity that the file names.
"""

from __future__ import annotations

import os
from os import PathLike
from typing import Any

import numpy as np

from fairmdp.dispatch.policy import KINDS, PLANNED, DispatchPolicy, Groups
from fairmdp.dispatch.tables import Tables
from fairmdp.errors import FormatError
from fairmdp.files import naming
from fairmdp.npz import (
    FLOAT,
    INT,
    MAX_BYTES,
    SHORT,
    TEXT,
    Arrays,
    Kind,
    Member,
    check_pointers,
    names_in,
    read_arrays,
    shaped,
    text_of,
    with_blocks,
    write_arrays,
)  # fmt: skip

VERSION = 1
VERSION_MEMBER = "fairmdp_dispatch"

_SINGLE = ("<f4",)
_OF_POLICY = {
    VERSION_MEMBER: Member(INT, "one"),
    "kind": Member(TEXT, "kind"),
    "numbers": Member(FLOAT, "numbers"),
    "capacity": Member(FLOAT, "K"),
    "group_owed": Member(FLOAT, "G"),
    "group_size": Member(FLOAT, "G"),
    "group_unit": Member(FLOAT, "G"),
    "group_prices": Member(FLOAT, "G"),
    "account": Member(FLOAT, "account"),
    "column": Member(INT, "N"),
    "group_account": Member(FLOAT, "G"),
}
_TYPES = {
    "pair_ptr": INT, "row_of": INT, "columns": INT, "cost": _SINGLE, "uses": FLOAT, "value": _SINGLE,
    "slope": _SINGLE, "follow": SHORT, "most": SHORT, "shares": FLOAT, "counts": FLOAT, "owed": FLOAT,
    "unit": FLOAT, "group_counts": FLOAT, "group_of": INT, "chance": _SINGLE, "lead": _SINGLE,
}  # fmt: skip
_OF_PATTERN = {"size": Member(INT, "size")} | {name: Member(of, name) for name, of in _TYPES.items()}
_KIND = Kind(
    "dispatch policy", VERSION_MEMBER, VERSION, with_blocks(_OF_POLICY, _OF_PATTERN, "size", "pattern")
)


def write(policy: DispatchPolicy, path: str | PathLike[str]) -> None:
    """Write a policy, atomically; the same policy gives the same bytes."""
    groups, memory = policy.groups, policy.memory
    arrays: Arrays = {
        VERSION_MEMBER: np.array([VERSION]),
        "kind": text_of([policy.kind]),
        "numbers": np.array([policy.window, policy.margin, policy.reserve]),
        "capacity": policy.capacity,
        "group_owed": groups.owed, "group_size": groups.size, "group_unit": groups.unit,
        "group_prices": groups.prices, **memory._asdict(),
    }  # fmt: skip
    for b, tables in enumerate(policy.tables):
        n, (B, C, S) = tables.row_of.size, tables.follow.shape
        sizes = [n, B, S, tables.cost.shape[1], tables.owed.shape[1], policy.capacity.size]
        arrays[f"size.{b}"] = np.array([*sizes, tables.group_of.shape[1], C])
        arrays |= {f"{name}.{b}": array for name, array in tables._asdict().items()}
    path = os.fsdecode(path)
    with naming(path):
        write_arrays(path, arrays)


def read(path: str | PathLike[str], *, max_bytes: int = MAX_BYTES) -> DispatchPolicy:
    """Read a policy that `write` wrote; the message of an error begins with the path."""
    path = os.fsdecode(path)
    with naming(path):
        return _policy(read_arrays(path, _KIND, max_bytes=max_bytes))


def _policy(arrays: Arrays) -> DispatchPolicy:
    kind = "".join(names_in("kind", arrays) or [])
    if kind not in KINDS:
        raise FormatError(f"kind: {kind!r:.60} is none of {', '.join(KINDS)}")
    window, margin, reserve = shaped("numbers", arrays["numbers"], (3,)).tolist()
    if not (1 <= window < np.inf and 0 <= margin < 1 and 0 <= reserve < 1):
        raise FormatError(f"numbers holds window {window}, margin {margin} and reserve {reserve}")
    groups = Groups(*(arrays[f"group_{name}"] for name in ("owed", "size", "unit", "prices")))
    for name in ("capacity", "group_owed", "group_unit", "group_prices", "account", "group_account"):
        _require(np.isfinite(arrays[name]), name, "is not finite")
    _require(groups.size > 0, "group_size", "is not above 0")
    n_patterns = sum(name.startswith("size.") for name in arrays)
    tables = tuple(_tables(arrays, b, kind) for b in range(n_patterns))
    J = tables[0].owed.shape[1]
    if any(t.owed.shape[1] != J for t in tables):
        raise FormatError("patterns have different numbers of local quotas")
    policy = DispatchPolicy(
        kind, tables, arrays["capacity"], groups, window=window, margin=margin, reserve=reserve
    )
    N = policy.n_clients
    columns = shaped("column", arrays["column"], (N,)).astype(np.int64)
    most = np.concatenate([t.columns[t.row_of] for t in tables])
    _require((columns >= 0) & (columns < most), "column", "is not the number of a policy")
    policy.memory.account[:] = shaped("account", arrays["account"], (N, J))
    policy.memory.column[:] = columns
    policy.memory.group_account[:] = arrays["group_account"]
    return policy


def _tables(arrays: Arrays, b: int, kind: str) -> Tables:
    """Tables of one pattern, which lead nowhere outside of themselves."""
    sizes = arrays[f"size.{b}"].tolist()
    if len(sizes) != 8 or min(sizes) < 0 or min(sizes[:4]) < 1 or sizes[7] < 1:
        raise FormatError(f"size.{b} holds {sizes!s:.80}, expected 8 sizes")
    n, B, S, SA, J, K, L, C = sizes
    if K != arrays["capacity"].size:
        raise FormatError(f"size.{b} has {K} resources, expected {arrays['capacity'].size}")
    shapes = {
        "pair_ptr": (S + 1,), "row_of": (n,), "columns": (B,), "cost": (-1, SA), "uses": (-1, SA, K),
        "value": (B, C, SA), "slope": (B, J + L, SA), "follow": (B, C, S), "most": (B, J, S),
        "shares": (B, C, J), "counts": (-1, SA, J), "owed": (B, J), "unit": (B, J),
        "group_counts": (-1, SA, L), "group_of": (B, L), "chance": (B if kind in PLANNED else 0, SA),
        "lead": (B, C, S),
    }  # fmt: skip
    found = {name: _shaped(f"{name}.{b}", arrays[f"{name}.{b}"], shapes[name], B) for name in shapes}
    for name, of in _TYPES.items():
        if of is INT:
            found[name] = found[name].astype(np.int64)
        elif of is not SHORT and name != "owed":
            _require(np.isfinite(found[name]), f"{name}.{b}", "is not finite")
    tables = Tables(**found)
    check_pointers(f"pair_ptr.{b}", tables.pair_ptr, SA)
    sizes_of = np.diff(tables.pair_ptr)
    _require(sizes_of > 0, f"pair_ptr.{b}", "leaves a state without an action")
    _require((tables.row_of >= 0) & (tables.row_of < B), f"row_of.{b}", "is not the number of a row")
    _require((tables.columns >= 1) & (tables.columns <= C), f"columns.{b}", "is not a number of policies")
    for name in ("follow", "most"):
        actions = found[name]
        _require((actions >= 0) & (actions < sizes_of), f"{name}.{b}", "is not an action of its state")
    _require(
        (tables.group_of >= -1) & (tables.group_of < arrays["group_owed"].size), f"group_of.{b}",
        "is not the number of a group",
    )  # fmt: skip
    _require(tables.owed < np.inf, f"owed.{b}", "is not below infinity")
    _require(tables.uses >= 0, f"uses.{b}", "is not at least 0")
    costs, nothing = tables.cost > 0, (tables.uses == 0).all(axis=2)
    _require(tables.cost >= 0, f"cost.{b}", "is not at least 0")
    _require(costs | nothing, f"cost.{b}", "is 0 where something is used")
    free = np.logical_or.reduceat(~costs, tables.pair_ptr[:-1], axis=1)
    _require(free, f"cost.{b}", "leaves a state without a free action")
    return tables


def _shaped(name: str, array: Any, shape: tuple[int, ...], B: int) -> Any:
    """A vector in its shape; -1 is as many rows as there are, or one for all."""
    if shape[0] >= 0:
        return shaped(name, array, shape)
    width = int(np.prod(shape[1:]))
    rows = B if width and array.size == B * width else 1
    return shaped(name, array, (rows, *shape[1:]))


def _require(good: Any, name: str, wrong: str) -> None:
    bad = np.flatnonzero(~np.asarray(good))
    if bad.size:
        raise FormatError(f"{name}: entry {bad[0]} {wrong}; {bad.size} of {np.size(good)} are off")
