"""``fairmdp solve``: policy, shares, prices, certificate."""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

import fairmdp as fm
from fairmdp import io, solvers, views
from fairmdp.cli import flags, output, worlds
from fairmdp.cli.exit_codes import OF_STATUS
from fairmdp.cli.flags import FILE, POSITIVE, Count, option
from fairmdp.cli.mirror import run_mirror

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AT_LEAST = 1.0  # seconds that the gain without quotas may take, however quick the answer was


class _FromRegistry(click.Option):
    """An option whose help names methods; the registry is loaded when somebody asks for it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Help with the names filled in."""
        on_gpu = [name for name, method in solvers.METHODS.items() if "cuda" in method.devices]
        self.help = (self.help or "").format(all=", ".join(solvers.METHODS), cuda=", ".join(on_gpu))
        return super().get_help_record(ctx)


@dataclass(frozen=True)
class _Options:
    method: str = option(
        "--method", default="auto", show_default=True, cls=_FromRegistry, help="Solver: auto, {all}."
    )
    device: str = option(
        "--device", default="cpu", show_default=True, type=click.Choice(["cpu", "cuda"]),
        cls=_FromRegistry, help="cuda: the first GPU, by {cuda}.",
    )  # fmt: skip
    tol: float = option(
        "--tol", default=1e-6, show_default=True, help="Certified relative gap that counts as optimal."
    )
    steps: int | None = option("--steps", type=Count(1), help="mirror: steps to make.  [default: 200000]")
    seconds: float | None = flags.seconds()
    patience: float | None = option(
        "--patience", type=POSITIVE, metavar="STEPS",
        help="Pass between parts that are best kept apart at least once in so many steps (units of time).",
    )  # fmt: skip
    seed: int = flags.seed("mirror: everything random follows from it.")
    checkpoint: str | None = option("--checkpoint", type=FILE, help="mirror: file to stop at and go on from.")
    as_json: bool = flags.as_json("solution")
    out: str | None = option(
        "--out", "-o", type=FILE, help="Keep the solution in this file (JSON; of a world .npz)."
    )
    csv_file: str | None = flags.csv("Of a world: write what each component gets.")
    figure: str | None = flags.figure()
    plot: str = option(
        "--plot", type=click.Choice(["shares", "policy", "graph"]), default="shares", show_default=True,
        help="What --figure draws.",
    )  # fmt: skip
    policy: str | None = flags.policy()
    strategy: str | None = option(
        "--strategy", "--exportstrat", type=FILE,
        help="Write the policy as PRISM's strategy file, or as Storm's scheduler if the name ends in .json.",
    )  # fmt: skip


@click.command()
@flags.problem
@flags.of(_Options)
def solve(source: io.Source, options: _Options) -> None:
    """Find the policy of largest gain that meets every quota of SOURCE.

    SOURCE is a .toml or .npz file, a table of transitions (.csv, .parquet), an explicit model of PRISM or
    Storm (.tra, .drn, .umb), a PRISM or JANI model that Storm is to build (.prism, .nm, .jani), module:name
    of a model in Python, or the name of a ready-made problem (see `fairmdp scenarios`).
    Of a world, many small models that share resources, it shows a ceiling that no joint policy exceeds,
    prices, and who pays for the quotas; the plan behind it is kept as .npz.

    \b
    fairmdp solve three-state --rho 0.1,0.1,0.25
    fairmdp solve clinic.toml --quota 'ward_b>=0.25' -o clinic.solution.json
    fairmdp solve transitions.csv --groups wards.csv --quota 'North>=20%'
    fairmdp solve mymodule:clinic -p beds=4 --reward income
    fairmdp solve three-state --method mirror --steps 1000000 --seed 1
    fairmdp solve garnet --param n_states=1000000 --device cuda
    fairmdp solve job-server -p clients=100000 --csv clients.csv -o plan.npz
    """
    world = source.world()
    flags.check_file("--out", options.out, *([".json"] if world is None else []))
    if world is not None:
        return _solve_world(source, world, options)
    if options.csv_file is not None:
        raise click.UsageError("--csv is for worlds\n  --policy writes the policy of a problem as .csv")
    flags.check_file("--strategy", options.strategy)
    flags.check_file("--policy", options.policy, ".csv", ".json")
    quiet = options.as_json
    problem = source.problem()
    began = time.perf_counter()
    solution = _solved(problem, options)
    spent = time.perf_counter() - began
    if quiet:
        click.echo(views.solution_json(solution))
    else:
        free = None
        if problem.n_quotas and solution.status == "optimal":
            bare = problem.without_quotas()
            allowed = max(spent, _AT_LEAST)
            free = fm.solve(bare, tol=options.tol, device=options.device, start=solution, seconds=allowed)
        other = fm.other_meaning(problem, solution, tol=options.tol)
        click.echo(views.solution_text(source.target, problem, solution, free, other))
    if options.out is not None:
        solution.save(options.out)
        output.saved(options.out, quiet, "verify", *source.words, options.out)
    if solution.has_policy:
        output.figure(options.figure, lambda: _draw(options.plot, problem, solution), quiet)
        if options.policy is not None or options.strategy is not None:
            _write_policy(problem, solution, options)
    sys.exit(OF_STATUS[solution.status])


def _solve_world(source: io.Source, world: fm.World, options: _Options) -> None:
    worlds.refuse_options({
        "--method": None if options.method == "auto" else options.method,
        "--device": None if options.device == "cpu" else options.device,
        "--steps": options.steps, "--checkpoint": options.checkpoint, "--policy": options.policy,
        "--strategy": options.strategy,
    })  # fmt: skip
    worlds.solve_world(
        source, world, tol=options.tol, seconds=options.seconds, out=options.out, csv_file=options.csv_file,
        figure=options.figure, as_json=options.as_json,
    )  # fmt: skip


def _write_policy(problem: fm.Problem, solution: fm.Solution, options: _Options) -> None:
    """Write the policy in the formats that were asked for, and say so."""
    output.policy(options.policy, problem, solution, options.as_json)
    if options.strategy is not None:
        policy = fm.Policy.of(problem, solution)
        for path, weight in zip(
            fm.save_strategy(problem, solution, options.strategy), policy.weights, strict=True
        ):
            drawn = f", to be followed by {weight:.6g} of all runs" if policy.is_mixture else ""
            output.saved(path + drawn, options.as_json)


def _solved(problem: fm.Problem, options: _Options) -> fm.Solution:
    """The solution by the method that was asked for, with its progress where somebody watches."""
    method, device, tol, seconds = options.method, options.device, options.tol, options.seconds
    if device != "cpu" and not options.as_json:  # how much memory it takes
        logging.basicConfig(level=logging.INFO, format="  %(message)s")
    if method == "mirror" and device == "cpu":
        return run_mirror(
            problem, tol=tol, steps=options.steps, seconds=seconds, seed=options.seed,
            checkpoint=options.checkpoint, quiet=options.as_json,
        )  # fmt: skip
    if options.steps is not None or options.checkpoint is not None:
        raise click.UsageError("--steps and --checkpoint go with --method mirror")
    return fm.solve(
        problem, method=method, tol=tol, seconds=seconds, device=device, patience=options.patience,
        progress=output.watched(show_progress, options.as_json),
    )  # fmt: skip


def show_progress(row: dict[str, float]) -> None:
    """One line per report of a solver, for whoever waits at a terminal."""
    lower = f"{row['lower']:.6f}" if row["lower"] > float("-inf") else "-"
    bounds = f"gain between {lower} and {row['upper']:.6f}, worst slack {row['worst_slack']:+.1e}"
    click.echo(f"  {row['seconds']:7.1f} s  {bounds}", err=True)


def _draw(plot: str, problem: fm.Problem, solution: fm.Solution) -> Axes:
    if plot == "policy":
        return views.plots.plot_policy(problem.mdp, fm.Policy.of(problem, solution))
    if plot == "graph":
        return views.plots.plot_graph(problem.mdp, solution.occupancy)
    return views.plots.plot_shares(problem, {"fair": solution.shares})
