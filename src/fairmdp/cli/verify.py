"""``fairmdp verify``: re-check a solution from the data alone."""

from __future__ import annotations

import json
import sys

import click

from fairmdp.cli.source import problem_options, read_problem


@click.command(short_help="Check a kept solution from the data alone.")
@problem_options
@click.argument("solution_file", metavar="SOLUTION")
@click.option("--exact", is_flag=True, help="Evaluate the proofs in rational arithmetic (small problems).")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def verify(
    source: str,
    solution_file: str,
    params: tuple[str, ...],
    rho: str | None,
    quotas: tuple[str, ...],
    exact: bool,
    as_json: bool,
) -> None:
    """Re-derive every claim of SOLUTION from the problem SOURCE; no solver is involved.

    Name the problem as you did when it was solved, with the same --rho, --quota and --param.
    """
    from fairmdp.certificate import FAIR_TOL
    from fairmdp.certificate import verify as check
    from fairmdp.solution import Solution

    problem = read_problem(source, params, rho, quotas)
    solution = Solution.load(solution_file)
    verdict = check(problem, solution, exact=exact)
    if as_json:
        finite = verdict.gain[0] > float("-inf")
        click.echo(
            json.dumps(
                {
                    "ok": verdict.ok,
                    "status": verdict.status.value,
                    "gain": list(verdict.gain) if finite else None,
                    "upper": verdict.upper if verdict.upper < float("inf") else None,
                    "shares": dict(
                        zip(problem.names, problem.units.values(verdict.shares.T).T.tolist(), strict=True)
                    ),
                    "messages": list(verdict.messages),
                    "exact": verdict.exact,
                }
            )
        )
    else:
        arithmetic = "rational arithmetic" if exact else "floating point with outward rounding"
        click.echo(f"{solution_file}: {'confirmed' if verdict.ok else 'NOT CONFIRMED'} in {arithmetic}")
        click.echo(f"  proved  {verdict.status.value}: {verdict.status.meaning}")
        if verdict.gain[0] > float("-inf"):
            low, high = verdict.gain
            worst = min(
                (
                    min(s[0] - a, b - s[1])
                    for s, a, b in zip(verdict.shares, problem.at_least, problem.at_most, strict=True)
                ),
                default=float("inf"),
            )
            click.echo(
                f"  gain    in [{low:.12g}, {high:.12g}], at most {verdict.upper:.12g} for any fair policy"
            )
            click.echo(f"  quotas  worst proven slack {worst:+.1e} (met means not below -{FAIR_TOL:g})")
        for message in verdict.messages:
            click.echo(f"  wrong   {message}")
        if solution.provenance.get("problem") != problem.digest:
            click.echo(
                "  name the problem as you did when it was solved, with the same --rho, --quota and --param"
            )
    sys.exit(0 if verdict.ok else 1)
