"""``fairmdp audit``: a policy that is there already, or what records say was done, judged and mended."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import click

import fairmdp as fm
from fairmdp import io, views
from fairmdp.cli.exit_codes import INFEASIBLE, SOLVED, STOPPED
from fairmdp.cli.options import (
    POSITIVE,
    check_file,
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
    delta: float = option(
        "--delta", type=POSITIVE, default=0.05, show_default=True, help="Level, of what is said from records."
    )
    as_json: bool = json_option("result")
    csv_file: str | None = option("--csv", type=FILE, help="Write the table of quotas to this file.")
    mended: str | None = option(
        "--mended",
        type=FILE,
        help="Write the mended policy, as .csv or .json; from records, the learned one.",
    )
    out: str | None = option(
        "--out", "-o", type=FILE, help="Keep the mended policy's solution (JSON), to verify."
    )


@click.command()
@problem_options
@click.argument("policy_file", type=FILE, metavar="[POLICY]", required=False)
@options(_Options)
def audit(source: io.Source, policy_file: str | None, options: _Options) -> None:
    """Judge POLICY on SOURCE: what it earns, which quotas it breaks, and the least change that mends it.

    POLICY is a .csv with the columns state, action and probability, what `solve --policy`, `solve -o` or
    learn wrote, a scheduler of Storm (.json) or a strategy of PRISM. Shares and gain are proved, for each end
    where runs may end differently; the mended policy is shown once it is proved fair.

    Without POLICY, SOURCE is a table of records (state, action, reward, next; see learn): what was done is
    judged from them, with intervals, beside the best fair policy that can be learned from the same records,
    which --mended writes. Whether they can be the records of a Markov model is checked.

    Exit codes: 0 fair, 3 not fair, 4 undecided.

    \b
    fairmdp solve three-state --rho 0,0,0 --policy today.csv
    fairmdp audit three-state today.csv --mended tomorrow.csv
    fairmdp audit records.csv --quota 'ward_b>=0.25' --mended tomorrow.csv
    """
    check_file("--csv", options.csv_file)
    check_file("--out", options.out, ".json")
    check_file("--mended", options.mended, ".csv", ".json")
    if policy_file is None:
        sys.exit(_audit_records(source, options))
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


def _audit_records(source: io.Source, options: _Options) -> int:
    """Judge what was done, from records; the exit code."""
    logged = source.log()
    if logged is None:
        raise click.UsageError(
            f"name the POLICY to judge on {source.target}, or a table of records as SOURCE"
        )
    if options.seconds is not None or options.out is not None:
        raise click.UsageError("--seconds and --out are for a POLICY on a model")
    log, problem = logged
    seen = fm.audit_log(log, problem.quotas, delta=options.delta)
    if options.as_json:
        click.echo(views.as_json(views.log_audit_data(problem, log, seen)))
    else:
        click.echo(views.log_audit_text(source.target, problem, log, seen))
    if options.csv_file is not None:
        save_bytes(options.csv_file, seen.to_table().to_csv().encode(), options.as_json)
    if options.mended is not None:
        fm.Policy.of(problem, seen.best).save(options.mended)
        if not options.as_json:
            click.echo(f"  saved   {options.mended}")
    return _CODES[seen.verdict]


def _write_mended(problem: fm.Problem, solution: fm.Solution, options: _Options) -> None:
    if options.mended is not None:
        fm.Policy.of(problem, solution).save(options.mended)
    if options.out is not None:
        solution.save(options.out)
    for path in filter(None, (options.mended, options.out)):
        if not options.as_json:
            click.echo(f"  saved   {path}")
