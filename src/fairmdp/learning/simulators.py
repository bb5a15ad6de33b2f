"""Simulators from what people have at hand: a plain function, or an environment whose state can be set."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fairmdp.errors import ProblemError, SimulatorError
from fairmdp.io.gym_model import check_on_terminate, made
from fairmdp.model.checks import Floats, Ints, check_count, refuse
from fairmdp.model.simulator import shell_model

_KINDS = {"observation_space": "Observation", "action_space": "Action"}  # as wrappers call them
_STRETCH = 64  # calls that are made again when one of them fails
_ATTEMPTS = 3

Step = Callable[[int, int, np.random.Generator], tuple[int, float]]


class FunctionSimulator:
    """A function of one state and one action as a simulator.

    Parameters
    ----------
    step
        ``step(state, action, rng) -> (next_state, reward)``. All its randomness must come from ``rng``.
    n_states
        Number of states; they are numbered from 0.
    n_actions
        Number of actions: one for all states, or one per state, (S,).

    Notes
    -----
    The function is called once per sample, a million times per second or so. Where that is too slow, write
    a class with a vectorised ``sample`` (see `Simulator`). Where it raises, the last few calls are made again
    with the same random numbers, up to three times in all, so that a failure now and then costs nothing.

    Examples
    --------
    >>> def walk(state, action, rng):
    ...     step = 1 if rng.random() < (0.8 if action else 0.3) else -1
    ...     return (state + step) % 5, float(state == 0)
    >>> simulator = FunctionSimulator(walk, 5, 2)
    >>> simulator.sample(np.array([0, 4]), np.array([1, 1]), np.random.default_rng(0))
    (array([1, 0]), array([1., 0.]))
    """

    def __init__(self, step: Step, n_states: int, n_actions: ArrayLike) -> None:
        if not callable(step):
            raise ProblemError(
                f"step is a {type(step).__name__}, expected a function of state, action and rng"
            )
        check_count("n_states", n_states)
        self._step = step
        self.n_states = int(n_states)
        self.n_actions = _action_counts(n_actions, self.n_states)

    def sample(self, states: Ints, actions: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Call the function for each pair in turn; a `SimulatorError` names the pair where it failed."""
        s_next = np.empty(len(states), np.int64)
        rewards = np.empty(len(states))
        for first in range(0, len(states), _STRETCH):
            part = slice(first, first + _STRETCH)
            self._stretch(states[part], actions[part], rng, s_next[part], rewards[part])
        return s_next, rewards

    def _stretch(
        self, states: Ints, actions: Ints, rng: np.random.Generator, s_next: Ints, rewards: Floats
    ) -> None:
        """Fill in the answers to a few pairs; after a failure, once more with the same random numbers."""
        before = rng.bit_generator.state
        for attempt in range(_ATTEMPTS):
            try:
                self._answer(states, actions, rng, s_next, rewards)
                return
            except SimulatorError as error:
                if attempt == _ATTEMPTS - 1 or error.__cause__ is None:  # an answer that makes no sense
                    raise
                rng.bit_generator.state = before

    def _answer(
        self, states: Ints, actions: Ints, rng: np.random.Generator, s_next: Ints, rewards: Floats
    ) -> None:
        for k, (s, a) in enumerate(
            zip(np.asarray(states).tolist(), np.asarray(actions).tolist(), strict=True)
        ):
            try:
                answer = self._step(s, a, rng)
            except Exception as error:
                raise _failed("step", s, a, error) from error
            try:
                to, rewards[k] = answer
                s_next[k] = operator.index(to)
            except (TypeError, ValueError):
                raise SimulatorError(
                    f"step answered state {s}, action {a} with {answer!r}, "
                    "expected a whole number and a reward, (next_state, reward)"
                ) from None

    def __repr__(self) -> str:
        return f"FunctionSimulator({self.n_states} states, {int(self.n_actions.sum())} pairs)"


class EnvironmentSimulator:
    """A Gymnasium environment whose state can be set as a simulator.

    Its spaces must be ``Discrete`` or ``MultiDiscrete``, whose vectors are numbered like an array's cells
    (`numpy.ravel_multi_index`), the last entry fastest. Every sample sets the state and takes one step, with
    the environment's random numbers taken from the generator of the sample. Time limits (``truncated``) are
    ignored.

    Parameters
    ----------
    env
        The environment, or its id; wrappers count. It is reset once, and belongs to the simulator from then
        on.
    set_state
        ``set_state(env, state)`` puts the environment into a state, e.g. ``env.unwrapped.s = state``; of a
        ``MultiDiscrete`` space it is given the vector. Most
        environments silently ignore ``reset(options={"state": ...})``; where this can be seen, it is refused.
    on_terminate
        What follows a terminal state, as for `from_gymnasium`; there is no safe default, and none is needed
        where no state is terminal.
    terminal
        States in which episodes end. The environment is not asked what follows them, and a step that ends
        an episode elsewhere, or enters one of them without ending it, is refused.
    initial
        Distribution of the first state, (S,), which ``"restart"`` needs; by default what the environment
        publishes as ``initial_state_distrib``, as `from_gymnasium` takes it.

    Examples
    --------
    >>> import gymnasium
    >>> lake = gymnasium.make("FrozenLake-v1")
    >>> def put(env, state):
    ...     env.unwrapped.s = state
    >>> simulator = EnvironmentSimulator(
    ...     lake, set_state=put, on_terminate="restart", terminal=[5, 7, 11, 12, 15]
    ... )
    >>> simulator.sample(np.array([14, 15]), np.array([2, 0]), np.random.default_rng(1))
    (array([10,  0]), array([0., 0.]))
    """

    def __init__(
        self,
        env: Any,
        *,
        set_state: Callable[[Any, int], Any],
        on_terminate: Literal["restart", "absorb"] | None = None,
        terminal: Sequence[int] | Ints = (),
        initial: ArrayLike | None = None,
    ) -> None:
        if on_terminate is not None or np.size(terminal):
            check_on_terminate(on_terminate)
        if not callable(set_state):
            raise ProblemError(f"set_state is {set_state!r}, expected a function of env and state")
        env = made(env)
        self._seen, self._done = (_numbering(env, space) for space in ("observation_space", "action_space"))
        self.n_states = self._seen.size
        self.n_actions = np.full(self.n_states, self._done.size)
        self._env, self._set_state = env, set_state
        self._restart = on_terminate == "restart"
        self._terminal = _mask(terminal, self.n_states)
        self._first_states = self._cumulated(initial) if self._restart else None
        _refuse_autoreset(env)
        env.reset(seed=0)

    def sample(self, states: Ints, actions: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Set the state and step once, for each pair in turn."""
        states = np.asarray(states)
        s_next, rewards = states.astype(np.int64), np.zeros(states.size)
        ended = self._terminal[states]
        if self._first_states is not None and ended.any():
            s_next[ended] = np.searchsorted(self._first_states, rng.random(int(ended.sum())), side="right")
        self._env.unwrapped.np_random = rng
        for k in np.flatnonzero(~ended).tolist():
            s_next[k], rewards[k] = self._one(int(states[k]), int(actions[k]))
        return s_next, rewards

    def __repr__(self) -> str:
        ends = (", restarts" if self._restart else ", absorbs") if self._terminal.any() else ""
        return f"EnvironmentSimulator({type(self._env.unwrapped).__name__}, {self.n_states} states{ends})"

    def _cumulated(self, initial: ArrayLike | None) -> Floats:
        """Distribution function of the first state; its last step ends above every uniform number."""
        initial = getattr(self._env.unwrapped, "initial_state_distrib", None) if initial is None else initial
        if initial is None:
            raise ProblemError(
                "on_terminate='restart' needs initial, the distribution of the first state\n"
                f"  give an array of {self.n_states} probabilities: this environment does not publish it"
            )
        p = shell_model(self).distribution("initial", initial)
        cumulated: Floats = np.cumsum(p)
        cumulated[int(np.flatnonzero(p)[-1]) :] = 1.0
        return cumulated

    def _one(self, s: int, a: int) -> tuple[int, float]:
        try:
            said = self._set_state(self._env, self._seen.value(s))
            is_in = _state_seen(self._env, said, self._seen)
            to, reward, terminated, *_ = self._env.step(self._done.value(a))
            to, reward = self._seen.number(to), float(reward)
        except Exception as error:
            raise _failed(type(self._env.unwrapped).__name__, s, a, error) from error
        if is_in not in (None, s):
            raise SimulatorError(
                f"set_state was given state {s} and left the environment in state {is_in}\n"
                "  most environments ignore reset(options={'state': ...}); set the attribute that holds it"
            )
        if not 0 <= to < self.n_states:
            raise SimulatorError(f"state {s}, action {a} was answered with next state {to}")
        if bool(terminated) != self._terminal[to]:
            raise SimulatorError(
                f"state {s}, action {a} "
                + (
                    f"ended an episode in state {to}, which is not in terminal\n  add it"
                    if terminated
                    else f"entered state {to} without an end, although it is in terminal\n  take it out"
                )
                + "; a state of a Markov model is either terminal or not"
            )
        return to, reward


def _failed(what: str, s: int, a: int, error: Exception) -> SimulatorError:
    return SimulatorError(f"{what} failed in state {s}, action {a}: {type(error).__name__}: {error}")


def _action_counts(n_actions: ArrayLike, n_states: int) -> Ints:
    counts = np.asarray(n_actions)
    if counts.dtype.kind not in "iu" or counts.shape not in ((), (n_states,)) or counts.min() < 1:
        raise ProblemError(
            f"n_actions is {n_actions!r}, expected a whole number of at least 1, "
            f"or {n_states} of them, one per state"
        )
    return np.broadcast_to(counts.astype(np.int64), n_states).copy()


class _Numbering(NamedTuple):
    """How the values of a space are numbered."""

    size: int
    shape: tuple[int, ...] | None = None  # of a MultiDiscrete space

    def value(self, number: int) -> Any:
        """Value of a number, as the environment takes it."""
        return number if self.shape is None else np.array(np.unravel_index(number, self.shape))

    def number(self, value: Any) -> int:
        """Number of a value; -1 where the space does not have it."""
        if self.shape is None:
            return operator.index(value)
        vector = np.asarray(value)
        if vector.shape != (len(self.shape),) or (vector < 0).any() or (vector >= self.shape).any():
            return -1
        return int(np.ravel_multi_index(tuple(vector.tolist()), self.shape))


def _numbering(env: Any, space: str) -> _Numbering:
    """How a space's values are numbered, which must be finitely many."""
    found = getattr(env, space, None)
    n, nvec, start = getattr(found, "n", None), getattr(found, "nvec", None), getattr(found, "start", 0)
    if np.any(start):
        refuse(
            f"the {space} is {found}, expected values from 0",
            "states and actions are numbered from 0",
            f"shift it: gymnasium.wrappers.Transform{_KINDS[space]}, or write a FunctionSimulator",
        )
    if isinstance(n, int | np.integer):
        return _Numbering(int(n))
    if nvec is not None and np.ndim(nvec) == 1:
        shape = tuple(np.asarray(nvec).tolist())
        return _Numbering(math.prod(shape), shape)
    return refuse(
        f"the {space} is {found}, expected Discrete or MultiDiscrete",
        "shares of time are those of finitely many states and actions",
        f"number its values: gymnasium.wrappers.Discretize{_KINDS[space]} those of a Box, "
        f"Transform{_KINDS[space]} others, or write a FunctionSimulator",
    )


def _mask(terminal: Any, n_states: int) -> Any:
    given = np.asarray(terminal)
    if given.size and (given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= n_states):
        raise ProblemError(f"terminal is {terminal!r}, expected states from 0 to {n_states - 1}")
    mask = np.zeros(n_states, bool)
    mask[given.astype(np.int64)] = True
    return mask


def _refuse_autoreset(env: Any) -> None:
    while env is not getattr(env, "unwrapped", env):
        if type(env).__name__ == "Autoreset":
            raise ProblemError("the wrapper Autoreset swallows the step after an end: leave it out")
        env = env.env


def _state_seen(env: Any, said: Any, numbering: _Numbering) -> int | None:
    """State that the environment is in, where it or the answer of set_state tells."""
    said = said[0] if isinstance(said, tuple) and said else said
    for seen in (said, getattr(env.unwrapped, "s", None)):
        if numbering.shape is not None and isinstance(seen, np.ndarray):
            return numbering.number(seen)
        if isinstance(seen, int | np.integer) and not isinstance(seen, bool):
            return int(seen)
    return None
