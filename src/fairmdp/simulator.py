"""Generative models: something that can be asked what happens next, as often as one likes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fairmdp.errors import ProblemError, SimulatorError
from fairmdp.mdp import MDP
from fairmdp.validation import Floats, Ints

LARGEST_REWARD = 1e100
"""Size of rewards beyond which their variances would overflow."""


@runtime_checkable
class Simulator(Protocol):
    """What a simulator must offer; actions are numbered from 0 within their state.

    ``sample`` is given equally long arrays of states and actions and a generator, and answers each pair
    with a next state and a reward.
    """

    @property
    def n_states(self) -> int:
        """Number of states."""

    @property
    def n_actions(self) -> Ints:
        """Number of actions of each state, (S,)."""

    def sample(self, states: Ints, actions: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Draw a next state and a reward for each pair."""


@dataclass(frozen=True, eq=False)
class ModelSimulator:
    """A known model as a simulator: successors by alias tables, rewards as they are.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> simulator = scenarios.three_state().mdp.simulator()
    >>> simulator.sample(np.array([0, 0]), np.array([0, 0]), np.random.default_rng(1))
    (array([2, 1]), array([1., 1.]))
    """

    mdp: MDP

    @property
    def n_states(self) -> int:
        """Number of states."""
        return self.mdp.n_states

    @property
    def n_actions(self) -> Ints:
        """Number of actions of each state, (S,)."""
        return self.mdp.n_actions

    def sample(self, states: Ints, actions: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Draw a next state for each pair from one uniform number each."""
        pairs = self.mdp.pair_ptr[states] + actions
        first, length, keep, own, other = self._tables
        place = rng.random(pairs.size) * length[pairs]
        column = place.astype(np.int64)
        entry = first[pairs] + column
        return np.where(place - column < keep[entry], own[entry], other[entry]), self.mdp.r[pairs]

    @cached_property
    def _tables(self) -> tuple[Ints, Ints, Floats, Ints, Ints]:
        from fairmdp.kernels.mirror import build_alias

        P = self.mdp.P
        alias = np.zeros((P.nnz, 2))
        states = alias.view(np.int32)
        indptr = P.indptr.astype(np.int64)
        build_alias(indptr, P.indices.astype(np.int32), P.data, alias, states)
        own, other = states[:, 2].astype(np.int64), states[:, 3].astype(np.int64)
        return indptr[:-1], np.diff(indptr), alias[:, 0].copy(), own, other


class CheckedSimulator:
    """A simulator whose answers are looked at before they are believed; counts samples and calls."""

    def __init__(self, simulator: Simulator) -> None:
        for member in ("n_states", "n_actions", "sample"):
            if not hasattr(simulator, member):
                raise ProblemError(f"{type(simulator).__name__} is not a simulator: it has no {member}")
        self.n_states = int(simulator.n_states)
        self.n_actions = np.asarray(simulator.n_actions)
        if self.n_states < 1 or self.n_actions.shape != (self.n_states,):
            raise ProblemError(
                f"the simulator has {self.n_states} states and n_actions of shape {self.n_actions.shape}, "
                f"expected ({self.n_states},)"
            )
        if self.n_actions.dtype.kind not in "iu" or self.n_actions.min() < 1:
            raise ProblemError("the simulator's n_actions must be whole numbers of at least 1")
        self.n_actions = self.n_actions.astype(np.int64)
        self.samples = 0
        self.calls = 0
        self._sample = simulator.sample

    def sample(self, states: Ints, actions: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Ask; a `SimulatorError` names the first pair and the call where the answer makes no sense."""
        self.calls += 1
        answer = self._sample(states, actions, rng)
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise SimulatorError(
                f"call {self.calls} returned a {type(answer).__name__}, expected (next_states, rewards)"
            )
        s_next, rewards = np.asarray(answer[0]), np.asarray(answer[1])
        for what, array, kinds in (("next_states", s_next, "iu"), ("rewards", rewards, "fiu")):
            if array.shape != states.shape:
                raise SimulatorError(
                    f"call {self.calls} returned {what} of shape {array.shape}, expected {states.shape}"
                )
            if array.dtype.kind not in kinds:
                raise SimulatorError(f"call {self.calls} returned {what} of {array.dtype}")
        self._refuse(states, actions, (s_next < 0) | (s_next >= self.n_states), s_next, "next state")
        self._refuse(states, actions, ~(np.abs(rewards) <= LARGEST_REWARD), rewards, "reward")
        self.samples += states.size
        return s_next.astype(np.int64), rewards.astype(np.float64)

    def _refuse(
        self, states: Ints, actions: Ints, bad: NDArray[np.bool_], values: NDArray[Any], what: str
    ) -> None:
        if bad.any():
            k = int(np.argmax(bad))
            raise SimulatorError(
                f"the simulator answered state {states[k]}, action {actions[k]} with {what} {values[k]}\n"
                f"  in call {self.calls}; {int(bad.sum())} of {bad.size} answers are wrong\n"
                f"  next states lie between 0 and {self.n_states - 1}, rewards are at most {LARGEST_REWARD:g}"
            )
