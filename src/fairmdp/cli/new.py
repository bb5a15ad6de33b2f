"""``fairmdp new``: write a ready-made problem as a file. Options are the parameters of its function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import click

import fairmdp as fm
from fairmdp import io, views
from fairmdp.cli import flags
from fairmdp.cli.flags import FILE
from fairmdp.cli.scenarios import default_text
from fairmdp.model.checks import there_are


class _Scenarios(click.Group):
    """One command per ready-made problem, made when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*fm.scenarios.SCENARIOS, *fm.scenarios.WORLDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known: dict[str, Callable[..., fm.Problem | fm.World]] = {
            **fm.scenarios.SCENARIOS, **fm.scenarios.WORLDS
        }  # fmt: skip
        if cmd_name not in known:
            there = there_are(list(known), cmd_name)
            raise click.UsageError(f"there is no ready-made problem {cmd_name!r}{there}")
        return _command(cmd_name, known[cmd_name])


@click.group(cls=_Scenarios, subcommand_metavar="NAME [OPTIONS]")
def new() -> None:
    """Write the ready-made problem or world NAME as a file that you can edit.

    \b
    fairmdp new jobs --help
    fairmdp new jobs --clients 3 --arrivals 1,0.7,0.7 --pay 1,0.4,0.2 --quota 0.2 -o jobs.toml
    """


def _command(name: str, function: Callable[..., fm.Problem | fm.World]) -> click.Command:
    """Command that builds and writes one problem or world."""
    is_world = name in fm.scenarios.WORLDS
    usual = f"{name}.npz" if is_world else f"{name}.toml"
    words = parameter_help(function)
    parameters = inspect.signature(function).parameters.values()
    defaults = {p.name: p.default for p in parameters}

    def write(out: str | None, force: bool, **given: str | None) -> None:
        with flags.usage_errors():
            values = {
                key: io.parse_like(defaults[key], text, _option(key))
                for key, text in given.items()
                if text is not None
            }
        path = out or usual
        if not force and Path(path).exists():
            raise click.UsageError(f"{path} is there already: name another file with -o, or add --force")
        problem = function(**values)
        fm.save(problem, path)
        size = views.size_text(problem) if isinstance(problem, fm.Problem) else views.world_size_text(problem)
        click.echo(f"wrote {path}: {size}")
        click.echo(f"next: fairmdp solve {path}")

    options: list[click.Parameter] = []
    for key, default in defaults.items():
        kind = "NUMBERS" if isinstance(default, tuple) else "NUMBER"
        told = f"{words[key]}  [default: {default_text(default)}]"
        options.append(click.Option([_option(key), key], metavar=kind, help=told))
    endings = ".toml (small) or .npz" if is_world else ".toml, .npz, .tra or .drn"
    file = f"File to write: {endings}.  [default: {usual}]"
    options.append(click.Option(["--out", "-o"], type=FILE, help=file))
    options.append(click.Option(["--force"], is_flag=True, help="Replace a file that is there already."))
    summary, story = (inspect.getdoc(function) or "").split("\n\n")[:2]
    about = f"{summary.replace('Return ', 'Write ', 1)}\n\n{_plain(story)}"
    return click.Command(
        name, callback=write, params=options, help=about, short_help=summary.removeprefix("Return ")
    )


def parameter_help(function: Callable[..., object]) -> dict[str, str]:
    """Return what a docstring in numpy's style says of each parameter."""
    lines = (inspect.getdoc(function) or "").splitlines()
    start = lines.index("Parameters") + 2
    words: dict[str, list[str]] = {}
    names: list[str] = []
    for line, following in zip(lines[start:], [*lines[start + 1 :], ""], strict=True):
        if line and set(following) == {"-"}:
            break  # the next section's title
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.split(":")[0].split(",")]
            words.update({name: [] for name in names})
        else:
            for name in names:
                words[name].append(line.strip())
    return {name: _plain(" ".join(text).strip()) for name, text in words.items()}


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _plain(text: str) -> str:
    return text.replace("``", "").replace("`", "")
