"""The registry of methods, and everything that reads it."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fairmdp import Problem, ProblemError, Quota, Status, scenarios, solve
from fairmdp.backends.opening import open_backend
from fairmdp.certificate.claim import certify_policy
from fairmdp.chains.policy import uniform_policy
from fairmdp.cli import cli
from fairmdp.solvers import auto
from fairmdp.solvers.registry import METHODS, REASONS, Method
from fairmdp.views.sentences import method_text

PAGE = (Path(__file__).parents[1] / "docs" / "solvers.md").read_text()


def test_the_page_lists_what_there_is():
    rows = [
        f"| `{name}` | {method.summary} | {method.suits} | {', '.join(method.devices)} |"
        for name, method in METHODS.items()
    ]
    assert re.search(r"(\| `\w+` \|.*\n)+\n## What each method needs", PAGE)[0].splitlines()[:-2] == rows


def test_the_help_lists_what_there_is():
    said = " ".join(CliRunner().invoke(cli, ["solve", "--help"]).output.split())
    assert f"Solver: auto, {', '.join(METHODS)}." in said
    assert "cuda: the first GPU, by dual, proximal, colgen." in said


@pytest.mark.parametrize("name", METHODS)
def test_every_method_answers_by_its_bare_name(name):
    problem = scenarios.three_state(rho=[0.1, 0.1, 0.1])
    solution = solve(problem, method=name)
    assert (solution.method, solution.tried, solution.reason) == (name, (), "")
    assert method_text(solution).startswith(f"{name}: {METHODS[name].summary}")


def test_what_a_method_does_not_take_is_said():
    mdp = scenarios.three_state().mdp
    crossing = Problem(mdp, [Quota("a", states=[0, 1], at_least=0.1), Quota("b", states=[1], at_least=0.1)])
    assert METHODS["proximal"].obstacle(open_backend(crossing)) == "quotas a and b overlap"
    assert all(
        METHODS[name].obstacle(open_backend(crossing)) is None for name in METHODS if name != "proximal"
    )


def test_reasons_are_sentences():
    assert all(reason.startswith("chosen because") for reason in REASONS.values())
    problem = scenarios.garnet(n_states=600, n_quotas=2)
    assert auto.choose(open_backend(problem))[1] in REASONS


def test_a_method_is_added_by_one_entry(monkeypatch):
    """The smallest honest solver is offered by `solve` and by the command line."""

    def run(backend, request):
        problem = backend.host
        nothing = np.zeros(problem.mdp.n_states), np.zeros(problem.n_quotas)
        how = dict(tol=request.tol, method="uniform", counters={})
        return certify_policy(problem, uniform_policy(problem.mdp), *nothing, **how)

    monkeypatch.setitem(METHODS, "uniform", Method("every action alike", "nothing", run))
    problem = scenarios.three_state()
    assert solve(problem, method="uniform").status is Status.FEASIBLE
    asked = CliRunner().invoke(cli, ["solve", "three-state", "--method", "uniform"])
    assert "uniform: every action alike" in asked.output and asked.exit_code == 4
    with pytest.raises(ProblemError, match=r"there are auto, lp, .* and \d more"):
        solve(problem, method="magic")
