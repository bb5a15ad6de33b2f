"""``fairmdp verify``: re-check a solution from the data alone."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import click

import fairmdp as fm
from fairmdp import io, views
from fairmdp.certificate.facts import MOST_TOL
from fairmdp.cli import flags, output, worlds
from fairmdp.cli.exit_codes import BAD_PROBLEM, SOLVED
from fairmdp.cli.flags import FILE, option
from fairmdp.solution.welfare_file import read_either


@dataclass(frozen=True)
class _Options:
    exact: bool = option(
        "--exact", is_flag=True, help="Evaluate the proofs in rational arithmetic (small problems)."
    )
    tol: float = option(
        "--tol",
        default=MOST_TOL,
        show_default=True,
        help="Largest gap that may be called optimal, relative to the span of the rewards.",
    )
    names_only: bool = option(
        "--names-only", is_flag=True, help="Of an answer of welfare --names-only: set aside what quotas ask."
    )
    as_json: bool = flags.as_json("verdict")


@click.command()
@flags.problem
@click.argument("solution_file", type=FILE, metavar="SOLUTION")
@flags.of(_Options)
def verify(source: io.Source, solution_file: str, options: _Options) -> None:
    """Re-derive every claim of SOLUTION from the problem SOURCE; no solver is involved.

    SOLUTION is what solve -o or welfare -o wrote, also of a world. Name the problem as you did then, with
    the same --rho, --quota and --param.
    """
    world = source.world()
    if world is not None:
        worlds.refuse_options({"--names-only": options.names_only})
        return worlds.verify_world(
            world, solution_file, exact=options.exact, tol=options.tol, as_json=options.as_json
        )
    problem = source.problem()
    if options.names_only:
        problem = problem.with_sets_unbounded()
    answer = read_either(solution_file)
    verdict: fm.Verdict | fm.WelfareVerdict
    if isinstance(answer, fm.WelfareSolution):
        verdict = fm.verify(problem, answer, exact=options.exact, tol=options.tol)
        shown: Any = views.welfare_verdict_data, views.welfare_verdict_text, solution_file, verdict
        claimed = answer.solution
    else:
        verdict = fm.verify(problem, answer, exact=options.exact, tol=options.tol)
        shown = views.verdict_data, views.verdict_text, solution_file, problem, verdict
        claimed = answer
    output.answer(options.as_json, *shown)
    if not options.as_json and claimed.provenance.get("problem") != problem.digest:
        again = "name the problem as you did when it was solved, with the same --rho, --quota and --param"
        click.echo(f"  {again}")
    sys.exit(SOLVED if verdict.ok else BAD_PROBLEM)
