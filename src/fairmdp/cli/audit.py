"""``fairmdp audit``: a policy that is there already, judged, and the least change that mends it."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import click

import fairmdp as fm
from fairmdp import io, views
from fairmdp.cli.exit_codes import INFEASIBLE, SOLVED, STOPPED
from fairmdp.cli.options import (
    POSITIVE,
    check_folder,
    check_policy_file,
    json_option,
    option,
    options,
    problem_options,
    save_bytes,
)
from fairmdp.cli.words import FILE

_CODES = {"fair": SOLVED, "not fair": INFEASIBLE, "undecided": STOPPED}


@dataclass(frozen=True)
class _Options:
    seconds: float | None = option("--seconds", type=POSITIVE, help="Time to stop the searches at.")
    as_json: bool = json_option("result")
    csv_file: str | None = option("--csv", type=FILE, help="Write the table of quotas to this file.")
    mended: str | None = option("--mended", type=FILE, help="Write the mended policy, as .csv or .json.")
    out: str | None = option(
        "--out", "-o", type=FILE, help="Keep the mended policy's solution (JSON), to verify."
    )


@click.command()
@problem_options
@click.argument("policy_file", type=FILE, metavar="POLICY")
@options(_Options)
def audit(source: io.Source, policy_file: str, options: _Options) -> None:
    """Judge POLICY on SOURCE: what it earns, which quotas it breaks, and the least change that mends it.

    POLICY is a .csv with the columns state, action and probability, what `solve --policy`, `solve -o` or
    learn wrote, a scheduler of Storm (.json) or a strategy of PRISM. Shares and gain are proved, for each end
    where runs may end differently; the mended policy is shown once it is proved fair.

    Exit codes: 0 fair, 3 not fair, 4 undecided.

    \b
    fairmdp solve three-state --rho 0,0,0 --policy today.csv
    fairmdp audit three-state today.csv --mended tomorrow.csv
    """
    check_folder("--csv", options.csv_file)
    check_folder("--out", options.out)
    check_policy_file("--mended", options.mended)
    problem = source.problem()
    seen = fm.evaluate(problem, policy_file, seconds=options.seconds)
    if options.as_json:
        click.echo(views.as_json(views.evaluation_data(problem, seen)))
    else:
        click.echo(views.evaluation_text(source.target, policy_file, problem, seen))
    if options.csv_file is not None:
        save_bytes(options.csv_file, seen.to_table().to_csv().encode(), options.as_json)
    if seen.mended is not None:
        _write_mended(problem, seen.mended.solution, options)
    sys.exit(_CODES[seen.verdict])


def _write_mended(problem: fm.Problem, solution: fm.Solution, options: _Options) -> None:
    if options.mended is not None:
        fm.Policy.of(problem, solution).save(options.mended)
    if options.out is not None:
        solution.save(options.out)
    for path in filter(None, (options.mended, options.out)):
        if not options.as_json:
            click.echo(f"  saved   {path}")
