# What `fairmdp.views.plots` offers, loaded at first use.
from .fairness import plot_comparison, plot_frontier, plot_grid, plot_shares
from .model import plot_graph, plot_policy
from .online import plot_online
from .paper import (
    plot_bias_floor,
    plot_gap,
    plot_quota_rewards,
    plot_quota_shares,
    plot_reward,
    plot_visitation,
)
from .style import image
from .world import plot_payers, plot_world, plot_world_frontier, plot_world_history

__all__ = [
    "image",
    "plot_bias_floor",
    "plot_comparison",
    "plot_frontier",
    "plot_gap",
    "plot_graph",
    "plot_grid",
    "plot_online",
    "plot_payers",
    "plot_policy",
    "plot_quota_rewards",
    "plot_quota_shares",
    "plot_reward",
    "plot_shares",
    "plot_visitation",
    "plot_world",
    "plot_world_frontier",
    "plot_world_history",
]
