"""Figures of who gets what, and of what that costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmdp.certificate import FAIR_TOL
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats
from fairmdp.views.format import shortened, slack
from fairmdp.views.plots.style import BEYOND, DASHED, DOES, EXACT, LETTER, OWED, POLICIES, SIZE, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import Formatter

    from fairmdp.frontiers import Comparison, Frontier, FrontierGrid
    from fairmdp.model.problem import Problem

_MOST_GROUPS = 20
_MOST_NUMBERS = 150  # cells of a grid up to which numbers are written into them
_MOST_TICKS = 6
_ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
_LONG = 12  # letters of a name, from which on names stand below each other


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
    long = max(map(len, shares)) > _LONG
    tall = 0.9 + 0.1 * groups.size * (len(shares) + 1) + (0.12 * len(shares) if long else 0.0)
    beside = LETTER * max(len(problem.names[k]) for k in groups)
    above = LETTER * max(map(len, shares)) + 0.6 if long else 2.5
    with drawing(ax, (max(SIZE[0], beside + above), tall)) as ax:
        for k, (name, values) in enumerate(shares.items()):
            color = POLICIES[k % len(POLICIES)]
            places = y - 0.4 + (k + 0.5) * height
            ax.barh(places, values[groups], 0.9 * height, color=color, label=name)
            if len(shares) == 1:
                at = _at_bound(problem, values)[groups]
                ax.barh(
                    places[at], values[groups][at], 0.9 * height, color=EXACT, label="exactly at its bound"
                )
        for bounds, asked, label, color in (
            (owed, owed > 0, "at least", OWED), (most, most < 1, "at most", BEYOND),
        ):  # fmt: skip
            if asked[groups].any():
                at = asked[groups]
                lines: dict[str, Any] = {"color": color, "linewidth": 1.6, "zorder": 3}
                ax.vlines(bounds[groups][at], y[at] - 0.46, y[at] + 0.46, label=label, **lines)
        ax.set_yticks(y, [problem.names[k] for k in groups])
        ax.set(xlabel="share of time", ylim=(groups.size - 0.45, -0.55))
        ax.set_xlim(left=0)
        ax.xaxis.set_major_formatter(_percent_ticks())
        ax.grid(visible=False, axis="y")
        ax.set_axisbelow(True)
        ax.tick_params(axis="y", length=0)
        ax.legend(ncols=1 if long else 3, columnspacing=1.2, **_ABOVE)
    return ax


def plot_comparison(problem: Problem, comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Shares of every group under each policy, with what it earns and its worst slack."""
    shares = {}
    for name, seen in comparison.policies.items():
        worst = float(seen.slacks.min(initial=np.inf))
        shares[f"{name}: gain {seen.gain:.4g}, worst slack {slack(worst)}"] = seen.shares
    return plot_shares(problem, shares, ax)


def plot_frontier(curve: Frontier, ax: Axes | None = None, *, problem: Problem | None = None) -> Axes:
    """Best gain against what is owed, or a cap, with its breakpoints and the last value that can be met.

    With its problem, where the quota stands now is marked, and shares are per cent. A curve that may jump is
    drawn in steps: between two values it is no lower than at the one that asks for more.
    """
    with drawing(ax, (SIZE[0], SIZE[1] + 0.5)) as ax:
        feasible = np.isfinite(curve.gains)
        if not feasible.any():
            raise ProblemError("no value of this frontier can be met, so there is nothing to draw")
        x, y = curve.values[feasible], curve.gains[feasible]
        share = problem is not None and not curve.is_factor and not _weighted(problem, curve.quota)
        cap = curve.bound == "at_most"
        form: Any = {} if curve.concave else {"drawstyle": "steps-pre"}
        ax.plot(x, y, color=DOES, marker="o", markersize=3.5, zorder=3, label="best gain", **form)
        ax.axhline(y[0], color="0.25", label="without this cap" if cap else "without this quota", **DASHED)
        step: Any = {} if curve.concave else {"step": "pre"}
        ax.fill_between(x, y, y[0], color=OWED, alpha=0.2, linewidth=0, label="what fairness costs", **step)
        now = None if problem is None else _now(curve, problem)
        if now is not None:
            label = f"{'allowed' if cap else 'owed'} now, {_value(now, share)}"
            ax.axvline(now, color=OWED, linewidth=1.2, label=label, zorder=2)
        if curve.exact:
            last = _value(x[-1], share)
            limit = f"not below {last}" if cap else f"up to {last} can be met"
            ax.axvline(x[-1], color=BEYOND, linewidth=1.0, linestyle=(0, (1.5, 1.5)), label=limit)
        of = f"{'allowed' if cap else 'owed'} to {shortened(curve.quota)}"
        of = "factor on all quotas" if curve.is_factor else of
        ax.set(xlabel=f"share {of}" if share else of, ylabel="best long-run average reward")
        if share:
            ax.xaxis.set_major_formatter(_percent_ticks())
        ax.legend(ncols=2, columnspacing=1.2, handlelength=1.5, **_ABOVE)
    return ax


def _now(curve: Frontier, problem: Problem) -> float | None:
    """Where the bound that moves stands in a problem; None where it asks for nothing."""
    if curve.is_factor:
        return 1.0
    if curve.quota not in problem.names:
        return None
    k = problem.quota_index(curve.quota)
    capped, low, high = problem.at_most[k] < 1, problem.lower[k], problem.upper[k]
    if curve.bound == "at_most":
        return float(high) if capped else None
    return float(low) if problem.at_least[k] > 0 else None


def _weighted(problem: Problem, quota: str) -> bool:
    return quota in problem.names and bool(problem.weighted[problem.quota_index(quota)])


def _at_bound(problem: Problem, shares: Floats) -> Bools:
    """Which shares stand exactly at a bound that asks for something, (K,)."""
    low, high = problem.at_least, problem.at_most
    least, most = np.abs(shares - low) <= FAIR_TOL, np.abs(shares - high) <= FAIR_TOL
    exact: Bools = ((low > 0) & least) | ((high < 1) & most)
    return exact


def _value(value: float, share: bool) -> str:
    return f"{100 * value:.4g} %" if share else f"{value:.4g}"


def _percent_ticks() -> Formatter:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda share, _: f"{100 * share:.3g} %")


def plot_grid(grid: FrontierGrid, ax: Axes | None = None, *, problem: Problem | None = None) -> Axes:
    """Best gain for combinations of two quotas as a heat-map; hatched where no policy is fair.

    With their problem, shares are per cent.
    """
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
        for way, values, quota in zip("yx", (rows, columns), grid.quotas, strict=True):
            share = problem is not None and not _weighted(problem, quota)
            ax.set(**{f"{way}label": f"share owed to {quota}{', in %' if share else ''}"})
            _ticks(ax.set_xticks if way == "x" else ax.set_yticks, 100 * values if share else values)
        ax.grid(visible=False)
    return ax


def _ticks(put: Callable[..., object], values: Floats) -> None:
    """Some of the values, evenly spaced and the last one among them, where there are many."""
    step = -(-(values.size - 1) // (_MOST_TICKS - 1)) or 1
    shown = np.arange((values.size - 1) % step, values.size, step)
    put(shown, [f"{values[k]:.3g}" for k in shown])
