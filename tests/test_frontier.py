"""The price of fairness: bends, slopes and ends of the curve, exactly."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from models import hiring, jobs, random_problem

from fairmdp import Problem, ProblemError, Quota, Status, frontier, scenarios, solve, verify
from fairmdp.cli import cli
from fairmdp.frontiers import frontier_grid

THREE = scenarios.three_state()


def test_three_state_bends_and_slopes():
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
    seen = 0
    for seed in range(25 * block, 25 * block + 25):
        problem = random_problem(seed, n_max=8, caps=seed % 2 == 0)
        owed = np.flatnonzero(problem.at_least > 0)
        if not owed.size:
            continue
        seen += 1
        unit = np.ptp(problem.mdp.r)
        curve = frontier(problem, problem.names[owed[0]])
        assert (np.diff(curve.slopes) <= 1e-6 * unit).all() and (curve.slopes <= 1e-9 * unit).all()
        long = [k for k in range(curve.slopes.size) if curve.values[k + 1] - curve.values[k] > 1e-4]
        k = long[-1]
        middle = curve.values[k : k + 2].mean()
        there = frontier(problem, curve.quota, [middle])
        assert there.gains[0] == pytest.approx(curve.gain_at(middle), abs=1e-7 * unit)
        assert there.slopes[0] == pytest.approx(curve.slopes[k], abs=1e-5 * max(unit, abs(curve.slopes[k])))
    assert seen >= 10


def test_last_feasible_values_of_the_paper_worlds():
    J2 = jobs((4, 4), 2, (1.5, 1.0), 0.05, (1, 0.3), [(1, 1, 0.3)])
    curve = frontier(J2, "client1")
    assert curve.last_feasible == pytest.approx(0.6866664157, abs=1e-8)
    assert curve.gain_at(0.3) == pytest.approx(0.7597573637, abs=1e-8)
    assert curve.gain_at(0.6) == pytest.approx(0.6601002758, abs=1e-8)
    assert curve.values[1] == pytest.approx(0.1638197525, abs=1e-8)  # what the unconstrained policy gives
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
    assert grid.shape == (2, 3) and np.isnan(grid[1, 2])
    assert grid[0] == pytest.approx(
        [solve(scenarios.three_state([0.1, 0.1, v])).gain for v in (0.1, 0.3, 0.46)]
    )


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: frontier(THREE, "s9"), "there is no quota called 's9'; there are s0, s1, s2"),
        (lambda: frontier(THREE, "s2", []), "values must be numbers that are not negative, at least one"),
        (lambda: frontier(THREE, "s2", [float("nan")]), "values must be numbers"),
        (lambda: frontier(THREE, "s2", [-0.1]), "values must be numbers"),
        (lambda: frontier(scenarios.garnet(5000, n_quotas=2), "g0"), "25000 pairs are too many linear programs.*\n  give values"),
        (lambda: frontier(Problem(THREE.mdp), "*"), "nothing is owed, so there is no factor to move"),
        (
            lambda: frontier(THREE.with_quotas([Quota("cap", states=["s0"], at_most=0.05)]), "s2"),
            "the other quotas cannot be met by themselves",
        ),
        (lambda: frontier(THREE, "s2", [0.1]).breakpoints, "leave values out for its bends"),
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
    assert "0.333333   0.400000   0.126316   -2.1375" in ended.stdout
    assert "no policy meets more than 0.473684" in ended.stdout
    assert "the other shares move: s0 " in ended.stdout
    rows = table.read_text().splitlines()
    assert rows[0] == "value,gain,price_of_fairness,slope,share_s0,share_s1,share_s2" and len(rows) == 5
    assert figure.read_bytes().startswith(b"\x89PNG")
    answer = json.loads(
        CliRunner().invoke(cli, ["frontier", "three-state", "s2", "--values", "0.1,0.5", "--json"]).stdout
    )
    assert answer["gains"][1] is None and answer["values"] == [0.1, 0.5] and answer["exact"] is False
    bad = CliRunner().invoke(cli, ["frontier", "three-state", "s2", "--figure", "x.gif"])
    assert bad.exit_code == 2 and "ends in .png or .pdf" in bad.output
