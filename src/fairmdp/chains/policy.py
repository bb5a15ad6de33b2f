"""Policies: the matrix of their chain, reading one off an occupancy, leading idle states back."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats, Ints, count_of, numeric, real_vector
from fairmdp.model.labels import Labelled
from fairmdp.model.mdp import MDP
from fairmdp.model.transitions import ROW_SUM_TOL

NO_MASS = 1e-13
"""Share of time, relative to an even split, below which a state counts as unvisited."""


def policy_matrix(mdp: MDP, policy: ArrayLike) -> csr_array:
    """Transition matrix of a policy's chain, ``P_pi[s, t] = sum_a pi(a|s) P(s, a; t)``, (S, S)."""
    weights = real_vector("policy", policy, mdp.n_pairs)
    played = np.flatnonzero(weights)
    rows = np.searchsorted(played, mdp.pair_ptr)
    kind = mdp.P.indices.dtype  # wider indices would make each product with the chain slower
    chosen = csr_array((weights[played], played.astype(kind), rows.astype(kind)), (mdp.n_states, mdp.n_pairs))
    return chosen @ mdp.P


def policy_of(mdp: MDP, x: Floats) -> Floats:
    """Read the policy off an occupancy, ``x / nu``; states without mass get an action towards the rest.

    The filled actions follow shortest paths back to the states with mass, so they close no class of
    their own whenever the model has such paths.
    """
    nu = np.add.reduceat(x, mdp.pair_ptr[:-1])  # (S,)
    visited = nu > NO_MASS / mdp.n_states
    policy = np.divide(x, nu[mdp.s_of], out=np.zeros(mdp.n_pairs), where=visited[mdp.s_of])
    if not visited.all():
        policy[_actions_towards(mdp, visited)] = 1.0
    return policy


def best_pairs(mdp: MDP, values: Floats) -> Ints:
    """Pair of the largest value in each state, the last one of several, (S,)."""
    return np.lexsort((values, mdp.s_of))[mdp.pair_ptr[1:] - 1]


def uniform_policy(mdp: MDP) -> Floats:
    """Every action of a state with the same probability."""
    return 1.0 / mdp.n_actions[mdp.s_of]


def _actions_towards(mdp: MDP, goal: Bools) -> Ints:
    """One pair for each state outside the goal: a step on a shortest path to it, or the first action."""
    S = mdp.n_states
    reverse = policy_matrix(mdp, np.ones(mdp.n_pairs)).T.tocsr()
    # An extra node S leads to every goal state, so one search from it covers the goal at distance 1.
    targets = np.flatnonzero(goal)
    graph = csr_array(
        (
            np.ones(reverse.nnz + targets.size),
            np.concatenate([reverse.indices, targets]),
            np.concatenate([reverse.indptr, [reverse.nnz + targets.size]]),
        ),
        shape=(S + 1, S + 1),
    )
    _, next_state = breadth_first_order(graph, S, directed=True)
    rows = np.repeat(np.arange(mdp.n_pairs), np.diff(mdp.P.indptr))
    onward = next_state[mdp.s_of[rows]] == mdp.P.indices
    likelihood = np.zeros(mdp.n_pairs)
    likelihood[rows[onward]] = mdp.P.data[onward]
    # Sorted by state, then likelihood, the last pair of each state's run is its likeliest step.
    order = np.lexsort((likelihood, mdp.s_of))
    best = order[mdp.pair_ptr[1:] - 1]
    return best[~goal]


def ladder(mdp: Labelled, pi: Floats) -> Floats:
    """``s + P(action <= a | s)`` for each pair, ascending: ``s + uniform`` falls on the rung of its pair."""
    sums = np.cumsum(pi)
    within = sums - np.concatenate([[0.0], sums])[mdp.pair_ptr[:-1]][mdp.s_of]
    # The last action that is ever taken ends at 1 whatever the rounding, and so do idle ones after it.
    later = np.concatenate([[0.0], np.cumsum(pi[::-1])])[::-1]
    rest = later[1:] - later[mdp.pair_ptr[1:]][mdp.s_of]
    return np.where(rest <= 1e-12, 1.0, np.minimum(within, 1.0)) + mdp.s_of


def checked_policy(mdp: Labelled, policy: ArrayLike) -> Floats:
    """The policy, if it is a distribution over the actions of every state."""
    pi = numeric("policy", policy)
    if pi.shape != (mdp.n_pairs,):
        raise ProblemError(
            f"policy has shape {pi.shape}, expected ({mdp.n_pairs},), one number for each state-action pair"
        )
    bad = ~(np.isfinite(pi) & (pi >= 0))
    if bad.any():
        i = int(np.argmax(bad))
        raise ProblemError(f"policy gives {mdp.pair_text(i)} probability {pi[i]}")
    sums = np.add.reduceat(pi, mdp.pair_ptr[:-1])
    off = np.abs(sums - 1) > ROW_SUM_TOL
    if off.any():
        s = int(np.argmax(off))
        raise ProblemError(
            f"policy is no distribution over the actions of state {mdp.state_name(s)}: "
            f"it sums to {sums[s]:.12g}\n  {count_of(off.sum(), off.size, 'states')} off"
        )
    return pi / sums[mdp.s_of]
