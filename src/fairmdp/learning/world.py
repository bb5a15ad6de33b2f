"""Worlds of which the chances are not known: types of components, and records of what they did.

From records the chances of each type are estimated, and the plan of the estimated world is found. What is
claimed of the true world is a ceiling: its prices and relative values are chosen on the earlier records, and
it is proved from the later ones alone, with a probability (`certificate.world_confidence`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmdp.certificate.world_confidence import confident_ceiling
from fairmdp.decomposition.solve import solve_world
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, ReadOnly, there_are
from fairmdp.model.columns import table_of
from fairmdp.world.components import Components
from fairmdp.world.plan import WorldPlan
from fairmdp.world.rows import Rows
from fairmdp.world.world import World

_COLUMNS = ("type", "state", "action", "next")

WorldCounts = Sequence[Floats]
"""How often each transition was seen, for each of the world's components: (B, n) in the order of ``cols``."""


@dataclass(frozen=True, eq=False, repr=False)
class WorldEstimate(ReadOnly):
    """What records say of a world.

    Attributes
    ----------
    world : World
        The world with the chances that were estimated from all records.
    plan : WorldPlan
        Its plan. Status, ceiling, prices and shares are of the estimated world: of the true one they are
        estimates, and nothing says that the quotas can be met there, or cannot.
    upper : float
        With probability `confidence` no joint policy of the true world that meets the quotas gains more;
        infinite where the quotas of the world estimated from the earlier records cannot be met.
    confidence : float
        Of `upper`.
    least_seen : int
        Records of the pair that was seen least.
    unseen : int
        Pairs of all types without a record; their chances are even among the states that they may lead to.
    """

    world: World
    plan: WorldPlan
    upper: float
    confidence: float
    least_seen: int
    unseen: int

    def __repr__(self) -> str:
        return (
            f"WorldEstimate({self.plan.status.value}, value={self.plan.value:.6g}, "
            f"upper={self.upper:.6g} with confidence {self.confidence:g})"
        )


def learn_world(
    world: World, earlier: WorldCounts, later: WorldCounts, *, delta: float = 0.05, tol: float = 1e-6
) -> WorldEstimate:
    """Estimate the chances of a world's types from records, with its plan and a ceiling on the true world.

    Parameters
    ----------
    world
        What is known: which components there are, how many of each type (one row, by its ``count``), where
        each pair may lead, rewards, uses and quotas. Its chances are not looked at.
    earlier, later
        Counts of transitions, from `count_transitions`. Prices and relative values are chosen on the earlier
        ones, and the ceiling on the true world comes from the later ones alone. The plan is that of both.
    delta
        Probability with which the ceiling may be false.
    tol
        Relative gap of the plan that counts as optimal.

    Returns
    -------
    WorldEstimate
        Guaranteed: `WorldEstimate.upper`, with probability ``1 - delta``, if the records are of the true
        world, each drawn afresh from the chances of its pair. Not guaranteed: that the plan meets the quotas
        of the true world, or that they can be met there. A policy with accounts (`dispatch_policy`) sees what
        everybody had, whatever the chances are, and its capacity is never exceeded.

    Examples
    --------
    >>> import fairmdp as fm
    >>> names = ["wait", "serve", "wait"]
    >>> queue = fm.MDP([[0.5, 0.5], [1, 0], [0.3, 0.7]], [0, 1.0, 0], [0, 1, 1], actions=names)
    >>> clients = fm.Components("client", queue, count=100)
    >>> world = fm.World([clients], [fm.Resource("slots", 20, {"serve": 1})])
    >>> seen = {"type": ["client"] * 3, "state": [0, 0, 1], "action": ["wait", "wait", "serve"],
    ...         "next": [0, 1, 0], "count": [4900, 5100, 10000]}
    >>> counts = fm.count_transitions(world, seen)
    >>> fm.learn_world(world, counts, counts).plan.upper.__round__(6)
    20.0
    """
    if not 0 < delta < 1:
        raise ProblemError(f"delta is {delta!r}, expected a probability between 0 and 1")
    first, second = _checked(world, earlier, "earlier"), _checked(world, later, "later")
    early = _with_chances(world, first)
    chosen = solve_world(early, tol=tol)
    both = [a + b for a, b in zip(first, second, strict=True)]
    estimated = _with_chances(world, both)
    seen = np.concatenate([_visits(rows, n).ravel() for rows, n in zip(world.blocks, both, strict=True)])
    upper = math.inf
    if chosen.has_policy:
        prices = np.concatenate([chosen.prices, chosen.group_prices])
        witnesses = [(block.witness, block.mu) for block in chosen.blocks]
        upper = confident_ceiling(early, prices, witnesses, second, delta)
    return WorldEstimate(
        world=estimated,
        plan=solve_world(estimated, tol=tol),
        upper=upper,
        confidence=1 - delta,
        least_seen=int(seen.min()),
        unseen=int((seen == 0).sum()),
    )


def count_transitions(world: World, records: Any) -> tuple[Floats, ...]:
    """Count transitions of each type from a table of records.

    Parameters
    ----------
    world
        The world, for its names.
    records
        A table, as `Log.from_table` takes them, with columns ``type`` (a row's name), ``state``, ``action``,
        ``next`` and perhaps ``count``: how often, by default once.

    Returns
    -------
    tuple of ndarray
        For each of the world's components, (B, n) in the order of ``cols``.
    """
    table = table_of(records)
    cells = [[str(value) for value in table.values(table.column(name, name))] for name in _COLUMNS]
    named = table.named("count")
    often = np.ones(table.n_rows) if named is None else table.numbers(named)
    if (often < 0).any():
        k = int(np.argmax(often < 0))
        raise ProblemError(f"{table.place(k)}: count is {often[k]:g}, expected at least 0")
    counts = tuple(np.zeros((of.n_rows, of.cols.size)) for of in world.components)
    places = {of.row_name(i): (b, i) for b, of in enumerate(world.components) for i in range(of.n_rows)}
    entries = [_entries(of) for of in world.components]
    for k, (row, state, action, after) in enumerate(zip(*cells, strict=True)):
        if row not in places:
            raise ProblemError(
                f"{table.place(k)}: there is no type called {row!r}{there_are(list(places), row)}"
            )
        b, i = places[row]
        entry = entries[b].get((state, action, after))
        if entry is None:
            raise ProblemError(
                f"{table.place(k)}: {row} cannot go from {state} by {action} to {after}\n"
                "  state every transition that there may be in the world's model"
            )
        counts[b][i, entry] += often[k]
    return counts


def _entries(of: Components) -> dict[tuple[str, str, str], int]:
    """Number of each transition by the names of its state, action and next state."""
    pairs = np.repeat(np.arange(of.mdp.n_pairs), np.diff(of.row_ptr)).tolist()
    names = [of.mdp.state_name(s) for s in range(of.mdp.n_states)]
    return {
        (names[of.mdp.s_of[pair]], of.mdp.action_name(pair), names[to]): entry
        for entry, (pair, to) in enumerate(zip(pairs, of.cols.tolist(), strict=True))
    }


def _checked(world: World, counts: WorldCounts, what: str) -> list[Floats]:
    """Counts as arrays of the right shapes."""
    given = [np.asarray(each, dtype=np.float64) for each in counts]
    wanted = [(of.n_rows, of.cols.size) for of in world.components]
    if [each.shape for each in given] != wanted:
        raise ProblemError(f"{what} has shapes {[each.shape for each in given]}, expected {wanted}")
    if not all(np.isfinite(each).all() and (each >= 0).all() for each in given):
        raise ProblemError(f"{what} holds numbers that are no counts")
    return given


def _visits(rows: Rows, counts: Floats) -> Floats:
    """Records of every pair, (B, SA)."""
    return np.add.reduceat(counts, rows.row_ptr[:-1], axis=1)


def _with_chances(world: World, counts: Sequence[Floats]) -> World:
    """The world with the chances that counts say; even ones where there are none."""
    components = []
    for of, rows, seen in zip(world.components, world.blocks, counts, strict=True):
        lengths = np.diff(rows.row_ptr)
        n = np.repeat(_visits(rows, seen), lengths, axis=1)
        P = np.where(n > 0, seen / np.maximum(n, 1.0), 1 / np.repeat(lengths, lengths))
        components.append(Components(of.name, of.mdp, count=of.count, P=P, r=of.r, names=of.names))
    return World(components, world.resources, world.quotas, world.groups)
