"""``fairmdp report``: a solution as one HTML file."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

import click

import fairmdp as fm
from fairmdp import files, io, views
from fairmdp.cli import flags
from fairmdp.cli.flags import FILE, option


@dataclass(frozen=True)
class _Options:
    out: str | None = option("--out", "-o", type=FILE, help="File to write.  [default: SOLUTION with .html]")
    frontiers: tuple[str, ...] = option(
        "--frontier", multiple=True, metavar="QUOTA",
        help="Draw what this quota costs. Repeatable.  [default: the dearest quotas, for small models]",
    )  # fmt: skip
    date: str | None = option("--date", metavar="TEXT", help="Date below the title.  [default: today]")
    author: str = option("--author", default="", metavar="NAME", help="Author below the title.")
    unit_reward: str = option(
        "--unit-reward", default="", metavar="UNIT", help="What rewards count, e.g. EUR, or 'EUR per hour'."
    )
    unit_time: str = option("--unit-time", default="", metavar="UNIT", help="What a step is, e.g. hour.")


@click.command()
@flags.problem
@click.argument("solution_file", type=FILE, metavar="SOLUTION")
@flags.of(_Options)
def report(source: io.Source, solution_file: str, options: _Options) -> None:
    """Write SOLUTION of the problem SOURCE as one HTML file, verified on the way.

    Name the problem as you did when it was solved, with the same --rho, --quota and --param. The file holds
    everything that it shows and loads nothing, so it can be sent to anybody who has a browser. Its first
    paragraph says in words what is guaranteed to whom, what that costs, and how sure it is.

    \b
    fairmdp solve clinic.toml -o clinic.solution.json
    fairmdp report clinic.toml clinic.solution.json -o clinic.html --unit-reward EUR --unit-time hour
    """
    flags.check_file("--out", options.out, ".html", ".htm")
    problem, solution = source.problem(), fm.Solution.load(solution_file)
    date = datetime.date.today().isoformat() if options.date is None else options.date
    occasion = views.Occasion(date, options.author, options.unit_reward, options.unit_time)
    name = Path(source.target).name
    page = views.report_html(problem, solution, name, options.frontiers, occasion).encode()
    path = options.out or str(Path(solution_file).with_suffix(".html"))
    files.write_bytes(path, page)
    click.echo(f"wrote {path}: {len(page) / 1000:.0f} kB, open it in any browser")
