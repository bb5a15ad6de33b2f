"""Quotas with weights: general linear constraints, checked against a linear program that knows no shares."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from checks import assert_optimal, long_run
from models import random_problem
from scipy.optimize import linprog
from scipy.sparse import csr_array

from fairmdp import (
    MDP,
    FormatError,
    Problem,
    ProblemError,
    Quota,
    Solution,
    Status,
    certify,
    frontier,
    learn,
    load,
    readout,
    save,
    scenarios,
    simulate,
    solve,
    solve_max_min,
    verify,
)
from fairmdp.backends.cpu.backend import CpuBackend
from fairmdp.backends.opening import open_backend
from fairmdp.chains.policy import uniform_policy
from fairmdp.cli import main
from fairmdp.frontiers import frontier_grid
from fairmdp.solution.solution import Remark
from fairmdp.solvers.auto import choose
from fairmdp.views.sentences import nearest_quotas
from fairmdp.views.text import solution_text

THREE = scenarios.three_state()
CHORES = {"s0": -2.0, "s2": 6.0}  # the mean lies in [-2, 6]


def reference(problem):
    """The linear program as stated, by another solver: status and best gain."""
    mdp = problem.mdp
    flow = -mdp.P.toarray().T
    flow[mdp.s_of, np.arange(mdp.n_pairs)] += 1
    A, b = [], []
    for quota in problem.quotas:
        a = np.zeros(mdp.n_pairs)
        if quota.weights is None:
            a[np.isin(mdp.s_of, quota.states) if quota.pairs is None else quota.pairs] = 1
        else:
            a = quota.weights if quota.weights.size == mdp.n_pairs else quota.weights[mdp.s_of]
        for sign, bound in ((-1, quota.at_least), (1, quota.at_most)):
            if bound is not None:
                A.append(sign * a)
                b.append(sign * bound)
    found = linprog(
        -mdp.r,
        A_ub=np.array(A) if A else None,
        b_ub=b or None,
        A_eq=np.vstack([flow, np.ones(mdp.n_pairs)]),
        b_eq=np.append(np.zeros(mdp.n_states), 1.0),
    )
    return found.status, None if found.fun is None else -found.fun


def with_rows(seed):
    """A random problem with rows of weights of any size and sign that its best policy breaks, or all do."""
    tightness = -2.0 if seed % 5 == 4 else 0.3
    problem = random_problem(seed, n_max=25)
    mdp, rng = problem.mdp, np.random.default_rng(1000 + seed)
    best = solve(problem.without_quotas()).occupancy
    policy = uniform_policy(mdp)
    even = policy * long_run(problem, policy)[mdp.s_of]
    rows = []
    for j in range(3):
        scale = 10.0 ** rng.integers(-3, 4)
        weights = scale * (rng.normal(size=mdp.n_pairs if j else mdp.n_states) + 3 * rng.integers(-1, 2))
        a = weights if weights.size == mdp.n_pairs else weights[mdp.s_of]
        bound = (1 - tightness) * (a @ even) + tightness * (a @ best)
        bound = np.clip(bound, a.min() + 0.01 * np.ptp(a), a.max() - 0.01 * np.ptp(a))
        side = "at_least" if a @ even >= a @ best else "at_most"
        rows.append(Quota(f"row{j}", weights=weights, **{side: bound}))
    return Problem(mdp, [*(problem.quotas if seed % 2 else ()), *rows])


@pytest.mark.parametrize("method", ["lp", "dual", "colgen"])
def test_agrees_with_another_linear_program(method):
    statuses = set()
    for seed in range(24):
        problem = with_rows(seed)
        status, gain = reference(problem)
        solution = solve(problem, method=method)
        verdict = verify(problem, solution)
        assert verdict.ok, (seed, verdict.messages)
        statuses.add(solution.status)
        if status == 2:
            assert solution.status is Status.INFEASIBLE, seed
            continue
        assert solution.status is Status.OPTIMAL, seed
        assert abs(solution.gain - gain) <= 2e-6 * np.ptp(problem.mdp.r), seed
        for row, quota in zip(solution.quotas, problem.quotas, strict=True):
            if quota.weights is None:
                continue
            a = (
                quota.weights
                if quota.weights.size == problem.mdp.n_pairs
                else quota.weights[problem.mdp.s_of]
            )
            assert row.share == pytest.approx(a @ solution.occupancy, rel=1e-9, abs=1e-9 * np.ptp(a))
            if quota.at_least is not None:
                assert row.at_least == pytest.approx(quota.at_least, rel=1e-12)
                assert row.slack >= -1e-9 * np.ptp(a)
    assert statuses == {Status.OPTIMAL, Status.INFEASIBLE}


@pytest.mark.parametrize("kind", ["sweeps", "factors"])
def test_kernels_weigh_what_they_count(kind):
    problem = with_rows(2)
    mdp, G = problem.mdp, problem.members.toarray()
    rng = np.random.default_rng(0)
    device = CpuBackend(problem, mdp.r)
    h, mu = rng.normal(size=mdp.n_states), rng.normal(size=problem.n_quotas)
    q = mdp.r + G.T @ mu + mdp.P @ h
    best = np.maximum.reduceat(q, mdp.pair_ptr[:-1])
    backup = device.improve(h, mu, 0.5)
    assert backup.top == pytest.approx((best - h).max())
    choice, hard = device.greedy(h, mu, mdp.pair_ptr[:-1].astype(np.int32), 0.0)
    assert q[choice] == pytest.approx(best) and hard.high == pytest.approx((best - h).max())
    pi, nu = backup.pi, long_run(problem, backup.pi)
    shares, gain, _ = device.totals(pi, nu, h)
    x = pi * nu[mdp.s_of]
    assert shares == pytest.approx(G @ x) and gain == pytest.approx(mdp.r @ x)
    F = device.quota_block(pi, shares)
    H, left = device.way(kind).biases(device.follow(pi), F, None, problem.n_quotas, 1e-6)
    mean = np.add.reduceat(pi[:, None] * G.T, mdp.pair_ptr[:-1])  # (S, K)
    step = np.add.reduceat(pi[:, None] * (mdp.P @ H), mdp.pair_ptr[:-1])
    assert np.ptp(mean - shares + step - H, axis=0) == pytest.approx(0, abs=1e-4) and left <= 1e-6
    values = G.T + mdp.P @ H.astype(float)
    centre = np.add.reduceat(pi[:, None] * values, mdp.pair_ptr[:-1])[mdp.s_of]
    spread = (values - centre).T @ (x[:, None] * (values - centre))
    assert device.curvature(pi, nu, H) == pytest.approx(spread, abs=1e-6)


def test_exact_arithmetic_takes_the_weights_as_stated():
    for seed in range(6):
        problem = with_rows(seed)
        solution = solve(problem, method="lp")
        verdict = verify(problem, solution, exact=True)
        assert verdict.ok and verdict.status is solution.status, verdict.messages
        if solution.has_policy:
            rough = verify(problem, solution)
            assert (rough.shares[:, 0] <= verdict.shares[:, 0]).all()
            assert (rough.shares[:, 1] >= verdict.shares[:, 1]).all()
            assert rough.upper >= verdict.upper >= verdict.gain[0]
            assert_optimal(problem, solution)


def test_a_claimed_mean_is_checked():
    problem = Problem(THREE.mdp, [Quota("chores", weights=CHORES, at_least=1.0)])
    solution = solve(problem)
    wrong = replace(solution, shares=solution.shares + 1e-6)
    assert "the share" in verify(problem, wrong).messages[0]
    wrong = replace(solution, units=type(solution.units)())
    assert "units are not those" in verify(problem, wrong).messages[0]


def test_weights_of_0_and_1_are_a_set():
    chosen = [Quota("s2", states=["s2"], at_least=0.25)]
    weighed = [Quota("s2", weights={"s2": 1.0}, at_least=0.25)]
    a, b = Problem(THREE.mdp, chosen), Problem(THREE.mdp, weighed)
    assert a.digest == b.digest and not b.weighted.any() and b.units.are_shares
    assert solve(a).quotas == solve(b).quotas
    pairs = Problem(
        THREE.mdp, [Quota("s2", weights={("s2", name): 1 for name in actions(THREE, 2)}, at_least=0.25)]
    )
    assert solve(pairs).quotas == solve(a).quotas and not pairs.over_states[0]


def actions(problem, s):
    mdp = problem.mdp
    return [mdp.action_name(i) for i in range(mdp.pair_ptr[s], mdp.pair_ptr[s + 1])]


def test_scaling_and_shifting_change_nothing_but_the_units():
    row = np.array([0.0, 0.25, 1.0])
    plain = solve(Problem(THREE.mdp, [Quota("row", weights=row, at_least=0.4)])).quotas[0]
    moved = solve(Problem(THREE.mdp, [Quota("row", weights=100 - 8 * row, at_most=100 - 8 * 0.4)])).quotas[0]
    assert moved.share == pytest.approx(100 - 8 * plain.share, abs=1e-9)
    assert moved.slack == pytest.approx(8 * plain.slack, abs=1e-9)
    assert moved.price == pytest.approx(-plain.price / 8, abs=1e-9)
    assert plain.price > 0.1


def test_prices_are_what_a_unit_costs():
    for seed in (0, 2, 4, 6):
        problem = with_rows(seed)
        solution = solve(problem, method="lp")
        if solution.status is Status.INFEASIBLE:
            continue
        for quota, row in zip(problem.quotas, solution.quotas, strict=True):
            if abs(row.price) * np.ptp(quota.weights) < 1e-6:
                continue
            side = "at_least" if row.price > 0 else "at_most"
            step = 1e-5 * np.ptp(quota.weights)
            either = [
                solve(
                    problem.with_quotas([replace(quota, **{side: getattr(quota, side) + d})]), method="lp"
                ).gain
                for d in (-step, step)
            ]
            slopes = (solution.gain - either[0]) / step, (either[1] - solution.gain) / step
            scale = np.ptp(problem.mdp.r) / np.ptp(quota.weights)
            assert min(slopes) - 1e-3 * scale <= -row.price <= max(slopes) + 1e-3 * scale, (seed, row, slopes)


def test_frontier_in_the_units_of_the_weights():
    problem = Problem(THREE.mdp, [Quota("chores", weights=CHORES, at_least=0.5), *THREE.quotas])
    curve = frontier(problem, "chores")
    assert curve.values[0] == -2.0 and curve.last_feasible < 6.0
    assert curve.limit == pytest.approx(curve.last_feasible, abs=1e-6)
    middle = (curve.values[:-1] + curve.values[1:]) / 2
    given = frontier(problem, "chores", middle)
    assert given.slopes == pytest.approx(curve.slopes, abs=1e-6)
    for value, gain, slope in zip(middle, given.gains, curve.slopes, strict=True):
        assert gain == pytest.approx(curve.gain_at(value), abs=1e-8)
        solved = solve(problem.with_quotas([replace(problem.quotas[0], at_least=value)]))
        assert solved.gain == pytest.approx(gain, abs=1e-9)
        row = next(row for row in solved.quotas if row.name == "chores")
        assert row.price == pytest.approx(-slope, abs=1e-6)
    assert (np.diff(curve.slopes) < 0).all()
    assert curve.shares[-1, 0] == pytest.approx(curve.last_feasible, abs=1e-7)
    grid = frontier_grid(problem, "chores", "s2", [0.0, 0.5], [0.1, 0.25])
    assert grid.gains[1, 1] == pytest.approx(solve(problem).gain, abs=1e-6)


def test_a_cap_moves_in_the_units_of_the_weights():
    problem = Problem(THREE.mdp, [Quota("chores", weights=CHORES, at_most=3.0), *THREE.quotas])
    curve = frontier(problem, "chores", bound="at_most")
    assert curve.values[0] == 6.0 and curve.last_feasible > -2.0
    for k, slope in enumerate(curve.slopes):
        value = curve.values[k : k + 2].mean()
        solved = solve(problem.with_quotas([replace(problem.quotas[0], at_most=value)]))
        row = next(row for row in solved.quotas if row.name == "chores")
        assert solved.gain == pytest.approx(curve.gain_at(value), abs=1e-9)
        assert row.price == pytest.approx(-slope, abs=1e-6) and slope >= 0
    given = frontier(problem, "chores", [0.5, 2.0, 1.0], bound="at_most")
    assert np.isnan(given.gains[2]) and 0.5 < given.limit <= curve.last_feasible + 1e-9


def test_frontier_refusals():
    problem = Problem(THREE.mdp, [Quota("chores", weights=CHORES, at_least=0.5), *THREE.quotas])
    with pytest.raises(ProblemError, match="quota chores has weights: a factor is for shares only"):
        frontier(problem)
    with pytest.raises(ProblemError, match="values must be numbers from -2 on"):
        frontier(problem, "chores", [-3.0])
    capped = Problem(THREE.mdp, [Quota("chores", weights=CHORES, at_most=2.0), *THREE.quotas])
    assert frontier(capped).exact  # what is owed moves, a cap stays


def test_rows_that_cannot_be_met_are_explained():
    problem = Problem(THREE.mdp, [Quota("chores", weights=CHORES, at_least=5.5), *THREE.quotas])
    solution = solve(problem)
    assert solution.status is Status.INFEASIBLE
    for exact in (False, True):
        assert verify(problem, solution, exact=exact).ok
    text = solution_text("three", problem, solution)
    most = frontier(Problem(THREE.mdp, [Quota("chores", weights=CHORES, at_least=0.0)]), "chores").limit
    assert f"chores is to be 5.5 at least, and no policy has more than {most:.6g}" in text
    assert "times as much" not in text
    suggested = nearest_quotas(problem, solution.infeasibility)
    (chores,) = (text for text in suggested if text.startswith("chores>="))
    value = float(chores.removeprefix("chores>="))
    assert -2 < value < 5.5
    assert len(suggested) == 1
    again = problem.with_quotas([replace(problem.quotas[0], at_least=value)])
    assert solve(again).status is Status.OPTIMAL
    capped = Problem(THREE.mdp, [Quota("rest", weights={"s0": 1.0, "s1": 1.0, "s2": 5.0}, at_most=1.01)])
    solution = solve(capped)
    assert verify(capped, solution).ok and solution.status is Status.INFEASIBLE
    assert "rest may be 1.01 at most, and no policy has less than" in solution_text("", capped, solution)


@pytest.mark.parametrize("suffix", [".toml", ".npz"])
def test_files_keep_every_bit(tmp_path, suffix):
    mdp = THREE.mdp
    problem = Problem(
        mdp,
        [
            Quota("s2", states=["s2"], at_least=0.2),
            Quota("chores", weights=CHORES, at_least=0.1, at_most=3.3),
            Quota("odd", weights=np.linspace(-0.1, 0.7, mdp.n_pairs), at_most=0.3),
            Quota("pair", weights={("s1", actions(THREE, 1)[0]): 0.3}, at_least=0.01),
            Quota("last", pairs=[0, 1], at_most=0.9),
        ],
    )
    for one in (problem, problem.with_bounds(problem.at_least * 0.77)):
        path = str(tmp_path / f"problem{suffix}")
        save(one, path)
        back = load(path)
        assert back.digest == one.digest
        assert np.array_equal(back.lower, one.lower) and np.array_equal(back.upper, one.upper)
        assert np.array_equal(back.weights.data, one.weights.data)
        assert np.array_equal(back.over_states, [True, True, False, False, False])
        solution = solve(one)
        solution.save(tmp_path / "solution.json")
        read = Solution.load(tmp_path / "solution.json")
        assert read.quotas == solution.quotas and read.units == solution.units
        assert verify(back, read).ok
    assert Problem(mdp, problem.quotas).digest == problem.digest
    assert problem.with_bounds(problem.at_least, problem.at_most).digest == problem.digest
    assert problem.with_mdp(mdp).digest == problem.digest
    first, second, *others = problem.quotas
    other = Problem(mdp, [first, replace(second, weights={"s0": -2.0, "s1": 1e-9, "s2": 6.0}), *others])
    third = Problem(mdp, [first, replace(second, weights={"s0": -2.0, "s1": 2e-9, "s2": 6.0}), *others])
    assert len({problem.digest, other.digest, third.digest}) == 3


def test_files_that_are_wrong(tmp_path):
    model = "[model.a.x]\nreward = 0.0\nto = { b = 1.0 }\n[model.b.y]\nreward = 1.0\nto = { a = 1.0 }\n"
    path = tmp_path / "p.toml"
    for weights, words in (
        ("{ c = 1.0 }", r'quotas\[0\].weights.c: there is no state called "c"'),
        ("{ a = { y = 1.0 } }", r'weights.a.y: state "a" has no action called "y"'),
        ('{ a = "much" }', r'weights.a: expected a number, got "much"'),
        ("{ a = { x = true } }", "weights.a.x: expected a number, got true"),
        ("3.0", "weights: expected a table, got 3.0"),
    ):
        path.write_text(f'fairmdp = 1\n{model}[[quotas]]\nname = "q"\nweights = {weights}\nat_least = 0.1\n')
        with pytest.raises(FormatError, match=words):
            load(str(path))
    problem = Problem(THREE.mdp, [Quota("chores", weights=CHORES, at_least=0.5)])
    solve(problem).save(tmp_path / "s.json")
    raw = json.loads((tmp_path / "s.json").read_text())
    for units, words in (
        ({"offset": [0.0], "scale": [0.0]}, "units: expected numbers and scales above 0"),
        ({"offset": [None], "scale": [1.0]}, "units: expected numbers"),
        ({"offset": [0.0, 1.0], "scale": [1.0]}, r"units.offset: expected 1 numbers, got 2"),
        ({"offset": [0.0]}, "units.scale: this field is missing"),
    ):
        (tmp_path / "s.json").write_text(json.dumps({**raw, "units": units}))
        with pytest.raises(FormatError, match=words):
            Solution.load(tmp_path / "s.json")


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Quota("q", weights=[1.0]), "give at_least, at_most or both"),
        (lambda: Quota("q", states=[0], weights=[1.0], at_least=0), "give one of states, pairs, where, weights and reward"),
        (lambda: row([1.0, 2.0]), r"quota q: weights has shape \(2,\), expected \(6,\), one per pair, or \(3,\)"),
        (lambda: row([1.0, np.nan, 0.0]), "quota q: .* has weight nan, expected a finite number"),
        (lambda: row(["a", "b", "c"]), "quota q: weights holds .*, expected real numbers"),
        (lambda: row({"s0": True}), "quota q: the weight of 's0' is True, expected a number"),
        (lambda: row({"s7": 1.0}), "quota q: .*s7"),
        (lambda: row({"s0": 1.0, ("s0", actions(THREE, 0)[0]): 2.0}), "is given a weight twice"),
        (lambda: row(np.ones(3)), "quota q: all weights are 1, so that every policy has the same mean"),
        (lambda: row({}), "all weights are 0"),
        (lambda: row([-1e308, 1e308, 0.0]), "too far apart for floating point"),
        (lambda: row(CHORES, at_least=6.5), "at_least 6.5, and no policy has more than 6\n  its weights go from -2 to 6"),
        (lambda: row(CHORES, at_most=-2.5), "at_most -2.5, and no policy has less than -2\n"),
        (lambda: row(CHORES, at_least=np.nan), "at_least nan, and no policy has more than 6"),
        (lambda: row(CHORES, at_least=2.0, at_most=1.0), "asks for at_least 2 and at_most 1"),
        (lambda: Problem(THREE.mdp, [*twins()]), "quotas a and b bound one set on one side twice"),
        (lambda: stated([[0.0, 1.0, 2.0]]), "quota q has weight 0.0"),
        (lambda: stated([[1.0, 2.0, 2.0]], over_states=True), "over states but weighs actions of one apart"),
        (lambda: stated([[2.0] * 6], pairs=range(6)), "quota q: all weights are 2"),
    ],
)  # fmt: skip
def test_what_is_refused(make, words):
    with pytest.raises(ProblemError, match=words):
        make()


def row(weights, **bounds):
    return Problem(THREE.mdp, [Quota("q", weights=weights, **(bounds or {"at_least": 0.5}))])


def twins():
    return (
        Quota(name, weights={"s0": 2.0 * scale, "s1": scale}, at_least=0.1)
        for name, scale in (("a", 1.0), ("b", 2.0))
    )


def stated(data, pairs=(0, 1, 2), over_states=False):
    weights = csr_array((np.array(data[0]), np.array(pairs), np.array([0, len(pairs)])), shape=(1, 6))
    return Problem.from_members(THREE.mdp, ["q"], weights, [0.5], [2.0], [over_states])


def test_rows_with_one_support_are_no_twins():
    weights = [{"s0": 2.0, "s1": 1.0}, {"s0": 1.0, "s1": 2.0}]
    problem = Problem(THREE.mdp, [Quota(f"q{k}", weights=w, at_least=0.1) for k, w in enumerate(weights)])
    assert problem.n_quotas == 2


def test_a_bound_that_every_policy_meets_asks_for_nothing():
    problem = row(CHORES, at_least=-7.0, at_most=100.0)
    assert problem.at_least[0] == 0 and problem.at_most[0] == 1
    assert problem.lower[0] == -2 and problem.upper[0] == 6
    assert solve(problem).gain == solve(problem.without_quotas()).gain
    for seed in range(20):  # the largest weight can be asked for whatever the rounding
        weights = np.random.default_rng(seed).normal(size=3) + 5
        edge = row(weights, at_least=weights.max(), at_most=weights.max())
        assert edge.at_least[0] == edge.at_most[0] == 1.0


def test_methods_for_sets_refuse_weights():
    problem = row(CHORES)
    with pytest.raises(
        ProblemError, match="quota q has weights; mirror descent takes sets only\n  use method 'lp'"
    ):
        solve(problem, method="mirror")
    with pytest.raises(
        ProblemError, match=r'quota q has weights\n  1 of 1 quotas is weighted\n.*use method "lp"'
    ):
        solve(problem, method="proximal")
    large = scenarios.garnet(1000, n_quotas=150)
    free = np.flatnonzero((large.members.T @ np.ones(150))[large.mdp.pair_ptr[:-1]] == 0)
    weights = dict.fromkeys(free.tolist(), 0.5) | {int(free[0]): 1.0}
    for more, method in (
        ([], "proximal"),
        ([Quota("row", states=free, at_least=0.01)], "proximal"),
        ([Quota("row", weights=weights, at_least=0.01)], "dual"),
    ):
        assert choose(open_backend(large.with_quotas(more)))[0] == method


def test_fair_action_counts_where_it_is_stated():
    by_pair = np.arange(1.0, 7.0)
    problem = Problem(
        THREE.mdp, [Quota("a", weights=CHORES, at_least=0.1), Quota("b", weights=by_pair, at_least=2.0)]
    )
    wider = problem.with_fair_action()
    mdp = wider.mdp
    added = np.array([mdp.action_name(i) == "a*" for i in range(mdp.n_pairs)])
    assert added.sum() == 3
    assert wider.weights[[0]].toarray()[0, added].tolist() == [-2.0, 0.0, 6.0]
    assert wider.weights[[1]].toarray()[0, added].tolist() == [0.0, 0.0, 0.0]
    assert wider.weights[[1]].toarray()[0, ~added].tolist() == by_pair.tolist()
    assert wider.quotas[1].at_least == 2.0 and wider.units.offset[1] == 0.0


def test_no_client_loses_a_larger_part_of_its_jobs():
    problem = scenarios.jobs()
    flows = [scenarios.job_flows(pair) for pair in np.eye(problem.mdp.n_pairs)]
    lost = np.array([[flow.dropped / flow.offered for flow in both] for both in flows])  # (SA, 2)
    quota = Quota("client2 loses no more", weights=lost[:, 1] - lost[:, 0], at_most=0.0)
    fair = Problem(problem.mdp, [quota])
    solution = solve(fair)
    assert verify(fair, solution, exact=True).ok
    first, second = scenarios.job_flows(solution.occupancy)
    assert second.dropped / second.offered == pytest.approx(first.dropped / first.offered, abs=1e-8)
    free = scenarios.job_flows(solve(problem.without_quotas()).occupancy)
    assert free[1].dropped / free[1].offered > 0.3
    assert solution.gain == pytest.approx(reference(fair)[1], abs=1e-8)


def test_groups_are_sets():
    problem = Problem(THREE.mdp, [*THREE.quotas, Quota("chores", weights=CHORES, at_most=0.5)])
    even = solve_max_min(problem, leximin=True)
    assert even.status is Status.OPTIMAL and even.quotas[-1].share <= 0.5 + 1e-8
    shares = even.shares[:3]
    free = solve_max_min(THREE)
    assert shares.min() < free.shares.min() - 1e-3  # the cap stands in the way
    seen = readout(problem, even.policy)
    assert seen.group_min()[1] == pytest.approx(shares.min()) and list(seen.by_group) == ["s0", "s1", "s2"]
    assert seen.difference() == pytest.approx(np.ptp(shares)) and seen.shares[-1] == pytest.approx(0.5)
    assert "chores" in seen.binding
    assert even.notes[-1].remark is Remark.BEST_LEAST_SHARE
    assert even.notes[-1].value == pytest.approx(shares.min(), abs=1e-8)
    with pytest.raises(ProblemError, match="there are no groups"):
        solve_max_min(row(CHORES))
    hopeless = Problem(THREE.mdp, [*THREE.quotas, Quota("chores", weights=CHORES, at_least=5.9)])
    with pytest.raises(ProblemError, match="the quotas with weights cannot be met"):
        solve_max_min(hopeless)


def test_learned_from_samples_and_simulated():
    quotas = [Quota("chores", weights={0: -2.0, 2: 6.0}, at_least=1.0)]  # a simulator has numbers for names
    problem = Problem(THREE.mdp, quotas)
    best = solve(problem)
    learned = learn(THREE.mdp.simulator(), quotas, samples=20_000, seed=3)
    assert learned.guaranteed and learned.gain == pytest.approx(best.gain, abs=0.02)
    mean = problem.units.values(learned.shares)[0]
    assert mean == pytest.approx(1.0, abs=0.2) and mean > 1.0
    for rigorous in (False, True):
        proof = certify(THREE.mdp.simulator(), learned.policy, quotas, samples=200_000, rigorous=rigorous)
        true = readout(problem, learned.policy).shares[0]
        low, high = (problem.units.values(side)[0] for side in (proof.share_low, proof.share_high))
        assert low <= true <= high and high - low < 0.3
    seen = simulate(THREE.mdp, best.policy, steps=5000, quotas=quotas)
    assert problem.units.values(seen.shares)[0] == pytest.approx(1.0, abs=5 * 8 * seen.share_se[0])


def test_command_line_speaks_in_the_units_of_the_weights(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save(Problem(THREE.mdp, [Quota("chores", weights=CHORES, at_least=0.5), *THREE.quotas]), "three.toml")

    def run(*words, code=0):
        monkeypatch.setattr(sys, "argv", ["fairmdp", *words])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        assert (end.value.code or 0) == code, out + err
        return out

    text = run("solve", "three.toml", "--quota", "chores>=1", "--quota", "chores<=3", "-o", "three.json")
    assert "chores   1.0000   >= 1, <= 3   0" in text
    same = ("--quota", "chores>=1", "--quota", "chores<=3")
    assert "confirmed" in run("verify", "three.toml", *same, "three.json", "--exact")
    shares = json.loads(run("verify", "three.toml", *same, "three.json", "--json"))["shares"]
    assert shares["chores"] == pytest.approx([1.0, 1.0], abs=1e-6)
    seen = json.loads(run("simulate", "three.toml", *same, "three.json", "--steps", "2000", "--json"))
    chores = next(q for q in seen["quotas"] if q["name"] == "chores")
    assert chores["exact_share"] == pytest.approx(1.0) and chores["at_most"] == pytest.approx(3.0)
    assert chores["share"] == pytest.approx(1.0, abs=0.2)
    assert ">= 1, <= 3" in run("simulate", "three.toml", *same, "three.json", "--steps", "200")
    curve = json.loads(run("frontier", "three.toml", "chores", "--json"))
    assert curve["values"][0] == -2.0 and curve["limit"] < 6
    learned = json.loads(run("learn", "three.toml", *same, "--samples", "20000", "--json"))
    where = learned["quota_names"].index("chores")
    assert learned["at_least"][where] == pytest.approx(1.0) and 1 < learned["shares"][where] < 1.5
    assert ">= 1, <= 3" in run("learn", "three.toml", *same, "--samples", "20000", "--certify", "20000")
    assert "share chores" in run("compare", "three.toml")
    compared = json.loads(run("compare", "three.toml", "--json"))
    assert (
        compared["fair"]["weighted"]["chores"] >= 0.5 - 1e-9 and "chores" not in compared["fair"]["by_group"]
    )
    assert "no policy has more than" in run("solve", "three.toml", "--quota", "chores>=5.9", code=3)


@pytest.mark.parametrize("size", [30, 3000])
def test_without_rewards_any_fair_policy_will_do(size):
    problem = scenarios.garnet(size, tightness=0.99)
    idle = problem.with_mdp(MDP(problem.mdp.P, np.zeros(problem.mdp.n_pairs), problem.mdp.s_of))
    for method in ("auto", "dual", "colgen"):
        solution = solve(idle, method=method)
        assert solution.status is Status.OPTIMAL and solution.gain == 0.0
        assert solution.worst_slack >= -1e-9 and verify(idle, solution).ok
    text = solution_text("idle", idle, solution, free=solution)
    assert "fair: every policy earns the same, so that any fair one is optimal; worst slack" in text
    assert "costs" not in text
