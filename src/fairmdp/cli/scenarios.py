"""``fairmdp scenarios``: the ready-made problems."""

from __future__ import annotations

import inspect
import json

import click

import fairmdp as fm


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def scenarios(as_json: bool) -> None:
    """List the ready-made problems and their parameters."""
    rows = []
    for name, function in fm.scenarios.SCENARIOS.items():
        story = (inspect.getdoc(function) or "").split("\n", 1)[0].removeprefix("Return ")
        defaults = {p.name: p.default for p in inspect.signature(function).parameters.values()}
        rows.append((name, story, defaults))
    if as_json:
        click.echo(json.dumps([{"name": n, "story": s, "parameters": p} for n, s, p in rows]))
        return
    for name, story, defaults in rows:
        values = "  ".join(f"{key}={default_text(value)}" for key, value in defaults.items())
        click.echo(f"{name}\n  {story}\n  {values}\n")
    click.echo("solve one:   fairmdp solve garnet -p n_states=50 -p seed=3")
    click.echo(
        "edit one:    fairmdp new jobs --capacity 3 -o mine.toml   (fairmdp new jobs --help explains them)"
    )


def default_text(value: object) -> str:
    """The default of a parameter, as it may be typed."""
    if value is None:
        return "none"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
