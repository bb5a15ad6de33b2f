"""Figures of worlds, for any number of components: densities, no bar for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats
from fairmdp.views.plots.style import BEYOND, DASHED, DOES, EXACT, OWED, drawing
from fairmdp.views.world import quota_shares, reward_changes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmdp.dispatch.simulation import WorldSimulation
    from fairmdp.frontiers import WorldFrontier
    from fairmdp.world.plan import WorldPlan
    from fairmdp.world.world import World

_MOST_POINTS = 2000
_FEWEST_IN_BAR = 8
_BARS = 60
_ALIKE = 1e-9  # shares that differ by less ask for the same


def plot_world(world: World, plan: WorldPlan, ax: Axes | None = None, *, side: int = 0) -> Axes:
    """What components have of a local quota, against what each is asked for; the density of many.

    ``side`` says which of `World.sides`. Where all are asked for the same, the density of what they have.
    """
    if not world.sides or not plan.has_policy:
        raise ProblemError("there are no shares to draw: the world has no local quota, or no plan")
    asked, has, _ = quota_shares(world, plan, side)
    if not asked.size:
        raise ProblemError("there are no shares to draw: no component is owed anything")
    name = world.quotas[world.sides[side].quota].name
    with drawing(ax) as ax:
        if np.ptp(asked) <= _ALIKE:
            _density(ax, has, f"share of {name}")
            ax.axvline(asked[0], color=OWED, label="asked")
        else:
            _against(ax, asked, has)
            ends = np.array([asked.min(), asked.max()])
            ax.plot(ends, ends, color=OWED, linewidth=1.2, label="asked")
            ax.set(xlabel=f"share asked, {name}", ylabel="share had")
        ax.legend()
    return ax


def plot_payers(world: World, plan: WorldPlan, free: WorldPlan, ax: Axes | None = None) -> Axes:
    """How many components earn how much more or less than without quotas, on a logarithmic scale.

    ``free`` is the plan of `World.without_quotas`.
    """
    change, number, _ = reward_changes(world, plan, free)
    with drawing(ax) as ax:
        room = 0.0 if np.ptp(change) else 1e-3
        edges = np.linspace(change.min() - room, change.max() + room, _BARS + 1).tolist()
        for inside, color, label in (
            (change < 0, BEYOND, "pay"), (change >= 0, EXACT, "gain, or are as before")
        ):  # fmt: skip
            ax.hist(change[inside], edges, weights=number[inside], color=color, label=label)
        ax.axvline(0.0, color="0.4", **DASHED)
        ax.set_yscale("log")
        ax.set(xlabel="reward of a component, less that without quotas", ylabel="components")
        ax.legend()
    return ax


def plot_world_frontier(curve: WorldFrontier, ax: Axes | None = None) -> Axes:
    """Proved ceilings against a capacity, or against what a quota asks of all alike."""
    met = np.isfinite(curve.uppers)
    if not met.any():
        raise ProblemError("no value of this frontier can be met, so there is nothing to draw")
    with drawing(ax) as ax:
        order = np.argsort(curve.values[met], kind="stable")
        ax.plot(
            curve.values[met][order],
            curve.uppers[met][order],
            "o-",
            color=DOES,
            markersize=3,
            label="ceiling",
        )
        infeasible = np.array([status == "infeasible" for status in curve.statuses])
        if infeasible.any():
            least, largest = curve.values[infeasible].min(), curve.values[infeasible].max()
            ax.axvspan(least, largest, color=BEYOND, alpha=0.12, linewidth=1.0, label="quotas cannot be met")
        ax.set(
            xlabel=f"{'capacity' if curve.capacity else 'asked of all alike'}, {curve.name}", ylabel="gain"
        )
        ax.legend()
    return ax


def plot_world_history(seen: WorldSimulation, ax: Axes | None = None) -> Axes:
    """How far behind clients are during a simulation, in quantiles over all who are owed something."""
    history = seen.history
    if not np.isfinite(history.arrears).all():
        raise ProblemError("there are no arrears to draw: nobody is owed anything")
    with drawing(ax) as ax:
        for low, high, shade, label in ((0, 6, 0.12, "all"), (1, 5, 0.25, "90 %"), (2, 4, 0.45, "half")):
            ax.fill_between(
                history.steps, history.arrears[:, low], history.arrears[:, high], color=DOES, alpha=shade,
                linewidth=0, label=label,
            )  # fmt: skip
        ax.plot(history.steps, history.arrears[:, 3], color=DOES, label="median")
        ax.axhline(0.0, color=OWED, **DASHED)
        ax.set(xlabel="step", ylabel="steps behind what is owed")
        ax.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return ax


def _density(ax: Axes, values: Floats, label: str) -> None:
    ax.hist(values, min(_BARS, max(5, values.size // _FEWEST_IN_BAR)), density=True, color=DOES, label="had")
    ax.set(xlabel=label, ylabel="density of components")


def _against(ax: Axes, asked: Floats, has: Floats) -> None:
    """Every component as a point; of many how dense they lie."""
    if asked.size <= _MOST_POINTS:
        ax.plot(asked, has, "o", color=DOES, alpha=0.5, markersize=2.5, markeredgewidth=0, label="had")
        return
    seen = ax.hist2d(asked, has, _BARS, norm="log", cmap="Blues")
    figure = ax.get_figure()
    assert figure is not None
    figure.colorbar(seen[3], ax=ax, label="components")
