"""``fairmdp scenarios``: the ready-made problems and worlds."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import click

import fairmdp as fm


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def scenarios(as_json: bool) -> None:
    """List the ready-made problems and worlds, and their parameters."""
    rows = [_row("problem", name, make) for name, make in fm.scenarios.SCENARIOS.items()]
    rows += [_row("world", name, make) for name, make in fm.scenarios.WORLDS.items()]
    if as_json:
        click.echo(json.dumps(rows))
        return
    for kind in ("problem", "world"):
        if kind == "world":
            click.echo("worlds, many small models that share resources (solve, verify, frontier):\n")
        for row in (each for each in rows if each["kind"] == kind):
            values = "  ".join(f"{key}={default_text(value)}" for key, value in row["parameters"].items())
            click.echo(f"{row['name']}\n  {row['story']}\n  {values}\n")
    click.echo("solve one:   fairmdp solve garnet -p n_states=50 -p seed=3")
    click.echo(
        "edit one:    fairmdp new jobs --capacity 3 -o mine.toml   (fairmdp new jobs --help explains them)"
    )


def _row(kind: str, name: str, make: Callable[..., object]) -> dict[str, Any]:
    """What is told of something ready-made."""
    return {
        "name": name,
        "kind": kind,
        "story": (inspect.getdoc(make) or "").split("\n", 1)[0].removeprefix("Return "),
        "parameters": {p.name: p.default for p in inspect.signature(make).parameters.values()},
    }


def default_text(value: object) -> str:
    """The default of a parameter, as it may be typed."""
    if value is None:
        return "none"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
