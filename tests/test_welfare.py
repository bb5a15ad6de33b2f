"""Welfare of long-run shares: closed forms, reference numbers, an independent solver, forged proofs."""

import itertools
import json
import math
from dataclasses import replace
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.problems.vector_rewards import fair_taxi, fishwood, resource_gathering
from benchmarks.welfare import drawn
from scipy.optimize import linprog, minimize
from tests.models import random_problem

from fairmdp import (
    MDP,
    FormatError,
    Problem,
    ProblemError,
    Quota,
    Status,
    Utility,
    WelfareSolution,
    alpha_fair,
    atkinson,
    entropy,
    gini,
    leximin,
    max_min,
    scenarios,
    solve,
    solve_welfare,
    verify,
)
from fairmdp.certificate.elementary import exp_bounds, log_bounds, power_bounds
from fairmdp.deadline import OutOfTimeError
from fairmdp.model.objectives import group_weights, value_at
from fairmdp.welfare import descent

THREE, JOBS, HIRING = scenarios.three_state(), scenarios.jobs(), scenarios.hiring()
OBJECTIVES = [
    alpha_fair(0.5), alpha_fair(1), alpha_fair(2), alpha_fair(2.5), atkinson(0.5), atkinson(1), atkinson(3),
    gini(), gini([4, 2, 1]), entropy(), max_min(),
]  # fmt: skip


def free(problem):
    K = problem.n_quotas
    return problem.with_bounds(np.zeros(K), np.ones(K))


# W has the weights 1/K; found by a trial implementation of column generation and confirmed by CLARABEL.
@pytest.mark.parametrize(
    ("problem", "objective", "reward", "welfare"),
    [
        pytest.param(free(THREE), alpha_fair(0.5), 1.0, 1.62676759, id="three-state, 1/2"),
        pytest.param(free(THREE), alpha_fair(1), 1.0, -0.67225173, id="three-state, Nash"),
        pytest.param(free(THREE), alpha_fair(2), 1.0, -2.59515520, id="three-state, 2"),
        pytest.param(THREE, alpha_fair(1), 1.0, -0.67266585, id="three-state under quotas, Nash"),
        pytest.param(
            THREE, gini([4 / 7, 2 / 7, 1 / 7]), 1.0, 0.74605263, id="three-state under quotas, Gini"
        ),
        pytest.param(free(JOBS), alpha_fair(1), 0.0, -0.98549171, id="jobs, Nash alone"),
        pytest.param(free(JOBS), alpha_fair(2), 0.0, -2.73029835, id="jobs, 2 alone"),
        pytest.param(JOBS, alpha_fair(1), 1.0, -0.30317646, id="jobs under quotas, Nash"),
        pytest.param(JOBS, gini([2 / 3, 1 / 3]), 1.0, 1.08109237, id="jobs under quotas, Gini"),
        pytest.param(free(HIRING), alpha_fair(1), 0.0, -0.09321959, id="hiring, Nash alone"),
    ],
)
def test_reference_numbers(problem, objective, reward, welfare):
    fair = solve_welfare(problem, objective, reward=reward, tol=1e-7)
    assert fair.status is Status.OPTIMAL
    assert fair.welfare == pytest.approx(welfare, abs=1e-7) and fair.gap < 1e-6
    assert verify(problem, fair).ok


# Of a time x at the river, u = (0.1 x, 0.9 (1 - x)).
@pytest.mark.parametrize(
    ("objective", "fish", "wood"),
    [
        (alpha_fair(1), 0.05, 0.45),  # x = 1/2
        (alpha_fair(2), 0.075, 0.225),  # x / (1 - x) = sqrt(0.9 / 0.1)
        (atkinson(2), 0.075, 0.225),  # the same order of utilities
        (max_min(), 0.09, 0.09),
        (leximin(), 0.09, 0.09),
        (alpha_fair(0), 0.0, 0.9),
        (alpha_fair(1, weights=[0.9, 0.1]), 0.09, 0.09),  # x = 0.9
        (alpha_fair(1, reference=-0.1), 1 / 180, 0.85),  # 0.1 (1 - 0.9 x) = 0.9 (0.1 + 0.1 x)
    ],
)
def test_fishwood_has_closed_forms(objective, fish, wood):
    problem = fishwood()
    fair = solve_welfare(problem, objective, over=["fish", "wood"], tol=1e-9)
    assert fair.status is Status.OPTIMAL and verify(problem, fair, exact=True).ok
    assert fair.utilities == pytest.approx([fish, wood], abs=2e-4)
    assert fair.welfare == pytest.approx(value_at(objective, np.array([fish, wood])), abs=1e-7)


def rounds():
    """What each round of a taxi earns per step: places that it serves in turn, by distances alone, (8, 3)."""
    origins, goals = [(0, 0), (0, 5), (3, 2)], [(0, 4), (5, 0), (3, 3)]
    found = []
    for served in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2), (0, 2, 1)]:
        steps = 0
        for last, k in zip((served[-1], *served), served, strict=False):
            steps += np.abs(np.subtract(goals[last], origins[k])).sum()
            steps += np.abs(np.subtract(origins[k], goals[k])).sum() + 2
        found.append([30 / steps if k in served else 0.0 for k in range(3)])
    return np.array(found)


def best_rounds(objective):
    """The most welfare of time shared among rounds."""
    each = rounds()
    if hasattr(objective, "alpha"):
        found = minimize(
            lambda t: -value_at(objective, each.T @ t), np.full(8, 1 / 8), method="SLSQP", bounds=[(0, 1)] * 8,
            constraints={"type": "eq", "fun": lambda t: t.sum() - 1}, options={"ftol": 1e-15, "maxiter": 1000},
        )  # fmt: skip
        return -found.fun
    orders = np.array(list(itertools.permutations(group_weights(objective, 3))))
    return -linprog(
        np.append(np.zeros(8), -1.0), A_ub=np.column_stack([-orders @ each.T, np.ones(6)]), b_ub=np.zeros(6),
        A_eq=[[1.0] * 8 + [0.0]], b_eq=[1.0], bounds=[(0, 1)] * 8 + [(None, None)],
    ).fun  # fmt: skip


@pytest.mark.parametrize(
    ("objective", "tol"), [(alpha_fair(1), 1e-4), (alpha_fair(2), 1e-3), (gini(), 1e-6), (max_min(), 1e-6)]
)
def test_the_fair_taxi_serves_three_places(objective, tol):
    """Rounds that never meet are joined by so little that the proof of their shares costs least."""
    problem = fair_taxi()
    assert (problem.mdp.n_states, problem.mdp.n_pairs) == (144, 864)
    fair = solve_welfare(problem, objective, over=problem.names, tol=tol)
    assert fair.status is Status.OPTIMAL and verify(problem, fair).ok
    theirs = best_rounds(objective)
    assert theirs <= fair.welfare_upper + 1e-9 and fair.welfare == pytest.approx(theirs, abs=5e-5)


@pytest.mark.parametrize("objective", [alpha_fair(1), gini(), max_min(), leximin()], ids=repr)
def test_gold_and_a_gem_are_brought_home(objective):
    """Past both enemies and straight home in 12 steps, dying after 3 or 5: 0.81 of each in 10.47 steps."""
    problem = resource_gathering()
    fair = solve_welfare(problem, objective, over=["gold", "gem"], tol=1e-7)
    assert fair.status is Status.OPTIMAL and verify(problem, fair, exact=True).ok
    assert fair.utilities == pytest.approx([0.81 / 10.47] * 2, abs=1e-6)
    calm = Problem(
        problem.mdp, [*problem.quotas[:2], Quota("death", weights=problem.weights.toarray()[2], at_most=0.0)]
    )
    alive = solve_welfare(
        calm, objective, over=["gold", "gem"], tol=1e-7
    )  # nobody may die: 22 steps for both
    assert alive.status is Status.OPTIMAL and alive.worst_slack >= -1e-9
    assert max(alive.utilities) < 0.0774 and min(alive.utilities) > 0.04


@pytest.mark.parametrize("seed", [725, 1937, 5152, 9536])
def test_random_problems_that_were_once_left_open(seed):
    """Mixtures that were worth less once evaluated exactly, and a quota that a steep power outbids."""
    problem, objective, over, reward = drawn(seed)
    fair = solve_welfare(problem, objective, over=over, reward=reward, tol=1e-7)
    assert fair.status is Status.OPTIMAL and verify(problem, fair).ok


def test_marginals_are_derivatives():
    """At the optimum a unit of utility is worth W', and a quota costs what its bound moves the welfare by."""
    fair = solve_welfare(free(JOBS), alpha_fair(2), tol=1e-9)
    assert fair.marginals == pytest.approx(0.5 / fair.utilities**2, rel=1e-3)
    bound = np.array([0.0, 0.6])
    at, less = (
        solve_welfare(JOBS.with_bounds(bound - step), alpha_fair(1), tol=1e-9) for step in ([0, 0], [0, 1e-4])
    )
    assert at.worst_slack == pytest.approx(0, abs=1e-8)
    assert at.prices[1] == pytest.approx((less.welfare - at.welfare) / 1e-4, rel=1e-2)


def gradient(objective, u):
    """Derivatives written out by hand."""
    if objective == entropy():
        return -1 - np.log(u)
    if hasattr(objective, "alpha"):
        return u**-objective.alpha / u.size
    a = objective.aversion
    return np.mean(u ** (1 - a)) ** (a / (1 - a)) * u**-a / u.size


def best_occupancy(problem, objective, reward):
    """The welfare's maximum over the occupancies by SLSQP, which knows nothing of ours."""
    mdp = problem.mdp
    flow = np.zeros((mdp.n_states, mdp.n_pairs))
    flow[mdp.s_of, np.arange(mdp.n_pairs)] = 1
    flow -= mdp.P.toarray().T
    A, b = np.vstack([flow[1:], np.ones(mdp.n_pairs)]), np.append(np.zeros(mdp.n_states - 1), 1.0)
    M, low, high = problem.members.toarray(), problem.at_least, problem.at_most
    owed = np.vstack([M[low > 0], -M[high < 1]])
    least = np.concatenate([low[low > 0], -high[high < 1]])

    def worth(x):
        return -(reward * mdp.r @ x + value_at(objective, np.maximum(M @ x, 1e-9)))

    def slope(x):
        return -(reward * mdp.r + M.T @ gradient(objective, np.maximum(M @ x, 1e-9)))

    inside = linprog(
        np.append(np.zeros(mdp.n_pairs), -1.0),
        A_eq=np.hstack([A, np.zeros((b.size, 1))]), b_eq=b,
        A_ub=np.hstack([-owed, np.ones((least.size, 1))]), b_ub=-least, bounds=[(0, 1)] * (mdp.n_pairs + 1),
    )  # fmt: skip
    found = minimize(
        worth, inside.x[:-1], jac=slope, method="SLSQP", bounds=[(0, 1)] * mdp.n_pairs, options={"maxiter": 1000, "ftol": 1e-13},
        constraints=[
            {"type": "eq", "fun": lambda x: A @ x - b, "jac": lambda x: A},
            {"type": "ineq", "fun": lambda x: owed @ x - least, "jac": lambda x: owed},
        ],
    )  # fmt: skip
    x = found.x
    broken = max(np.abs(A @ x - b).max(), (low - M @ x).max(), (M @ x - high).max())
    return -worth(x), broken, found.success


SMOOTH = [alpha_fair(0.5), alpha_fair(1), alpha_fair(2), atkinson(0.5), atkinson(2), entropy()]


@pytest.mark.parametrize("seed", range(24))
def test_nobody_else_finds_more(seed):
    """A general solver from outside never exceeds the proven ceiling, and comes near what we have."""
    problem = random_problem(seed + 100, n_max=6)
    if problem.n_quotas == 0:
        pytest.skip("no groups")
    objective = SMOOTH[seed % len(SMOOTH)]
    reward = [0.0, 1.0 / np.ptp(problem.mdp.r)][seed // 3 % 2]
    fair = solve_welfare(problem, objective, reward=reward)
    assert fair.status is Status.OPTIMAL and fair.worst_slack >= -1e-9
    assert verify(problem, fair, exact=True).ok
    theirs, broken, done = best_occupancy(problem, objective, reward)
    steep = (
        1 + np.abs(fair.marginals).sum() + np.abs(fair.prices).sum() + reward * np.abs(problem.mdp.r).max()
    )
    assert theirs <= fair.welfare_upper + 100 * steep * broken + 1e-9 * steep
    assert theirs >= fair.welfare - 1e-4 * steep or not done


@pytest.mark.parametrize("seed", range(12))
def test_gini_by_its_own_linear_program(seed):
    """All orders of the groups written out: welfare is the least of ``w[order] @ u``."""
    problem = random_problem(seed + 300, n_max=8)
    K = problem.n_quotas
    if not 2 <= K <= 4:
        pytest.skip("too few groups, or too many orders")
    mdp, M = problem.mdp, problem.members.toarray()
    w = np.sort(np.random.default_rng(seed).random(K))[::-1]
    flow = np.zeros((mdp.n_states, mdp.n_pairs))
    flow[mdp.s_of, np.arange(mdp.n_pairs)] = 1
    flow -= mdp.P.toarray().T
    reward = 1 / np.ptp(mdp.r)
    cuts = np.array([np.append(-np.array(order) @ M, 1.0) for order in itertools.permutations(w)])
    bounds = np.vstack([np.hstack([-M, np.zeros((K, 1))]), np.hstack([M, np.zeros((K, 1))])])
    found = linprog(
        np.append(-reward * mdp.r, -1.0),
        A_eq=np.hstack([np.vstack([flow, np.ones(mdp.n_pairs)]), np.zeros((mdp.n_states + 1, 1))]),
        b_eq=np.append(np.zeros(mdp.n_states), 1.0),
        A_ub=np.vstack([cuts, bounds]), b_ub=np.concatenate([np.zeros(len(cuts)), -problem.at_least, problem.at_most]),
        bounds=[(0, 1)] * mdp.n_pairs + [(None, None)],
    )  # fmt: skip
    fair = solve_welfare(problem, gini(w), reward=reward, tol=1e-7)
    assert fair.status is Status.OPTIMAL and verify(problem, fair, exact=True).ok
    assert fair.welfare == pytest.approx(-found.fun, abs=1e-6)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_every_welfare_is_proved_twice_and_survives_its_file(objective, tmp_path):
    fair = solve_welfare(THREE, objective, reward=1.0)
    assert fair.status is Status.OPTIMAL and fair.worst_slack >= -1e-9
    assert fair.welfare == pytest.approx(value_at(objective, fair.utilities) + fair.gain, abs=1e-12)
    exact = verify(THREE, fair, exact=True)
    assert exact.ok and exact.upper == pytest.approx(fair.welfare_upper, abs=1e-11)
    assert exact.welfare[0] <= fair.welfare <= exact.welfare[1] + 1e-12
    fair.save(tmp_path / "fair.json")
    again = WelfareSolution.load(tmp_path / "fair.json")
    assert verify(THREE, again).ok and again.objective == objective and again.welfare == fair.welfare


def test_forged_claims_are_not_confirmed():
    fair = solve_welfare(THREE, alpha_fair(1), reward=1.0)
    lexi = solve_welfare(THREE, leximin())
    first = lexi.levels[0]
    cases = {
        "the upper bound": replace(fair, welfare_upper=fair.welfare_upper - 1e-4),
        "the welfare": replace(fair, welfare=fair.welfare + 1e-4),
        "is not proved": replace(fair, marginals=1.01 * fair.marginals),
        "the status": replace(fair, bias=0.5 * fair.bias),
        "distinct rows": replace(fair, over=("s0", "s0", "s1")),
        "weights for": replace(fair, objective=alpha_fair(1, weights=[1, 2])),
        "tol is": replace(fair, tol=0.5),
        "level 1": replace(lexi, levels=(replace(first, value=first.value - 1e-4), *lexi.levels[1:])),
        "names what is no group": replace(
            lexi, levels=(replace(first, groups=("s0", "s9")), *lexi.levels[1:])
        ),
    }
    for words, forged in cases.items():
        verdict = verify(THREE, forged)
        assert not verdict.ok and any(words in message for message in verdict.messages), words
    other = replace(fair, solution=replace(fair.solution, policy=np.full(6, 0.5)))
    assert not verify(THREE, other).ok
    assert not verify(free(THREE), fair).ok  # another problem
    short = verify(THREE, replace(lexi, levels=lexi.levels[:0]))
    assert not short.ok and short.status is not Status.OPTIMAL


def test_leximin_proves_every_level():
    """Groups of 1, 1, 1, 3, 7 and 28 states of a garnet: small ones hold the first level down."""
    ends = np.cumsum([0, 1, 1, 3, 7, 28])
    groups = [Quota(f"g{i}", states=np.arange(*ends[i : i + 2]), at_least=0.0) for i in range(5)]
    problem = Problem(scenarios.garnet(60, 3, 5, seed=1).mdp, groups)
    fair = solve_welfare(problem, leximin())
    assert fair.status is Status.OPTIMAL and verify(problem, fair, exact=True).ok
    assert len(fair.levels) == len(fair.sensitivities) >= 3 and fair.sensitivities[0] == 0
    closed = set()
    for level in fair.levels:
        left = [u for name, u in zip(fair.over, fair.utilities, strict=True) if name not in closed]
        assert min(left) == pytest.approx(level.value, abs=1e-6)
        kept = [Quota(f"{name} keeps", states=groups[int(name[1])].states,
                      at_least=fair.utilities[int(name[1])] - 1e-9) for name in closed]  # fmt: skip
        more = [Quota(f"{name} more", states=groups[int(name[1])].states, at_least=level.value + 1e-5)
                for name in fair.over if name not in closed]  # fmt: skip
        assert solve(Problem(problem.mdp, [*kept, *more])).status is Status.INFEASIBLE
        closed |= set(level.groups)
    assert closed == set(fair.over)


def test_a_group_that_cannot_be_served_is_an_answer():
    """Nobody enters c, so that no logarithm of its share is finite."""
    mdp = MDP([[0.5, 0.5, 0], [0.3, 0.7, 0], [0.1, 0.9, 0], [0.5, 0.5, 0]], [1.0, 2, 3, 1], [0, 0, 1, 2])
    problem = Problem(mdp, [Utility(name, states=[s]) for s, name in enumerate("abc")])
    for objective in (alpha_fair(1), alpha_fair(2), atkinson(1)):
        fair = solve_welfare(problem, objective)
        assert fair.status is Status.INFEASIBLE and fair.levels[0].groups == ("c",)
        assert 0 <= fair.levels[0].value < 1e-9
        assert verify(problem, fair, exact=True).ok
        lie = replace(fair, levels=(replace(fair.levels[0], marginals=np.array([0.0, 1.0, 0.0])),))
        assert not verify(problem, lie).ok
    assert solve_welfare(problem, gini()).status is Status.OPTIMAL


def test_a_state_that_is_left_for_good_serves_nobody():
    """Its share under a first, rough policy is not 0 yet."""
    mdp = MDP([[1.0, 0.0], [1.0, 0.0]], [0.0, 1.0], [0, 1])
    problem = Problem(mdp, [Utility("here", states=[0]), Utility("gone", states=[1])])
    fair = solve_welfare(problem, alpha_fair(1))
    assert fair.status is Status.INFEASIBLE and fair.levels[0].groups == ("gone",)
    assert verify(problem, fair, exact=True).ok


def test_quotas_that_cannot_be_met_are_an_answer():
    problem = THREE.with_bounds([0.1, 0.1, 0.6])
    fair = solve_welfare(problem, alpha_fair(1))
    assert fair.status is Status.INFEASIBLE and fair.solution.infeasibility is not None
    assert verify(problem, fair).ok


def test_cycles_that_never_meet_are_connected():
    """On a ring of loops the best mixture stays at three states that no policy can serve at once."""
    n = 40
    P = [np.eye(n)[(s + step) % n] for s in range(n) for step in (1, -1, 0)]
    mdp = MDP(P, np.zeros(3 * n), np.repeat(np.arange(n), 3))
    problem = Problem(mdp, [Utility(name, states=[s]) for name, s in (("a", 0), ("b", 13), ("c", 27))])
    fair = solve_welfare(problem, alpha_fair(1))
    assert fair.status is Status.OPTIMAL and fair.utilities == pytest.approx(np.full(3, 1 / 3), abs=1e-4)
    assert verify(problem, fair).ok and fair.solution.notes[0].remark.value == "connected"


def test_utilities_in_other_units():
    """Thousandfold weights, below zero too, under a reference: the same policy, and a welfare in their units."""
    rows = [Utility("a", weights={"s0": 2000.0, "s1": -500.0}), Utility("b", weights={"s1": 3000.0})]
    problem = Problem(THREE.mdp, rows)
    fair = solve_welfare(problem, alpha_fair(1, reference=-1000.0), over=["a", "b"])
    assert fair.status is Status.OPTIMAL and verify(problem, fair, exact=True).ok
    by_state = np.bincount(THREE.mdp.s_of, fair.solution.occupancy)
    assert fair.utilities == pytest.approx([2000 * by_state[0] - 500 * by_state[1], 3000 * by_state[1]])
    scaled = Problem(
        THREE.mdp, [Utility("a", weights={"s0": 2.0, "s1": -0.5}), Utility("b", weights={"s1": 3.0})]
    )
    other = solve_welfare(scaled, alpha_fair(1, reference=-1.0), over=["a", "b"])
    assert other.utilities * 1000 == pytest.approx(fair.utilities, abs=1.0)
    even = solve_welfare(problem, gini(), over=["a", "b"])
    assert even.status is Status.OPTIMAL and verify(problem, even).ok


def test_a_deadline_leaves_something():
    fair = solve_welfare(scenarios.garnet(300, 4, 5, seed=3), alpha_fair(1), seconds=1e-9)
    assert fair.solution.stopped.value == "out of time" and fair.has_policy


def test_progress_is_told():
    rows = []
    solve_welfare(JOBS, alpha_fair(1), progress=rows.append)
    assert rows[-1]["upper"] == pytest.approx(-0.985492, abs=1e-4) and {"gap", "seconds"} <= set(rows[0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: alpha_fair(-1), "alpha is -1, expected 0 or more"),
        (lambda: alpha_fair(1, weights=[1, 0]), "a weight is 0, expected numbers above 0"),
        (lambda: gini([1, 2]), "expected numbers of 0 or more that do not rise"),
        (lambda: atkinson(True), "aversion is True, expected a finite number"),
        (lambda: solve_welfare(THREE, alpha_fair(1, weights=[1, 2])), "2 weights, and there are 3 groups"),
        (lambda: solve_welfare(THREE, "nash"), "objective is 'nash', expected one such as"),
        (lambda: solve_welfare(THREE, alpha_fair(1), reward=-1), "reward is -1, expected the weight"),
        (lambda: solve_welfare(THREE, alpha_fair(1), over=["s0", "s0"]), "name each once"),
        (lambda: solve_welfare(THREE, alpha_fair(1), over=["north"]), "no quota called 'north'"),
        (lambda: solve_welfare(THREE.without_quotas(), alpha_fair(1)), "there are no groups"),
        (lambda: solve_welfare(THREE, alpha_fair(1, reference=2.0)), "which no policy exceeds"),
        (lambda: solve_welfare(fishwood(), entropy(), over=["fish"]), "entropy is of shares of time"),
        (lambda: solve_welfare(THREE, leximin(), reward=1.0), "leximin takes no weight of the gain"),
    ],
)
def test_what_makes_no_sense_is_refused(call, words):
    with pytest.raises(ProblemError, match=words):
        call()


def test_elementary_functions_against_decimals():
    """The bounds hold what `decimal` computes with 60 digits, and are 30 digits apart."""
    getcontext().prec = 60
    rng = np.random.default_rng(0)
    for x in 10 ** rng.uniform(-200, 200, 200):
        q, d = Fraction(x), Decimal(float(x))
        low, high = log_bounds(q)
        assert low <= Fraction(d.ln()) <= high and high - low < Fraction(1, 10**30)
        low, high = power_bounds(q, Fraction(1, 3))
        assert low**3 <= q <= high**3 and high - low < low / 10**30
    for x in rng.uniform(-300, 300, 200):
        low, high = exp_bounds(Fraction(x))
        assert low <= Fraction(Decimal(float(x)).exp()) <= high and high - low < low / 10**30


def test_broken_files_say_where(tmp_path):
    path = tmp_path / "fair.json"
    solve_welfare(THREE, alpha_fair(1)).save(path)
    raw = json.loads(path.read_text())
    for change, words in (
        ({"objective": {"kind": "envy", "parameters": {}}}, "no welfare 'envy'"),
        ({"marginals": [1.0]}, "marginals: expected 3 numbers"),
        ({"fairmdp_welfare": 9}, "fairmdp_welfare: expected the format 1"),
        ({"objective": 3}, "objective: expected an object"),
        ({"levels": [3]}, "levels"),
    ):
        path.write_text(json.dumps(raw | change))
        with pytest.raises(FormatError, match=words):
            WelfareSolution.load(path)


def test_decisions_that_take_time():
    """A state that lasts ten times as long is ten equal steps: the same shares, gain and welfare."""
    P = np.array([[0.0, 1.0], [0.2, 0.8], [1.0, 0.0], [0.5, 0.5]])
    slow = MDP(P, [3.0, 1.0, 0.0, 2.0], [0, 0, 1, 1], durations=[10.0, 1.0, 2.0, 0.5])
    rows = [Utility("a", states=[0]), Utility("b", weights=[0.0, 0.0, 3.0, 1.0])]
    for objective in (alpha_fair(1), gini(), atkinson(2)):
        problem = Problem(slow, rows)
        fair = solve_welfare(problem, objective, over=["a", "b"], reward=0.5, tol=1e-8)
        same = solve_welfare(problem.uniform, objective, over=["a", "b"], reward=0.5, tol=1e-8)
        assert fair.status is same.status is Status.OPTIMAL
        assert fair.welfare == pytest.approx(same.welfare, abs=1e-7)
        assert verify(problem, fair).ok and verify(problem, fair, exact=True).ok


def test_prices_of_an_order_are_the_nearest_ones():
    """Projection onto the permutahedron: inside it, and no vertex lies further along the way to the point."""
    rng = np.random.default_rng(1)
    for _ in range(30):
        w, v = np.sort(rng.random(5))[::-1], rng.normal(size=5)
        q = descent.Prices(np.zeros(0), np.zeros(0), w).nearest(v, 2.0)
        assert (np.cumsum(np.sort(q)) >= np.cumsum(np.sort(w)) - 1e-12).all() and q.sum() == pytest.approx(
            w.sum()
        )
        corners = np.array(list(itertools.permutations(w)))
        assert ((corners - q) @ (v - q)).max() <= 1e-12


def test_a_step_of_prices_is_the_least_of_its_model():
    """A quadratic with a kinked quota price, against SLSQP started from inside."""
    rng = np.random.default_rng(3)
    L = rng.normal(size=(4, 4))
    A, slope, w = L @ L.T + np.eye(4), rng.normal(size=4), np.array([0.6, 0.3, 0.1])
    prices = descent.Prices(np.array([0.2]), np.array([np.inf]), w)
    y = np.append(0.0, np.full(3, 1 / 3))
    z = prices.step(A, slope, y)
    orders = np.array(list(itertools.permutations(w)))

    def level(t):  # t: price of the quota, parts of the corners
        move = np.append(t[0], t[1:] @ orders) - y
        return slope @ move + move @ A @ move / 2 - 0.2 * t[0]

    found = minimize(
        level, np.append(0.0, np.full(6, 1 / 6)), method="SLSQP", bounds=[(0, None)] + [(0, 1)] * 6,
        constraints={"type": "eq", "fun": lambda t: t[1:].sum() - 1}, options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    move = z - y
    assert slope @ move + move @ A @ move / 2 - 0.2 * z[0] == pytest.approx(found.fun, abs=1e-7)


@pytest.mark.parametrize("owed", [False, True])
def test_many_groups_are_priced_by_newton_steps(owed, monkeypatch):
    """The same welfare as by columns, with quotas and without; both are proved."""
    problem = scenarios.garnet(1000, 3, 4, n_quotas=12, seed=2)
    problem = problem if owed else problem.with_sets_unbounded()
    objective = gini(np.linspace(3, 0.1, 12)) if owed else max_min()
    quick = solve_welfare(problem, objective, reward=0.5, tol=1e-5)
    assert quick.counters["steps"] > 1 and "columns" not in quick.counters
    assert quick.status is Status.OPTIMAL and verify(problem, quick).ok
    monkeypatch.setattr("fairmdp.welfare.search._MANY_GROUPS", 99)
    columns = solve_welfare(problem, objective, reward=0.5, tol=1e-5)
    assert columns.status is Status.OPTIMAL and columns.counters["columns"] > 1
    assert quick.welfare <= columns.welfare_upper + 1e-12
    assert columns.welfare <= quick.welfare_upper + 1e-12


def test_where_newton_steps_stall_columns_go_on(monkeypatch):
    monkeypatch.setattr(descent, "_STEPS", 1)
    problem = scenarios.garnet(1000, 3, 4, n_quotas=12, seed=2)
    fair = solve_welfare(problem, gini(), reward=1.0, tol=1e-4)
    assert fair.status is Status.OPTIMAL and fair.counters["columns"] > 1


def test_a_deadline_in_the_descent_leaves_its_best():
    problem = scenarios.garnet(2000, 4, 4, n_quotas=20, seed=2).with_sets_unbounded()
    rows = []

    def late(self):
        rows.append(1)
        if len(rows) > 25:
            raise OutOfTimeError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairmdp.deadline.Deadline.check", late)
        fair = solve_welfare(problem, gini(np.linspace(20, 1, 20)))
    assert fair.solution.stopped.value == "out of time" and math.isfinite(fair.welfare_upper)
    uniform = solve_welfare(problem, gini(np.linspace(20, 1, 20)), seconds=1e-9)
    assert fair.welfare > uniform.welfare and verify(problem, fair).ok
