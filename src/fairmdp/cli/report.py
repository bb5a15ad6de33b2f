"""``fairmdp report``: a solution as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from fairmdp.cli.source import problem_options, read_problem


@click.command(short_help="Write a solution as one HTML file to send to somebody.")
@problem_options
@click.argument("solution_file", metavar="SOLUTION")
@click.option(
    "--out", "-o", type=click.Path(dir_okay=False), help="File to write.  [default: SOLUTION with .html]"
)
@click.option(
    "--frontier", "frontiers", multiple=True, metavar="QUOTA",
    help="Draw what this quota costs. Repeatable.  [default: the dearest quotas, for small models]",
)  # fmt: skip
def report(
    source: str,
    solution_file: str,
    params: tuple[str, ...],
    rho: str | None,
    quotas: tuple[str, ...],
    out: str | None,
    frontiers: tuple[str, ...],
) -> None:
    """Write SOLUTION of the problem SOURCE as one HTML file, verified on the way.

    Name the problem as you did when it was solved, with the same --rho, --quota and --param. The file holds
    everything that it shows and loads nothing, so it can be sent to anybody who has a browser.

    \b
    fairmdp solve clinic.toml -o clinic.solution.json
    fairmdp report clinic.toml clinic.solution.json -o clinic.html
    """
    from fairmdp.io.atomic import write_bytes
    from fairmdp.solution import Solution
    from fairmdp.web.html import report_html

    problem = read_problem(source, params, rho, quotas)
    page = report_html(problem, Solution.load(solution_file), Path(source).name, frontiers).encode()
    path = out or str(Path(solution_file).with_suffix(".html"))
    write_bytes(path, page)
    click.echo(f"wrote {path}: {len(page) / 2**20:.1f} MB, open it in any browser")
