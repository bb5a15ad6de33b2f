"""Records as people have them, tables and trajectories, as a `Log`."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats, Ints, first, numeric, refuse
from fairmdp.model.columns import Table
from fairmdp.model.labels import Labels
from fairmdp.model.objects import state_labels, text_of
from fairmdp.model.tables import numbered, whole_if_all_are
from fairmdp.records.log import LOG_ROLES, NOT_RECORDED, Log, name_of

RESTART = "restart"
"""Name of the action that leads from the end of an episode to the beginning of the next."""

_LATE = 1.5  # times the usual step in time, beyond which something is missing between two records
_MOST_RECORDS = 2**27
_ZONE = re.compile(r":\d\d.*(Z|[+-]\d\d:?\d\d)$")
_EPISODE = {"states": ("observations", "states"), "actions": ("actions",), "rewards": ("rewards",)}


def log_of(table: Table, columns: Mapping[str, str | None] | None) -> Log:
    """Read a table of records; `Log.from_table` says how."""
    named = _roles(table, dict(columns or {}))
    stated = table.values(named["next"]) if "next" in named else []
    known = whole_if_all_are([*table.values(named["state"]), *stated])
    state, following = known[: table.n_rows], known[table.n_rows :]
    action = [text_of(name_of(a)) for a in table.values(named["action"])]
    rewards = table.numbers(named["reward"])
    trajectory = _numbers_of(table, named.get("trajectory"))
    times, anew = _times(table, named.get("time"), trajectory)
    weights = _weights(table, named.get("weight"))
    order = np.arange(table.n_rows) if weights is not None else np.lexsort((times, trajectory))
    if "next" not in named:
        if weights is not None:
            raise ProblemError("rows that stand for many records have no order: there must be a column next")
        order, following = _derived(order, trajectory, state)
    labels, pairs, s_next = _labelled([(state[n], action[n], following[n]) for n in order.tolist()])
    if weights is not None:
        return _repeated(labels, pairs, s_next, rewards, weights)
    log = _linked(
        labels, pairs, s_next, rewards[order], times[order], trajectory[order], timed="time" in named
    )
    return replace(log, times=np.arange(float(log.n_records))) if anew else log


def log_of_trajectories(trajectories: Iterable[Any], on_terminate: str | None) -> Log:
    """Read trajectories; `Log.from_trajectories` says how."""
    if on_terminate not in (None, "restart", "absorb"):
        raise ProblemError(f"on_terminate is {on_terminate!r}, expected 'restart' or 'absorb'")
    episodes = [_episode(n, episode) for n, episode in enumerate(trajectories)]
    if not episodes:
        raise ProblemError("there are no trajectories")
    steps: list[tuple[Hashable, str, Hashable]] = []
    rewards: list[float] = []
    number: list[int] = []
    for n, (states, actions, paid, ended) in enumerate(episodes):
        if ended and on_terminate is None:
            raise ProblemError(
                f"trajectory {n} ends by itself in state {text_of(states[-1])}\n"
                "  say what follows: on_terminate='restart', a new episode, or 'absorb', nothing ever"
            )
        steps += zip(states, actions, states[1:], strict=False)
        rewards += paid.tolist()
        if ended and on_terminate == "restart" and n + 1 < len(episodes):
            steps.append((states[-1], RESTART, episodes[n + 1][0][0]))
            rewards.append(0.0)
        number += [n] * (len(steps) - len(number))
    if not steps:
        raise ProblemError("the trajectories have no steps")
    labels, pairs, s_next = _labelled(steps)
    of = np.array(number)
    if on_terminate == "restart":
        of = np.cumsum(np.diff(of, prepend=0) * ~_joined(labels, pairs, s_next))
    return _linked(labels, pairs, s_next, np.array(rewards), np.arange(float(of.size)), of, timed=False)


def _joined(labels: Labels, pairs: Ints, s_next: Ints) -> Bools:
    """Whether the record before is a restart that leads to the state of each, (N,)."""
    restart = np.array([labels.action_name(i) == RESTART for i in range(labels.n_pairs)])
    before = np.concatenate([[False], restart[pairs[:-1]]])
    return before & (np.concatenate([[-1], s_next[:-1]]) == labels.s_of[pairs])


def _roles(table: Table, columns: dict[str, str | None]) -> dict[str, str]:
    """Name of the column of each role that there is."""
    for role in columns:
        if role not in LOG_ROLES:
            raise ProblemError(f"columns names {role!r}, expected {', '.join(LOG_ROLES)}")
    named = {}
    for role in LOG_ROLES:
        stated = columns.get(role, role)
        if stated is None and role in ("state", "action", "reward"):
            raise ProblemError(f"columns says that there is no {role}, which a record must have")
        if stated is None:
            continue
        if role in columns or role in LOG_ROLES[:4]:
            named[role] = table.column(stated, role)
        elif (found := table.named(role)) is not None:
            named[role] = found
    return named


def _numbers_of(table: Table, name: str | None) -> Ints:
    """Number of the trajectory of each row, as they appear, (N,)."""
    if name is None:
        return np.zeros(table.n_rows, np.int64)
    known: dict[Any, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in table.values(name)])


def _times(table: Table, name: str | None, trajectory: Ints) -> tuple[Floats, bool]:
    """Time of each row as a number, dates in seconds, else its place, (N,); and whether all begin anew.

    Numbers that begin with each trajectory where they began with the others are its steps.
    """
    if name is None:
        return np.arange(float(table.n_rows)), False
    values = table.values(name)
    if not _are_numbers(values):
        return _dates(table, name, values), False
    times, begun = table.numbers(name), np.full(int(trajectory.max()) + 1, np.inf)
    np.minimum.at(begun, trajectory, times)
    return times, bool(begun.size > 1 and (begun == begun[0]).all())


def _are_numbers(values: list[Any]) -> bool:
    try:
        np.array(values, float)
    except (TypeError, ValueError):
        return False
    return not any(isinstance(value, np.datetime64) for value in values[:1])


def _dates(table: Table, name: str, values: list[Any]) -> Floats:
    """Dates in seconds, (N,)."""
    zoned = [_has_zone(value) for value in values]
    if any(zoned) and not all(zoned):
        k = zoned.index(False)
        raise ProblemError(f"{table.place(k)}: {name} is {values[k]!r} without a zone, and others have one")
    try:
        if any(zoned):
            return np.array([_moment(value).timestamp() for value in values])
        return np.array(values, dtype="datetime64[us]").astype(np.int64) / 1e6
    except (TypeError, ValueError):
        pass
    try:
        return table.numbers(name)
    except ProblemError as error:
        raise ProblemError(f"{error}, or a date\n  write dates as 2026-11-19 or 2026-11-19T08:00") from None


def _has_zone(value: Any) -> bool:
    """Whether a time says where on the earth."""
    if isinstance(value, str):
        return _ZONE.search(value) is not None
    return getattr(value, "tzinfo", None) is not None


def _moment(value: Any) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _weights(table: Table, name: str | None) -> Ints | None:
    """How many records each row stands for, (N,)."""
    if name is None:
        return None
    weights = table.numbers(name)
    bad = (weights < 0) | (weights != np.floor(weights))
    if (k := first(bad)) is not None:
        refuse(
            f"{table.place(k)}: {name} is {weights[k]:g}, expected a whole number",
            f"{int(bad.sum())} of {bad.size} weights are none",
            "a weight says how many equal records a row stands for",
        )
    if not 0 < weights.sum() <= _MOST_RECORDS:
        raise ProblemError(f"{name} sums to {weights.sum():.4g}, expected 1 to {_MOST_RECORDS:,} records")
    return weights.astype(np.int64)


def _derived(order: Ints, trajectory: Ints, state: list[Any]) -> tuple[Ints, list[Any]]:
    """Rows that have a next one in their trajectory, in order, and the state of that."""
    last = np.append(np.diff(trajectory[order]) != 0, True)
    following: list[Any] = [None] * len(state)
    for n, after in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
        following[n] = state[after]
    if last.all():
        raise ProblemError("no row has a next one in its trajectory, from which its next state could be read")
    return order[~last], following


def _labelled(steps: Sequence[tuple[Hashable, str, Hashable]]) -> tuple[Labels, Ints, Ints]:
    """Names of all states and recorded actions, and the pair and next state of each step."""
    numbers = numbered([*(s for s, _, _ in steps), *(t for _, _, t in steps)])
    s = np.array([numbers[state] for state, _, _ in steps])
    known: dict[str, int] = {}
    a = np.array([known.setdefault(action, len(known)) for _, action, _ in steps])
    key, rows, of = np.unique(s * len(known) + a, return_index=True, return_inverse=True)
    never_left = np.setdiff1d(np.arange(len(numbers)), s)
    state = np.concatenate([key // len(known), never_left])
    names = [list(known)[k % len(known)] for k in key.tolist()] + [NOT_RECORDED] * never_left.size
    order = np.lexsort((np.concatenate([rows, never_left]), state))
    place = np.argsort(order)
    pair_ptr = np.searchsorted(state[order], np.arange(len(numbers) + 1))
    labels = Labels(state_labels(list(numbers), len(numbers))[0], tuple(names[k] for k in order), pair_ptr)
    return labels, place[of], np.array([numbers[state] for _, _, state in steps])


def _linked(
    labels: Labels,
    pairs: Ints,
    s_next: Ints,
    rewards: Floats,
    times: Floats,
    trajectory: Ints,
    *,
    timed: bool,
) -> Log:
    """The log of records in order, with those marked that follow the one before."""
    same = np.diff(trajectory, prepend=-1) == 0
    meets = np.concatenate([[False], s_next[:-1] == labels.s_of[pairs[1:]]])
    steps = np.diff(times, prepend=np.nan)
    late = steps > _LATE * np.median(steps[same]) if timed and same.any() else np.zeros(same.size, bool)
    follows = same & meets & ~late
    return Log(labels, pairs, s_next, rewards, times, follows, gaps=int((same & ~follows).sum()))


def _repeated(labels: Labels, pairs: Ints, s_next: Ints, rewards: Floats, weights: Ints) -> Log:
    """The log of rows that stand for many records, which are put into a random order."""
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(pairs.size), weights))
    times, nothing = np.arange(float(rows.size)), np.zeros(rows.size, bool)
    return Log(labels, pairs[rows], s_next[rows], rewards[rows], times, nothing, ordered=False)


def _episode(n: int, given: Any) -> tuple[list[Hashable], list[str], Floats, bool]:
    """States, actions and rewards of a trajectory, and whether it ended by itself."""
    if isinstance(given, tuple | list) and len(given) == 3:
        parts, ended = dict(zip(_EPISODE, given, strict=True)), False
    else:
        parts = {what: _entry(n, given, what, names) for what, names in _EPISODE.items()}
        terminations = _found(given, ("terminations",))
        ended = terminations is not None and len(terminations) > 0 and bool(terminations[-1])
    states = [name_of(state) for state in parts["states"]]
    actions = [text_of(name_of(action)) for action in parts["actions"]]
    paid = numeric(f"rewards of trajectory {n}", parts["rewards"])
    if paid.shape != (len(actions),) or len(states) != len(actions) + 1:
        raise ProblemError(
            f"trajectory {n} has {len(states)} states, {len(actions)} actions and {paid.size} rewards\n"
            "  there must be one more state than actions, the last one's, and a reward for each action"
        )
    return states, actions, paid, ended


def _found(given: Any, names: Sequence[str]) -> Any:
    for name in names:
        found = given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)
        if found is not None:
            return found
    return None


def _entry(n: int, given: Any, what: str, names: Sequence[str]) -> Any:
    found = _found(given, names)
    if found is None:
        raise ProblemError(
            f"trajectory {n} is a {type(given).__name__} without {what}\n"
            "  give (states, actions, rewards), or what has observations, actions and rewards"
        )
    return found
