"""Which method `solve` picks, and what happens when one stalls."""

from dataclasses import replace

import numpy as np
import pytest
from checks import assert_optimal
from models import lattice_queue, random_problem

from fairmdp import MDP, Problem, Quota, SolverError, Status, scenarios, solve, verify
from fairmdp.backends.opening import open_backend
from fairmdp.deadline import Deadline, Stop
from fairmdp.solution.solution import Note, Remark
from fairmdp.solvers.auto import Tuning, choose, solve_on
from fairmdp.solvers.registry import METHODS, REASONS
from fairmdp.solvers.request import Request


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


def sure_moves(n):
    """Deterministic moves to anywhere, the first ones around a ring."""
    to = np.random.default_rng(0).integers(0, n, 2 * n)
    to[::2] = np.arange(1, n + 1) % n
    mdp = MDP(np.eye(n)[to], np.random.default_rng(1).random(2 * n), np.repeat(np.arange(n), 2))
    return Problem(mdp, [Quota("some", states=range(n // 4), at_least=0.3)])


@pytest.mark.parametrize(
    "problem, method, words",
    [
        (scenarios.three_state(), "lp", ""),
        (scenarios.garnet(600, n_quotas=4), "dual", "mixes fast and its quotas are few"),
        (scenarios.jobs(queue=10), "colgen", "mixes slowly"),
        (sure_moves(800), "lp", "nearly certain"),
        (Problem(scenarios.garnet(600, n_quotas=0).mdp, rho=np.full(600, 1e-4)), "proximal", "many disjoint quotas"),
        (Problem(slow_queue(1500), [Quota("low", states=range(700), at_least=0.4)]), "interior", "slow to leave their start"),
        (Problem(lattice_queue(9), [Quota("short", states=range(300), at_least=0.4)]), "colgen", "mixes slowly"),
        (Problem(scenarios.garnet(600, n_quotas=0).mdp, overlapping(150)), "dual", "not too many"),
        (Problem(scenarios.garnet(1600, n_quotas=0).mdp, overlapping(501)), "dual", "not too many"),
        (Problem(lattice_queue(9), overlapping(150)), "interior", "its quotas are many and states lead to near ones"),
        (Problem(lattice_queue(9), overlapping(501)), "ipm", "mixes slowly and its quotas are many"),
    ],
    ids=[
        "small", "few quotas", "dense", "deterministic", "a quota for every state", "stuck and small", "slow", "some overlapping", "many overlapping",
        "many and near", "many and slow",
    ],
)  # fmt: skip
def test_the_choice_and_its_reason(problem, method, words):
    chosen, reason = choose(open_backend(problem))
    assert chosen == method and words in REASONS.get(reason, "")


def test_slow_and_large_goes_to_column_generation():
    tuning = Tuning(lp_stuck_pairs=0)
    problem = Problem(slow_queue(1500), [Quota("low", states=range(700), at_least=0.4)])
    assert choose(open_backend(problem), tuning)[0] == "colgen"
    assert choose(open_backend(Problem(slow_queue(1500), overlapping(501))), tuning)[0] == "lp"


def test_more_quotas_than_any_other_method_takes():
    problem = Problem(scenarios.garnet(600, n_quotas=0).mdp, overlapping(150))
    assert choose(open_backend(problem), Tuning(some_quotas=149)) == ("lp", "many")


def forbidden(*names):
    """The registry with methods that must not be run."""

    def refuse(*_):
        raise AssertionError("this method was not to be asked")

    return {**METHODS, **{name: replace(METHODS[name], run=refuse) for name in names}}


def test_the_best_policy_is_taken_where_it_is_fair():
    """Before a large linear program is solved, the best policy quotas aside is looked at."""
    mdp = slow_queue(1500)
    free = solve(Problem(mdp))
    fair = Problem(mdp, [Quota("high", states=range(1400, 1500), at_least=0.4)])
    patient = Request(patience=1e9)  # passages are what linear programs make
    solution = solve_on(open_backend(fair), patient, methods=forbidden("lp"))
    assert (solution.status, solution.reason) == (Status.OPTIMAL, "unbound")
    assert solution.gain == pytest.approx(free.gain, abs=2e-6) and verify(fair, solution).ok
    unfair = Problem(mdp, [Quota("low", states=range(700), at_least=0.4)])
    found = answered(unfair, METHODS)
    assert (found.method, found.reason) == ("interior", "near and few") and found.gain < free.gain - 1e-2


def test_a_look_that_runs_out_of_time_says_so():
    problem = Problem(slow_queue(1500), [Quota("low", states=range(700), at_least=0.4)])
    hurried = Request(deadline=Deadline(1e-9), patience=1e9)
    found = solve_on(open_backend(problem), hurried, methods=forbidden("lp"))
    assert found.stopped is Stop.OUT_OF_TIME and verify(problem, found).ok


def test_a_scheduler_that_forgets_in_the_end_is_no_grid():
    """Its good policies forget their start in a thousand steps; simplex takes 40 s, columns one."""
    problem = scenarios.jobs(
        queue=60, capacity=1, arrivals=(0.9, 0.7), withdraw=0.002, max_arrivals=1, max_withdrawals=1
    )
    assert choose(open_backend(problem))[0] == "colgen"


def test_the_reason_is_in_the_solution():
    problem = scenarios.garnet(600, n_quotas=4)
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL and verify(problem, solution).ok
    assert (solution.method, solution.tried, solution.reason) == ("dual", (), "fast and few")


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


def changed(name, change):
    """The registry with another way to run a method: what it answers is changed."""
    run = METHODS[name].run
    return {**METHODS, name: replace(METHODS[name], run=lambda *ask: change(run(*ask)))}


def answered(problem, methods, method="auto"):
    return solve_on(open_backend(problem), Request(), method, methods=methods)


@pytest.mark.parametrize("later_is_better", [True, False])
def test_a_stalled_method_is_relieved(later_is_better):
    """A solver that gives up is followed by the next, and the answer says so."""
    problem = scenarios.garnet(600, n_quotas=3)
    methods = changed("dual", lambda solution: replace(solution, status=Status.UNDECIDED))
    if not later_is_better:
        worse = changed("dual", lambda found: replace(found, status=Status.UNDECIDED, upper=np.inf))
        methods["lp"] = worse["dual"]
    solution = answered(problem, methods)
    if later_is_better:
        assert (solution.status, solution.method, solution.tried) == (Status.OPTIMAL, "lp", ("dual",))
    else:
        assert (solution.status, solution.method, solution.tried) == (
            Status.UNDECIDED,
            "dual",
            ("dual", "lp"),
        )
    assert solution.reason == "fast and few"


def failing(name):
    def fail(*_):
        raise SolverError("HiGHS stopped with Solve error")

    return {**METHODS, name: replace(METHODS[name], run=fail)}


def test_a_failing_linear_program_is_relieved():
    problem = scenarios.three_state()
    solution = answered(problem, failing("lp"))
    assert_optimal(problem, solution, tol=1e-5)
    assert (solution.method, solution.tried) == ("colgen", ("lp",))
    with pytest.raises(SolverError):  # asked for by name
        answered(problem, failing("lp"), "lp")


def test_failing_interior_points_are_relieved(monkeypatch):
    unfit = replace(METHODS["interior"], obstacle=lambda backend: "its factors would fill up")
    monkeypatch.setitem(METHODS, "interior", unfit)
    problem = Problem(lattice_queue(9), overlapping(150))
    solution = answered(problem, failing("ipm"))
    assert (solution.method, solution.tried, solution.reason) == ("colgen", ("ipm",), "slow and many")


def test_another_solver_that_fails_is_not_hidden():
    with pytest.raises(SolverError):
        answered(scenarios.garnet(600, n_quotas=3), failing("dual"))


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


def test_what_nobody_can_help_is_not_asked_twice():
    """A gap that is the price of tying classes together stays, whichever method is asked."""
    connected = (Note(Remark.CONNECTED, 1e-4),)
    methods = changed("dual", lambda found: replace(found, status=Status.FEASIBLE, notes=connected))
    solution = answered(scenarios.garnet(600, n_quotas=3), methods)
    assert solution.status is Status.FEASIBLE and (solution.method, solution.tried) == ("dual", ())


def test_a_limit_of_time_reaches_the_method():
    given = []

    def run(backend, request):
        given.append(request.deadline.left)
        return METHODS["lp"].run(backend, request)

    methods = {**METHODS, "dual": replace(METHODS["dual"], run=run)}
    solve_on(open_backend(scenarios.three_state()), Request(deadline=Deadline(5)), "dual", methods=methods)
    assert 4 < given[0] <= 5
