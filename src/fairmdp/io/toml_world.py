"""Worlds as TOML, the format that people write by hand.

::

    fairmdp_world = 1                            # version of the format

    [[components]]
    name = "client"
    rows = ["ann", "bob"]                        # optional: names, where components differ
    count = 1                                    # optional: how many are alike; or one for each row
    states = ["0", "1"]                          # optional: their order; else that of the tables below

    [components.model.0.wait]                    # one table per state and action
    reward = 0.0                                 # a number, or one for each row; so is every number below
    to = { 0 = [0.4, 0.6], 1 = [0.6, 0.4] }
    [components.model.1.serve]
    reward = [1.0, 2.0]
    uses = { slots = 1 }                         # optional: what is not named is not used
    to = { 0 = 1.0 }
    [components.model.1.wait]                    # every state needs an action that uses nothing
    reward = 0.0
    to = { 1 = 1.0 }

    [[resources]]
    name = "slots"
    capacity = 1

    [[quotas]]                                   # each component has them for itself
    name = "idle"
    states = ["0"]                               # or pairs = [["1", "serve"]]
    at_least = [0.5, 0.2]                        # and/or at_most; or { client = [0.5, 0.2] }
    components = ["client"]                      # optional: who has it

    [[groups]]                                   # components have them together
    name = "served"
    weights = { client = { 1 = { serve = 1.0 } } }    # instead of a set: by component, state and action
    at_least = 0.3
    members = [0, 1]                             # optional: rows of the world
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from fairmdp.errors import FormatError
from fairmdp.files import read_bytes, write_bytes
from fairmdp.io.toml_schema import WorldFile
from fairmdp.io.toml_text import MAX_BYTES, Names, Place, checked, inline, key_text, misfit, number, shown
from fairmdp.model.checks import Floats, counted, there_are
from fairmdp.model.mdp import MDP
from fairmdp.world.components import Components
from fairmdp.world.demands import GroupQuota, LocalQuota, Resource, bounds_of, counts_of, uses_of
from fairmdp.world.world import World

VERSION = 1
VERSION_FIELD = "fairmdp_world"

MAX_CHANCES = 20_000
"""Largest world that is written, in transitions of all rows; a larger one is not for people to read."""

MAX_NUMBERS = 50_000_000
"""Numbers of a world that is read: one in the file can stand for many rows, so that a short file could ask
for any."""


def read(path: str, *, max_bytes: int = MAX_BYTES) -> World:
    """Read a world; the message of an error begins with the field."""
    return _world(checked(read_bytes(path, max_bytes), WorldFile, VERSION_FIELD, VERSION, "world"))


def write(world: World, path: str, *, max_chances: int = MAX_CHANCES) -> None:
    """Write a world, in the layout above."""
    chances = sum(of.n_rows * of.cols.size for of in world.components)
    if chances > max_chances:
        raise FormatError(
            f"the rows have {chances:,} transitions, TOML is written up to {max_chances:,}\n  save it as .npz"
        )
    write_bytes(path, "".join(_pieces(world)).encode())


def _world(file: WorldFile) -> World:
    """The world of a validated file."""
    readers = [_Reader(("components", b), table) for b, table in enumerate(file.components)]
    names = [reader.table.name for reader in readers]
    resources = [each.name for each in file.resources or ()]
    wide = len(resources) + len(file.quotas or ()) + len(file.groups or ()) + 1
    for reader in readers:
        reader.check_resources(resources)
        reader.check_size(wide)
    known = dict(zip(names, readers, strict=True))
    return World(
        [reader.components() for reader in readers],
        [
            Resource(each.name, each.capacity, {name: r.uses(each.name) for name, r in known.items()})
            for each in file.resources or ()
        ],
        [_local(("quotas", k), table, known) for k, table in enumerate(file.quotas or ())],
        [_group(("groups", k), table, known) for k, table in enumerate(file.groups or ())],
    )  # fmt: skip


class _Reader:
    """One of the components of a file, while what is wrong can still be told by its place."""

    def __init__(self, place: Place, table: Any) -> None:
        self.place, self.table = place, table
        self.names = Names(place, table.states, table.model, f"{table.name} has")
        self._tables = list(self.names.tables())
        self._n_rows = self._rows()

    def _rows(self) -> int:
        """Number of rows: as many as the longest list says, which all others must agree with."""
        given: list[Any] = [self.table.count, self.table.rows]
        for _, pair in self._tables:
            given += [pair.reward, *pair.to.values(), *(pair.uses or {}).values()]
        return max([len(each) for each in given if isinstance(each, list)], default=1)

    def components(self) -> Components:
        """The components."""
        lengths = [len(pair.to) for _, pair in self._tables]
        cols, P = [], []
        for place, pair in self._tables:
            for target in sorted(pair.to, key=lambda name: self.names.numbers.get(name, -1)):
                cols.append(self.names.state((*place, "to", target), target))
                P.append(self.numbers_of((*place, "to", target), pair.to[target]))
            if not pair.to:
                raise misfit((*place, "to"), "it leads nowhere")
        shares = np.repeat(1 / np.array(lengths), lengths)
        pattern = csr_array(
            (shares, cols, np.cumsum([0, *lengths])), shape=(len(lengths), len(self.names.states))
        )
        mdp = MDP(
            pattern, np.zeros(len(lengths)), [self.names.numbers[s] for s, _ in self.names.pairs],
            states=self.names.states, actions=[a for _, a in self.names.pairs],
        )  # fmt: skip
        rewards = [self.numbers_of((*place, "reward"), pair.reward) for place, pair in self._tables]
        count = self.numbers_of((*self.place, "count"), self.table.count)
        return Components(
            self.table.name, mdp, P=_columns(P, self._n_rows), r=_columns(rewards, self._n_rows),
            count=np.broadcast_to(count, self._n_rows), names=self.table.rows,
        )  # fmt: skip

    def uses(self, resource: str) -> Floats:
        """What every pair uses of a resource, (1 or B, SA)."""
        given = [
            self.numbers_of((*place, "uses", resource), (pair.uses or {}).get(resource, 0.0))
            for place, pair in self._tables
        ]
        return _columns(given, max(map(len, given)))

    def check_size(self, wide: int) -> None:
        """Raise where all rows have more numbers than are read, so many of them for each pair."""
        transitions = sum(len(pair.to) for _, pair in self._tables)
        if (numbers := self._n_rows * (transitions + wide * len(self._tables))) > MAX_NUMBERS:
            raise misfit(
                self.place,
                f"the rows have {numbers:,} numbers, {MAX_NUMBERS:,} are read; save it as .npz",
            )

    def check_resources(self, names: Sequence[str]) -> None:
        """Raise where a resource is used that there is not."""
        for place, pair in self._tables:
            for name in pair.uses or ():
                if name not in names:
                    told = there_are(names, name)
                    raise misfit((*place, "uses"), f"there is no resource called {shown(name)}{told}")

    def weights(self, place: Place, table: dict[str, Any]) -> Floats:
        """Weights by state, or by state and action, of every pair, (1 or B, SA)."""
        found = [np.zeros(1)] * len(self._tables)
        for state, given in table.items():
            self.names.state((*place, state), state)
            own = self.table.model[state]
            by_action = given if isinstance(given, dict) else dict.fromkeys(own, given)
            for action, weight in by_action.items():
                where = (*place, state, action)
                found[self.names.pair(where, state, action)] = self.numbers_of(where, weight)
        return _columns(found, max(map(len, found)))

    def numbers_of(self, place: Place, given: Any) -> Floats:
        """One number, or one for each row, (1 or B,)."""
        for k, each in enumerate(given if isinstance(given, list) else [given]):
            number((*place, k) if isinstance(given, list) else place, each)
        try:
            array = np.atleast_1d(np.array(given, dtype=np.float64))
        except OverflowError:
            raise misfit(place, "a number is too large") from None
        if array.size not in (1, self._n_rows):
            raise misfit(place, f"there are {array.size} numbers for {counted(self._n_rows, 'row')}")
        return array


def _columns(columns: Sequence[Floats], rows: int) -> Floats:
    return np.stack([np.broadcast_to(column, rows) for column in columns], axis=1)


def _known(place: Place, name: str, known: dict[str, _Reader]) -> _Reader:
    if name not in known:
        told = there_are(list(known), name)
        raise misfit(place, f"there are no components called {shown(name)}{told}")
    return known[name]


def _local(place: Place, table: Any, known: dict[str, _Reader]) -> LocalQuota:
    given = list(known) if table.components is None else table.components
    owners = {
        name: _known((*place, "components", k), name, known) if table.components else known[name]
        for k, name in enumerate(given)
    }
    return LocalQuota(
        table.name, _sided((*place, "at_least"), table.at_least, owners),
        _sided((*place, "at_most"), table.at_most, owners), **_counted(place, table, owners),
        components=None if table.components is None else tuple(owners),
    )  # fmt: skip


def _sided(place: Place, given: Any, owners: dict[str, _Reader]) -> dict[str, Floats] | None:
    """A bound for all, or by components."""
    if given is None:
        return None
    if not isinstance(given, dict):
        return {name: _spread(reader.numbers_of(place, given)) for name, reader in owners.items()}
    return {
        name: _spread(_known((*place, name), name, owners).numbers_of((*place, name), bound))
        for name, bound in given.items()
    }


def _spread(bounds: Floats) -> Floats:
    """One bound as a number, several as they are."""
    return bounds[0] if bounds.size == 1 else bounds


def _group(place: Place, table: Any, known: dict[str, _Reader]) -> GroupQuota:
    return GroupQuota(
        table.name, table.at_least, table.at_most, **_counted(place, table, known), members=table.members
    )


def _counted(place: Place, table: Any, owners: dict[str, _Reader]) -> dict[str, Any]:
    """What a quota counts: states, pairs or weights, all of which there are."""
    for reader in owners.values():
        reader.names.check_counted(place, table)
    weights = table.weights
    if weights is not None:
        for name in weights:
            _known((*place, "weights", name), name, owners)
        weights = {
            name: reader.weights((*place, "weights", name), weights.get(name, {}))
            for name, reader in owners.items()
        }
    pairs = None if table.pairs is None else [tuple(pair) for pair in table.pairs]
    return {"states": table.states, "pairs": pairs, "weights": weights}


def _pieces(world: World) -> Iterator[str]:
    """Text of the file: the head, components with their pairs, resources, quotas and groups."""
    yield f"{VERSION_FIELD} = {VERSION}\n"
    known = tuple(of.name for of in world.components)
    for of in world.components:
        yield f"\n[[components]]\nname = {inline(of.name)}\n"
        if of.names is not None:
            yield f"rows = {inline(list(of.names))}\n"
        yield f"count = {inline(_alike(of.count))}\n"
        yield f"states = {inline([of.mdp.state_name(s) for s in range(of.mdp.n_states)])}\n"
        uses = {each.name: uses_of(each, of, known) for each in world.resources}
        for i, s in enumerate(of.mdp.s_of.tolist()):
            state, action = of.mdp.state_name(s), of.mdp.action_name(i)
            entries = range(of.row_ptr[i], of.row_ptr[i + 1])
            to = {of.mdp.state_name(of.cols[e]): _alike(of.P[:, e]) for e in entries}
            used = {name: _alike(rows[:, i]) for name, rows in uses.items() if rows[:, i].any()}
            yield f"\n[components.model.{key_text(state)}.{key_text(action)}]\n"
            yield f"reward = {inline(_alike(of.r[:, i]))}\nto = {inline(to)}\n"
            yield f"uses = {inline(used)}\n" if used else ""
    for resource in world.resources:
        yield f"\n[[resources]]\nname = {inline(resource.name)}\n"
        yield f"capacity = {inline(float(resource.capacity))}\n"
    for quota in world.quotas:
        yield from _local_pieces(world, quota)
    for group, members in zip(world.groups, world.group_members, strict=True):
        owners = [
            of for b, of in enumerate(world.components)
            if members[world.starts[b] : world.starts[b + 1]].any()
        ]  # fmt: skip
        yield f"\n[[groups]]\nname = {inline(group.name)}\n{_set_text(group, owners, len(known))}"
        for side in ("at_least", "at_most"):
            if (bound := getattr(group, side)) is not None:
                yield f"{side} = {inline(float(bound))}\n"
        if not members.all():
            yield f"members = {inline(np.flatnonzero(members).tolist())}\n"


def _local_pieces(world: World, quota: LocalQuota) -> Iterator[str]:
    """Text of a local quota."""
    owed = {
        side: {of.name: bounds_of(quota, side, of) for of in world.components}
        for side in ("at_least", "at_most")
    }
    owners = [of for of in world.components if any(each[of.name] is not None for each in owed.values())]
    yield f"\n[[quotas]]\nname = {inline(quota.name)}\n{_set_text(quota, owners, len(owners))}"
    for side, bounds in owed.items():
        if getattr(quota, side) is not None:
            yield f"{side} = {inline({n: _alike(each) for n, each in bounds.items() if each is not None})}\n"
    if len(owners) < len(world.components):
        yield f"components = {inline([of.name for of in owners])}\n"


def _set_text(quota: LocalQuota | GroupQuota, owners: list[Components], readers: int) -> str:
    """What a quota counts: a set by names, where it is the same for all who will read it, else weights."""
    counts = {of.name: counts_of(quota, of) for of in owners}
    sets = []
    for of in owners:
        inside = [i for i in range(of.mdp.n_pairs) if counts[of.name][0, i]]
        pairs = [[of.mdp.state_name(of.mdp.s_of[i]), of.mdp.action_name(i)] for i in inside]
        sets.append(list(dict.fromkeys(s for s, _ in pairs)) if quota.states is not None else pairs)
    if quota.weights is None and len(owners) == readers and all(each == sets[0] for each in sets):
        return f"{'states' if quota.states is not None else 'pairs'} = {inline(sets[0])}\n"
    table: dict[str, Any] = {}
    for of in owners:
        rows = counts[of.name]
        for i in np.flatnonzero(rows.any(axis=0)):
            by_state = table.setdefault(of.name, {}).setdefault(of.mdp.state_name(of.mdp.s_of[i]), {})
            by_state[of.mdp.action_name(int(i))] = _alike(rows[:, i])
    return f"weights = {inline(table)}\n"


def _alike(rows: Any) -> Any:
    """One number where all rows have the same, else one for each."""
    same = (rows == rows[0]).all() or np.isnan(rows).all()
    return rows[0].item() if same else rows.tolist()
