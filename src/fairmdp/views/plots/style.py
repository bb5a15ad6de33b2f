"""The look of all figures: the size of a paper's column, colours that everybody can tell apart."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, RED, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
"""Colours of Okabe and Ito, told apart by colour-blind readers too."""

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
}
SIZE = (3.4, 2.5)  # inches
DASHED: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 1.0}


def image(ax: Axes, kind: str) -> bytes:
    """Figure of some axes as a ``png`` (300 dots per inch) or ``pdf`` file, the same bytes every time."""
    import matplotlib

    figure = ax.get_figure(root=True)
    assert figure is not None
    undated = {"CreationDate": None} if kind == "pdf" else {}
    content = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(content, format=kind, dpi=300, metadata=undated)
    return content.getvalue()


@contextmanager
def drawing(ax: Axes | None, size: tuple[float, float] = SIZE) -> Iterator[Axes]:
    """The given axes as they are, or new ones in our style."""
    import matplotlib
    from matplotlib.figure import Figure

    if ax is not None:
        yield ax
        return
    with matplotlib.rc_context(_STYLE):
        yield Figure(figsize=size, layout="constrained").add_subplot()
