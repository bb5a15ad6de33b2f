"""Figures of shares, policies, graphs and grids: what they show, and what they refuse."""

import io

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import Circle, FancyArrowPatch

from fairmdp import MDP, Problem, ProblemError, Quota, compare, frontier, frontier_grid, scenarios, solve
from fairmdp.cli import cli
from fairmdp.views import plots
from fairmdp.views.plots.style import EXACT

THREE = scenarios.three_state()
FAIR = solve(THREE)


def test_shares_with_what_is_owed():
    capped = THREE.with_bounds(None, [0.5, 1, 1])
    ax = plots.plot_shares(capped, {"fair": FAIR.shares, "even": np.full(3, 1 / 3)})
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == pytest.approx([*FAIR.shares, *[1 / 3] * 3])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["s0", "s1", "s2"]
    least, most = ax.collections
    assert [segment[0, 0] for segment in least.get_segments()] == [0.1, 0.1, 0.25]
    assert [segment[0, 0] for segment in most.get_segments()] == [0.5]
    assert {t.get_text() for t in ax.get_legend().get_texts()} == {"at least", "at most", "fair", "even"}


def test_shares_of_one_policy_say_which_stand_at_their_bound():
    ax = plots.plot_shares(THREE, {"fair": FAIR.shares})
    exact = [bar for bar in ax.patches if bar.get_facecolor() == to_rgba(EXACT)]
    assert [bar.get_width() for bar in exact] == pytest.approx([0.25])
    ax.figure.canvas.draw()
    assert ax.get_xticklabels()[1].get_text().endswith(" %")


def test_a_comparison_says_what_each_policy_earns_with_its_worst_slack():
    ax = plots.plot_comparison(THREE, compare(THREE))
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert (
        "fair: gain 0.4434, worst slack 0" in said and "no quotas: gain 0.5263, worst slack -0.1591" in said
    )


def test_a_frontier_names_its_lines_and_marks_where_the_quota_stands():
    ax = plots.plot_frontier(frontier(THREE, "s2"), problem=THREE)
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"best gain", "without this quota", "what fairness costs", "owed now, 25 %"} < set(said)
    assert said[-1] == "up to 47.37 % can be met" and ax.get_xlabel() == "share owed to s2"
    FigureCanvasAgg(ax.figure).draw()
    assert ax.get_legend().get_window_extent().x1 <= ax.figure.bbox.x1
    now = next(line for line in ax.lines if line.get_label().startswith("owed now"))
    assert list(now.get_xdata()) == [0.25, 0.25]
    capped = THREE.with_quotas([Quota("s0", states=[0], at_most=0.35)])
    cap = plots.plot_frontier(frontier(capped, "s0", bound="at_most"), problem=capped)
    assert "allowed now, 35 %" in [text.get_text() for text in cap.get_legend().get_texts()]
    weighted = THREE.with_quotas([Quota("chores", weights={"s0": -2.0, "s2": 6.0}, at_least=0.5)])
    means = plots.plot_frontier(frontier(weighted, "chores"), problem=weighted)
    assert "owed now, 0.5" in [text.get_text() for text in means.get_legend().get_texts()]


def boxes(ax, texts):
    renderer = ax.figure.canvas.get_renderer()
    return [text.get_window_extent(renderer) for text in texts]


def no_two_overlap(found):
    return not any(a.overlaps(b) for k, a in enumerate(found) for b in found[k + 1 :])


def test_a_graph_of_twenty_named_states_can_be_read():
    names = [f"{unit} {way}" for unit in ("ward", "clinic", "theatre", "lab") for way in "NESWC"]
    garnet = scenarios.garnet(20, 3).mdp
    mdp = MDP(garnet.P, garnet.r, garnet.s_of, states=names)
    ax = plots.plot_graph(mdp, solve(Problem(mdp)).occupancy)
    FigureCanvasAgg(ax.figure).draw()
    assert [text.get_text().split(",")[0] for text in ax.texts] == names
    frame = ax.figure.bbox
    found = boxes(ax, ax.texts)
    assert no_two_overlap([*found, ax.get_legend().get_window_extent()])
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in found)
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said[0].startswith("state") and said[1].endswith("% of all steps")


def test_ticks_of_a_grid_do_not_overlap():
    values = np.linspace(0, 0.46, 24)
    grid = frontier_grid(THREE, "s1", "s2", values[:3], values)
    for problem, last in ((None, "0.46"), (THREE, "46")):
        ax = plots.plot_grid(grid, problem=problem)
        FigureCanvasAgg(ax.figure).draw()
        assert no_two_overlap(boxes(ax, ax.get_xticklabels()))
        assert [text.get_text() for text in ax.get_xticklabels()][-1] == last


def test_svg_is_the_same_every_time_and_its_text_is_text():
    files = {plots.image(plots.plot_shares(THREE, {"fair": FAIR.shares}), "svg") for _ in range(2)}
    (file,) = files
    assert file.startswith(b"<?xml") and b">share of time</text>" in file and b"dc:date" not in file


def test_shares_of_many_groups_are_those_with_the_least_slack():
    problem = scenarios.garnet(60, n_quotas=30)
    sol = solve(problem)
    ax = plots.plot_shares(problem, {"fair": sol.shares})
    shown = {label.get_text() for label in ax.get_yticklabels()}
    order = np.argsort(sol.slacks, kind="stable")[:20]
    assert shown == {problem.names[k] for k in order}


def test_policy_heat_map():
    ax = plots.plot_policy(THREE.mdp, FAIR.policy)
    assert np.asarray(ax.images[0].get_array()) == pytest.approx(FAIR.policy.reshape(3, 2))
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a0", "a1"]
    ragged = plots.plot_policy(scenarios.taxi().mdp, solve(scenarios.taxi()).policy).images[0].get_array()
    assert ragged.count() == 15 and ragged.shape == (9, 5)  # 15 pairs; the others are not available


def test_graph_of_flows():
    ax = plots.plot_graph(THREE.mdp, FAIR.occupancy)
    disks = [p.radius for p in ax.patches if isinstance(p, Circle)]
    assert np.argsort(disks).tolist() == np.argsort(FAIR.visitation).tolist()
    arrows = [p for p in ax.patches if isinstance(p, FancyArrowPatch)]
    flow = (FAIR.occupancy[:, None] * THREE.mdp.P.toarray()).reshape(3, 2, 3).sum(axis=1)
    wide = [arrow.get_linewidth() for arrow in arrows]
    assert len(wide) == 6 and max(wide) == pytest.approx(4.0)
    assert np.argsort(wide).tolist() == np.argsort(flow[flow > 0]).tolist()
    assert ax.texts[0].get_text() == "s0\n38 %"


def test_grid_heat_map():
    grid = frontier_grid(THREE, "s1", "s2", [0.1, 0.46], [0.1, 0.3, 0.46])
    ax = plots.plot_grid(grid)
    assert ax.images[0].get_array().count() == 5 and len(ax.texts) == 5
    assert ax.get_xlabel() == "share owed to s2" and ax.get_ylabel() == "share owed to s1"


@pytest.mark.parametrize("draw", [plots.plot_policy, plots.plot_graph])
def test_figures_go_where_they_are_told(draw):
    ax = Figure().add_subplot()
    assert draw(THREE.mdp, FAIR.policy / 3, ax=ax) is ax
    assert imread(io.BytesIO(plots.image(ax, "png"))).std() > 0.01


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: plots.plot_shares(THREE, {}), "there are no shares to draw"),
        (
            lambda: plots.plot_shares(THREE.without_quotas(), {"a": np.zeros(0)}),
            "there are no shares to draw",
        ),
        (
            lambda: plots.plot_policy(scenarios.garnet(200).mdp, np.full(1000, 0.2)),
            "200 states .* cannot be read",
        ),
        (lambda: plots.plot_graph(scenarios.garnet(50).mdp, np.full(250, 0.2)), "50 states cannot be read"),
    ],
)
def test_what_cannot_be_drawn(call, words):
    with pytest.raises(ProblemError, match=words):
        call()


@pytest.mark.parametrize("plot", ["shares", "policy", "graph"])
def test_solve_draws(plot, tmp_path):
    for ending, head in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        file = tmp_path / f"s{ending}"
        ended = CliRunner().invoke(cli, ["solve", "jobs", "--figure", str(file), "--plot", plot])
        assert ended.exit_code == 0 and file.read_bytes().startswith(head)


def test_long_names_leave_room_for_the_picture_and_its_legend():
    names = [
        f"{place} ward, {when} shift" for place in ("Northern", "Southern") for when in ("morning", "evening")
    ]
    mdp = MDP(np.full((4, 4), 0.25), np.arange(4.0), range(4), states=names, actions=["stay"] * 4)
    problem = Problem(mdp, rho=[0.1] * 4)
    compared = plots.plot_comparison(problem, compare(problem))
    policy = plots.plot_policy(mdp, np.ones(4))
    for ax in (compared, policy):
        FigureCanvasAgg(ax.figure).draw()
        inside = ax.get_window_extent()
        assert inside.width > 0.25 * ax.figure.bbox.width
    legend = compared.get_legend().get_window_extent()
    assert legend.x1 <= compared.figure.bbox.x1
