"""Conditional quotas: parts of the time in some states, against linear programs in numpy and by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.test_time import holds, random_model

from fairmdp import (
    MDP,
    Problem,
    ProblemError,
    Quota,
    Solution,
    Status,
    alpha_fair,
    compare,
    frontier,
    load,
    parse_quota,
    save,
    scenarios,
    simulate,
    solve,
    solve_welfare,
    surprises,
    verify,
    views,
)
from fairmdp.views.data import quotas_data


def best_by_hand(mdp, sets):
    """Occupancy of largest gain with ``x(G and of) >= b x(of)``, or ``<=``, in units of time; None if there is none."""
    tau = np.ones(mdp.n_pairs) if mdp.durations is None else mdp.durations
    flow = np.zeros((mdp.n_states, mdp.n_pairs))
    flow[mdp.s_of, np.arange(mdp.n_pairs)] += 1 / tau
    flow -= mdp.P.toarray().T / tau
    rows = [(1 if cap else -1) * (g & of) - (1 if cap else -1) * b * of for g, of, b, cap in sets]
    equal = np.vstack([flow, np.ones(mdp.n_pairs)])
    found = linprog(-mdp.r / tau, rows, np.zeros(len(rows)), equal, np.append(np.zeros(mdp.n_states), 1))
    return None if found.status == 2 else found.x


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("timed", [False, True])
def test_random_problems_against_a_program_by_hand(seed, timed):
    rng = np.random.default_rng(seed)
    mdp = random_model(seed, 5)
    if not timed:
        mdp = MDP(mdp.P, mdp.r, mdp.s_of)
    of, other = np.isin(mdp.s_of, [1, 2, 3]), np.isin(mdp.s_of, [0, 1])
    g, pairs = mdp.s_of == 2, np.arange(mdp.n_pairs) == mdp.pair_ptr[1]
    b, cap = rng.uniform(0.05, 0.9), rng.uniform(0.05, 0.9)
    quotas = [
        Quota("2 of 1 to 3", states=[2], of=[1, 2, 3], at_least=b),
        Quota("first action of 0 and 1", pairs=[int(mdp.pair_ptr[1])], of=[0, 1], at_most=cap),
    ]
    problem = Problem(mdp, quotas)
    solution = holds(problem, solve(problem))
    x = best_by_hand(mdp, [(g, of, b, False), (pairs, other, cap, True)])
    if x is None:
        assert solution.status is Status.INFEASIBLE
        return
    assert solution.status is Status.OPTIMAL
    assert solution.gain == pytest.approx(mdp.rates @ x, abs=1e-6 * np.ptp(mdp.rates))
    y = solution.occupancy
    for row, (inside, condition) in zip(solution.quotas, [(g, of), (pairs, other)], strict=True):
        assert row.share == pytest.approx(y[inside & condition].sum() / y[condition].sum(), abs=1e-9)
        assert row.slack == pytest.approx(
            min(row.share - b, 1) if row.at_least == b else cap - row.share, abs=1e-8
        )
        assert row.share >= row.at_least - 1e-9 and row.share <= row.at_most + 1e-9
    masses = [share.mass for share in solution.conditions]
    assert masses == pytest.approx([y[of].sum(), y[other].sum()], abs=1e-9)


@pytest.mark.parametrize("bound", [0.3, 0.45, 0.6])
def test_a_price_is_that_of_a_unit_of_the_part(bound):
    def found(b):
        quota = Quota("s2", states=["s2"], of=["s1", "s2"], at_least=b)
        return solve(Problem(scenarios.three_state().mdp, [quota]))

    row, step = found(bound).quotas[0], 1e-5
    slope = (found(bound - step).gain - found(bound + step).gain) / (2 * step)
    assert row.price == pytest.approx(slope, rel=1e-5)
    assert row.slack == pytest.approx(0, abs=1e-9)
    assert row.at_least == bound and row.at_most == 1


def night_line():
    """By day and by night a call is answered (cheaply or at a cost) or lost; nights may be avoided for a fee."""
    states = ["day", "night, answered", "night, lost"]
    return MDP(
        [[0.5, 0.2, 0.3], [1, 0, 0], [0.6, 0.36, 0.04], [0.6, 0.1, 0.3], [0.6, 0.1, 0.3]], [2, 0.5, 0, 1, 0],
        [0, 0, 1, 1, 2], states=states, actions=["open", "closed", "staffed", "alone", "alone"],
    )  # fmt: skip


def test_a_condition_without_time_is_void():
    mdp = night_line()
    mdp = MDP(mdp.P, [0, 5, 0, 0, 0], mdp.s_of, states=mdp.states, actions=mdp.actions)
    night = ["night, answered", "night, lost"]
    problem = Problem(mdp, [Quota("answered at night", states=[night[0]], of=night, at_least=0.9)])
    solution = holds(problem, solve(problem))
    assert solution.gain == pytest.approx(5) and solution.conditions[0].void
    assert np.isnan(solution.quotas[0].share)
    assert "void: its condition has next to no time" in views.solution_text("line", problem, solution)


@pytest.mark.parametrize("rare", [1e-5, 1e-7, 1e-9, 1e-10, 1e-300])
def test_a_part_that_is_shown_is_met(rare):
    """A quota may be missed by 1e-9 of the time: of a condition that has 2e-9, half. So nothing is said of such."""
    mdp = MDP([[1 - rare, rare, 0], [0.5, 0, 0.5], [0.5, 0.5, 0.0], [1, 0, 0]], [1, 0, 0, 0.5], [0, 1, 1, 2])
    problem = Problem(mdp, [Quota("c", [2], of=[1, 2], at_least=0.3)])
    solution = holds(problem, solve(problem))
    row = solution.quotas[0]
    assert np.isnan(row.share) if rare < 1e-6 else row.share >= 0.2999 and row.slack >= -1e-4
    assert ("next to no time" in views.solution_text("rare", problem, solution)) == (rare < 1e-6)


def test_it_is_shown_with_the_time_of_its_condition():
    problem = Problem(
        scenarios.three_state().mdp, [Quota("s2 of it", states=["s2"], of=["s1", "s2"], at_least=0.5)]
    )
    solution = solve(problem)
    text = views.solution_text("x", problem, solution)
    assert "s2 of it   0.5000   >= 0.5" in text and "binding, of 66.7% of the time" in text
    (row,) = quotas_data(problem)
    assert row["counts"] == "at least 0.5 of the time in 2 states" and row["fixed"]


def test_simulations_show_the_part():
    problem = Problem(
        scenarios.three_state().mdp, [Quota("s2 of it", states=["s2"], of=["s1", "s2"], at_least=0.45)]
    )
    solution = solve(problem)
    seen = simulate(problem.mdp, solution.policy, steps=3000, runs=60, quotas=problem.quotas)
    (row,) = views.simulation_data(problem, seen, solution)["quotas"]
    assert row["share"] == pytest.approx(0.45, abs=5 * row["share_se"])
    assert row["exact_share"] == pytest.approx(0.45, abs=1e-9)
    assert row["at_least"] == 0.45 and 0.4 < row["after_steps"]["5%"] < row["after_steps"]["95%"] < 0.5
    assert surprises(problem, solution, seen) == ()
    parts = 0.45 + seen.run_shares[:, 0] * problem.units.scale[0] / seen.run_masses[:, 0]
    parts += problem.units.offset[0] / seen.run_masses[:, 0]
    assert row["share_se"] == pytest.approx(parts.std(ddof=1) / np.sqrt(60), rel=0.3)


def test_how_much_night_a_run_has_is_no_error_of_what_is_answered_by_night():
    """All of the night is answered in every run; half of the runs have five times as many nights."""
    P = [[0, 0.5, 0.5, 0, 0], [0, 0.5, 0, 0.5, 0], [0, 0, 0.9, 0, 0.1], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]
    mdp = MDP(P, np.zeros(5), range(5), states=["start", "noon", "day", "night", "dusk"], initial="start")
    quota = Quota("answered", states=["night", "dusk"], of=["start", "night", "dusk"], at_least=0.1)
    seen = simulate(mdp, np.ones(5), steps=500, runs=40, quotas=[quota])
    assert seen.run_masses.std() > 0.05 and seen.share_se[0] > 0.01
    assert seen.part_se == pytest.approx([0], abs=1e-12)


@pytest.mark.parametrize("ending", ["toml", "npz"])
def test_files_keep_conditions(tmp_path, ending):
    mdp = scenarios.three_state().mdp
    problem = Problem(
        mdp,
        [
            Quota("plain", states=["s0"], at_least=0.1),
            Quota("part", states=["s2"], of=["s1", "s2"], at_least=0.3),
            Quota("walks", pairs=[("s1", "a1")], of=["s1", "s0"], at_most=0.7),
            Quota("nothing", states=["s1"], of=["s1", "s2"], at_least=0),
            Quota("weights", weights={"s0": -1.0, "s2": 2.0}, at_most=0.3),
        ],
    )
    path = tmp_path / f"problem.{ending}"
    save(problem, path)
    again = load(path)
    assert again.digest == problem.digest
    solution = solve(problem)
    solution.save(tmp_path / "solution.json")
    assert verify(again, Solution.load(tmp_path / "solution.json"), exact=True).ok
    assert len({problem.digest, problem.with_quotas([parse_quota(problem, "part>=0.31")]).digest}) == 2


def test_a_bound_moves_by_name():
    problem = Problem(scenarios.three_state().mdp, [Quota("part", states=[2], of=[1, 2], at_least=0.3)])
    moved = problem.with_quotas([parse_quota(problem, "part>=45%")])
    assert solve(moved).quotas[0].share == pytest.approx(0.45, abs=1e-9)


def forged(solution, **changes):
    share = solution.conditions[0]._replace(**changes)
    return replace(solution, conditions=(share, *solution.conditions[1:]))


@pytest.mark.parametrize("exact", [False, True])
def test_forged_conditions_are_refused(exact):
    problem = Problem(scenarios.three_state().mdp, [Quota("part", states=[2], of=[1, 2], at_least=0.45)])
    solution = solve(problem)
    mass = solution.conditions[0].mass
    for lie in (
        forged(solution, mass=mass * (1 + 1e-6)), forged(solution, mass=0.0), forged(solution, mass=np.nan),
        forged(solution, bound=0.5), forged(solution, least=False), replace(solution, conditions=()),
    ):  # fmt: skip
        assert not verify(problem, lie, exact=exact).ok
    assert verify(problem, solution, exact=exact).ok


@pytest.mark.parametrize("exact", [False, True])
def test_a_part_of_little_time_cannot_be_forged(exact):
    """Shares may be off by 1e-8, which would be a two hundredth of a condition that has 2e-6 of the time."""
    rare = 2e-6
    mdp = MDP([[1 - rare, rare / 2, rare / 2], [1, 0, 0], [1, 0, 0]], [0, 1, 0], [0, 1, 2])
    problem = Problem(mdp, [Quota("half", states=[1], of=[1, 2], at_least=0.4)])
    solution = holds(problem, solve(problem))
    assert solution.quotas[0].share == pytest.approx(0.5, abs=1e-9)
    lie = replace(solution, shares=solution.shares + 8e-9)
    assert lie.quotas[0].share == pytest.approx(0.504, abs=1e-4)
    verdict = verify(problem, lie, exact=exact)
    assert not verdict.ok and "the part" in verdict.messages[0]


def test_what_cannot_be_met_is_said_in_words():
    mdp = night_line()
    night = ["night, answered", "night, lost"]
    problem = Problem(
        mdp,
        [
            Quota("open", pairs=[("day", "closed")], at_most=0.0),
            Quota("answered at night", states=[night[0]], of=night, at_least=0.95),
        ],
    )
    solution = holds(problem, solve(problem))
    assert solution.status is Status.INFEASIBLE
    text = views.solution_text("line", problem, solution)
    assert "answered at night is to be at least 0.95 of its condition" in text


@pytest.mark.parametrize(
    ("quota", "words"),
    [
        (dict(states=[0], of=[1], at_least=0.5), "nothing of its set is in of"),
        (dict(states=[0, 1], of=[1], at_least=0.5), "all of of is in its set"),
        (dict(states=[0], of=[0, 1], at_least=1.5), "expected a part between 0 and 1"),
        (dict(states=[0], of=[0, 1], at_most=1.0), "asks for nothing"),
    ],
)
def test_conditions_that_say_nothing_are_refused(quota, words):
    with pytest.raises(ProblemError, match=words):
        Problem(scenarios.three_state().mdp, [Quota("x", **quota)])


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ProblemError, match="one bound"):
        Quota("x", states=[0], of=[0, 1], at_least=0.1, at_most=0.5)
    with pytest.raises(ProblemError, match="one bound"):
        Quota("x", weights={"s0": 1.0}, of=[0, 1], at_least=0.1)
    problem = Problem(scenarios.three_state().mdp, [Quota("part", states=[2], of=[1, 2], at_least=0.45)])
    with pytest.raises(ProblemError, match="its bound is in what it counts"):
        frontier(problem, "part")


def test_frontiers_and_comparisons_beside_a_condition():
    problem = scenarios.three_state(rho=[0.1, 0.1, 0.1])
    problem = problem.with_quotas([Quota("part", states=[2], of=[1, 2], at_least=0.45)])
    curve = frontier(problem, "s0")
    assert (curve.shares[:, 3] >= 0.45 - 1e-9).all()
    alone = solve(problem.with_bounds([0.2, 0.1, 0.1, problem.at_least[3]]))
    assert curve.gain_at(0.2) == pytest.approx(alone.gain, abs=1e-9)
    fair = compare(problem).policies["fair"]
    assert "part" not in fair.by_group and fair.shares[3] >= 0.45 - 1e-9


def test_a_part_is_no_group_of_a_welfare():
    problem = scenarios.three_state(rho=[0.1, 0.1, 0.1])
    problem = problem.with_quotas([Quota("part", states=[2], of=[1, 2], at_least=0.45)])
    with pytest.raises(ProblemError, match="on a part of some of the time, and that is no group"):
        solve_welfare(problem, alpha_fair(1), over=["s0", "part"])
