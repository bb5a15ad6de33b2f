"""The look of all figures: the size of a paper's column, colours that everybody can tell apart."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, RED, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
"""Colours of Okabe and Ito, told apart by colour-blind readers too: of curves side by side."""

DOES, EXACT, OWED, BEYOND = "#2b6cb0", "#0a6b61", "#b45309", "#b42318"
"""As on the page: what a policy does, what stands exactly at its bound, what is owed or paid for it, and what
may not or cannot be. Dashes are without quotas."""

POLICIES = (DOES, "0.62", "#8e6bbf", "#67b7d1", "#c98bb9")
"""One policy beside others, the fair one first."""

_STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # letters stay letters, which journals ask for
    "svg.fonttype": "none",
    "svg.hashsalt": "fairmdp",
}
SIZE = (3.4, 2.5)  # inches
LETTER = 0.06  # inches of a letter of a name
DASHED: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 1.0}


def image(ax: Axes, kind: str) -> bytes:
    """Figure as a ``png`` (300 dots per inch), ``pdf`` or ``svg`` file, the same bytes every time."""
    import matplotlib

    figure = ax.get_figure(root=True)
    assert figure is not None
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
    content = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(content, format=kind, dpi=300, metadata=undated)
    return content.getvalue()


@contextmanager
def drawing(ax: Axes | None, size: tuple[float, float] = SIZE, panels: int = 1) -> Iterator[Axes]:
    """The given axes as they are, or new ones in our style; of several side by side the first."""
    import matplotlib
    from matplotlib.figure import Figure

    if ax is not None:
        yield ax
        return
    with matplotlib.rc_context(_STYLE):
        yield Figure(figsize=size, layout="constrained").subplots(1, panels, squeeze=False)[0][0]
