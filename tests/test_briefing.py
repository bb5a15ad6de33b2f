"""The first paragraph of a report: every number in it is that of the solution, and nothing is promised in vain."""

import re
from dataclasses import replace

import numpy as np

import fairmdp as fm
from fairmdp.views import Occasion, briefing

THREE = fm.scenarios.three_state([0.1, 0.1, 0.25])


def said(problem, solution=None, **occasion):
    solution = solution or fm.solve(problem)
    verdict = fm.verify(problem, solution)
    return " ".join(
        briefing(problem, solution, fm.solve(problem.without_quotas()), verdict, Occasion(**occasion))
    )


def test_what_is_guaranteed_what_it_costs_and_what_more_would_cost():
    text = said(THREE, unit_reward="EUR", unit_time="hour")
    assert text.startswith("In the long run this policy guarantees s2 at least 25 % of the time, ")
    # From the paper's model: 0.443421 with quotas, 10/19 without, slope 99/190 a unit of share.
    assert "It earns 0.4434 EUR per hour; without the requirements 0.5263 could be earned" in text
    assert f"so they cost {10 / 19 - 0.4434210526:.4g} EUR per hour, 15.7 %." in text
    assert f"One percentage point more for s2 would cost at least {99 / 190 / 100:.4g} EUR per hour." in text
    assert "No policy that meets the requirements earns more: this is proved" in text


def test_where_runs_would_end_elsewhere_a_price_promises_nothing():
    """Work or rest in the yard at a price of 2, or sleep in the camp, which pays hardly less than now."""
    mdp = fm.MDP(
        [[0, 1, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]],
        [0, 0, 2.0, 2.0, 0, 0, 0.62], [0, 0, 1, 1, 2, 2, 3],
        states=["start", "yard", "rest", "camp"], initial="start",
    )  # fmt: skip
    for expected, words in ((False, "depends on where runs would end then"), (True, "would cost at least")):
        quota = fm.Quota("rest", states=["rest", "camp"], at_least=0.685, expected=expected)
        problem = fm.Problem(mdp, [quota])
        solution, more = fm.solve(problem), fm.solve(problem.with_bounds([0.695]))
        text = said(problem, solution)
        assert words in text
        cost, price = solution.gain - more.gain, 0.01 * solution.prices[0]
        assert (cost >= price * (1 - 1e-6)) == expected


def test_a_point_more_costs_no_less_than_is_said():
    rng = np.random.default_rng(0)
    for owed in rng.uniform(0.1, 0.46, 5):
        problem = fm.scenarios.three_state([0.1, 0.1, owed])
        text = re.search(r"at least ([0-9.e-]+) per step", said(problem))
        more = fm.solve(problem.with_bounds([0.1, 0.1, owed + 0.01]))
        assert fm.solve(problem).gain - more.gain >= float(text[1]) * (1 - 1e-3)


def test_units_of_gains():
    assert Occasion(unit_reward="EUR per hour").gain_unit(THREE) == "EUR per hour"
    assert Occasion().gain_unit(THREE) == "per step"
    shop = fm.MDP([[1.0]], [1.0], [0], durations=[2.0], time_unit="day")
    assert Occasion(unit_reward="EUR").gain_unit(fm.Problem(shop)) == "EUR per day"


def test_caps_means_and_many_quotas():
    cap = fm.Problem(THREE.mdp, [fm.Quota("s0", states=["s0"], at_most=0.3)])
    assert "guarantees s0 at most 30 % of the time." in said(
        cap
    ) and "more allowed to s0 would bring at most" in said(cap)
    mean = fm.Problem(
        THREE.mdp, [fm.Quota("cost", weights={"s0": 80.0, "s1": 30.0, "s2": 50.0}, at_most=52.0)]
    )
    assert "guarantees cost a mean of at most 52." in said(mean) and "One unit more allowed to cost" in said(
        mean
    )
    many = fm.Problem(fm.scenarios.garnet(20).mdp, rho=[0.001] * 20)
    assert "and 16 other requirements that are met as well" in said(many)
    five = fm.Problem(many.mdp, [fm.Quota(f"q{s}", states=[s], at_least=0.001) for s in range(5)])
    assert "and 1 other requirement that is met as well" in said(five)
    assert "as much as without any requirement" in said(THREE.with_bounds([0.0, 0.0, 0.05]))


def test_nothing_is_promised_that_is_not_proved():
    assert "nothing below should be relied on" in said(THREE, replace(fm.solve(THREE), gain=0.6))
    assert "No way of running the system meets all" in said(fm.scenarios.three_state([0.1, 0.1, 0.6]))
    rows = [
        [1, 0, 0],
        [0, 1, 0],
        [1, 0, 0],
        [0, 0, 1],
        [0, 0, 1],
        [0, 1, 0],
    ]  # two corners, and the way between
    corners = fm.MDP(rows, [1.0, 0, 0, 0, 0, 0], [0, 0, 1, 1, 2, 2])
    assert "It is not known whether" in said(fm.Problem(corners, rho=[0.5, 0, 0.5]))
    assert "Nothing is required" in said(THREE.without_quotas())
