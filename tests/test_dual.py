"""The dual Newton solver, its kernels one by one, and both price solvers against the linear program."""

from itertools import pairwise

import models
import numpy as np
import pytest
from scipy.sparse import csr_array

from fairmdp import MDP, Chain, Problem, ProblemError, Quota, Status, scenarios, solve_lp, verify
from fairmdp.backends.base import rare
from fairmdp.backends.cpu.backend import CpuBackend
from fairmdp.chains import factors, sweeps
from fairmdp.chains.policy import policy_matrix, uniform_policy
from fairmdp.chains.prefetch import NEAR
from fairmdp.deadline import Stop
from fairmdp.solvers import conflict
from fairmdp.solvers.colgen import solve_colgen
from fairmdp.solvers.dual import Tuning, solve_dual
from fairmdp.solvers.price_step import price_step


def random_problem(seed, *, feasible=True):
    """Ragged actions, sparse rows, overlapping sets of states and of pairs, caps, rewards of any scale."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 41))
    counts = rng.integers(1, 5, n)
    s_of = np.repeat(np.arange(n), counts)
    P = np.zeros((s_of.size, n))
    for row in P:
        targets = rng.choice(n, min(n, int(rng.integers(1, 5))), replace=False)
        row[targets] = rng.dirichlet(np.ones(targets.size))
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    if rng.random() < 0.5:
        P[np.arange(s_of.size), (s_of + 1) % n] += 0.05
    else:
        P[first] += 0.02 / n  # only the first action of a state wanders everywhere
    P /= P.sum(axis=1, keepdims=True)
    mdp = MDP(P, (rng.normal(size=s_of.size) - 2 * rng.random()) * 10.0 ** rng.integers(-3, 4), s_of)
    weights = rng.random(s_of.size) ** 3 + 1e-3
    pi = weights / np.bincount(s_of, weights)[s_of]
    x = pi * Chain.of(mdp, pi).shares[s_of]
    quotas = []
    for k in range(int(rng.integers(0, min(6, n) + 1))):
        over_pairs = rng.random() < 0.3
        size = s_of.size if over_pairs else n
        chosen = np.sort(rng.permutation(size)[: int(rng.integers(1, size + 1))])
        share = min(float(x[chosen if over_pairs else np.isin(s_of, chosen)].sum()), 1.0)
        low, high = share * rng.uniform(0.8, 1), share + (1 - share) * rng.uniform(0, 0.2)
        low, high = [(low, None), (None, high), (low, high), (share, share)][rng.integers(0, 4)]
        if not feasible and k == 0:
            low, high = 0.5 + share / 2, None
        sets = {"pairs": chosen} if over_pairs else {"states": chosen}
        quotas.append(Quota(f"q{k}", **sets, at_least=low, at_most=high))
    try:
        return Problem(mdp, quotas)
    except ProblemError:  # two quotas drew the same set
        return Problem(mdp)


@pytest.mark.parametrize("solve", [solve_dual, solve_colgen])
@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_the_linear_program(solve, seed):
    problem = random_problem(seed, feasible=seed % 5 != 4)
    exact, sol = solve_lp(problem), solve(problem)
    assert sol.status is exact.status
    assert verify(problem, sol).ok
    if exact.status is Status.OPTIMAL:
        unit = np.ptp(problem.mdp.r) or 1.0
        assert exact.upper - sol.gain <= 1e-6 * unit and sol.upper >= exact.gain - 1e-8 * unit
        assert sol.worst_slack >= -1e-9


def test_larger_than_factors():
    problem = scenarios.garnet(n_states=3000, n_quotas=4, tightness=0.99, seed=3)
    sol = solve_dual(problem)
    assert sol.status is Status.OPTIMAL and verify(problem, sol).ok
    assert sol.counters["sweeps"] > 0  # sweeps did it, not factors
    other = solve_colgen(problem)
    assert abs(sol.gain - other.gain) <= 1e-6
    assert np.abs(sol.prices - other.prices).max() <= 1e-2


@pytest.mark.parametrize("solve", [solve_dual, solve_colgen])
@pytest.mark.parametrize("r", [[1.0, 0.0, 2.0], [3.0, 3.0, 3.0], [0.0, 0.0, 0.0], [-1e9, -2e9, 5.0]])
def test_few_states_and_flat_rewards(solve, r):
    mdp = MDP([[0, 1], [0.5, 0.5], [1, 0]], r, [0, 0, 1])
    for problem in (Problem(mdp), Problem(mdp, [Quota("rest", states=[0], at_least=0.6)])):
        sol, exact = solve(problem), solve_lp(problem)
        assert sol.status is Status.OPTIMAL and verify(problem, sol, exact=True).ok
        assert sol.gain == pytest.approx(exact.gain, abs=1e-6 * (np.ptp(r) or 1))


@pytest.mark.parametrize("solve", [solve_dual, solve_colgen])
def test_one_state(solve):
    sol = solve(Problem(MDP([[1.0], [1.0]], [1.0, 2.0], [0, 0]), [Quota("first", pairs=[0], at_least=0.25)]))
    assert sol.status is Status.OPTIMAL and sol.gain == pytest.approx(1.75, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_crowd_of_quotas_that_overlap(seed):
    """A step looks at some of them only; all are met in the end, at the best gain."""
    mdp = scenarios.garnet(300, n_quotas=0, seed=seed).mdp
    rng = np.random.default_rng(seed)
    shares = Chain.of(mdp, rng.dirichlet(np.ones(mdp.n_actions[0]), mdp.n_states).ravel()).shares
    sets = [np.flatnonzero(rng.random(300) < 0.05) for _ in range(90)]
    quotas = [
        Quota(f"q{k}", states, at_least=0.97 * shares[states].sum())
        if k % 9
        else Quota(f"q{k}", states, at_most=1.02 * shares[states].sum())
        for k, states in enumerate(sets)
    ]
    problem = Problem(mdp, quotas)
    some, every = solve_dual(problem), solve_dual(problem, tuning=Tuning(crowd=90))
    exact = solve_lp(problem)
    for sol in (some, every):
        assert sol.method == "dual" and sol.status is Status.OPTIMAL and verify(problem, sol).ok
        assert sol.gain == pytest.approx(exact.gain, abs=1e-6 * np.ptp(mdp.r))
    assert (exact.prices != 0).sum() > 10 and some.counters["sweeps"] < 0.9 * every.counters["sweeps"]


@pytest.mark.parametrize("seed", [0, 1, 2, 9, 19])  # at 0, 9 and 19 no quota is broken at prices of 0
def test_steps_about_the_quotas_near_their_bounds_end_where_all_are_met(seed):
    problem = models.random_problem(seed)
    sol, exact = solve_dual(problem, tuning=Tuning(crowd=0)), solve_lp(problem)
    assert sol.status is exact.status and verify(problem, sol).ok
    assert sol.gain == pytest.approx(exact.gain, abs=1e-6 * np.ptp(problem.mdp.r))


def test_warm_start_saves_steps():
    problem = scenarios.garnet(n_states=1000, tightness=0.99, seed=1)
    cold = solve_dual(problem)
    nearby = problem.with_bounds(at_least=problem.at_least * 1.002)
    warm = solve_dual(nearby, start=cold)
    assert warm.status is Status.OPTIMAL and verify(nearby, warm).ok
    assert warm.counters["steps"] < solve_dual(nearby).counters["steps"]
    with pytest.raises(ProblemError, match="start is a solution of 1000 states"):
        solve_dual(scenarios.garnet(n_states=50), start=cold)


def test_interrupt_returns_what_is_proved():
    problem = scenarios.garnet(n_states=1000, tightness=0.99, seed=1)
    seen = []

    def stop(state):
        seen.append(state)
        if len(seen) == 2:
            raise KeyboardInterrupt

    sol = solve_dual(problem, tol=1e-8, progress=stop)
    assert sol.stopped is Stop.INTERRUPTED and verify(problem, sol).ok
    assert sol.upper <= seen[0]["upper"] + 1e-9
    assert set(seen[0]) == {"upper", "lower", "gap", "worst_slack", "seconds"}


def test_two_rooms_that_hardly_meet():
    """Nearly decomposable: whatever is claimed must be proved, and the ceiling must hold."""
    eps = 1e-7
    P = [[1 - eps, eps], [0.5, 0.5], [eps, 1 - eps], [0.5, 0.5]]
    problem = Problem(MDP(P, [1.0, 0.0, 0.0, 0.0], [0, 0, 1, 1]), [Quota("b", states=[1], at_least=0.3)])
    exact = solve_lp(problem)
    for solve in (solve_dual, solve_colgen):
        sol = solve(problem)
        assert verify(problem, sol).ok and sol.upper >= exact.gain - 1e-9


# --- kernels against numpy ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    """A small ragged problem, prices, values, a random policy and its chain."""
    problem = next(p for p in map(random_problem, range(20)) if p.n_quotas >= 4)
    rng = np.random.default_rng(0)
    mdp = problem.mdp
    pi = rng.random(mdp.n_pairs)
    pi[rng.random(mdp.n_pairs) < 0.3] = 0
    pi[mdp.pair_ptr[:-1]] += 0.1
    pi /= np.add.reduceat(pi, mdp.pair_ptr[:-1])[mdp.s_of]
    device = CpuBackend(problem, mdp.r)
    return problem, device, rng.normal(size=problem.n_quotas), rng.normal(size=mdp.n_states), pi


def q_values(problem, mu, h):
    return problem.mdp.r + problem.members.T @ mu + problem.mdp.P @ h


@pytest.mark.parametrize("tau", [1e-3, 10.0])
def test_soft_backup(model, tau):
    problem, device, mu, h, _ = model
    mdp = problem.mdp
    q, start = q_values(problem, mu, h), mdp.pair_ptr[:-1]
    best = np.maximum.reduceat(q, start)
    weights = np.exp((q - best[mdp.s_of]) / tau)
    weights[weights < rare(tau)] = 0
    total = np.add.reduceat(weights, start)
    e = best + tau * np.log(total) - h
    backup = device.improve(h, mu, tau)
    np.testing.assert_allclose(backup.pi, weights / total[mdp.s_of], atol=1e-9)
    np.testing.assert_allclose(backup.e, e)
    assert (backup.low, backup.high) == (backup.e.min(), backup.e.max())
    assert backup.top == pytest.approx((best - h).max())


def test_greedy_backup(model):
    problem, device, mu, h, _ = model
    ptr, q = problem.mdp.pair_ptr, q_values(problem, mu, h)
    best = np.array([a + np.argmax(q[a:b]) for a, b in pairwise(ptr)])
    choice, backup = device.greedy(h, mu, ptr[:-1].astype(np.int32), 0.0)
    np.testing.assert_array_equal(choice, best)
    np.testing.assert_allclose(backup.e, q[best] - h)
    np.testing.assert_array_equal(np.flatnonzero(backup.pi), best)
    kept, _ = device.greedy(h, mu, ptr[:-1].astype(np.int32), 1e12)
    np.testing.assert_array_equal(kept, ptr[:-1])  # all are ties


def test_chain(model):
    problem, device, _, _, pi = model
    chain = device.follow(pi)
    n = problem.mdp.n_states
    dense = csr_array((chain.vals, chain.cols, chain.starts), shape=(n, n)).toarray()
    np.testing.assert_allclose(dense, policy_matrix(problem.mdp, pi).toarray())


def test_sweeps_over_more_states_than_are_near():
    """Entries are asked for ahead of their use, in the last rows too."""
    n, rng = NEAR + 100, np.random.default_rng(0)
    cols = rng.integers(0, n, 3 * n).astype(np.int32)
    vals = rng.dirichlet(np.ones(3), n).ravel()
    chain = sweeps.ChainRows(np.arange(0, 3 * n + 1, 3), cols, vals)
    P = csr_array((vals, cols, chain.starts), shape=(n, n))
    nu, work = rng.dirichlet(np.ones(n)), np.empty(n)
    moved = nu.copy()
    sweeps.stationary_sweeps(*chain, moved, work, 0.1, 0.0, 1)
    np.testing.assert_allclose(moved, 0.9 * (nu @ P) + 0.1 * nu, rtol=1e-12)
    e, h = rng.random(n), np.zeros(n)
    once = 0.9 * (P @ e) + 0.1 * e
    left = e.copy()
    sweeps.value_sweeps(*chain, h, left, work, 0.1, 0.0, 1)
    np.testing.assert_allclose(left - left[0], once - once[0], atol=1e-14)
    F, H = rng.random((n, 2), dtype=np.float32), rng.random((n, 2), dtype=np.float32)
    expected = F + P @ H
    sweeps.block_sweeps(*chain, F, H, np.empty_like(H), 0.0, 0.0, 1)
    np.testing.assert_allclose(H, expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["sweeps", "factors"])
def test_chain_solves(model, kind):
    problem, device, _, h, pi = model
    way = device.way("sweeps", damping=0.1, most=5000) if kind == "sweeps" else device.way("factors")
    chain, exact = device.follow(pi), Chain.of(problem.mdp, pi)
    nu, error = way.stationary(chain, np.full(h.size, 1 / h.size), 1e-12)
    assert error <= 1e-12 and np.abs(nu - exact.shares).sum() <= 1e-10
    moved, _ = way.evaluate(chain, np.zeros(h.size), h, 1e-12)
    residual = h + exact.P @ moved - moved
    assert np.ptp(residual) <= 1e-9 and residual.mean() == pytest.approx(nu @ h)
    shares = problem.members @ (pi * nu[problem.mdp.s_of])
    H, _ = way.biases(chain, device.quota_block(pi, shares), None, problem.n_quotas, 1e-5)
    indicator = np.add.reduceat(problem.members.T.toarray() * pi[:, None], problem.mdp.pair_ptr[:-1])
    assert np.ptp(indicator + exact.P @ H - H, axis=0).max() <= 1e-4


@pytest.mark.parametrize("restart", [0.0, 1e-12, 0.2])
def test_factors_solve_a_chain_that_restarts(model, restart):
    _, device, _, h, pi = model
    n, found = h.size, factors.Factors(device.follow(pi).matrix(), 3, restart)
    P = (1 - restart) * device.follow(pi).matrix().toarray() + restart * np.eye(n)[3]
    nu = np.linalg.solve(np.eye(n) - P.T + np.ones((n, n)), np.ones(n))
    np.testing.assert_allclose(found.stationary(), nu, atol=1e-12)
    F = np.column_stack([h, h**2])
    H = found.bias(F)
    np.testing.assert_allclose(F - nu @ F + P @ H - H, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.bias(h), H[:, 0], atol=1e-12)
    rest, steps = np.delete(np.arange(n), 3), found.hitting_times
    np.testing.assert_allclose(steps[rest], 1 + P[np.ix_(rest, rest)] @ steps[rest])
    assert steps[3] == H[3, 0] == 0


def test_totals_curvature_and_shift(model):
    problem, device, _, h, pi = model
    mdp, G = problem.mdp, problem.members.toarray()
    nu = np.random.default_rng(1).dirichlet(np.ones(h.size))
    shares, gain, mean = device.totals(pi, nu, h)
    x = pi * nu[mdp.s_of]
    np.testing.assert_allclose(shares, G @ x)
    assert (gain, mean) == pytest.approx((mdp.r @ x, nu @ h))
    H = np.random.default_rng(2).normal(size=(h.size, len(G))).astype(np.float32)
    q = G.T + mdp.P @ H.astype(float)
    mean_q = np.add.reduceat(q * pi[:, None], mdp.pair_ptr[:-1])
    C = (q - mean_q[mdp.s_of]).T @ ((q - mean_q[mdp.s_of]) * x[:, None])
    np.testing.assert_allclose(device.curvature(pi, nu, H), C, atol=1e-9)
    np.testing.assert_allclose(device.shift(h, H, mean_q[0]), h + H @ mean_q[0])


def test_price_step_is_the_minimum():
    rng = np.random.default_rng(4)
    for _ in range(50):
        B = rng.normal(size=(4, 4))
        A, g, mu = B @ B.T + 0.1 * np.eye(4), rng.normal(size=4), rng.normal(size=4)
        low = rng.normal(size=4)
        high = low + rng.random(4)
        low[0], high[1] = -np.inf, np.inf
        mu[0], mu[1] = -abs(mu[0]), abs(mu[1])

        def value(d, A=A, g=g, mu=mu, low=low, high=high):
            t = mu + d
            if t[0] > 0 or t[1] < 0:
                return np.inf
            return (
                d @ A @ d / 2
                + g @ d
                - sum((low[k] if t[k] > 0 else high[k]) * t[k] for k in range(4) if t[k])
            )

        d = price_step(A, g, mu, low, high, 2.0)
        assert np.abs(d).max() <= 2.0
        for trial in d + 1e-4 * rng.normal(size=(20, 4)):
            assert value(np.clip(trial, -2, 2)) >= value(d) - 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_a_step_on_many_prices_meets_the_conditions_of_its_minimum(seed):
    """Hundreds of quotas that overlap, ill-conditioned, some prices with a bound on one side only."""
    rng = np.random.default_rng(seed)
    K, radius = 150, float(10 ** rng.uniform(-2, 1))
    B = rng.normal(size=(K, K)) * 10 ** rng.uniform(-2, 0, K)
    A, g, mu = B @ B.T + 1e-9 * np.eye(K), rng.normal(size=K), np.maximum(rng.normal(size=K), 0)
    low, high = rng.normal(size=K), np.full(K, np.inf)
    high[::3] = low[::3] + rng.random(K)[::3]
    d = price_step(A, g, mu, low, high, radius)
    t, slope = mu + d, g + A @ d
    assert np.abs(d).max() <= radius and (t[np.isinf(high)] >= 0).all()
    # One-sided slopes of what is minimised.
    right, left = slope - np.where(t >= 0, low, high), slope - np.where(t > 0, low, high)
    size = 1e-6 * (1 + np.abs(slope).max())
    assert (right[d < radius] >= -size).all() and (left[d > -radius] <= size).all()


def test_uniform_start_matches_policy():
    problem = scenarios.garnet(n_states=20, seed=2)
    device = CpuBackend(problem)
    np.testing.assert_allclose(
        device.improve(np.zeros(20), np.zeros(5), 1e9).pi, uniform_policy(problem.mdp), rtol=1e-6
    )


def test_quotas_far_beyond_reach_are_refuted_at_the_first_step():
    problem = scenarios.garnet(n_states=400, n_quotas=3, seed=5)
    beyond = problem.with_bounds(at_least=1.1 * conflict.largest_factor(problem).upper * problem.at_least)
    sol = solve_dual(beyond, tuning=Tuning(conflict=conflict.Tuning(lp_pairs=0)))
    assert sol.status is Status.INFEASIBLE and verify(beyond, sol).ok
    assert sol.counters["steps"] == 1


def test_prices_are_not_looked_for_where_no_quota_is_near():
    problem = scenarios.garnet(n_states=800, n_quotas=3)
    loose = problem.with_bounds(problem.at_least * 0.3)
    found, best = solve_dual(loose), solve_dual(problem.without_quotas())
    assert found.status is Status.OPTIMAL and verify(loose, found).ok
    assert found.counters["steps"] == 0 and found.gain == pytest.approx(best.gain, abs=2e-6)
    assert solve_dual(problem).counters["steps"] > 0
