"""Random sparse models that mix fast: every pair has a few random successors, and a ring joins all."""

import numpy as np
from scipy.sparse import csr_array

from fairmdp import MDP, Chain, Problem, Quota, scenarios


def garnet(states, quotas, seed=0, actions=5, branching=5):
    """K disjoint groups over half of the states are owed the uniform policy's share times U(1.02, 1.27)."""
    rng = np.random.default_rng(seed)
    s_of = np.repeat(np.arange(states), actions)
    to = np.column_stack([rng.integers(0, states, (s_of.size, branching)), (s_of + 1) % states])
    p = rng.standard_exponential((s_of.size, branching))
    p *= 0.95 / p.sum(axis=1, keepdims=True)
    p = np.column_stack([p, np.full(s_of.size, 0.05)])  # the ring keeps every policy's chain in one piece
    starts = np.arange(0, to.size + 1, branching + 1)
    P = csr_array((p.ravel(), to.ravel(), starts), shape=(s_of.size, states))
    mdp = MDP(P, rng.random(s_of.size), s_of)
    nu = Chain.of(mdp, 1.0 / mdp.n_actions[mdp.s_of]).shares
    groups = np.array_split(rng.permutation(states)[: states // 2], quotas)
    owed = [rng.uniform(1.02, 1.27) * float(nu[group].sum()) for group in groups]
    return Problem(
        mdp, [Quota(f"g{k}", states=np.sort(groups[k]), at_least=owed[k]) for k in range(len(groups))]
    )


def overlapping(states, quotas, seed=0, part=0.02):
    """Quotas on random sets of states, each owed 0.9 to 1 of what a random policy gives it."""
    rng = np.random.default_rng(seed)
    mdp = garnet(states, 1, seed).mdp
    policy = rng.random(mdp.n_pairs) ** 3
    nu = Chain.of(mdp, policy / np.add.reduceat(policy, mdp.pair_ptr[:-1])[mdp.s_of]).shares
    sets = [np.flatnonzero(rng.random(states) < part) for _ in range(quotas)]
    owed = [float(nu[members].sum()) * rng.uniform(0.9, 1.0) for members in sets]
    return Problem(mdp, [Quota(f"q{k}", states=sets[k], at_least=owed[k]) for k in range(quotas)])


def garnet_per_state(states, seed=0):
    """Every state is owed 0.3 of the uniform policy's share: the paper's own setting."""
    mdp = scenarios.garnet(states, 5, 5, n_quotas=0, seed=seed).mdp
    return Problem(mdp, rho=0.3 * Chain.of(mdp, 1.0 / mdp.n_actions[mdp.s_of]).shares)
