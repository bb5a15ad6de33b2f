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
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from scipy.sparse import csr_array

from fairmdp.errors import FormatError
from fairmdp.files import read_bytes, write_bytes
from fairmdp.io.explicit_model import choices
from fairmdp.io.toml_text import (
    MAX_BYTES,
    Place,
    checked,
    inline,
    key_text,
    misfit,
    parsed,
    place_text,
    shown,
)
from fairmdp.model.checks import Floats, there_are
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota

if TYPE_CHECKING:
    from pydantic import BaseModel

VERSION = 1

MAX_TRANSITIONS = 20_000
"""Largest model that is written; a larger one is not for people to read."""


def read(path: str, *, max_bytes: int = MAX_BYTES) -> Problem:
    """Read a problem; the message of an error begins with the field."""
    raw = parsed(read_bytes(path, max_bytes))
    return _Reader(checked(raw, "fairmdp", VERSION, "problem", _schema)).problem()


def write(problem: Problem, path: str, *, max_transitions: int = MAX_TRANSITIONS) -> None:
    """Write a problem, in the layout above."""
    transitions = problem.mdp.P.nnz
    if transitions > max_transitions:
        raise FormatError(
            f"the model has {transitions:,} transitions, TOML is written up to {max_transitions:,}\n"
            "  save it as .npz"
        )
    write_bytes(path, "".join(_pieces(problem)).encode())


@cache
def _schema() -> type[BaseModel]:
    from pydantic import BaseModel, ConfigDict, Field

    class Strict(BaseModel):
        model_config = ConfigDict(strict=True, extra="forbid")

    class Pair(Strict):
        reward: float
        rewards: dict[str, float] | None = None
        to: dict[str, float]
        duration: float | None = None

    class QuotaTable(Strict):
        name: str
        states: list[str] | None = None
        pairs: list[Annotated[list[str], Field(min_length=2, max_length=2)]] | None = None
        at_least: float | None = None
        at_most: float | None = None
        weights: dict[str, Any] | None = None
        of: list[str] | None = None
        expected: bool = False

    class File(Strict):
        fairmdp: int
        states: list[str] | None = None
        initial: Any = None
        time_unit: str | None = None
        model: dict[str, dict[str, Pair]]
        quotas: list[QuotaTable] | None = None

    return File


class _Reader:
    """From the validated content of a file to a problem, while names can still be told by their place."""

    def __init__(self, file: Any) -> None:
        self._file, self._model = file, file.model
        self._order = self._state_order()
        self._numbers = {name: s for s, name in enumerate(self._order)}

    def problem(self) -> Problem:
        """Return the problem."""
        file, model = self._file, self._model
        pairs = [(state, action) for state in self._order for action in model[state]]
        tables = [model[state][action] for state, action in pairs]
        columns = [
            self._state(target, ("model", *pair, "to", target))
            for pair, table in zip(pairs, tables, strict=True)
            for target in table.to
        ]
        data = np.array([p for table in tables for p in table.to.values()], dtype=np.float64)
        indptr = np.cumsum([0, *(len(table.to) for table in tables)])
        mdp = MDP(
            csr_array((data, np.array(columns, np.int64), indptr), shape=(len(pairs), len(self._order))),
            [table.reward for table in tables],
            [self._numbers[state] for state, _ in pairs],
            states=self._order,
            actions=[action for _, action in pairs],
            initial=self._initial(),
            rewards=_named_rewards(tables),
            durations=self._durations(pairs),
            time_unit=file.time_unit,
        )
        return Problem(mdp, [self._quota(("quotas", k), table) for k, table in enumerate(file.quotas or ())])

    def _initial(self) -> Floats | None:
        """Where it starts: one state by name, or a table of probabilities."""
        given = self._file.initial
        if given is None:
            return None
        if isinstance(given, str):
            given = {self._order[self._state(given, ("initial",))]: 1.0}
        if not isinstance(given, dict):
            raise misfit(("initial",), f"expected a state or a table of probabilities, got {shown(given)}")
        initial = np.zeros(len(self._order))
        for name, p in given.items():
            if type(p) not in (int, float):
                raise misfit(("initial", name), f"expected a number, got {shown(p)}")
            initial[self._state(name, ("initial", name))] = p
        return initial

    def _durations(self, pairs: Sequence[tuple[str, str]]) -> list[float] | None:
        """Duration of each pair, if they have any."""
        found = [self._model[state][action].duration for state, action in pairs]
        if all(duration is None for duration in found):
            return None
        if None in found:
            place = ("model", *pairs[found.index(None)], "duration")
            raise misfit(place, "this field is missing; other actions have one")
        return found

    def _state_order(self) -> list[str]:
        """States in the order asked for, each with a table that has an action."""
        if not self._model:
            raise misfit(("model",), "there are no states in it")
        for name, actions in self._model.items():
            if not actions:
                raise misfit(("model", name), "this state has no action")
        if self._file.states is None:
            return list(self._model)
        listed: dict[str, None] = {}
        for k, name in enumerate(self._file.states):
            if name not in self._model:
                missing = place_text(("model", name))
                raise misfit(("states", k), f"there is no table [{missing}.<action>]")
            if name in listed:
                raise misfit(("states", k), f"{shown(name)} is listed twice")
            listed[name] = None
        for name in self._model:
            if name not in listed:
                raise misfit(("model", name), "this state is not listed in states")
        return list(listed)

    def _quota(self, place: Place, table: Any) -> Quota:
        for j, name in enumerate(table.states or ()):
            self._state(name, (*place, "states", j))
        for j, name in enumerate(table.of or ()):
            self._state(name, (*place, "of", j))
        for j, (state, action) in enumerate(table.pairs or ()):
            self._check_pair(state, action, (*place, "pairs", j))
        weights = None
        if table.weights is not None:
            weights = dict(self._weights((*place, "weights"), table.weights))
        bounds = table.at_least, table.at_most
        return Quota(
            table.name, table.states, table.pairs, *bounds, weights, table.of, expected=table.expected
        )

    def _weights(
        self, place: Place, table: Mapping[str, Any]
    ) -> Iterator[tuple[str | tuple[str, str], float]]:
        """States and pairs with their weights: a number is for a state, a table for its actions."""
        for state, weight in table.items():
            if isinstance(weight, dict):
                for action, number in weight.items():
                    self._check_pair(state, action, (*place, state, action))
                    yield (state, action), _weight(number, (*place, state, action))
            else:
                self._state(state, (*place, state))
                yield state, _weight(weight, (*place, state))

    def _check_pair(self, state: str, action: str, place: Place) -> None:
        self._state(state, place)
        if action not in self._model[state]:
            known = there_are(list(self._model[state]), action)
            raise misfit(place, f"state {shown(state)} has no action called {shown(action)}{known}")

    def _state(self, name: str, place: Place) -> int:
        if name not in self._numbers:
            raise misfit(place, f"there is no state called {shown(name)}{there_are(self._order, name)}")
        return self._numbers[name]


def _named_rewards(tables: Sequence[Any]) -> dict[str, list[float]]:
    """Rewards by name, one number for each pair."""
    named = [table.rewards or {} for table in tables]
    names = dict.fromkeys(name for row in named for name in row)
    return {name: [row.get(name, 0.0) for row in named] for name in names}


def _weight(value: Any, place: Place) -> float:
    if type(value) not in (int, float):
        raise misfit(place, f"expected a number, got {shown(value)}")
    return float(value)


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
