"""What an agent acts in: a known model, a simulator, or an environment of Gymnasium, each kept in files.

A model or a simulator is kept as its state and its generator. An environment can be kept by nothing but what
was done in it: its actions are done again, from the same seed, and every state must follow as it did.
"""

from __future__ import annotations

import zlib
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairmdp.errors import FormatError, ProblemError
from fairmdp.learning.counts import Seed, seed_stream
from fairmdp.learning.record import Running
from fairmdp.model.checks import refuse
from fairmdp.model.labels import Labels
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.simulator import Simulator
from fairmdp.records.log import name_of

SYSTEM = 9
"""Key of the stream of seeds of what the agent acts in."""

Arrays = dict[str, NDArray[Any]]


class System(Protocol):
    """What is in a state, and goes on to another."""

    moved: bool
    """Whether the last step left it somewhere else than where it led."""

    @property
    def state(self) -> Any:
        """Where it is, by number or by name."""

    def step(self, action: Any) -> tuple[float, Any]:
        """Do something: reward and next state."""

    def facts(self) -> dict[str, Any]:
        """What JSON can keep of it."""

    def arrays(self) -> Arrays:
        """And what it cannot."""

    def go_on(self, facts: dict[str, Any], arrays: Arrays) -> None:
        """Be where that was kept."""


def system_of(given: Any, labels: Labels, seed: Seed, on_terminate: str | None) -> System:
    """What a user gave, as a system."""
    if isinstance(given, Problem):
        given = given.mdp
    if isinstance(given, MDP):
        return _Model(given, labels, seed)
    if hasattr(given, "sample") and hasattr(given, "n_states"):
        return _Simulated(given, seed)
    if hasattr(given, "step") and hasattr(given, "reset"):
        return _Environment(given, seed, on_terminate)
    raise ProblemError(
        f"an agent cannot act in a {type(given).__name__}, expected a model, a problem, a simulator, "
        "or an environment of Gymnasium"
    )


class _Model:
    """A known model, by numbers where the agent has the same ones, else by names."""

    moved = False

    def __init__(self, mdp: MDP, labels: Labels, seed: Seed) -> None:
        self._mdp, self._running = mdp, Running(mdp, next(seed_stream(seed, SYSTEM)))
        self._by_number = Labels.of(mdp) == labels
        self._first = mdp.pair_ptr.tolist()

    @property
    def state(self) -> Any:
        s = self._running.state
        return s if self._by_number else self._mdp.state_name(s)

    def step(self, action: Any) -> tuple[float, Any]:
        s = self._running.state
        pair = self._first[s] + action if self._by_number else self._mdp.pair_index(s, action)
        _, reward = self._running.step(pair)
        return reward, self.state

    def facts(self) -> dict[str, Any]:
        return {"kind": "model", **self._running.memory}

    def arrays(self) -> Arrays:
        return {}

    def go_on(self, facts: dict[str, Any], arrays: Arrays) -> None:
        self._running.memory = facts


class _Simulated:
    moved = False

    def __init__(self, simulator: Simulator, seed: Seed) -> None:
        self._simulator = simulator
        self._rng = np.random.default_rng(next(seed_stream(seed, SYSTEM)))
        self.state: Any = int(self._rng.integers(simulator.n_states))

    def step(self, action: Any) -> tuple[float, Any]:
        states, rewards = self._simulator.sample(np.array([self.state]), np.array([action]), self._rng)
        self.state = int(states[0])
        return float(rewards[0]), self.state

    def facts(self) -> dict[str, Any]:
        return {"kind": "simulator", "state": self.state, "generator": self._rng.bit_generator.state}

    def arrays(self) -> Arrays:
        return {}

    def go_on(self, facts: dict[str, Any], arrays: Arrays) -> None:
        self.state, self._rng.bit_generator.state = facts["state"], facts["generator"]


class _Environment:
    """An environment; an episode that ends is followed by a step, for no reward, to where the next begins."""

    def __init__(self, env: Any, seed: Seed, on_terminate: str | None) -> None:
        if on_terminate not in (None, "restart"):
            raise ProblemError(f"on_terminate is {on_terminate!r}, expected 'restart', or None")
        self._env, self._on_terminate = env, on_terminate
        self._seed = int(next(seed_stream(seed, SYSTEM)).generate_state(1)[0])
        self._actions: list[int] = []
        self._marks: list[int] = []  # a few bits of every state and reward
        self._begin()

    def _begin(self) -> None:
        self.state: Any = name_of(self._env.reset(seed=self._seed)[0])
        self._over, self.moved = False, False

    def step(self, action: Any) -> tuple[float, Any]:
        number = int(action)
        reward, led = self._went(number)
        self._actions.append(number)
        self._marks.append(_mark(led, reward))
        return reward, led

    def _went(self, action: int) -> tuple[float, Any]:
        self.moved = False
        if self._over:
            self.state, self._over = name_of(self._env.reset()[0]), False
            return 0.0, self.state
        seen, reward, terminated, truncated, _ = self._env.step(action)
        led = self.state = name_of(seen)
        if terminated:
            if self._on_terminate is None:
                refuse(
                    f"the episode ended in state {led}",
                    f"after {len(self._actions) + 1:,} steps",
                    "say what follows: run_online(..., on_terminate='restart'), or --on-terminate restart",
                )
            self._over = True
        elif truncated:
            self.state, self.moved = name_of(self._env.reset()[0]), True
        return float(reward), led

    def facts(self) -> dict[str, Any]:
        return {"kind": "environment"}

    def arrays(self) -> Arrays:
        return {"actions": np.array(self._actions, "<i8"), "marks": np.array(self._marks, "<u4")}

    def go_on(self, facts: dict[str, Any], arrays: Arrays) -> None:
        self._begin()
        actions, marks = arrays["actions"].tolist(), arrays["marks"].tolist()
        for n, (action, mark) in enumerate(zip(actions, marks, strict=True)):
            reward, led = self._went(action)
            if _mark(led, reward) != mark:
                raise FormatError(
                    f"the environment does not repeat itself: step {n + 1:,} is not as it was in this run\n"
                    "  it must draw all that is random from the seed of reset(seed=...)"
                )
        self._actions, self._marks = actions, marks


def _mark(state: Any, reward: float) -> int:
    return zlib.crc32(f"{state!r} {float(reward)!r}".encode())
