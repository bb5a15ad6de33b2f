"""Worlds as npz, for many rows: plain arrays in a zip, nothing that could run code.

A world has K resources, Q local and G group quotas, and blocks of B rows, S states, SA pairs and n
transitions, whose members end in the number of their block, ``.0``, ``.1``, ... Texts are UTF-8, names one
per line; NaN is no bound. What all rows have alike may stand there once.

Rewards with names of their own are not kept: a world has no use for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fairmdp import npz
from fairmdp.errors import FormatError
from fairmdp.model.checks import Floats
from fairmdp.model.mdp import MDP
from fairmdp.npz import BOOL, FLOAT, INT, MAX_BYTES, TEXT, Arrays, Kind, Member
from fairmdp.world.components import Components
from fairmdp.world.demands import GroupQuota, LocalQuota, Resource, bounds_of, counts_of, uses_of
from fairmdp.world.world import World

VERSION = 1
VERSION_MEMBER = "fairmdp_world"

_OF_WORLD = {
    VERSION_MEMBER: Member(INT, "one"),  # version of the format
    "component_names": Member(TEXT, "component text"),
    "resource_names": Member(TEXT, "resource text"),
    "capacity": Member(FLOAT, "K"),
    "quota_names": Member(TEXT, "quota text"),
    "quota_sides": Member(BOOL, "sides"),  # (2 Q): whether there is at_least; and at_most
    "group_names": Member(TEXT, "group text"),
    "group_at_least": Member(FLOAT, "G"),
    "group_at_most": Member(FLOAT, "G"),
    "group_members": Member(BOOL, "members"),  # (G rows): which rows of the world belong to each
}

_OF_BLOCK = {
    "s_of": Member(INT, "SA"),  # states of pairs ...
    "row_ptr": Member(INT, "SA", 1),  # ... and their transitions
    "cols": Member(INT, "n"),
    "count": Member(INT, "B"),  # components that each row stands for
    "P": Member(FLOAT, "chances"),  # (1 or B) n
    "r": Member(FLOAT, "rewards"),  # (1 or B) SA
    "uses": Member(FLOAT, "uses"),  # (1 or B) SA K, what a pair uses
    "counts": Member(FLOAT, "counts"),  # (1 or B) SA Q, what it counts for local quotas
    "group_counts": Member(FLOAT, "group counts"),  # (1 or B) SA G, and for groups
    "at_least": Member(FLOAT, "bounds"),  # B Q, bounds
    "at_most": Member(FLOAT, "bounds"),
    "initial": Member(FLOAT, "S", optional=True),
    "state_names": Member(TEXT, "state text", optional=True),
    "action_names": Member(TEXT, "action text", optional=True),
    "row_names": Member(TEXT, "row text", optional=True),
}

_KIND = Kind("world", VERSION_MEMBER, VERSION, npz.with_blocks(_OF_WORLD, _OF_BLOCK, "s_of", "block"))


def write(world: World, path: str) -> None:
    """Write a world; the same world gives the same bytes."""
    rows = [np.array([], bool)] if not world.groups else world.group_members
    arrays: Arrays = {
        VERSION_MEMBER: np.array([VERSION]),
        "component_names": npz.text_of([of.name for of in world.components]),
        "resource_names": npz.text_of([resource.name for resource in world.resources]),
        "capacity": world.capacity,
        "quota_names": npz.text_of([quota.name for quota in world.quotas]),
        "quota_sides": np.array(
            [[q.at_least is not None, q.at_most is not None] for q in world.quotas], bool
        ),
        "group_names": npz.text_of([group.name for group in world.groups]),
        "group_at_least": _bounds([group.at_least for group in world.groups]),
        "group_at_most": _bounds([group.at_most for group in world.groups]),
        "group_members": np.concatenate(rows),
    }
    for b in range(len(world.components)):
        arrays |= {f"{name}.{b}": array for name, array in _block(world, b)}
    npz.write_arrays(path, arrays)


def _bounds(given: list[float | None]) -> Floats:
    return np.array([np.nan if bound is None else bound for bound in given], dtype=np.float64)


def _block(world: World, b: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """Arrays of one of the world's components."""
    of, known = world.components[b], tuple(each.name for each in world.components)
    inside = slice(world.starts[b], world.starts[b + 1])
    bounds = {
        which: [bounds_of(quota, which, of) for quota in world.quotas] for which in ("at_least", "at_most")
    }
    nothing, none = np.zeros((1, of.mdp.n_pairs)), np.full(of.n_rows, np.nan)
    counts = [
        counts_of(quota, of) if any(side[j] is not None for side in bounds.values()) else nothing
        for j, quota in enumerate(world.quotas)
    ]
    grouped = [
        counts_of(group, of) if members[inside].any() else nothing
        for group, members in zip(world.groups, world.group_members, strict=True)
    ]
    yield "s_of", of.mdp.s_of
    yield "row_ptr", of.row_ptr
    yield "cols", of.cols
    yield "count", of.count
    yield "P", of.P
    yield "r", of.r
    yield "uses", _side_by_side([uses_of(each, of, known) for each in world.resources])
    yield "counts", _side_by_side(counts)
    yield "group_counts", _side_by_side(grouped)
    for which, given in bounds.items():
        yield which, _side_by_side([none if each is None else each for each in given])
    if of.mdp.initial is not None:
        yield "initial", of.mdp.initial
    if of.mdp.states is not None:
        yield "state_names", npz.text_of(of.mdp.states)
    if of.mdp.actions is not None:
        yield "action_names", npz.text_of(of.mdp.actions)
    if of.names is not None:
        yield "row_names", npz.text_of(of.names)


def _side_by_side(columns: list[Floats]) -> Floats:
    """Columns of 1 or B rows as the last axis."""
    return np.stack(np.broadcast_arrays(*columns), axis=-1) if columns else np.empty(0)


def read(path: str, *, max_bytes: int = MAX_BYTES) -> World:
    """Read a world."""
    arrays = npz.read_arrays(path, _KIND, max_bytes=max_bytes)
    names = {
        what: npz.names_in(f"{what}_names", arrays) or []
        for what in ("component", "resource", "quota", "group")
    }
    n_blocks = sum(name.startswith("s_of.") for name in arrays)
    K, Q, G = arrays["capacity"].size, arrays["quota_sides"].size // 2, arrays["group_at_least"].size
    for what, expected in (("component", n_blocks), ("resource", K), ("quota", Q), ("group", G)):
        if len(names[what]) != expected:
            raise FormatError(f"{what}_names has {len(names[what])} names, expected {expected}")
        if len(set(names[what])) != expected:
            raise FormatError(f"two of {what}_names are the same")
    blocks = [_Block(arrays, b, names["component"][b]) for b in range(n_blocks)]
    uses = [block.shared("uses", K) for block in blocks]
    counts = [block.shared("counts", Q) for block in blocks]
    grouped = [block.shared("group_counts", G) for block in blocks]
    bounds = {side: [block.bounds(side, Q) for block in blocks] for side in ("at_least", "at_most")}
    members = npz.shaped("group_members", arrays["group_members"], (G, sum(b.n_rows for b in blocks)))

    def named(parts: list[NDArray[Any]], k: int) -> dict[str, NDArray[Any]]:
        return {block.name: part[..., k] for block, part in zip(blocks, parts, strict=True)}

    sides = npz.shaped("quota_sides", arrays["quota_sides"], (Q, 2))
    local = [
        LocalQuota(
            name,
            at_least=named(bounds["at_least"], k) if sides[k, 0] else None,
            at_most=named(bounds["at_most"], k) if sides[k, 1] else None,
            weights=named(counts, k),
        )
        for k, name in enumerate(names["quota"])
    ]  # fmt: skip
    groups = [
        GroupQuota(
            name, _or_none(arrays["group_at_least"][k]), _or_none(arrays["group_at_most"][k]),
            weights=named(grouped, k), members=members[k],
        )
        for k, name in enumerate(names["group"])
    ]  # fmt: skip
    resources = [
        Resource(name, float(arrays["capacity"][k]), named(uses, k))
        for k, name in enumerate(names["resource"])
    ]
    return World([block.components for block in blocks], resources, local, groups)


class _Block:
    """One of the components, while its arrays are put into shape."""

    def __init__(self, arrays: Arrays, b: int, name: str) -> None:
        self._arrays, self._b, self.name = arrays, b, name
        s_of, row_ptr, cols = (self._array(each) for each in ("s_of", "row_ptr", "cols"))
        n_states = int(s_of.max(initial=-1)) + 1
        if not 0 < n_states <= s_of.size:
            raise FormatError(
                f"s_of.{b} names state {n_states - 1}, but there are only {s_of.size} pairs of {name}"
            )
        npz.check_pointers(f"row_ptr.{b}", row_ptr, cols.size)
        lengths = np.diff(row_ptr)
        inside = np.ones(cols.size, bool)
        inside[row_ptr[:-1][lengths > 0]] = False
        if (lengths == 0).any() or (np.diff(cols, prepend=-1)[inside] <= 0).any():
            raise FormatError(f"cols.{b} does not rise within every pair of {name}")
        pattern = csr_array((np.repeat(1 / lengths, lengths), cols, row_ptr), shape=(s_of.size, n_states))
        self.n_pairs, self.n_rows = s_of.size, self._array("count").size
        actions = npz.names_in(f"action_names.{b}", arrays)
        if actions is not None and len(actions) != self.n_pairs:
            raise FormatError(f"action_names.{b} has {len(actions)} names, expected {self.n_pairs}")
        mdp = MDP(
            pattern, np.zeros(self.n_pairs), s_of, states=npz.names_in(f"state_names.{b}", arrays),
            actions=actions, initial=arrays.get(f"initial.{b}"),
        )  # fmt: skip
        self.components = Components(
            name, mdp, count=self._array("count"), P=self._rows("P", cols.size),
            r=self._rows("r", self.n_pairs), names=npz.names_in(f"row_names.{b}", arrays),
        )  # fmt: skip

    def shared(self, name: str, columns: int) -> NDArray[Any]:
        """What pairs count for each of so many quotas or resources, (1 or B, SA, columns)."""
        return self._rows(name, self.n_pairs, columns) if columns else np.empty((1, self.n_pairs, 0))

    def bounds(self, name: str, columns: int) -> NDArray[Any]:
        """Bounds of local quotas, (B, columns)."""
        return npz.shaped(f"{name}.{self._b}", self._array(name), (self.n_rows, columns))

    def _rows(self, name: str, *shape: int) -> NDArray[Any]:
        array = self._array(name)
        rows = 1 if array.size == math.prod(shape) else self.n_rows
        return npz.shaped(f"{name}.{self._b}", array, (rows, *shape))

    def _array(self, name: str) -> NDArray[Any]:
        return self._arrays[f"{name}.{self._b}"]


def _or_none(bound: float) -> float | None:
    return None if np.isnan(bound) else float(bound)
