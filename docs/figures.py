"""The figures of the documentation, drawn anew by every build."""

from pathlib import Path

import fairmdp as fm
from fairmdp import plots, reproduce


def draw(folder: Path) -> None:
    """Write every figure as ``<name>.png``."""
    folder.mkdir(exist_ok=True)
    axes = {
        "frontier": plots.plot_frontier(fm.frontier(fm.scenarios.three_state(), "s2")),
        "taxi-frontier": plots.plot_frontier(fm.frontier(fm.scenarios.taxi(), "zone3")),
        "visitation": plots.plot_visitation(reproduce.convergence(runs=20)),
        "bias-floor": plots.plot_bias_floor(reproduce.bias_floor(runs=10)),
    }
    for name, ax in axes.items():
        (folder / f"{name}.png").write_bytes(plots.image(ax, "png"))
