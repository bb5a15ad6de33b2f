"""Names and numbers of states, actions and state-action pairs, with a model or without it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import (
    Ints,
    ReadOnly,
    first_repeat,
    names_of,
    number_within,
    refuse,
    there_are,
)
from fairmdp.model.objects import text_of


class Labelled:
    """What has states with actions: pairs in the order of their states, each by number and by name."""

    pair_ptr: Ints
    s_of: Ints
    states: tuple[str, ...] | None
    actions: tuple[str, ...] | None

    @property
    def n_states(self) -> int:
        """Number of states, S."""
        return int(self.pair_ptr.size) - 1

    @property
    def n_pairs(self) -> int:
        """Number of feasible state-action pairs, SA."""
        return int(self.s_of.size)

    @property
    def n_actions(self) -> Ints:
        """Number of actions of each state, (S,)."""
        return np.diff(self.pair_ptr)

    @cached_property
    def state_numbers(self) -> dict[str, int]:
        """Number of each state that has a name."""
        return {name: s for s, name in enumerate(self.states or ())}

    def state_name(self, s: int) -> str:
        """Name of a state: its own, or its number."""
        return self.states[s] if self.states else str(s)

    def action_name(self, i: int) -> str:
        """Name of the action of pair ``i``: its own, or ``a{k}`` for the k-th action of its state."""
        return self.actions[i] if self.actions else f"a{i - self.pair_ptr[self.s_of[i]]}"

    def pair_name(self, i: int) -> str:
        """Name of a pair, ``state/action``."""
        return f"{self.state_name(int(self.s_of[i]))}/{self.action_name(i)}"

    def pair_text(self, i: int) -> str:
        """Pair ``i`` in words, for messages."""
        return f"state {self.state_name(int(self.s_of[i]))}, action {self.action_name(i)}"

    def state_index(self, state: Hashable) -> int:
        """Index of a state given by number or name, or by an object that stands for it."""
        if isinstance(state, str):
            return self._state_called(state)
        if _is_number(state):
            return self._state_numbered(state)
        found = self.state_of_object(state)
        if found is None:
            raise ProblemError(f"there is no state {state!r}{there_are(self.states, text_of(state))}")
        return found

    def state_of_object(self, state: Hashable) -> int | None:
        """Number of the state that an object stands for, by itself or by its name; None if none."""
        try:
            found = self._object_numbers.get(state)
        except TypeError:
            raise ProblemError(f"{state!r} cannot be a state: it is not hashable\n  write a tuple") from None
        return self.state_numbers.get(text_of(state)) if found is None else found

    def pair_index(self, state: Hashable, action: Hashable) -> int:
        """Index of a pair given by state and action; an action number counts within its state."""
        s = self.state_index(state)
        first, stop = int(self.pair_ptr[s]), int(self.pair_ptr[s + 1])
        names = [self.action_name(i) for i in range(first, stop)]
        name, at = text_of(action), self.state_name(s)
        if _is_number(action) and (name not in names or names.index(name) == action):
            return first + number_within(f"action of state {at}", action, stop - first)
        if name not in names:
            raise ProblemError(f"state {at} has no action called {name!r}{there_are(names, name)}")
        if _is_number(action):
            refuse(
                f"is {name} the action of state {at} called {name!r}, or the one of number {name}, from 0?",
                f"its actions are {', '.join(names)}",
                f"write the name as text, {name!r}",
            )
        return first + names.index(name)

    @property
    def _object_numbers(self) -> Mapping[Hashable, int]:
        """Number of each object that stands for a state, where these are not the names."""
        return {}

    def _state_called(self, name: str) -> int:
        if name in self.state_numbers:
            return self.state_numbers[name]
        if self.states is None and name.isdecimal() and int(name) < self.n_states:
            return int(name)
        raise ProblemError(f"there is no state called {name!r}{there_are(self.states, name)}")

    def _state_numbered(self, number: Any) -> int:
        """A state by its number, which must not be the name of another one."""
        s = number_within("state", number, self.n_states) if 0 <= number < self.n_states else None
        called = self.state_numbers.get(str(number))
        if s is not None and called is None and self.states is not None and self.states[s].isdecimal():
            called = s - 1  # another one in any case: states have numbers for names, and this is none of them
        if called is not None and called != s:
            refuse(
                f"is {number} the state called {str(number)!r}, or the one of number {number}, from 0?",
                "the states are called by whole numbers which are not their places",
                f"write the name as text, {str(number)!r}, or choose by where=",
            )
        return number_within("state", number, self.n_states)


def pair_labels(actions: Iterable[str] | None, of: Labelled) -> tuple[str, ...] | None:
    """One action name per pair, different within each state."""
    labels = names_of("actions", actions)
    if labels is None:
        return None
    if len(labels) != of.n_pairs:
        most = int(of.n_actions.max())
        if len(labels) != most:
            raise ProblemError(
                f"actions has {len(labels)} names, expected {of.n_pairs} (one per pair) "
                f"or {most} (one list for every state)"
            )
        labels = tuple(labels[k] for k in np.arange(of.n_pairs) - of.pair_ptr[of.s_of])
    known: dict[str, int] = {}
    codes = np.array([known.setdefault(label, len(known)) for label in labels])
    i = first_repeat(of.s_of * (codes.max() + 1) + codes)
    if i is not None:
        raise ProblemError(
            f"state {of.state_name(int(of.s_of[i]))} has two actions called {labels[i]!r}\n"
            "  give every action of a state a name of its own"
        )
    return labels


def _is_number(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


@dataclass(frozen=True, eq=False)
class Labels(Labelled, ReadOnly):
    """The names of a model without the model: what a policy is written in.

    Attributes
    ----------
    states, actions
        Names of the states, (S,), and of the action of each pair, (SA,); None where the model has none.
    pair_ptr
        The pairs of state ``s`` are ``pair_ptr[s]`` to ``pair_ptr[s + 1] - 1``, (S + 1,).
    """

    states: tuple[str, ...] | None
    actions: tuple[str, ...] | None
    pair_ptr: Ints

    @classmethod
    def of(cls, model: Labelled) -> Labels:
        """Return the names that a model gives."""
        return model if isinstance(model, cls) else cls(model.states, model.actions, model.pair_ptr)

    @cached_property
    def s_of(self) -> Ints:  # type: ignore[override]
        """State of each pair, (SA,)."""
        return np.repeat(np.arange(self.n_states), self.n_actions)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Labels):
            return NotImplemented
        names = (self.states, self.actions) == (other.states, other.actions)
        return names and np.array_equal(self.pair_ptr, other.pair_ptr)
