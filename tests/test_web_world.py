"""The page of a world: what its workers answer, and what a person sees in a browser."""

import json
import shlex

import numpy as np
import pytest
from browser import Watch, assert_accessible, browser
from web_server import served

import fairmdp as fm
from fairmdp.web import worlds
from fairmdp.web.tasks import OpenProblems, RefusedError, Request, Source

__all__ = ["browser"]  # a fixture

SMALL = Source("job-server", ("clients=60",))


def ask(task, values=(), source=SMALL, **rest):
    seen = OpenProblems().answer(Request(task, source, values=values, **rest), lambda row: None)
    json.dumps(seen, allow_nan=False)
    return seen


def test_what_can_be_moved_is_told_before_anything_is_solved():
    seen = ask("world", source=Source("gpu-tenants", ("tenants=30",)))
    assert [each["capacity"] for each in seen["resources"]] == [14.0, 14.0, 14.0]
    names = [(each["name"], each["group"]) for each in seen["quotas"]]
    assert names == [("short backlog", False), *((f"tier {k}", True) for k in (1, 2, 3))]
    low, middle, high = seen["quotas"][0]["asked"]
    assert 0.3 < low < middle < high < 0.6


def test_densities_count_every_client():
    world = fm.scenarios.job_server(60)
    seen, plan = ask("world-solve"), fm.solve_world(world)
    (quota,) = seen["quotas"]
    owing = np.isfinite(world.blocks[0].owed[:, 0])
    assert sum(quota["density"]["had"]) == sum(quota["density"]["asked"]) == owing.sum()
    low, high = quota["density"]["ends"]
    has = plan.blocks[0].outcomes[owing, 1]
    assert high == pytest.approx(has.max()) and low <= has.min()
    payers = seen["payers"]
    assert sum(payers["density"]["change"]) + payers["density"]["same"] == 60
    assert payers["lower"] + payers["higher"] <= sum(payers["density"]["change"])
    assert len(str(seen)) < 10_000  # as much for a million


def test_rows_that_stand_for_many_count_as_many():
    mdp = fm.MDP([[0.5, 0.5], [1, 0], [0.3, 0.7]], [0, 1.0, 0], [0, 1, 1], actions=list("nsn"))
    parts = fm.Components("c", mdp, count=[300, 700], r=[[0, 1, 0], [0, 2, 0]])
    world = fm.World([parts], [fm.Resource("s", 200, {"s": 1})], [fm.LocalQuota("low", 0.4, states=[0])])
    found = worlds.world_answer(world, fm.solve_world(world), fm.solve_world(world.without_quotas()))
    assert sum(found["quotas"][0]["density"]["had"]) == 1000


@pytest.mark.parametrize("values", [(), (15.0, None), (None, 0.25), (18.5, 1 / 3)])
def test_the_command_names_the_same_world(values):
    seen = ask("world-solve", values)
    program, command, *words = shlex.split(seen["command"])
    assert (program, command, words[:2]) == ("fairmdp", "solve", ["job-server", "--param=clients=60"])
    quotas = tuple(word.removeprefix("--quota=") for word in words[2:])
    again = fm.solve_world(Source("job-server", ("clients=60",), quotas=quotas).world())
    assert seen["upper"] == again.upper
    assert len(quotas) == sum(value is not None for value in values)


def test_what_cannot_be_met_says_why():
    seen = ask("world-solve", (1.0, None))
    assert seen["status"] == "infeasible" and seen["upper"] is None and seen["payers"] is None
    assert seen["infeasible"][0].startswith("infeasible: the quotas alone need")


def test_the_curve_holds_where_the_slider_stands():
    seen = ask("world-frontier", (None, 0.31), quota="short queue")["curve"]
    points = {point["value"]: point for point in seen["points"]}
    world = fm.scenarios.job_server(60).with_common_quota("short queue", 0.31)
    assert points[0.31]["upper"] == fm.solve_world(world).upper
    assert min(points) == 0.0 and max(points) == 1.0
    uppers = [points[value]["upper"] for value in sorted(points) if points[value]["upper"] is not None]
    assert uppers == sorted(uppers, reverse=True)
    slots = ask("world-frontier", quota="slots")["curve"]["points"]
    assert 20.0 in [point["value"] for point in slots]  # as stated


def test_large_worlds_are_told_how_to_draw_it(monkeypatch):
    monkeypatch.setattr(worlds, "MOST_ROWS", 59)
    seen = ask("world-frontier", (15.0,), quota="slots")
    assert seen["curve"] is None
    assert "fairmdp frontier job-server --param=clients=60 '--quota=slots<=15.0' slots" in seen["message"]


def test_the_proof_is_that_of_verify():
    seen = ask("world-proof")
    world = fm.scenarios.job_server(60)
    assert seen["ok"] and seen["upper"] == fm.verify(world, fm.solve_world(world)).upper


@pytest.mark.parametrize(
    ("task", "values", "message"),
    [
        ("world-solve", (1.0, 0.1, 0.2), "3 values were sent, the world has 2"),
        ("world-solve", (-1.0,), "capacity is -1.0"),
        ("world-frontier", (), "there is nothing called 'jobs' to move"),
    ],
)
def test_what_makes_no_sense_is_refused(task, values, message):
    with pytest.raises(RefusedError, match=message):
        ask(task, values, quota="jobs")


def test_tasks_of_problems_are_refused_for_worlds():
    with pytest.raises(RefusedError, match="is a world"):
        ask("solve")
    with pytest.raises(RefusedError, match="is no world"):
        ask("world", source=Source("three-state"))


@pytest.fixture(scope="module")
def server():
    with served("job-server", "-p", "clients=60") as server:
        yield server


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_sliders_move_a_world(browser, server, scheme):
    """By keyboard, to the exact ceiling; nothing is asked of anybody else, and everybody can use it."""
    from playwright.sync_api import expect

    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    watch = Watch(page)
    page.goto(server.address)
    world = fm.scenarios.job_server(60)
    expect(page.locator("#gain")).to_have_text(f"{fm.solve_world(world).upper:.6f}")
    page.get_by_label("in a step for slots").focus()
    page.keyboard.press("ArrowLeft")
    value = page.get_by_label("in a step for slots").evaluate("node => node.valueAsNumber")
    assert value < 20
    moved = fm.solve_world(world.with_capacity("slots", value))
    expect(page.locator("#gain")).to_have_text(f"{moved.upper:.6f}")
    expect(page.locator("#command")).to_contain_text(f"slots<={value:g}")
    expect(page.locator("#frontier .here")).to_have_count(1)
    assert page.locator("#shares .had").count() == 50 == page.locator("#payers .change").count()
    assert_accessible(page)
    page.get_by_role("button", name="Proof").click()
    expect(page.locator("#proof")).to_contain_text("yes")
    page.get_by_role("button", name="Close").click()
    page.get_by_label("slots, as a number").fill("1")
    page.get_by_label("slots, as a number").press("Enter")
    expect(page.locator("#conflict")).to_contain_text("the quotas alone need")
    assert_accessible(page)
    page.get_by_role("button", name="Back to where it began").click()
    expect(page.locator("#gain")).to_have_text(f"{fm.solve_world(world).upper:.6f}")
    assert watch.strangers(server.address) == [] and watch.complaints == []
    context.close()


@pytest.mark.browser
def test_a_world_fits_a_phone(browser, server):
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(server.address)
    page.locator("#frontier .x-title").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert_accessible(page)
    context.close()
