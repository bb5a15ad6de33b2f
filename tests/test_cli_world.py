"""The command line and the pictures of worlds: what is shown is what the plan says, and a file proves it."""

import csv
import io
import json
import re

import numpy as np
import pytest

import fairmdp as fm
from fairmdp import views

CLIENTS = ("job-server", "-p", "clients=120")


@pytest.fixture(scope="module")
def world():
    return fm.scenarios.job_server(120)


@pytest.fixture(scope="module")
def plan(world):
    return fm.solve_world(world)


def test_solve_shows_ceiling_prices_and_who_pays(run, world, plan):
    code, out, _ = run("solve", *CLIENTS)
    free = fm.solve_world(world.without_quotas())
    assert code == 0 and out.startswith(
        "job-server: 120 components, 1 resource, 1 local quota; whole program\n"
    )
    assert f"  ceiling   {plan.upper:.6f}   proved: no joint policy that meets the quotas gains more" in out
    assert f"  without quotas {free.upper:.6f}; fairness costs {free.upper - plan.upper:.6g}" in out
    assert f"  slots      39         39     {plan.prices[0]:.4f}" in out
    change, number, _ = views.world.reward_changes(world, plan, free)
    assert f"who pays  {number[change < -1e-5].sum()} earn less than without quotas" in out
    assert "worst slack 0\n" in out


def test_json_holds_what_the_text_says(run, world, plan):
    code, out, _ = run("solve", *CLIENTS, "--json")
    data = json.loads(out)
    assert code == 0 and data["status"] == "optimal" and data["upper"] == plan.upper
    (quota,) = data["quotas"]
    asked, had, mu = views.quota_shares(world, plan, 0)
    assert quota["rows"] == asked.size == 73 and quota["binding"] == (mu > 1e-9).sum()
    assert quota["least_slack"] == pytest.approx((had - asked).min(), abs=1e-12)
    paid = data["payers"]
    assert paid["lower_by"] + paid["higher_by"] == pytest.approx(
        data["upper"] - data["without_quotas"], rel=1e-3
    )
    assert data["worst_slack"] == plan.worst_slack(world) and abs(data["worst_slack"]) < 1e-9
    assert data["resources"][0]["used"] == pytest.approx(39)


def test_a_kept_plan_is_verified_with_the_same_words(run, tmp_path):
    code, out, _ = run("solve", *CLIENTS, "--quota", "short queue>=0.3", "-o", "p.npz", "--csv", "c.csv")
    assert (
        code == 0
        and "recheck: fairmdp verify job-server --param=clients=120 '--quota=short queue>=0.3' p.npz" in out
    )
    rows = list(csv.DictReader(io.StringIO((tmp_path / "c.csv").read_text())))
    assert len(rows) == 120 and {row["asked"] for row in rows} == {"0.3", "nan"}
    code, out, _ = run("verify", *CLIENTS, "--quota", "short queue>=0.3", "p.npz")
    assert code == 0 and out.startswith("p.npz: confirmed in floating point with outward rounding")
    code, out, _ = run("verify", *CLIENTS, "--quota", "short queue>=0.3", "p.npz", "--exact", "--json")
    assert code == 0 and json.loads(out)["exact"]
    code, out, _ = run("verify", *CLIENTS, "--quota", "short queue>=0.6", "p.npz")
    assert code == 1 and "NOT CONFIRMED" in out and "local quotas are not met" in out


def test_what_cannot_be_met_is_said_in_the_users_words(run):
    code, out, _ = run("solve", *CLIENTS, "-p", "capacity=5")
    assert (
        code == 3
        and "infeasible: the quotas alone need 14.897" in out
        and "slots a step, there are 5\n" in out
    )
    code, out, _ = run("solve", "machine-park", "-p", "machines=20", "--quota", "good order>=1")
    assert (
        "infeasible: the quotas together need more than there is\n  at least 6 fitters a step; there are 1"
        in out
    )
    alone = ("solve", "job-server", "-p", "clients=6", "-p", "limit=0", "-p", "owed=1", "-p", "seed=5")
    code, out, _ = run(*alone, "--json")
    first = json.loads(out)["alone"]["first"][0]
    assert code == 3 and first["quota"] == "short queue" and first["reach"] < first["asked"]
    code, out, _ = run(*alone)
    told = f"{first['name']} is owed {first['asked']:.4f} of short queue, {first['reach']:.4f} is the most that any"
    assert "cannot be served even alone" in out and told in out


def test_frontier_over_capacity_and_over_a_common_quota(run, tmp_path, world):
    code, out, _ = run(
        "frontier", *CLIENTS, "slots", "--values", "5,30,39", "--json", "--csv", "f.csv", "--figure", "f.png"
    )
    points = json.loads(out)["points"]
    assert code == 0 and [p["status"] for p in points] == ["infeasible", "optimal", "optimal"]
    assert points[0]["needed"] > 13 and points[0]["upper"] is None
    assert points[2]["upper"] == pytest.approx(fm.solve_world(world).upper, rel=1e-6)
    assert points[1]["price"] > points[2]["price"] > 0, "the more there is, the less one more is worth"
    assert (
        len((tmp_path / "f.csv").read_text().splitlines()) == 4 and (tmp_path / "f.png").stat().st_size > 1000
    )
    code, out, _ = run("frontier", *CLIENTS, "-p", "capacity=20", "short queue", "--values", "0,0.3,1")
    lines = [line.split() for line in out.splitlines()[3:]]
    assert code == 0 and "infeasible: the quotas need" in out.splitlines()[-1]
    assert float(lines[0][1]) > float(lines[1][1]) > 0
    bare = fm.scenarios.job_server(120, capacity=20).without_quotas()
    assert float(lines[0][1]) == pytest.approx(fm.solve_world(bare).upper, abs=1e-3)


def test_simulate_follows_a_kept_plan(run, world, plan):
    run("solve", *CLIENTS, "-o", "p.npz")
    words = (
        "simulate",
        *CLIENTS,
        "p.npz",
        "--policy",
        "fair",
        "--steps",
        "400",
        "--seed",
        "3",
        "--window",
        "5",
        "--reserve",
        "0.05",
    )
    code, out, _ = run(*words, "--json")
    data = json.loads(out)
    policy = fm.dispatch_policy(world, plan, "fair", window=5, reserve=0.05)
    seen = fm.simulate_world(world, policy, 400, 3)
    assert code == 0 and data["gain"] == seen.gain and data["met"] == round(seen.met * 73)
    (slots,) = data["resources"]
    assert slots["used"] <= slots["most_used"] <= slots["capacity"] == 39
    assert data["gap"] == pytest.approx(1 - seen.gain / plan.upper) and data["reserve"] == 0.05
    code, out, _ = run(*words)
    assert "window 5, margin 0.005, reserve 0.05; 360 steps" in out
    assert code == 0 and f"{data['met']} of 73 met in this run, worst slack {data['worst_slack']:+.4f}" in out
    assert f"(proved); the gap is {100 * data['gap']:.2f} %" in out and "360 steps after 40" in out
    run("solve", "gpu-tenants", "-p", "tenants=60", "-o", "t.npz")
    code, out, _ = run(
        "simulate", "gpu-tenants", "-p", "tenants=60", "t.npz", "--policy", "id", "--steps", "200"
    )
    assert code == 0 and re.search(r"tier 1 +>= [\d.]+ +[\d.]+ +[+-]\d", out)
    code, _, err = run("simulate", *CLIENTS, "t.npz", "--steps", "50")
    assert code == 1 and "the plan is of another world" in err


def test_compare_simulates_policies_side_by_side(run, world, plan):
    code, out, _ = run("compare", *CLIENTS, "--steps", "300", "--json")
    data = json.loads(out)
    assert code == 0 and data["upper"] == plan.upper
    assert set(data["policies"]) == {
        "fair", "fair, in a fixed order", "index at fair prices", "fixed order (ID)", "greedy", "without quotas",
    }  # fmt: skip
    fair, greedy = data["policies"]["fair"], data["policies"]["greedy"]
    assert fair["worst_slack"] > greedy["worst_slack"] and fair["most_behind"] > 0 == greedy["most_behind"]
    table = fm.compare_world(world, plan, steps=300).to_table()
    assert table["gain"][0] == fair["gain"] and max(table["most_used"]) <= 1.0
    code, out, _ = run("compare", *CLIENTS, "--steps", "300")
    assert (
        code == 0 and "every policy keeps capacity at every step; one above the ceiling breaks quotas" in out
    )
    assert "gains are measured" in out and len(re.findall(r" %  ", out)) == 6
    code, out, _ = run("compare", *CLIENTS, "-p", "capacity=5")
    assert code == 3 and "the quotas alone need" in out


def test_common_quotas_and_capacities(world):
    some = world.with_common_quota("short queue", 0.25)
    before, after = world.blocks[0].owed[:, 0], some.blocks[0].owed[:, 0]
    assert np.array_equal(np.isfinite(before), np.isfinite(after)) and set(after[np.isfinite(after)]) == {
        0.25
    }
    nobody = some.with_common_quota("short queue", 0.0)
    assert not np.isfinite(nobody.blocks[0].owed).any()
    assert np.isfinite(nobody.with_common_quota("short queue", 0.1).blocks[0].owed[:, 0]).sum() == 73
    assert world.with_capacity("slots", 7).capacity.tolist() == [7]
    tenants = fm.scenarios.gpu_tenants(20).with_common_quota("tier 2", 1.5)
    assert tenants.group_owed[1] == 1.5
    for call in (lambda: world.with_capacity("slot", 1), lambda: world.with_common_quota("short", 1)):
        with pytest.raises(fm.ProblemError, match="there is no (resource|quota) called 's(lot|hort)'"):
            call()


def test_a_world_of_a_file_or_of_python(run, tmp_path):
    code, out, _ = run("new", "job-server", "--clients", "12", "-o", "w.toml")
    assert code == 0 and "wrote w.toml: 12 components, 1 resource, 1 local quota\n" in out
    code, out, _ = run("solve", "w.toml", "--json")
    here = fm.solve_world(fm.scenarios.job_server(12))
    assert code == 0 and json.loads(out)["upper"] == pytest.approx(here.upper, rel=1e-12)
    (tmp_path / "mine_of_worlds.py").write_text(
        "import fairmdp as fm\ndef world(n=3): return fm.scenarios.job_server(n)\n"
    )
    code, out, _ = run("solve", "mine_of_worlds:world", "-p", "n=12", "--json")
    assert code == 0 and json.loads(out)["upper"] == pytest.approx(here.upper, rel=1e-12)
    code, out, _ = run("scenarios")
    assert "job-server\n  clients who share a server's slots" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["solve", *CLIENTS, "--method", "lp"], "--method is for problems, and this is a world"),
        (["solve", *CLIENTS, "-o", "p.json"], "plans of worlds are kept as .npz"),
        (["solve", *CLIENTS, "--rho", "0.1"], "of the options that say what is owed, it takes --quota alone"),
        (["solve", *CLIENTS, "--quota", "short>=0.1"], "there is no quota called 'short'"),
        (["solve", *CLIENTS, "--quota", "short queue=0.1"], "of a world expected QUOTA>=BOUND"),
        (
            ["solve", *CLIENTS, "--quota", "slot<=9"],
            "there is no resource called 'slot'; did you mean 'slots'",
        ),
        (["solve", "three-state", "--csv", "c.csv"], "--csv is for worlds"),
        (["compare", *CLIENTS, "--by", "nash"], "--by is for problems, and this is a world"),
        (["compare", "three-state", "--steps", "100"], "--steps is for worlds"),
        (["simulate", *CLIENTS, "p.npz", "--workers", "2"], "--workers is for problems"),
        (["frontier", *CLIENTS, "slot"], "there is no resource or quota called 'slot'"),
        (["frontier", *CLIENTS, "slots", "short queue"], "SECOND is for problems"),
        (["welfare", *CLIENTS], "'job-server' is a world, and this is for problems"),
    ],
)
def test_mistakes_in_the_words(run, words, message):
    code, _, err = run(*words)
    assert code in (1, 2) and message in err


@pytest.mark.parametrize("clients", [60, 3000])
def test_pictures_of_few_and_of_many(clients):
    world = fm.scenarios.job_server(clients)
    plan, free = fm.solve_world(world, tol=1e-4), fm.solve_world(world.without_quotas(), tol=1e-4)
    axes = [
        views.plots.plot_world(world, plan), views.plots.plot_payers(world, plan, free),
        views.plots.plot_world(world.with_common_quota("short queue", 0.3), plan),
    ]  # fmt: skip
    policy = fm.dispatch_policy(world, plan, "fair")
    axes.append(views.plots.plot_world_history(fm.simulate_world(world, policy, 60)))
    assert all(len(views.plots.image(ax, "png")) > 1000 for ax in axes)
    drawn = sum(len(ax.patches) + len(ax.lines) for ax in axes)
    assert drawn < 250, "no shape for each component"
    with pytest.raises(fm.ProblemError, match="no local quota"):
        views.plots.plot_world(world.without_quotas(), free)
    bare = fm.simulate_world(world, fm.dispatch_policy(world, plan, "greedy"), 60)
    with pytest.raises(fm.ProblemError, match="nobody is owed anything"):
        views.plots.plot_world_history(bare)
