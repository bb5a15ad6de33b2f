"""``fairmdp compare``: several notions of a good policy, side by side."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import click

from fairmdp.cli.figures import figure_option, save_figure
from fairmdp.cli.source import problem_options, read_problem

if TYPE_CHECKING:
    from fairmdp.fairness import Readout
    from fairmdp.problem import Problem


@click.command(short_help="Fair, unconstrained, max-min and uniform policies side by side.")
@problem_options
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@figure_option
def compare(
    source: str,
    params: tuple[str, ...],
    rho: str | None,
    quotas: tuple[str, ...],
    as_json: bool,
    figure: str | None,
) -> None:
    """Compare policies for SOURCE: the fair optimum, the optimum without quotas, max-min shares, uniform.

    Shows what each earns, how it treats the groups that the quotas name, and which quotas it breaks. Every
    number is proved by the certificate; a policy whose shares cannot be proved is left out.
    """
    from fairmdp.plots import plot_shares

    problem = read_problem(source, params, rho, quotas)
    if problem.weighted.all():
        raise click.UsageError("there are no groups to compare: name some with --quota 'state>=0'")
    seen, left_out = _readouts(problem)
    if as_json:
        click.echo(json.dumps({name: _as_dict(r) for name, r in seen.items()}))
    else:
        click.echo("\n".join([_text(source, seen), *(f"  left out: {why}" for why in left_out)]))
    save_figure(
        figure, lambda: plot_shares(problem, {name: r.shares for name, r in seen.items()}), quiet=as_json
    )


def _readouts(problem: Problem) -> tuple[dict[str, Readout], list[str]]:
    """What each policy does, and why others are not shown."""
    from fairmdp.errors import ProblemError
    from fairmdp.fairness import readout
    from fairmdp.solution import Status
    from fairmdp.solvers.auto import solve
    from fairmdp.solvers.maxmin import solve_max_min
    from fairmdp.solvers.policy import uniform_policy

    proved = (Status.OPTIMAL, Status.FEASIBLE)
    found = {
        "fair": solve(problem),
        "no quotas": solve(problem.without_quotas()),
    }
    if found["fair"].has_policy or not problem.weighted.any():  # else weights may stand in its way
        found["max-min"] = solve_max_min(problem)
    policies = {name: s.policy for name, s in found.items() if s.status in proved}
    policies["uniform"] = uniform_policy(problem.mdp)
    seen, left_out = {}, []
    for name, policy in policies.items():
        try:
            seen[name] = readout(problem, policy)
        except ProblemError as why:
            left_out.append(f"{name}, because {why}")
    return seen, left_out


def _text(source: str, seen: dict[str, Readout]) -> str:
    from fairmdp.report import columns

    if not seen:
        return f"{source}: there is no policy whose shares could be proved"
    first = next(iter(seen.values()))
    rows = [["", *seen]]
    rows.append(["gain", *(f"{r.gain:.6f}" for r in seen.values())])
    worst = [float(r.slacks.min()) for r in seen.values()]
    rows.append(["worst slack", *(f"{round(s, 9) + 0.0:+.4f}" if math.isfinite(s) else "-" for s in worst)])
    for k, name in enumerate(first.names[:20]):
        rows.append([f"share {name}", *(f"{r.shares[k]:.4f}" for r in seen.values())])
    for label, value in (
        ("smallest", lambda r: r.group_min()[1]), ("difference", lambda r: r.difference()),
        ("ratio", lambda r: r.ratio()), ("Jain", lambda r: r.jain), ("Gini", lambda r: r.gini),
    ):  # fmt: skip
        rows.append([label, *(f"{value(r):.4f}" for r in seen.values())])
    rows.append(["breaks", *(", ".join(r.broken[:3]) or "-" for r in seen.values())])
    lines = [f"{source}: policies side by side", "", *columns(rows)]
    if "fair" not in seen:
        lines.append("  no policy was proved fair: see fairmdp solve")
    return "\n".join(lines)


def _as_dict(seen: Readout) -> dict[str, object]:
    worst = float(seen.slacks.min())
    return {
        "gain": seen.gain,
        "worst_slack": worst if math.isfinite(worst) else None,
        "gain_error": seen.gain_error,
        "share_error": seen.share_error,
        "by_group": seen.by_group,
        "weighted": {
            n: s for n, s in zip(seen.names, seen.shares.tolist(), strict=True) if n in seen.weighted
        },
        "overall": seen.overall,
        "difference": seen.difference(),
        "ratio": seen.ratio(),
        "group_min": seen.group_min(),
        "jain": seen.jain,
        "gini": seen.gini,
        "binding": seen.binding,
        "broken": seen.broken,
    }
