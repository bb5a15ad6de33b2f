"""Problems as TOML, the format that people write by hand.

::

    fairmdp = 1                          # version of the format
    states = ["s0", "s1"]                # optional: their order; else that of the tables below
    initial = "s0"                       # optional: where it starts; or { s0 = 0.5, s1 = 0.5 }
    time_unit = "hour"                   # optional

    [model.s0.go]                        # one table per state and action
    reward = 1.0
    rewards = { energy = 2.0 }           # optional: others, which quotas may bound; what is missing is 0
    to = { s1 = 0.9, s0 = 0.1 }
    duration = 0.5                       # mean time that it takes: of every pair, or of none
    [model.s1.stay]
    reward = 0.0
    to = { s0 = 1.0 }
    duration = 2.0

    [[quotas]]
    name = "rest"
    states = ["s1"]                      # or pairs = [["s1", "stay"]]
    at_least = 0.25                      # and/or at_most
    expected = true                      # optional: of the mean over runs, and not of every run

    [[quotas]]
    name = "no more stays than goes"
    weights = { s0 = 1.0, s1 = { stay = -1.0 } }    # instead of a set; what is not named counts 0
    at_least = 0.0

    [[quotas]]
    name = "of the time in s0, going"
    pairs = [["s0", "go"]]
    of = ["s0"]                          # the bound is on the part of the time in these states
    at_least = 0.5
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from fairmdp.errors import FormatError
from fairmdp.files import read_bytes, write_bytes
from fairmdp.io.explicit_model import choices
from fairmdp.io.toml_schema import ProblemFile
from fairmdp.io.toml_text import MAX_BYTES, Names, Place, checked, inline, key_text, misfit, number, shown
from fairmdp.model.checks import Floats
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota

VERSION = 1

MAX_TRANSITIONS = 20_000
"""Largest model that is written; a larger one is not for people to read."""


def read(path: str, *, max_bytes: int = MAX_BYTES) -> Problem:
    """Read a problem; the message of an error begins with the field."""
    return _problem(checked(read_bytes(path, max_bytes), ProblemFile, "fairmdp", VERSION, "problem"))


def write(problem: Problem, path: str, *, max_transitions: int = MAX_TRANSITIONS) -> None:
    """Write a problem, in the layout above."""
    transitions = problem.mdp.P.nnz
    if transitions > max_transitions:
        raise FormatError(
            f"the model has {transitions:,} transitions, TOML is written up to {max_transitions:,}\n"
            "  save it as .npz"
        )
    write_bytes(path, "".join(_pieces(problem)).encode())


def _problem(file: ProblemFile) -> Problem:
    """The problem of a validated file."""
    names = Names((), file.states, file.model, "there is")
    places, tables = zip(*names.tables(), strict=True)
    columns = [
        names.state((*place, "to", target), target)
        for place, table in zip(places, tables, strict=True)
        for target in table.to
    ]
    data = np.array([p for table in tables for p in table.to.values()], dtype=np.float64)
    indptr = np.cumsum([0, *(len(table.to) for table in tables)])
    mdp = MDP(
        csr_array((data, np.array(columns, np.int64), indptr), shape=(len(tables), len(names.states))),
        [table.reward for table in tables],
        [names.numbers[state] for state, _ in names.pairs],
        states=names.states,
        actions=[action for _, action in names.pairs],
        initial=_initial(file.initial, names),
        rewards=_named_rewards(tables),
        durations=_durations(names),
        time_unit=file.time_unit,
    )
    return Problem(mdp, [_quota(("quotas", k), table, names) for k, table in enumerate(file.quotas or ())])


def _initial(given: Any, names: Names) -> Floats | None:
    """Where it starts: one state by name, or a table of probabilities."""
    if given is None:
        return None
    initial = np.zeros(len(names.states))
    if isinstance(given, str):
        initial[names.state(("initial",), given)] = 1.0
        return initial
    if not isinstance(given, dict):
        raise misfit(("initial",), f"expected a state or a table of probabilities, got {shown(given)}")
    for name, p in given.items():
        initial[names.state(("initial", name), name)] = number(("initial", name), p)
    return initial


def _durations(names: Names) -> list[float] | None:
    """Duration of each pair, if they have any."""
    places, found = zip(*((place, table.duration) for place, table in names.tables()), strict=True)
    if all(duration is None for duration in found):
        return None
    if None in found:
        place = (*places[found.index(None)], "duration")
        raise misfit(place, "this field is missing; other actions have one")
    return list(found)


def _quota(place: Place, table: Any, names: Names) -> Quota:
    names.check_counted(place, table)
    for k, name in enumerate(table.of or ()):
        names.state((*place, "of", k), name)
    weights = None if table.weights is None else dict(_weights((*place, "weights"), table.weights, names))
    bounds = table.at_least, table.at_most
    return Quota(table.name, table.states, table.pairs, *bounds, weights, table.of, expected=table.expected)


def _weights(
    place: Place, table: Mapping[str, Any], names: Names
) -> Iterator[tuple[str | tuple[str, str], float]]:
    """States and pairs with their weights: a number is for a state, a table for its actions."""
    for state, weight in table.items():
        if isinstance(weight, dict):
            for action, each in weight.items():
                names.pair((*place, state, action), state, action)
                yield (state, action), number((*place, state, action), each)
        else:
            names.state((*place, state), state)
            yield state, number((*place, state), weight)


def _named_rewards(tables: Sequence[Any]) -> dict[str, list[float]]:
    """Rewards by name, one number for each pair."""
    named = [table.rewards or {} for table in tables]
    names = dict.fromkeys(name for row in named for name in row)
    return {name: [row.get(name, 0.0) for row in named] for name in names}


def _pieces(problem: Problem) -> Iterator[str]:
    """Text of the file: the head, one table per pair, one per quota."""
    mdp = problem.mdp
    states = [mdp.state_name(s) for s in range(mdp.n_states)]
    yield f"fairmdp = {VERSION}\nstates = {inline(states)}\n"
    if mdp.initial is not None:
        first = {states[s]: float(mdp.initial[s]) for s in np.flatnonzero(mdp.initial)}
        yield f"initial = {inline(next(iter(first)) if len(first) == 1 else first)}\n"
    if mdp.time_unit is not None:
        yield f"time_unit = {inline(mdp.time_unit)}\n"
    for i, s, _, row in choices(mdp):
        yield f"\n[model.{key_text(states[s])}.{key_text(mdp.action_name(i))}]\n"
        to = {states[target]: p for target, p in row}
        yield f"reward = {inline(float(mdp.r[i]))}\n"
        if mdp.reward_names:
            yield f"rewards = {inline({name: float(row[i]) for name, row in mdp.rewards.items()})}\n"
        if mdp.durations is not None:
            yield f"duration = {inline(float(mdp.durations[i]))}\n"
        yield f"to = {inline(to)}\n"
    for k, quota in enumerate(problem.quotas):
        yield f"\n[[quotas]]\nname = {inline(quota.name)}\n"
        if quota.states is not None:
            yield f"states = {inline([states[s] for s in np.asarray(quota.states).tolist()])}\n"
        if quota.pairs is not None:
            pairs = [[states[mdp.s_of[i]], mdp.action_name(i)] for i in np.asarray(quota.pairs).tolist()]
            yield f"pairs = {inline(pairs)}\n"
        if quota.of is not None:
            yield f"of = {inline([states[int(s)] for s in np.asarray(quota.of)])}\n"
        if quota.weights is not None:
            yield f"weights = {inline(_weight_table(problem, k))}\n"
        for side in ("at_least", "at_most"):
            if getattr(quota, side) is not None:
                yield f"{side} = {inline(getattr(quota, side))}\n"
        if quota.expected:
            yield "expected = true\n"


def _weight_table(problem: Problem, k: int) -> dict[str, Any]:
    """What counts for a weighted quota, by state or by state and action."""
    mdp = problem.mdp
    counted = problem.weights[[k]]
    table: dict[str, Any] = {}
    for i, weight in zip(counted.indices.tolist(), counted.data.tolist(), strict=True):
        state = mdp.state_name(mdp.s_of[i])
        if problem.over_states[k]:
            table[state] = weight
        else:
            table.setdefault(state, {})[mdp.action_name(i)] = weight
    return table
