"""The page as a person uses it, in a real browser."""

import json
import re
import shlex
import sys

import numpy as np
import pytest
from browser import Figure, Watch, assert_accessible, browser
from PIL import Image
from web_server import served

import fairmdp as fm
import fairmdp.cli

__all__ = ["browser"]  # a fixture

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)>"
READ = 1e-5  # how closely a figure can be read


@pytest.fixture(scope="module")
def server():
    with served("three-state") as server:
        yield server


@pytest.fixture
def open_page(browser, server):
    """Open the page in a context of its own; afterwards it must have asked for nothing elsewhere."""
    opened = []

    def call(address=None, **options):
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        page = context.new_page()
        opened.append((context, Watch(page)))
        page.goto(address or server.address)
        page.locator("#frontier .x-title").wait_for()
        return page

    yield call
    for context, watch in opened:
        context.close()
        assert watch.requests and watch.strangers(server.address) == []
        assert watch.complaints == []


def expect(locator):
    from playwright.sync_api import expect

    return expect(locator)


def three_state(*rho):
    return fm.scenarios.three_state(rho=list(rho))


def shown_gain(solution):
    return f"{solution.gain:.6f}"


def shown_share(share):
    return f"{100 * share:.2f}\u202f%"


def assert_curve(page, exact, value, gain):
    """The frontier that is drawn: its breakpoints, the line through them, and where the slider stands."""
    drawn = Figure(page, "frontier")
    assert drawn.x("breakpoint") == pytest.approx(exact.values.tolist(), abs=READ)
    assert drawn.y("breakpoint") == pytest.approx(exact.gains.tolist(), abs=READ)
    path = page.locator("#frontier .curve").get_attribute("d")
    through = [float(number) for number in re.findall(r"[\d.]+", path)]
    dots = [dot[way] for dot in drawn.all("breakpoint") for way in ("x", "y")]
    assert through == pytest.approx(dots, abs=0.01)
    assert drawn.x("here") == pytest.approx([value], abs=READ)
    assert drawn.y("here") == pytest.approx([gain], abs=READ)


def chances(page):
    """Probabilities of all pairs, by how strongly their cells are painted."""
    shapes = [shape for shape in Figure(page, "policy").all("cell") + Figure(page, "policy").all("chance")]
    painted = {(shape["x"], shape["y"]): float(shape["strength"] or 0) for shape in shapes}
    return [painted[place] for place in sorted(painted, key=lambda place: place[::-1])]


def drop(page, name, content):
    """Drop a file on the page."""
    transfer = page.evaluate_handle(
        """([name, bytes]) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(bytes)], name));
            return transfer;
        }""",
        [name, list(content)],
    )
    page.dispatch_event("body", "drop", {"dataTransfer": transfer})


def test_a_slider_moved_by_keyboard_shows_the_exact_answer(open_page):
    page = open_page()
    expect(page.locator("#gain")).to_have_text(shown_gain(fm.solve(three_state(0.1, 0.1, 0.25))))
    expect(page.locator("#reach-at_least-2")).to_have_text("up to 47.37\u202f% can be met")
    slider = page.get_by_label("at least for s2")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    problem = three_state(0.1, 0.1, 0.265)
    solution, free = fm.solve(problem), fm.solve(problem.without_quotas())
    expect(page.locator("#gain")).to_have_text(shown_gain(solution))
    expect(page.locator("#cost")).to_have_text(f"{free.gain - solution.gain:.6f}")
    expect(page.locator("#slack")).to_have_text("0")
    expect(page.locator("#status")).to_have_attribute("data-status", "optimal")
    expect(page.locator("#live")).to_contain_text(f"optimal, gain {shown_gain(solution)}, worst slack 0")
    expect(page.locator("#got-0")).to_have_text(f"gets {shown_share(solution.shares[0])}")
    assert slider.get_attribute("aria-valuetext").startswith("26.5\u202f%")
    shares = Figure(page, "shares")
    assert [tick["text"] for tick in shares.all("y-tick")] == ["s0", "s1", "s2"]
    assert shares.x("bar", "end") == pytest.approx(solution.shares.tolist(), abs=READ)
    assert [bar["more"] for bar in shares.all("bar")] == ["met", "met", "binding"]
    assert shares.x("free") == pytest.approx((problem.members @ free.occupancy).tolist(), abs=READ)
    assert shares.x("owed") == pytest.approx([0.1, 0.1, 0.265], abs=READ)
    assert shares.all("mark")[2]["about"].startswith(
        "s2\nshare 26.50\u202f%, asked \u2265 26.5\u202f%, slack 0\n"
    )
    assert_curve(page, fm.frontier(problem, "s2"), 0.265, solution.gain)
    assert chances(page) == pytest.approx(solution.policy.tolist(), abs=READ)
    row = page.locator("#prices tbody tr").nth(2)
    expect(row).to_contain_text("s2" + shown_share(solution.shares[2]))
    expect(row).to_contain_text(f"{solution.prices[2] / 100:.3g}")
    expect(page.locator("#graph svg circle.state")).to_have_count(3)
    expect(page.locator("#compare tbody tr")).to_have_count(2)


def test_another_quota_moves_the_frontier_to_itself(open_page):
    page = open_page()
    page.get_by_label("s0, at least, in percent").fill("40")
    page.keyboard.press("Enter")
    problem = three_state(0.4, 0.1, 0.25)
    expect(page.locator("#gain")).to_have_text(shown_gain(fm.solve(problem)))
    expect(page.locator("#quota-choice")).to_have_value("s0")
    expect(page.locator("#frontier .x-title")).to_have_text("share owed to s0")
    assert Figure(page, "frontier").y("breakpoint") == pytest.approx(
        fm.frontier(problem, "s0").gains, abs=READ
    )
    most = fm.frontier(three_state(0.4, 0.1, 0.0), "s2").last_feasible
    expect(page.locator("#reach-at_least-2")).to_have_text(f"up to {shown_share(most)} can be met")


def test_an_infeasible_position_names_the_conflict_and_the_way_back(open_page):
    page = open_page()
    page.get_by_label("at least for s2").focus()
    page.keyboard.press("End")
    expect(page.locator("#status")).to_have_text("Infeasible")
    expect(page.locator("#conflict")).to_contain_text(
        "s2 is owed 0.6000, and no policy spends more than 0.4737 there."
    )
    expect(page.locator("#conflict")).to_contain_text("In conflict: s2.")
    expect(page.locator("#gain")).to_have_text("\u2013")
    expect(page.locator("#shares")).to_be_hidden()
    wide = page.locator("#frontier .figure").bounding_box()["width"]  # the row is its own now
    expect(page.locator("#frontier .figure svg")).to_have_attribute("width", re.compile(f"{wide:g}"))
    assert_accessible(page)
    page.get_by_role("button", name="Use the nearest quotas that can be met").click()
    why = fm.solve(three_state(0.1, 0.1, 0.6)).infeasibility
    nearest = fm.solve(three_state(*why.nearest_at_least))
    expect(page.locator("#gain")).to_have_text(shown_gain(nearest))
    expect(page.locator("#number-at_least-2")).to_have_value(str(100 * why.nearest_at_least[2]))
    expect(page.locator("#conflict")).to_be_hidden()


def test_more_than_all_of_the_time_is_infeasible_too(open_page):
    page = open_page()
    for k in (0, 1):
        page.locator(f"#number-at_least-{k}").fill("50")
        page.keyboard.press("Enter")
    expect(page.locator("#conflict")).to_contain_text(
        "together the quotas owe 1.25 of the time, more than there is"
    )
    page.locator("#accept").click()
    expect(page.locator("#status")).to_have_text("Optimal")


def test_only_the_moved_quota_can_be_lowered(open_page):
    page = open_page()
    page.get_by_label("at least for s2").focus()
    page.keyboard.press("End")
    page.get_by_role("button", name="Only lower s2").click()
    expect(page.locator("#status")).to_have_text("Optimal")
    expect(page.locator("#got-2")).to_have_text("gets 47.37\u202f%")


def test_proof_is_one_click_away(open_page):
    page = open_page()
    page.get_by_role("button", name="Proof").click()
    expect(page.locator("#proof")).to_contain_text("confirmed from the data alone")
    expect(page.locator("#proof")).to_contain_text("rational numbers")
    expect(page.locator("#proof")).to_contain_text("at most 0.443421052632")
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(page.locator("#proof")).to_be_hidden()


def test_a_dropped_file_is_opened_and_its_names_are_text(open_page, tmp_path):
    mdp = fm.MDP(
        [[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]], [1.0, 3.0, 0.0], [0, 0, 1],
        states=["<script>alert(1)</script>", HOSTILE], actions=["</title>", "<b>keep</b>", "&lt;share&gt;"],
    )  # fmt: skip
    quotas = [fm.Quota(HOSTILE, states=[1], at_least=0.5), fm.Quota("<a href=x>cap", states=[0], at_most=0.9)]
    problem = fm.Problem(mdp, quotas)
    fm.save(problem, tmp_path / "clinic.toml")
    page = open_page()
    drop(page, "clinic.toml", (tmp_path / "clinic.toml").read_bytes())
    expect(page.locator("#title")).to_have_text("clinic.toml")
    expect(page.locator("#gain")).to_have_text(shown_gain(fm.solve(problem)))
    expect(page.locator("#sliders .name").first).to_have_text(HOSTILE)
    expect(page.locator("#prices tbody th").first).to_have_text(HOSTILE)
    expect(page.locator("#shares .y-tick")).to_have_text(["<img src=x\u2026=alert(1)>", "<a href=x>cap"])
    expect(page.locator("#policy .y-tick")).to_have_text(
        ["<script>a\u2026/script>", "<img src=\u2026lert(1)>"]
    )
    expect(page.locator("#policy .x-tick")).to_have_text(["</title>", "<b>keep</b>", "&lt;share&gt;"])
    expect(page.locator("#graph text").nth(1)).to_have_text("<img sr\u2026rt(1)>")
    assert page.locator("main img, main script, main a, main b").count() == 0
    expect(page.locator("#reach-at_most-1")).to_contain_text("not below")
    expect(page.locator("#command")).to_have_text("fairmdp solve clinic.toml")


def test_a_broken_file_shows_its_message_and_changes_nothing(open_page):
    page = open_page()
    drop(page, "broken.toml", b"fairmdp = 1\n[model.a.go]\nreward = 1.0\nto = { b = 1.0 }\n")
    expect(page.locator("#notice")).to_contain_text("broken.toml: ")
    expect(page.locator("#notice")).to_contain_text("b")
    expect(page.locator("#title")).to_have_text("three-state")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#notice")).to_be_hidden()
    page.get_by_label("at least for s2").press("ArrowRight")
    expect(page.locator("#gain")).to_have_text(shown_gain(fm.solve(three_state(0.1, 0.1, 0.255))))


def test_scenarios_open_with_their_parameters(open_page):
    page = open_page()
    page.get_by_role("button", name="Open another problem").click()
    page.get_by_label("A ready-made one").select_option("bandit")
    page.get_by_role("textbox", name="quota").fill("0.1,0.2,0.3")
    assert_accessible(page)
    page.get_by_role("button", name="Open it").click()
    expect(page.locator("#title")).to_have_text("bandit")
    expect(page.locator("#gain")).to_have_text(
        shown_gain(fm.solve(fm.scenarios.bandit(quota=[0.1, 0.2, 0.3])))
    )
    expect(page.locator("#command")).to_have_text("fairmdp solve bandit --param=quota=0.1,0.2,0.3")


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["fairmdp", *words])
    with pytest.raises(SystemExit) as end:
        fairmdp.cli.main()
    return end.value.code or 0, capsys.readouterr().out


def saved(page, button, folder):
    with page.expect_download() as download:
        button.click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_exports_and_the_command_give_the_same_answer(open_page, tmp_path, monkeypatch, capsys):
    page = open_page()
    page.get_by_label("at least for s1").press("ArrowRight")
    expect(page.locator("#command")).to_have_text("fairmdp solve three-state '--quota=s1>=0.105'")
    command = shlex.split(page.locator("#command").text_content())
    solution = saved(page, page.locator("[data-kind='solution.json']"), tmp_path)
    code, printed = run(monkeypatch, capsys, *command[1:], "--json")
    again, kept = json.loads(printed), json.loads(solution.read_text())
    assert code == 0 and again["gain"] == pytest.approx(kept["gain"], abs=1e-12)
    assert again["policy"] == pytest.approx(kept["policy"], abs=1e-12)
    assert again["provenance"] == kept["provenance"]
    assert run(monkeypatch, capsys, "verify", *command[2:], str(solution), "--exact")[0] == 0
    for name in ("problem.toml", "problem.npz"):
        problem = fm.load(saved(page, page.locator(f"[data-kind='{name}']"), tmp_path))
        assert fm.solve(problem).gain == pytest.approx(kept["gain"], abs=1e-12)
    policy = saved(page, page.locator("[data-kind='policy.csv']"), tmp_path).read_text().splitlines()
    assert policy[0] == "state,action,probability,share_of_time"
    assert [float(line.split(",")[2]) for line in policy[1:]] == pytest.approx(kept["policy"], abs=1e-12)
    quotas = saved(page, page.locator("[data-kind='quotas.csv']"), tmp_path).read_text().splitlines()
    assert [float(line.split(",")[1]) for line in quotas[1:]] == pytest.approx(kept["shares"], abs=1e-12)
    for section in ("shares", "frontier", "policy", "graph"):
        png = saved(page, page.locator(f"#{section}").get_by_role("button", name="png"), tmp_path)
        assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert len(Image.open(png).convert("RGB").getcolors(2**24)) > 100  # it is not empty
        svg = saved(page, page.locator(f"#{section}").get_by_role("button", name="svg"), tmp_path).read_text()
        assert svg.startswith("<svg") and "var(" not in svg  # a file knows nothing of the page's colours
        assert section != "frontier" or "share owed to s1" in svg


def test_two_pages_at_once_keep_to_themselves(open_page):
    one, two = open_page(), open_page()
    one.get_by_label("at least for s2").press("ArrowRight")
    two.get_by_label("at least for s0").press("ArrowLeft")
    one.get_by_label("at least for s2").press("ArrowRight")
    expect(two.locator("#command")).to_contain_text("s0>=0.095")
    expect(one.locator("#gain")).to_have_text(shown_gain(fm.solve(three_state(0.1, 0.1, 0.26))))
    expect(two.locator("#gain")).to_have_text(shown_gain(fm.solve(three_state(0.095, 0.1, 0.25))))


SAID = """document.addEventListener("DOMContentLoaded", () => {
    window.said = [];
    const busy = document.getElementById("busy");
    new MutationObserver(() => said.push(busy.textContent)).observe(busy, { childList: true });
});"""


def test_a_slow_solve_shows_what_is_known_by_then(browser):
    with served("garnet", "--param", "n_states=60000") as server:
        page = browser.new_page()
        page.add_init_script(SAID)
        page.goto(server.address)
        expect(page.locator("#busy")).to_contain_text("Solving\u2026")
        expect(page.locator("#answer")).to_have_attribute("aria-busy", "true")
        expect(page.locator("#status")).to_have_text("Optimal")
        expect(page.locator("#busy")).to_be_hidden()
        expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")
        gain = float(page.locator("#gain").text_content())
        seen = [
            re.search(r"gain between (\S+) and (\S+), worst slack \S+", text)
            for text in page.evaluate("said")
        ]
        brackets = [(float(found[1]), float(found[2])) for found in seen if found]
        assert brackets and all(lower - 2e-6 <= gain <= upper + 2e-6 for lower, upper in brackets)
        page.close()


def test_sliders_that_are_moved_quickly_end_at_the_right_answer(browser):
    """A solve here outlasts the pause between moves, so that stale ones are given up and workers replaced."""
    with served("garnet", "--param=n_states=10000") as server:
        pages = [browser.new_page() for _ in range(2)]
        for page in pages:
            page.goto(server.address)
            expect(page.locator("#status")).to_have_text("Optimal")
            page.get_by_label("at least for g0").focus()
        for turn in range(9):
            for page, key in zip(pages, ("ArrowRight", "ArrowLeft"), strict=True):
                page.keyboard.press(key)
            pages[0].wait_for_timeout(300 if turn % 3 == 2 else 0)
        problem = fm.scenarios.garnet(10000)
        for page in pages:
            expect(page.locator("#busy")).to_be_hidden()
            owed = [
                float(page.locator(f"#number-at_least-{k}").input_value()) / 100
                for k in range(problem.n_quotas)
            ]
            solution = fm.solve(problem.with_bounds(owed))
            expect(page.locator("#command")).to_contain_text(f"g0>={owed[0]:.4g}")
            expect(page.locator("#status")).to_have_text("Optimal")
            assert float(page.locator("#gain").text_content()) == pytest.approx(solution.gain, abs=2e-6)
            got = Figure(page, "shares").x("bar", "end")
            assert all(share >= least - READ for share, least in zip(got, owed, strict=True))
        moved = [float(page.locator("#number-at_least-0").input_value()) for page in pages]
        step = 100 * float(pages[0].locator("#at_least-0").get_attribute("step"))
        assert moved[0] - moved[1] == pytest.approx(
            18 * step, abs=1.01 * step
        )  # the first one rounds to the step
        for page in pages:
            page.close()


CHORES = {"s0": -2.0, "s2": 6.0}  # the mean lies in [-2, 6]


def with_chores(at_least, at_most):
    three = three_state(0.1, 0.1, 0.1)
    weighted = fm.Quota("chores", weights=CHORES, at_least=at_least, at_most=at_most)
    return fm.Problem(three.mdp, [weighted, *three.quotas])


def test_weights_are_moved_and_shown_in_their_own_units(open_page, tmp_path, monkeypatch, capsys):
    fm.save(with_chores(0.5, 4.0), tmp_path / "chores.toml")
    page = open_page()
    drop(page, "chores.toml", (tmp_path / "chores.toml").read_bytes())
    expect(page.locator("#title")).to_have_text("chores.toml")
    expect(page.locator("#sliders .counts").first).to_have_text("mean of weights from -2 to 6")
    slider = page.get_by_label("at least for chores")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    problem = with_chores(0.65, 4.0)
    solution, free = fm.solve(problem), fm.solve(problem.without_quotas())
    row = solution.quotas[0]
    expect(page.locator("#gain")).to_have_text(shown_gain(solution))
    expect(page.locator("#slack")).to_have_text("0")
    expect(page.locator("#number-at_least-0")).to_have_value("0.65")
    expect(page.locator("#got-0")).to_have_text("has 0.6500")
    limits = [fm.frontier(with_chores(-2.0, 6.0), "chores", bound=bound) for bound in ("at_least", "at_most")]
    most, least = (curve.last_feasible for curve in limits)
    expect(page.locator("#reach-at_least-0")).to_have_text(f"up to {most:.4f} can be met")
    expect(page.locator("#reach-at_most-0")).to_have_text(f"not below {least:.4f}".replace("-", "\u2212"))
    assert slider.get_attribute("aria-valuetext").startswith("0.65, up to")
    shares = Figure(page, "shares")  # the shares of time come first, on an axis of their own
    assert [tick["text"] for tick in shares.all("y-tick")] == ["s0", "s1", "s2", "chores"]
    assert shares.x("bar", "end") == pytest.approx([*solution.shares[1:], row.share], abs=READ)
    assert shares.x("owed") == pytest.approx([0.1, 0.1, 0.1, 0.65], abs=READ)
    assert shares.x("allowed") == pytest.approx([4.0], abs=READ)
    assert shares.x("free")[3] == pytest.approx([-2.0, 0.0, 6.0] @ free.visitation, abs=READ)
    expect(page.locator("#prices tbody tr").first).to_contain_text(
        f"chores0.6500\u2265 0.65, \u2264 40{row.price:.4f}binding"
    )
    expect(page.locator("#frontier .x-title")).to_have_text("chores, at least")
    assert_curve(page, fm.frontier(problem, "chores"), 0.65, solution.gain)
    assert_accessible(page)
    command = page.locator("#command").text_content()
    assert "'--quota=chores>=0.65' '--quota=chores<=4.0'" in command
    monkeypatch.chdir(tmp_path)
    code, printed = run(monkeypatch, capsys, *shlex.split(command)[1:], "--json")
    assert code == 0 and json.loads(printed)["gain"] == solution.gain
    again = fm.load(saved(page, page.locator("[data-kind='problem.toml']"), tmp_path))
    assert again.digest == problem.digest
    page.get_by_label("chores, at least", exact=True).fill("1.25")
    page.keyboard.press("Enter")
    expect(page.locator("#gain")).to_have_text(shown_gain(fm.solve(with_chores(1.25, 4.0))))
    slider.focus()
    page.keyboard.press("End")
    expect(page.locator("#conflict")).to_contain_text(
        "chores is to be 6 at least, and no policy has more than"
    )
    page.locator("#accept").click()
    nearest = fm.solve(with_chores(6.0, 6.0)).infeasibility
    offered = with_chores(6.0, 6.0).with_bounds(nearest.nearest_at_least, nearest.nearest_at_most)
    expect(page.locator("#gain")).to_have_text(shown_gain(fm.solve(offered)))


def test_a_cap_that_moves_has_a_curve_of_its_own(browser):
    with served("three-state", "--quota", "s0<=0.35", workers=1) as server:
        page = browser.new_page()
        page.goto(server.address)
        expect(page.locator("#quota-choice")).to_have_value("s0, at most")  # it costs the most
        page.get_by_label("at most for s0").press("ArrowLeft")
        problem = three_state(0.1, 0.1, 0.25).with_quotas(
            [fm.Quota("s0", states=["s0"], at_least=0.1, at_most=0.345)]
        )
        solution = fm.solve(problem)
        expect(page.locator("#gain")).to_have_text(shown_gain(solution))
        expect(page.locator("#frontier .x-title")).to_have_text("share allowed to s0")
        expect(page.locator("#frontier .figure")).not_to_have_class("stale")
        assert_curve(page, fm.frontier(problem, "s0", bound="at_most"), 0.345, solution.gain)
        expect(page.locator("#frontier .limit")).to_have_text("10.00\u202f% is owed")
        page.get_by_label("at least for s2").press("ArrowRight")
        expect(page.locator("#quota-choice")).to_have_value("s2")
        page.get_by_label("at most for s0").press("Home")
        page.get_by_role("button", name="Only raise s0").click()
        expect(page.locator("#status")).to_have_text("Optimal")
        page.close()


def test_figures_say_their_numbers_when_pointed_at_or_reached_by_keyboard(open_page):
    page = open_page()
    tip, exact = page.locator(".tip"), fm.frontier(three_state(0.1, 0.1, 0.25), "s2")
    told = [
        f"owed {shown_share(value)}\ngain {gain:.6f}"
        for value, gain in zip(exact.values, exact.gains, strict=True)
    ]
    page.locator("#frontier .breakpoint").nth(2).hover()
    expect(tip).to_contain_text(told[2])
    page.locator("h1").hover()
    expect(tip).to_be_hidden()
    page.locator("#frontier").get_by_role("button", name="png").focus()
    page.keyboard.press("Tab")  # one stop for all dots
    expect(tip).to_contain_text(told[0])
    here = "here: owed 25.00\u202f%\ngain 0.443421"
    for way, text in (
        ("ArrowRight", told[1]),
        ("ArrowRight", here),
        ("ArrowRight", told[2]),
        ("ArrowLeft", here),
    ):
        page.keyboard.press(way)
        expect(tip).to_contain_text(text)
        expect(page.locator(":focus")).to_have_attribute("aria-label", re.compile(re.escape(text)))
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.locator("#policy .mark").first.focus()
    for way, name in (
        ("ArrowRight", "s0: a1 0.00"),
        ("ArrowDown", "s1: a1 40.63"),
        ("ArrowLeft", "s1: a0 59.3"),
    ):
        page.keyboard.press(way)
        expect(tip).to_contain_text(name)


def test_figures_follow_the_width_and_the_colours_of_the_page(open_page):
    page = open_page()
    svg, bar = page.locator("#shares .figure svg"), page.locator("#shares .bar.met").first
    wide, light = svg.bounding_box()["width"], "rgb(43, 108, 176)"
    expect(bar).to_have_css("fill", light)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(svg).not_to_have_attribute("width", f"{wide:g}")
    solution = fm.solve(three_state(0.1, 0.1, 0.25))
    assert Figure(page, "shares").x("bar", "end") == pytest.approx(solution.shares.tolist(), abs=READ)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(svg).to_have_attribute("width", "400")  # or the text on paper would depend on the screen
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(svg).to_have_attribute("width", f"{svg.bounding_box()['width']:g}")
    page.emulate_media(color_scheme="dark")
    expect(bar).to_have_css("fill", "rgb(121, 174, 232)")
    page.emulate_media(color_scheme="dark", media="print")  # paper is white
    expect(bar).to_have_css("fill", light)


OVERLAPS = """Array.from(document.querySelectorAll(".figure svg"), (svg) => {
    const boxes = Array.from(svg.querySelectorAll(".x-tick:not([transform]), .y-tick, .limit, .x-title"), (node) => node.getBoundingClientRect());
    const frame = svg.getBoundingClientRect();
    const clash = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom - 2 && b.top < a.bottom - 2;
    return boxes.some((a, k) => boxes.slice(k + 1).some((b) => clash(a, b)))
        || Array.from(svg.querySelectorAll("text"), (node) => node.getBoundingClientRect()).some((a) =>
            a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1);
})"""


def test_a_principle_is_chosen_beside_the_sliders(open_page):
    page = open_page()
    page.get_by_label("Principle").select_option("alpha=2")
    problem = three_state(0.1, 0.1, 0.2)
    cells = page.locator("#principle td, #principle tbody th")

    def shown(problem):
        fair = fm.solve_welfare(problem, fm.alpha_fair(2.0))
        expect(page.locator("#principle-answer")).to_contain_text(f"Gain {fair.gain:.6f}, worst slack")
        rows = sorted(zip(fair.utilities, fair.over, fair.marginals, strict=True))
        texts = [t.replace("\u202f", " ") for t in cells.all_text_contents()]
        assert texts == [t for u, name, m in rows for t in (name, f"{100 * u:.2f} %", f"{m / 100:.4f}")]

    shown(problem)
    page.get_by_label("at least for s1").fill("0.4")
    shown(problem.with_bounds([0.1, 0.4, 0.2]))
    expect(page.locator("#principle-command")).to_contain_text("fairmdp welfare three-state")
    assert_accessible(page)
    page.get_by_label("Principle").select_option("")
    expect(cells).to_have_count(0)


def long_names():
    mdp = fm.scenarios.garnet(6, 12, 3, n_quotas=0).mdp
    states = [f"a rather long name of ward {k}" for k in range(6)]
    actions = [f"send to the department {i % 12}" for i in range(72)]
    named = fm.MDP(mdp.P, mdp.r, mdp.s_of, states=states, actions=actions)
    weighted = fm.Quota("dollars paid out per month and person", weights={0: -3e7, 3: 4e8}, at_least=1e6)
    return fm.Problem(named, [weighted, fm.Quota("everybody in the north", states=[0, 1], at_most=0.9)])


LABELLED = [
    "three-state",
    "three-state --quota=s0<=0.35",
    "jobs",
    "hiring",
    "garnet --param=n_states=24",
    "long.toml",
]


@pytest.mark.parametrize("scenario", LABELLED)
def test_labels_of_axes_neither_overlap_nor_stick_out(browser, scenario, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fm.save(long_names(), "long.toml")
    with served(*scenario.split(), workers=1) as server:
        page = browser.new_page()
        page.goto(server.address)
        page.locator("#frontier .x-title").wait_for()
        for width in (1280, 960, 700, 390, 320):
            page.set_viewport_size({"width": width, "height": 844})
            page.wait_for_function("""() => Array.from(document.querySelectorAll(".figure:has(svg)"))
                .every((node) => node.querySelector("svg").width.baseVal.value === node.clientWidth)""")
            clashes = page.evaluate(OVERLAPS)
            assert not any(clashes), (scenario, width, clashes)
        page.close()


@pytest.mark.parametrize("scheme, width", [("light", 1280), ("dark", 390)])
def test_nothing_for_axe_to_find_and_nothing_sticks_out(open_page, scheme, width):
    page = open_page(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 844})
    expect(page.locator("#reach-at_least-2")).to_contain_text("can be met")
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.emulate_media(media="print")
    expect(page.locator("#open")).to_be_hidden()
    expect(page.locator("#gain")).to_be_visible()


TABLE = """state,action,next,probability,reward
North clinic - triage,treat,North clinic - ward,0.7,3
North clinic - triage,treat,South clinic - ward,0.3,3
North clinic - triage,send away,home,1,0
North clinic - ward,treat,home,1,5
South clinic - ward,treat,home,0.5,4
South clinic - ward,treat,South clinic - ward,0.5,4
home,wait,North clinic - triage,1,0
home,call,South clinic - ward,1,1
"""
CLINICS = ["North clinic - triage", "North clinic - ward"]
TODAY = """state,action,probability
North clinic - triage,treat,1
North clinic - ward,treat,1
South clinic - ward,treat,1
home,call,1
"""


@pytest.fixture
def clinics(browser, tmp_path, monkeypatch):
    """The page on a table without quotas, and the problem in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clinics.csv").write_text(TABLE)
    (tmp_path / "shop.py").write_text(
        "import fairmdp as fm\n\ndef model():\n    return fm.scenarios.bandit().mdp\n"
    )
    with served("clinics.csv", workers=1) as server:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        watch = Watch(page)
        page.goto(server.address)
        expect(page.locator("#status")).to_have_text("Optimal")
        yield page, fm.load("clinics.csv")
        assert watch.complaints == []
        page.close()


def add_quota(page, search, name, least=None, most=None):
    page.get_by_role("button", name="Add a quota").click()
    page.get_by_label("Which states share it").fill(search)
    page.get_by_role("button", name=re.compile("Tick (all|it)")).click()
    if name is not None:
        page.get_by_label("Name", exact=True).fill(name)
    for label, bound in (("At least, in percent", least), ("At most, in percent", most)):
        page.get_by_label(label, exact=True).fill("" if bound is None else f"{100 * bound:g}")
    page.get_by_role("button", name="Add it").click()


def test_a_quota_is_added_to_a_model_without_any_renamed_and_removed(clinics, monkeypatch, capsys):
    page, problem = clinics
    expect(page.locator("#controls")).to_contain_text("This model has no quotas yet.")
    expect(page.locator("#gain")).to_have_text(shown_gain(fm.solve(problem)))
    page.get_by_role("button", name="Add a quota").click()
    page.get_by_label("Which states share it").fill("north")
    page.get_by_role("button", name="Tick all 2").click()
    expect(page.locator("#quota-count")).to_have_text("2 states ticked, 2 found")
    expect(page.get_by_label("Name")).to_have_value("north")
    assert_accessible(page)
    page.get_by_role("button", name="Cancel").click()
    add_quota(page, "North", "the north", 0.4)
    quota = fm.Quota("the north", states=CLINICS, at_least=0.4)
    solution = fm.solve(problem.with_quotas([quota]))
    expect(page.locator("#gain")).to_have_text(shown_gain(solution))
    expect(page.locator("#slack")).to_have_text("0")
    expect(page.locator("#got-0")).to_have_text("gets 40.00\u202f%")
    expect(page.locator("#frontier .x-title")).to_have_text("share owed to the north")
    assert_accessible(page)
    command = page.locator("#command").text_content()
    _, printed = run(monkeypatch, capsys, *shlex.split(command)[1:], "--json")
    assert json.loads(printed)["gain"] == pytest.approx(solution.gain, abs=1e-12)

    add_quota(page, "home", None, most=0.35)
    both = problem.with_quotas([quota, fm.Quota("home", states=["home"], at_most=0.35)])
    expect(page.locator("#gain")).to_have_text(shown_gain(fm.solve(both)))
    page.get_by_role("button", name="Change the north").click()
    page.get_by_label("Name", exact=True).fill("home")
    page.get_by_role("button", name="Change it").click()
    expect(page.locator("#quota-said")).to_contain_text("home")
    page.get_by_label("Name", exact=True).fill("northerners")
    page.get_by_label("At least, in percent", exact=True).fill("45")
    page.get_by_role("button", name="Change it").click()
    renamed = [fm.Quota("northerners", states=CLINICS, at_least=0.45), both.quotas[1]]
    expect(page.locator("#gain")).to_have_text(shown_gain(fm.solve(fm.Problem(problem.mdp, renamed))))
    expect(page.locator("#sliders .name")).to_have_text(["northerners", "home"])
    expect(page.locator("#prices tbody th")).to_have_text(["northerners", "home"])

    page.get_by_role("button", name="Change northerners").click()
    page.get_by_role("button", name="Remove it").click()
    expect(page.locator("#sliders .name")).to_have_text(["home"])
    page.get_by_role("button", name="Back to where it began").click()
    expect(page.locator("#controls")).to_contain_text("This model has no quotas yet.")
    expect(page.locator("#gain")).to_have_text(shown_gain(fm.solve(problem)))


def test_mistakes_in_a_quota_are_said_where_it_is_made(clinics):
    page, _ = clinics
    page.get_by_role("button", name="Add a quota").click()
    said = page.locator("#quota-said")
    page.get_by_role("button", name="Add it").click()
    expect(said).to_have_text("Tick at least one state.")
    page.get_by_label("Which states share it").fill('"nobody" & !home')
    expect(said).to_contain_text("there is no label or variable called 'nobody'")
    page.get_by_label("Which states share it").fill('!"home"')
    page.get_by_role("button", name="Tick all 3").click()
    page.get_by_label("At least, in percent", exact=True).fill("120")
    page.get_by_role("button", name="Add it").click()
    expect(said).to_have_text("At least is to be between 0 and 100 percent.")
    page.get_by_label("At least, in percent", exact=True).fill("90")
    page.get_by_role("button", name="Add it").click()
    expect(page.locator("#status")).to_have_text("Infeasible")


def test_a_policy_that_is_dropped_is_judged_and_mended(clinics):
    page, problem = clinics
    add_quota(page, "North", "the north", 0.4)
    owing = problem.with_quotas([fm.Quota("the north", states=CLINICS, at_least=0.4)])
    expect(page.locator("#gain")).to_have_text(shown_gain(fm.solve(owing)))
    drop(page, "today.csv", TODAY.encode())
    seen = fm.evaluate(owing, {"home": "call", **dict.fromkeys([*CLINICS, "South clinic - ward"], "treat")})
    expect(page.locator("#verdict")).to_have_text("Not fair")
    expect(page.locator("#audit")).to_contain_text("today.csv: It breaks the north.")
    expect(page.locator("#audit-gain")).to_contain_text(f"Gain {sum(seen.gain) / 2:.6f}")
    expect(page.locator("#mended")).to_contain_text(
        f"Moving {shown_share(seen.mended.moved)} of the time makes it fair, which is proved: "
        f"gain {shown_gain(seen.mended.solution)}"
    )
    assert_accessible(page)
    page.locator("#number-at_least-0").fill("0")
    page.keyboard.press("Enter")
    expect(page.locator("#verdict")).to_have_text("Fair")
    drop(page, "other.csv", b"state,action,probability\nnowhere,treat,1\n")
    expect(page.locator("#notice")).to_contain_text("other.csv")
    drop(
        page, "typed.csv", TODAY.replace(",probability", "").replace(",1", "").encode()
    )  # without a column of ones
    expect(page.locator("#audit")).to_contain_text("typed.csv")
    expect(page.locator("#notice")).to_be_hidden()
    drop(page, "clinics2.csv", TABLE.encode())  # a table of transitions is a problem
    expect(page.locator("#title")).to_have_text("clinics2.csv")
    expect(page.locator("#audit .status-line")).to_have_count(0)


def test_rules_in_python_are_opened_by_their_name(clinics):
    page, _ = clinics
    page.get_by_role("button", name="Open another problem").click()
    assert_accessible(page)
    page.get_by_label("Or a model that Python makes").fill("shop:modle")
    page.locator("#chooser form").nth(1).get_by_role("button").click()
    expect(page.locator("#notice")).to_contain_text("did you mean 'model'?")
    page.get_by_role("button", name="Open another problem").click()
    page.get_by_label("Or a model that Python makes").fill("shop:model")
    page.locator("#chooser form").nth(1).get_by_role("button").click()
    expect(page.locator("#title")).to_have_text("shop:model")
    expect(page.locator("#gain")).to_have_text(shown_gain(fm.solve(fm.scenarios.bandit().without_quotas())))


def pages_of(page):
    """How many pages it is printed on."""
    pdf = page.pdf()
    return len(re.findall(rb"/Type\s*/Page[^s]", pdf))


def test_a_phone_shows_every_price_and_paper_has_no_empty_pages(browser):
    with served("garnet", "--param=n_states=120", "--param=n_quotas=45", workers=1) as server:
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.goto(server.address)
        expect(page.locator("#status")).to_have_text("Optimal")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        outside = """Array.from(document.querySelectorAll("main td, main th[scope=row]"), (cell) => cell.getBoundingClientRect())
            .filter((box) => box.left < 0 || box.right > innerWidth || box.width === 0).length"""
        assert page.evaluate(outside) == 0
        price = page.locator("#prices tbody tr").first.locator("td[data-label='Price of a point']")
        assert price.bounding_box()["x"] + price.bounding_box()["width"] <= 390
        assert_accessible(page)
        page.set_viewport_size({"width": 1280, "height": 900})
        assert pages_of(page) <= 5
        page.emulate_media(media="print")
        expect(page.locator("#shares .legend")).to_be_visible()
        assert (
            page.locator("#shares .key").first.evaluate("(node) => getComputedStyle(node).printColorAdjust")
            == "exact"
        )
        page.close()


def test_names_that_differ_in_the_middle_are_told_apart(browser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [f"Outpatient clinic {place} - waiting room" for place in ("North", "Northeast", "South")]
    names += [
        f"{place} ward, {when} shift" for place in ("Northern", "Southern") for when in ("early", "late")
    ]
    mdp = fm.MDP(np.full((7, 7), 1 / 7), np.arange(7.0), range(7), states=names)
    fm.save(fm.Problem(mdp, [fm.Quota(name, states=[name], at_least=0.1) for name in names]), "long.toml")
    with served("long.toml", workers=1) as server:
        page = browser.new_page()
        page.goto(server.address)
        page.locator("#frontier .x-title").wait_for()
        for figure in ("shares", "policy"):
            texts = page.locator(f"#{figure} .y-tick").all_text_contents()
            assert len(set(texts)) == 7 and all(text.endswith(("room", "shift")) for text in texts), texts
        page.close()


def test_a_killed_server_is_said_and_one_that_came_back_too(browser):
    with served("three-state") as first:
        page = browser.new_page()
        page.goto(first.address)
        page.get_by_label("at least for s2").press("ArrowRight")
        expect(page.locator("#command")).to_contain_text("s2>=0.255")
        first.process.kill()
        first.process.wait()
        page.get_by_label("at least for s2").press("ArrowRight")
        expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
        expect(page.get_by_role("alert")).to_contain_text("fairmdp explore three-state '--quota=s2>=0.255'")
        with served("three-state", "--port", str(first.port)):
            expect(page.get_by_role("alert")).to_contain_text("new address")
        page.close()
