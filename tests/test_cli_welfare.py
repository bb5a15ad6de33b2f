"""Principles of fairness on the command line: screens, files, exit codes."""

import json

import numpy as np
import pytest

import fairmdp as fm
from fairmdp.model.objective_text import objective_text

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
        (("--by", "atkinson=x"), "'x' are no numbers"),
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
