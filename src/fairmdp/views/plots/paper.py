"""Figures of the paper's experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairmdp.views.plots.style import BLUE, DASHED, GREEN, ORANGE, PURPLE, RED, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmdp.mirror.experiments import Curve


def plot_reward(curve: Curve, ax: Axes | None = None) -> Axes:
    """Reward of the learned policy, and of the averaged iterate, against the number of steps."""
    with drawing(ax) as ax:
        ax.axhline(curve.optimum, color="0.25", label="optimum", **DASHED)
        _band(ax, curve, "reward_avg", ORANGE, r"$r^\top x^\varepsilon$, averaged iterate")
        _band(ax, curve, "reward", BLUE, r"$r^\top x$, its policy")
        _steps(ax, curve)
        ax.set(ylabel="average reward", ylim=(0.34, 0.48))
        ax.legend(loc="lower right")
    return ax


def plot_visitation(curve: Curve, ax: Axes | None = None) -> Axes:
    """Long-run share of each state under the learned policy, with what it is owed."""
    with drawing(ax) as ax:
        for s, color in enumerate((BLUE, ORANGE, GREEN)):
            # Dashes are shifted from state to state, so that equal quotas show both colours.
            ax.axhline(curve.rho[s], color=color, linewidth=1.0, linestyle=(5 * s, (4, 6 if s < 2 else 2)))
            _band(ax, curve, f"nu{s}", color, f"$s_{s}$")
        _steps(ax, curve)
        ax.plot([], [], color="0.25", label="owed", **DASHED)
        ax.set(ylabel="share of time", ylim=(0, 0.45))
        ax.legend(loc="lower right", ncols=4, columnspacing=1.2, handlelength=1.8)
    return ax


def plot_gap(curve: Curve, ax: Axes | None = None) -> Axes:
    """Gap of the averaged iterates, and how much less than the optimum the policy earns."""
    with drawing(ax) as ax:
        _band(ax, curve, "gap", BLUE, r"Gap$(x^\varepsilon, \lambda^\varepsilon)$ with $M = 100$")
        _band(ax, curve, "reward", ORANGE, r"optimum $-\ r^\top x$", below=curve.optimum)
        ax.set(xscale="log", yscale="log", xlim=(curve.t[0], curve.t[-1]), ylim=(3e-3, 1.5e3))
        ax.set(xlabel="steps $T$", ylabel="gap, reward difference")
        ax.legend(loc="upper right", ncols=2, columnspacing=1.2)
    return ax


def plot_quota_rewards(curves: Sequence[Curve], ax: Axes | None = None) -> Axes:
    """Reward of the learned policy for each quota of the third state; dashed: the optima."""
    with drawing(ax) as ax:
        _by_quota(ax, curves, "reward", [curve.optimum for curve in curves], "optimum")
        ax.set(ylabel=r"average reward $r^\top x$", ylim=(0.34, 0.54))
    return ax


def plot_quota_shares(curves: Sequence[Curve], ax: Axes | None = None) -> Axes:
    """Share of the third state for each quota on it; dashed: the quotas."""
    with drawing(ax) as ax:
        _by_quota(ax, curves, "nu2", [curve.rho[2] for curve in curves], "owed")
        ax.set(ylabel="share of time in $s_2$", ylim=(0.05, 0.35))
    return ax


def plot_bias_floor(curves: Sequence[Curve], ax: Axes | None = None) -> Axes:
    """Error of the reward against the horizon: constant steps stop improving, our default does not."""
    looks = {
        "constant": (ORANGE, "o", r"$\eta = 0.01$, whole run (paper)"),
        "constant-half": (RED, "s", r"$\eta = 0.01$, later half"),
        "default": (BLUE, "^", r"our default, $\eta \propto 1/\sqrt{T}$"),
    }
    with drawing(ax) as ax:
        for curve in curves:
            color, marker, label = looks[curve.label]
            # Earning more than the optimum is an error too: the quota is broken then.
            error = np.sqrt(((curve.samples["reward"] - curve.optimum) ** 2).mean(axis=0))
            ax.plot(curve.t, error, color=color, marker=marker, markersize=3, label=label)
        t = curves[0].t
        ax.plot(t, t**-0.5, color="0.5", linewidth=0.8, linestyle=":", label=r"$T^{-1/2}$")
        ax.set(xscale="log", yscale="log", ylim=(2e-4, 6e-2))
        ax.set(xlabel="steps $T$", ylabel=r"root mean square error of $r^\top x$")
        ax.legend(loc="lower left")
    return ax


def _band(
    ax: Axes, curve: Curve, quantity: str, color: str, label: str | None = None, below: float | None = None
) -> None:
    """Mean with a band of one standard deviation; how far it lies `below` a number, if there is one."""
    mean, std = curve.mean(quantity), curve.std(quantity)
    if below is not None:
        mean = below - mean
    ax.fill_between(curve.t, mean - std, mean + std, color=color, alpha=0.2, linewidth=0)
    ax.plot(curve.t, mean, color=color, label=label)


def _by_quota(ax: Axes, curves: Sequence[Curve], quantity: str, due: Sequence[float], name: str) -> None:
    """One curve per quota in the paper's order of colours, each named where its dashed line ends."""
    for curve, level, color in zip(curves, due, (BLUE, ORANGE, GREEN, RED, PURPLE), strict=True):
        ax.axhline(level, color=color, **DASHED)
        _band(ax, curve, quantity, color)
        ax.annotate(
            rf"$\rho_2 = {curve.rho[2]:.2f}$",
            (curve.t[-1], level),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            color=color,
        )
    _steps(ax, curves[0])
    ax.plot([], [], color="0.25", label=name, **DASHED)
    ax.legend(loc="lower right")


def _steps(ax: Axes, curve: Curve) -> None:
    ax.set(xlim=(0, curve.t[-1]), xlabel="steps $T$")
    ax.set_xticks(np.linspace(0, curve.t[-1], 5))
    ax.xaxis.set_major_formatter("{x:,.0f}")
