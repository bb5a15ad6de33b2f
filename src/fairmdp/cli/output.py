"""What commands print and keep: an answer, and the files that were asked for. As JSON the answer is all."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import fairmdp as fm
from fairmdp import files, views

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmdp.tables import Table


def answer(
    quiet: bool, data: Callable[..., dict[str, Any]], text: Callable[..., str], name: str, *found: Any
) -> None:
    """Print a result: its data as JSON where nothing else is to be printed, or in words under a name."""
    click.echo(views.as_json(data(*found)) if quiet else text(name, *found))


def watched(show: Callable[..., None], quiet: bool) -> Callable[..., None] | None:
    """What shows progress, if somebody waits at a terminal."""
    return None if quiet or not sys.stderr.isatty() else show


def figure(path: str | None, draw: Callable[[], Axes], quiet: bool) -> None:
    """Write what `draw` draws, if a file was named, and say so."""
    if path is not None:
        content(path, views.plots.image(draw(), Path(path).suffix.lower()[1:]), quiet)


def table(path: str | None, made: Callable[[], Table], quiet: bool) -> None:
    """Write a table as CSV, if a file was named, and say so."""
    if path is not None:
        content(path, made().to_csv().encode(), quiet)


def content(path: str, data: bytes, quiet: bool) -> None:
    """Write a file, and say so."""
    files.write_bytes(path, data)
    saved(path, quiet)


def policy(path: str | None, problem: fm.Problem, found: Any, quiet: bool) -> None:
    """Write the policy of a result, if a file was named, and say so."""
    if path is not None:
        fm.Policy.of(problem, found).save(path)
        saved(path, quiet)


def saved(path: str, quiet: bool, *recheck: str) -> None:
    """Say that a file was written, and by which words after ``fairmdp`` what is in it can be checked."""
    if not quiet:
        again = f"   (recheck: fairmdp {shlex.join(recheck)})" if recheck else ""
        click.echo(f"  saved   {path}{again}")
