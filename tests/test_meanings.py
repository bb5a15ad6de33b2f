"""The two meanings of a quota beside each other, and what is earned from each start."""

import numpy as np
import pytest
from endings import endings, falling_apart, mean_gain, random_policy

import fairmdp as fm
from fairmdp import views
from fairmdp.views.html import solution_view


def road(*, expected=False, start="crossing", **bounds):
    """To run on for 2 a step, to crash for good for 5 a step, or to go home for 1."""
    P = [[1, 0, 0], [0.5, 0.5, 0], [0.9, 0, 0.1], [0, 1, 0], [0, 0, 1]]
    mdp = fm.MDP(
        P, [2.0, 0.0, 0.0, 5.0, 1.0], [0, 0, 0, 1, 2], states=["crossing", "crash", "home"],
        actions=["run", "dash", "wait", "lie", "rest"], initial=start,
    )  # fmt: skip
    return fm.Problem(
        mdp, [fm.Quota("crash", states=["crash"], expected=expected, **(bounds or {"at_most": 0.5}))]
    )


def shown(problem):
    solution = fm.solve(problem)
    other = fm.other_meaning(problem, solution)
    text = views.solution_text("road", problem, solution, None, other)
    return solution, other, " ".join(text.split())


def test_crashing_for_good_in_half_of_the_runs_is_not_crashing_half_the_time():
    solution, other, text = shown(road())
    assert (solution.gain, other.gain) == pytest.approx((2.0, 3.5))
    assert (
        "meaning every run is to meet the quotas; if only the mean over runs had to (expected = true): "
        "gain 3.500000, worst slack 0"
    ) in text
    solution, other, text = shown(road(expected=True))
    assert (solution.gain, other.gain) == pytest.approx((3.5, 2.0))
    assert "if every run had to by itself: gain 2.000000, worst slack +0.5000" in text


def test_what_only_the_mean_can_meet_is_offered():
    solution, other, text = shown(road(at_least=0.2, at_most=0.5))
    assert solution.status == "infeasible" and other.status == "optimal"
    assert (
        "nearest quotas that can be met: crash>=0 " in text
        and "(expected = true): gain 3.500000, worst slack 0" in text
    )
    document = solution_view(road(at_least=0.2, at_most=0.5), solution, solution, other)
    assert "(expected = true): gain 3.500000" in document["infeasible"]["lines"][-1]
    _, other, text = shown(road(expected=True, at_least=0.2, at_most=0.5))
    assert other.status == "infeasible" and "if every run had to by itself, no policy would do" in text
    document = solution_view(
        road(), fm.solve(road()), fm.solve(road()), fm.other_meaning(road(), fm.solve(road()))
    )
    assert "gain 3.500000" in document["notes"][-1]


def test_nothing_is_said_where_both_mean_the_same():
    for problem in (
        fm.scenarios.three_state(),  # one component
        road(start=None),  # a mean over runs needs a start
        road(at_least=0.0),  # asks for nothing
        road(start="crash", expected=True, at_most=0.5),  # impossible for the mean
    ):
        assert fm.other_meaning(problem, fm.solve(problem)) is None
    idle = fm.Problem(road().mdp, [fm.Quota("home", states=["home"], at_most=0.5)])  # which nobody goes to
    solution, other, text = shown(idle)
    assert other is not None and other.gain == solution.gain and "meaning" not in text
    assert fm.other_meaning(road(), fm.solve(road()), most_pairs=4) is None


def test_a_problem_keeps_all_but_the_meaning():
    problem = road()
    other = problem.with_meaning(expected=True)
    assert (
        other.digest == road(expected=True).digest
        and problem.digest == other.with_meaning(expected=False).digest
    )
    assert other.quotas[0].expected and not problem.quotas[0].expected


def test_mixtures_and_means_are_told_in_a_report():
    problem = road(expected=True)
    solution = fm.solve(problem)
    lead = " ".join(
        views.briefing(
            problem,
            solution,
            fm.solve(problem.without_quotas()),
            fm.verify(problem, solution),
            views.Occasion(),
        )
    )
    assert "guarantees crash at most 50 % of the time in the mean over runs." in lead
    assert "a run draws one of 2 ways to act and keeps it, so single runs differ" in lead
    solution = fm.solve(road())
    lead = " ".join(views.briefing(road(), solution, solution, fm.verify(road(), solution), views.Occasion()))
    assert "mean over runs" not in lead and "mixture" not in lead


@pytest.mark.parametrize("seed", range(12))
def test_gains_by_start_are_those_of_brute_force(seed):
    problem = falling_apart(seed, timed=seed % 2 == 1)
    mdp = problem.mdp
    policy = random_policy(mdp, seed)
    found = fm.gains_by_start(problem, policy)
    assert sorted(np.concatenate([one.states for one in found])) == list(range(mdp.n_states))
    for one in found:
        for s in one.states.tolist():
            begun = problem.with_mdp(mdp.with_initial(np.eye(1, mdp.n_states, s)[0]))
            exact = mean_gain(endings(begun, policy))
            low, high = one.gain
            assert low <= exact <= high and high - low < 1e-9 * (1 + abs(high))


def test_without_a_start_the_gain_is_told_from_each():
    problem = road(start=None, at_least=0.0)
    text = " ".join(views.solution_text("road", problem, fm.solve(problem)).split())
    assert "gain 3.666667, mean over all starts optimal" in text
    assert "from {crossing, crash} gain 5.000000 from {home} gain 1.000000" in text
    begun = road(at_least=0.0)
    assert "from {" not in views.solution_text("road", begun, fm.solve(begun))
    with pytest.raises(fm.ProblemError, match=r"2 kinds of starts end differently\n  up to 1 are told apart"):
        fm.gains_by_start(problem, fm.solve(problem), most=1)
    with pytest.raises(fm.ProblemError, match="mixture"):
        fm.gains_by_start(road(expected=True), fm.solve(road(expected=True)))
    told = fm.solve(road(start=None))
    assert "from every start, and none is stated" in views.solution_text("road", road(start=None), told)
