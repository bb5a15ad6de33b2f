"""The price of fairness: breakpoints, slopes and ends of the curve, exactly."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from models import hiring, jobs, random_problem
from scipy.optimize import linprog

from fairmdp import MDP, Problem, ProblemError, ProcessPool, Quota, Status, frontier, scenarios, solve, verify
from fairmdp.cli import cli
from fairmdp.frontiers import Frontier, frontier_grid, last_feasible
from fairmdp.frontiers.family import Family
from fairmdp.frontiers.points import TOGETHER
from fairmdp.solvers.colgen import WarmColumns
from fairmdp.views import notebook
from fairmdp.views.text import frontier_text

THREE = scenarios.three_state()


def test_three_state_breakpoints_and_slopes():
    curve = frontier(THREE, "s2")
    assert curve.values == pytest.approx([0, 1 / 11, 1 / 3, 9 / 19], abs=1e-9)
    assert curve.breakpoints == pytest.approx([1 / 11, 1 / 3, 9 / 19], abs=1e-9)
    assert curve.slopes == pytest.approx([0, -99 / 190, -171 / 80], abs=1e-9)
    assert curve.gains == pytest.approx([10 / 19, 10 / 19, 0.4, 0.1], abs=1e-9)
    assert curve.last_feasible == pytest.approx(9 / 19, abs=1e-9)
    assert 9 / 19 - 1e-15 <= curve.limit <= 9 / 19 + 1e-12  # proven from above
    assert curve.prices == pytest.approx(10 / 19 - curve.gains, abs=1e-12)
    assert curve.gain_at(0.25) == pytest.approx(337 / 760, abs=1e-9)
    assert all(s.status is Status.OPTIMAL for s in curve.solutions)


def test_common_factor_on_all_quotas():
    curve = frontier(THREE)
    assert curve.values * 0.25 == pytest.approx([0, 1 / 11, 1 / 3, 9 / 19], abs=1e-8)
    assert curve.slopes == pytest.approx(np.array([0, -99 / 190, -171 / 80]) / 4, abs=1e-8)


def test_given_values_and_infeasible_ones():
    curve = frontier(THREE, "s2", [0.5, 0.1, 0.3, 0.95])
    assert curve.values.tolist() == [0.1, 0.3, 0.5, 0.95]
    assert curve.gains[:2] == pytest.approx([991 / 1900, 793 / 1900]) and np.isnan(curve.gains[2:]).all()
    assert curve.slopes[:2] == pytest.approx([-99 / 190] * 2) and np.isnan(curve.slopes[2:]).all()
    assert curve.last_feasible == 0.3 and not curve.exact
    assert curve.shares[:2, 2] == pytest.approx([0.1, 0.3])


@pytest.mark.parametrize("block", range(4))
def test_slopes_are_prices_and_the_curve_is_concave(block):
    """On 100 random problems in all, at the middle of every segment that is long enough to stand on."""
    made = (
        random_problem(seed, n_max=8, caps=seed % 2 == 0) for seed in range(1000 * block, 1000 * block + 1000)
    )
    for problem in itertools.islice((p for p in made if (p.at_least > 0).any()), 25):
        unit = np.ptp(problem.mdp.r)
        curve = frontier(problem, problem.names[int(np.argmax(problem.at_least > 0))])
        assert (np.diff(curve.slopes) <= 1e-6 * unit).all() and (curve.slopes <= 1e-9 * unit).all()
        long = np.flatnonzero(np.diff(curve.values) > 1e-4)
        middles = (curve.values[:-1] + curve.values[1:])[long] / 2
        there = frontier(problem, curve.quota, middles)
        assert there.gains == pytest.approx([*map(curve.gain_at, middles)], abs=1e-7 * unit)
        steep = np.maximum(unit, np.abs(curve.slopes[long]))
        assert (np.abs(there.slopes - curve.slopes[long]) <= 1e-5 * steep).all()


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_the_gain_under_a_cap_is_concave_and_its_slopes_are_prices(block):
    """On 100 random problems, against solutions of the capped problem itself; other caps and floors stay."""
    made = (
        random_problem(seed, n_max=8, caps=seed % 2 == 0) for seed in range(1000 * block, 1000 * block + 1000)
    )
    fair = (p for p in made if p.n_quotas and solve(p).status is Status.OPTIMAL)
    largest = ((p, int(np.argmax(solve(p).shares))) for p in fair)
    free = ((p, k) for p, k in largest if last_feasible(p, p.names[k], "at_most") < 0.99)
    for problem, k in itertools.islice(free, 25):
        unit = np.ptp(problem.mdp.r)
        curve = frontier(problem, problem.names[k], bound="at_most")
        assert curve.values[0] == 1
        assert (np.diff(curve.values) < 0).all() and (np.diff(curve.gains) <= 1e-9 * unit).all()
        assert (np.diff(curve.slopes) >= -1e-6 * unit).all() and (curve.slopes >= -1e-9 * unit).all()
        long = np.flatnonzero(-np.diff(curve.values) > 1e-4)
        middles = (curve.values[:-1] + curve.values[1:])[long] / 2
        given = frontier(problem, problem.names[k], middles, bound="at_most")
        assert (given.values == middles).all()
        for value, slope, seen in zip(middles, curve.slopes[long], given.gains, strict=True):
            at_most = problem.at_most.copy()
            at_most[k] = value
            alone = solve(problem.with_bounds(at_most=at_most))
            steep = max(unit, slope)
            assert alone.gain == pytest.approx(curve.gain_at(value), abs=1e-7 * unit)
            assert seen == pytest.approx(alone.gain, abs=1e-7 * unit)
            price = max(-alone.prices[k], 0)  # a floor may bind instead
            assert price == pytest.approx(slope, abs=1e-5 * steep)
            there = curve.shadow_price(value)
            assert there.price == pytest.approx(-slope) and there.start < value < there.stop
        below = curve.last_feasible - 1e-6
        if below > problem.at_least[k]:
            at_most = problem.at_most.copy()
            at_most[k] = below
            assert solve(problem.with_bounds(at_most=at_most)).status is Status.INFEASIBLE


def test_a_cap_of_the_three_state_problem():
    curve = frontier(THREE, "s0", bound="at_most")
    assert curve.values == pytest.approx([1, 29 / 76, 0.1]) and curve.slopes == pytest.approx([0, 0.9])
    assert last_feasible(THREE, "s0", "at_most") == pytest.approx(0.1)
    first, middle, last = curve.shadow_prices
    assert first[:3] == pytest.approx((0, 0, 0), abs=1e-8) and first.unique is True
    assert middle[:3] == pytest.approx((middle.price, -0.9, 0), abs=1e-8) and middle.unique is False
    assert (
        last.low == -np.inf
        and last.high == pytest.approx(-0.9)
        and (last.start, last.stop) == pytest.approx((0.1, 29 / 76))
    )
    assert curve.shadow_price(0.2)[:3] == pytest.approx((-0.9, -0.9, -0.9))
    assert curve.prices[-1] == pytest.approx(curve.gains[0] - 0.19)
    given = frontier(THREE, "s0", np.linspace(0.15, 0.5, 8), bound="at_most")
    for value, seen in zip(given.values, given.shadow_prices, strict=True):
        exact = curve.shadow_price(value)
        assert seen.low - 1e-9 <= exact.low and exact.high <= seen.high + 1e-9
    free = scenarios.three_state(rho=[0, 0.1, 0.25])
    low = frontier(free, "s0", bound="at_most").last_feasible
    too_low = frontier(free, "s0", [0.5, 0.9 * low], bound="at_most")
    assert np.isnan(too_low.gains[1]) and low - 1e-2 <= too_low.limit <= low
    for shown in (repr(curve), notebook.frontier_html(curve)):
        assert "cap of s0" in shown


def test_command_for_a_cap(tmp_path):
    words = ["frontier", "three-state", "s0", "--cap"]
    ended = CliRunner().invoke(cli, [*words, "--figure", str(tmp_path / "f.pdf")])
    assert ended.exit_code == 0, ended.output
    assert "best gain against the cap of s0" in ended.stdout and "-0.9000   0.1000   0.3816" in ended.stdout
    assert "no policy meets less than 0.100000" in ended.stdout
    answer = json.loads(CliRunner().invoke(cli, [*words, "--values", "0.2,0.5", "--json"]).stdout)
    assert answer["values"] == [0.5, 0.2] and answer["bound"] == "at_most"
    assert answer["shadow_prices"][1]["low"] is None
    bad = CliRunner().invoke(cli, [*words[:3], "s1", "--cap"])
    assert bad.exit_code == 2 and "--cap goes with one quota only" in bad.output


def test_last_feasible_values_of_the_paper_worlds():
    J2 = jobs((4, 4), 2, (1.5, 1.0), 0.05, (1, 0.3), [(1, 1, 0.3)])
    curve = frontier(J2, "client1")
    assert curve.last_feasible == pytest.approx(0.6866664157, abs=1e-8)
    assert curve.gain_at(0.3) == pytest.approx(0.7597573637, abs=1e-8)
    assert curve.gain_at(0.6) == pytest.approx(0.6601002758, abs=1e-8)
    assert curve.values[1] == pytest.approx(0.1638197525, abs=1e-8)  # what the unconstrained policy gives
    assert curve.shadow_price(0.3).price == pytest.approx(0.269763, abs=1e-6)
    J3 = jobs((2, 2, 2), 2, (1, 0.7, 0.7), 0.05, (1, 0.4, 0.2), [(1, 0, 0.3), (2, 0, 0.3)])
    curve = frontier(J3)  # a factor on both quotas
    assert curve.gains[0] == pytest.approx(0.5989325565, abs=1e-8)
    assert curve.gain_at(1) == pytest.approx(0.5890144032, abs=1e-8)
    beyond = J3.with_bounds(J3.at_least * (curve.last_feasible + 1e-6))
    assert curve.last_feasible < 5 / 3 and solve(beyond).status is Status.INFEASIBLE
    H = hiring(6, 0.05, 0.7, 0.8, 0.05, (1, 0.9), 0.3, 0.6)
    curve = frontier(H, "diverse")
    assert curve.last_feasible == pytest.approx(0.9109934307, abs=1e-8)
    assert curve.gain_at(0.8) == pytest.approx(0.8969723879, abs=1e-8)


def test_points_of_a_frontier_are_verified_solutions():
    curve = frontier(THREE, "s2")
    for value, solution in zip(curve.values, curve.solutions, strict=True):
        assert verify(THREE.with_bounds([0.1, 0.1, value]), solution).ok


def test_grid_of_two_quotas():
    grid = frontier_grid(THREE, "s1", "s2", [0.1, 0.46], [0.1, 0.3, 0.46])
    assert grid.gains.shape == (2, 3) and np.isnan(grid.gains[1, 2])
    alone = [solve(scenarios.three_state([0.1, 0.1, v])) for v in (0.1, 0.3, 0.46)]
    assert grid.gains[0] == pytest.approx([s.gain for s in alone])
    assert grid.uppers[0] == pytest.approx([s.upper for s in alone])
    assert grid.shares[0] == pytest.approx(np.array([s.shares for s in alone]))
    assert grid.worst_slacks[0] == pytest.approx([s.worst_slack for s in alone], abs=1e-12)
    refused = frontier_grid(THREE, "s1", "s2", [0.1, 0.95], [0.2])
    assert np.isfinite(refused.gains[0]).all() and np.isnan(refused.gains[1]).all()


def test_shadow_prices_are_slopes_with_a_range():
    curve = frontier(THREE, "s2")
    for k, price in enumerate((0, 99 / 190, 171 / 80)):
        start, stop = curve.values[k : k + 2]
        there = curve.shadow_price((start + stop) / 2)
        assert [*there[:5]] == pytest.approx([price, price, price, start, stop], abs=1e-8)
        assert there.unique is True
    first, middle, second, last = curve.shadow_prices
    assert first.unique is True and first[:3] == pytest.approx((0, 0, 0), abs=1e-8)
    assert (middle.low, middle.high) == pytest.approx((0, 99 / 190), abs=1e-8) and middle.unique is False
    assert (second.low, second.high) == pytest.approx((99 / 190, 171 / 80), abs=1e-8)
    assert last.low == pytest.approx(171 / 80, abs=1e-6) and last.high == np.inf and last.unique is False
    assert curve.shadow_price(curve.values[1]) == middle
    assert curve.relative_prices[2] == pytest.approx(0.24, abs=1e-9)
    assert curve.share_changes[0].tolist() == [0, 0, 0]
    assert curve.share_changes[-1] == pytest.approx(curve.shares[-1] - curve.shares[0])


def test_a_price_from_the_first_unit_on_is_not_unique_at_nothing():
    curve = frontier(scenarios.bandit(), "arm3")  # less than nothing owed is free, more costs 0.6
    assert curve.shadow_prices[0].unique is False and curve.shadow_prices[0].low == 0
    assert curve.shadow_prices[0].high == pytest.approx(0.6, abs=1e-8)


def test_given_values_prove_brackets_of_the_prices():
    """What neighbours prove holds for the true curve, and is sharp where three lie on one segment."""
    curve, true = frontier(THREE, "s2", np.linspace(0, 0.45, 19)), frontier(THREE, "s2")
    for value, seen in zip(curve.values, curve.shadow_prices, strict=True):
        exact = true.shadow_price(value)
        assert seen.low - 1e-9 <= exact.low and exact.high <= seen.high + 1e-9
        assert seen.unique in (True, None)
        if seen.unique:
            assert exact.unique and seen.high - seen.low < 1e-6
        assert seen.start <= value <= seen.stop
        line = true.gain_at(value) - seen.price * (np.array([seen.start, seen.stop]) - value)
        assert line == pytest.approx([true.gain_at(seen.start), true.gain_at(seen.stop)], abs=1e-5)
    assert sum(seen.unique is True for seen in curve.shadow_prices) >= 10
    assert curve.shadow_price(0.2).start == pytest.approx(0.1) and curve.shadow_price(
        0.2
    ).stop == pytest.approx(0.325)


def test_a_value_too_high_proves_the_limit():
    curve = frontier(THREE, "s2", [0.2, 0.5, 0.6])
    assert 9 / 19 <= curve.limit <= 9 / 19 + 1e-3
    assert len(curve.solutions) == 2 and np.isnan(curve.gains[1:]).all()
    factor = frontier(THREE, "*", [1, 2.1])
    assert 36 / 19 <= factor.limit <= 36 / 19 + 1e-2
    assert frontier(THREE, "s2", [0.2]).limit is None
    nobody = frontier(THREE, "s2", [0.6])
    assert np.isnan(nobody.last_feasible) and nobody.shadow_prices == ()


def test_a_value_that_was_not_settled_is_not_called_infeasible():
    curve = frontier(THREE, "s2", [0.1, 0.2, 0.3])
    stalled = replace(curve.solutions[1], status=Status.UNDECIDED)
    solutions = [curve.solutions[0], stalled, curve.solutions[2]]
    torn = Frontier.of(Family(THREE, "s2"), curve.values, solutions, exact=False, limit=None)
    assert np.isnan(torn.gains[1]) and len(torn.shadow_prices) == 2 and torn.last_feasible == 0.3
    assert "0.200000   not proved" in frontier_text("x", torn) and "infeasible" not in frontier_text(
        "x", torn
    )
    rows = [row.split(",") for row in torn.to_table().to_csv().splitlines()]
    assert rows[2][6:12] == [""] * 6 and float(rows[3][6]) == pytest.approx(99 / 190)


def test_columns_are_kept_when_only_the_bounds_change():
    """A sweep agrees with cold solutions, is certified at every value, and adds few columns."""
    problem = scenarios.jobs(queue=9, capacity=1, max_arrivals=1, max_withdrawals=1)
    sweep, columns = WarmColumns(), 0
    for value in np.linspace(0, 0.9, 10):
        asked = problem.with_bounds([0, value])
        kept, cold = sweep.solve(asked), solve(asked, method="colgen")
        columns += cold.counters["columns"]
        assert kept.status is Status.OPTIMAL and verify(asked, kept).ok
        assert kept.gain == pytest.approx(cold.gain, abs=2e-6)
    assert kept.counters["columns"] < columns / 2
    too_much = problem.with_bounds([0.9, 0.99])
    answer = sweep.solve(too_much)
    assert answer.status is Status.INFEASIBLE and answer.infeasibility is None and verify(too_much, answer).ok
    assert sweep.solve(asked).gain == pytest.approx(cold.gain, abs=2e-6)  # and back


@pytest.mark.slow
def test_engines_do_not_change_a_frontier():
    problem = scenarios.jobs(queue=9, capacity=1, max_arrivals=1, max_withdrawals=1)
    values = np.linspace(0, 1, 11)
    here = frontier(problem, "client2", values, method="colgen", together=4)
    with ProcessPool(2) as pool:
        there = frontier(problem, "client2", values, method="colgen", together=4, engine=pool)
        grid = frontier_grid(THREE, "s1", "s2", [0.1, 0.2], [0.1, 0.5], engine=pool)
    assert here.gains.tobytes() == there.gains.tobytes() and here.duals.tobytes() == there.duals.tobytes()
    assert here.shares.tobytes() == there.shares.tobytes() and here.limit == there.limit
    assert grid.gains.tobytes() == frontier_grid(THREE, "s1", "s2", [0.1, 0.2], [0.1, 0.5]).gains.tobytes()
    together = frontier(problem, "client2", values, method="colgen")
    assert together.gains == pytest.approx(here.gains, abs=2e-6, nan_ok=True) and values.size < TOGETHER


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: frontier(THREE, "s9"), "there is no quota or state called 's9'; there are s0, s1, s2"),
        (lambda: frontier(THREE, "s2", []), "values must be numbers that are not negative, at least one"),
        (lambda: frontier(THREE, "s2", [float("nan")]), "values must be numbers"),
        (lambda: frontier(THREE, "s2", [-0.1]), "values must be numbers"),
        (lambda: frontier(scenarios.garnet(5000, n_quotas=2), "g0"), "25000 pairs are too many linear programs.*\n  give values"),
        (lambda: frontier(Problem(THREE.mdp), "*"), "nothing is owed, so there is no factor to move"),
        (
            lambda: frontier(THREE.with_quotas([Quota("cap", states=["s0"], at_most=0.05)]), "s2"),
            "the other quotas cannot be met by themselves",
        ),
        (lambda: frontier(THREE, "s2", bound="above"), "bound is 'above', expected 'at_least' or 'at_most'"),
        (lambda: frontier(THREE, "s2", [1.1], bound="at_most"), "values must be numbers from 1 down"),
        (lambda: frontier(THREE, bound="at_most"), "a factor is for what is owed, not for caps"),
        (lambda: frontier(THREE, "s2", [0.1]).breakpoints, "leave values out for its breakpoints"),
        (lambda: frontier(THREE, "s2", [0.1]).shadow_price(0.2), "between given values the gain is not known"),
        (lambda: frontier(THREE, "s2", [0.1], together=0), "together is 0"),
        (lambda: frontier_grid(THREE, "s2", "s2", [0.1], [0.1]), "a grid takes two different quotas by name"),
        (lambda: frontier_grid(THREE, "*", "s2", [0.1], [0.1]), "a grid takes two different quotas by name"),
        (lambda: frontier_grid(THREE, "s1", "s9", [0.1], [0.1]), "there is no quota or state called 's9'"),
        (lambda: frontier(THREE, "s2").gain_at(0.6), "0.6 is outside of the feasible values, 0 to 0.473684"),
    ],
)  # fmt: skip
def test_what_is_refused(call, words):
    with pytest.raises(ProblemError, match=words):
        call()


def test_command(tmp_path):
    table, figure = tmp_path / "f.csv", tmp_path / "f.png"
    words = ["frontier", "three-state", "s2", "--csv", str(table), "--figure", str(figure)]
    ended = CliRunner().invoke(cli, words)
    assert ended.exit_code == 0, ended.output
    assert "0.333333   0.400000   0.126316   24.0 %   2.1375   0.3333   0.4737   0" in ended.stdout
    assert "no policy meets more than 0.473684" in ended.stdout
    assert "the other shares move: s0 " in ended.stdout
    rows = table.read_text().splitlines()
    assert rows[0] == (
        "value,gain,upper,worst_slack,price_of_fairness,relative_price,"
        "price,low,high,start,stop,unique,share_s0,share_s1,share_s2"
    )
    assert len(rows) == 5
    assert figure.read_bytes().startswith(b"\x89PNG")
    answer = json.loads(
        CliRunner().invoke(cli, ["frontier", "three-state", "s2", "--values", "0.1,0.5", "--json"]).stdout
    )
    assert answer["gains"][1] is None and answer["values"] == [0.1, 0.5] and answer["exact"] is False
    assert answer["limit"] == pytest.approx(9 / 19, abs=1e-3) and answer["shadow_prices"][0]["high"] is None
    bad = CliRunner().invoke(cli, ["frontier", "three-state", "s2", "--figure", "x.gif"])
    assert bad.exit_code == 2 and "ends in .png, .pdf or .svg" in bad.output


def test_states_without_a_quota_will_do():
    bare = THREE.without_quotas()
    grid = frontier_grid(bare, "s1", "s2", [0.1], [0.1, 0.3])
    asked = [Quota(name, states=[name], at_least=0) for name in ("s1", "s2")]
    assert (grid.gains == frontier_grid(Problem(bare.mdp, asked), "s1", "s2", [0.1], [0.1, 0.3]).gains).all()
    assert frontier(bare, "s2/a1").quota_names == ("s2/a1",)
    with pytest.raises(ProblemError, match="no quota or state called 's9'"):
        frontier(bare, "s9")


def test_command_for_two_quotas(tmp_path):
    table, figure = tmp_path / "g.csv", tmp_path / "g.pdf"
    words = ["frontier", "three-state", "s1", "s2", "--values", "0:0.46:2", "--second-values", "0.1,0.46"]
    ended = CliRunner().invoke(cli, [*words, "--csv", str(table), "--figure", str(figure)])
    assert ended.exit_code == 0, ended.output
    assert "s1 \\ s2   0.1        0.46" in ended.stdout and "- : no policy meets both" in ended.stdout
    assert "worst slack of all 0" in ended.stdout
    rows = table.read_text().splitlines()
    assert rows[0] == "owed_s1,owed_s2,gain,upper,worst_slack,share_s0,share_s1,share_s2" and len(rows) == 5
    assert figure.read_bytes().startswith(b"%PDF")
    answer = json.loads(CliRunner().invoke(cli, [*words, "--json", "--workers", "1"]).stdout)
    assert answer["gains"][1][1] is None and answer["quotas"] == ["s1", "s2"]
    whole = json.loads(CliRunner().invoke(cli, ["frontier", "bandit", "arm2", "arm3", "--json"]).stdout)
    assert np.shape(whole["gains"]) == (11, 11) and whole["values"][1][-1] == pytest.approx(0.9)
    for wrong, why in (
        (["--values", "0:1"], "expected FIRST:LAST:COUNT"),
        (["--second-values", "0.1"], "--second-values goes with a second quota"),
    ):
        bad = CliRunner().invoke(cli, ["frontier", "three-state", "s2", *wrong])
        assert bad.exit_code == 2 and why in bad.output


def small_problem(seed):
    """Two to four states, few of them random: chains fall apart, slopes coincide, quotas bind at corners."""
    rng = np.random.default_rng(seed)
    S = int(rng.integers(2, 5))
    s_of = np.repeat(np.arange(S), rng.integers(1, 4, S))
    kind, P = rng.integers(3), np.zeros((s_of.size, S))
    for row in P:
        if kind == 0:
            row[:] = rng.dirichlet(np.ones(S))
        else:
            row[rng.choice(S, kind, replace=False)] = 1 / kind
    rewards = rng.integers(0, 4, s_of.size) * 10.0 ** rng.integers(-2, 3)
    low, high = rng.uniform(0, 0.4), rng.uniform(0.5, 1)
    first = Quota("first", states=[int(rng.integers(S))], at_least=low if rng.random() < 0.5 else 0,
                  at_most=high if rng.random() < 0.5 else None)  # fmt: skip
    quotas = [first, Quota("two", states=[0, 1], at_least=0.1)] if S > 2 else [first]
    return Problem(MDP(P, rewards, s_of), quotas)


def ceiling_of_program(problem):
    """The fair linear program without any of our code."""
    mdp, G = problem.mdp, problem.members.toarray()
    flow = np.vstack([(np.eye(mdp.n_states)[mdp.s_of] - mdp.P.toarray()).T, np.ones(mdp.n_pairs)])
    found = linprog(
        -mdp.r,
        A_ub=np.vstack([-G, G]), b_ub=np.concatenate([-problem.at_least, problem.at_most]),
        A_eq=flow, b_eq=np.eye(mdp.n_states + 1)[-1],
    )  # fmt: skip
    return -found.fun if found.status == 0 else np.nan


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["at_least", "at_most"])
def test_exact_frontiers_of_small_models_end_and_are_the_linear_programs(bound):
    """Policies that must be connected lie below their ceilings, and no step may rest on that."""
    seen = 0
    for seed in range(60):
        problem = small_problem(seed)
        try:
            curve = frontier(problem, "first", bound=bound)
        except ProblemError:
            continue
        if not curve.exact:  # it may jump where chains fall apart
            continue
        seen += 1
        for value in np.linspace(curve.values[0], curve.values[-1], 6)[:-1]:
            way = -1 if bound == "at_most" else 1
            ceiling = np.interp(way * value, way * curve.values, curve.uppers)
            program = ceiling_of_program(Family(problem, "first", bound).at(float(value)))
            assert ceiling == pytest.approx(program, abs=1e-7 * curve.unit), (seed, value)
        assert (np.diff(way * curve.slopes) <= 1e-6 * curve.unit).all(), seed
    assert seen > 25


@pytest.mark.parametrize("low", [0.05, 0.2854452261629023, 0.45])
def test_a_walk_over_connected_policies_ends(low):
    """Both states either stay or swap: the best policy hangs together by a thread that costs a little gain."""
    mdp = MDP([[0, 1.0], [1, 0], [1, 0], [0, 1]], [0.0, 0, 2, 3], [0, 0, 1, 1])
    quotas = [Quota("q0", states=[1], at_most=0.96), Quota("q1", states=[0], at_least=low)]
    curve = frontier(Problem(mdp, quotas), "q0", bound="at_most")
    assert curve.values == pytest.approx([1, 1 - low, 0], abs=1e-9)
    assert curve.slopes == pytest.approx([0, 3], abs=1e-7)


def test_file_and_screen_show_the_same_rows():
    curve = frontier(THREE, "s2")
    head, *rows = (line.split(",") for line in curve.to_table().to_csv().splitlines())
    shown = [line.split() for line in frontier_text("x", curve).splitlines()[3:7]]
    where = [head.index(name) for name in ("price", "start", "stop")]
    for row, cells in zip(rows[:-1], shown[:-1], strict=True):
        prices = [
            float(cell.replace("-", "0")) for cell in cells[5:8]
        ]  # a price of zero is a dash on the screen
        assert [float(row[k]) for k in where] == pytest.approx(prices, abs=1e-4)
        assert row[head.index("unique")] == "True"
    assert rows[-1][where[0]] == "" and shown[-1][-4:-1] == ["-"] * 3
