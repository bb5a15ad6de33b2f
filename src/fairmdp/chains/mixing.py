"""How long the policies of an MDP take to mix."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from fairmdp.chains.chain import Chain
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
