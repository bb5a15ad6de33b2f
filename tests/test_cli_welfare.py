"""Principles of fairness on the command line: screens, files, exit codes."""

import json

import numpy as np
import pytest

import fairmdp as fm
from fairmdp.model.objectives import objective_text

THREE, JOBS = fm.scenarios.three_state(), fm.scenarios.jobs()


def test_welfare_shows_proof_and_what_everybody_gets(run):
    code, out, err = run("welfare", "jobs", "--by", "nash", "--names-only")
    assert code == 0 and err == ""
    assert "welfare -0.985492   optimal: no policy that meets the quotas has more than -0.985492" in out
    assert "nothing owed" in out and "client1   0.2882   1.735" in out
    code, out, _ = run("welfare", "jobs", "--by", "gini=2,1", "--gain", "0.5")
    assert code == 0 and "gini=2,1 + 0.5 gain" in out and "worst slack +0.056" in out


def test_leximin_shows_its_levels(run):
    code, out, _ = run("welfare", "taxi", "--by", "leximin", "--names-only")
    assert code == 0 and "  least   0.245098" in out
    assert "level   at most    held down by" in out


def test_an_answer_is_kept_and_verified(run):
    code, out, _ = run(
        "welfare", "jobs", "--names-only", "--by", "alpha=2", "-o", "fair.json", "--policy", "p.csv"
    )
    assert code == 0 and "fairmdp verify jobs fair.json --names-only" in out and "saved   p.csv" in out
    code, out, _ = run("verify", "jobs", "fair.json", "--names-only", "--exact")
    assert code == 0 and "confirmed in rational arithmetic" in out and "no policy has more welfare" in out
    code, out, _ = run("verify", "jobs", "fair.json", "--names-only", "--json")
    assert code == 0 and json.loads(out)["status"] == "optimal"
    code, out, _ = run("verify", "jobs", "fair.json")
    assert code == 1 and "NOT CONFIRMED" in out and "another problem" in out
    code, out, _ = run("audit", "jobs", "p.csv")
    assert code == 0 and "p.csv is fair" in out


def test_a_forged_answer_is_not_confirmed(run):
    code, out, _ = run("welfare", "three-state", "--by", "nash", "--json")
    raw = json.loads(out)
    assert code == 0 and raw["objective"]["kind"] == "alpha-fair"
    with open("forged.json", "w") as file:
        json.dump(raw | {"welfare_upper": raw["welfare"] - 1e-3}, file)
    code, out, _ = run("verify", "three-state", "forged.json")
    assert code == 1 and "the upper bound" in out


def test_infeasible_is_an_answer_with_its_reason(run):
    code, out, _ = run("welfare", "three-state", "--rho", "0.1,0.1,0.6", "--by", "gini")
    assert code == 3 and "s2 is owed 0.6000" in out
    fm.save(_unreachable(), "c.toml")
    code, out, _ = run("welfare", "c.toml", "--by", "nash", "-o", "no.json")
    assert code == 3 and "no policy gives c more than" in out
    assert run("verify", "c.toml", "no.json", "--exact")[0] == 0


def _unreachable():
    mdp = fm.MDP([[0.5, 0.5, 0], [0.3, 0.7, 0], [0.1, 0.9, 0], [0.5, 0.5, 0]], [1.0, 2, 3, 1], [0, 0, 1, 2])
    return fm.Problem(mdp, [fm.Quota(name, states=[s], at_least=0.0) for s, name in enumerate("abc")])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--by", "nahs"), "no principle 'nahs'; did you mean 'nash'?"),
        (("--by", "alpha"), "no principle 'alpha'"),
        (("--by", "alpha=1,2"), "alpha takes one number, and there are 2"),
        (("--by", "gini=1,2"), "do not rise"),
        (("--by", "atkinson=x"), "'x' are no numbers, expected"),
        (("--over", "north"), "no quota called 'north'"),
        (("--by", "leximin", "--gain", "1"), "leximin takes no weight of the gain"),
    ],
)
def test_mistakes_are_named(run, words, complaint):
    code, _, err = run("welfare", "jobs", *words)
    assert code == 1 and complaint in err


def test_principles_are_read_and_said():
    for text in (
        "utilitarian",
        "nash",
        "alpha=2.5",
        "atkinson=0.5",
        "gini",
        "gini=4,2,1",
        "entropy",
        "max-min",
        "leximin",
    ):
        assert objective_text(fm.parse_objective(text)) == text
    assert objective_text(fm.alpha_fair(1, weights=[1, 2], reference=-1)) == "nash (weights 1, 2; above -1)"


def test_gain_decides_between_equal_utilities():
    """Of the two policies with even shares one earns nothing."""
    mdp = fm.MDP([[0, 1], [0, 1], [1, 0], [1, 0]], [0.0, 1.0, 2.0, 0.0], [0, 0, 1, 1])
    problem = fm.Problem(mdp, [fm.Utility(name, states=[s]) for s, name in enumerate("ab")])
    for principle in ("nash", "gini", "max-min", "leximin", "utilitarian"):
        fair = fm.solve_welfare(problem, fm.parse_objective(principle))
        assert fair.gain == pytest.approx(1.5) and fm.verify(problem, fair, exact=True).ok
        np.testing.assert_allclose(fair.utilities, 0.5)


def test_tangents_end_once_they_are_near_enough(monkeypatch):
    """Steep powers in a master once took tangents to the last bit: sixty linear programs for every policy."""
    runs, run = [], fm.welfare.program.Program.run
    monkeypatch.setattr(fm.welfare.program.Program, "run", lambda self: runs.append(1) or run(self))
    fair = fm.solve_welfare(THREE.with_sets_unbounded(), fm.atkinson(2), reward=1.0, tol=1e-7)
    assert fair.status == "optimal" and len(runs) < 30 * fair.counters["columns"]


def nurse():
    """A day reaches 10, 4 or 2 patients; of parts t of the days, u = (10, 4, 2) t."""
    mdp = fm.MDP([[1.0]] * 3, [1.0] * 3, [0] * 3, states=["day"], actions=["north", "middle", "south"])
    rows = {"north": [10.0, 0, 0], "middle": [0, 4.0, 0], "south": [0, 0, 2.0]}
    return fm.Problem(mdp, [fm.Utility(name, weights=each) for name, each in rows.items()])


def test_principles_side_by_side():
    """Closed forms: all for the north, a third each, one over the square root, all alike."""
    names = ["north", "middle", "south"]
    seen = fm.compare(
        nurse(), principles=["utilitarian", "nash", fm.alpha_fair(2), "gini", "max-min"], over=names
    )
    roots = np.sqrt([10, 4, 2])
    for label, utilities in (
        ("utilitarian", [10, 0, 0]),
        ("nash", [10 / 3, 4 / 3, 2 / 3]),
        ("alpha=2", roots / (1 / roots).sum()),
        ("gini", [20 / 7, 20 / 7, 0]),
        ("max-min", np.full(3, 1 / 0.85)),
    ):
        np.testing.assert_allclose(list(seen.policies[label].by_group.values()), utilities, atol=2e-3)
    assert seen.policies["max-min"].jain == pytest.approx(1) and seen.policies["nash"].gini == pytest.approx(
        1 / 3
    )
    free = seen.policies["no quotas"].by_group  # every policy earns the same here
    best = max(free, key=free.get)
    assert seen.pays("max-min") == {best: pytest.approx(free[best] - 1 / 0.85)}
    assert seen.to_table()["jain"][-1] == pytest.approx(1)


def test_compare_takes_principles(run):
    code, out, _ = run("compare", "jobs", "--by", "all")
    head = out.splitlines()[2].split()
    assert code == 0 and head == [
        "fair",
        "no",
        "quotas",
        "max-min",
        "uniform",
        "utilitarian",
        "nash",
        "alpha=2",
        "gini",
        "leximin",
    ]
    assert "pays most" in out and "Jain" in out
    code, out, _ = run("compare", "jobs", "--by", "nash", "--json")
    seen = json.loads(out)
    assert seen["nash"]["pays"]["client1"] == pytest.approx(0.4317 - 0.2882, abs=1e-4)
    assert seen["no quotas"]["pays"] == {}


def test_a_principle_that_no_policy_meets_is_left_out():
    seen = fm.compare(_unreachable(), principles=["nash", "gini"])
    assert "nash" not in seen.policies and "gini" in seen.policies
    assert seen.left_out == ("nash, because its best policy is not known: it is infeasible",)


def test_the_fair_point_moves_with_alpha_and_with_the_weight_of_the_gain():
    """Where a day is worth t^a of the k-th rate, alpha-fair parts are in proportion to rate^(1/alpha - 1)."""
    alphas, rates = [0.5, 1, 2, 8], np.array([10.0, 4.0, 2.0])
    path = fm.welfare_frontier(nurse(), "alpha", alphas, over=["north", "middle", "south"], tol=1e-9)
    for alpha, fair in zip(alphas, path.answers, strict=True):
        parts = rates ** (1 / alpha - 1)
        np.testing.assert_allclose(fair.utilities, rates * parts / parts.sum(), rtol=1e-3)
    free = JOBS.with_sets_unbounded()
    by_gain = fm.welfare_frontier(free, "gain", [0, 1, 1e4], objective=fm.gini())
    assert by_gain.answers[-1].gain == pytest.approx(fm.solve(free).gain, abs=1e-6)
    table = by_gain.to_table()
    assert (
        table["weight_of_gain"] == [0, 1, 1e4]
        and len(table["gain"]) == 3
        and table["gain"][1] > table["gain"][0]
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fm.welfare_frontier(JOBS, "beta"), "along is 'beta', expected alpha or gain"),
        (lambda: fm.welfare_frontier(JOBS, objective=fm.gini()), "alpha_fair or atkinson to follow"),
        (lambda: fm.welfare_frontier(JOBS, values=[-1]), "expected numbers of 0 or more"),
        (lambda: fm.compare(nurse()), "there are no groups to compare"),
    ],
)
def test_paths_that_make_no_sense_are_refused(call, words):
    with pytest.raises(fm.ProblemError, match=words):
        call()


def test_the_path_on_the_command_line(run):
    code, out, _ = run(
        "welfare", "jobs", "--names-only", "--along", "alpha", "--values", "0:2:3", "--csv", "path.csv"
    )
    assert code == 0 and "  1       0.660682   -             -0.985492" in out
    with open("path.csv") as file:
        assert file.readline() == "alpha,status,gain,worst_slack,welfare,upper,client1,client2\n"
    code, out, _ = run("welfare", "jobs", "--along", "gain", "--values", "0,1", "--by", "gini", "--json")
    assert code == 0 and json.loads(out)["points"]["worst_slack"][1] == pytest.approx(0.0442, abs=1e-4)
    assert run("welfare", "jobs", "--values", "0,1")[0] == 2
    assert run("welfare", "jobs", "--along", "alpha", "-o", "x.json")[0] == 2
    fm.save(_unreachable(), "c.toml")
    code, out, _ = run("welfare", "c.toml", "--along", "alpha", "--values", "0,1")
    assert code == 0 and "1       infeasible" in out
