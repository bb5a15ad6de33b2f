"""One run of a policy on a known model, step by step, as a log or as an environment to act in."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairmdp.chains.policy import checked_policy, ladder, uniform_policy
from fairmdp.errors import ProblemError
from fairmdp.learning.counts import Seed, root_seed
from fairmdp.model.checks import check_count
from fairmdp.model.labels import Labels
from fairmdp.model.mdp import MDP
from fairmdp.records.log import Log


class Running:
    """A known model as a system that runs: it is in a state, and a pair leads on.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> world = Running(scenarios.three_state().mdp, seed=1)
    >>> world.state, world.step(2)
    (1, (2, 0.1))
    """

    def __init__(self, mdp: MDP, seed: Seed = 0, start: Any = None) -> None:
        if mdp.durations is not None:
            raise ProblemError("the steps of this model take time, and records do not say how long")
        self._rng = np.random.default_rng(root_seed(seed))
        P = mdp.P
        ends = P.indptr.tolist()
        to, p = P.indices.tolist(), P.data.tolist()
        self._rows = [(np.cumsum(p[a:b]).tolist(), to[a:b]) for a, b in pairwise(ends)]
        self._rewards = mdp.r.tolist()
        first = self._rng.choice(mdp.n_states, p=mdp.initial) if start is None else mdp.state_index(start)
        self.state = int(first)
        self._uniforms: list[float] = []

    def step(self, pair: int) -> tuple[int, float]:
        """Take a pair of the present state, by number: next state and reward."""
        sums, following = self._rows[pair]
        k = bisect_right(sums, self.uniform() * sums[-1])
        self.state = following[min(k, len(following) - 1)]
        return self.state, self._rewards[pair]

    @property
    def memory(self) -> dict[str, Any]:
        """All that what follows depends on, as JSON keeps it; to be set again on the same model."""
        generator = self._rng.bit_generator.state
        return {"state": self.state, "generator": generator, "uniforms": list(self._uniforms)}

    @memory.setter
    def memory(self, memory: dict[str, Any]) -> None:
        self.state, self._uniforms = memory["state"], list(memory["uniforms"])
        self._rng.bit_generator.state = memory["generator"]

    def uniform(self) -> float:
        """Draw a uniform number; they are drawn many at a time."""
        if not self._uniforms:
            self._uniforms = self._rng.random(1024).tolist()
        return self._uniforms.pop()


def record(
    model: MDP, policy: ArrayLike | None = None, *, steps: int, seed: Seed = 0, start: Any = None
) -> Log:
    """Run a policy on a known model once, and keep what a system would have recorded.

    Parameters
    ----------
    model
        What runs.
    policy
        Probability of each pair given its state, (SA,); by default every action is as likely.
    steps, seed, start
        Number of records, what all chance follows from, and the first state, by default drawn.

    Returns
    -------
    Log
        Its states and actions are those of the model, recorded or not.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> record(scenarios.three_state().mdp, steps=1000, seed=1)
    Log(1,000 records of 6 pairs in 3 states)
    """
    check_count("steps", steps)
    world = Running(model, seed, start)
    rungs = ladder(model, checked_policy(model, uniform_policy(model) if policy is None else policy)).tolist()
    pairs, s_next, rewards = [], [], []
    for _ in range(steps):
        pair = bisect_right(rungs, world.state + world.uniform())
        state, reward = world.step(pair)
        pairs.append(pair)
        s_next.append(state)
        rewards.append(reward)
    follows = np.arange(steps) > 0
    times = np.arange(float(steps))
    labels = Labels.of(model)
    return Log(labels, np.array(pairs), np.array(s_next), np.array(rewards), times, follows)
