"""``fairmdp inspect``: what a model is, before it is solved."""

from __future__ import annotations

from dataclasses import dataclass

import click

import fairmdp as fm
from fairmdp import io, views
from fairmdp.cli.options import json_option, options, problem_options


@dataclass(frozen=True)
class _Options:
    as_json: bool = json_option("result")


@click.command()
@problem_options
@options(_Options)
def inspect(source: io.Source, options: _Options) -> None:
    """Say what SOURCE is: what can be reached, where runs may end, how fast it mixes, who will solve it.

    Nothing is solved. Where a run can end in several sets of states that it never leaves, a quota is met by
    every run, or where it is expected by their mean.

    \b
    fairmdp inspect clinic.toml
    fairmdp inspect model.drn --start 3 --quota 'LRA>=0.25 ["home"]'
    """
    problem = source.problem()
    seen = fm.inspect(problem)
    if options.as_json:
        click.echo(views.as_json(views.inspection_data(problem, seen)))
    else:
        click.echo(views.inspection_text(source.target, problem, seen))
