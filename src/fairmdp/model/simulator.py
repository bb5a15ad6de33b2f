"""Generative models: something that can be asked what happens next, as often as one likes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fairmdp import model
from fairmdp.errors import FairMDPError, ProblemError, SimulatorError
from fairmdp.model.checks import Floats, Ints, ReadOnly, first
from fairmdp.model.mdp import MDP
from fairmdp.model.transitions import staying

LARGEST_REWARD = 1e100
"""Size of rewards beyond which their variances would overflow."""


@runtime_checkable
class Simulator(Protocol):
    """What a simulator must offer; actions are numbered from 0 within their state.

    ``sample`` is given equally long arrays of states and actions and a generator, and answers each pair
    with a next state and a reward. An attribute ``labels``, ``{name: states}``, is welcome: the command line
    takes the names for groups.
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
class ModelSimulator(ReadOnly):
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
        rewards = self.mdp.r[pairs]  # refuses pairs that there are not, which a kernel would not
        return model.draw_alias(*self._tables, pairs, rng.random(pairs.size)), rewards

    @cached_property
    def _tables(self) -> tuple[Ints, Floats, NDArray[np.int32]]:
        P = self.mdp.P
        alias = np.zeros((P.nnz, 2))
        states = alias.view(np.int32)
        indptr = P.indptr.astype(np.int64)
        model.build_alias(indptr, P.indices.astype(np.int32), P.data, alias, states)
        return indptr, alias, states


MOST_PAIRS = 2**28
"""Pairs of a simulator beyond which their numbers alone would fill the memory of a large machine."""


class CheckedSimulator:
    """A simulator whose answers are looked at before they are believed; counts samples and calls.

    ``listen``, where it is set, is called with the states, actions, next states and rewards of each call.
    """

    listen: Callable[[Ints, Ints, Ints, Floats], None] | None = None

    def __init__(self, simulator: Simulator) -> None:
        with _faults_named("it was asked for n_states, n_actions and sample"):
            for member in ("n_states", "n_actions", "sample"):
                if not hasattr(simulator, member):
                    known = hasattr(simulator, "mdp")
                    advice = "\n  its model makes one: problem.mdp.simulator()" if known else ""
                    kind = type(simulator).__name__
                    raise ProblemError(f"{kind} is not a simulator: it has no {member}{advice}")
            self.n_states = operator.index(simulator.n_states)
            self.n_actions = np.asarray(simulator.n_actions)
            self._sample = simulator.sample
        if isinstance(simulator, ModelSimulator) and simulator.mdp.durations is not None:
            raise ProblemError(
                "the steps of this model take time, and samples do not say how long\n"
                "  solve the model itself, or learn from mdp.uniform and mdp.per_decision(policy)"
            )
        if self.n_states < 1 or self.n_actions.shape != (self.n_states,):
            raise ProblemError(
                f"the simulator has {self.n_states} states and n_actions of shape {self.n_actions.shape}, "
                f"expected ({self.n_states},)"
            )
        if self.n_actions.dtype.kind not in "iu" or self.n_actions.min() < 1:
            raise ProblemError("the simulator's n_actions must be whole numbers of at least 1")
        most = max(int(self.n_actions.max()), int(self.n_actions.sum(dtype=float)))
        if most > MOST_PAIRS:
            raise ProblemError(
                f"the simulator has {most:.4g} pairs of a state and an action, the limit is {MOST_PAIRS:,}\n"
                f"  state {self.n_actions.argmax()} has {self.n_actions.max()} actions"
            )
        self.n_actions = self.n_actions.astype(np.int64)
        self.samples = 0
        self.calls = 0

    def sample(self, states: Ints, actions: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Ask; a `SimulatorError` names the first pair and the call where the answer makes no sense."""
        self.calls += 1
        with _faults_named(f"it was asked for {states.size} samples, in call {self.calls}"):
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
        numbers = s_next.astype(np.int64)
        strange = numbers.view(np.uint64) >= self.n_states  # negative numbers are large ones here
        self._refuse(states, actions, strange, s_next, "next state")
        self._refuse(states, actions, ~(np.abs(rewards) <= LARGEST_REWARD), rewards, "reward")
        self.samples += states.size
        s_next, rewards = numbers, rewards.astype(np.float64)
        if self.listen is not None:
            self.listen(states, actions, s_next, rewards)
        return s_next, rewards

    def _refuse(
        self, states: Ints, actions: Ints, bad: NDArray[np.bool_], values: NDArray[Any], what: str
    ) -> None:
        if (k := first(bad)) is not None:
            raise SimulatorError(
                f"the simulator answered state {states[k]}, action {actions[k]} with {what} {values[k]}\n"
                f"  in call {self.calls}; {int(bad.sum())} of {bad.size} answers are wrong\n"
                f"  next states lie between 0 and {self.n_states - 1}, rewards are at most {LARGEST_REWARD:g}"
            )


@contextmanager
def _faults_named(when: str) -> Iterator[None]:
    """Call what a simulator raises its own fault; what it says of itself on purpose stays as it is.

    Even where it wants to end Python: a run that ends without a word and a result looks like success.
    """
    try:
        yield
    except (FairMDPError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise SimulatorError(f"the simulator raised {type(error).__name__}: {error}\n  {when}") from error


def shell_model(simulator: Simulator) -> MDP:
    """States and actions of a simulator whose transitions are unknown: every pair stays where it is."""
    s_of = np.repeat(np.arange(simulator.n_states), simulator.n_actions)
    return MDP(staying(s_of, simulator.n_states), np.zeros(s_of.size), s_of)
