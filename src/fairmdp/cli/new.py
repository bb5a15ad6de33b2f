"""``fairmdp new``: write a ready-made problem as a file."""

from __future__ import annotations

import click

from fairmdp.cli.source import build


@click.command()
@click.argument("name")
@click.option(
    "--param",
    "-p",
    "params",
    multiple=True,
    metavar="KEY=VALUE",
    help="Parameter, e.g. n_states=50. Repeatable.",
)
@click.option(
    "--out",
    "-o",
    type=click.Path(dir_okay=False),
    help="File to write: .toml, .npz, .tra or .drn.  [default: NAME.toml]",
)
def new(name: str, params: tuple[str, ...], out: str | None) -> None:
    """Write the ready-made problem NAME as a file that you can edit."""
    from fairmdp import io
    from fairmdp.scenarios import SCENARIOS

    if name not in SCENARIOS:
        raise click.UsageError(f"there is no ready-made problem {name!r}; there are {', '.join(SCENARIOS)}")
    problem = build(name, params)
    path = out or f"{name}.toml"
    io.save(problem, path)
    mdp = problem.mdp
    click.echo(f"wrote {path}: {mdp.n_states} states, {mdp.n_pairs} pairs, {problem.n_quotas} quotas")
    click.echo(f"next: fairmdp solve {path}")
