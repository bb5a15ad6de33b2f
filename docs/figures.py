"""The figures of the documentation, drawn anew by every build."""

from pathlib import Path

from matplotlib.axes import Axes

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
    axes |= _of_worlds()
    for name, ax in axes.items():
        (folder / f"{name}.png").write_bytes(plots.image(ax, "png"))


def _of_worlds() -> dict[str, Axes]:
    """Figures of many clients, by density and quantiles."""
    large, small = fm.scenarios.job_server(20_000), fm.scenarios.job_server(1000)
    plan, free = fm.solve_world(large), fm.solve_world(large.without_quotas())
    policy = fm.dispatch_policy(small, fm.solve_world(small), "fair")
    return {
        "world-shares": plots.plot_world(large, plan),
        "world-payers": plots.plot_payers(large, plan, free),
        "world-history": plots.plot_world_history(fm.simulate_world(small, policy, 2000)),
    }
