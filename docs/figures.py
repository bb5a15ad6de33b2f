"""The figures of the documentation, drawn anew by every build."""

from pathlib import Path

import fairmdp as fm
from fairmdp.mirror import experiments as reproduce
from fairmdp.views import plots


def draw(folder: Path) -> None:
    """Write every figure as ``<name>.png``."""
    folder.mkdir(exist_ok=True)
    three, taxi = fm.scenarios.three_state(rho=[0.1, 0.1, 0.25]), fm.scenarios.taxi()
    fair = fm.solve(three)
    owed = [0.05 * k for k in range(11)]
    policies = {
        "fair": fm.solve(taxi).policy,
        "no quotas": fm.solve(taxi.without_quotas()).policy,
        "max-min": fm.solve_max_min(taxi).policy,
    }
    axes = {
        "frontier": plots.plot_frontier(fm.frontier(three, "s2"), problem=three),
        "taxi-frontier": plots.plot_frontier(fm.frontier(taxi, "zone3"), problem=taxi),
        "taxi-grid": plots.plot_grid(fm.frontier_grid(taxi, "zone2", "zone3", owed, owed), problem=taxi),
        "taxi-shares": plots.plot_shares(
            taxi, {name: fm.readout(taxi, policy).shares for name, policy in policies.items()}
        ),
        "shares": plots.plot_shares(three, {"fair": fair.shares}),
        "policy": plots.plot_policy(three.mdp, fair.policy),
        "graph": plots.plot_graph(three.mdp, fair.occupancy),
        "visitation": plots.plot_visitation(reproduce.convergence(runs=20)),
        "bias-floor": plots.plot_bias_floor(reproduce.bias_floor(runs=10)),
    }
    for name, ax in axes.items():
        (folder / f"{name}.png").write_bytes(plots.image(ax, "png"))
