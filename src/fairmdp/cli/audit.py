"""``fairmdp audit``: a policy that is there already, or what records say was done, judged and mended."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import click

import fairmdp as fm
from fairmdp import io, views
from fairmdp.cli import flags, output
from fairmdp.cli.exit_codes import OF_VERDICT
from fairmdp.cli.flags import FILE, POSITIVE, option


@dataclass(frozen=True)
class _Options:
    seconds: float | None = flags.seconds("Time to stop the searches at.")
    delta: float = option(
        "--delta",
        type=POSITIVE,
        default=0.05,
        show_default=True,
        help="Level, of what is said from records.",
    )
    as_json: bool = flags.as_json("result")
    csv_file: str | None = flags.csv("Write the table of quotas to this file.")
    mended: str | None = option(
        "--mended",
        type=FILE,
        help="Write the mended policy, as .csv or .json; from records, the learned one.",
    )
    out: str | None = option(
        "--out", "-o", type=FILE, help="Keep the mended policy's solution (JSON), to verify."
    )


@click.command()
@flags.problem
@click.argument("policy_file", type=FILE, metavar="[POLICY]", required=False)
@flags.of(_Options)
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
    flags.check_file("--csv", options.csv_file)
    flags.check_file("--out", options.out, ".json")
    flags.check_file("--mended", options.mended, ".csv", ".json")
    if policy_file is None:
        sys.exit(_audit_records(source, options))
    problem = source.problem()
    seen = fm.evaluate(problem, policy_file, seconds=options.seconds)
    if options.as_json:
        click.echo(views.as_json(views.evaluation_data(problem, seen)))
    else:
        click.echo(views.evaluation_text(source.target, policy_file, problem, seen))
    output.table(options.csv_file, seen.to_table, options.as_json)
    if seen.mended is not None:
        output.policy(options.mended, problem, seen.mended.solution, options.as_json)
        if options.out is not None:
            seen.mended.solution.save(options.out)
            output.saved(options.out, options.as_json)
    sys.exit(OF_VERDICT[seen.verdict])


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
    shown = views.log_audit_data, views.log_audit_text
    output.answer(options.as_json, *shown, source.target, problem, log, seen)
    output.table(options.csv_file, seen.to_table, options.as_json)
    output.policy(options.mended, problem, seen.best, options.as_json)
    return OF_VERDICT[seen.verdict]
