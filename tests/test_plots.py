"""Figures of shares, policies, graphs and grids: what they show, and what they refuse."""

import io

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import Circle, FancyArrowPatch

from fairmdp import ProblemError, frontier_grid, scenarios, solve
from fairmdp.cli import cli
from fairmdp.views import plots

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
    file = tmp_path / "s.png"
    ended = CliRunner().invoke(cli, ["solve", "jobs", "--figure", str(file), "--plot", plot])
    assert ended.exit_code == 0 and file.read_bytes().startswith(b"\x89PNG")
