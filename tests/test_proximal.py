import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array

from fairmdp import MDP, Problem, ProblemError, Quota, Status, scenarios, solve_lp, verify
from fairmdp.backends.by_quota import Model
from fairmdp.backends.cpu import proximal as kernels
from fairmdp.chains.chain import Chain
from fairmdp.chains.policy import uniform_policy
from fairmdp.deadline import Stop
from fairmdp.solution.solution import Remark
from fairmdp.solvers.proximal import Tuning, solve_proximal


def per_state(n_states, *, seed=0, factor=0.3, share=1.0):
    """The field's garnet with a quota for a share of the states: a factor of the uniform policy's time."""
    mdp = scenarios.garnet(n_states, 5, 5, n_quotas=0, seed=seed).mdp
    nu = Chain.of(mdp, uniform_policy(mdp)).shares
    chosen = np.random.default_rng(seed).random(n_states) < share
    return Problem(mdp, rho=factor * nu * chosen)


def random_problem(seed):
    """2 to 40 states, ragged actions, self loops of probability 1, rewards of any scale, fair by a margin."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 41))
    counts = rng.integers(1, 5, n)
    s_of = np.repeat(np.arange(n), counts)
    P = np.zeros((s_of.size, n))
    for i, s in enumerate(s_of):
        if i > 0 and s_of[i - 1] == s and rng.random() < 0.1:
            P[i, s] = 1
        else:
            np.add.at(P[i], rng.integers(0, n, 3), rng.dirichlet(np.ones(3)))
            P[i] = 0.9 * P[i] + 0.1 * np.eye(n)[(s + 1) % n]
    r = (rng.random(s_of.size) - rng.random()) * 10.0 ** rng.integers(-3, 4)
    mdp = MDP(P, r, s_of)
    nu = Chain.of(mdp, uniform_policy(mdp)).shares
    factor = rng.uniform(0.2, 0.95)
    if seed % 2:
        return Problem(mdp, rho=factor * nu * (rng.random(n) < 0.7))
    groups = np.array_split(rng.permutation(n)[: max(n // 2, 1)], min(4, max(n // 2, 1)))
    return Problem(
        mdp, [Quota(f"q{k}", states=g, at_least=factor * float(nu[g].sum())) for k, g in enumerate(groups)]
    )


def assert_agrees(problem, solution):
    """Every claim is proved, and the optimum of the exact program lies between gain and upper."""
    verdict = verify(problem, solution)
    assert verdict.ok, verdict.messages
    exact = solve_lp(problem)
    slip = 1e-8 * (np.ptp(problem.mdp.r) or 1)
    assert solution.gain <= exact.upper + slip
    assert solution.upper >= exact.gain - slip


@pytest.mark.parametrize("block", range(10))
def test_agrees_with_the_linear_program(block):
    optimal = 0
    for seed in range(10 * block, 10 * block + 10):
        problem = random_problem(seed)
        solution = solve_proximal(problem)
        assert_agrees(problem, solution)
        assert solution.status in (Status.OPTIMAL, Status.FEASIBLE)
        optimal += solution.status is Status.OPTIMAL
    assert optimal >= 8


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_garnet_to_the_asked_gap(share):
    problem = per_state(300, share=share)
    solution = solve_proximal(problem, tol=1e-6)
    assert solution.status is Status.OPTIMAL
    assert solution.worst_slack >= -1e-12
    assert_agrees(problem, solution)


def test_work_on_garnet_1000():
    solution = solve_proximal(per_state(1000), tol=1e-6)
    assert solution.status is Status.OPTIMAL
    assert solution.counters["cg"] < 15_000  # about 5,000; a wrong curvature takes far more


@pytest.mark.slow
def test_work_on_garnet_1000_when_most_time_is_owed():
    solution = solve_proximal(per_state(1000, factor=0.8), tol=1e-6)
    assert solution.status is Status.OPTIMAL
    assert solution.counters["steps"] < 80  # about 42; 117 if the polish is blind to rewards
    assert solution.counters["cg"] < 60_000  # about 21,000; 1.3 million if damping is also 0.1, sigma to 1e3


def test_groups_are_reordered_and_put_back():
    mdp = scenarios.garnet(60, 4, 3, n_quotas=0, seed=3).mdp
    nu = Chain.of(mdp, uniform_policy(mdp)).shares
    sets = [np.arange(k, 60, 7) for k in (5, 2, 0)]
    problem = Problem(mdp, [Quota(f"q{k}", states=s, at_least=0.9 * nu[s].sum()) for k, s in enumerate(sets)])
    solution = solve_proximal(problem, tol=1e-7)
    assert solution.status is Status.OPTIMAL
    np.testing.assert_allclose(solution.shares, [solution.visitation[s].sum() for s in sets])
    assert_agrees(problem, solution)


def test_rewards_of_any_scale_and_sign():
    base = per_state(60, factor=0.6)
    gap = []
    for scale, shift in ((1.0, 0.0), (1e6, -3e6), (1e-5, 2e-5)):
        mdp = MDP(base.mdp.P, scale * base.mdp.r + shift, base.mdp.s_of)
        problem = base if scale == 1 else Problem(mdp, rho=base.at_least)
        solution = solve_proximal(problem)
        assert solution.status is Status.OPTIMAL
        gap.append((solution.gain - shift) / scale)
    np.testing.assert_allclose(gap, gap[0], atol=2e-6)


def test_without_quotas_and_with_equal_rewards():
    problem = scenarios.garnet(40, n_quotas=0)
    assert_agrees(problem, solve_proximal(problem))
    mdp = problem.mdp
    flat = Problem(MDP(mdp.P, np.full(mdp.n_pairs, -2.0), mdp.s_of), rho=np.full(40, 1e-4))
    assert solve_proximal(flat).gain == pytest.approx(-2.0)


def test_infeasible_quotas_are_proved():
    problem = scenarios.alpha_chain(alpha=0.3, rho=0.4)
    solution = solve_proximal(problem)
    assert solution.status is Status.INFEASIBLE
    assert verify(problem, solution).ok


def test_infeasible_quotas_of_a_large_model_are_never_called_feasible():
    problem = scenarios.alpha_chain(alpha=0.3, rho=0.4)
    solution = solve_proximal(problem, tuning=Tuning(explain_states=1))
    assert solution.status is Status.UNDECIDED
    assert [note.remark for note in solution.notes] == [Remark.IMPOSSIBLE]
    assert verify(problem, solution).status is Status.INFEASIBLE  # by its own witness


def test_starts_from_another_solution():
    problem = per_state(300)
    cold = solve_proximal(problem)
    warm = solve_proximal(problem, start=cold)
    assert warm.status is Status.OPTIMAL
    assert warm.counters["steps"] < cold.counters["steps"]
    with pytest.raises(ProblemError, match="start is a solution of 300 states"):
        solve_proximal(per_state(50), start=cold)


def test_progress_and_interruption():
    problem = per_state(200)
    seen = []

    def watch(news):
        seen.append(news)
        if news["gap"] < 1e-2:
            raise KeyboardInterrupt

    solution = solve_proximal(problem, progress=watch)
    assert set(seen[0]) == {"upper", "lower", "gap", "worst_slack", "seconds"}
    assert all(later["upper"] <= sooner["upper"] for sooner, later in itertools.pairwise(seen))
    assert solution.status is Status.FEASIBLE
    assert solution.gap == pytest.approx(seen[-1]["gap"], rel=1e-6)
    assert solution.stopped is Stop.INTERRUPTED
    assert verify(problem, solution).ok


@pytest.mark.parametrize(
    "quotas, message",
    [
        ([Quota("a", states=[0], at_most=0.5)], "quota a has a cap, at_most 0.5"),
        (
            [Quota("a", states=[0, 1], at_least=0.1), Quota("b", states=[1], at_least=0.1)],
            "quotas a and b overlap",
        ),
        ([Quota("a", pairs=[0], at_least=0.1)], "quota a holds some actions of state s0 and not others"),
    ],
)
def test_refuses_what_the_linear_program_takes(quotas, message):
    problem = Problem(scenarios.three_state().mdp, quotas)
    with pytest.raises(ProblemError, match=message) as error:
        solve_proximal(problem)
    assert 'use method "lp"' in str(error.value)


# Kernels, each against a few lines of numpy.


@pytest.fixture(scope="module")
def setting():
    """A ragged model with groups of one and of three states, and a point z inside it."""
    rng = np.random.default_rng(32)
    S = 30
    counts = rng.integers(1, 5, S)
    SA = int(counts.sum())
    P = csr_array(rng.dirichlet(np.ones(S), SA) * (rng.random((SA, S)) < 0.3))
    P = csr_array(P / P.sum(axis=1)[:, None])
    model = Model(
        P.indptr.astype(np.int64), P.indices.astype(np.int32), P.data.copy(),
        np.concatenate([[0], np.cumsum(counts)]), np.concatenate([np.arange(0, 15, 3), np.arange(15, S + 1)]),
        rng.dirichlet(np.full(S, 5.0)),
    )  # fmt: skip
    s_of = np.repeat(np.arange(S), counts)
    group = np.repeat(np.arange(model.groups.size - 1), np.diff(model.groups))
    c = 0.5 * rng.dirichlet(np.full(model.groups.size - 1, 3.0)) * (rng.random(model.groups.size - 1) < 0.8)
    centre, q, u = rng.random(SA), rng.standard_normal(SA), rng.standard_normal(SA)
    z, theta = np.empty(SA), np.empty(c.size)
    lam, slope = kernels.project(model, kernels.scratch_for(model), centre, q, u, 0.5, 2.0, c, 0.0, z, theta)
    return locals()


def test_project_is_the_nearest_point(setting):
    m, z, c, w = setting["model"], setting["z"], setting["c"], setting["model"].w
    s_of, pair_group = setting["s_of"], setting["group"][setting["s_of"]]
    v = setting["centre"] + 2.0 * (setting["q"] + 0.5 * setting["u"])
    mass = np.bincount(pair_group, weights=w[s_of] * z)
    assert z.min() >= 0
    assert mass.sum() == pytest.approx(1, abs=1e-13)
    assert (mass - c).min() > -1e-14
    np.testing.assert_allclose(z, np.maximum(v - setting["theta"][pair_group], 0), atol=1e-13)
    tight = setting["theta"] < setting["lam"]  # complementarity: own thresholds only on the quota
    np.testing.assert_allclose(mass[tight], c[tight], atol=1e-14)
    assert 0 < tight.sum() < tight.size
    assert setting["slope"] == pytest.approx(np.sum(w[s_of] * z * setting["u"]))
    assert kernels.distance(m, z, v) == pytest.approx(np.sqrt(np.sum(w[s_of] * (z - v) ** 2)))


@pytest.mark.parametrize("guess", [-100.0, 100.0])
def test_project_from_a_bad_guess(setting, guess):
    z, theta = np.empty_like(setting["z"]), np.empty_like(setting["theta"])
    model, scratch = setting["model"], kernels.scratch_for(setting["model"])
    kernels.project(
        model, scratch, setting["centre"], setting["q"], setting["u"], 0.5, 2.0, setting["c"], guess, z, theta
    )
    np.testing.assert_allclose(z, setting["z"], atol=1e-12)


def test_flow_and_advantages(setting):
    model, P, s_of, z = setting["model"], setting["P"], setting["s_of"], setting["z"]
    h, g, q = np.random.default_rng(1).standard_normal(model.w.size), np.empty(model.w.size), np.empty_like(z)
    kernels.advantages(model, setting["q"], h, q)
    np.testing.assert_allclose(q, setting["q"] + P @ h - h[s_of], atol=1e-14)
    x = model.w[s_of] * z
    norm, worst = kernels.flow(model, z, g)
    np.testing.assert_allclose(g, x @ P - np.bincount(s_of, weights=x), atol=1e-15)
    assert norm == pytest.approx(np.sqrt(np.sum(g**2 / model.w)))
    assert worst == pytest.approx(np.abs(g / model.w).max())


def test_direction_solves_with_the_derivative_of_the_flow(setting):
    model, scratch = setting["model"], kernels.scratch_for(setting["model"])
    S, t = model.w.size, 1e-6

    def residual(h):
        q, z, theta, g = (
            np.empty_like(setting["q"]),
            np.empty_like(setting["z"]),
            np.empty_like(setting["c"]),
            np.empty(S),
        )
        kernels.advantages(model, setting["q"], h, q)
        q += 0.5 * setting["u"]
        kernels.project(
            model, scratch, setting["centre"], q, setting["u"], 0.0, 2.0, setting["c"], 0.0, z, theta
        )
        kernels.flow(model, z, g)
        return g

    H = np.array([(residual(t * e) - residual(-t * e)) / (2 * t) for e in np.eye(S)]).T / 2.0
    g, d = residual(np.zeros(S)), np.empty(S)
    damping = 0.1 * model.w
    tight = setting["theta"] < setting["lam"]
    support = np.bincount(setting["group"][setting["s_of"]], weights=setting["z"] > 0)[tight]
    assert {1, 2} <= set(support) and support.max() > 2  # every kind of block is there
    kernels.direction(
        model, scratch, setting["z"], setting["theta"] >= setting["lam"], g, damping, 1e-12, 1000, d
    )
    np.testing.assert_allclose((H + np.diag(damping)) @ d, -g, atol=1e-8)


def test_tops_shares_and_policy(setting):
    model, s_of, q, z = setting["model"], setting["s_of"], setting["q"], setting["z"].copy()
    group, tops, shares, pi = (
        setting["group"],
        np.empty_like(setting["c"]),
        np.empty_like(setting["c"]),
        np.empty_like(q),
    )
    kernels.tops(model, q, tops)
    assert all(tops[g] == q[group[s_of] == g].max() for g in range(tops.size))
    nu = np.empty_like(model.w)
    kernels.visits(model, z, nu)
    np.testing.assert_allclose(nu, np.bincount(s_of, weights=z))
    kernels.shares(model, model.w, shares)
    np.testing.assert_allclose(shares, np.bincount(group, weights=model.w))
    z[s_of == 0] = 0
    kernels.policy(model, z, q, pi)
    np.testing.assert_allclose(np.bincount(s_of, weights=pi), 1)
    assert pi[np.argmax(q[s_of == 0])] == 1
    np.testing.assert_allclose(pi * np.bincount(s_of, weights=z)[s_of], z)


def test_sweeps_find_the_stationary_distribution(setting):
    model, P, s_of = setting["model"], setting["P"], setting["s_of"]
    pi = 1.0 / np.bincount(s_of)[s_of]
    nu = np.full(model.w.size, 1 / model.w.size)
    assert kernels.stationary(model, kernels.scratch_for(model), pi, nu, 1e-13, 2000) <= 1e-13
    np.testing.assert_allclose((pi * nu[s_of]) @ P, nu, atol=1e-13)


def test_sweep_reaches_its_level_in_spite_of_self_loops(setting):
    model, P, s_of = setting["model"], setting["P"].toarray(), setting["s_of"]
    stuck = np.flatnonzero(s_of == 4)[0]
    P[stuck] = np.eye(30)[4]
    P = csr_array(P)
    model = model._replace(
        indptr=P.indptr.astype(np.int64), indices=P.indices.astype(np.int32), data=P.data.copy()
    )
    r, h, level = setting["q"], np.zeros(30), np.full(setting["c"].size, 50.0)  # far above any gain
    level[3] = np.nan
    kernels.sweep(model, r, level, h, 1)
    last = model.groups[-1] - 1  # nothing changes after the last state of a sweep
    ahead = (r + P @ h)[s_of == last].max()
    assert np.isfinite(h).all()
    assert ahead - h[last] == pytest.approx(50.0)
    assert not h[model.groups[3] : model.groups[4]].any()
