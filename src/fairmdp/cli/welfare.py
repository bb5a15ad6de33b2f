"""``fairmdp welfare``: the policy that a principle of fairness prefers, with proof."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import click

import fairmdp as fm
from fairmdp import io, views
from fairmdp.cli import flags, output
from fairmdp.cli.exit_codes import OF_STATUS
from fairmdp.cli.flags import FILE, option
from fairmdp.cli.frontier import values_of
from fairmdp.cli.solve import show_progress


@dataclass(frozen=True)
class _Options:
    principle: str = flags.principle(
        "utilitarian, nash, alpha=2, atkinson=0.5, gini, gini=4,2,1, entropy, max-min or leximin.",
        default="nash", show_default=True,
    )  # fmt: skip
    over: tuple[str, ...] = flags.over()
    gain: float = option(
        "--gain", default=0.0, show_default=True, help="Weight of the gain beside the welfare."
    )
    names_only: bool = flags.names_only()
    along: str | None = option(
        "--along", type=click.Choice(["alpha", "gain"]), help="Follow the fair point as this grows."
    )
    values: str | None = option(
        "--values", metavar="NUMBERS", help="With --along: 0,1,2 or 0:4:9 (nine, even)."
    )
    tol: float = option("--tol", default=1e-6, show_default=True, help="Certified gap that is optimal.")
    seconds: float | None = flags.seconds()
    as_json: bool = flags.as_json("answer")
    csv_file: str | None = flags.csv("With --along: write the table to this file.")
    out: str | None = option("--out", "-o", type=FILE, help="Keep the answer in this file (JSON).")
    policy: str | None = flags.policy()


@click.command()
@flags.problem
@flags.of(_Options)
def welfare(source: io.Source, options: _Options) -> None:
    """Find the policy of SOURCE that a principle of fairness prefers, where nobody knows the quotas.

    What is judged are the groups' long-run shares or means. Quotas hold all the same, unless --names-only.

    \b
    fairmdp welfare jobs --by nash --names-only
    fairmdp welfare jobs --by gini --gain 0.5 -o fair.json
    fairmdp verify jobs fair.json
    fairmdp welfare jobs --names-only --along alpha --values 0,1,2,8 --csv path.csv
    """
    flags.check_file("--out", options.out, ".json")
    flags.check_file("--policy", options.policy, ".csv", ".json")
    problem = source.problem()
    if options.names_only:
        problem = problem.with_sets_unbounded()
    if options.along is not None:
        return _follow(source, problem, options.along, options)
    if options.values is not None or options.csv_file is not None:
        raise click.UsageError("--values and --csv go with --along")
    fair = fm.solve_welfare(
        problem, fm.parse_objective(options.principle), over=options.over or None, reward=options.gain,
        tol=options.tol, seconds=options.seconds,
        progress=output.watched(show_progress, options.as_json),
    )  # fmt: skip
    if options.as_json:
        click.echo(views.welfare_json(fair))
    else:
        click.echo(views.welfare_text(source.target, problem, fair))
    _write(problem, fair, source, options)
    sys.exit(OF_STATUS[fair.status])


def _follow(source: io.Source, problem: fm.Problem, along: str, options: _Options) -> None:
    """Show how the fair point moves."""
    if options.out is not None or options.policy is not None or options.seconds is not None:
        raise click.UsageError("--along goes without -o, --policy and --seconds: it has many answers")
    path = fm.welfare_frontier(
        problem, along, values_of(options.values, "--values"), over=options.over or None,
        objective=fm.parse_objective(options.principle), reward=options.gain, tol=options.tol,
    )  # fmt: skip
    shown = views.welfare_frontier_data, views.welfare_frontier_text
    output.answer(options.as_json, *shown, source.target, path)
    output.table(options.csv_file, path.to_table, options.as_json)


def _write(problem: fm.Problem, fair: fm.WelfareSolution, source: io.Source, options: _Options) -> None:
    """Write what was asked for, and say so."""
    if options.out is not None:
        fair.save(options.out)
        names_only = ["--names-only"] if options.names_only else []
        output.saved(options.out, options.as_json, "verify", *source.words, options.out, *names_only)
    if fair.has_policy:
        output.policy(options.policy, problem, fair.solution, options.as_json)
