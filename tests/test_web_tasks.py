"""What the page's workers answer: documents that hold what the public functions return."""

import shlex

import numpy as np
import pytest

import fairmdp as fm
from fairmdp.cli.source import read_problem
from fairmdp.web.document import GRAPH_STATES, MOST_STATES
from fairmdp.web.html import report_html
from fairmdp.web.tasks import Desk, RefusedError, Request, Source, best_curve, solve_command


def ask(task, source="three-state", **rest):
    source = source if isinstance(source, Source) else Source(source)
    return Desk().answer(Request(task, source, **rest), lambda row: None)


def read_again(command):
    """The problem that a printed command solves."""
    words = shlex.split(command)[2:]
    options = {
        kind: tuple(w.removeprefix(f"--{kind}=") for w in words if w.startswith(f"--{kind}="))
        for kind in ("param", "quota", "rho")
    }
    rho = options["rho"][0] if options["rho"] else None
    return read_problem(words[0], options["param"], rho, options["quota"])


@pytest.mark.parametrize("moved", [{}, {0: 0.2}, {1: 0.15}, {2: 0.3}, {0: 1 / 3, 2: 0.1 + 0.2}, {0: 0.0}])
def test_the_command_names_the_same_problem_to_the_bit(moved):
    source = Source("three-state", ("rho=0.1,0.1,0.2",), None, ("s0<=0.9", "s1/a1<=0.5"))
    asked = read_problem(source.target, source.params, source.rho, source.quotas)
    at_least = asked.at_least.copy()
    for k, share in moved.items():
        at_least[k] = share
    problem = asked.with_bounds(at_least)
    again = read_again(solve_command(source, asked, problem))
    assert again.names == problem.names and again.digest == problem.digest


def test_names_are_quoted_on_the_command_line():
    mdp = fm.MDP([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0], [0, 1], states=["a b", "'; rm -rf ~ #"])
    asked = fm.Problem(mdp, rho=[0.1, 0.1])
    command = solve_command(
        Source("kept/y.npz", shown="it's $HOME.npz"), asked, asked.with_bounds([0.1, 0.2])
    )
    assert shlex.split(command) == ["fairmdp", "solve", "it's $HOME.npz", "--quota='; rm -rf ~ #>=0.2"]


def test_many_moved_quotas_go_to_a_file():
    asked = fm.Problem(fm.scenarios.garnet(60).mdp, rho=[0.001] * 60)
    assert "export the problem" in solve_command(Source("x"), asked, asked.with_bounds([0.0005] * 60))


def test_ranges_are_the_last_feasible_values_of_the_others():
    ranges = ask("ranges", at_least=(0.1, 0.2, 0.25))["ranges"]
    for k, at_least in enumerate(([0, 0.2, 0.25], [0.1, 0, 0.25], [0.1, 0.2, 0])):
        curve = fm.frontier(fm.scenarios.three_state(rho=at_least), f"s{k}")
        assert ranges[k]["most"] == pytest.approx(curve.last_feasible) and ranges[k]["least"] is None


def test_caps_have_a_range_from_below():
    source = Source("three-state", (), None, ("s0<=0.4",))
    (_, _, capped) = ask("ranges", source)["ranges"]  # the quota that is named again comes last
    smallest = fm.frontier(fm.scenarios.three_state(rho=[0, 0.1, 0.25]), "s1")
    assert capped["k"] == 2 and capped["least"] < 0.4 < capped["most"]
    assert smallest.last_feasible + capped["least"] < 1


def test_others_that_cannot_be_met_leave_no_range():
    assert ask("ranges", at_least=(0.1, 0.1, 0.5))["ranges"][0]["most"] is None
    assert ask("ranges", at_least=(0.6, 0.6, 0.6))["ranges"] == []


def test_with_many_quotas_only_the_moving_one_has_a_range():
    source = Source("garnet", ("n_states=60", "n_quotas=20"))
    (only,) = ask("ranges", source, quota="g7")["ranges"]
    assert only["k"] == 7


def test_owing_more_than_all_time_offers_what_can_be_met():
    document = ask("solve", at_least=(0.6, 0.6, 0.5))
    why = document["infeasible"]
    assert document["status"] == "infeasible" and why["headline"].startswith("the quotas owe 1.7 of the time")
    assert why["conflict"] == ["s0", "s1", "s2"] and sum(why["at_least"]) <= 1
    assert fm.solve(fm.scenarios.three_state(rho=why["at_least"])).status is fm.Status.OPTIMAL
    far = ask("solve", at_least=(0.9, 0.9, 0.0))["infeasible"]
    assert fm.solve(fm.scenarios.three_state(rho=far["at_least"])).status is fm.Status.OPTIMAL


@pytest.mark.parametrize("task", ["solve", "proof", "ranges", "frontier", "export"])
@pytest.mark.parametrize(
    "sent, bounds",
    [({"at_most": (1.0, 0.05, 1.0)}, "s2 asks for at least 0.25 and at most 0.05"), ({"at_least": (0.1, 0.1, 0.5)}, "s0 asks for at least 0.5 and at most 0.4")],
)  # fmt: skip
def test_one_bound_that_crosses_the_other_of_the_problem_is_refused_as_it_was_sent(task, sent, bounds):
    source = Source("three-state", (), None, ("s0<=0.4",))  # which comes last then
    with pytest.raises(RefusedError, match=f"quota {bounds}$"):
        ask(task, source, quota="s1", kind="solution.json", **sent)


def test_large_models_are_cut_to_what_can_be_seen():
    document = ask("solve", Source("garnet", ("n_states=300",)))
    policy = document["policy"]
    solution = fm.solve(fm.scenarios.garnet(300))
    assert len(policy["states"]) == MOST_STATES and policy["of_states"] == 300 and document["graph"] is None
    seen = np.sort(np.argsort(-solution.visitation)[:MOST_STATES])
    assert policy["states"] == [str(s) for s in seen]
    first = solution.policy[5 * seen[0] : 5 * seen[0] + 5]
    assert policy["chances"][0] == first.tolist()


def test_ragged_actions_leave_holes():
    source = Source("jobs", ("queue=2", "capacity=1"))
    policy = ask("solve", source)["policy"]
    problem = fm.scenarios.jobs(queue=[2], capacity=1)
    assert sum(p is not None for row in policy["chances"] for p in row) == problem.mdp.n_pairs
    assert (
        policy["chances"][0].count(None) == len(policy["actions"]) - 1
    )  # nothing to serve, nothing to choose


def test_flows_between_states_are_those_of_the_policy():
    document = ask("solve")
    assert len(document["graph"]["states"]) == 3 <= GRAPH_STATES
    problem = fm.scenarios.three_state()
    solution = fm.solve(problem)
    for s, share in enumerate(solution.visitation):
        for end in ("from", "to"):
            assert sum(e["flow"] for e in document["graph"]["edges"] if e[end] == s) == pytest.approx(share)
    assert problem.mdp.r @ solution.occupancy == pytest.approx(
        np.dot(document["graph"]["rewards"], document["graph"]["shares"])
    )


def test_larger_frontiers_are_looked_at_in_places(monkeypatch):
    monkeypatch.setattr("fairmdp.web.tasks.EXACT_PAIRS", 0)
    problem = fm.scenarios.three_state()
    curve, exact = best_curve(problem, "s2"), fm.frontier(problem, "s2")
    assert not curve.exact and curve.values[0] == 0 and curve.values[-1] == pytest.approx(exact.last_feasible)
    assert curve.gains[:-1] == pytest.approx([exact.gain_at(value) for value in curve.values[:-1]])


def test_too_many_quotas_are_refused_with_advice(tmp_path):
    problem = fm.Problem(fm.scenarios.garnet(2100, 2, 2, n_quotas=0).mdp, rho=[1e-6] * 2100)
    fm.save(problem, tmp_path / "many.npz")
    with pytest.raises(RefusedError, match="2,100 quotas, the page takes up to 2,000"):
        ask("open", Source(str(tmp_path / "many.npz")))


def test_problems_without_quotas_are_welcome():
    document = ask("open", Source("garnet", ("n_quotas=0", "n_states=20")))
    assert document["problem"]["quotas"] == [] and document["ranges"] == []
    answer = ask("solve", Source("garnet", ("n_quotas=0", "n_states=20")))
    assert answer["cost"] == 0 and answer["compare"] is None and answer["worst_slack"] is None
    problem = fm.scenarios.garnet(20, n_quotas=0)
    assert "</html>" in report_html(problem, fm.solve(problem), "free")


def test_reports_of_very_many_quotas_keep_the_tightest(monkeypatch):
    monkeypatch.setattr("fairmdp.web.html.MOST_ROWS", 20)
    monkeypatch.setattr("fairmdp.web.html.CURVE_PAIRS", 0)
    problem = fm.Problem(fm.scenarios.garnet(50, n_quotas=0).mdp, rho=np.linspace(0.001, 0.002, 50))
    solution = fm.solve(problem)
    html = report_html(problem, solution, "many")
    tight = sorted(solution.quotas, key=lambda row: row.slack)[:20]
    assert '"curves": []' in html
    assert html.count('"free_share"') == 20 and all(f'"name": "{row.name}", "share"' in html for row in tight)


def test_quotas_with_weights_are_refused_by_name(tmp_path):
    mdp = fm.scenarios.three_state().mdp
    problem = fm.Problem(mdp, [fm.Quota("balance", weights={"s0": 1.0, "s1": -1.0}, at_least=0.0)])
    fm.save(problem, tmp_path / "weighted.npz")
    with pytest.raises(RefusedError, match="quota balance has weights"):
        ask("open", Source(str(tmp_path / "weighted.npz")))
    with pytest.raises(fm.ProblemError, match="quota balance has weights"):
        report_html(problem, fm.solve(problem), "weighted")
    assert "&gt;= 0" in problem._repr_html_() and "balance" in fm.solve(problem)._repr_html_()
