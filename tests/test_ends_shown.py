"""What a user sees, simulates and takes away where runs end differently: endings, and mixtures as mixtures."""

import json
from pathlib import Path

import numpy as np
import pytest

import fairmdp as fm
from fairmdp import views
from fairmdp.views.notebook import solution_html

FORK = fm.MDP(
    [[0, 1, 0, 0], [0, 0, 0, 1], [0, 0.5, 0.5, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]],
    [0.0, 0.0, 1.0, 0.0, 0.0, 2.0], [0, 0, 1, 1, 2, 3],
    states=["start", "left", "pause", "right"], actions=["go left", "go right", "work", "rest", "back", "work"],
    initial="start",
)  # fmt: skip


def fork(*, expected):
    """Left for good, or right for good: at least 40 % left, and of the time there 40 % pauses."""
    left = fm.Quota("left side", states=["left", "pause"], at_least=0.4, expected=expected)
    pauses = fm.Quota("pauses", states=["pause"], of=["left", "pause"], at_least=0.4)
    return fm.Problem(FORK, [left, pauses])


MIXED = fork(expected=True)
CHANCE = fm.MDP(
    [[0, 0.38, 0.62, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], [0.0, 1.0, 3.0, 9.0], [0, 1, 2, 3],
    states=["start", "left", "right", "ghost"], initial="start", durations=[1.0, 2.0, 2.0, 1.0],
    time_unit="hour",
)  # fmt: skip


@pytest.fixture(scope="module")
def mixture():
    solution = fm.solve(MIXED)
    assert solution.status == "optimal" and solution.gain == pytest.approx(0.6 * 2 + 0.4 * 0.4)
    return solution


def lines_with(text, word):
    return [" ".join(line.split()) for line in text.splitlines() if word in line]


def test_quotas_that_conflict_are_named_with_whom_they_are_asked_of():
    left = fm.Quota("left", states=["left", "pause"], at_least=0.4, expected=True)
    pauses = fm.Quota("no work", states=["right"], at_most=0.1)
    right = fm.Quota("right", states=["right"], at_least=0.3, expected=True)
    problem = fm.Problem(FORK, [left, pauses, right])
    text = views.solution_text("x", problem, fm.solve(problem))
    assert "no work <= 0.1 in every run" in text and "right >= 0.3 in the mean over runs" in text


# --- endings -----------------------------------------------------------------------------------------------------


def test_endings_by_chance_are_told_with_gain_and_shares():
    problem = fm.Problem(CHANCE, [fm.Quota("left", states=["left"], at_least=0.0)])
    text = views.solution_text("x", problem, fm.solve(problem))
    assert lines_with(text, "ends in") == [
        "ends in {right} with 62.0%: gain 1.500000 per hour; left 0.0000",
        "ends in {left} with 38.0%: gain 0.500000 per hour; left 1.0000",
    ]
    assert "states that cannot be reached from the start do not count: 1" in text
    (first, second) = views.solution_data(problem, fm.solve(problem))["ends"]["classes"]
    assert (first["states"], second["probability"]) == (["right"], pytest.approx(0.38))


def test_one_ending_for_all_runs_is_told_as_that():
    problem = fm.Problem(FORK)
    assert lines_with(views.solution_text("x", problem, fm.solve(problem)), "ends") == [
        "every run ends in {right}"
    ]


def test_one_component_has_no_endings_to_tell():
    problem = fm.scenarios.three_state()
    solution = fm.solve(problem)
    assert views.solution_data(problem, solution)["ends"] is None
    assert "ends in" not in views.solution_text("x", problem, solution)


def test_long_endings_and_many_of_them_are_cut():
    n, m = 7, 30  # rings of 30 states
    S = 1 + n * m
    P = np.zeros((S, S))
    P[0, 1::m] = 1 / n
    for c in range(n):
        ring = 1 + c * m + np.arange(m)
        P[ring, np.roll(ring, -1)] = 1
    problem = fm.Problem(fm.MDP(P, np.zeros(S), np.arange(S), initial=np.eye(S)[0]))
    text = views.solution_text("x", problem, fm.solve(problem))
    told = lines_with(text, "ends in")
    assert len(told) == 6 and told[-1] == "ends in 2 other closed classes with 28.6%"
    assert told[0] == "ends in {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, ... 18 more} with 14.3%: gain 0.000000"


def test_a_quota_on_the_mean_that_an_ending_misses_is_told(mixture):
    text = views.solution_text("fork", MIXED, mixture)
    assert lines_with(text, "ends in") == [
        "ends in {right} by policy 1 with 60.0%: gain 2.000000; left side 0.0000 (beyond its bound)",
        "ends in {left, pause} by policy 2 with 40.0%: gain 0.400000; left side 1.0000",
    ]
    assert "binding, in the mean over runs" in text and "binding, of all the time" in text
    assert "{left, pause} by policy 2 with 40.0%" in solution_html(mixture)
    every = fork(expected=False)  # met by all runs, and so nowhere missed
    text = views.solution_text("fork", every, fm.solve(every))
    assert "in the mean" not in text and "beyond" not in text


# --- mixtures ----------------------------------------------------------------------------------------------------


def test_a_mixture_is_shown_policy_by_policy(mixture):
    text = views.solution_text("fork", MIXED, mixture)
    assert "a run draws one of 2 policies at its start" in text
    assert lines_with(text, ": go ") == ["1: 60.0% start: go right", "2: 40.0% start: go left"]
    policies = views.solution_data(MIXED, mixture)["policies"]
    assert [round(policy["weight"], 9) for policy in policies] == [0.6, 0.4]
    graph = views.solution_data(MIXED, mixture)["graph"]
    assert graph["rewards"] == pytest.approx([0.0, 2 / 3, 0.0, 2.0])  # of the time that is spent there


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_mixture_comes_back_from_its_file(mixture, kind, tmp_path):
    policy = fm.Policy.of(MIXED, mixture)
    assert policy.is_mixture and policy.weights.tolist() == mixture.ends.weights.tolist()
    policy.save(tmp_path / f"p.{kind}")
    mixture.save(tmp_path / "s.json")
    for back in (fm.Policy.load(tmp_path / f"p.{kind}"), fm.Policy.load(tmp_path / "s.json")):
        again = fm.Policy.of(MIXED, back)
        assert np.array_equal(again.parts, mixture.ends.policies) and np.allclose(again.weights, [0.6, 0.4])


def test_strategies_of_a_mixture_are_files_of_their_own(mixture, tmp_path):
    paths = fm.save_strategy(MIXED, mixture, tmp_path / "s.txt")
    paths = [Path(path) for path in paths]
    assert [path.name for path in paths] == ["s.1.txt", "s.2.txt"]
    assert [path.read_text().split("\n")[0] for path in paths] == ["(start)=go right", "(start)=go left"]
    assert not (tmp_path / "s.txt").exists()
    storm = fm.save_strategy(MIXED, mixture, tmp_path / "s.json")
    assert json.loads(Path(storm[1]).read_text())[0]["c"][0]["labels"] == ["go left"]
    one = fm.scenarios.three_state()
    assert fm.save_strategy(one, fm.solve(one), tmp_path / "one.txt") == (str(tmp_path / "one.txt"),)


def test_runs_of_a_mixture_draw_a_policy_and_keep_it(mixture):
    seen = fm.simulate(FORK, mixture, steps=200, runs=400, quotas=MIXED.quotas, seed=3)
    right = seen.follows == 0
    assert abs(right.mean() - 0.6) < 4 * np.sqrt(0.24 / 400)
    assert (seen.run_shares[right, 0] == 0).all() and (seen.run_shares[~right, 0] == 199 / 200).all()
    assert (seen.last[right] == 3).all() and set(seen.last[~right]) <= {1, 2}
    assert abs(seen.gain - mixture.gain) < 4 * seen.gain_se
    assert "drawn one of 2 policies" in seen.notes[0] and "2 closed classes" in seen.notes[0]
    assert fm.surprises(MIXED, mixture, seen) == ()
    data = views.simulation_data(MIXED, seen, mixture)
    assert [row["exact_share"] for row in data["quotas"]] == pytest.approx([0.4, 0.4])
    assert [end["seen"] for end in data["ends"]["classes"]] == [right.mean(), 1 - right.mean()]
    assert "runs ended in {right} by policy 1; exact 60.0%" in views.simulation_text("fork", data)


def test_exact_shares_of_runs_are_those_of_their_mean():
    """The share of a quota that every run must meet is told of the worst of them."""
    problem = fm.Problem(CHANCE, [fm.Quota("left", states=["left"], at_least=0.0, at_most=1.0)])
    problem = problem.with_quotas([fm.Quota("right", states=["right", "left"], at_least=0.9)])
    capped = problem.with_quotas([fm.Quota("right only", states=["right"], at_most=1.0, at_least=0.0)])
    solution = fm.solve(capped)
    seen = fm.simulate(CHANCE, solution, steps=300, runs=300, quotas=capped.quotas)
    assert fm.surprises(capped, solution, seen) == ()
    exact = [row["exact_share"] for row in views.simulation_data(capped, seen, solution)["quotas"]]
    assert exact == pytest.approx([0.38, 1.0, 0.62])


def test_one_policy_is_run_to_the_same_bits_however_it_is_given():
    problem = fm.scenarios.three_state()
    solution = fm.solve(problem)
    runs = [
        fm.simulate(problem.mdp, given, steps=50, runs=5, quotas=problem.quotas)
        for given in (solution.policy, solution, fm.Policy.of(problem, solution))
    ]
    assert all(np.array_equal(run.run_gains, runs[0].run_gains) for run in runs)
    assert not runs[0].follows.any()


def test_mixtures_beside_other_policies(mixture):
    seen = fm.compare(MIXED)
    assert seen.policies["fair"].gain == pytest.approx(mixture.gain) and seen.left_out == ()
    assert seen.policies["fair"].broken == () and seen.policies["no quotas"].broken == ("left side",)


def test_a_mixture_is_judged_by_the_mean_where_that_is_asked(mixture):
    seen = fm.evaluate(MIXED, mixture)
    assert seen.verdict == "fair" and seen.worst_slack == pytest.approx(0, abs=1e-12)
    assert len(seen.outcomes) == 2  # what the start does not lead to is none
    assert seen.findings[0].low == pytest.approx(0.4) and seen.findings[0].high == pytest.approx(0.4)
    assert seen.mean_gain == pytest.approx((1.36, 1.36)) and seen.gain == pytest.approx((0.4, 2.0))
    assert seen.behind == pytest.approx((0, 0), abs=1e-9)
    every = fm.evaluate(fork(expected=False), mixture)
    assert every.verdict == "not fair" and every.broken == ("left side",) and every.findings[0].short == 0.4
    text = views.evaluation_text("fork", "ours", MIXED, seen)
    assert lines_with(text, "left side") == [
        "left side 0.4000 >= 0.4 - in the mean over runs",
        "60.0 % right: gain 2.000000; left side 0.0000, pauses -",
        "40.0 % left, pause: gain 0.400000; left side 1.0000, pauses 0.4000",
    ]
    assert "gain 1.360000, mean over runs" in " ".join(text.split())


def test_figures_of_a_mixture(mixture):
    policy = fm.Policy.of(MIXED, mixture)
    figure = fm.plots.plot_policy(FORK, policy).get_figure()
    assert [ax.get_title() for ax in figure.axes[:2]] == ["60.0% of runs", "40.0% of runs"]


def test_commands_take_a_mixture(run, tmp_path, mixture):
    fm.save(MIXED, "fork.toml")
    code, out, _ = run("solve", "fork.toml", "-o", "s.json", "--policy", "p.csv", "--strategy", "s.txt")
    assert code == 0 and "saved s.2.txt, to be followed by 0.4 of all runs" in " ".join(out.split())
    code, out, _ = run("simulate", "fork.toml", "s.json", "--steps", "100", "--runs", "20")
    assert code == 0 and "ended in {left, pause} by policy 2; exact 40.0%" in out
    code, _, err = run("certify", "fork.toml", "s.json")
    assert code == 1 and "mixture of policies" in err
    assert run("solve", "fork.toml", "--figure", "f.svg", "--plot", "policy")[0] == 0
    table = views.policy_csv(MIXED, mixture).splitlines()
    assert table[0] == "policy,weight,state,action,probability" and len(table) == 1 + 2 * 6
