"""Figures in the size of a paper's column. Each function draws on the axes it is given, or on its own.

matplotlib is imported when the first figure is drawn, and pyplot never: figures belong to their caller,
and no window system is needed.
"""

from fairmdp.plots.fairness import plot_frontier, plot_grid, plot_shares
from fairmdp.plots.model import plot_graph, plot_policy
from fairmdp.plots.paper import (
    plot_bias_floor,
    plot_gap,
    plot_quota_rewards,
    plot_quota_shares,
    plot_reward,
    plot_visitation,
)
from fairmdp.plots.style import image

__all__ = [
    "image",
    "plot_bias_floor",
    "plot_frontier",
    "plot_gap",
    "plot_graph",
    "plot_grid",
    "plot_policy",
    "plot_quota_rewards",
    "plot_quota_shares",
    "plot_reward",
    "plot_shares",
    "plot_visitation",
]
