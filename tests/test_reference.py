"""Answers and frontiers of small random problems against linear programs in whole numbers."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.rational import Twin, maximum
from benchmarks.reference import draw, examine, examine_frontier, flaws
from scipy.optimize import linprog

from fairmdp import Status, frontier, scenarios, solve, verify
from fairmdp.solvers.conflict import largest_factor
from fairmdp.solvers.infeasible import common_factor

THREE = scenarios.three_state(rho=[0.1, 0.1, 0.25])


def test_the_program_in_whole_numbers_is_that_of_scipy():
    rng, feasible = np.random.default_rng(0), 0
    for _ in range(150):
        m, n = rng.integers(1, 5), rng.integers(2, 8)
        A = np.vstack([rng.integers(-3, 4, (m, n)), np.ones(n, int)])
        b = A @ rng.integers(0, 3, n) + (rng.random() < 0.3) * rng.integers(-1, 2, m + 1)
        c = rng.integers(-5, 6, n)
        found, there = maximum(A.tolist(), b.tolist(), c.tolist()), linprog(-c, A_eq=A, b_eq=b)
        assert (found is None) == (there.status == 2)
        if found is not None:
            feasible += 1
            assert float(found) == pytest.approx(-there.fun, abs=1e-8)
    assert 80 < feasible < 145


def test_the_reference_knows_the_three_states():
    twin = Twin(THREE)
    assert float(twin.best()) == pytest.approx(337 / 760, abs=1e-15)
    assert float(twin.best(twin.counts[2], quotas=())) == pytest.approx(9 / 19, abs=1e-15)
    assert float(Twin(THREE.with_bounds([0, 0, 0.25])).largest_factor()) == pytest.approx(36 / 19, abs=1e-14)


@pytest.mark.parametrize("start", range(0, 35, 5))
def test_no_method_says_what_is_not_so(start):
    answers = [answer for seed in range(start, start + 5) for answer in examine(seed)]
    assert len(answers) >= 25
    for seed_shape, method, status, wrong, _ in answers:
        assert not wrong and status is not None, (seed_shape, method, wrong)


@pytest.mark.parametrize(
    "seed",
    [198, 1332, 2956, 67, 576, 91],
    ids=[
        "prices of 5e8", "a proposal that HiGHS gives up", "a repair that HiGHS gives up",
        "a weight that underflows", "weights far apart", "a step far too long",
    ],
)  # fmt: skip
def test_answers_that_were_wrong_once(seed):
    """1332: what was proposed instead of quotas that cannot be met could not be solved, and the proof was lost.
    67, 576, 91: interior points ended in an error where a weight was too small to be inverted, or a step too long.
    """
    assert [wrong for _, _, _, wrong, _ in examine(seed) if wrong] == []


@pytest.mark.parametrize("start", range(0, 28, 7))
def test_frontiers_are_those_of_the_program(start):
    for seed in range(start, start + 7):
        found = examine_frontier(seed)
        assert found is None or not found[2], (seed, found)


@pytest.mark.parametrize("seed", [226, 268])
def test_frontiers_end_where_the_optimum_is_proved(seed):
    """Their last value can be met, but the ceiling there was far above the curve."""
    _, breakpoints, wrong, _ = examine_frontier(seed)
    assert breakpoints >= 1 and not wrong


@pytest.mark.parametrize("seed", [863, 1766, 1815, 1834, 2130])
def test_frontiers_on_whose_end_highs_has_no_verdict(seed):
    """Nearly deterministic models, asked for the last value that can be met: whole numbers decide."""
    _, breakpoints, wrong, _ = examine_frontier(seed)
    assert breakpoints >= 2 and not wrong


@pytest.mark.parametrize(
    "change, said",
    [
        ({"upper": 0.44}, "a ceiling of"), ({"gain": 0.45}, "a gain of 0.45, "), ({"status": Status.INFEASIBLE}, "is possible"),
        ({"prices": np.array([0.0, 0.0, 0.6])}, "the prices prove"), ({"shares": np.full(3, 1 / 3)}, "a share of"),
        ({"policy": np.full(6, 0.5)}, "short of it"),
    ],
)  # fmt: skip
def test_the_judge_sees_what_is_not_so(change, said):
    twin, solution = Twin(THREE), solve(THREE)
    assert not list(flaws(twin, twin.best(), solution))
    assert any(said in flaw for flaw in flaws(twin, twin.best(), replace(solution, **change)))


def test_a_common_factor_stays_under_the_caps_of_what_it_lifts():
    """The cap was put on what is left of the share beyond the factor's part: twice as much seemed possible."""
    _, problem = draw(46)
    assert (problem.at_least == problem.at_most).all()
    factor = common_factor(problem)[0]
    assert factor == pytest.approx(1, abs=1e-12) and Twin(problem).largest_factor() == 1
    assert frontier(problem).last_feasible == pytest.approx(1, abs=1e-8)
    found = largest_factor(problem)  # the way of large models
    assert found.lower == pytest.approx(1, abs=1e-6) and found.upper == pytest.approx(1, abs=1e-12)


def test_the_factor_of_conflicting_quotas_counts_their_caps():
    """0.827 as it was computed, and then not proposed, since no policy was found that meets it."""
    _, problem = draw(385)
    problem = problem.with_bounds(np.minimum(1.3 * problem.at_least, problem.at_most))
    solution = solve(problem)
    assert solution.status is Status.INFEASIBLE and verify(problem, solution, exact=True).ok
    truth = float(Twin(problem).largest_factor())
    assert solution.infeasibility.common_factor == pytest.approx(truth, abs=1e-9)
