"""How long the policies of an MDP take to mix."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fairmdp.chains.chain import Chain
from fairmdp.chains.policy import policy_matrix
from fairmdp.errors import ProblemError
from fairmdp.model.mdp import MDP

_MOST_PAIRS = 2000  # whose rows are compared two by two
_MOST_STATES = 50  # of a model whose policies are enumerated


@dataclass(frozen=True)
class MixingTime:
    """The slowest mixing time over the policies of an MDP.

    ``exact`` says how ``steps`` was found: by enumeration of the deterministic policies, or as the
    upper bound that Dobrushin's coefficient gives for every policy.
    """

    steps: float
    exact: bool


class Settling(NamedTuple):
    """How fast one policy's chain forgets where it is.

    After `steps` of the chain, the values that a random function is expected to have, one for each state to
    begin in, are spread over the part `left` of its span. A tenth of the steps stay, so that periodic chains
    settle too.
    """

    steps: int
    left: float


def settling(mdp: MDP, policy: ArrayLike, most: int, enough: float = 1e-3) -> Settling:
    """Measure how fast a policy's chain forgets, until that is `enough` or after so many steps at most."""
    P = policy_matrix(mdp, policy)
    f = np.random.default_rng(0).standard_normal(mdp.n_states)
    span = float(np.ptp(f)) or 1.0
    for steps in range(most):
        if np.ptp(f) <= enough * span:
            return Settling(steps, float(np.ptp(f)) / span)
        f = 0.9 * (P @ f) + 0.1 * f
    return Settling(most, float(np.ptp(f)) / span)


def mixing_time(mdp: MDP, *, most_policies: int = 4096) -> MixingTime:
    """Mixing time of an MDP: exact over its deterministic policies when these are few, else an upper bound.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> mixing_time(scenarios.three_state().mdp)
    MixingTime(steps=8, exact=True)
    """
    counts = mdp.n_actions
    if math.prod(counts.tolist()) <= most_policies and mdp.n_states <= _MOST_STATES:
        steps = 0
        for choice in itertools.product(*(range(c) for c in counts)):
            policy = np.zeros(mdp.n_pairs)
            policy[mdp.pair_ptr[:-1] + choice] = 1
            steps = max(steps, Chain.of(mdp, policy).mixing_time)
        return MixingTime(steps, exact=True)
    tau = dobrushin(mdp)
    return MixingTime(math.inf if tau >= 1 else math.ceil(math.log(4) / -math.log(tau)) if tau else 1, False)


def dobrushin(mdp: MDP) -> float:
    """Largest distance between two rows of different states, ``max |P_i - P_j|_1 / 2``; below 1 all mix."""
    if mdp.n_pairs > _MOST_PAIRS:
        raise ProblemError(f"comparing all rows is quadratic: {mdp.n_pairs} pairs are above {_MOST_PAIRS}")
    P = mdp.P.toarray()
    tau = 0.0
    for s in range(mdp.n_states - 1):
        later = P[mdp.pair_ptr[s + 1] :]
        for row in P[mdp.pair_ptr[s] : mdp.pair_ptr[s + 1]]:
            tau = max(tau, float(np.abs(later - row).sum(axis=1).max()) / 2)
    return min(tau, 1.0)
