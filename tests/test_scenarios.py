"""Ready-made problems against the paper's numbers, slow builders, closed forms and physical simulations."""

import inspect
import itertools
import tracemalloc
from functools import partial
from math import comb, exp, factorial, prod

import models
import numpy as np
import pytest
from checks import assert_optimal
from click.testing import CliRunner
from scipy.sparse import csr_array
from scipy.stats import norm

from fairmdp import Chain, ProblemError, Status, load, save, scenarios, simulate, solve, verify
from fairmdp.cli import cli
from fairmdp.cli.new import parameter_help
from fairmdp.io.source import built
from fairmdp.scenarios import (
    SCENARIOS,
    alpha_chain,
    bandit,
    garnet,
    hiring,
    job_flows,
    jobs,
    postal,
    taxi,
    three_state,
)
from fairmdp.workers import serial

CAPPED = {"max_arrivals": 1, "max_withdrawals": 1}
J3 = {"clients": 3, "queue": 2, "arrivals": (1, 0.7, 0.7), "pay": (1, 0.4, 0.2), "limit": 0}


def choose(mdp, rng):
    """A random deterministic policy."""
    policy = np.zeros(mdp.n_pairs)
    policy[mdp.pair_ptr[:-1] + rng.integers(0, mdp.n_actions)] = 1
    return policy


def always(mdp, action):
    """The policy that takes the first of its state's actions for which `action(state, action)` holds."""
    policy = np.zeros(mdp.n_pairs)
    for s in range(mdp.n_states):
        pairs = range(mdp.pair_ptr[s], mdp.pair_ptr[s + 1])
        policy[next(i for i in pairs if action(mdp.state_name(s), mdp.action_name(i)))] = 1
    return policy


def assert_near(samples, value):
    """Independent samples have this mean, within 5 standard errors."""
    samples = np.asarray(samples, float)
    error = samples.std(ddof=1) / np.sqrt(samples.size)
    assert abs(samples.mean() - value) <= 5 * error + 1e-12, (samples.mean(), value, error)
    assert error < 0.03 * max(abs(value), 0.05)  # or the comparison says nothing


# Every scenario.


@pytest.mark.parametrize(
    "name, gain, unconstrained, quota, price",
    [
        ("bandit", 0.85, 1.0, "arm3", 0.6),
        ("jobs", 0.7597573637, 0.7850115400, "client2", 0.269763),
        ("hiring", 0.9353718981, 0.9433761717, "diverse", 0.157873),
        ("taxi", 0.8322235616, 0.9309589041, "zone3", 0.493677),
        ("postal", 1.1762554715, 1.2135009167, "district3", 0.246693),
    ],
)
def test_defaults_show_a_binding_quota_and_its_price(name, gain, unconstrained, quota, price):
    problem = SCENARIOS[name]()
    sol = solve(problem)
    assert_optimal(problem, sol)
    assert verify(problem, sol).ok
    k = problem.quota_index(quota)
    assert sol.gain == pytest.approx(gain, abs=1e-7)
    assert solve(problem.without_quotas()).gain == pytest.approx(unconstrained, abs=1e-7)
    assert sol.prices[k] == pytest.approx(price, abs=1e-6) and sol.quotas[k].slack == pytest.approx(
        0, abs=1e-9
    )


@pytest.mark.parametrize(
    "problem",
    [
        lambda: jobs(queue=(3, 5), capacity=3, arrivals=(0.4, 2.5), quota=(0.2, 0.1)),
        lambda: jobs(queue=6, **CAPPED, quota=0.2),
        lambda: jobs(1, queue=9, arrivals=1, pay=3, quota=0.4),
        lambda: hiring(9, diversity=0.4, quota=0.5),
        lambda: hiring(3, worth=(1, 2), quota=0.7),
        lambda: taxi(
            2, travel=[[1, 4], [5, 2]], demand=(0, 0.5, 0.1, 0.3), fares=np.eye(2) + 1, quota=(0.1, 0.3)
        ),
        lambda: taxi(1, travel=[3], demand=[0.5], fares=[2], quota=0.2),
        lambda: postal(2, backlog=(4, 2), arrivals=(0.7, 1.0), pay=(1, 0.2), quota=(0, 0.5)),
        lambda: bandit(pay=(-1, -2), quota=0.25),
    ],
)
def test_other_parameters_are_solved_and_verified(problem):
    problem = problem()
    sol = solve(problem)
    assert_optimal(problem, sol, tol=1e-6)
    assert verify(problem, sol).ok


@pytest.mark.parametrize("name", ["bandit", "jobs", "hiring", "taxi", "postal"])
def test_files_keep_every_scenario(name, tmp_path):
    problem = SCENARIOS[name]()
    save(problem, tmp_path / "p.toml")
    assert load(tmp_path / "p.toml").digest == problem.digest


def made(name, params):
    return built(SCENARIOS[name], name, params)


def test_parameters_from_the_command_line():
    text = ("clients=3", "queue=2", "arrivals=1,.7,.7", "pay=1,.4,.2", "limit=0", "quota=0,.3,.3")
    assert made("jobs", text).digest == jobs(**J3, quota=(0, 0.3, 0.3)).digest
    assert made("jobs", ("max_arrivals=1",)).mdp.P.nnz < jobs().mdp.P.nnz
    assert (
        made("taxi", ("zones=2", "travel=1,2,2,1", "demand=0,.5,.5,0", "fares=1,1,1,1", "quota=.1")).n_quotas
        == 2
    )
    assert made("postal", ("backlog=1,1,2", "limit=0")).mdp.n_states == 3 * 2 * 2 * 3
    assert made("hiring", ("staff=4", "quota=0.5")).mdp.n_states == 15
    assert made("bandit", ("pay=3,2", "quota=0,.5")).mdp.n_pairs == 2


# Job scheduling.


@pytest.mark.parametrize(
    "parameters, gain, prices",
    [
        pytest.param({"quota": 0}, 0.7850115400, [0, 0], id="J2"),
        pytest.param({"quota": (0, 0.3)}, 0.7597573637, [0, 0.269763], id="J2/0.3"),
        pytest.param({"quota": (0, 0.6)}, 0.6601002758, [0, 0.418793], id="J2/0.6"),
        pytest.param(J3 | {"quota": 0}, 0.5989325565, [0, 0, 0], id="J3"),
        pytest.param(J3 | {"quota": (0, 0.3, 0.3)}, 0.5890144032, None, id="J3/0.3,0.3"),
    ],
)
def test_jobs_of_the_paper(parameters, gain, prices):
    problem = jobs(**parameters)
    sol = solve(problem)
    assert_optimal(problem, sol)
    assert sol.gain == pytest.approx(gain, abs=1e-8)
    if prices is not None:
        assert sol.prices == pytest.approx(prices, abs=1e-6)


def test_jobs_of_the_paper_beyond_reach():
    sol = solve(jobs(quota=(0, 0.7)))
    assert sol.status is Status.INFEASIBLE
    assert sol.infeasibility.reach == pytest.approx([0.6866664157], abs=1e-8)
    assert solve(jobs(**J3, quota=(0, 0.5, 0.5))).status is Status.INFEASIBLE


@pytest.mark.parametrize("seed", range(8))
def test_jobs_agree_with_the_slow_builder(seed):
    rng = np.random.default_rng(seed)
    clients = int(rng.integers(1, 4))
    queue = rng.integers(1, 5, clients)
    capacity = int(rng.integers(1, 5))
    arrivals = rng.uniform(0.1, 3, clients)
    withdraw = float(rng.choice([0, 0.05, 0.7]))
    pay = rng.uniform(0.1, 2, clients)
    limit, quota = rng.integers(0, queue), rng.uniform(0, 0.5, clients)
    fast = jobs(
        clients,
        queue=queue,
        capacity=capacity,
        arrivals=arrivals,
        withdraw=withdraw,
        pay=pay,
        limit=limit,
        quota=quota,
    )
    slow = models.jobs(
        queue, capacity, arrivals, withdraw, pay, list(zip(range(clients), limit, quota, strict=True))
    )
    assert fast.mdp.states == slow.mdp.states and fast.mdp.actions == slow.mdp.actions
    assert fast.mdp.s_of.tolist() == slow.mdp.s_of.tolist()
    assert fast.mdp.r == pytest.approx(slow.mdp.r, abs=1e-15)
    assert np.abs(fast.mdp.P - slow.mdp.P).max() < 1e-14
    assert (fast.members != slow.members).nnz == 0 and fast.at_least == pytest.approx(slow.at_least)


@pytest.mark.parametrize(
    "queue, capacity", [((4, 4), 2), ((2, 2, 2), 2), ((3, 7), 1), ((5,), 9), ((1, 2, 3), 4)]
)
def test_jobs_count_states_and_pairs(queue, capacity):
    mdp = jobs(len(queue), queue=queue, capacity=capacity, arrivals=1, pay=1, limit=0, quota=0).mdp
    served = [m for m in itertools.product(*(range(b + 1) for b in queue)) if sum(m) <= capacity]
    assert mdp.n_states == prod(b + 1 for b in queue)
    assert mdp.n_pairs == sum(prod(b + 1 - k for b, k in zip(queue, m, strict=True)) for m in served)
    assert mdp.P.nnz == mdp.n_pairs * mdp.n_states and mdp.P.data.min() > 0  # strictly ergodic


@pytest.mark.parametrize("seed", range(5))
def test_capped_jobs_are_unichain(seed):
    mdp = jobs(queue=(3, 4), **CAPPED).mdp
    assert np.diff(mdp.P.indptr).max() == 9
    chain = Chain.of(mdp, choose(mdp, np.random.default_rng(seed)))
    assert len(chain.closed_classes) == 1 and chain.closed_classes[0][0] == 0 and chain.periods == (1,)


def test_bernoulli_jobs_without_withdrawals_are_multichain():
    """Idling leaves 24 of 25 states; a policy that gives up on client 1 splits the chain."""
    mdp = jobs(withdraw=0, max_arrivals=1).mdp
    idle = Chain.of(mdp, always(mdp, lambda s, a: a == "serve 0,0"))
    assert [c.tolist() for c in idle.closed_classes] == [[24]]

    def gives_up(s, a):
        n = int(s[0])
        return a == ("serve 0,0" if n >= 3 else f"serve {min(n, 1)},0")

    assert len(Chain.of(mdp, always(mdp, gives_up)).closed_classes) == 2


@pytest.mark.parametrize("caps, top", [({}, 3), ({"max_arrivals": 2}, 2)])
def test_one_client_served_at_once(caps, top):
    """With room and servers enough, tomorrow's queue is min(A, cap): every number in closed form."""
    world = {"clients": 1, "queue": 3, "capacity": 5, "arrivals": 1.7, **caps}
    chance = np.array([exp(-1.7) * 1.7**k / factorial(k) for k in range(top)])
    chance = np.append(chance, 1 - chance.sum())
    mean = chance @ np.arange(top + 1)
    problem = jobs(**world, pay=2, limit=1, quota=0.1)
    sol = solve(problem)
    assert sol.gain == pytest.approx(mean / 5, abs=1e-9)
    assert sol.quotas[0].share == pytest.approx(chance[:2].sum(), abs=1e-9)
    (flow,) = job_flows(sol.occupancy, **world)
    assert flow[1:] == pytest.approx(
        (mean if caps else 1.7, mean, 0, 0 if caps else 1.7 - mean, mean), abs=1e-9
    )


@pytest.mark.parametrize("caps", [{}, {"max_arrivals": 2, "max_withdrawals": 1}])
def test_jobs_against_a_simulation_of_queues(caps):
    """Serve, withdraw, arrive, drop: played with queues, not with the model's matrix."""
    world = {"queue": (3, 5), "capacity": 2, "arrivals": (1.2, 1.5), "withdraw": 0.3, **caps}
    problem = jobs(**world, quota=0)
    mdp = problem.mdp
    rng = np.random.default_rng(5)
    policy = choose(mdp, rng)
    served_at = np.array([[int(k) for k in a[6:].split(",")] for a in mdp.actions])[policy == 1]  # (S, 2)
    n, room = np.zeros((4000, 2), int), np.array(world["queue"])
    low, served, withdrawn, dropped, waiting = (np.zeros((4000, 2)) for _ in range(5))
    for step in range(120):
        m = served_at[n @ [6, 1]]
        gone = np.minimum(rng.binomial(n - m, 0.3), caps.get("max_withdrawals", 99))
        new = np.minimum(rng.poisson(world["arrivals"], n.shape), caps.get("max_arrivals", 99))
        total = n - m - gone + new
        if step >= 20:
            low += n <= 1
            served, withdrawn, waiting = served + m, withdrawn + gone, waiting + n
            dropped += np.maximum(total - room, 0)
        n = np.minimum(total, room)
    x = policy * Chain.of(mdp, policy).shares[mdp.s_of]
    flows = job_flows(x, **world)
    for c, flow in enumerate(flows):
        assert_near(low[:, c] / 100, (problem.members @ x)[c])
        assert_near(served[:, c] / 100, flow.served)
        assert_near(withdrawn[:, c] / 100, flow.withdrawn)
        assert_near(dropped[:, c] / 100, flow.dropped)
        assert_near(waiting[:, c] / 100, flow.waiting)
        assert flow.offered == pytest.approx(flow.served + flow.withdrawn + flow.dropped, abs=1e-12)


def test_job_flows_refuse_the_occupancy_of_another_world():
    with pytest.raises(ProblemError, match=r"occupancy has shape \(111,\), expected \(225,\)"):
        job_flows(solve(jobs()).occupancy, queue=4, capacity=8)


def test_ten_thousand_states_are_built_sparse():
    problem = jobs(queue=99, **CAPPED)
    assert problem.mdp.n_states == 10_000 and problem.mdp.P.indices.dtype == np.int32
    assert problem.mdp.pair_name(problem.mdp.pair_index("99,98", "serve 1,1")) == "99,98/serve 1,1"


# Hiring.

H = {"leave": 0.05, "group_a": 0.7, "accept": 0.8, "outside": 0.05, "worth": (1, 0.9)}


@pytest.mark.parametrize(
    "quota, gain", [(0, 0.9433761717), (0.5, 0.9433761717), (0.6, 0.9353718981), (0.8, 0.8969723879)]
)
def test_hiring_of_the_paper(quota, gain):
    sol = solve(hiring(6, **H, diversity=0.3, quota=quota))
    assert sol.gain == pytest.approx(gain, abs=1e-8)
    beyond = solve(hiring(6, **H, quota=0.92))
    assert beyond.infeasibility.reach == pytest.approx([0.9109934307], abs=1e-8)


@pytest.mark.parametrize(
    "staff, diversity, chances",
    [(6, 0.3, (0.05, 0.7, 0.8, 0.05)), (4, 0.5, (0.4, 0.2, 0.5, 0.9)), (2, 0.1, (0, 1, 1, 0))],
)
def test_hiring_agrees_with_the_slow_builder(staff, diversity, chances):
    leave, group_a, accept, outside = chances
    fast = hiring(
        staff,
        leave=leave,
        group_a=group_a,
        accept=accept,
        outside=outside,
        worth=(1, 2),
        diversity=diversity,
        quota=0.4,
    )
    slow = models.hiring(staff, leave, group_a, accept, outside, (1, 2), diversity, 0.4)
    assert fast.mdp.states == slow.mdp.states
    assert fast.mdp.r == pytest.approx(slow.mdp.r, abs=1e-15)
    assert np.abs(fast.mdp.P - slow.mdp.P).max() < 1e-14
    assert (fast.members != slow.members).nnz == 0


def test_hiring_is_ergodic_and_counted():
    mdp = hiring(5).mdp
    assert mdp.n_states == comb(7, 2) and mdp.n_pairs == 4 * mdp.n_states
    for seed in range(5):
        chain = Chain.of(mdp, choose(mdp, np.random.default_rng(seed)))
        assert chain.closed_classes[0].size == mdp.n_states and chain.periods == (1,)


def test_hiring_against_all_policies():
    """Two posts: the best of 4096 deterministic policies."""
    problem = hiring(2, leave=0.2, worth=(1, 0.2), quota=0)
    mdp = problem.mdp
    P = mdp.P.toarray().reshape(6, 4, 6)
    choices = np.array(list(itertools.product(range(4), repeat=6)))
    A = np.eye(6) - P[np.arange(6), choices].transpose(0, 2, 1)
    A[:, -1] = 1
    shares_of_all = np.linalg.solve(A, np.broadcast_to(np.eye(6)[:, [5]], (4096, 6, 1)))[..., 0]
    assert solve(problem).gain == pytest.approx((shares_of_all @ mdp.r[::4]).max(), abs=1e-9)
    most = (shares_of_all @ (problem.members.toarray()[0, ::4])).max()
    sol = solve(hiring(2, leave=0.2, worth=(1, 0.2), quota=min(1.0, most + 0.01)))
    assert sol.infeasibility.reach == pytest.approx([most], abs=1e-8)


# Taxi.


def test_taxi_against_renewal_rewards():
    """All 27 deterministic policies by the embedded chain of zones: mean pay per mean time of a visit."""
    problem = taxi(quota=0)
    mdp = problem.mdp
    travel, demand, fares = (
        np.reshape(v, (3, 3)) for v in ((1, 2, 3, 2, 1, 3, 3, 3, 1), (0.3, 0.25, 0.05, 0.3, 0.1, 0.05, 0.05, 0.02, 0.03), (2, 3, 4, 3, 2, 4, 4, 4, 2))
    )  # fmt: skip
    calls = demand.sum(axis=1)
    best = -np.inf
    for choice in itertools.product(range(3), repeat=3):
        waits = np.array(choice) == np.arange(3)
        Q = np.where(waits[:, None], demand / calls[:, None], np.eye(3)[list(choice)])
        times = np.where(waits, 1 / calls - 1, 0) + (Q * travel).sum(axis=1)
        pays = np.where(waits, (Q * fares).sum(axis=1), -0.2 * (Q * travel).sum(axis=1))
        policy = np.zeros(mdp.n_pairs)
        policy[mdp.pair_ptr[:3] + choice] = 1
        policy[mdp.pair_ptr[3:-1]] = 1
        chain = Chain.of(mdp, policy)
        for nu in chain.stationary:
            zones = np.flatnonzero(nu[:3])
            visits = Chain(csr_array(Q[np.ix_(zones, zones)])).shares
            cycle = visits @ times[zones]
            x = policy * nu[mdp.s_of]
            assert mdp.r @ x == pytest.approx(visits @ pays[zones] / cycle, abs=1e-12)
            waited = np.where(waits, 1 / calls, 0)[zones] * visits / cycle
            assert (problem.members @ x)[zones] == pytest.approx(waited, abs=1e-12)
            best = max(best, visits @ pays[zones] / cycle)
    assert solve(problem).gain == pytest.approx(best, abs=1e-9)


def test_taxi_is_counted_and_connected_by_waiting():
    travel = np.random.default_rng(2).integers(1, 6, (4, 4))
    world = {
        "zones": 4,
        "travel": travel,
        "demand": 0.1 * (1 - np.eye(4)),
        "fares": np.ones((4, 4)),
        "quota": 0.1,
    }
    mdp = taxi(**world).mdp
    longest = (travel * (1 - np.eye(4, dtype=int))).max(axis=0)  # nobody drives within a zone
    assert mdp.n_states == longest.sum() and mdp.n_pairs == 16 + longest.sum() - 4
    rng = np.random.default_rng(3)
    for _ in range(5):
        policy = choose(mdp, rng) + always(mdp, lambda s, a: a in ("wait", "drive"))
        policy /= np.add.reduceat(policy, mdp.pair_ptr[:-1])[mdp.s_of]
        chain = Chain.of(mdp, policy)
        assert len(chain.closed_classes) == 1 and chain.periods == (1,)
        assert set(range(4)) <= set(chain.closed_classes[0].tolist())
    partner = {"free in 1": "go to 2", "free in 2": "go to 1", "free in 3": "go to 4", "free in 4": "go to 3"}
    shuttles = always(mdp, lambda s, a: a == partner.get(s, "drive"))
    assert len(Chain.of(mdp, shuttles).closed_classes) == 2


# Postal.


def test_one_district_in_closed_form():
    """Delivered at once: a bag waits if one came and no relief did."""
    problem = postal(1, backlog=1, arrivals=0.3, load=1, pay=5, relief=0.1, limit=0, quota=0.7)
    sol = solve(problem)
    assert sol.gain == pytest.approx(5 * 0.9 * 0.3, abs=1e-9)
    assert sol.quotas[0].share == pytest.approx(1 - 0.9 * 0.3, abs=1e-9)


def test_postal_against_a_simulation_of_the_round():
    """Deliver, then a relief day or new mail: played with bags, not with the model's matrix."""
    problem = postal(load=3, load_after_walk=2, relief=0.1, quota=0)
    mdp = problem.mdp
    rng = np.random.default_rng(9)
    policy = choose(mdp, rng)
    to_at = np.flatnonzero(policy) - mdp.pair_ptr[:-1]
    pay, chances, run = np.array([1, 0.6, 0.4]), [0.9, 0.6, 0.5], np.arange(8000)
    at, bags = np.zeros(8000, int), np.zeros((8000, 3), int)
    earned, short = np.zeros(8000), np.zeros((8000, 3))
    for step in range(120):
        to = to_at[64 * at + bags @ [16, 4, 1]]
        delivered = np.minimum(bags[run, to], np.where(to == at, 3, 2))
        if step >= 20:
            short += bags <= 1
            earned += pay[to] * delivered
        bags[run, to] -= delivered
        bags = np.minimum(bags + (rng.random(bags.shape) < chances), 3)
        relief = rng.random(8000) < 0.1
        at, bags = np.where(relief, 0, to), np.where(relief[:, None], 0, bags)
    x = policy * Chain.of(mdp, policy).shares[mdp.s_of]
    assert_near(earned / 100, mdp.r @ x)
    for d in range(3):
        assert_near(short[:, d] / 100, (problem.members @ x)[d])


def test_a_long_backlog_takes_no_dense_matrix():
    assert postal(1, backlog=20_000, arrivals=0.5, pay=1, quota=0.1).mdp.P.nnz < 60_004


def test_postal_is_counted_and_unichain():
    mdp = postal(backlog=(1, 2, 3), limit=0).mdp
    assert (mdp.n_states, mdp.n_pairs) == (3 * 24, 9 * 24)
    assert (mdp.P[:, [0]].toarray() >= 0.02 - 1e-15).all()
    for seed in range(5):
        chain = Chain.of(mdp, choose(mdp, np.random.default_rng(seed)))
        assert len(chain.closed_classes) == 1 and chain.closed_classes[0][0] == 0 and chain.periods == (1,)
    free = postal(relief=0).mdp
    assert len(Chain.of(free, always(free, lambda s, a: a[-1] == s[3])).closed_classes) == 3


# Bandit, and a policy played on the model's own simulator.


@pytest.mark.parametrize("seed", range(5))
def test_bandit_in_closed_form(seed):
    rng = np.random.default_rng(seed)
    pay, quota = rng.normal(size=4), rng.dirichlet(np.ones(5))[:4]
    sol = solve(bandit(pay, quota))
    assert sol.gain == pytest.approx(quota @ pay + (1 - quota.sum()) * pay.max(), abs=1e-9)
    assert sol.prices == pytest.approx(pay.max() - pay, abs=1e-8)


@pytest.mark.parametrize("name", ["jobs", "hiring", "taxi", "postal"])
def test_the_best_fair_policy_keeps_its_promises_when_played(name):
    problem = SCENARIOS[name]()
    mdp, sol = problem.mdp, solve(problem)
    simulator, rng = mdp.simulator(), np.random.default_rng(1)
    ladder = np.cumsum(sol.policy) + 1e-12  # state s owns the numbers from s to s + 1
    states = rng.choice(mdp.n_states, 3000, p=sol.visitation / sol.visitation.sum())
    earned, shares = np.zeros(3000), np.zeros((3000, problem.n_quotas))
    members = problem.members.toarray().T
    for _ in range(100):
        pairs = np.searchsorted(ladder, states + rng.random(3000))
        pairs = np.clip(pairs, mdp.pair_ptr[states], mdp.pair_ptr[states + 1] - 1)
        shares += members[pairs]
        states, rewards = simulator.sample(states, pairs - mdp.pair_ptr[states], rng)
        earned += rewards
    assert_near(earned / 100, sol.gain)
    for k, row in enumerate(sol.quotas):
        assert_near(shares[:, k] / 100, row.share)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_million_steps_of_the_best_fair_policy(name):
    """Shares and gain of 1e6 steps lie within their 99 % intervals around the exact ones."""
    problem = SCENARIOS[name]()
    sol = solve(problem)
    run = partial(simulate, problem.mdp, sol.policy, steps=1000, runs=250, quotas=problem.quotas)
    seen = list(serial(lambda seed: run(seed=seed), np.random.SeedSequence(2).spawn(4)))
    numbers = np.array([[*part.shares, part.gain] for part in seen]).mean(axis=0)
    errors = np.linalg.norm([[*part.share_se, part.gain_se] for part in seen], axis=0) / len(seen)
    times = norm.ppf(1 - 0.005 / numbers.size)  # all intervals together hold with 99 %
    assert (np.abs(numbers - [*sol.shares, sol.gain]) <= times * errors + 1e-12).all()
    assert errors[:-1].max() < 5e-3  # or the comparison says nothing


# The command that writes them.


@pytest.mark.parametrize("name", SCENARIOS)
def test_new_has_an_option_for_every_parameter(name):
    parameters = inspect.signature(SCENARIOS[name]).parameters
    words = parameter_help(SCENARIOS[name])
    assert [*words] == [*parameters] or {*words} == {*parameters}
    assert all(len(text) > 10 for text in words.values())
    shown = CliRunner().invoke(cli, ["new", name, "--help"])
    assert shown.exit_code == 0, shown.output
    for key in parameters:
        assert f"--{key.replace('_', '-')} " in shown.output
    assert "[default: " in shown.output


def test_new_builds_what_was_asked_for(tmp_path):
    file = str(tmp_path / "jobs.npz")
    words = ["new", "jobs", "--clients", "3", "--queue", "2", "--arrivals", "1,0.7,0.7", "--pay", "1,0.4,0.2"]
    ended = CliRunner().invoke(
        cli, [*words, "--limit", "0", "--quota", "20%", "--max-arrivals", "2", "-o", file]
    )
    assert ended.exit_code == 0, ended.output
    assert "27 states" in ended.output and f"next: fairmdp solve {file}" in ended.output
    assert load(file).digest == jobs(**J3, quota=0.2, max_arrivals=2).digest
    for wrong, why in (
        (["--clients", "two"], "--clients: 'two' is not a whole number"),
        (["--nope", "1"], "--nope"),
    ):
        bad = CliRunner().invoke(cli, ["new", "jobs", *wrong])
        assert bad.exit_code == 2 and why in bad.output


# Nonsense.


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: jobs(0), "clients is 0, expected a whole number of at least 1"),
        (lambda: jobs(True), "clients is True"),
        (lambda: jobs(float("nan")), "clients is nan"),
        (lambda: jobs(float("inf")), "clients is inf"),
        (lambda: jobs("two"), "clients holds <U3, expected real numbers"),
        (lambda: jobs(3), "arrivals has 2 numbers, expected 3, one per client, or a single one for all"),
        (lambda: jobs(queue=(4, 4, 4)), "queue has 3 numbers, expected 2"),
        (lambda: jobs(queue=[[4, 4]]), r"queue has shape \(1, 2\), expected 2"),
        (lambda: jobs(queue=(4, 0)), r"queue\[1\] is 0, expected a whole number of at least 1; 1 of 2 entries is"),
        (lambda: jobs(queue=(4, 2.5)), r"queue\[1\] is 2.5"),
        (lambda: jobs(capacity=0), "capacity is 0"),
        (lambda: jobs(capacity=1.5), "capacity is 1.5"),
        (lambda: jobs(arrivals=(1, -1)), r"arrivals\[1\] is -1, expected a rate above 0"),
        (lambda: jobs(arrivals=(1, np.inf)), r"arrivals\[1\] is inf, expected a finite number"),
        (lambda: jobs(withdraw=1), "withdraw is 1, expected a probability from 0 and below 1"),
        (lambda: jobs(pay=(1, -0.3)), r"pay\[1\] is -0.3, expected a number of at least 0"),
        (lambda: jobs(pay=0), "pay is 0 for every client: there is nothing to earn"),
        (lambda: jobs(limit=4), "limit of client 1 is 4, expected less than 4, all that fits there; 2 of 2"),
        (lambda: jobs(quota=(0, 30)), r"quota\[1\] is 30, expected a share between 0 and 1"),
        (lambda: jobs(max_arrivals=0), "max_arrivals is 0"),
        (lambda: jobs(max_withdrawals=-1), "max_withdrawals is -1"),
        (lambda: hiring(1), "staff is 1, expected a whole number of at least 2"),
        (lambda: hiring(leave=1.1), "leave is 1.1, expected a probability"),
        (lambda: hiring(worth=(1, 1, 1)), "worth has 3 numbers, expected 2, one per group"),
        (lambda: hiring(worth=(-1, 1)), r"worth\[0\] is -1"),
        (lambda: hiring(diversity=0), "diversity is 0, expected a probability above 0"),
        (lambda: hiring(diversity=0.6), "diversity is 0.6, expected at most 0.5"),
        (lambda: hiring(quota=60), "quota is 60"),
        (lambda: taxi(0), "zones is 0"),
        (lambda: taxi(2), "travel has 9 numbers, expected 2 x 2"),
        (lambda: taxi(travel=np.zeros((3, 3))), r"travel\[0, 0\] is 0, expected a whole number of at least 1; 9 of 9"),
        (lambda: taxi(demand=np.eye(3) - 0.1), r"demand\[0, 1\] is -0.1, expected a probability"),
        (lambda: taxi(demand=np.eye(3) + 0.1), r"demand row sums\[0\] is 1.3, expected at most 1; 3 of 3"),
        (lambda: taxi(fares=-np.eye(3)), r"fares\[0, 0\] is -1, expected a fare of at least 0"),
        (lambda: taxi(cost=-1), "cost is -1, expected a number of at least 0"),
        (lambda: taxi(quota=(0.1, 0.2)), "quota has 2 numbers, expected 3, one per zone"),
        (lambda: postal(0), "districts is 0"),
        (lambda: postal(arrivals=(0.5, 1.5, 0)), r"arrivals\[1\] is 1.5, expected a probability above 0 and up to 1; 2 of 3"),
        (lambda: postal(load=0), "load is 0"),
        (lambda: postal(relief=1), "relief is 1"),
        (lambda: postal(backlog=1), "limit of district 1 is 1, expected less than 1"),
        (lambda: bandit(pay=()), "pay is empty: a bandit needs at least one arm"),
        (lambda: bandit(pay=(1, np.nan), quota=0), r"pay\[1\] is nan, expected a finite number"),
        (lambda: bandit(quota=(0.1, 0.1)), "quota has 2 numbers, expected 3, one per arm"),
        (lambda: garnet(1), "n_states is 1, expected a whole number of at least 2"),
        (lambda: garnet(True), "n_states is True"),
        (lambda: garnet(10, 0), "n_actions is 0"),
        (lambda: garnet(10, branching=0), "branching is 0"),
        (lambda: garnet(10, n_quotas=6), "n_quotas is 6, but half of 10 states is 5"),
        (lambda: garnet(10, tightness=1), "tightness is 1, expected a probability from 0 and below 1"),
        (lambda: garnet(10, seed=-1), "seed is -1, expected a whole number of at least 0"),
        (lambda: alpha_chain(0), "alpha is 0, expected a probability above 0 and below 1"),
        (lambda: alpha_chain("x"), "alpha holds <U1, expected real numbers"),
        (lambda: alpha_chain(rho=2), "rho is 2, expected a probability"),
        (lambda: three_state([0.1, 0.1]), "rho has shape"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_in_words(build, message):
    with pytest.raises(ProblemError, match=message):
        build()


@pytest.mark.parametrize(
    "build, size, advice",
    [
        (lambda: jobs(10**12), "1.*states", "take fewer clients"),
        (lambda: jobs(queue=10**6), "1e.12 states", "shorter queues"),
        (
            lambda: jobs(6, queue=9, arrivals=1, pay=1, quota=0),
            "1e.06 states and 2.*e.13 transitions",
            r"bring it to 1\.\d+e\+10",
        ),
        (lambda: jobs(queue=99, capacity=10), r"1e\+04 states and 6.16e\+09", "max_arrivals=1"),
        (lambda: hiring(10**6), r"5e\+11 states", "fewer posts"),
        (lambda: taxi(10**9), r"1e\+09 states", "fewer zones"),
        (lambda: taxi(travel=[10**12] * 9), r"3e\+12 states", "longer steps"),
        (lambda: postal(10**9), r"\d+e\+\d+ states", "fewer districts"),
        (lambda: garnet(10**9), r"1e\+09 states and 3e\+10 transitions", "take fewer states"),
        (lambda: garnet(10, 10**6, 10**6), r"10 states and 1e\+13 transitions", "successors"),
        (lambda: postal(8, backlog=9, arrivals=0.5, pay=1, quota=0), r"8e\+08 states", "shorter backlogs"),
    ],
)
def test_sizes_are_refused_before_memory_is_taken(build, size, advice):
    tracemalloc.start()
    try:
        with pytest.raises(ProblemError, match=f"(?s){size}.*{advice}"):
            build()
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "build",
    [
        lambda: jobs(**J3, quota=0),
        lambda: jobs(queue=(3, 8), capacity=3, max_arrivals=2, max_withdrawals=1),
        lambda: jobs(queue=(3, 8), withdraw=0, max_arrivals=3),
        lambda: hiring(7),
    ],
)
def test_predicted_transitions_are_exact(build, monkeypatch):
    transitions = build().mdp.P.nnz
    monkeypatch.setattr(scenarios.parameters, "MAX_TRANSITIONS", transitions)
    build()
    monkeypatch.setattr(scenarios.parameters, "MAX_TRANSITIONS", transitions - 1)
    with pytest.raises(ProblemError, match="transitions or more"):
        build()
