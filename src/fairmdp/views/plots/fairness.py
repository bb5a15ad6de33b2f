"""Figures of who gets what, and of what that costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats
from fairmdp.views.plots.style import BLUE, DASHED, GREEN, ORANGE, PURPLE, RED, SIZE, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmdp.frontiers import Frontier, FrontierGrid
    from fairmdp.model.problem import Problem

_MOST_GROUPS = 20
_MOST_NUMBERS = 150  # cells of a grid up to which numbers are written into them
_COLORS = (BLUE, ORANGE, GREEN, PURPLE, RED)


def plot_shares(problem: Problem, shares: Mapping[str, Floats], ax: Axes | None = None) -> Axes:
    """Share of every group under one or several policies, by name, with what the quotas ask for.

    Of more than twenty groups those with the least slack are shown; quotas with weights are no groups.
    """
    if not shares or problem.weighted.all():
        raise ProblemError("there are no shares to draw: name groups as quotas, and at least one policy")
    owed, most = problem.at_least, problem.at_most
    slack = np.min([np.minimum(s - owed, most - s) for s in shares.values()], axis=0)
    slack[problem.weighted] = np.inf
    shown = min(_MOST_GROUPS, int((~problem.weighted).sum()))
    groups = np.sort(np.argsort(slack, kind="stable")[:shown])
    y, height = np.arange(groups.size), 0.8 / len(shares)
    with drawing(ax, (SIZE[0], 0.9 + 0.1 * groups.size * (len(shares) + 1))) as ax:
        for k, (name, values) in enumerate(shares.items()):
            color = _COLORS[k % len(_COLORS)]
            ax.barh(y - 0.4 + (k + 0.5) * height, values[groups], 0.9 * height, color=color, label=name)
        for bounds, asked, label, style in (
            (owed, owed > 0, "at least", "solid"), (most, most < 1, "at most", (0, (1.5, 1))),
        ):  # fmt: skip
            if asked[groups].any():
                at = asked[groups]
                lines: dict[str, Any] = {"color": "0.1", "linewidth": 1.4, "linestyle": style, "zorder": 3}
                ax.vlines(bounds[groups][at], y[at] - 0.46, y[at] + 0.46, label=label, **lines)
        ax.set_yticks(y, [problem.names[k] for k in groups])
        ax.set(xlabel="share of time", ylim=(groups.size - 0.45, -0.55))
        ax.set_xlim(left=0)
        ax.grid(visible=False, axis="y")
        ax.set_axisbelow(True)
        ax.tick_params(axis="y", length=0)
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2, columnspacing=1.2)
    return ax


def plot_frontier(curve: Frontier, ax: Axes | None = None) -> Axes:
    """Best gain against what is owed, or a cap, with its breakpoints and the last value that can be met."""
    with drawing(ax) as ax:
        feasible = np.isfinite(curve.gains)
        if not feasible.any():
            raise ProblemError("no value of this frontier can be met, so there is nothing to draw")
        x, y = curve.values[feasible], curve.gains[feasible]
        ax.plot(x, y, color=BLUE, marker="o", markersize=3.5, zorder=3)
        ax.axhline(y[0], color="0.25", **DASHED)
        ax.fill_between(x, y, y[0], color=ORANGE, alpha=0.25, linewidth=0, label="price of fairness")
        if curve.exact:
            ax.axvline(x[-1], color=RED, linewidth=1.0, label=f"last feasible, {x[-1]:.4g}")
        cap = f"cap of {curve.quota}"
        owed = "factor on all quotas" if curve.quota == "*" else f"owed to {curve.quota}"
        what = cap if curve.bound == "at_most" else owed
        ax.set(xlabel=what, ylabel="best long-run average reward")
        ax.legend(loc="lower left")
    return ax


def plot_grid(grid: FrontierGrid, ax: Axes | None = None) -> Axes:
    """Best gain for combinations of two quotas as a heat-map; hatched where no policy is fair."""
    with drawing(ax, (4.2, 3.2)) as ax:
        rows, columns = grid.values
        gains = np.ma.masked_invalid(grid.gains)
        ax.set_facecolor("0.93")
        ax.patch.set(hatch="////", edgecolor="0.75", linewidth=0)
        picture = ax.imshow(gains, origin="lower", aspect="auto", cmap="viridis")
        figure = ax.get_figure()
        assert figure is not None
        figure.colorbar(picture, ax=ax, label="best long-run average reward").outline.set_visible(False)
        if gains.size <= _MOST_NUMBERS:
            digits = 3 if gains.shape[1] <= 8 else 2
            middle = (gains.min() + gains.max()) / 2 if gains.count() else 0.0
            for i, j in np.argwhere(~np.ma.getmaskarray(gains)):
                color = "white" if gains[i, j] < middle else "black"
                ax.text(j, i, f"{gains[i, j]:.{digits}f}", ha="center", va="center", color=color, fontsize=6)
        _ticks(ax.set_xticks, columns)
        _ticks(ax.set_yticks, rows)
        ax.set(xlabel=f"share owed to {grid.quotas[1]}", ylabel=f"share owed to {grid.quotas[0]}")
        ax.grid(visible=False)
    return ax


def _ticks(put: Callable[..., object], values: Floats) -> None:
    """Some ten of the values where there are many."""
    shown = np.arange(0, values.size, max(values.size // 10, 1))
    put(shown, [f"{values[k]:.3g}" for k in shown])
