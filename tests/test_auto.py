"""Which method `solve` picks, and what happens when one stalls."""

from dataclasses import replace

import numpy as np
import pytest
from checks import assert_optimal
from models import lattice_queue, random_problem

from fairmdp import MDP, Problem, Quota, SolverError, Status, scenarios, solve, verify
from fairmdp.solvers import auto
from fairmdp.solvers.repair import gave_up


def slow_queue(n):
    """A random walk on a line: mixing takes about n^2 steps."""
    rows = np.zeros((2 * n, n))
    for s in range(n):
        for a, up in enumerate((0.45, 0.55)):
            rows[2 * s + a, min(s + 1, n - 1)] += up
            rows[2 * s + a, max(s - 1, 0)] += 1 - up
    r = np.repeat(np.linspace(0, 1, n), 2) - np.tile([0.0, 0.2], n)
    return MDP(rows, r, np.repeat(np.arange(n), 2))


def overlapping(count):
    return [Quota(f"q{k}", states=[k, k + 1], at_least=1e-5) for k in range(count)]


@pytest.mark.parametrize(
    "problem, method, words",
    [
        (scenarios.three_state(), "lp", ""),
        (scenarios.garnet(600, n_quotas=4), "dual", "mixes fast and its quotas are few"),
        (scenarios.jobs(queue=10), "dual", "mixes fast"),
        (Problem(scenarios.garnet(600, n_quotas=0).mdp, rho=np.full(600, 1e-4)), "proximal", "many disjoint quotas"),
        (Problem(slow_queue(1500), [Quota("low", states=range(700), at_least=0.4)]), "lp", "stay where they began"),
        (Problem(lattice_queue(9), [Quota("short", states=range(300), at_least=0.4)]), "colgen", "mixes slowly"),
        (Problem(scenarios.garnet(600, n_quotas=0).mdp, overlapping(150)), "dual", "not too many"),
        (Problem(scenarios.garnet(1600, n_quotas=0).mdp, overlapping(501)), "lp", "no other method"),
        (Problem(lattice_queue(9), overlapping(150)), "ipm", "mixes slowly and its quotas are many"),
    ],
    ids=[
        "small", "few quotas", "dense", "a quota for every state", "stuck and small", "slow", "some overlapping", "many overlapping",
        "many and slow",
    ],
)  # fmt: skip
def test_the_choice_and_its_reason(problem, method, words):
    chosen, reason = auto.choose(problem)
    assert chosen == method and words in reason


def test_slow_and_large_goes_to_column_generation(monkeypatch):
    monkeypatch.setattr(auto, "_LP_STUCK_PAIRS", 0)
    problem = Problem(slow_queue(1500), [Quota("low", states=range(700), at_least=0.4)])
    assert auto.choose(problem)[0] == "colgen"
    assert auto.choose(Problem(slow_queue(1500), overlapping(150)))[0] == "lp"


def test_the_reason_is_in_the_solution():
    problem = scenarios.garnet(600, n_quotas=4)
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL and verify(problem, solution).ok
    assert solution.method.startswith("dual") and "chosen because" in solution.method


@pytest.mark.parametrize("method", ["dual", "colgen", "ipm"])
@pytest.mark.parametrize("seed", range(8))
def test_methods_agree(method, seed):
    problem = random_problem(seed, n_max=25)
    assert solve(problem, method=method).gain == pytest.approx(
        solve(problem, method="lp").gain, abs=2e-6 * np.ptp(problem.mdp.r)
    )


@pytest.mark.parametrize("method", ["auto", "lp", "ipm", "dual", "colgen", "proximal"])
@pytest.mark.parametrize("owed", ["no quotas", "quotas of nothing"])
def test_models_without_quotas(method, owed):
    """Relative value iteration by brute force says what the best gain is."""
    mdp = scenarios.garnet(700, n_quotas=0).mdp
    problem = Problem(mdp, [] if owed == "no quotas" else [Quota("a", states=[0, 5], at_least=0.0)])
    h = np.zeros(mdp.n_states)
    for _ in range(200):
        values = np.maximum.reduceat(mdp.r + mdp.P @ h, mdp.pair_ptr[:-1])
        gain, h = values - h, values - values[0]
    solution = solve(problem, method=method)
    assert solution.status is Status.OPTIMAL and verify(problem, solution).ok
    assert solution.gain == pytest.approx(gain.mean(), abs=2e-6)


def test_a_stalled_method_is_relieved(monkeypatch):
    """A solver that gives up is followed by the next, and the answer says so."""
    problem = scenarios.garnet(600, n_quotas=3)
    true_run = auto._run

    def run(method, *arguments):
        solution = true_run(method, *arguments)
        return replace(solution, status=Status.UNDECIDED) if method == "dual" else solution

    monkeypatch.setattr(auto, "_run", run)
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL
    assert "dual stalled and lp was asked too" in solution.method and solution.method.startswith("lp")


def test_a_failing_linear_program_is_relieved(monkeypatch):
    problem = scenarios.three_state()
    true_run = auto._run

    def run(method, *arguments):
        if method == "lp":
            raise SolverError("HiGHS stopped")
        return true_run(method, *arguments)

    monkeypatch.setattr(auto, "_run", run)
    assert_optimal(problem, solve(problem), tol=1e-5)


def test_warm_starts_reach_the_same_answer():
    problem = scenarios.garnet(800, n_quotas=3)
    first = solve(problem)
    moved = problem.with_bounds(problem.at_least * 1.01)
    cold, warm = solve(moved), solve(moved, start=first)
    assert warm.gain == pytest.approx(cold.gain, abs=2e-6) and verify(moved, warm).ok


def test_progress_is_reported():
    rows = []
    solve(scenarios.garnet(800, n_quotas=3), progress=rows.append)
    assert rows and set(rows[-1]) == {"upper", "lower", "gap", "worst_slack", "seconds"}
    assert rows[-1]["gap"] <= 1e-6


def test_what_nobody_can_help_is_not_asked_twice(monkeypatch):
    """A gap that is the price of tying classes together stays, whichever method is asked."""
    problem = scenarios.garnet(600, n_quotas=3)
    true_run, asked = auto._run, []

    def run(method, *arguments):
        asked.append(method)
        return replace(true_run(method, *arguments), status=Status.FEASIBLE, notes=(gave_up(1e-4),))

    monkeypatch.setattr(auto, "_run", run)
    assert solve(problem).status is Status.FEASIBLE and asked == ["dual"]


@pytest.mark.parametrize("chosen", ["lp", "ipm"])
def test_where_highs_fails_columns_answer(chosen, monkeypatch):
    def fail(*_, **__):
        raise SolverError("HiGHS stopped with Solve error")

    problem = scenarios.three_state()
    monkeypatch.setattr(auto, "choose", lambda problem: (chosen, "chosen for this test"))
    monkeypatch.setattr(auto, "solve_lp", fail)
    solution = solve(problem)
    assert solution.method.startswith("colgen") and solution.status is Status.OPTIMAL


def test_a_limit_of_time_holds_on_a_device(monkeypatch):
    given = {}
    monkeypatch.setattr("fairmdp.solvers.dual.solve_dual", lambda problem, **how: given.update(how))
    solve(scenarios.three_state(), method="dual", device="cuda", seconds=5)
    assert 4 < given["seconds"] <= 5 and given["device"] == "cuda"
