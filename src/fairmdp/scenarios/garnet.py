"""Random sparse MDPs, the field's usual yardstick."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from fairmdp.chains.chain import Chain
from fairmdp.errors import ProblemError
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.scenarios.parameters import check_size, probability, whole_number

_RING = 0.05  # probability of the edge to the next state, which makes every policy irreducible


def garnet(
    n_states: int = 100,
    n_actions: int = 5,
    branching: int = 5,
    *,
    n_quotas: int = 5,
    tightness: float = 0.95,
    seed: int = 0,
) -> Problem:
    """Return a random ergodic MDP with quotas on disjoint groups of states, feasible by construction.

    Every pair moves to ``branching`` random states with random probabilities, and to the next state on a
    ring with probability 0.05, so every state is reached under every policy. Rewards are uniform on
    [0, 1]. Half of the states are split into ``n_quotas`` groups; each group is owed ``tightness`` times
    the share that a random deterministic policy gives it, so that policy is fair by a margin.

    Parameters
    ----------
    n_states, n_actions
        Number of states, at least 2, and of actions in each.
    branching
        Random successors of every pair.
    n_quotas
        Number of groups, at most half as many as there are states; the quotas are ``g0``, ``g1``, ...
    tightness
        What groups are owed, as a part of what the hidden policy gives them: from 0 to below 1.
    seed
        Everything random follows from it.

    Examples
    --------
    >>> garnet(n_states=30, n_actions=4, seed=1)
    Problem(30 states, 120 pairs, 667 transitions, 5 quotas)
    """
    n_states = whole_number("n_states", n_states, 2)
    n_actions = whole_number("n_actions", n_actions, 1)
    branching = whole_number("branching", branching, 1)
    n_quotas = whole_number("n_quotas", n_quotas, 0)
    tightness = probability("tightness", tightness, certain=False)
    seed = whole_number("seed", seed, 0)
    what = f"a random model of {n_states} states with {n_actions} actions"
    transitions = float(n_states) * n_actions * (branching + 1)
    check_size(what, n_states, transitions, "take fewer states, actions or successors")
    if n_quotas > n_states // 2:
        raise ProblemError(f"n_quotas is {n_quotas}, but half of {n_states} states is {n_states // 2}")
    rng = np.random.default_rng(seed)
    n_pairs = n_states * n_actions
    s_of = np.repeat(np.arange(n_states), n_actions)
    successors = np.column_stack([rng.integers(0, n_states, (n_pairs, branching)), (s_of + 1) % n_states])
    weights = rng.standard_exponential((n_pairs, branching))
    weights *= (1 - _RING) / weights.sum(axis=1, keepdims=True)
    probabilities = np.column_stack([weights, np.full(n_pairs, _RING)])
    P = csr_array(
        (probabilities.ravel(), successors.ravel(), np.arange(0, successors.size + 1, branching + 1)),
        shape=(n_pairs, n_states),
    )
    mdp = MDP(P, rng.random(n_pairs), s_of)
    if n_quotas == 0:
        return Problem(mdp)
    planted = np.zeros(n_pairs)
    planted[mdp.pair_ptr[:-1] + rng.integers(0, n_actions, n_states)] = 1
    nu = Chain.of(mdp, planted).shares
    groups = np.array_split(rng.permutation(n_states)[: n_states // 2], n_quotas)
    return Problem(
        mdp,
        [
            Quota(f"g{k}", states=np.sort(group), at_least=tightness * float(nu[group].sum()))
            for k, group in enumerate(groups)
        ],
    )
