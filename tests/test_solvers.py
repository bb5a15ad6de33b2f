"""The exact solver on random problems, and what it says when there is no fair policy."""

from functools import partial

import highspy
import numpy as np
import pytest
from checks import assert_optimal
from hypothesis import given
from hypothesis import strategies as st
from models import random_problem

from fairmdp import MDP, Problem, ProblemError, Quota, SolverError, Status, scenarios, solve, solve_lp, verify
from fairmdp.backends.flow_lp import FlowLP
from fairmdp.chains.policy import policy_of
from fairmdp.deadline import Deadline
from fairmdp.solution.solution import Remark
from fairmdp.solvers.conflict import Columns
from fairmdp.solvers.connect import pull_within
from fairmdp.solvers.infeasible import Programs
from fairmdp.views.text import solution_text


@pytest.mark.parametrize("block", range(10))
def test_five_hundred_random_problems_are_optimal(block):
    for seed in range(50 * block, 50 * block + 50):
        problem = random_problem(seed)
        solution = solve_lp(problem)
        assert_optimal(problem, solution)
        verdict = verify(problem, solution)
        assert verdict.ok and verdict.status is Status.OPTIMAL, (seed, verdict.messages)


@pytest.mark.parametrize("seed", range(20))
def test_random_garnets_are_optimal(seed):
    problem = scenarios.garnet(n_states=30, n_actions=4, seed=seed)
    assert_optimal(problem, solve(problem))


@pytest.mark.parametrize("algorithm", ["ipm", "pdlp"])
def test_other_algorithms_find_the_same_gain(algorithm):
    problem = scenarios.three_state()
    solution = solve_lp(problem, algorithm=algorithm, tol=1e-4)
    assert solution.status is Status.OPTIMAL or (algorithm, solution.status) == ("pdlp", Status.UNDECIDED)
    assert solution.gain == pytest.approx(337 / 760, abs=1e-3)
    assert 337 / 760 - 1e-12 <= solution.upper <= 337 / 760 + 1e-3


def impossible(seed):
    """Quotas of a random problem pushed beyond what any policy can give."""
    rng = np.random.default_rng(seed)
    mdp = random_problem(seed, n_max=15).mdp
    nu_max = [_largest_share(mdp, s) for s in range(mdp.n_states)]
    quotas = [Quota(f"q{s}", states=[s], at_least=min(1.0, 0.8 * m)) for s, m in enumerate(nu_max)]
    rng.shuffle(quotas)
    return Problem(mdp, quotas[: 1 + int(rng.integers(2, 5))])


def _largest_share(mdp, s):
    indicator = (mdp.s_of == s).astype(float)
    return solve_lp(Problem(MDP(mdp.P, indicator, mdp.s_of))).gain


@pytest.mark.parametrize("method", ["auto", "lp", "ipm", "dual", "proximal", "colgen"])
def test_owing_more_than_all_of_the_time_is_infeasible_and_says_what_would_do(method):
    problem = scenarios.three_state([0.5, 0.5, 0.5])
    solution = solve(problem, method=method)
    assert solution.status is Status.INFEASIBLE and verify(problem, solution, exact=True).ok
    nearest = solution.infeasibility.nearest_at_least
    assert (nearest < 0.5).all() and solve(problem.with_bounds(nearest)).has_policy
    assert solution.infeasibility.common_factor == pytest.approx(2 / 3)


@pytest.mark.parametrize("method", ["lp", "ipm"])
def test_probabilities_that_highs_takes_for_zero(method):
    """Poisson arrivals leave tails of 1e-22: dropped by HiGHS, they left no flow that is conserved."""
    problem = scenarios.jobs(queue=8)
    assert 0 < problem.mdp.P.data.min() < 1e-20
    solution = solve(problem, method=method)
    assert solution.status is Status.OPTIMAL and verify(problem, solution).ok
    assert solution.gain == pytest.approx(solve(problem, method="colgen").gain, abs=2e-6)


@pytest.mark.slow
def test_interior_points_find_no_point_either():
    found = 0
    for seed in range(12):
        try:
            problem = impossible(seed)
        except ProblemError:  # more than all of the time
            continue
        expected = solve(problem, method="lp").status
        found += expected is Status.INFEASIBLE
        assert solve(problem, method="ipm").status is expected, seed
    assert found >= 5


@pytest.mark.parametrize(
    "verdicts, small, ending",
    [
        (["kInfeasible", "kInfeasible"], 2000, None),
        (["kInfeasible", "kUnknown", "kUnknown", "kUnknown", "kSolveError", "kSolveError"], 42, "solved"),
        (["kInfeasible", "kUnknown", "kUnknown", "kUnknown", "kSolveError", "kSolveError"], 41, None),
        (["kInfeasible", "kOptimal"], 0, "solved"),
        (["kUnknown", "kInfeasible", "kOptimal"], 0, "solved"),
        (["kUnknown", "kUnknown", "kUnknown", "kUnknown", "kSolveError", "kSolveError"], 42, "solved"),
        (["kUnknown", "kUnknown", "kUnknown", "kUnknown", "kSolveError", "kSolveError"], 41, SolverError),
    ],
)
def test_what_highs_says_is_doubted(verdicts, small, ending, monkeypatch):
    """A verdict of infeasible is asked for twice. Where it is not, whole numbers decide a program of 42 entries;
    of one that is called too large it counts if it was given once, as a proof is due anyway.
    """
    monkeypatch.setattr("fairmdp.backends.highs._SMALL", small)
    problem = scenarios.three_state()
    lp = FlowLP(problem, problem.mdp.r)
    lp.run()
    said = [getattr(highspy.HighsModelStatus, verdict) for verdict in verdicts]
    monkeypatch.setattr(lp._program, "highs", Repeating(lp._program.highs, said))
    monkeypatch.setattr(lp._program, "_run_in_time", lambda: None)
    if ending is SolverError:
        with pytest.raises(SolverError, match="HiGHS stopped with"):
            lp.run()
    else:
        assert (lp.run() is None) == (ending is None)
    assert not said


class Repeating:
    """HiGHS, but for what it says of the model."""

    def __init__(self, highs, said):
        self._highs, self._said = highs, said

    def getModelStatus(self):
        return self._said.pop(0)

    def __getattr__(self, name):
        return getattr(self._highs, name)


@pytest.mark.slow
def test_conflicts_are_minimal_and_proved():
    found = 0
    for seed in range(30):
        problem = impossible(seed)
        solution = solve(problem)
        if solution.status is not Status.INFEASIBLE:
            continue
        found += 1
        assert verify(problem, solution).ok
        why = solution.infeasibility
        quotas = problem.quotas
        together = Problem(problem.mdp, [quotas[k] for k in why.conflict])
        assert solve(together).status is Status.INFEASIBLE
        for left_out in why.conflict:
            rest = Problem(problem.mdp, [quotas[k] for k in why.conflict if k != left_out])
            assert solve(rest).status is Status.OPTIMAL
        assert solve(problem.with_bounds(why.nearest_at_least, why.nearest_at_most)).status is Status.OPTIMAL
        shrunk = problem.with_bounds(problem.at_least * (why.common_factor - 1e-7))
        assert solve(shrunk).status is Status.OPTIMAL
        beyond = problem.with_bounds(np.minimum(problem.at_least * (why.common_factor + 1e-5), 1))
        assert solve(beyond).status is Status.INFEASIBLE
    assert found >= 5


def test_caps_can_be_infeasible_too():
    problem = scenarios.three_state(rho=[0, 0, 0]).with_quotas([Quota("cap", states=["s0"], at_most=0.05)])
    solution = solve(problem)
    assert solution.status is Status.INFEASIBLE
    why = solution.infeasibility
    assert why.reach == pytest.approx([1 / 11], abs=1e-9)  # no policy spends less there
    assert solution.prices[why.conflict[0]] < 0
    assert why.nearest_at_most[why.conflict[0]] == pytest.approx(1 / 11, abs=2e-9)
    assert why.common_factor is None
    assert verify(problem, solution, exact=True).ok


def test_a_large_conflict_is_proved_without_being_made_smaller():
    """Nearly equal shares for each of a hundred states: hundreds of quotas conflict, and one proof shows it."""
    mdp = scenarios.garnet(100, 3, 5, n_quotas=0).mdp
    problem = Problem(mdp, rho=np.full(100, 0.999 / 100))
    solution = solve_lp(problem)
    assert solution.status is Status.INFEASIBLE and verify(problem, solution).ok
    why = solution.infeasibility
    assert len(why.conflict) > 60 and why.reach.size == 20
    assert [note.remark for note in solution.notes] == [Remark.CONFLICT_MAY_SHRINK]


def test_a_cap_and_a_quota_conflict():
    problem = Problem(
        scenarios.three_state().mdp,
        [Quota("much", states=["s0", "s1"], at_least=0.9), Quota("cap", states=["s0"], at_most=0.3)],
    )
    solution = solve(problem)
    assert solution.status is Status.INFEASIBLE and solution.infeasibility.conflict == (0, 1)
    assert np.sign(solution.prices).tolist() == [1, -1]
    assert verify(problem, solution, exact=True).ok


@given(
    st.integers(0, 10**6), st.sampled_from([1e-12, 1e-3, 1.0, 1e6, 1e12]), st.sampled_from([0.0, 1.0, -1e3])
)
def test_fuzz_rewards_of_any_size_and_offset(seed, scale, offset):
    base = random_problem(seed, n_max=8, caps=False)
    mdp = MDP(base.mdp.P, (base.mdp.r / np.abs(base.mdp.r).max() + offset) * scale, base.mdp.s_of)
    problem = Problem(mdp, base.quotas)
    assert_optimal(problem, solve(problem), tol=1e-7)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(MDP([[1.0]], [5.0], [0])),
        Problem(MDP([[1.0], [1.0]], [5.0, 7.0], [0, 0]), [Quota("slow", pairs=[0], at_least=0.25)]),
        Problem(MDP([[0, 1], [1, 0]], [3.0, 1.0], [0, 1]), rho=[0.5, 0.5]),
        Problem(MDP([[0, 1], [1, 0]], [0.0, 0.0], [0, 1]), rho=[0.5, 0.0]),
        Problem(MDP([[0, 1, 0], [0, 0, 1], [1, 0, 0]], [1.0, 2.0, 3.0], [0, 1, 2]), rho=[1 / 3, 1 / 3, 1 / 3]),
        Problem(MDP([[0.5, 0.5], [0, 1], [1, 0]], [1.0, 2.0, 3.0], [0, 0, 1]), [Quota("all", states=[0, 1], at_least=1.0)]),
        Problem(MDP([[0.5, 0.5], [0, 1], [1, 0]], [1.0, 2.0, 3.0], [0, 0, 1]), [Quota("none", states=[1], at_most=0.5)]),
    ],
    ids=["one pair", "bandit", "cycle", "no reward", "three-cycle", "everything owed", "cap"],
)  # fmt: skip
def test_small_extremes(problem):
    assert_optimal(problem, solve(problem))


def test_an_almost_reducible_model_is_never_called_fair_wrongly():
    eps = 1e-13
    mdp = MDP([[1 - eps, eps], [0.5, 0.5], [eps, 1 - eps], [0.5, 0.5]], [1.0, 0.0, 0.9, 0.0], [0, 0, 1, 1])
    problem = Problem(mdp, rho=[0.4, 0.4])
    solution = solve(problem)
    if solution.status in (Status.OPTIMAL, Status.FEASIBLE):
        assert verify(problem, solution, exact=True).ok
    assert solution.upper >= 0.95


def test_idle_states_take_shortest_paths_back():
    """A corridor of unvisited states must walk towards the visited one, whatever pays locally."""
    n = 50
    rows, rewards, s_of = [], [], []
    for s in range(n):
        ways = [(max(s - 1, 0), 0.0), (min(s + 1, n - 1), 0.9 if s else 0.0)]
        for target, reward in (
            ways if s % 2 == 0 else ways[::-1]
        ):  # the way back is not always the first action
            row = np.zeros(n)
            row[target] = 1
            rows.append(row)
            rewards.append(1.0 if s == 0 and target == 0 else reward)
            s_of.append(s)
    mdp = MDP(rows, rewards, s_of)
    occupancy = np.zeros(2 * n)
    occupancy[0] = 1.0
    policy = policy_of(mdp, occupancy)
    assert policy.reshape(n, 2)[:, 0].tolist() == [1.0, 0.0] * (n // 2)


def test_solutions_are_the_same_every_time():
    problem = random_problem(7)
    first, second = solve(problem), solve(problem)
    assert np.array_equal(first.policy, second.policy) and np.array_equal(first.bias, second.bias)


@pytest.mark.parametrize("tol", [0, -1, 1, float("nan")])
def test_tol_is_checked(tol):
    with pytest.raises(ProblemError, match="expected a relative gap between 0 and 1"):
        solve(scenarios.three_state(), tol=tol)


def test_unknown_methods_are_named():
    with pytest.raises(
        ProblemError,
        match="there is no method 'magic'; there are auto, lp, ipm, interior, dual, proximal, colgen, mirror",
    ):
        solve(scenarios.three_state(), method="magic")
    with pytest.raises(ProblemError, match="solve takes a Problem, not MDP"):
        solve(scenarios.three_state().mdp)


def test_tiny_quotas_are_above_the_tolerances_of_highs():
    """8e-10 of the time is below HiGHS's 1e-9, and would be forgiven if shares were not scaled to sum to n."""
    n, owed = 400, 8e-10
    stay_home, go_on = np.zeros(n, int), (np.arange(n) + 1) % n
    P = np.eye(n)[np.column_stack([stay_home, go_on]).ravel()]
    mdp = MDP(P, np.repeat((np.arange(n) == 0).astype(float), 2), np.repeat(np.arange(n), 2))
    problem = Problem(mdp, [Quota("far", states=[1], at_least=owed)])
    answer = FlowLP(problem, mdp.r).run()
    assert answer.x[mdp.s_of == 1].sum() == pytest.approx(owed, rel=0.01)


@pytest.mark.parametrize("actions", [1, 2])
def test_models_of_two_or_three_states_take_little_work(actions):
    """In steps, not seconds: searches once went on for thousands of columns where there is next to nothing to choose."""
    for seed in range(30):
        rng = np.random.default_rng([seed, actions])
        n = int(rng.integers(2, 4))
        P = rng.dirichlet(np.full(n, 0.3), (n, actions)) * 0.999 + 0.001 / n
        problem = Problem(
            MDP.from_tensor(P, rng.normal(size=(n, actions))),
            rho=rng.dirichlet(np.ones(n)) * rng.uniform(0.3, 1),
        )
        for method, most in (("auto", {"iterations": 30}), ("colgen", {"columns": 60, "sweeps": 9000})):
            solution = solve(problem, method=method)
            assert solution.status is not Status.UNDECIDED
            assert all(solution.counters.get(name, 0) <= count for name, count in most.items()), (
                seed,
                method,
            )


@pytest.mark.parametrize("seed", range(5))
def test_what_is_mixed_in_fits_into_the_room(seed):
    """Half of each quota's room is left whatever the spread lacks, and no more than the largest room is mixed in."""
    rng = np.random.default_rng(seed)
    problem = scenarios.garnet(n_states=30, n_quotas=3, seed=seed)
    low, high = 0.5 * problem.at_least, np.minimum(problem.at_least + 0.1, 0.95)
    problem = problem.with_bounds(low, high)
    spread = rng.dirichlet(np.full(problem.mdp.n_pairs, 0.05))
    shares = problem.members @ spread
    for room in (np.full(3, 0.01), np.array([1e-3, 1e-5, 1e-2])):
        pull = pull_within(problem, room, shares)
        assert 0 < pull <= room.max()
        assert ((1 - pull) * (low + room) + pull * shares >= low + room / 2 - 1e-15).all()
        assert ((1 - pull) * (high - room) + pull * shares <= high - room / 2 + 1e-15).all()


def coin(left=0.7, rare=0.2):
    """A start that falls left or right by a coin, and no choice anywhere; a tenth of the left is rare."""
    P = [[0, 0.5, 0, 0.5], [0, 0.9, 0.1, 0], [0, 0.9, 0.1, 0], [0, 0, 0, 1]]
    mdp = MDP(P, [0.0, 0, 1, 0], range(4), initial=[1, 0, 0, 0])
    return Problem(mdp, [Quota("left", [1, 2], at_least=left), Quota("rare", [2], at_least=rare)])


@pytest.mark.parametrize("left", [0.3, 0.7])
def test_nearest_quotas_are_proposed_only_where_a_policy_is_proved_to_meet_them(left):
    """Shares that only a mixture of classes has are no policy's: half of the time is left, whatever is asked."""
    problem = coin(left)
    found = solve(problem)
    assert found.status is Status.INFEASIBLE and verify(problem, found).ok
    why = found.infeasibility
    assert why.common_factor is None
    assert np.array_equal(why.nearest_at_least, problem.at_least)
    shown = solution_text("coin", problem, found)
    assert "none were proved to be met" in shown and "times as much" not in shown and "rare>=" not in shown


@pytest.mark.parametrize("engine", [Programs, partial(Columns, deadline=Deadline(None))])
def test_what_is_proposed_is_solved_once_more_by_both_engines(engine):
    assert engine(coin()).first_met([coin(0.7, 0.05)]) is None
    three = scenarios.three_state()
    asked = [three.with_bounds([0, 0, owed]) for owed in (0.5, 0.25, 0.2)]
    assert engine(three).first_met(asked[:1]) is None and engine(three).first_met(asked) is asked[1]


@pytest.mark.parametrize("seed", range(40))
def test_everything_proposed_is_met(seed):
    rng = np.random.default_rng(seed)
    S = int(rng.integers(2, 6))
    s_of = np.repeat(np.arange(S), rng.integers(1, 3, S))
    P = np.zeros((s_of.size, S))
    for row in P:
        row[rng.choice(S, 2, replace=False)] = 0.5, 0.5
    first = rng.choice(S, S // 2, replace=False)
    quotas = [Quota("a", first, at_least=rng.uniform(0.3, 0.9)), Quota("b", [first[0]], at_most=0.1)]
    problem = Problem(MDP(P, rng.normal(size=s_of.size), s_of), quotas)
    found = solve(problem)
    why = found.infeasibility
    if why is None or np.array_equal(
        [why.nearest_at_least, why.nearest_at_most], [problem.at_least, problem.at_most]
    ):
        return
    nearest = solve(problem.with_bounds(why.nearest_at_least, why.nearest_at_most))
    assert nearest.status in (Status.OPTIMAL, Status.FEASIBLE)
