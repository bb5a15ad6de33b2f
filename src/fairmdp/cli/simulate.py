"""``fairmdp simulate``: run a solution's policy and watch the shares come about."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import click

import fairmdp as fm
from fairmdp import io, views
from fairmdp.cli import flags, worlds
from fairmdp.cli.engine import engine_options, opened
from fairmdp.cli.exit_codes import STOPPED
from fairmdp.cli.flags import FILE, Count, option
from fairmdp.model.simulator import ModelSimulator


@dataclass(frozen=True)
class _Options:
    steps: int = option("--steps", type=Count(1), default=10_000, show_default=True, help="Steps of a run.")
    runs: int = option("--runs", type=Count(2), default=100, show_default=True, help="Independent runs.")
    seed: int = flags.seed()
    policy: str = option(
        "--policy", type=click.Choice(["auto", "fair", "fair_id", "index", "id", "greedy"]), default="auto",
        show_default=True, help="Of a world: who comes first in a step.",
    )  # fmt: skip
    window: float = option(
        "--window", default=20.0, show_default=True, help="Of a world: steps by which somebody may be behind."
    )
    margin: float = option(
        "--margin", default=0.005, show_default=True,
        help="Of a world: what is aimed at above every quota, in parts of the time.",
    )  # fmt: skip
    reserve: float = option(
        "--reserve", default=0.0, show_default=True,
        help="Of a world: part of every capacity without which prices are found; auto tries several.",
    )  # fmt: skip
    as_json: bool = flags.as_json("result")


@click.command()
@flags.problem
@click.argument("solution_file", type=FILE, metavar="SOLUTION")
@flags.of(_Options)
@engine_options
def simulate(source: io.Source, solution_file: str, options: _Options, **where: Any) -> None:
    """Run the policy of SOLUTION on SOURCE; shares with error bars, beside the exact ones if they are known.

    SOURCE is a problem, or module:name of a simulator; SOLUTION is what solve or learn has kept with --out,
    or a policy in any file that audit reads.
    A share after finitely many steps scatters around its long-run value, so that a quota without room to
    spare is missed by about half of the runs however long they are. The last columns show this.

    Of a world, SOLUTION is the plan, and one run of a policy that never uses more than there is follows it.

    \b
    fairmdp solve three-state -o three.json
    fairmdp simulate three-state three.json --steps 1000
    fairmdp simulate three-state policy.csv
    fairmdp solve job-server -o plan.npz
    fairmdp simulate job-server plan.npz --steps 20000 --window 50
    """
    world = source.world()
    if world is not None:
        worlds.refuse_options({f"--{name}": value for name, value in where.items()})
        return worlds.simulate_world(
            source, world, solution_file, kind=options.policy, window=options.window, margin=options.margin,
            reserve=options.reserve, steps=options.steps, seed=options.seed, as_json=options.as_json,
        )  # fmt: skip
    simulator, problem = source.simulator()
    kept = io.read_kept(problem, solution_file)
    solution = kept if isinstance(kept, fm.Solution) else None
    if source.start is not None and (solution is None or solution.provenance["problem"] != problem.digest):
        simulator, problem = replace(source, start=None).simulator()  # it was solved for another start
    known = isinstance(simulator, ModelSimulator)
    model = problem.mdp if known else simulator
    with opened(**where) as engine:
        seen = fm.simulate(
            model, kept, steps=options.steps, runs=options.runs, seed=options.seed, starts=source.start,
            quotas=problem.quotas, engine=engine,
        )  # fmt: skip
    odd = () if solution is None or not known else fm.surprises(problem, solution, seen)
    data = views.simulation_data(problem, seen, solution, odd)
    click.echo(views.as_json(data) if options.as_json else views.simulation_text(source.target, data))
    if not seen.finished:
        sys.exit(STOPPED)
