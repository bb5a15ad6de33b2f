"""What a world couples its components by: resources, and quotas of each component or of groups of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, ReadOnly, names_of, numeric, there_are
from fairmdp.model.mdp import MDP
from fairmdp.model.quota import Quota, counted_by
from fairmdp.world.components import Components, rows_of


@dataclass(frozen=True, eq=False)
class Resource(ReadOnly):
    """Something of which all components together may use so much in a step.

    Parameters
    ----------
    name
        What messages and tables call it, in the plural: ``slots``.
    capacity
        How much there is in every step.
    uses
        What a pair uses: ``{"serve 1": 1, "serve 2": 2}`` by the name of the action, ``{("2", "serve"): 1}``
        by state and action, where what is not named uses nothing; or an array, (SA,) or (B, SA), of at least
        0. Where components differ, ``{components: uses}``.

    Examples
    --------
    >>> Resource("slots", 333, {"serve 1": 1, "serve 2": 2}).capacity
    333
    """

    name: str
    capacity: float
    uses: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        names_of("resource", [self.name])
        if isinstance(self.capacity, bool) or not isinstance(self.capacity, Real) or not self.capacity >= 0:
            raise ProblemError(f"resource {self.name}: capacity is {self.capacity!r}, expected at least 0")
        if not np.isfinite(self.capacity):
            raise ProblemError(
                f"resource {self.name}: capacity is {self.capacity!r}, expected a finite number"
            )


@dataclass(frozen=True, eq=False)
class LocalQuota(ReadOnly):
    """A quota that every component has for itself: a bound on its own share of time.

    Parameters
    ----------
    name
        What messages and tables call it.
    at_least, at_most
        Bounds: one number, one for each row, (B,), or ``{components: bound}``. At least 0 of a set, or NaN,
        asks for nothing.
    states, pairs
        The set, as of a `Quota`.
    weights
        Instead of a set: what a pair counts, (SA,) or (B, SA).
    components
        Names of those that have the quota; by default all have it.
    """

    name: str
    at_least: Any = None
    at_most: Any = None
    states: Iterable[Any] | None = None
    pairs: Iterable[Any] | None = None
    weights: Any = None
    components: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_quota(self)


@dataclass(frozen=True, eq=False)
class GroupQuota(ReadOnly):
    """A quota that components have together: a bound on the mean number of them in a set.

    Parameters
    ----------
    name
        What messages and tables call it.
    at_least, at_most
        Bounds on the sum of the members' long-run shares: ``at_least=21.3`` asks for as many members in the
        set in the mean step.
    states, pairs, weights
        What counts, as of a `LocalQuota`.
    members
        Rows that belong to the group, as a mask or as numbers over all rows of the world in order; by
        default all.
    """

    name: str
    at_least: float | None = None
    at_most: float | None = None
    states: Iterable[Any] | None = None
    pairs: Iterable[Any] | None = None
    weights: Any = None
    members: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_quota(self)
        for what, bound in (("at_least", self.at_least), ("at_most", self.at_most)):
            if bound is not None and not (isinstance(bound, Real) and np.isfinite(bound)):
                raise ProblemError(f"group quota {self.name}: {what} is {bound!r}, expected a number")


def _check_quota(quota: LocalQuota | GroupQuota) -> None:
    names_of("quota", [quota.name])
    if sum(given is not None for given in (quota.states, quota.pairs, quota.weights)) != 1:
        raise ProblemError(f"quota {quota.name}: give one of states, pairs and weights")
    if quota.at_least is None and quota.at_most is None:
        raise ProblemError(f"quota {quota.name}: give at_least, at_most or both")


def counts_of(quota: LocalQuota | GroupQuota, of: Components) -> Floats:
    """What a pair counts for a quota, (B or 1, SA)."""
    if quota.weights is not None:
        given = quota.weights.get(of.name) if isinstance(quota.weights, Mapping) else quota.weights
        rows = rows_of(f"quota {quota.name}: weights", given, (of.mdp.n_pairs,))
        if len(rows) not in (1, of.n_rows) or not np.isfinite(rows).all():
            raise ProblemError(
                f"quota {quota.name}: weights has {len(rows)} rows, {of.name} has {of.n_rows}; all finite"
            )
        return rows
    counted = counted_by(of.mdp, Quota(quota.name, states=quota.states, pairs=quota.pairs, at_least=0.0))
    row = np.zeros(of.mdp.n_pairs)
    row[counted.pairs] = counted.weights
    return row[None]


def bounds_of(quota: LocalQuota, which: str, of: Components) -> Floats | None:
    """Bounds of the rows of some components, (B,), NaN where there is none; None if there is none at all."""
    given = getattr(quota, which)
    if isinstance(given, Mapping):
        given = given.get(of.name)
    if given is None or (quota.components is not None and of.name not in quota.components):
        return None
    bounds = numeric(f"quota {quota.name}: {which}", given)
    if bounds.shape not in ((), (1,), (of.n_rows,)):
        raise ProblemError(
            f"quota {quota.name}: {which} has shape {bounds.shape}, {of.name} has {of.n_rows} rows"
        )
    if np.isinf(bounds).any():
        raise ProblemError(f"quota {quota.name}: {which} is infinite, expected numbers")
    return np.broadcast_to(bounds, of.n_rows).copy()


def uses_of(resource: Resource, of: Components, known: tuple[str, ...]) -> Floats:
    """What a pair uses of a resource, (B or 1, SA)."""
    given, where = resource.uses, f"resource {resource.name}"
    if isinstance(given, Mapping) and given and set(given) <= set(known):
        given = given.get(of.name, {})
    if isinstance(given, Mapping):
        row = np.zeros(of.mdp.n_pairs)
        for key, amount in given.items():
            row[_pairs_called(of.mdp, key, where)] = numeric(f"{where}: uses of {key}", amount)
        given = row
    uses = rows_of(f"{where}: uses", given, (of.mdp.n_pairs,))
    if len(uses) not in (1, of.n_rows):
        raise ProblemError(f"{where}: uses has {len(uses)} rows, {of.name} has {of.n_rows}")
    bad = ~(np.isfinite(uses) & (uses >= 0))
    if bad.any():
        i, pair = (int(v) for v in np.argwhere(bad)[0])
        raise ProblemError(
            f"{where}: {of.mdp.pair_name(pair)} of {of.row_name(i)} uses {uses[i, pair]}, expected at least 0"
        )
    return uses


def _pairs_called(mdp: MDP, key: Any, where: str) -> Any:
    """Numbers of the pairs that an action's name, or a state and an action, stand for."""
    if isinstance(key, tuple):
        return [mdp.pair_index(*key)]
    called = [i for i in range(mdp.n_pairs) if mdp.action_name(i) == key]
    if not called:
        actions = tuple(dict.fromkeys(mdp.action_name(i) for i in range(mdp.n_pairs)))
        raise ProblemError(f"{where}: there is no action called {key!r}{there_are(actions, str(key))}")
    return called
