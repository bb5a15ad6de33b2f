"""What the page's workers answer: documents that hold what the public functions return."""

import base64
import json
import shlex
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import fairmdp as fm
import fairmdp.views.notebook  # shows results as tables
from fairmdp.frontiers.drawn import Tuning, best_curve
from fairmdp.views.html import report_html
from fairmdp.views.policy import GRAPH_STATES, MOST_STATES
from fairmdp.views.welfare import welfare_view
from fairmdp.web import tasks
from fairmdp.web.edits import Row, solve_command
from fairmdp.web.server import static_files
from fairmdp.web.tasks import OpenProblems, RefusedError, Request, Source


def ask(task, source="three-state", **rest):
    source = source if isinstance(source, Source) else Source(source)
    return OpenProblems().answer(Request(task, source, **rest), lambda row: None)


def read_again(command):
    """The problem that a printed command solves."""
    words = shlex.split(command)[2:]
    options = {
        kind: tuple(w.removeprefix(f"--{kind}=") for w in words if w.startswith(f"--{kind}="))
        for kind in ("param", "quota", "rho")
    }
    rho = options["rho"][0] if options["rho"] else None
    return Source(words[0], options["param"], rho, options["quota"]).problem()


@pytest.mark.parametrize("moved", [{}, {0: 0.2}, {1: 0.15}, {2: 0.3}, {0: 1 / 3, 2: 0.1 + 0.2}, {0: 0.0}])
def test_the_command_names_the_same_problem_to_the_bit(moved):
    source = Source("three-state", ("rho=0.1,0.1,0.2",), None, ("s0<=0.9", "s1/a1<=0.5"))
    asked = source.problem()
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


@pytest.mark.parametrize("principle", ["nash", "gini", "leximin"])
def test_a_principle_is_answered_under_the_bounds_as_they_stand(principle, run):
    found = ask("welfare", at_least=(0.1, 0.2, 0.0), text=principle)
    problem = Source("three-state").problem().with_bounds([0.1, 0.2, 0.0])
    fair = fm.solve_welfare(problem, fm.parse_objective(principle))
    assert found["status"] == "optimal" and found["gain"] == pytest.approx(fair.gain, abs=1e-9)
    assert [row["name"] for row in found["groups"]] == list(problem.names)
    assert [row["utility"] for row in found["groups"]] == pytest.approx(fair.utilities.tolist(), abs=1e-7)
    assert [row["marginal"] for row in found["groups"]] == pytest.approx(fair.marginals.tolist(), abs=1e-6)
    code, out, _ = run(*shlex.split(found["command"])[1:], "--json")
    assert code == 0 and json.loads(out)["welfare"] == pytest.approx(found["welfare"], abs=1e-7)


def test_a_principle_counts_the_groups_that_the_page_has_now():
    rows = (Row("first", was="s0", at_least=0.0), Row("new", states=(1, 2), at_least=0.0))
    found = ask("welfare", rows=rows, text="max-min")
    problem = Source("three-state").problem()
    groups = [fm.Quota("first", states=[0], at_least=0.0), fm.Quota("new", states=[1, 2], at_least=0.0)]
    fair = fm.solve_welfare(fm.Problem(problem.mdp, groups), fm.max_min())
    assert found["welfare"] == pytest.approx(fair.welfare, abs=1e-6)
    assert found["command"].endswith("--by=max-min --over=s0 --over=new")


def test_a_principle_that_cannot_serve_everybody_says_whom():
    closed = fm.MDP(P=[[1.0, 0.0], [1.0, 0.0]], r=[0.0, 1.0], s_of=[0, 1])
    groups = [fm.Quota("here", states=[0], at_least=0.0), fm.Quota("gone", states=[1], at_least=0.0)]
    problem = fm.Problem(closed, groups)
    found = welfare_view(problem, fm.solve_welfare(problem, fm.parse_objective("nash")))
    assert found["status"] == "infeasible" and "no policy gives gone more than" in found["why"]
    tight = Source("three-state").problem().with_bounds([0.6, 0.6, 0.0])
    found = welfare_view(tight, fm.solve_welfare(tight, fm.parse_objective("nash")))
    assert (found["status"], found["why"]) == ("infeasible", "no policy meets the quotas")


def test_many_moved_quotas_go_to_a_file():
    asked = fm.Problem(fm.scenarios.garnet(60).mdp, rho=[0.001] * 60)
    assert "export the problem" in solve_command(Source("x"), asked, asked.with_bounds([0.0005] * 60))


OWN = (
    Row("s0", "s0", at_least=0.3),
    Row("third", "s2", at_least=0.2),
    Row("first two", None, (0, 1), 0.5, 0.75),
)


def test_quotas_of_the_page_are_solved_as_they_stand():
    """One removed, one renamed, one bounded otherwise, one new."""
    mdp = fm.scenarios.three_state().mdp
    quotas = [fm.Quota("s0", states=[0], at_least=0.3), fm.Quota("third", states=[2], at_least=0.2),
              fm.Quota("first two", states=[0, 1], at_least=0.5, at_most=0.75)]  # fmt: skip
    expected = fm.solve(fm.Problem(mdp, quotas))
    assert [row["name"] for row in ask("open", rows=OWN)["problem"]["quotas"]] == ["s0", "third", "first two"]
    found = ask("solve", rows=OWN)
    assert found["gain"] == pytest.approx(expected.gain, abs=1e-9)
    assert [row["share"] for row in found["quotas"]] == pytest.approx(expected.shares.tolist(), abs=1e-9)
    words = shlex.split(found["command"])
    assert "--group=first two=s0,s1" in words
    given = [word.removeprefix("--quota=") for word in words if word.startswith("--quota=")]
    again = Source(words[2], quotas=tuple(given), members=("first two=s0,s1",)).problem()
    assert fm.solve(again).gain == pytest.approx(expected.gain, abs=1e-9)
    assert again.names == ("s0", "s1", "s2", "first two") and again.at_least[1] == 0.0


def test_quotas_of_every_kind_can_be_renamed_and_keep_what_they_count(tmp_path):
    three = fm.scenarios.three_state()
    kinds = [fm.Quota("chores", weights={"s0": -2.0, "s2": 6.0}, at_least=0.5), fm.Quota("pairs", pairs=[0, 3], at_most=0.9),
             fm.Quota("part", states=["s0"], of=["s0", "s1"], at_least=0.2), *three.quotas]  # fmt: skip
    fm.save(fm.Problem(three.mdp, kinds), tmp_path / "kinds.toml")
    source = Source(str(tmp_path / "kinds.toml"))
    problem = source.problem()
    rows = tuple(
        Row(f"my {q.name}", q.name, (), q.at_least, q.at_most) for q in problem.quotas if q.name != "s1"
    )
    rows += (Row("s1", "s1"),)  # with no bound any more
    free = [quota for quota in problem.quotas if quota.name != "s1"]
    expected = fm.solve(fm.Problem(problem.mdp, free))
    found = ask("solve", source, rows=rows)
    assert found["gain"] == pytest.approx(expected.gain, abs=1e-9)
    shown = {row["name"]: row["share"] for row in found["quotas"]}
    assert shown["my chores"] == pytest.approx(expected.quotas[0].share, abs=1e-9)
    assert shown["my part"] == pytest.approx(expected.quotas[2].share, abs=1e-9)


@pytest.mark.parametrize(
    "rows, said",
    [
        ((Row("a", "nobody"),), "there is no quota called 'nobody'; there are s0, s1, s2"),
        ((Row("a", None, (7,), 0.1),), "quota a: there is no state 7"),
        ((Row("a", None, (), 0.1),), "quota a: there are no states in it"),
        ((Row("a", None, (0,), 0.1), Row("a", None, (1,), 0.1)), "a"),
        ((Row("a", None, (0,), 1.5),), "quota a"),
    ],
)
def test_quotas_of_the_page_that_make_no_sense_are_named(rows, said):
    with pytest.raises(RefusedError, match=said):
        ask("open", rows=rows)


def test_new_quotas_that_no_command_can_name_are_exported():
    names = ["a=b", "x;y", "p,q"]
    mdp = fm.MDP([[0.2, 0.5, 0.3]] * 3, [1.0, 0.0, 2.0], [0, 1, 2], states=names)
    asked = fm.Problem(mdp)

    def command(*rows):
        problem = fm.Problem(mdp, [fm.Quota(r.name, states=r.states, at_least=r.at_least) for r in rows])
        return solve_command(Source("x"), asked, problem, rows)

    assert shlex.split(command(Row("g", None, (0,), 0.1)))[2:] == ["x", "--group=g=a=b", "--quota=g>=0.1"]
    assert "--group=g=p,q;" in shlex.split(command(Row("g", None, (2,), 0.1)))
    for row in (Row("g", None, (1,), 0.1), Row("g=h", None, (0,), 0.1)):
        assert "export the problem" in command(row)


def test_states_are_found_by_name_label_and_formula(tmp_path):
    assert ask("states", text="S1") == {"count": 1, "states": [1], "names": ["s1"]}
    assert ask("states", text='!"s1"')["states"] == [0, 2]
    assert ask("states", text="")["count"] == 3 and ask("states", text="elsewhere")["count"] == 0
    many = ask("states", Source("garnet", ("n_states=500",)), text="")
    assert many["count"] == len(many["states"]) == 500 and len(many["names"]) == tasks.MOST_NAMES
    with pytest.raises(RefusedError, match="there is no label or variable called 'x'"):
        ask("states", text="x & s1")


def test_a_policy_is_judged_under_the_bounds_of_the_page(tmp_path):
    problem = fm.scenarios.three_state(rho=[0.1, 0.1, 0.3])
    fm.Policy.of(problem, fm.solve(problem.without_quotas())).save(tmp_path / "today.csv")
    seen = ask("audit", policy=str(tmp_path / "today.csv"), at_least=(0.1, 0.1, 0.3))
    expected = fm.evaluate(problem, tmp_path / "today.csv")
    assert seen["verdict"] == "not fair" and seen["gain"] == pytest.approx(expected.gain)
    assert seen["quotas"][2]["short"] == pytest.approx(expected.findings[2].short)
    assert ask("audit", policy=str(tmp_path / "today.csv"), at_least=(0.1, 0.1, 0.0))["verdict"] == "fair"
    (tmp_path / "bad.csv").write_text("state,action,probability\ns9,a0,1\n")
    with pytest.raises(RefusedError, match=r"^bad\.csv: "):
        ask("audit", policy=str(tmp_path / "bad.csv"))


def test_ranges_are_the_last_feasible_values_of_the_others():
    ranges = ask("ranges", at_least=(0.1, 0.2, 0.25))["ranges"]
    for k, at_least in enumerate(([0, 0.2, 0.25], [0.1, 0, 0.25], [0.1, 0.2, 0])):
        curve = fm.frontier(fm.scenarios.three_state(rho=at_least), f"s{k}")
        assert ranges[k]["most"] == pytest.approx(curve.last_feasible) and ranges[k]["least"] is None


def test_caps_have_a_range_from_below():
    source = Source("three-state", (), None, ("s0<=0.4",))
    capped = ask("ranges", source)["ranges"][0]
    smallest = fm.frontier(fm.scenarios.three_state(rho=[0, 0.1, 0.25]), "s1")
    assert capped["k"] == 0 and capped["least"] < 0.4 < capped["most"]
    assert smallest.last_feasible + capped["least"] < 1


def test_others_that_cannot_be_met_leave_no_range():
    assert ask("ranges", at_least=(0.1, 0.1, 0.5))["ranges"][0]["most"] is None
    assert {row["most"] for row in ask("ranges", at_least=(0.6, 0.6, 0.6))["ranges"]} == {None}


def test_with_many_quotas_only_the_moving_one_has_a_range():
    source = Source("garnet", ("n_states=60", "n_quotas=20"))
    (only,) = ask("ranges", source, quota="g7")["ranges"]
    assert only["k"] == 7


def test_owing_more_than_all_time_offers_what_can_be_met():
    document = ask("solve", at_least=(0.6, 0.6, 0.5))
    why = document["infeasible"]
    assert document["status"] == "infeasible" and sum(why["at_least"]) <= 1
    assert why["headline"] == "s2 is owed 0.5000, and no policy spends more than 0.4737 there"
    assert why["lines"][0] == "together the quotas owe 1.7 of the time, more than there is"
    assert fm.solve(fm.scenarios.three_state(rho=why["at_least"])).status is fm.Status.OPTIMAL
    far = ask("solve", at_least=(0.9, 0.9, 0.0))["infeasible"]
    assert fm.solve(fm.scenarios.three_state(rho=far["at_least"])).status is fm.Status.OPTIMAL


@pytest.mark.parametrize("task", ["solve", "proof", "ranges", "frontier", "export"])
@pytest.mark.parametrize(
    "sent, bounds",
    [({"at_most": (1.0, 1.0, 0.05)}, "s2 asks for at least 0.25 and at most 0.05"), ({"at_least": (0.5, 0.1, 0.1)}, "s0 asks for at least 0.5 and at most 0.4")],
)  # fmt: skip
def test_one_bound_that_crosses_the_other_of_the_problem_is_refused_as_it_was_sent(task, sent, bounds):
    source = Source("three-state", (), None, ("s0<=0.4",))
    with pytest.raises(RefusedError, match=f"quota {bounds}$"):
        ask(task, source, quota="s1", kind="solution.json", **sent)


def test_large_models_are_cut_to_what_can_be_seen():
    document = ask("solve", Source("garnet", ("n_states=300",)))
    (policy,) = document["policies"]
    solution = fm.solve(fm.scenarios.garnet(300))
    assert len(policy["states"]) == MOST_STATES and policy["of_states"] == 300 and document["graph"] is None
    seen = np.sort(np.argsort(-solution.visitation)[:MOST_STATES])
    assert policy["states"] == [str(s) for s in seen]
    first = solution.policy[5 * seen[0] : 5 * seen[0] + 5]
    assert policy["chances"][0] == first.tolist()


def test_ragged_actions_leave_holes():
    source = Source("jobs", ("queue=2", "capacity=1"))
    (policy,) = ask("solve", source)["policies"]
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


def test_larger_frontiers_are_looked_at_in_places():
    problem = fm.scenarios.three_state()
    curve = best_curve(problem, "s2", "at_least", tuning=Tuning(exact_pairs=0))
    exact = fm.frontier(problem, "s2")
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
    monkeypatch.setattr("fairmdp.views.html.MOST_ROWS", 20)
    monkeypatch.setattr("fairmdp.views.html.CURVE_PAIRS", 0)
    problem = fm.Problem(fm.scenarios.garnet(50, n_quotas=0).mdp, rho=np.linspace(0.001, 0.002, 50))
    solution = fm.solve(problem)
    html = report_html(problem, solution, "many")
    tight = sorted(solution.quotas, key=lambda row: row.slack)[:20]
    assert '"curves": []' in html
    assert html.count('"free_share"') == 20 and all(f'"name": "{row.name}", "share"' in html for row in tight)


CHORES = {"s0": -2.0, "s2": 6.0}  # the mean lies in [-2, 6]


@pytest.fixture
def chores(tmp_path):
    """Three states of which one quota has weights and both bounds, as a file and as a problem."""
    three = fm.scenarios.three_state()
    weighted = fm.Quota("chores", weights=CHORES, at_least=0.5, at_most=4.0)
    fm.save(fm.Problem(three.mdp, [weighted, *three.quotas]), tmp_path / "chores.toml")
    return Source(str(tmp_path / "chores.toml")), fm.load(tmp_path / "chores.toml")


def test_weights_are_shown_in_their_own_units(chores):
    source, problem = chores
    opened = ask("open", source)
    first, second = opened["problem"]["quotas"][:2]
    assert first["unit"] == [-2.0, 6.0] and (first["at_least"], first["at_most"]) == (0.5, 4.0)
    assert first["counts"] == "mean of weights from -2 to 6" and second["unit"] is None
    loose = fm.Problem(problem.mdp, [fm.Quota("chores", weights=CHORES, at_least=-2), *problem.quotas[1:]])
    most, least = fm.frontier(loose, "chores"), fm.frontier(loose, "chores", bound="at_most")
    assert opened["ranges"][0]["most"] == pytest.approx(most.last_feasible)
    assert opened["ranges"][0]["least"] == pytest.approx(least.last_feasible)
    moved = {"at_least": (1.3, 0.1, 0.1, 0.25), "at_most": (3.7, 1.0, 1.0, 1.0)}
    document = ask("solve", source, **moved)
    there = problem.with_stated_bounds(moved["at_least"], moved["at_most"])
    solution, free = fm.solve(there), fm.solve(there.without_quotas())
    row = document["quotas"][0]
    assert document["gain"] == solution.gain and row["share"] == solution.quotas[0].share
    assert (row["at_least"], row["at_most"], row["price"]) == (1.3, 3.7, solution.quotas[0].price)
    assert row["state"] == "binding" and row["free_share"] == pytest.approx(
        np.array([-2.0, 0.0, 6.0]) @ free.visitation
    )
    with_quotas, without = document["compare"]
    assert with_quotas["least_name"] == "s2" and "chores" in without["broken"]
    again = read_again(document["command"])
    assert again.digest == there.digest and again.lower[0] == 1.3 and again.upper[0] == 3.7
    content = base64.b64decode(ask("export", source, kind="quotas.csv", **moved)["content"]).decode()
    assert content.splitlines()[1].split(",")[2:4] == ["1.3", "3.7"]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("bound, first", [("at_least", -2.0), ("at_most", 6.0)])
def test_the_frontier_of_weights_is_in_their_units(chores, monkeypatch, exact, bound, first):
    tuning = Tuning(exact_pairs=1000 * exact)
    monkeypatch.setattr("fairmdp.web.tasks.best_curve", partial(best_curve, tuning=tuning))
    source, problem = chores
    idle = {bound: (first, *(0.1, 0.1, 0.25)) if bound == "at_least" else (first, 1.0, 1.0, 1.0)}
    curve = ask("frontier", source, quota="chores", bound=bound, **idle)["curve"]
    true = fm.frontier(problem, "chores", bound=bound)
    assert curve["exact"] is exact and curve["unit"] == [-2.0, 6.0] and curve["bound"] == bound
    assert curve["values"][0] == first and curve["last_feasible"] == pytest.approx(true.last_feasible)
    gains = [true.gain_at(value) for value in curve["values"][:-1]]
    assert curve["gains"][:-1] == pytest.approx(gains, abs=1e-8)
    if exact:
        assert curve["slopes"] == true.slopes.tolist()


def test_weights_that_cannot_be_met_name_the_nearest_mean(chores):
    source, problem = chores
    bounds = {"at_least": (5.5, 0.1, 0.1, 0.25), "at_most": (6.0, 1.0, 1.0, 1.0)}
    why = ask("solve", source, **bounds)["infeasible"]
    assert why["headline"].startswith("chores is to be 5.5 at least, and no policy has more than")
    nearest = problem.with_stated_bounds(why["at_least"], why["at_most"])
    assert why["at_least"][0] < 3 and fm.solve(nearest).status is fm.Status.OPTIMAL
    owed = {"at_least": (0.5, 0.6, 0.6, 0.25), "at_most": (4.0, 1.0, 1.0, 1.0)}
    why = ask("solve", source, **owed)["infeasible"]
    assert "owe 1.45 of the time" in why["lines"][0] and "chores" not in why["conflict"]
    nearest = problem.with_stated_bounds(why["at_least"], why["at_most"])
    assert fm.solve(nearest).status is fm.Status.OPTIMAL


@pytest.mark.parametrize("at_least, said", [((6.5, 0, 0, 0), "6.5, its scale is -2 to 6"), ((0, 2, 0, 0), "2, its scale is 0 to 1")])  # fmt: skip
def test_bounds_off_their_scale_are_refused(chores, at_least, said):
    with pytest.raises(RefusedError, match=said):
        ask("solve", chores[0], at_least=at_least)


def test_weights_alone_make_no_groups(tmp_path):
    mdp = fm.scenarios.three_state().mdp
    problem = fm.Problem(mdp, [fm.Quota("balance", weights={"s0": 1.0, "s1": -1.0}, at_least=0.2)])
    fm.save(problem, tmp_path / "weighted.npz")
    document = ask("solve", Source(str(tmp_path / "weighted.npz")))
    assert document["status"] == "optimal" and "least" not in document["compare"][0]
    assert document["compare"][1]["broken"] == ["balance"]
    html = report_html(problem, fm.solve(problem), "weighted")
    assert '"unit": [-1.0, 1.0]' in html and '"bound": "at_least"' in html
    assert "&gt;= 0.2" in problem._repr_html_() and "balance" in fm.solve(problem)._repr_html_()


def test_a_bound_that_was_taken_back_is_on_the_command_line():
    source = Source("three-state", (), None, ("s0<=0.35", "s0>=0.2"))
    asked = source.problem()
    for at_least, at_most in (((0.2, 0.1, 0.25), (1, 1, 1)), ((0.0, 0.1, 0.25), (0.35, 1, 1))):
        problem = asked.with_bounds(at_least, at_most)
        assert read_again(solve_command(source, asked, problem)).digest == problem.digest


def test_the_frontier_of_a_cap_moves_the_cap():
    source = Source("three-state", (), None, ("s0<=0.35",))
    bounds = {"at_least": (0.0, 0.1, 0.25), "at_most": (1.0, 1.0, 1.0)}
    curve = ask("frontier", source, quota="s0", bound="at_most", **bounds)["curve"]
    problem = source.problem()
    free = problem.with_bounds(bounds["at_least"])
    assert curve["values"] == fm.frontier(free, "s0", bound="at_most").values.tolist()
    assert curve["own_limit"] is False and curve["limit"] == pytest.approx(curve["last_feasible"])
    own = ask("frontier", source, quota="s0", bound="at_most", at_least=(0.3, 0.1, 0.25))["curve"]
    assert own["own_limit"] is True and own["last_feasible"] == pytest.approx(0.3)


def test_reports_draw_the_bound_that_costs():
    problem = fm.scenarios.three_state().with_quotas([fm.Quota("s0", states=["s0"], at_most=0.35)])
    html = report_html(problem, fm.solve(problem), "capped")
    assert '"quota": "s0", "bound": "at_most"' in html


def test_exports_hold_what_is_shown(monkeypatch):
    """Where several policies are best, the file is of the one in the picture: nothing is solved again for it."""
    problems, at_least = OpenProblems(), (0.1, 0.1, 0.25)
    shown = problems.answer(Request("solve", Source("three-state"), at_least), print)
    monkeypatch.setattr(tasks.WarmSolver, "solve", None)
    sent = problems.answer(Request("export", Source("three-state"), at_least, kind="solution.json"), print)
    assert json.loads(base64.b64decode(sent["content"]))["gain"] == shown["gain"]
    assert problems.answer(Request("proof", Source("three-state"), at_least), print)["ok"]
    with pytest.raises(TypeError):  # other bounds are another question
        problems.answer(Request("proof", Source("three-state"), (0.1, 0.1, 0.2)), print)


def test_the_proof_of_what_is_shown_calls_no_solver(monkeypatch):
    """And the page says so: numbers are derived anew, by code that the solvers use as well."""
    page, request = OpenProblems(), Request("solve", Source("three-state"))
    page.answer(request, print)
    monkeypatch.setattr(tasks, "solve", None)
    monkeypatch.setattr(tasks.WarmSolver, "solve", None)
    assert page.answer(replace(request, task="proof"), print)["ok"]
    words = static_files()["app.js"].decode()
    assert "the check calls no solver" in words and "shares nothing" not in words


def test_owing_more_than_all_time_proposes_nothing_that_is_not_proved(tmp_path):
    """Half of the time is on the left whatever one does, so no shares of left and right but these are met."""
    P = [[0, 0.5, 0.5], [0, 1, 0], [0, 0, 1]]
    owed = [fm.Quota("left", [1], at_least=0.3), fm.Quota("right", [2], at_least=0.3)]
    problem = fm.Problem(fm.MDP(P, [0.0, 1, 0], range(3), initial=[1, 0, 0]), owed)
    fm.io.save(problem, tmp_path / "coin.toml")
    request = Request("solve", Source(str(tmp_path / "coin.toml")), at_least=(0.9, 0.9))
    why = OpenProblems().answer(request, print)["infeasible"]
    assert why["nearest"] == []
