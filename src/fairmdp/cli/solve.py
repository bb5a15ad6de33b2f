"""``fairmdp solve``: policy, shares, prices, certificate."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairmdp.cli.figures import figure_option, save_figure
from fairmdp.cli.source import problem_options, read_problem, repeat

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmdp.problem import Problem
    from fairmdp.solution import Solution


@click.command(short_help="Find the best fair policy, with proof.")
@problem_options
@click.option(
    "--method",
    default="auto",
    show_default=True,
    help="Solver: auto, lp, ipm, dual, proximal, colgen, mirror.",
)
@click.option(
    "--device", default="cpu", show_default=True, type=click.Choice(["cpu", "cuda"]),
    help="cuda: the first GPU, by dual, colgen or proximal.",
)  # fmt: skip
@click.option("--tol", default=1e-6, show_default=True, help="Certified relative gap that counts as optimal.")
@click.option("--steps", type=click.IntRange(1), help="mirror: steps to make.  [default: 200000]")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    help="Time to stop at, with the best policy by then.",
)
@click.option("--seed", default=0, show_default=True, help="mirror: everything random follows from it.")
@click.option("--checkpoint", type=click.Path(dir_okay=False), help="mirror: file to stop at and go on from.")
@click.option("--json", "as_json", is_flag=True, help="Print the solution as JSON.")
@click.option("--out", "-o", type=click.Path(dir_okay=False), help="Keep the solution in this file (JSON).")
@figure_option
@click.option(
    "--plot",
    type=click.Choice(["shares", "policy", "graph"]),
    default="shares",
    show_default=True,
    help="What --figure draws.",
)
@click.option(
    "--strategy", "--exportstrat", type=click.Path(dir_okay=False),
    help="Write the policy as PRISM's strategy file, or as Storm's scheduler if the name ends in .json.",
)  # fmt: skip
def solve(
    source: str,
    params: tuple[str, ...],
    rho: str | None,
    quotas: tuple[str, ...],
    method: str,
    device: str,
    tol: float,
    steps: int | None,
    seconds: float | None,
    seed: int,
    checkpoint: str | None,
    as_json: bool,
    out: str | None,
    figure: str | None,
    plot: str,
    strategy: str | None,
) -> None:
    """Find the policy of largest gain that meets every quota of SOURCE.

    SOURCE is a .toml, .npz, .tra (PRISM) or .drn (Storm) file, or the name of a ready-made problem (see
    `fairmdp scenarios`).

    \b
    fairmdp solve three-state --rho 0.1,0.1,0.25
    fairmdp solve clinic.toml --quota 'ward_b>=0.25' -o clinic.solution.json
    fairmdp solve three-state --method mirror --steps 1000000 --seed 1
    fairmdp solve garnet --param n_states=1000000 --device cuda
    """
    from fairmdp import report
    from fairmdp.cli.mirror import run_mirror
    from fairmdp.io.json_solution import solution_to_dict
    from fairmdp.io.strategy import save_strategy
    from fairmdp.solution import Status
    from fairmdp.solvers.auto import solve as solve_problem

    for option, file in (("--out", out), ("--strategy", strategy)):
        if file is not None and not Path(file).absolute().parent.is_dir():
            raise click.UsageError(f"{option} {file}: there is no such folder")
    problem = read_problem(source, params, rho, quotas)
    if device != "cpu" and not as_json:  # how much memory it takes
        logging.basicConfig(level=logging.INFO, format="  %(message)s")
    if method == "mirror" and device == "cpu":
        solution = run_mirror(
            problem, tol=tol, steps=steps, seconds=seconds, seed=seed, checkpoint=checkpoint, quiet=as_json
        )
    elif steps is not None or checkpoint is not None:
        raise click.UsageError("--steps and --checkpoint go with --method mirror")
    else:
        watched = None if as_json or not sys.stderr.isatty() else show_progress
        solution = solve_problem(
            problem, method=method, tol=tol, seconds=seconds, progress=watched, device=device
        )
    if as_json:
        click.echo(json.dumps(solution_to_dict(solution), allow_nan=False))
    else:
        free = None
        if problem.n_quotas and solution.status is Status.OPTIMAL:
            free = solve_problem(problem.without_quotas(), tol=tol, device=device)
        click.echo(report.solution_text(source, problem, solution, free))
    if out is not None:
        solution.save(out)
        if not as_json:
            again = repeat(source, params, rho, quotas)
            click.echo(f"  saved   {out}   (recheck: fairmdp verify {again} {shlex.quote(out)})")
    if solution.has_policy:
        save_figure(figure, lambda: _draw(plot, problem, solution), quiet=as_json)
    if strategy is not None and solution.has_policy:
        save_strategy(problem, solution, strategy)
        if not as_json:
            click.echo(f"  saved   {strategy}")
    codes = {Status.OPTIMAL: 0, Status.INFEASIBLE: 3, Status.FEASIBLE: 4, Status.UNDECIDED: 4}
    sys.exit(codes[solution.status])


def show_progress(row: dict[str, float]) -> None:
    """One line per report of a solver, for whoever waits at a terminal."""
    lower = f"{row['lower']:.6f}" if row["lower"] > float("-inf") else "-"
    bounds = f"gain between {lower} and {row['upper']:.6f}, worst slack {row['worst_slack']:+.1e}"
    click.echo(f"  {row['seconds']:7.1f} s  {bounds}", err=True)


def _draw(plot: str, problem: Problem, solution: Solution) -> Axes:
    from fairmdp import plots

    if plot == "policy":
        return plots.plot_policy(problem.mdp, solution.policy)
    if plot == "graph":
        return plots.plot_graph(problem.mdp, solution.occupancy)
    return plots.plot_shares(problem, {"fair": solution.shares})
