"""From occupancies to policies: reading one off, leading idle states back, mixing two."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from fairmdp.chain import policy_matrix
from fairmdp.mdp import MDP
from fairmdp.validation import Bools, Floats, Ints

NO_MASS = 1e-13
"""Share of time, relative to an even split, below which a state counts as unvisited."""


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
