"""What commands do where their source is a world."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

import fairmdp as fm
from fairmdp import io, views
from fairmdp.cli import output
from fairmdp.cli.exit_codes import BAD_PROBLEM, INFEASIBLE, OF_STATUS, SOLVED, STOPPED


def refuse_options(given: Mapping[str, Any]) -> None:
    """Raise where an option was given that worlds do not have; those that were not are None or False."""
    for option, value in given.items():
        if value is not None and value is not False:
            raise click.UsageError(f"{option} is for problems, and this is a world")


def solve_world(
    source: io.Source, world: fm.World, *, tol: float, seconds: float | None, out: str | None,
    csv_file: str | None, figure: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Print the plan of a world, keep what was asked for, and end with the code of its status."""
    if out is not None and not out.endswith(".npz"):
        raise click.UsageError(f"--out {out}: plans of worlds are kept as .npz")
    plan = fm.solve_world(world, tol=tol, seconds=seconds, progress=output.watched(_show_progress, as_json))
    free = None
    if plan.status == "optimal" and (world.sides or world.group_sides):
        free = fm.solve_world(world.without_quotas(), tol=tol)
    output.answer(as_json, views.world_data, views.world_text, source.target, world, plan, free)
    if out is not None:
        plan.save(out)
        output.saved(out, as_json, "verify", *source.words, out)
    if plan.has_policy:
        output.table(csv_file, lambda: plan.clients(world), as_json)
        output.figure(figure, lambda: views.plots.plot_world(world, plan), as_json)
    sys.exit(OF_STATUS[plan.status])


def _show_progress(row: dict[str, float]) -> None:
    """One line for each evaluation, for whoever waits at a terminal."""
    rows, upper = f"{row['rows']:,.0f} rows", row["upper"]
    lower = f"{row['lower']:.6f}" if row["lower"] > float("-inf") else "-"
    click.echo(f"  {row['evaluations']:4.0f}  {rows}: between {lower} and {upper:.6f}", err=True)


def verify_world(world: fm.World, path: str, *, exact: bool, tol: float, as_json: bool) -> None:
    """Print what a plan's file proves of a world, and end with the code of that."""
    verdict = fm.verify(world, fm.WorldPlan.load(path), exact=exact, tol=tol)
    output.answer(as_json, views.world_verdict_data, views.world_verdict_text, path, verdict)
    sys.exit(SOLVED if verdict.ok else BAD_PROBLEM)


def frontier_of_world(
    source: io.Source, world: fm.World, name: str, values: Sequence[float] | None, *,
    csv_file: str | None, figure: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Print ceilings against a capacity or a quota that all have in common."""
    if name == "*":
        name = world.resources[0].name if world.resources else "*"
    curve = fm.world_frontier(world, name, values)
    output.answer(as_json, views.world_frontier_data, views.world_frontier_text, source.target, curve)
    output.table(csv_file, curve.to_table, as_json)
    output.figure(figure, lambda: views.plots.plot_world_frontier(curve), as_json)


def simulate_world(
    source: io.Source, world: fm.World, path: str, *, kind: str, window: float, margin: float,
    reserve: float, steps: int, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Print what a policy that follows a kept plan does in one run."""
    plan = fm.WorldPlan.load(path)
    policy = fm.dispatch_policy(world, plan, kind, window=window, margin=margin, reserve=reserve)
    seen = fm.simulate_world(world, policy, steps, seed)
    shown = views.world_simulation_data, views.world_simulation_text
    output.answer(as_json, *shown, source.target, world, plan, policy, seen)
    if not seen.finished:
        sys.exit(STOPPED)


def compare_world(source: io.Source, world: fm.World, *, steps: int, seed: int, as_json: bool) -> None:
    """Print what policies of a world gain and whom they serve."""
    plan = fm.solve_world(world)
    if not plan.has_policy:
        output.answer(as_json, views.world_data, views.world_text, source.target, world, plan)
        sys.exit(INFEASIBLE)
    compared = fm.compare_world(world, plan, steps=steps, seed=seed)
    if as_json:
        click.echo(views.as_json(views.world_comparison_data(compared)))
    else:
        click.echo(views.world_comparison_text(source.target, world, compared))
