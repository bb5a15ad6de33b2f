"""Reports, as a command writes them and as a browser shows them from a file; what notebooks show."""

import re

import pytest
from browser import Figure, Watch, assert_accessible, browser
from test_ends_shown import fork

import fairmdp as fm
import fairmdp.views.notebook  # shows results as tables
from fairmdp.views.sentences import method_text

__all__ = ["browser"]  # a fixture

pytestmark = pytest.mark.browser

EVIL = "</script><script>alert(1)</script>"
READ = 1e-5  # how closely a figure can be read
SLOT = "{script}{document}"


@pytest.fixture
def opened(browser):
    """Open a report from its file, offline; afterwards it must not have asked for anything else."""
    pages = []

    def call(path, **options):
        context = browser.new_context(offline=True, viewport={"width": 1000, "height": 800}, **options)
        page = context.new_page()
        pages.append((context, Watch(page), path.as_uri()))
        page.goto(path.as_uri())
        page.locator("#gain").wait_for()
        return page

    yield call
    for context, watch, address in pages:
        context.close()
        assert watch.requests == [address] and watch.complaints == []


def test_a_report_shows_the_solution_from_its_file_alone(run, opened, tmp_path):
    assert run("solve", "three-state", "--rho", "0.1,0.1,0.3", "-o", "a.json")[0] == 0
    words = ["--author", "A. Planner", "--date", "2026-11-19", "--unit-reward", "EUR", "--unit-time", "hour"]
    code, out, _ = run("report", "three-state", "--rho", "0.1,0.1,0.3", "a.json", "-o", "a.html", *words)
    assert code == 0 and "wrote a.html" in out
    assert (tmp_path / "a.html").stat().st_size < 1e5
    problem = fm.scenarios.three_state(rho=[0.1, 0.1, 0.3])
    solution = fm.Solution.load("a.json")
    page = opened(tmp_path / "a.html", color_scheme="dark")
    page.locator("#frontier .x-title").wait_for()
    assert page.locator("#title").text_content() == "three-state"
    assert page.locator("#gain").text_content() == f"{solution.gain:.6f}"
    assert page.locator("#slack").text_content() == "0"
    assert page.locator("#byline").text_content() == "A. Planner, 2026-11-19"
    lead = page.locator("#briefing").text_content()
    assert "guarantees s2 at least 30 % of the time" in lead and "EUR per hour" in lead
    assert Figure(page, "shares").x("bar", "end") == pytest.approx(solution.shares.tolist(), abs=READ)
    frontier = Figure(page, "frontier")
    assert frontier.y("breakpoint") == pytest.approx(fm.frontier(problem, "s2").gains.tolist(), abs=READ)
    assert (*frontier.x("here"), *frontier.y("here")) == pytest.approx((0.3, solution.gain), abs=READ)
    text = page.locator("main").text_content()
    assert "confirmed from the data alone" in text and "rational numbers" in text
    assert problem.digest in text and fm.__version__ in text and method_text(solution) in text
    assert_accessible(page)
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_report_holds_its_own_policy_and_no_foreign_address(run, tmp_path):
    run("solve", "three-state", "-o", "a.json")
    assert run("report", "three-state", "a.json")[0] == 0
    html = (tmp_path / "a.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy
    assert not re.search(r'<(link|img|iframe|object)|(src|href)="', html)


def test_names_stay_text_whatever_they_hold(run, opened, tmp_path):
    mdp = fm.MDP([[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]], [1.0, 3.0, 0.0], [0, 0, 1], states=[EVIL, SLOT])
    problem = fm.Problem(
        mdp, [fm.Quota(EVIL, states=[1], at_least=0.5), fm.Quota(SLOT, states=[0], at_least=0.1)]
    )
    fm.save(problem, "evil.npz")
    fm.solve(problem).save("evil.json")
    assert run("report", "evil.npz", "evil.json", "--frontier", SLOT, "--frontier", EVIL)[0] == 0
    page = opened(tmp_path / "evil.html")
    assert page.locator("#prices tbody th").all_text_contents() == [EVIL, SLOT]
    page.get_by_label("Quota that moves along the curve").select_option(EVIL)
    assert page.locator("#frontier .x-title").text_content() == f"share owed to {EVIL[:15]}\u2026{EVIL[-14:]}"
    assert page.locator("main script").count() == 0


def test_a_report_shows_weights_in_their_units_and_the_curve_of_a_cap(run, opened, tmp_path):
    three = fm.scenarios.three_state()
    weighted = fm.Quota("chores", weights={"s0": -2.0, "s2": 6.0}, at_least=1.2)
    problem = fm.Problem(three.mdp, [weighted, fm.Quota("s0", states=["s0"], at_most=0.34)])
    fm.save(problem, "a.toml")
    solution = fm.solve(problem)
    solution.save("a.json")
    assert run("report", "a.toml", "a.json", "--frontier", "chores", "--frontier", "s0")[0] == 0
    page = opened(tmp_path / "a.html")
    page.locator("#frontier .x-title").wait_for()
    shown = [solution.shares[1], solution.quotas[0].share]  # shares of time come first
    assert Figure(page, "shares").x("bar", "end") == pytest.approx(shown, abs=READ)
    for choice, bound, here in (("chores", "at_least", 1.2), ("s0, at most", "at_most", 0.34)):
        page.get_by_label("Quota that moves along the curve").select_option(choice)
        drawn, exact = Figure(page, "frontier"), fm.frontier(problem, choice.split(",")[0], bound=bound)
        assert drawn.x("breakpoint") == pytest.approx(exact.values.tolist(), abs=READ)
        assert drawn.y("breakpoint") == pytest.approx(exact.gains.tolist(), abs=READ)
        assert (*drawn.x("here"), *drawn.y("here")) == pytest.approx((here, solution.gain), abs=READ)
    assert "\u2265 1.2" in page.locator("#prices tbody tr").first.text_content()
    assert_accessible(page)


def test_infeasible_solutions_have_a_report_too(run, opened, tmp_path):
    assert run("solve", "three-state", "--rho", "0.1,0.1,0.5", "-o", "a.json")[0] == 3
    assert run("report", "three-state", "--rho", "0.1,0.1,0.5", "a.json")[0] == 0
    page = opened(tmp_path / "a.html")
    assert "s2 is owed 0.5000" in page.locator("#conflict").text_content()
    assert "s2>=0.47368421" in page.locator("#conflict").text_content()
    assert page.locator("#shares").is_hidden() and page.locator("#frontier").is_hidden()


def test_a_report_tells_where_runs_end_and_has_every_policy_of_a_mixture(run, opened, tmp_path):
    fm.save(fork(expected=True), "fork.toml")
    run("solve", "fork.toml", "-o", "a.json")
    assert run("report", "fork.toml", "a.json")[0] == 0
    page = opened(tmp_path / "a.html")
    ends = page.locator("#ends tbody tr")
    assert [row.replace("\u202f", " ") for row in ends.locator("td:nth-child(2)").all_inner_texts()] == [
        "60.0 %", "40.0 %",
    ]  # fmt: skip
    assert ends.locator("th").all_inner_texts() == ["{right}", "{left, pause}"]
    assert "left side 0.00\u202f% \u2717" in ends.first.inner_text()
    cells = page.locator("#policy .mark")
    for choice, taken in ((0, "start: go right 100.00"), (1, "start: go left 100.00")):
        page.locator("#policy select").select_option(index=choice)
        assert any(taken in (label or "") for label in [c.get_attribute("aria-label") for c in cells.all()])


def test_a_solution_of_another_problem_gets_no_report(run, tmp_path):
    run("solve", "three-state", "-o", "a.json")
    (tmp_path / "a.html").write_text("what was there")
    code, _, err = run("report", "three-state", "--quota", "s2>=0.3", "a.json")
    assert code == 1 and "a solution of another problem" in err and "as you did when it was solved" in err
    assert (tmp_path / "a.html").read_text() == "what was there"
    code, _, err = run("report", "three-state", "a.json", "--frontier", "s9")
    assert code == 1 and "no quota called 's9'" in err


def test_a_false_claim_is_shown_as_such(run, opened, tmp_path):
    run("solve", "three-state", "-o", "a.json")
    text = (tmp_path / "a.json").read_text()
    text = re.sub(
        r'^"gap": [^,]*,\n', "", text, flags=re.M
    )  # it would not follow from the file's other fields
    (tmp_path / "a.json").write_text(re.sub(r'^"gain": [^,]*', '"gain": 0.6', text, flags=re.M))
    assert run("report", "three-state", "a.json")[0] == 0
    text = opened(tmp_path / "a.html").locator("#certificate").text_content()
    assert "NOT confirmed" in text and "the gain 0.6 is not the policy's" in text


def test_notebooks_show_tables_with_names_as_text():
    mdp = fm.MDP([[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]], [1.0, 3.0, 0.0], [0, 0, 1])
    problem = fm.Problem(mdp, [fm.Quota(EVIL, states=[1], at_least=0.5)])
    solution, curve = fm.solve(problem), fm.frontier(problem, EVIL)
    for shown in (problem._repr_html_(), solution._repr_html_(), curve._repr_html_()):
        assert "<script" not in shown and "&lt;/script&gt;&lt;script&gt;alert(1)" in shown
    assert "Gain 0.928571, at most 0.928571; worst slack 0" in solution._repr_html_()
    assert "<td>0.5000</td><td>&gt;= 0.5</td><td>0</td>" in solution._repr_html_()
    assert f"<td>{curve.gains[0]:.6f}</td>" in curve._repr_html_() and "<polyline" in curve._repr_html_()
    infeasible = fm.solve(problem.with_bounds([0.99]))._repr_html_()
    assert "infeasible: no policy meets the quotas" in infeasible and "nan" not in infeasible


def test_notebooks_cut_long_tables():
    problem = fm.Problem(fm.scenarios.garnet(50).mdp, rho=[0.001] * 50)
    assert problem._repr_html_().count("<tr>") == 21 and "... and 30 more" in problem._repr_html_()
    assert fm.solve(problem)._repr_html_().count("<tr>") == 21
