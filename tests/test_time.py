"""Models whose steps take time, against closed forms, brute force and finely discretised models."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from fairmdp import (
    MDP,
    Problem,
    Quota,
    Status,
    simulate,
    solve,
    verify,
)

ALMOST = 1e-9


def holds(problem, solution):
    """Every claim is confirmed from the stated data, in rounded and in exact arithmetic."""
    for rational in (False, True):
        verdict = verify(problem, solution, exact=rational)
        assert verdict.ok, verdict.messages
        assert verdict.status is solution.status
    return solution


def per_time(mdp, policy):
    """Shares of time of the pairs and gain per unit of time of a policy with one closed class, by hand."""
    P, s_of, tau = mdp.P.toarray(), mdp.s_of, mdp.durations
    Q = np.zeros((mdp.n_states, mdp.n_states))
    np.add.at(Q, s_of, policy[:, None] * P)
    A = np.vstack([Q.T - np.eye(mdp.n_states), np.ones(mdp.n_states)])
    visits = np.linalg.lstsq(A, np.append(np.zeros(mdp.n_states), 1), rcond=None)[0]
    per_visit = policy * visits[s_of]
    return per_visit * tau / (per_visit @ tau), per_visit @ mdp.r / (per_visit @ tau)


def random_model(seed, n_states=4, n_actions=3):
    """Every state leads everywhere; durations differ by a factor of a thousand."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, n_actions + 1, n_states)
    s_of = np.repeat(np.arange(n_states), counts)
    P = rng.dirichlet(np.full(n_states, 0.4), s_of.size) * 0.99 + 0.01 / n_states
    return MDP(P, rng.normal(size=s_of.size), s_of, durations=10.0 ** rng.uniform(-1.5, 1.5, s_of.size))


def admission(K=5, arrivals=0.8, service=1.0, fee=5.0, waiting=1.0):
    """M/M/1/K with admission control: a fee for each customer let in, and a cost while it waits."""
    rates, reward_rates, s_of, names, lumps = [], [], [], [], []
    for n in range(K + 1):
        for action in ("admit", "reject") if n < K else ("reject",):
            row, fees = np.zeros(K + 1), np.zeros(K + 1)
            if action == "admit":
                row[n + 1], fees[n + 1] = arrivals, fee
            if n > 0:
                row[n - 1] = service
            rates.append(row)
            lumps.append(fees)
            reward_rates.append(-waiting * n)
            s_of.append(n)
            names.append(action)
    return MDP.from_rates(rates, reward_rates, s_of, lumps=np.array(lumps), actions=names, time_unit="hour")


def threshold(T, arrivals=0.8, service=1.0, fee=5.0, waiting=1.0):
    """Gain of admitting below T: the queue is M/M/1/T, whose shares are geometric."""
    share = (arrivals / service) ** np.arange(T + 1)
    share /= share.sum()
    return fee * arrivals * share[:-1].sum() - waiting * np.arange(T + 1) @ share


@pytest.mark.parametrize("fee", [2.0, 5.0, 20.0])
def test_admission_to_a_queue_is_the_best_threshold(fee):
    """Naor (1969): some threshold is optimal."""
    problem = Problem(admission(fee=fee), [Quota("empty", states=[0], at_least=0.0)])
    solution = holds(problem, solve(problem))
    gains = [threshold(T, fee=fee) for T in range(6)]
    assert solution.gain == pytest.approx(max(gains), abs=ALMOST)
    T = int(np.argmax(gains))
    share = 0.8 ** np.arange(T + 1)
    assert solution.shares[0] == pytest.approx(1 / share.sum(), abs=ALMOST)


def test_a_queue_that_must_be_empty_mixes_two_thresholds():
    """The frontier of threshold policies is concave, and a binding quota lies on a chord of it."""
    mdp = admission(fee=20.0)
    points = []
    for T in range(6):
        share = 0.8 ** np.arange(T + 1)
        points.append((1 / share.sum(), threshold(T, fee=20.0)))
    (a, gain_a), (b, gain_b) = points[2], points[1]
    owed = 0.3 * a + 0.7 * b
    solution = Problem(mdp, [Quota("empty", states=[0], at_least=owed)])
    solution = holds(solution, solve(solution))
    assert solution.gain == pytest.approx(0.3 * gain_a + 0.7 * gain_b, abs=ALMOST)
    assert solution.prices[0] == pytest.approx((gain_a - gain_b) / (b - a), abs=1e-7)


def repair_shop(durations_of_repair):
    """A machine earns 10 per hour for 8 hours on average, then one of two repairs is chosen."""
    quick, slow = durations_of_repair
    return MDP(
        [[0, 1], [1, 0], [1, 0]], [10 * 8.0, -30.0, -4.0], [0, 1, 1], durations=[8.0, quick, slow],
        states=["up", "down"], actions=["run", "quick", "slow"], time_unit="hour",
    )  # fmt: skip


@pytest.mark.parametrize(("quick", "slow"), [(1.0, 3.0), (2.0, 2.5), (0.5, 30.0)])
def test_machine_repair_is_renewal_reward(quick, slow):
    """Fixed or random makes no difference: mean earned over mean time of a cycle."""
    mdp = repair_shop((quick, slow))
    problem = Problem(mdp, [Quota("up", states=["up"], at_least=0.0)])
    gains = {"quick": (80 - 30) / (8 + quick), "slow": (80 - 4) / (8 + slow)}
    solution = holds(problem, solve(problem))
    assert solution.gain == pytest.approx(max(gains.values()), abs=ALMOST)
    best = max(gains, key=gains.get)
    assert solution.shares[0] == pytest.approx(8 / (8 + {"quick": quick, "slow": slow}[best]), abs=ALMOST)
    by_rates = MDP.from_rates(
        [[0, 1 / 8], [1 / quick, 0], [1 / slow, 0]], [10.0, -30 / quick, -4 / slow], [0, 1, 1]
    )
    assert solve(Problem(by_rates)).gain == pytest.approx(max(gains.values()), abs=ALMOST)


def test_probabilities_are_per_decision():
    """With probability q of the slow repair the machine is up 8 of 8 + q 3 + (1 - q) hours."""
    mdp = repair_shop((1.0, 3.0))
    problem = Problem(mdp, [Quota("up", states=["up"], at_least=0.8)])  # 8 / (9 + 2 q) = 0.8, so q = 0.5
    solution = holds(problem, solve(problem))
    assert solution.policy == pytest.approx([1, 0.5, 0.5], abs=1e-8)
    assert solution.occupancy == pytest.approx([0.8, 0.05, 0.15], abs=1e-9)  # of the time 1 to 3
    seen = simulate(mdp, solution.policy, steps=4000, runs=50, quotas=problem.quotas)
    assert seen.shares[0] == pytest.approx(0.8, abs=5 * seen.share_se[0])
    assert seen.gain == pytest.approx(solution.gain, abs=5 * seen.gain_se)
    wrong = simulate(mdp, mdp.per_step(solution.policy), steps=4000, runs=50, quotas=problem.quotas)
    assert abs(wrong.shares[0] - 0.8) > 20 * wrong.share_se[0]


def test_alternating_renewal():
    """Shares of time are in proportion to the durations, however often one looks."""
    mdp = MDP([[0, 1, 0], [0, 0, 1], [1, 0, 0]], [1.0, 0.0, -2.0], [0, 1, 2], durations=[1e-4, 2.0, 3e3])
    solution = holds(Problem(mdp), solve(Problem(mdp)))
    assert solution.visitation == pytest.approx(mdp.durations / mdp.durations.sum(), rel=1e-9)
    assert solution.gain == pytest.approx(-1 / mdp.durations.sum(), rel=1e-9)


def discretised(mdp, unit):
    """The same model in steps of a unit, a state for each unit that a pair lasts, and the pair of each."""
    lengths = np.rint(mdp.durations / unit).astype(int)
    n = mdp.n_states + int((lengths - 1).sum())
    rows, r, s_of, pair = [], [], [], []
    extra = mdp.n_states
    for i, (s, length) in enumerate(zip(mdp.s_of, lengths, strict=True)):
        at = int(s)
        for k in range(length):
            row = np.zeros(n)
            if k == length - 1:
                row[: mdp.n_states] = mdp.P[[i]].toarray()[0]
            else:
                row[extra] = 1.0
            rows.append(row)
            r.append(mdp.r[i] / length)
            s_of.append(at)
            pair.append(i)
            at, extra = (extra, extra + 1) if k < length - 1 else (at, extra)
    order = np.argsort(s_of, kind="stable")
    return MDP(np.array(rows)[order], np.array(r)[order] / unit, np.array(s_of)[order]), np.array(pair)[order]


@pytest.mark.parametrize("seed", range(5))
def test_a_finely_discretised_model_is_the_same(seed):
    rng = np.random.default_rng(seed)
    base = random_model(seed, 3)
    mdp = MDP(base.P, base.r, base.s_of, durations=rng.integers(1, 12, base.n_pairs) / 4)
    fine, pair = discretised(mdp, 0.25)
    owed = 1.05 * solve(Problem(mdp)).visitation.min() * np.eye(3)[solve(Problem(mdp)).visitation.argmin()]
    s = int(owed.argmax())
    problem = Problem(mdp, [Quota("s", states=[s], at_least=owed[s])])
    there = Problem(fine, [Quota("s", pairs=np.flatnonzero(mdp.s_of[pair] == s), at_least=owed[s])])
    solution, other = holds(problem, solve(problem)), solve(there)
    assert solution.status is other.status
    if solution.has_policy:
        assert solution.gain == pytest.approx(other.gain, abs=1e-8)
        assert solution.prices == pytest.approx(other.prices, abs=1e-6)


@pytest.mark.parametrize("seed", range(60))
def test_random_models_against_all_deterministic_policies(seed):
    """Every pair of shares and gain is a mixture of those of deterministic policies."""
    mdp = random_model(seed)
    rng = np.random.default_rng(1000 + seed)
    policies = []
    for choice in itertools.product(*(range(n) for n in mdp.n_actions)):
        policy = np.zeros(mdp.n_pairs)
        policy[mdp.pair_ptr[:-1] + np.array(choice)] = 1
        policies.append(per_time(mdp, policy))
    xs, gains = np.array([x for x, _ in policies]), np.array([g for _, g in policies])
    members = np.array([mdp.s_of == 0, np.isin(mdp.s_of, [1, 2]), np.arange(mdp.n_pairs) == mdp.n_pairs - 1])
    shares = xs @ members.T
    bounds = [
        rng.uniform(*np.quantile(shares[:, 0], [0.2, 1])),
        rng.uniform(*np.quantile(shares[:, 1], [0, 0.9])),
    ]
    cap = float(rng.uniform(*np.quantile(shares[:, 2], [0.0, 1.0])))
    A = np.array([-shares[:, 0], -shares[:, 1], shares[:, 2]])
    best = linprog(-gains, A, [-bounds[0], -bounds[1], cap], np.ones((1, gains.size)), [1])
    quotas = [
        Quota("0", states=[0], at_least=bounds[0]),
        Quota("1, 2", states=[1, 2], at_least=bounds[1]),
        Quota("last", pairs=[mdp.n_pairs - 1], at_most=cap),
    ]
    if bounds[0] + bounds[1] > 1:
        return
    problem = Problem(mdp, quotas)
    solution = holds(problem, solve(problem))
    if best.status == 2:
        assert solution.status is Status.INFEASIBLE
        return
    assert solution.status is Status.OPTIMAL
    assert solution.gain == pytest.approx(-best.fun, abs=1e-6 * np.ptp(mdp.rates))
    x, gain = per_time(mdp, solution.policy)
    assert solution.gain == pytest.approx(gain, abs=1e-8 * np.ptp(mdp.rates))
    assert solution.occupancy == pytest.approx(x, abs=1e-8)
