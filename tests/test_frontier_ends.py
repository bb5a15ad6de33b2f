"""Frontiers where the start decides where runs end: the gain may jump, and nothing is said of it that is not proved."""

import numpy as np
import pytest
from benchmarks.brute_force import best_gain
from benchmarks.multichain import draw

from fairmdp import MDP, Problem, ProblemError, Quota, Status, frontier, plots
from fairmdp.certificate import reward_scale
from fairmdp.frontiers import last_feasible
from fairmdp.frontiers.drawn import best_curve
from fairmdp.frontiers.family import Family
from fairmdp.views.text import frontier_text

# A start that leads to a yard where half of the time can be rest at 2, 1.5 or 0.5, or to a camp where all of it can.
ROWS = {
    "start": [("yard", 0.0), ("camp", 0.0)],
    "yard": [({"yard": 0.75, "rest": 0.25}, 2.0), ("rest", 1.5)],
    "rest": [({"yard": 0.5, "rest": 0.5}, 0.5), ("yard", 0.5)],
    "camp": [("sleep", 1.0)],
    "sleep": [("sleep", 0.5), ("camp", 0.4)],
}


def camp(initial="start", *, at_least=0.1, expected=False):
    states = list(ROWS)
    rows = [(s, to, r) for s, name in enumerate(states) for to, r in ROWS[name]]
    P = np.zeros((len(rows), 5))
    for i, (_, to, _) in enumerate(rows):
        for name, p in ({to: 1.0} if isinstance(to, str) else to).items():
            P[i, states.index(name)] = p
    mdp = MDP(P, [r for *_, r in rows], [s for s, *_ in rows], states=states, initial=initial)
    return Problem(mdp, [Quota("rest", states=["rest", "sleep"], at_least=at_least, expected=expected)])


def test_a_gain_that_jumps_is_looked_at_and_no_slope_is_claimed_between():
    """Up to two thirds of rest the yard earns more, and at a price of 2; beyond, the camp at one of 0.4."""
    curve = frontier(camp(), "rest")
    assert not curve.exact and not curve.concave and curve.last_feasible == 1.0
    assert curve.gains[[0, 12, 13, 14, 20]] == pytest.approx([1.7, 2.9 / 3, 2.6 / 3, 0.62, 0.5])
    for value, price in zip(curve.values, curve.shadow_prices, strict=True):
        assert price.low <= price.price <= price.high and price.start == price.stop == value
    assert curve.shadow_prices[12].price == pytest.approx(2.0)
    assert curve.shadow_prices[14].price == pytest.approx(0.4)
    assert "between values the gain may jump" in frontier_text("x", curve)
    with pytest.raises(ProblemError, match="leave values out|between given values"):
        curve.gain_at(0.66)
    assert plots.plot_frontier(curve).lines[0].get_drawstyle() == "steps-pre"
    assert not best_curve(camp(), "rest", "at_least").concave


def test_a_value_that_cannot_be_met_is_told_once():
    told = frontier_text("x", frontier(camp("yard"), "rest", values=[0.1, 0.9]))
    assert "0.900000   infeasible" in told and "no policy meets" not in told


def test_the_mean_over_runs_has_a_concave_frontier():
    curve = frontier(camp(expected=True), "rest")
    assert curve.exact and curve.concave
    assert curve.values == pytest.approx([0, 0.2, 1.0]) and curve.slopes == pytest.approx([0, -1.5])


@pytest.mark.parametrize("bound, values", [("at_least", [0, 0.2, 1 / 3, 2 / 3]), ("at_most", [1, 0.2])])
def test_what_cannot_be_reached_has_no_part_in_a_frontier(bound, values):
    curve = frontier(camp("yard"), "rest", bound=bound)
    assert curve.exact and curve.values == pytest.approx(values)
    assert frontier(camp("yard"), "*").values == pytest.approx([0, 2, 10 / 3, 20 / 3])


def test_how_far_all_runs_can_go():
    fork = MDP(
        [[0, 0.5, 0.5, 0], [0, 0.75, 0, 0.25], [0, 0, 1, 0], [0, 0.5, 0, 0.5]], np.zeros(4), [0, 1, 2, 3],
        states=["start", "left", "right", "far"],
    )  # fmt: skip
    for initial, left, right in ((None, 0, 0), ("start", 0, 0), ("left", 2 / 3, 0), ("right", 0, 1)):
        quotas = [Quota(name, states=[name], at_least=0.0) for name in ("left", "right")]
        problem = Problem(fork.with_initial(initial), quotas)
        assert last_feasible(problem, "left") == pytest.approx(left, abs=2e-9)
        assert last_feasible(problem, "right") == pytest.approx(right, abs=2e-9)
        assert last_feasible(problem, "left", "at_most") == pytest.approx(0 if right else 2 / 3, abs=2e-9)
    assert last_feasible(camp(), "*") == pytest.approx(10)
    with pytest.raises(ProblemError, match="the other quotas cannot be met by themselves"):
        last_feasible(
            Problem(
                fork,
                [
                    Quota("left", states=["left"], at_least=0.1),
                    Quota("right", states=["right"], at_least=0.5),
                ],
            ),
            "left",
        )


@pytest.mark.parametrize("seed", range(0, 48, 2))
def test_frontiers_are_those_of_brute_force(seed):
    """The last value, and the gain at it and before it; where a frontier is exact, between its breakpoints."""
    problem = draw(seed)
    if not problem.n_quotas or problem.conditions:
        pytest.skip("no quota to move")
    k = seed % problem.n_quotas
    bound = "at_most" if problem.at_most[k] < 1 else "at_least"
    family = Family(problem, problem.names[k], bound)
    try:
        curve = frontier(problem, problem.names[k], bound=bound)
    except ProblemError as error:
        assert "cannot be met by themselves" in str(error) or "nothing says where" in str(error)
        return
    unit, last = reward_scale(problem), curve.last_feasible
    at = np.linspace(family.first, last, 4) if curve.exact else curve.values[[0, 7, 14]]
    try:
        for value in at[:-1]:
            gain = curve.gain_at(value) if curve.exact else curve.gains[list(curve.values).index(value)]
            assert gain == pytest.approx(best_gain(family.at(value), most=500), abs=3e-6 * unit)
        beyond = float(family.units.shares(np.array(last))) + 1e-5 * family.direction
        if 0 < beyond < 1:
            assert best_gain(family.at(float(family.units.values(np.array(beyond)))), most=500) is None
    except OverflowError:
        pytest.skip("too much to enumerate")
    assert all(found.status is not Status.UNDECIDED for found in curve.solutions)
