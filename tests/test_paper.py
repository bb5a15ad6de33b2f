"""Reference numbers of the paper's instances, exact to 1e-9, and its errata with their counterexamples."""

from fractions import Fraction as F

import numpy as np
import pytest
from checks import assert_optimal, assert_policy_is_fair
from models import hiring, jobs

from fairmdp import MDP, Problem, Quota, Status, scenarios, solve, solve_lp, verify
from fairmdp.solution.solution import Remark


def test_unconstrained_three_state():
    sol = solve_lp(scenarios.three_state(rho=[0, 0, 0]))
    assert sol.gain == pytest.approx(10 / 19, abs=1e-9)
    assert sol.visitation == pytest.approx([9 / 19, 91 / 209, 1 / 11], abs=1e-9)
    assert sol.policy == pytest.approx([1, 0, 0, 1, 1, 0], abs=1e-9)
    h = sol.bias - sol.visitation @ sol.bias  # the paper's lambda is -h, orthogonal to nu
    assert -h == pytest.approx([-90 / 361, 81 / 361, 81 / 361], abs=1e-9)


@pytest.mark.parametrize(
    "rho_2, gain, x00, x10, x11, p, lam",
    [
        (F(10, 100), F(991, 1900), F(89, 190), F(1, 80), F(637, 1520), F(19, 656), (F(-369, 1805), F(486, 1805))),
        (F(15, 100), F(1883, 3800), F(167, 380), F(13, 160), F(1001, 3040), F(19, 96), (F(-351, 1805), F(504, 1805))),
        (F(20, 100), F(223, 475), F(39, 95), F(3, 20), F(91, 380), F(57, 148), (F(-333, 1805), F(522, 1805))),
        (F(25, 100), F(337, 760), F(29, 76), F(7, 32), F(91, 608), F(19, 32), (F(-63, 361), F(108, 361))),
        (F(30, 100), F(793, 1900), F(67, 190), F(23, 80), F(91, 1520), F(437, 528), (F(-297, 1805), F(558, 1805))),
    ],
)  # fmt: skip
def test_three_state_quotas(rho_2, gain, x00, x10, x11, p, lam):
    problem = scenarios.three_state(rho=[0.1, 0.1, float(rho_2)])
    sol = solve_lp(problem)
    assert_optimal(problem, sol, tol=1e-9)
    assert sol.gain == pytest.approx(float(gain), abs=1e-9)
    assert sol.occupancy == pytest.approx([float(v) for v in (x00, 0, x10, x11, rho_2, 0)], abs=1e-9)
    assert sol.policy == pytest.approx([1, 0, float(p), 1 - float(p), 1, 0], abs=1e-9)
    assert sol.prices == pytest.approx([0, 0, 99 / 190], abs=1e-9)
    h = sol.bias - sol.visitation @ sol.bias
    assert -h == pytest.approx([float(lam[0]), float(lam[1]), float(lam[0])], abs=1e-9)
    exact = verify(problem, sol, exact=True)
    assert exact.ok and exact.gain[0] <= exact.upper <= exact.gain[1] + 1e-14
    assert exact.gain == pytest.approx([float(gain)] * 2, abs=1e-14)


def test_three_state_beyond_the_kink():
    sol = solve_lp(scenarios.three_state(rho=[0.1, 0.1, 0.4]))
    assert sol.gain == pytest.approx(2 / 5 - 171 / 80 * (0.4 - 1 / 3), abs=1e-9)
    assert sol.prices[2] == pytest.approx(171 / 80, abs=1e-9)


@pytest.mark.parametrize("rho_2", [9 / 19 + 1e-6, 0.48, 0.5, 0.8])
def test_three_state_infeasible_above_nine_nineteenths(rho_2):
    problem = scenarios.three_state(rho=[0.1, 0.1, rho_2])
    sol = solve(problem)
    assert sol.status is Status.INFEASIBLE and np.isnan(sol.gain)
    why = sol.infeasibility
    assert why.conflict == (2,)
    assert why.reach == pytest.approx([9 / 19], abs=1e-9)
    assert why.common_factor == pytest.approx(9 / 19 / rho_2, abs=1e-9)
    assert why.nearest_at_least == pytest.approx([0.1, 0.1, 9 / 19], abs=2e-9)
    assert verify(problem, sol).ok and verify(problem, sol, exact=True).ok
    repaired = problem.with_bounds(why.nearest_at_least, why.nearest_at_most)
    assert solve(repaired).status is Status.OPTIMAL


def test_three_state_at_the_last_feasible_quota():
    assert solve(scenarios.three_state(rho=[0.1, 0.1, 9 / 19])).gain == pytest.approx(0.1, abs=1e-9)


J2 = {"capacities": (4, 4), "servers": 2, "arrivals": (1.5, 1.0), "withdraw": 0.05, "pay": (1, 0.3)}
J3 = {
    "capacities": (2, 2, 2),
    "servers": 2,
    "arrivals": (1, 0.7, 0.7),
    "withdraw": 0.05,
    "pay": (1, 0.4, 0.2),
}
H = {"K": 6, "leave": 0.05, "p_a": 0.7, "accept": 0.8, "outside": 0.05, "worth": (1, 0.9), "tau": 0.3}


@pytest.mark.parametrize(
    "world, arguments, gain, prices",
    [
        pytest.param(jobs, J2 | {"limits": []}, 0.7850115400, [], id="J2"),
        pytest.param(jobs, J2 | {"limits": [(1, 1, 0.3)]}, 0.7597573637, [0.269763], id="J2/0.3"),
        pytest.param(jobs, J2 | {"limits": [(1, 1, 0.6)]}, 0.6601002758, [0.418793], id="J2/0.6"),
        pytest.param(jobs, J3 | {"limits": []}, 0.5989325565, [], id="J3"),
        pytest.param(jobs, J3 | {"limits": [(1, 0, 0.3), (2, 0, 0.3)]}, 0.5890144032, None, id="J3/0.3,0.3"),
        pytest.param(hiring, H | {"quota": None}, 0.9433761717, [], id="H"),
        pytest.param(hiring, H | {"quota": 0.5}, 0.9433761717, [0.0], id="H/0.5"),
        pytest.param(hiring, H | {"quota": 0.6}, 0.9353718981, None, id="H/0.6"),
        pytest.param(hiring, H | {"quota": 0.8}, 0.8969723879, None, id="H/0.8"),
    ],
)
def test_job_scheduling_and_hiring(world, arguments, gain, prices):
    problem = world(**arguments)
    sol = solve_lp(problem)
    assert_optimal(problem, sol)
    assert sol.gain == pytest.approx(gain, abs=1e-8)
    if prices is not None:
        assert sol.prices == pytest.approx(prices, abs=1e-6)
    assert verify(problem, sol, exact=True).ok


@pytest.mark.parametrize(
    "world, arguments, reach",
    [
        pytest.param(jobs, J2 | {"limits": [(1, 1, 0.7)]}, 0.6866664157, id="J2/0.7"),
        pytest.param(jobs, J3 | {"limits": [(1, 0, 0.5), (2, 0, 0.5)]}, None, id="J3/0.5,0.5"),
        pytest.param(hiring, H | {"quota": 0.92}, 0.9109934307, id="H/0.92"),
    ],
)
def test_job_scheduling_and_hiring_infeasible(world, arguments, reach):
    problem = world(**arguments)
    sol = solve(problem)
    assert sol.status is Status.INFEASIBLE
    if reach is not None:
        assert sol.infeasibility.reach == pytest.approx([reach], abs=1e-8)
    assert verify(problem, sol, exact=True).ok


# Errata: what the paper or its published script gets wrong, and we must not.


@pytest.mark.parametrize("rho_2, shifted", [(0.0, -9 / 19), (0.25, 337 / 760 - 1)])
def test_negative_rewards_keep_the_mass_at_one(rho_2, shifted):
    """With sum x <= 1 the all-negative instance would answer 0 (or -0.45)."""
    base = scenarios.three_state(rho=[0, 0, rho_2]).mdp
    problem = Problem(MDP(base.P, base.r - 1, base.s_of), rho=[0, 0, rho_2])
    sol = solve_lp(problem)
    assert_optimal(problem, sol)
    assert sol.gain == pytest.approx(shifted, abs=1e-9)


def test_a_quota_may_exceed_one_over_n():
    """rho_2 = 0.4 > 1/3 is feasible, though the paper's d_rho is negative there."""
    sol = solve_lp(scenarios.three_state(rho=[0.1, 0.1, 0.4]))
    assert sol.status is Status.OPTIMAL and sol.gain == pytest.approx(0.2575, abs=1e-9)


def test_fair_action_is_used_although_not_needed():
    """Remark 1 is false: a* earns its keep on an instance that is feasible without it."""
    mdp = MDP([[0.1, 0.9], [0.1, 0.9]], [1.0, 0.1], [0, 1])
    problem = Problem(mdp, rho=[0.05, 0.05])
    assert solve_lp(problem).gain == pytest.approx(0.19, abs=1e-9)
    with_action = problem.with_fair_action(reward=0.0)
    sol = solve_lp(with_action)
    assert sol.gain == pytest.approx(0.357142857, abs=1e-9)
    assert sol.occupancy[[1, 3]].sum() == pytest.approx(0.643, abs=1e-3)
    for reward, used in ((-0.2599, True), (-0.2601, False)):
        sol = solve_lp(problem.with_fair_action(reward=reward))
        assert (sol.occupancy[[1, 3]].sum() > 1e-9) == used


def test_fair_action_makes_small_quotas_feasible():
    problem = scenarios.alpha_chain(alpha=0.3, rho=0.4)
    assert solve(problem).status is Status.INFEASIBLE
    sol = solve(problem.with_fair_action())
    assert sol.status is Status.OPTIMAL
    assert_policy_is_fair(problem.with_fair_action(), sol.policy)


def test_states_without_mass_are_led_back():
    """x / nu is 0/0 on an unvisited state; any action there must not open a second closed class."""
    P = [[0.5, 0.5, 0], [1, 0, 0], [0, 0, 1], [0.1, 0, 0.9]]  # state 2 may stay put or return
    problem = Problem(MDP(P, [1.0, 1.0, 0.5, 0.0], [0, 1, 2, 2]))
    sol = solve(problem)
    assert sol.status is Status.OPTIMAL and sol.gain == pytest.approx(1)
    assert sol.policy.tolist()[2:] == [0, 1]
    assert_policy_is_fair(problem, sol.policy)


def test_a_split_optimum_is_connected_or_refused():
    """Staying in either state pays 1; owing both makes the LP's policy multichain."""
    mdp = MDP([[1, 0], [0, 1], [0, 1], [1, 0]], [1.0, 0.0, 1.0, 0.0], [0, 0, 1, 1])
    problem = Problem(mdp, rho=[0.3, 0.3])
    sol = solve(problem)
    assert sol.status is Status.OPTIMAL and sol.gap < 1e-6
    assert_policy_is_fair(problem, sol.policy)
    assert Remark.NEARLY_REDUCIBLE in [note.remark for note in sol.notes]


def test_separate_worlds_give_shares_to_both_in_the_mean_only():
    """No action leads from one state to the other: no run has both, half of the runs have each."""
    mdp = MDP(np.eye(2), [1.0, 1.0], [0, 1])
    problem = Problem(mdp, rho=[0.3, 0.3])
    sol = solve(problem)
    assert sol.status is Status.INFEASIBLE
    assert verify(problem, sol, exact=True).ok
    start = MDP(np.eye(2), [1.0, 1.0], [0, 1], initial=[0.5, 0.5])
    mean = Problem(start, [Quota(f"s{s}", [s], at_least=0.3, expected=True) for s in range(2)])
    sol = solve(mean)
    assert sol.status is Status.OPTIMAL and sol.shares == pytest.approx([0.5, 0.5])
    assert verify(mean, sol, exact=True).ok
