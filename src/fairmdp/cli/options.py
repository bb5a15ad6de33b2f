"""Options of commands, stated once: each command's are the fields of a frozen dataclass, `options` adds them.

Those that many commands share are here, and `problem_options`, which says which problem is meant.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairmdp import files, io, views
from fairmdp.cli.words import FILE, SourceWord
from fairmdp.errors import SourceError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

F = TypeVar("F", bound=Callable[..., Any])

POSITIVE = click.FloatRange(0, min_open=True)


def option(*names: str, **settings: Any) -> Any:
    """A field of a dataclass of options: how it is written on the command line."""
    return field(metadata={"option": (names, settings)})


def options(kind: type[Any]) -> Callable[[F], Callable[..., Any]]:
    """Add the options that are the fields of a dataclass; the command gets them as ``options``."""

    def add(command: F) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(**given: Any) -> Any:
            own = {each.name: given.pop(each.name) for each in fields(kind)}
            return command(**given, options=kind(**own))

        for each in reversed(fields(kind)):
            names, settings = each.metadata["option"]
            click.option(*names, each.name, **settings)(call)
        return call

    return add


def problem_options(command: F) -> Callable[..., Any]:
    """Add the argument and the options that say which problem is meant; the command gets an `io.Source`."""

    @functools.wraps(command)
    def call(
        source: str,
        params: tuple[str, ...],
        rho: str | None,
        quotas: tuple[str, ...],
        reward: str | None,
        groups: str | None,
        members: tuple[str, ...],
        start: str | None,
        **rest: Any,
    ) -> Any:
        named = io.Source(
            source, params, rho, quotas, reward=reward, groups=groups, members=members, start=start
        )
        with usage_errors():
            return command(source=named, **rest)

    for add in (
        click.option(
            "--quota", "quotas", multiple=True, metavar="NAME>=SHARE",
            help="Bound a quota, a label, a state or a state/action, e.g. 'ward_b>=0.25' or 'idle<=10%'; "
            "also as 'LRA>=0.25 [\"ward_b\"]'. Repeatable.",
        ),
        click.option("--rho", metavar="SHARES", help="One least share per state, e.g. 0.1,0.1,0.25."),
        click.option(
            "--group", "members", multiple=True, metavar="NAME=STATES",
            help="Name a group of states, to be bounded by --quota: 'short=0,1,4' (semicolons, where names "
            "have commas). Repeatable.",
        ),
        click.option(
            "--groups", type=FILE, metavar="TABLE",
            help="Table with columns state and group (and at_least, at_most): one quota for each group.",
        ),
        click.option("--start", metavar="STATE", help="The state in which runs start."),
        click.option("--reward", metavar="NAME", help="The reward to earn, where the model has several."),
        click.option(
            "--param", "-p", "params", multiple=True, metavar="KEY=VALUE",
            help="Parameter of a ready-made problem, e.g. n_states=50, or of a function; of a table which "
            "column is what, e.g. next=to; of a PRISM or JANI model a constant. Repeatable.",
        ),
        click.argument("source", type=SourceWord()),
    ):  # fmt: skip
        add(call)
    return call


@contextmanager
def usage_errors() -> Iterator[None]:
    """Words that name no problem are mistakes in the command line."""
    try:
        yield
    except SourceError as error:
        raise click.UsageError(str(error)) from None


def json_option(what: str) -> Any:
    """The option ``--json``."""
    return option("--json", is_flag=True, help=f"Print the {what} as JSON.")


def seed_option(of: str = "Everything random follows from it.") -> Any:
    """The option ``--seed``."""
    return option("--seed", default=0, show_default=True, help=of)


def _drawable(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    if path is not None and Path(path).suffix.lower() not in (".png", ".pdf", ".svg"):
        raise click.UsageError(f"--figure {path}: expected a name that ends in .png, .pdf or .svg")
    return path


def figure_option() -> Any:
    """The option ``--figure``."""
    return option("--figure", type=FILE, callback=_drawable, help="Draw it: .png, .pdf or .svg.")


def save_figure(path: str | None, draw: Callable[[], Axes], quiet: bool) -> None:
    """Write what `draw` draws, if a file was named, and say so."""
    if path is not None:
        save_bytes(path, views.plots.image(draw(), Path(path).suffix.lower()[1:]), quiet)


def save_bytes(path: str, content: bytes, quiet: bool) -> None:
    """Write a file, and say so."""
    files.write_bytes(path, content)
    if not quiet:
        click.echo(f"  saved   {path}")


def check_file(option: str, file: str | None, *endings: str) -> None:
    """Raise where a file cannot be written in the end: for its name, or because there is no such folder."""
    if file is None:
        return
    if not Path(file).absolute().parent.is_dir():
        raise click.UsageError(f"{option} {file}: there is no such folder")
    if endings and Path(file).suffix.lower() not in endings:
        raise click.UsageError(f"{option} {file}: expected a name that ends in {' or '.join(endings)}")
