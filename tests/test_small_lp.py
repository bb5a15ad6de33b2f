"""Small linear programs in whole numbers, beside a second program in whole numbers that shares no code."""

from fractions import Fraction

import numpy as np
import pytest
from benchmarks.rational import Twin, maximum
from models import random_problem

from fairmdp import MDP, Problem, Quota, Status, scenarios, solve, solve_lp, verify
from fairmdp.backends.flow_lp import FlowLP
from fairmdp.backends.small_lp import least_cost

INF = np.inf


def solved(cost, matrix, low, high, room=0.0, check=lambda: None):
    arrays = (np.array(numbers, dtype=float) for numbers in (cost, matrix, low, high))
    return least_cost(*arrays, room=room, check=check)


def proved(cost, matrix, low, high, duals):
    """What multipliers prove that no point costs less than, in fractions; None if they prove nothing."""
    y = [Fraction(v) for v in duals]
    left = [
        Fraction(c) - sum(v * Fraction(row[j]) for v, row in zip(y, matrix, strict=True))
        for j, c in enumerate(cost)
    ]
    ends = [(v, low[i] if v > 0 else high[i]) for i, v in enumerate(y) if v]
    if min(left) < -1e-12 or not all(np.isfinite(end) for _, end in ends):
        return None
    return float(sum(v * Fraction(end) for v, end in ends))


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_random_programs_have_the_optimum_of_the_reference_and_multipliers_that_prove_it(start):
    feasible = 0
    for seed in range(start, start + 50):
        rng = np.random.default_rng([seed, 5])
        m, n = rng.integers(1, 5), rng.integers(2, 7)
        matrix = np.vstack([rng.integers(-4, 5, (m, n)) / 8, np.ones(n)])
        middle = np.r_[rng.integers(-3, 4, m) / 8, 1.0]
        width = np.r_[rng.integers(0, 3, m) / 16, 0.0]
        low = np.where(rng.random(m + 1) < 0.3, -INF, middle - width) if seed % 2 else middle - width
        low[-1] = 1.0
        high, cost = middle + width, rng.integers(-5, 6, n) / 4
        found = solved(cost, matrix, low, high)
        # With a column for each bound: a @ x - over == low, a @ x + under == high.
        bounded = [(row, end, way) for row, ends in zip(matrix, zip(low, high, strict=True), strict=True)
                   for end, way in zip(ends, (-1, 1), strict=True) if np.isfinite(end)]  # fmt: skip
        A = [
            [Fraction(v) for v in row] + [way * int(j == k) for j in range(len(bounded))]
            for k, (row, _, way) in enumerate(bounded)
        ]
        best = maximum(
            A, [Fraction(end) for _, end, _ in bounded], [-Fraction(c) for c in cost] + [0] * len(bounded)
        )
        assert (found is None) == (best is None), seed
        if found is not None:
            feasible += 1
            assert found.cost == -float(best) == pytest.approx(float(cost @ found.columns), abs=1e-12)
            assert (matrix @ found.columns >= low - 1e-12).all() and (
                matrix @ found.columns <= high + 1e-12
            ).all()
            assert proved(cost, matrix, low, high, found.row_duals) == pytest.approx(found.cost, abs=1e-12), (
                seed
            )
    assert 10 < feasible < 45


def test_the_program_of_a_problem_has_its_best_gain():
    for seed in range(15):
        problem = random_problem(seed, n_max=5, caps=True)
        lp = FlowLP(problem, problem.mdp.r)
        lp._program._whole = lp._program._in_whole_numbers()
        best = Twin(problem).best()
        assert best is None or lp._program._whole is not None
        if best is not None:
            assert lp.point().objective == pytest.approx(float(best), abs=1e-9), seed


def test_bounds_that_contradict_each_other_by_little_are_missed_by_the_least_and_dearly():
    # x1 + x2 == 1, x1 <= 0.5, x2 <= 0.5 - 1e-12; x1 costs nothing, x2 costs 1
    program = [0, 1], [[1, 1], [1, 0], [0, 1]], [1, -INF, -INF], [1, 0.5, 0.5 - 1e-12]
    assert solved(*program, room=0.9e-12) is None
    found = solved(*program, room=1.1e-12)
    assert found.columns.sum() == 1 and found.columns == pytest.approx([0.5, 0.5], abs=1.1e-12)
    assert proved(*program, found.row_duals) <= found.cost + 1e-11
    # So are two floors that cannot both be met, at the least cost of those that miss as little.
    found = solved(
        [0, 1, 5], [[1, 1, 1], [1, 1, 0], [0, 0, 1]], [1, 0.75, 0.25 + 1e-10], [1, INF, INF], room=1e-9
    )
    assert found.columns == pytest.approx([0.75, 0, 0.25], abs=1.1e-10) and found.columns.sum() == 1


def test_a_search_can_be_stopped():
    def late():
        raise TimeoutError

    with pytest.raises(TimeoutError):
        solved([1, 2], [[1, 1]], [1], [1], check=late)


def test_steps_that_gain_nothing_come_to_an_end():
    """The cycle of Beale, which choosing the steepest column alone never leaves."""
    cost = [-0.75, 20, -0.5, 6]
    rows = [[0.25, -8, -1, 9], [0.5, -12, -0.5, 3], [0, 0, 1, 0]]
    found = solved(cost, rows, [-INF] * 3, [0, 0, 1])
    assert found.cost == -1.25 and found.columns.tolist() == [1, 0, 1, 0]


@pytest.fixture
def no_verdicts(monkeypatch):
    """HiGHS has no verdict on anything."""
    monkeypatch.setattr("fairmdp.backends.highs._OTHER_WAYS", ())
    monkeypatch.setattr("fairmdp.backends.highs._SOLVED", None)
    monkeypatch.setattr("fairmdp.backends.highs._NO_POINT", ())


def test_an_answer_in_whole_numbers_is_certified_like_any_other(no_verdicts):
    problem = scenarios.three_state(rho=[0.1, 0.1, 0.25])
    solution = solve_lp(problem)
    assert solution.status is Status.OPTIMAL and verify(problem, solution, exact=True).ok
    assert solution.gain == pytest.approx(337 / 760, abs=1e-15)
    hopeless = scenarios.three_state([0.5, 0.5, 0.5])
    solution = solve_lp(hopeless)
    assert solution.status is Status.INFEASIBLE and verify(hopeless, solution).ok


@pytest.mark.parametrize("best", [0, 1])
def test_classes_whose_rows_sum_to_1_but_for_rounding_errors(no_verdicts, best):
    """Thirds of floats are less than one together: flow that is lost in a class would keep it from being used."""
    thirds = np.full((3, 3), 1 / 3)
    P = np.kron(np.eye(2), thirds)
    mdp = MDP(P, np.repeat([1.0 - best, best], 3), range(6), initial=[0.5, 0, 0, 0.5, 0, 0])
    answer = FlowLP(Problem(mdp, []), mdp.r).run()
    assert answer.objective == pytest.approx(1, abs=1e-12) and answer.x.sum() == pytest.approx(1, abs=1e-12)
    problem = Problem(mdp, [Quota("half", [0, 1, 2], at_least=0.5, expected=True)])
    solution = solve(problem)
    assert solution.gain == pytest.approx(0.5, abs=1e-12) and verify(problem, solution, exact=True).ok


def test_runs_that_end_differently_in_whole_numbers(no_verdicts):
    P = [[0, 1 / 3, 2 / 3], [0, 2 / 3, 1 / 3], [0, 1, 0], [0, 0, 1]]
    mdp = MDP(P, [0, 0, 1, 2], [0, 0, 1, 2], initial=[1, 0, 0])
    problem = Problem(mdp, [Quota("b", [1], at_least=0.6, expected=True)])
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL and verify(problem, solution, exact=True).ok
    assert solution.gain == pytest.approx(1.4, abs=1e-9)  # a mixture: 1 in b, 2 in c
