"""Figure of a run of an agent: what was earned and given so far, and where the accounts stood."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.views.plots.style import BLUE, DASHED, DOES, GREEN, ORANGE, PURPLE, RED, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmdp.model.checks import Bools, Ints
    from fairmdp.online import AgentReport, OnlineRun

_CURVES = (BLUE, ORANGE, GREEN, RED, PURPLE)
_NEAR = 10  # steps of an account that are drawn as they are; what is above by its logarithm
_SIZE = (6.8, 2.5)  # inches, of both panels


def plot_online(run: OnlineRun, upper: float | None = None) -> Axes:
    """Mean reward and realised shares so far, and beside them the accounts of the quotas, in steps.

    Of more quotas than there are colours, those whose accounts are the lowest at the end. ``upper``, what no
    fair policy exceeds in the long run, is drawn where it is given.
    """
    if not run.steps.size:
        raise ProblemError("there is nothing to draw: no step was taken")
    said, t = run.report, run.steps
    owing = np.flatnonzero(np.isfinite(said.accounts))
    shown = np.sort(owing[np.argsort(said.accounts[owing], kind="stable")][: len(_CURVES)])
    with drawing(None, _SIZE, panels=2) as first:
        figure = first.get_figure(root=True)
        assert figure is not None
        second = figure.axes[1]
        first.plot(t, run.gains, color="0.25", label="mean reward")
        if upper is not None:
            first.axhline(upper, color="0.25", label="ceiling", **DASHED)
        for k, color in zip(shown.tolist(), _CURVES, strict=False):
            name = said.quota_names[k]
            first.plot(t, said.units.values(run.shares)[:, k], color=color, label=name)
            for bound in _asked(said, k):
                first.axhline(bound, color=color, **DASHED)
            second.plot(t, run.accounts[:, k], color=color, label=name)
        second.axhline(0.0, color="0.4", **DASHED)
        _shade(second, t, run.restoring)
        first.set(xlabel="steps", ylabel="mean reward, shares")
        second.set(xlabel="steps", ylabel="account, steps")
        second.set_yscale("symlog", linthresh=_NEAR)
        for ax in (first, second):
            ax.set_xscale("log")
            ax.legend()
    return first


def _asked(said: AgentReport, k: int) -> list[float]:
    """Bounds of a quota that ask for something, in its own units."""
    bounds = (said.at_least[k], said.at_least[k] > 0), (said.at_most[k], said.at_most[k] < 1)
    return [float(said.units.of(k).values(bound)) for bound, stated in bounds if stated]


def _shade(ax: Axes, t: Ints, restoring: Bools) -> None:
    """Where the policy in force restored."""
    ax.fill_between(
        t, 0, 1, where=restoring.tolist(), step="pre", color=DOES, alpha=0.15, linewidth=0,
        label="restoring",
        transform=ax.get_xaxis_transform(),
    )  # fmt: skip
