"""Models whose steps take time, against closed forms, brute force and finely discretised models."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.cuda_host import host_launcher

from fairmdp import (
    MDP,
    DeviceProblem,
    FormatError,
    Problem,
    ProblemError,
    Quota,
    Status,
    compare,
    frontier,
    learn,
    load,
    save,
    simulate,
    solve,
    solve_colgen,
    solve_dual,
    solve_lp,
    solve_max_min,
    solve_mirror,
    solve_proximal,
    surprises,
    verify,
    views,
)
from fairmdp.backends.cuda.backend import CudaBackend
from fairmdp.certificate import exact, rounded
from fairmdp.certificate.restated import restated
from fairmdp.solvers.dual import run_dual
from fairmdp.solvers.request import Request

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


def random_model(seed, n_states=4, n_actions=3, spread=1.5):
    """Every state leads everywhere; durations differ by a factor of a thousand, or less."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, n_actions + 1, n_states)
    s_of = np.repeat(np.arange(n_states), counts)
    P = rng.dirichlet(np.full(n_states, 0.4), s_of.size) * 0.99 + 0.01 / n_states
    return MDP(P, rng.normal(size=s_of.size), s_of, durations=10.0 ** rng.uniform(-spread, spread, s_of.size))


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


def that_binds(mdp, count):
    """Quotas on states that an even policy visits more than the best one does, met by the even one."""
    even, _ = per_time(mdp, np.concatenate([np.full(n, 1 / n) for n in mdp.n_actions]))
    shares = np.bincount(mdp.s_of, even)
    short = np.argsort(solve(Problem(mdp)).visitation / shares)[:count].tolist()
    return Problem(mdp, [Quota(f"{s}", states=[s], at_least=0.9 * float(shares[s])) for s in short])


@pytest.mark.parametrize("solver", [solve_lp, solve_dual, solve_colgen, solve_proximal])
def test_every_solver_sees_time(solver):
    mdp = random_model(7, 12, spread=0.5)
    problem = that_binds(mdp, 2)
    solution = holds(problem, solver(problem))
    assert solution.status is Status.OPTIMAL and solution.prices.max() > 1e-3
    assert solution.gain == pytest.approx(solve_lp(problem).gain, abs=1e-6 * np.ptp(mdp.rates))
    x, gain = per_time(mdp, solution.policy)
    assert solution.gain == pytest.approx(gain) and solution.occupancy == pytest.approx(x, abs=1e-8)


def test_later_solves_start_from_earlier_ones():
    problem = that_binds(random_model(3, 12), 2)
    first = holds(problem, solve(problem, method="colgen"))
    moved = problem.with_bounds(0.95 * problem.at_least)
    again = holds(moved, solve(moved, method="colgen", start=first))
    assert again.gain == pytest.approx(solve(moved).gain, abs=1e-6 * np.ptp(problem.mdp.rates))
    same = solve(problem, method="colgen", start=first)
    assert same.counters["columns"] < first.counters["columns"]


def test_host_compiled_cuda_agrees(tmp_path):
    launcher = host_launcher("sweeps", tmp_path)
    mdp = random_model(11, 12)
    problem = that_binds(mdp, 2)
    backend = CudaBackend(problem.uniform, lambda name: launcher)
    there = holds(problem, restated(problem, run_dual(backend, Request.of(1e-6, None, None, None))))
    here = solve(problem)
    assert there.device == "cuda" and there.status is here.status is Status.OPTIMAL
    assert there.gain == pytest.approx(here.gain, abs=2e-6 * np.ptp(mdp.rates))
    assert there.shares == pytest.approx(here.shares, abs=1e-4)


def test_mirror_descent_sees_time():
    problem = Problem(repair_shop((1.0, 3.0)), [Quota("up", states=["up"], at_least=0.75)])
    solution = holds(problem, solve_mirror(problem, steps=20_000))
    assert solution.gain == pytest.approx(solve(problem).gain, rel=0.1)


def test_max_min_and_leximin_even_out_time():
    mdp = MDP(
        [[0, 1], [1, 0], [1, 0]], [0.0, 0.0, 1.0], [0, 1, 1], durations=[6.0, 1.0, 3.0], states=["a", "b"]
    )
    problem = Problem(mdp, [Quota("a", states=["a"], at_least=0), Quota("b", states=["b"], at_least=0)])
    for leximin in (False, True):
        solution = solve_max_min(problem, leximin=leximin)
        assert solution.shares == pytest.approx([6 / 9, 3 / 9], abs=1e-9)
        owed = problem.with_bounds(solution.at_least)
        assert verify(owed, solution, exact=True).ok


def test_infeasible_quotas_are_explained_in_time():
    problem = Problem(repair_shop((1.0, 3.0)), [Quota("up", states=["up"], at_least=0.9)])
    solution = holds(problem, solve(problem))
    assert solution.status is Status.INFEASIBLE
    assert solution.infeasibility.reach == pytest.approx([8 / 9], abs=1e-9)
    assert solution.infeasibility.nearest_at_least == pytest.approx([8 / 9], abs=1e-6)


def test_the_factor_that_could_be_met_is_of_time():
    """State 0 is left every second time at the earliest, after 2 each: 4 units of 12, and 0.6 are owed."""
    mdp = MDP([[0.2, 0.8], [0.5, 0.5], [1, 0]], [1.0, 2.0, 0.0], [0, 0, 1], durations=[1.0, 2.0, 8.0])
    problem = Problem(mdp, [Quota("0", [0], at_least=0.6), Quota("1", [1], at_least=0.9)])
    solution = holds(problem, solve(problem))
    assert solution.infeasibility.common_factor == pytest.approx(5 / 9, abs=1e-9)


@pytest.mark.parametrize("length", [1e-300, 1e16, 0.0, -1.0, np.inf, np.nan])
def test_steps_that_take_no_time_or_ages_are_refused(length):
    with pytest.raises(
        ProblemError,
        match=r"(?s)durations\[1\] is .*a time from 1e-15 to 1e\+15\n  .*; 1 of 2 durations is out of range|finite",
    ):
        MDP([[0, 1], [1, 0]], [0.0, 1.0], [0, 1], durations=[1.0, length])


def test_limits_of_a_share_are_of_time():
    problem = Problem(repair_shop((0.25, 0.5)), [Quota("down", states=["down"], at_least=0.9)])
    assert holds(problem, solve(problem)).infeasibility.reach == pytest.approx([0.5 / 8.5], abs=1e-9)


def test_frontiers_are_per_unit_of_time():
    """Up 8 of 9 to 11 hours: the gain is linear in the share of up, by renewal reward."""
    problem = Problem(repair_shop((1.0, 3.0)), [Quota("up", states=["up"], at_least=0)])
    curve = frontier(problem, "up")
    assert curve.breakpoints == pytest.approx([8 / 11, 8 / 9], abs=1e-8)
    assert curve.slopes[-1] == pytest.approx((50 / 9 - 76 / 11) / (8 / 9 - 8 / 11), abs=1e-6)
    given = frontier(problem, "up", [0.75, 0.8])
    assert given.gains == pytest.approx([curve.gain_at(0.75), curve.gain_at(0.8)], abs=1e-9)
    seen = compare(problem.with_bounds([0.8])).policies
    assert seen["fair"].gain == pytest.approx(curve.gain_at(0.8), abs=1e-9)
    assert seen["uniform"].gain == pytest.approx((80 - 17) / 10, abs=1e-9)


@pytest.mark.parametrize("rational", [False, True])
def test_altered_durations_are_not_confirmed(rational):
    """A solution of other durations, digest forged along with it, is refused."""
    mdp = repair_shop((1.0, 3.0))
    quotas = [Quota("up", states=["up"], at_least=0.8)]
    problem = Problem(mdp, quotas)
    solution = solve(problem)
    other = MDP(mdp.P, mdp.r, mdp.s_of, durations=[8.0, 1.0, 3.001], states=mdp.states, actions=mdp.actions)
    altered = Problem(other, quotas)
    assert altered.digest != problem.digest
    lie = replace(solution, provenance={**solution.provenance, "problem": altered.digest})
    verdict = verify(altered, lie, exact=rational)
    assert not verdict.ok and any("gain" in message for message in verdict.messages)
    steps = Problem(MDP(mdp.P, mdp.r, mdp.s_of, states=mdp.states, actions=mdp.actions), quotas)
    assert not verify(steps, replace(solution, provenance={"problem": steps.digest}), exact=rational).ok
    per_step = replace(solution, policy=mdp.per_step(solution.policy))
    assert not verify(problem, per_step, exact=rational).ok
    assert not verify(problem, replace(solution, bias=solution.bias / mdp.step), exact=rational).ok


def test_the_transformation_is_counted():
    """Durations whose quotients round: intervals of floats contain the exact ones, and what is just outside is seen."""
    for seed in range(30):
        mdp = random_model(seed, 6)
        problem = Problem(mdp, [Quota("0", states=[0], at_least=0.0)])
        policy = np.concatenate([np.full(n, 1 / n) for n in mdp.n_actions])
        narrow, wide = exact.long_run(problem, policy), rounded.long_run(problem, policy)
        assert wide.gain[0] <= narrow.gain[0] and narrow.gain[1] <= wide.gain[1]
        assert wide.shares[0, 0] <= narrow.shares[0, 0] and narrow.shares[0, 1] <= wide.shares[0, 1]
        assert wide.gain[1] - wide.gain[0] < 1e-9 * np.ptp(mdp.rates)
        h = np.random.default_rng(seed).normal(size=mdp.n_states)
        prices = np.zeros(1)
        assert rounded.ceiling(problem, mdp.r, h, prices) >= exact.ceiling(problem, mdp.r, h, prices)


def test_rows_of_equal_steps_are_within_their_bound():
    """Entries of the floats that solvers see, against those made exactly from the stated data."""
    for seed in range(10):
        mdp = random_model(seed, 6, spread=3)
        seen, bound = mdp.uniform.P.toarray(), rounded._model_defect(mdp)
        for i, row in enumerate(exact._rows(mdp)):
            off = [abs(Fraction(float(seen[i, t])) - p) / p for t, p in row if p]
            assert float(max(off)) <= bound[i] < 1e-13


def test_equal_steps_are_as_they_were():
    mdp = MDP([[0, 1], [0.5, 0.5], [1, 0]], [1.0, 0.0, 2.0], [0, 0, 1])
    assert mdp.uniform is mdp and mdp.rates is mdp.r and mdp.step == 1.0
    problem = Problem(mdp)
    assert problem.uniform is problem
    owed = Problem(mdp, [Quota("b", states=[1], at_least=0.25)])
    assert owed.digest == "fc5e7a1b4f7895892081df6dd6053675f1d19ff934dcf841d72695fad104cc42"  # of 0.1
    timed = Problem(MDP(mdp.P, mdp.r, mdp.s_of, durations=[1.0, 1.0, 1.0]))
    assert timed.digest != problem.digest
    assert solve(timed).gain == pytest.approx(solve(problem).gain, abs=1e-12)


def test_self_loops_count_for_the_step():
    """A pair that stays with probability 0.99 may take a hundredth of a step of the others."""
    mdp = MDP([[0.99, 0.01], [1.0, 0.0]], [0, 1], [0, 1], durations=[0.01, 1.0])
    assert mdp.step == 0.5
    assert (mdp.uniform.P.toarray().diagonal() >= 0.1 - 1e-12).all()
    assert solve(Problem(mdp)).visitation == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("ending", ["toml", "npz"])
def test_files_keep_time(tmp_path, ending):
    problem = Problem(repair_shop((0.1, 1 / 3)), [Quota("up", states=["up"], at_least=0.8)])
    save(problem, tmp_path / f"shop.{ending}")
    again = load(tmp_path / f"shop.{ending}")
    assert again.digest == problem.digest and again.mdp.time_unit == "hour"
    assert (again.mdp.durations == problem.mdp.durations).all()


def test_a_file_with_some_durations_is_refused(tmp_path):
    path = tmp_path / "half.toml"
    path.write_text(
        "fairmdp = 1\n[model.a.go]\nreward = 1\nto = {b = 1}\nduration = 2\n"
        "[model.b.go]\nreward = 1\nto = {a = 1}\n"
    )
    with pytest.raises(FormatError, match=r"model\.b\.go\.duration: this field is missing"):
        load(path)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, 1e30])
def test_durations_that_are_none(bad):
    with pytest.raises(ProblemError, match=r"durations\[1\] is .*\n  pair 1 is state 1, "):
        MDP([[0, 1], [1, 0]], [1, 2], [0, 1], durations=[1.0, bad])


def test_rates_that_are_none():
    with pytest.raises(ProblemError, match=r"rates\[0, 1\] is -1.0"):
        MDP.from_rates([[0, -1.0], [1.0, 0]], [0, 0], [0, 1])
    with pytest.raises(ProblemError, match="the diagonal of a generator must balance its row"):
        MDP.from_rates([[-2.0, 1.0], [1.0, -1.0]], [0, 0], [0, 1])
    with pytest.raises(ProblemError, match="lumps has shape"):
        MDP.from_rates([[0, 1.0], [1.0, 0]], [0, 0], [0, 1], lumps=[[1.0]])


def test_a_generator_and_absorbing_pairs():
    mdp = MDP.from_rates([[-2.0, 2.0], [0.0, 0.0], [0.5, -0.5]], [1, 7, 0], [0, 1, 1], lumps=[1.0, 5.0, 2.0])
    assert mdp.P.toarray().tolist() == [[0, 1], [0, 1], [1, 0]]
    assert mdp.durations.tolist() == [0.5, 1.0, 2.0] and mdp.r.tolist() == [1.5, 7.0, 2.0]
    assert solve(Problem(mdp)).gain == pytest.approx(7)


def test_learning_says_that_it_counts_steps():
    mdp = repair_shop((1.0, 3.0))
    with pytest.raises(ProblemError, match="samples do not say how long"):
        learn(mdp.simulator(), [Quota("up", states=["up"], at_least=0.8)], samples=1000)
    with pytest.raises(ProblemError, match="take time"):
        mdp.with_fair_action()
    with pytest.raises(FormatError, match="how long steps take"):
        save(Problem(mdp), "nowhere.drn")


def test_reports_speak_in_the_unit_of_time():
    problem = Problem(repair_shop((1.0, 3.0)), [Quota("up", states=["up"], at_least=0.8)])
    solution = solve(problem)
    assert "gain    6.300000 per hour   optimal" in views.solution_text("shop", problem, solution)
    seen = simulate(problem.mdp, solution.policy, steps=2000, runs=20, quotas=problem.quotas)
    assert seen.run_times == pytest.approx(10_000, rel=0.05)
    text = views.simulation_text("shop", views.simulation_data(problem, seen))
    assert "2,000 decisions" in text and "hours on average" in text and " per hour" in text
    assert surprises(problem, solution, seen) == ()
    assert "gain per hour   costs" in views.frontier_text("shop", frontier(problem, "up"))
    assert "gain per hour   6.300000" in views.comparison_text("shop", compare(problem))
    assert "per hour, at most 6.3" in views.verdict_text(
        "shop", problem, verify(problem, solution, exact=True)
    )
    edges = views.solution_data(problem, solution)["graph"]["edges"]
    assert sorted(edge["flow"] for edge in edges) == pytest.approx([0.5, 0.5])


CTMC = """\
@type: CTMC
@parameters

@reward_models
pay
@nr_states
3
@nr_choices
3
@model
state 0 !0.125 [10] init up
\taction 0 [0]
\t\t1 : 0.125
state 1 !0.5 [0] down
\taction 0 [-20]
\t\t0 : 0.25
\t\t2 : 0.25
state 2 !1 [0] down
\taction 0 [0]
\t\t0 : 1
"""


@pytest.mark.parametrize("kind", ["CTMC", "MA", "Markov Automaton"])
def test_chains_of_storm_in_continuous_time(tmp_path, kind):
    """Up 8 h, then 2 h down, and in half of the cycles one hour more: 8 of 10.5 hours."""
    text = CTMC.replace("CTMC", kind)
    if kind != "CTMC":
        text = text.replace("1 : 0.125", "1 : 1").replace(": 0.25", ": 1/2")
    path = tmp_path / "shop.drn"
    path.write_text(text)
    problem = load(path)
    assert problem.mdp.durations == pytest.approx([8, 2, 1]) and problem.names == ("up", "down")
    solution = holds(problem, solve(problem))
    assert solution.gain == pytest.approx((80 - 20) / 10.5, abs=ALMOST)
    assert solution.shares == pytest.approx([8 / 10.5, 2.5 / 10.5], abs=ALMOST)


def test_states_without_time_are_refused(tmp_path):
    path = tmp_path / "shop.drn"
    path.write_text(CTMC.replace("CTMC", "MA").replace("!1 ", "!0 "))
    with pytest.raises(FormatError, match="state 2 has exit rate 0; of 3 states 1 take no time"):
        load(path)
    path.write_text(CTMC.replace("CTMC", "MA").replace("!1 ", ""))
    with pytest.raises(FormatError, match="there are 2 exit rates, expected 3"):
        load(path)
    path.write_text(CTMC.replace("CTMC", "MA").replace("!1 ", "!fast "))
    with pytest.raises(FormatError, match="exit rate"):
        load(path)


def test_a_device_takes_the_uniform_model():
    with pytest.raises(ProblemError, match="upload problem.uniform"):
        DeviceProblem.of(Problem(repair_shop((1.0, 3.0))), np.asarray)
