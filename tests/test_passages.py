"""Best shares of parts that never meet: passages between them, how rare they are, and patience for them."""

import numpy as np
import pytest

from fairmdp import MDP, Problem, ProblemError, Quota, Status, solve, verify
from fairmdp.backends.cpu.backend import CpuBackend
from fairmdp.chains.chain import Chain
from fairmdp.solution.solution import Remark
from fairmdp.solvers.colgen import Tuning, run_colgen
from fairmdp.solvers.request import Request
from fairmdp.views.sentences import note_texts
from fairmdp.views.text import solution_text

STAY_OR_GO = [[1, 0], [0, 1], [0, 1], [1, 0]]


def islands(**options):
    """A pays where one stays, B is owed 0.3, and a step between them pays nothing."""
    mdp = MDP(STAY_OR_GO, [1, 0, 0, 0], [0, 0, 1, 1], states=["A", "B"], **options)
    return Problem(mdp, [Quota("B", ["B"], at_least=0.3)])


def noted(solution):
    return {note.remark: note.value for note in solution.notes}


def passages(problem, solution, states):
    """Passages out of some states per step, of the policy's own chain."""
    chain = Chain.of(problem.mdp, solution.policy)
    inside = np.isin(np.arange(problem.mdp.n_states), states)
    return float(chain.shares[inside] @ (chain.P[inside] @ ~inside))


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_half_of_the_tolerance_is_spent_on_passages(tol):
    problem = islands()
    found = solve(problem, tol=tol)
    assert verify(problem, found).ok and verify(problem, found, exact=True).ok
    assert found.status is Status.OPTIMAL and found.gap == pytest.approx(tol / 2, rel=0.05)
    steps = noted(found)[Remark.SLOWEST_PASSAGE]
    assert steps == pytest.approx(2 / tol, rel=0.05)
    assert 1 / steps == pytest.approx(passages(problem, found, [0]), rel=1e-6)
    assert any(f"once in {steps:,.0f} steps" in text for text in note_texts(found))


@pytest.mark.parametrize("method", ["auto", "ipm"])
def test_patience_is_the_least_loss_of_passages_so_often(method):
    problem = islands()
    found = solve(problem, patience=50, method=method)
    assert verify(problem, found).ok
    assert found.status is Status.FEASIBLE and found.gain == pytest.approx(0.7 - 1 / 50, abs=1e-7)
    assert noted(found)[Remark.SLOWEST_PASSAGE] == pytest.approx(50, rel=1e-6)
    assert passages(problem, found, [1]) >= 1 / 50 - 1e-9
    assert solve(problem, patience=1e8).status is Status.OPTIMAL  # what the tolerance allows is enough


@pytest.mark.parametrize("pairs", [10, 0])
def test_columns_mix_in_more_until_passages_are_frequent(pairs):
    """Of large models a little of everything is mixed in, and more of it the less patience there is."""
    problem, often = islands(), 10_000
    request, tuning = Request(tol=1e-4, patience=often), Tuning(passage_pairs=pairs)
    found = run_colgen(CpuBackend(problem), request, tuning)
    assert verify(problem, found).ok and found.status in ("optimal", "feasible")
    steps = noted(found)[Remark.SLOWEST_PASSAGE]
    assert steps <= often and 1 / steps == pytest.approx(passages(problem, found, [0]), rel=1e-6)
    rarely = run_colgen(CpuBackend(problem), request._replace(patience=None), tuning)
    assert steps < noted(rarely)[Remark.SLOWEST_PASSAGE]


def test_more_than_can_be_is_said_and_the_rest_is_answered():
    found = solve(islands(), patience=1)  # one passage a step needs both parts at once
    assert found.status is Status.OPTIMAL and noted(found)[Remark.PATIENCE_TOO_SHORT] == 1
    with pytest.raises(ProblemError, match="patience is 0, expected a positive number"):
        solve(islands(), patience=0)


def test_patience_is_in_units_of_time():
    """Decisions take half a unit, so that a passage in 50 units is one in a hundred decisions."""
    problem = islands(durations=np.full(4, 0.5))
    found = solve(problem, patience=50)
    assert verify(problem, found).ok
    assert noted(found)[Remark.SLOWEST_PASSAGE] == pytest.approx(50, rel=1e-6)
    assert found.gain == pytest.approx(2 * (0.7 - 1 / 100), abs=1e-7)
    assert passages(problem, found, [0]) * problem.mdp.step**-1 == pytest.approx(1 / 50, rel=1e-6)


def test_a_cycle_is_found_where_quotas_leave_no_room():
    """Three states of `a` and one of `c` in a circle, among loops that meet the quotas half of each."""
    ways = [(1, 1, 0, 2), (3, 4, 3, 1), (2, 5, 0, 5), (1, 6, 6, 3), (6, 4, 6, 1), (5, 0, 2, 2), (4, 3, 6, 3)]
    P = np.zeros((28, 7))
    P[np.arange(28), np.ravel(ways)] = 1.0
    mdp = MDP(P, np.zeros(28), np.repeat(np.arange(7), 4), initial=np.eye(7)[0])
    problem = Problem(mdp, [Quota("a", [1, 3, 4], at_least=0.75), Quota("c", [6], at_least=0.25)])
    found = solve(problem)
    assert verify(problem, found, exact=True).ok and found.status is Status.OPTIMAL
    assert noted(found).get(Remark.SLOWEST_PASSAGE, 0) <= 8 and Remark.CONNECTED not in noted(found)


def test_what_is_met_in_the_limit_only_stays_so_whatever_the_patience():
    """A way between the islands that takes time leaves less than half for one of them."""
    P = [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]]
    mdp = MDP(P, np.zeros(6), [0, 0, 1, 1, 2, 2], states=["A", "B", "way"])
    problem = Problem(mdp, [Quota("A", ["A"], at_least=0.5), Quota("B", ["B"], at_least=0.5)])
    for patience in (None, 1e3):
        found = solve(problem, patience=patience)
        assert found.status is Status.UNDECIDED and Remark.ONLY_IN_THE_LIMIT in noted(found)
    assert any("expected=True" in text for text in note_texts(found))
    mean = problem.with_mdp(mdp.with_initial("A")).with_quotas(
        [Quota(name, [name], at_least=0.5, expected=True) for name in "AB"]
    )
    assert solve(mean).status is Status.OPTIMAL


def test_patience_in_a_component_where_runs_end_differently():
    problem = islands_before_a_trap()
    found = solve(problem, patience=50)
    assert found.method == "split" and verify(problem, found, exact=True).ok
    assert found.gain == pytest.approx(0.7 - 1 / 50, abs=1e-7)
    assert noted(found)[Remark.SLOWEST_PASSAGE] == pytest.approx(50, rel=1e-6)


def islands_before_a_trap(**quota):
    """The islands, and a way out of them to a trap."""
    P = np.zeros((6, 3))
    P[:4, :2] = STAY_OR_GO
    P[4:, 2] = 1.0
    mdp = MDP(
        P[[0, 1, 2, 3, 4, 5]], [1, 0, 0, 0, 0, 3], [0, 0, 1, 1, 1, 2], states=["A", "B", "T"], initial="A"
    )
    return Problem(mdp, [Quota("B", ["B"], at_least=0.3), *([Quota("T", ["T"], **quota)] if quota else [])])


def test_quotas_of_every_run_beside_one_of_the_mean():
    """Runs that end in the trap give nothing to B, so that none may, and the mean of T has to be zero."""
    problem = islands_before_a_trap(at_most=0.5, expected=True)
    found = solve(problem, patience=50)
    assert found.method == "multichain" and verify(problem, found).ok
    assert found.gain == pytest.approx(0.7 - 1 / 50, abs=1e-6)
    assert noted(found)[Remark.SLOWEST_PASSAGE] == pytest.approx(50, rel=1e-6)


def test_passages_are_told_in_the_unit_of_time():
    mdp = MDP(
        [[1, 0], [0, 1], [0, 1], [1, 0]], [3.0, -1.0, 1.0, -1.0], [0, 0, 1, 1], initial=[1, 0],
        durations=[1.0, 5.0, 0.5, 5.0], time_unit="day",
    )  # fmt: skip
    problem = Problem(mdp, [Quota("east", states=[1], at_least=0.4)])
    text = solution_text("x", problem, solve(problem, patience=100))
    assert "on its rarest passage once in 100 days" in text
    assert "once in 5 days" in solution_text("x", problem, solve(problem, patience=5))
