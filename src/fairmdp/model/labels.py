"""Names and numbers of states, actions and state-action pairs, with a model or without it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Ints, ReadOnly, number_within, there_are


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

    def state_index(self, state: int | str) -> int:
        """Index of a state given by number or name."""
        if not isinstance(state, str):
            return number_within("state", state, self.n_states)
        if state in self.state_numbers:
            return self.state_numbers[state]
        if self.states is None and state.isdecimal() and int(state) < self.n_states:
            return int(state)
        raise ProblemError(f"there is no state called {state!r}{there_are(self.states)}")

    def pair_index(self, state: int | str, action: int | str) -> int:
        """Index of a pair given by state and action; an action number counts within its state."""
        s = self.state_index(state)
        first, stop = int(self.pair_ptr[s]), int(self.pair_ptr[s + 1])
        if not isinstance(action, str):
            return first + number_within(f"action of state {self.state_name(s)}", action, stop - first)
        names = [self.action_name(i) for i in range(first, stop)]
        if action not in names:
            raise ProblemError(
                f"state {self.state_name(s)} has no action called {action!r}{there_are(names)}"
            )
        return first + names.index(action)


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
