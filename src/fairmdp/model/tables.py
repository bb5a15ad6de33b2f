"""A model from a table of its transitions, and quotas from a table of groups.

One row says where an action of a state can lead: state, action, next, probability, reward. Every mistake is
named by the line of the file, or the row of the frame.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from fairmdp.errors import ProblemError
from fairmdp.files import naming
from fairmdp.model.checks import Floats, Ints, closest, first, first_repeat, refuse
from fairmdp.model.columns import Table, is_missing, table_of
from fairmdp.model.mdp import MDP
from fairmdp.model.objects import text_of
from fairmdp.model.quota import Quota
from fairmdp.model.transitions import ROW_SUM_TOL

ROLES = ("state", "action", "next", "probability", "reward")
"""What the columns of a table of transitions say."""

DURATION = "duration"
"""Column of the time that each action takes, where they differ; it may be missing."""

GROUP, BOUNDS = "group", ("at_least", "at_most")
"""What the further columns of a table of groups say."""

_WHOLE = re.compile(r"0|[1-9]\d{0,17}")
_MOST_LINES = 5  # that a message names


def mdp_of(table: Table, columns: Mapping[str, str | None] | None, initial: ArrayLike | None) -> MDP:
    """Build the model of a table of transitions; `MDP.from_table` says how."""
    named = _roles(table, ROLES, columns)
    state = whole_if_all_are(table.values(named["state"]))
    following = whole_if_all_are(table.values(named["next"]))
    numbers = numbered(state)
    s = np.array([numbers[value] for value in state])
    pair, row_of_pair, labels = _pairs(table, named, s)
    target = _targets(table, following, numbers)
    chance = _chances(table, named, pair, target, len(numbers))
    time = table.named((columns or {}).get(DURATION) or DURATION)
    rewards = {
        name: _averaged(table.numbers(name), chance, pair) for name in _reward_columns(table, named, time)
    }
    P = csr_array((chance, (pair, target)), shape=(row_of_pair.size, len(numbers)))
    r = rewards[named["reward"]]
    return MDP(
        P,
        r,
        s[row_of_pair],
        states=list(numbers),
        actions=labels,
        initial=initial,
        rewards=rewards if len(rewards) > 1 else None,
        durations=None if time is None else _averaged(table.numbers(time), chance, pair),
    )


def quotas_from_table(table: Any, *, columns: Mapping[str, str | None] | None = None) -> list[Quota]:
    """Quotas on groups, from a table with columns state and group, and perhaps at_least and at_most.

    A state may be in several groups, and a blank group is none. With a column action, a group consists of
    pairs. A bound stands in one row of its group, or is the same in several; a group without bounds asks for
    nothing yet.

    Parameters
    ----------
    table
        As `MDP.from_table` takes it.
    columns
        Which column is what, where the names differ.

    Examples
    --------
    >>> table = {"state": ["a", "b", "c"], "group": ["north", "north", "south"], "at_least": ["25%", "", 0.1]}
    >>> quotas_from_table(table)
    [Quota('north', at_least=0.25), Quota('south', at_least=0.1)]
    """
    if isinstance(table, str | PathLike):
        with naming(table):
            return groups_of(table_of(table), columns)
    return groups_of(table_of(table), columns)


def groups_of(table: Table, columns: Mapping[str, str | None] | None = None) -> list[Quota]:
    """Quotas of a table of groups; `quotas_from_table` says how."""
    named = _roles(table, ("state", GROUP), columns)
    action = table.named((columns or {}).get("action") or "action")
    members: dict[str, list[int]] = {}
    for k, group in enumerate(table.columns[named[GROUP]]):
        if not is_missing(group):
            members.setdefault(text_of(group), []).append(k)
    if not members:
        raise ProblemError(f"column {named[GROUP]} names no group")
    states = [text_of(state) for state in whole_if_all_are(table.values(named["state"]))]
    bounds = {side: column for side in BOUNDS if (column := table.named(side)) is not None}
    quotas = []
    for group, rows in members.items():
        found = {side: _bound(table, column, group, rows) for side, column in bounds.items()}
        stated: dict[str, Any] = {side: bound for side, bound in found.items() if bound is not None}
        stated = stated or {"at_least": 0.0}
        if action is None:
            quotas.append(Quota(group, states=list(dict.fromkeys(states[k] for k in rows)), **stated))
        else:
            pairs = [(states[k], text_of(table.columns[action][k])) for k in rows]
            quotas.append(Quota(group, pairs=list(dict.fromkeys(pairs)), **stated))
    return quotas


def groups_of_states(table: Table) -> list[Quota]:
    """Quotas of the groups that a table of transitions names beside its states, if it does."""
    group, state = table.named(GROUP), table.named("state")
    if group is None or state is None:
        return []
    of: dict[Any, int] = {}
    for k, value in enumerate(table.columns[state]):
        before = of.setdefault(value, k)
        if table.columns[group][before] != table.columns[group][k]:
            refuse(
                f"{table.place(k)}: state {value} is in group {table.columns[group][k]!r}, "
                f"at {table.place(before)} it is in {table.columns[group][before]!r}",
                "in a table of transitions a state has one group",
                "write a table of its own for groups that overlap, with columns state and group",
            )
    return groups_of(Table({name: table.columns[name] for name in (state, group)}, table.place))


def _roles(table: Table, roles: Sequence[str], columns: Mapping[str, str | None] | None) -> dict[str, str]:
    """Name of the column of each role; an action may be said not to be there."""
    given = dict(columns or {})
    for role in given:
        if role not in ROLES and role not in (DURATION, GROUP, *BOUNDS):
            raise ProblemError(f"columns names {role!r}, expected {', '.join(ROLES)}")
    asked = [role for role in roles if not (role == "action" and role in given and given[role] is None)]
    return {role: table.column(given.get(role) or role, role) for role in asked}


def whole_if_all_are(values: list[Any]) -> list[Any]:
    """Names that are whole numbers, written as text or as floats, as the numbers that they are."""
    distinct = set(values)
    if all(isinstance(value, str) and _WHOLE.fullmatch(value) for value in distinct):
        return list(map(int, values))
    if all(isinstance(value, float) and value.is_integer() for value in distinct):
        return list(map(int, values))
    return values


def numbered(states: list[Any]) -> dict[Hashable, int]:
    """Number of each state: as they appear, but ascending where all are whole numbers."""
    distinct = list(dict.fromkeys(states))
    if all(type(state) is int for state in distinct):
        distinct.sort()
    return {state: s for s, state in enumerate(distinct)}


def _pairs(table: Table, named: Mapping[str, str], s: Ints) -> tuple[Ints, Ints, list[str] | None]:
    """Pair of each row, the first row of each pair, and its action; pairs of a state are as they appear."""
    if "action" not in named:
        pair = s
        _, rows = np.unique(s, return_index=True)
        return pair, rows, None
    actions = list(map(text_of, table.values(named["action"])))
    known: dict[str, int] = {}
    a = np.array([known.setdefault(action, len(known)) for action in actions])
    key, rows, of = np.unique(s * len(known) + a, return_index=True, return_inverse=True)
    order = np.lexsort((rows, key // len(known)))
    place = np.argsort(order)
    return place[of], rows[order], [actions[k] for k in rows[order].tolist()]


def _targets(table: Table, following: list[Any], numbers: Mapping[Hashable, int]) -> Ints:
    """Number of the next state of each row."""
    try:
        return np.array([numbers[value] for value in following])
    except KeyError:
        k = next(k for k, value in enumerate(following) if value not in numbers)
    name = following[k]
    near = closest(text_of(name), list(map(text_of, numbers)))
    refuse(
        f"{table.place(k)}: it leads to {name!r}, and no row says what happens there",
        f"{sum(value not in numbers for value in following)} of {len(following)} rows lead to such states",
        f"did you mean {near!r}?"
        if near is not None
        else "a state where nothing can be done needs one action that says what happens next",
    )


def _chances(table: Table, named: Mapping[str, str], pair: Ints, target: Ints, n_states: int) -> Floats:
    """Probability of each row: a number from 0 to 1, one per next state, and 1 for all rows of a pair."""
    chance = table.numbers(named["probability"])
    if (k := first((chance < 0) | (chance > 1))) is not None:
        raise ProblemError(f"{table.place(k)}: probability is {chance[k]:g}, expected a number from 0 to 1")
    key = pair * n_states + target
    if (k := first_repeat(key)) is not None:
        before = int(np.argmax(key == key[k]))
        refuse(
            f"{table.place(k)} and {table.place(before)} have the same state, action and next state",
            f"their probabilities are {chance[before]:g} and {chance[k]:g}",
            "remove one of them, or add them up in one row",
        )
    total = np.bincount(pair, chance)
    off = np.abs(total - 1) > ROW_SUM_TOL
    if (i := first(off)) is not None:
        rows = np.flatnonzero(pair == i)
        where = ", ".join(table.place(k) for k in rows[:_MOST_LINES].tolist())
        at = " and ".join(
            f"{role} {table.columns[named[role]][rows[0]]}" for role in ("state", "action") if role in named
        )
        refuse(
            f"{table.place(int(rows[0]))}: the probabilities of {at} sum to {total[i]:.12g}, expected 1",
            f"they are in {where}{' and others' if rows.size > _MOST_LINES else ''}; "
            f"{int(off.sum())} of {off.size} sums are wrong",
            "a row is missing, or rounded: a third may be written as 1/3",
        )
    return chance


def _reward_columns(table: Table, named: Mapping[str, str], time: str | None) -> list[str]:
    """The column of the reward, and all others that hold numbers; those that hold text are notes."""
    taken = {*named.values(), table.named(GROUP), time}
    others = [name for name in table.columns if name not in taken]
    return [named["reward"], *(name for name in others if _holds_numbers(table, name))]


def _holds_numbers(table: Table, name: str) -> bool:
    """Whether a column begins with a number; if so, all of it must be numbers."""
    try:
        Table({name: table.columns[name][:1]}, table.place).numbers(name)
    except ProblemError:
        return False
    return True


def _averaged(paid: Floats, chance: Floats, pair: Ints) -> Floats:
    """Mean reward of each pair, exact where all its rows have the same."""
    low = np.full(int(pair.max()) + 1, np.inf)
    high = -low
    np.minimum.at(low, pair, paid)
    np.maximum.at(high, pair, paid)
    return np.where(low == high, low, np.bincount(pair, chance * paid))


def _bound(table: Table, column: str, group: str, rows: list[int]) -> float | None:
    """The bound of a group, which stands in one of its rows or is the same in several."""
    stated = [k for k in rows if not is_missing(table.columns[column][k])]
    if not stated:
        return None
    part = Table({column: [table.columns[column][k] for k in stated]}, lambda k: table.place(stated[k]))
    numbers = part.numbers(column)
    if (k := first(numbers != numbers[0])) is not None:
        raise ProblemError(
            f"{part.place(k)}: {column} of group {group} is {numbers[k]:g}, at {part.place(0)} {numbers[0]:g}"
        )
    return float(numbers[0])
