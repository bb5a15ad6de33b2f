"""What a notebook shows of results: only where there is one, and nothing that a name could smuggle in."""

import re
import subprocess
import sys

import pytest

import fairmdp as fm
from fairmdp.views import notebook

THREE = fm.scenarios.three_state()


@pytest.mark.parametrize(("running", "shown"), [("IPython", True), ("marimo", True), ("nothing", False)])
def test_results_show_themselves_where_a_notebook_runs(running, shown):
    script = (
        f"import sys, types; sys.modules[{running!r}] = types.ModuleType({running!r})\n"
        "import fairmdp as fm\n"
        "kinds = fm.MDP, fm.Problem, fm.Solution, fm.Policy, fm.Frontier, fm.Verdict, fm.Evaluation, fm.Estimate\n"
        f"sys.exit(any(hasattr(kind, '_repr_html_') is not {shown} for kind in kinds))"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_outside_of_notebooks_nothing_is_loaded_for_them():
    script = "import sys, fairmdp; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_tables_of_verdicts_grids_and_comparisons():
    verdict = fm.verify(THREE, fm.solve(fm.scenarios.three_state([0.1, 0.1, 0.2])))
    shown = notebook.verdict_html(verdict)
    assert "NOT CONFIRMED" in shown and "a solution of another problem" in shown
    grid = notebook.grid_html(fm.frontier_grid(THREE, "s1", "s2", [0.1], [0.1, 0.46]))
    assert "0.521579" in grid and "rows" in grid
    assert "max-min" in notebook.comparison_html(fm.compare(THREE))


def test_a_frontier_that_nobody_can_meet_is_a_table_without_a_picture():
    shown = notebook.frontier_html(fm.frontier(THREE, "s2", [0.6]))
    assert "<polyline" not in shown and "<td>0.600000</td><td>-</td>" in shown


def test_names_are_escaped():
    mdp = fm.MDP([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0], [0, 1], states=["<b>", "&"])
    problem = fm.Problem(mdp, rho=[0.1, 0.1])
    solution = fm.solve(problem)
    for shown in (
        notebook.problem_html(problem),
        notebook.solution_html(solution),
        notebook.comparison_html(fm.compare(problem)),
    ):
        assert "<b>" not in shown and "&lt;b&gt;" in shown


def test_results_with_tables_show_them():
    solution = fm.solve(THREE)
    for result, shown in (
        (fm.Policy.of(THREE, solution), "<td>s1</td><td>a1</td>"),
        (solution.to_table(), "<th>at least</th>"),
        (fm.evaluate(THREE, solution), "Evaluation(fair"),
        (fm.simulate(THREE.mdp, solution, steps=10, runs=2, quotas=THREE.quotas), "<th>share se</th>"),
    ):
        assert shown in notebook.tabled_html(result)
    assert "<td>s1</td><td>a0, a1</td>" in notebook.model_html(THREE.mdp)
    learned = fm.learn(THREE.mdp.simulator(), THREE.quotas, samples=600)
    assert f"<p>{learned.claim}" in notebook.estimate_html(learned)
    assert "<th>marginal</th>" in notebook.welfare_html(fm.solve_welfare(THREE, fm.alpha_fair(1)))


def test_the_picture_of_a_frontier_has_axes():
    curve = fm.frontier(THREE, "s2")
    picture = notebook.frontier_html(curve)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    assert texts == ["0", "owed: s2", "0.4737", "0.5263", "gain", "0.1"]
    assert "at most: s2" in notebook.frontier_html(fm.frontier(THREE, "s2", [0.4, 0.3], bound="at_most"))
