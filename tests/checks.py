"""Optimality from the problem data alone: shares no code with the package's solvers or certificate."""

import numpy as np

from fairmdp import Status


def assert_optimal(problem, sol, tol=1e-8, reached=slice(None)):
    """Primal feasible, dual feasible where the states are reached, equal objectives; calls nothing in the package."""
    P, r, s_of = problem.mdp.P, problem.mdp.r, problem.mdp.s_of
    G, lower, upper = problem.members, problem.at_least, problem.at_most  # (K, SA) csr, (K,), (K,)
    x, h, mu = sol.occupancy, sol.bias, sol.prices
    unit = max(np.ptp(r), np.abs(r).max() * 1e-3, 1e-300)
    nu = np.bincount(s_of, weights=x, minlength=P.shape[1])
    assert sol.status is Status.OPTIMAL, (sol, sol.notes)
    assert x.min() >= -tol and abs(x.sum() - 1) <= tol  # a distribution
    assert np.abs(nu - x @ P).max() <= tol  # stationary
    assert (G @ x - lower).min(initial=0) >= -tol  # quotas met
    assert (upper - G @ x).min(initial=0) >= -tol
    assert mu[upper == 1].min(initial=0) >= -tol * unit  # prices are prices
    assert mu[lower == 0].max(initial=0) <= tol * unit
    paid = np.where(mu > 0, lower, upper) @ mu
    inside = np.isin(s_of, np.arange(P.shape[1])[reached])
    bound = (r + G.T @ mu + P @ h - h[s_of])[inside].max() - paid
    assert abs(bound - r @ x) <= tol * unit  # nothing can beat it
    assert abs(sol.gain - r @ x) <= tol * unit
    assert_policy_is_fair(problem, sol.policy, tol)


def long_run(problem, policy):
    """Stationary distribution of a policy with one closed class: averaged powers of its chain, by least squares."""
    mdp = problem.mdp
    S = mdp.n_states
    Q = np.zeros((S, S))
    np.add.at(Q, mdp.s_of, policy[:, None] * mdp.P.toarray())
    A = np.vstack([np.eye(S) - Q.T, np.ones(S)])
    b = np.zeros(S + 1)
    b[-1] = 1
    nu, _, rank, _ = np.linalg.lstsq(A, b, rcond=1e-13)
    assert rank == S, "the chain has more than one closed class"
    return nu


def assert_policy_is_fair(problem, policy, tol=1e-8):
    """The policy's own chain meets every quota."""
    x = policy * long_run(problem, policy)[problem.mdp.s_of]
    shares = problem.members @ x
    assert (shares - problem.at_least).min(initial=0) >= -tol
    assert (problem.at_most - shares).min(initial=0) >= -tol
