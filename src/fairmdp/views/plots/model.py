"""Figures of a policy and of the model that it moves through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, real_vector
from fairmdp.model.mdp import MDP
from fairmdp.policy.policy import Policy
from fairmdp.views.format import percent
from fairmdp.views.plots.style import DOES, LETTER, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

_MOST_ROWS = 120  # states of a policy that can still be read
_MOST_ACTIONS = 40
_MOST_NODES = 40
_MOST_ARROWS = 3  # for every state, the widest ones
_CROWD = 8  # states from which on names stand outside
_ARROW = "0.4"
_MOST_PANELS = 4  # policies of a mixture, the likeliest
_FAINT = 1e-3  # flow below this part of the largest is not drawn


def plot_policy(mdp: MDP, policy: ArrayLike | Policy, ax: Axes | None = None) -> Axes:
    """Probability of every action in every state as a heat-map; grey where an action is not available.

    The policies of a mixture stand side by side, each with how likely a run is to follow it.
    """
    if isinstance(policy, Policy):
        if policy.is_mixture:
            return _side_by_side(mdp, policy)
        policy = policy.array
    policy = real_vector("policy", policy, mdp.n_pairs)
    names = [mdp.action_name(i) for i in range(mdp.n_pairs)] if mdp.n_states <= _MOST_ROWS else []
    actions = list(dict.fromkeys(names))
    if not 0 < len(actions) <= _MOST_ACTIONS:
        raise ProblemError(
            f"a heat-map of {mdp.n_states} states and their actions cannot be read "
            f"(up to {_MOST_ROWS} states and {_MOST_ACTIONS} actions can)"
        )
    number = {name: j for j, name in enumerate(actions)}
    table = np.full((mdp.n_states, len(actions)), np.nan)
    table[mdp.s_of, [number[name] for name in names]] = policy
    longest = max(len(mdp.state_name(s)) for s in range(mdp.n_states))
    size = (1.4 + LETTER * longest + 0.3 * len(actions), 1.3 + 0.14 * mdp.n_states)
    with drawing(ax, size) as ax:
        ax.set_facecolor("0.9")
        picture = ax.imshow(np.ma.masked_invalid(table), cmap="Blues", vmin=0, vmax=1, aspect="auto")
        figure = ax.get_figure()
        assert figure is not None
        bar = figure.colorbar(picture, ax=ax, label="probability", shrink=min(1.0, 2 / size[1]))
        bar.outline.set_visible(False)
        slanted: dict[str, Any] = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(range(len(actions)), actions, **(slanted if max(map(len, actions)) > 3 else {}))
        ax.set_yticks(range(mdp.n_states), map(mdp.state_name, range(mdp.n_states)))
        ax.set_xticks(np.arange(len(actions) + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(mdp.n_states + 1) - 0.5, minor=True)
        ax.grid(visible=False)
        ax.grid(which="minor", color="white", linewidth=0.8)
        ax.tick_params(which="both", length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)
        ax.set(xlabel="action", ylabel="state")
    return ax


def _side_by_side(mdp: MDP, mixture: Policy) -> Axes:
    panels = min(len(mixture.weights), _MOST_PANELS)
    with drawing(None, (2.4 * panels, 1.5 + 0.14 * mdp.n_states), panels) as first:
        figure = first.get_figure()
        assert figure is not None
        likeliest = np.argsort(-mixture.weights, kind="stable")[:panels]
        for ax, m in zip(figure.axes[:panels], likeliest.tolist(), strict=True):
            plot_policy(mdp, mixture.parts[m], ax)
            ax.set_title(f"{percent(mixture.weights[m])} of runs")
    return first


def plot_graph(mdp: MDP, occupancy: ArrayLike, ax: Axes | None = None) -> Axes:
    """States of a small model on a circle, as large as their share; arrows as wide as their flow."""
    if mdp.n_states > _MOST_NODES:
        raise ProblemError(f"a graph of {mdp.n_states} states cannot be read (up to {_MOST_NODES} can)")
    x = real_vector("occupancy", occupancy, mdp.n_pairs)
    shares = np.bincount(mdp.s_of, weights=x, minlength=mdp.n_states)
    flow = np.zeros((mdp.n_states, mdp.n_states))
    often = x if mdp.durations is None else x / mdp.durations
    np.add.at(flow, mdp.s_of, often[:, None] / (often.sum() or 1.0) * mdp.P.toarray())
    angle = np.pi / 2 - 2 * np.pi * np.arange(mdp.n_states) / mdp.n_states
    places = np.column_stack([np.cos(angle), np.sin(angle)]) if mdp.n_states > 1 else np.zeros((1, 2))
    many = mdp.n_states > _CROWD
    crowd = min(1.0, 2.4 / np.sqrt(mdp.n_states))
    radius = crowd * (0.05 + 0.22 * np.sqrt(shares / (shares.max() or 1.0)))
    with drawing(ax, (5.2, 4.6) if many else (3.8, 3.6)) as ax:
        ax.set_aspect("equal")
        ax.set_axis_off()
        ax.set(xlim=(-1.9, 1.9) if many else (-1.7, 1.7), ylim=(-1.4, 1.4) if many else (-1.5, 1.5))
        _arrows(ax, places, radius, flow)
        for s, (place, share) in enumerate(zip(places, shares, strict=True)):
            _node(ax, place, float(radius[s]), mdp.state_name(s), f"{100 * share:.0f} %", many)
        _legend(ax, float(flow.max()))
    return ax


def _legend(ax: Axes, most: float) -> None:
    """What disks and arrows stand for, with the widest arrow and one of a tenth of it."""
    from matplotlib.lines import Line2D

    disk: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 6, "color": DOES}
    arrows = (_look(part) | {"linewidth": _width(part)} for part in (1.0, 0.1))
    handles = [Line2D([], [], **disk), *(Line2D([], [], **look) for look in arrows)]
    labels = [
        "state, as large as its share of time",
        f"{100 * most:.2g} % of all steps",
        f"{10 * most:.2g} %",
    ]
    ax.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3, columnspacing=1.2)


def _width(part: float) -> float:
    """Width of an arrow with this part of the largest flow."""
    return 0.4 + 3.6 * part


def _look(part: float) -> dict[str, Any]:
    return {"color": _ARROW, "alpha": 0.3 + 0.7 * part}


def _arrows(ax: Axes, places: Floats, radius: Floats, flow: Floats) -> None:
    from matplotlib.patches import FancyArrowPatch

    widest = flow.max()
    least = np.sort(flow, axis=None)[-min(_MOST_ARROWS * flow.shape[0], flow.size)]
    for s, t in np.argwhere((flow > _FAINT * widest) & (flow >= least)):
        part = float(flow[s, t] / widest)
        width = _width(part)
        look = _look(part) | {"linewidth": width, "zorder": 1}
        if s == t:
            outward = places[s] / (np.linalg.norm(places[s]) or 1.0)
            ax.add_patch(_loop(places[s] - outward * radius[s], 0.5 * radius[s] + 0.05, look))
            continue
        head = f"-|>,head_length={2 + width},head_width={1 + 0.6 * width}"
        way = (places[t] - places[s]) / np.linalg.norm(places[t] - places[s])
        aside = 0.35 * np.array([way[1], -way[0]])  # where a line that bends away leaves and arrives
        leave = (way - aside) / np.linalg.norm(way - aside)
        arrive = (-way - aside) / np.linalg.norm(way + aside)
        ends = places[s] + leave * radius[s], places[t] + arrive * radius[t]
        bent = "arc3,rad=-0.18"
        ax.add_patch(
            FancyArrowPatch(*ends, arrowstyle=head, connectionstyle=bent, shrinkA=0, shrinkB=0, **look)
        )


def _loop(centre: Floats, radius: float, look: dict[str, Any]) -> Patch:
    from matplotlib.patches import Circle

    return Circle((float(centre[0]), float(centre[1])), radius, fill=False, **{**look, "zorder": 0})


def _node(ax: Axes, place: Floats, radius: float, name: str, share: str, many: bool) -> None:
    """A disk with its name and share inside or, where it is too small or there are many, outside."""
    from matplotlib.patches import Circle

    ax.add_patch(Circle((float(place[0]), float(place[1])), radius, color=DOES, zorder=2))
    style: dict[str, Any] = {"va": "center", "fontsize": 6, "zorder": 3}
    if not many and radius > (0.2 if len(name) < 11 else 0.25):
        ax.text(float(place[0]), float(place[1]), f"{name}\n{share}", ha="center", color="white", **style)
        return
    way = place / (np.linalg.norm(place) or 1.0)
    spot = place + way * (radius + 0.07)
    side = "center" if abs(way[0]) < 0.2 else "left" if way[0] > 0 else "right"
    upright = {"va": "bottom" if way[1] > 0 else "top"} if side == "center" else {}
    ax.text(float(spot[0]), float(spot[1]), f"{name}, {share}", ha=side, **(style | upright))
