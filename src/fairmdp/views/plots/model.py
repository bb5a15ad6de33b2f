"""Figures of a policy and of the model that it moves through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, real_vector
from fairmdp.model.mdp import MDP
from fairmdp.views.plots.style import BLUE, ORANGE, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

_MOST_ROWS = 120  # states of a policy that can still be read
_MOST_ACTIONS = 40
_MOST_NODES = 40
_MOST_ARROWS = 3  # for every state, the widest ones
_FAINT = 1e-3  # flow below this part of the largest is not drawn


def plot_policy(mdp: MDP, policy: ArrayLike, ax: Axes | None = None) -> Axes:
    """Probability of every action in every state as a heat-map; grey where an action is not available."""
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
    size = (1.6 + 0.3 * len(actions), 1.3 + 0.14 * mdp.n_states)
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


def plot_graph(mdp: MDP, occupancy: ArrayLike, ax: Axes | None = None) -> Axes:
    """States of a small model on a circle, as large as their share; arrows as wide as their flow."""
    if mdp.n_states > _MOST_NODES:
        raise ProblemError(f"a graph of {mdp.n_states} states cannot be read (up to {_MOST_NODES} can)")
    x = real_vector("occupancy", occupancy, mdp.n_pairs)
    shares = np.bincount(mdp.s_of, weights=x, minlength=mdp.n_states)
    flow = np.zeros((mdp.n_states, mdp.n_states))
    often = x if mdp.durations is None else x / mdp.durations
    np.add.at(flow, mdp.s_of, often[:, None] * mdp.P.toarray())
    angle = np.pi / 2 - 2 * np.pi * np.arange(mdp.n_states) / mdp.n_states
    places = np.column_stack([np.cos(angle), np.sin(angle)]) if mdp.n_states > 1 else np.zeros((1, 2))
    crowd = min(1.0, 3.2 / np.sqrt(mdp.n_states))
    radius = crowd * (0.05 + 0.22 * np.sqrt(shares / shares.max()))
    with drawing(ax, (3.8, 3.4)) as ax:
        ax.set_aspect("equal")
        ax.set_axis_off()
        ax.set(xlim=(-1.7, 1.7), ylim=(-1.5, 1.5))
        _arrows(ax, places, radius, flow)
        for s, (place, share) in enumerate(zip(places, shares, strict=True)):
            _node(ax, place, float(radius[s]), f"{mdp.state_name(s)}\n{100 * share:.0f} %")
    return ax


def _arrows(ax: Axes, places: Floats, radius: Floats, flow: Floats) -> None:
    from matplotlib.patches import FancyArrowPatch

    widest = flow.max()
    least = np.sort(flow, axis=None)[-min(_MOST_ARROWS * flow.shape[0], flow.size)]
    for s, t in np.argwhere((flow > _FAINT * widest) & (flow >= least)):
        width = 0.4 + 3.6 * flow[s, t] / widest
        look = {"color": ORANGE if s == t else "0.45", "linewidth": width, "zorder": 1}
        if s == t:
            outward = places[s] / (np.linalg.norm(places[s]) or 1.0)
            ax.add_patch(_loop(places[s] + outward * radius[s], 0.5 * radius[s] + 0.05, look))
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


def _loop(centre: Floats, radius: float, look: dict[str, object]) -> Patch:
    from matplotlib.patches import Circle

    return Circle((float(centre[0]), float(centre[1])), radius, fill=False, **{**look, "zorder": 0})


def _node(ax: Axes, place: Floats, radius: float, label: str) -> None:
    """A disk with its label inside, or outside where it is too small."""
    from matplotlib.patches import Circle

    ax.add_patch(Circle((float(place[0]), float(place[1])), radius, color=BLUE, zorder=2))
    inside = radius > (0.2 if len(label) < 16 else 0.25)
    spot = place if inside else place * (1 + (1.5 * radius + 0.22) / (np.linalg.norm(place) or 1.0))
    color = "white" if inside else "black"
    ax.text(spot[0], spot[1], label, ha="center", va="center", color=color, fontsize=6, zorder=3)
