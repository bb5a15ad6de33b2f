"""``fairmdp inspect``: what a model is, before it is solved."""

from __future__ import annotations

from dataclasses import dataclass

import click

import fairmdp as fm
from fairmdp import io, views
from fairmdp.cli import flags, output


@dataclass(frozen=True)
class _Options:
    as_json: bool = flags.as_json("result")


@click.command()
@flags.problem
@flags.of(_Options)
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
    shown = views.inspection_data, views.inspection_text
    output.answer(options.as_json, *shown, source.target, problem, seen)
