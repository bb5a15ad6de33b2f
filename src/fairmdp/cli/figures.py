"""Figures of a command: ``--figure FILE``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _checked(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    if path is not None and Path(path).suffix.lower() not in (".png", ".pdf"):
        raise click.UsageError(f"--figure {path}: expected a name that ends in .png or .pdf")
    return path


figure_option = click.option(
    "--figure", type=click.Path(dir_okay=False), callback=_checked, help="Draw it: .png or .pdf."
)


def save_figure(path: str | None, draw: Callable[[], Axes], quiet: bool) -> None:
    """Write what `draw` draws, if a file was named, and say so."""
    if path is None:
        return
    from fairmdp.io.atomic import write_bytes
    from fairmdp.plots import image

    write_bytes(path, image(draw(), Path(path).suffix.lower()[1:]))
    if not quiet:
        click.echo(f"  saved   {path}")
