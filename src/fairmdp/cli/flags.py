"""Options of commands: each command's are the fields of a frozen dataclass, and `of` adds them.

Those that several commands have are stated here, with `problem`, which says which problem is meant.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field, fields
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from fairmdp import io, scenarios
from fairmdp.errors import SourceError

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(dir_okay=False)
POSITIVE = click.FloatRange(0, min_open=True)


class Count(click.IntRange):
    """A whole number, which may be written as ``1e6`` or ``200_000``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Text as a number within the range."""
        if isinstance(value, str):
            try:
                value = io.whole(value)
            except ValueError:
                self.fail(f"{value!r} is not a whole number, such as 20000 or 2e4", param, ctx)
        number: int = super().convert(value, param, ctx)
        return number


class SourceWord(click.ParamType[str]):
    """What names a problem; the shell completes ready-made problems and files."""

    name = "source"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names of ready-made problems that begin so; where there are none, the shell looks for files."""
        known = [name for name in (*scenarios.SCENARIOS, *scenarios.WORLDS) if name.startswith(incomplete)]
        return [CompletionItem(incomplete, type="file"), *map(CompletionItem, known)]


def option(*names: str, **settings: Any) -> Any:
    """A field of a dataclass of options: how it is written on the command line."""
    return field(metadata={"option": (names, settings)})


def of(kind: type[Any]) -> Callable[[F], Callable[..., Any]]:
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


def problem(command: F) -> Callable[..., Any]:
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


def as_json(what: str) -> Any:
    """The option ``--json``."""
    return option("--json", is_flag=True, help=f"Print the {what} as JSON.")


def seed(of: str = "Everything random follows from it.") -> Any:
    """The option ``--seed``."""
    return option("--seed", default=0, show_default=True, help=of)


def seconds(help: str = "Time to stop at, with the best policy by then.") -> Any:
    """The option ``--seconds``."""
    return option("--seconds", type=POSITIVE, help=help)


def principle(help: str, **settings: Any) -> Any:
    """The option ``--by``."""
    return option("--by", metavar="PRINCIPLE", help=help, **settings)


def over(when: str = "") -> Any:
    """The option ``--over``."""
    counted = "group to count.  [default: all quotas that are sets]  Repeatable."
    return option(
        "--over", multiple=True, metavar="NAME", help=f"{when}a {counted}" if when else f"A {counted}"
    )


def names_only() -> Any:
    """The option ``--names-only`` of commands that look for a policy."""
    told = "Quotas name the groups; what they ask for is set aside."
    return option("--names-only", is_flag=True, help=told)


def csv(help: str = "Write the table to this file.") -> Any:
    """The option ``--csv``."""
    return option("--csv", type=FILE, help=help)


def policy() -> Any:
    """The option ``--policy``, which writes one."""
    told = "Write the policy by names of states and actions, as .csv or .json, for any program to read."
    return option("--policy", type=FILE, help=told)


def _drawable(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    if path is not None and Path(path).suffix.lower() not in (".png", ".pdf", ".svg"):
        raise click.UsageError(f"--figure {path}: expected a name that ends in .png, .pdf or .svg")
    return path


def figure() -> Any:
    """The option ``--figure``."""
    return option("--figure", type=FILE, callback=_drawable, help="Draw it: .png, .pdf or .svg.")


def check_file(option: str, file: str | None, *endings: str) -> None:
    """Raise where a file cannot be written in the end: for its name, or because there is no such folder."""
    if file is None:
        return
    if not Path(file).absolute().parent.is_dir():
        raise click.UsageError(f"{option} {file}: there is no such folder")
    if endings and Path(file).suffix.lower() not in endings:
        raise click.UsageError(f"{option} {file}: expected a name that ends in {' or '.join(endings)}")
