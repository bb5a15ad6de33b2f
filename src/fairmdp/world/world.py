"""A world: many small decision processes that share resources, each of which may be owed something.

At every step the components together use at most the capacity of every resource. Over the long run every
component has its own quotas, and groups of components have theirs ::

    maximise    sum_i n_i r_i @ x_i
    subject to  m_ij @ x_i >= rho_ij                          each component's quotas
                sum_i n_i c_ik @ x_i <= C_k                   capacity, here in the mean
                sum_{i in g} n_i w_i @ x_i >= R_g             quotas of groups

with ``x_i`` the occupancy of row i, which stands for ``n_i`` components. Caps are quotas of negated weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fairmdp import world
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats, Ints, ReadOnly, counted, names_of, numeric, refuse, there_are
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.world.components import Components
from fairmdp.world.demands import GroupQuota, LocalQuota, Resource, bounds_of, counts_of, uses_of
from fairmdp.world.rows import Rows, sealed


class Side(NamedTuple):
    """One bound of a quota: which quota it is, and 1 for ``at_least`` or -1 for ``at_most``."""

    quota: int
    sign: int


@dataclass(frozen=True, eq=False, init=False, repr=False)
class World(ReadOnly):
    """Components that share resources at every step, with quotas for each of them and for groups.

    Parameters
    ----------
    components
        `Components`, or MDPs, each of them one component.
    resources
        What they share. Every state needs an action that uses nothing.
    quotas
        Quotas that every component has for itself: `LocalQuota`, or a `Quota` with the same bounds for all.
    groups
        Quotas that components have together.

    Examples
    --------
    >>> names = ["wait", "serve", "wait"]
    >>> queue = MDP([[0.5, 0.5], [1, 0], [0.3, 0.7]], [0, 1.0, 0], [0, 1, 1], actions=names)
    >>> World([Components("clients", queue, count=100)], [Resource("slots", 30, {"serve": 1})])
    World(100 components in 1 row, 1 resource)
    """

    components: tuple[Components, ...]
    resources: tuple[Resource, ...]
    quotas: tuple[LocalQuota, ...]
    groups: tuple[GroupQuota, ...]

    def __init__(
        self,
        components: Iterable[Components | MDP],
        resources: Iterable[Resource] = (),
        quotas: Iterable[LocalQuota | Quota] = (),
        groups: Iterable[GroupQuota] = (),
    ) -> None:
        named = _components(components)
        self.__dict__.update(
            components=named,
            resources=tuple(resources),
            quotas=tuple(map(_local, quotas)),
            groups=tuple(groups),
        )
        for what in ("components", "resources", "quotas", "groups"):
            names = [each.name for each in getattr(self, what)]
            names_of(what, names)
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise ProblemError(f"two of the {what} are called {twice!r}")
        self.__post_init__()
        _ = self.blocks

    @property
    def n_rows(self) -> int:
        """Number of different components."""
        return sum(each.n_rows for each in self.components)

    @property
    def n_components(self) -> int:
        """Number of components."""
        return sum(int(each.count.sum()) for each in self.components)

    @cached_property
    def starts(self) -> Ints:
        """First row of each of the `components`, and the number of rows."""
        return np.cumsum([0, *(each.n_rows for each in self.components)])

    @cached_property
    def capacity(self) -> Floats:
        """Capacity of every resource, (K,)."""
        return np.array([float(each.capacity) for each in self.resources])

    @cached_property
    def sides(self) -> tuple[Side, ...]:
        """Bounds of local quotas, in the order of the columns of ``counts`` and ``owed``."""
        return _sides(self.quotas)

    @cached_property
    def group_sides(self) -> tuple[Side, ...]:
        """Bounds of group quotas, in the order of `group_owed`."""
        return _sides(self.groups)

    @cached_property
    def group_owed(self) -> Floats:
        """What every bound of a group asks for at least, (G,): a cap is negated."""
        return np.array([
            sign * float((self.groups[g].at_least if sign > 0 else self.groups[g].at_most) or 0.0)
            for g, sign in self.group_sides
        ])  # fmt: skip

    @cached_property
    def blocks(self) -> tuple[Rows, ...]:
        """Arrays of the `components`, as kernels see them."""
        return tuple(self._block(b) for b in range(len(self.components)))

    @cached_property
    def group_members(self) -> tuple[Bools, ...]:
        """Rows of every group, (rows,) each."""
        return tuple(self._members(group) for group in self.groups)

    def joint(self) -> Problem:
        """Return the problem of all components together, for small worlds: up to a million joint states.

        Its policies keep capacity at every step, so its optimum is what a policy of the world can reach.

        Examples
        --------
        >>> queue = MDP([[0.5, 0.5], [1, 0], [0.3, 0.7]], [0, 1.0, 0], [0, 1, 1], actions=list("nsn"))
        >>> World([Components("clients", queue, count=2)], [Resource("slots", 1, {"s": 1})]).joint()
        Problem(4 states, 8 pairs, 24 transitions, 0 quotas)
        """
        return world.joint.joint_problem(self)

    def without_quotas(self) -> World:
        """Return the same components and resources, of which nobody is owed anything."""
        return World(self.components, self.resources)

    def with_capacity(self, resource: str, capacity: float) -> World:
        """Return the world with another capacity of a resource."""
        _check_known(resource, [each.name for each in self.resources], "resource")
        resources = [
            replace(each, capacity=capacity) if each.name == resource else each for each in self.resources
        ]
        return World(self.components, resources, self.quotas, self.groups)

    def with_common_quota(self, quota: str, at_least: float) -> World:
        """Return the world in which a quota asks the same of all: of a group's quota, so much of the group.

        A local quota asks it of those of whom it asks something now, or, where that is nobody, of all who
        have it.
        """
        names = [*(each.name for each in self.quotas), *(each.name for each in self.groups)]
        _check_known(quota, names, "quota")
        quotas = [self._common(each, at_least) if each.name == quota else each for each in self.quotas]
        groups = [replace(each, at_least=at_least) if each.name == quota else each for each in self.groups]
        return World(self.components, self.resources, quotas, groups)

    def _common(self, quota: LocalQuota, at_least: float) -> LocalQuota:
        stated, asked = {}, {}
        for of in self.components:
            if (bounds := bounds_of(quota, "at_least", of)) is not None:
                stated[of.name] = ~np.isnan(bounds)
                asked[of.name] = stated[of.name] & (bounds > counts_of(quota, of).min(axis=1))
        who = asked if any(each.any() for each in asked.values()) else stated
        return replace(quota, at_least={name: np.where(each, at_least, np.nan) for name, each in who.items()})

    def row_name(self, row: int) -> str:
        """Name of a row of the world."""
        b = int(np.searchsorted(self.starts, row, side="right")) - 1
        return self.components[b].row_name(int(row - self.starts[b]))

    def __repr__(self) -> str:
        many = f"{counted(self.n_components, 'component')} in {counted(self.n_rows, 'row')}"
        parts = [
            (len(self.resources), "resource"), (len(self.quotas), "local quota"),
            (len(self.groups), "group quota"),
        ]  # fmt: skip
        return f"World({', '.join([many, *(counted(n, what) for n, what in parts if n)])})"

    def _block(self, b: int) -> Rows:
        of = self.components[b]
        known = tuple(each.name for each in self.components)
        uses = _stacked([uses_of(each, of, known) for each in self.resources], of)
        _check_free_action(of, uses)
        counts, owed = self._local(of)
        shares, group_of = self._grouped(b)
        return sealed(
            Rows(
                of.mdp.pair_ptr,
                of.row_ptr,
                of.cols,
                of.P,
                of.r,
                uses,
                counts,
                owed,
                shares,
                group_of,
                of.count,
            )
        )

    def _local(self, of: Components) -> tuple[Floats, Floats]:
        """What pairs count for the sides of local quotas, and what these ask for."""
        counts, owed = [], []
        for j, sign in self.sides:
            bounds = bounds_of(self.quotas[j], "at_least" if sign > 0 else "at_most", of)
            if bounds is None:
                counts.append(np.zeros((1, of.mdp.n_pairs)))
                owed.append(np.full(of.n_rows, -np.inf))
                continue
            row = sign * counts_of(self.quotas[j], of)
            idle = np.isnan(bounds) | (sign * bounds <= row.min(axis=1))
            counts.append(row)
            owed.append(np.where(idle, -np.inf, sign * bounds))
        return _stacked(counts, of), np.array(owed).reshape(-1, of.n_rows).T

    def _grouped(self, b: int) -> tuple[Floats, Ints]:
        """Layers of disjoint groups that count pairs alike, and the group of each row in every layer."""
        of, start, stop = self.components[b], self.starts[b], self.starts[b + 1]
        weights: list[Floats] = []
        layers: list[Ints] = []
        for g, (k, sign) in enumerate(self.group_sides):
            members = self.group_members[k][start:stop]
            if not members.any():
                continue
            row = sign * counts_of(self.groups[k], of)
            free = (
                n for n, layer in enumerate(layers)
                if np.array_equal(weights[n], row) and (layer[members] < 0).all()
            )  # fmt: skip
            n = next(free, len(layers))
            if n == len(layers):
                weights.append(row)
                layers.append(np.full(of.n_rows, -1))
            layers[n][members] = g
        return _stacked(weights, of), np.array(layers, dtype=np.int64).reshape(-1, of.n_rows).T

    def _members(self, group: GroupQuota) -> Bools:
        if group.members is None:
            return np.ones(self.n_rows, bool)
        given = np.asarray(group.members)
        if given.dtype == bool:
            if given.shape != (self.n_rows,):
                raise ProblemError(
                    f"group quota {group.name}: the mask has shape {given.shape}, expected ({self.n_rows},)"
                )
            mask = given
        else:
            rows = numeric(f"group quota {group.name}: members", given)
            if ((rows < 0) | (rows >= self.n_rows) | (rows % 1 != 0)).any():
                last = self.n_rows - 1
                raise ProblemError(
                    f"group quota {group.name}: members are numbers of rows, 0 to {last}, or a mask"
                )
            mask = np.zeros(self.n_rows, bool)
            mask[rows.astype(np.int64)] = True
        if not mask.any():
            raise ProblemError(f"group quota {group.name}: it has no members")
        return mask


def _components(given: Iterable[Components | MDP]) -> tuple[Components, ...]:
    parts = (given,) if isinstance(given, Components | MDP) else tuple(given)
    if not parts:
        raise ProblemError("a world needs at least one component")
    made = []
    for n, each in enumerate(parts):
        if not isinstance(each, Components | MDP):
            raise ProblemError(
                f"components holds a {type(each).__name__}, expected fairmdp.Components or MDP"
            )
        made.append(each if isinstance(each, Components) else Components(f"component {n + 1}", each))
    return tuple(made)


def _local(quota: LocalQuota | Quota) -> LocalQuota:
    if isinstance(quota, LocalQuota):
        return quota
    if not isinstance(quota, Quota) or (quota.states is None and quota.pairs is None) or quota.of is not None:
        raise ProblemError(
            f"quotas holds {quota!r}, expected fairmdp.LocalQuota, or fairmdp.Quota of states or pairs"
        )
    return LocalQuota(quota.name, quota.at_least, quota.at_most, quota.states, quota.pairs)


def _sides(quotas: Iterable[LocalQuota | GroupQuota]) -> tuple[Side, ...]:
    def both() -> Iterator[Side]:
        for k, quota in enumerate(quotas):
            if quota.at_least is not None:
                yield Side(k, 1)
            if quota.at_most is not None:
                yield Side(k, -1)

    return tuple(both())


def _check_known(name: str, names: list[str], what: str) -> None:
    if name not in names:
        raise ProblemError(f"there is no {what} called {name!r}{there_are(names, name)}")


def _stacked(columns: list[Floats], of: Components) -> Floats:
    """Columns of 1 or B rows side by side, (B or 1, SA, columns)."""
    if not columns:
        return np.zeros((1, of.mdp.n_pairs, 0))
    rows = max(map(len, columns))
    return np.stack([np.broadcast_to(column, (rows, of.mdp.n_pairs)) for column in columns], axis=2)


def _check_free_action(of: Components, uses: Floats) -> None:
    """Raise unless every state has an action that uses nothing."""
    free = np.logical_or.reduceat((uses == 0).all(axis=2), of.mdp.pair_ptr[:-1], axis=1)  # (B or 1, S)
    if not free.all():
        i, s = (int(v) for v in np.argwhere(~free)[0])
        refuse(
            f"components {of.name}: every action of state {of.mdp.state_name(s)} uses a resource",
            f"this is so for {of.row_name(i)}",
            "give every state an action that uses nothing, so that capacity can always be kept",
        )
