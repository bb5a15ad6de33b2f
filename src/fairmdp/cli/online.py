"""``fairmdp online``: an agent that learns while it runs, and keeps an account for every quota."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import click

import fairmdp as fm
from fairmdp import io, views
from fairmdp.cli import flags, output
from fairmdp.cli.exit_codes import STOPPED
from fairmdp.cli.flags import FILE, POSITIVE, Count, option
from fairmdp.model.simulator import ModelSimulator
from fairmdp.online.skeleton import skeleton


@dataclass(frozen=True)
class _Options:
    steps: int = option(
        "--steps", type=Count(1), default=20_000, show_default=True, help="All steps of the run."
    )
    seed: int = flags.seed()
    safe: str | None = option(
        "--safe-start", type=FILE, metavar="FILE",
        help="Begin with a policy that oversteps all quotas: one learned from this table of records (.csv, "
        ".parquet), the one of a solution (.json) of stricter quotas, or any policy, with --slack.",
    )  # fmt: skip
    slack: float | None = option(
        "--slack", type=POSITIVE, help="By how much the safe start oversteps every bound, at least."
    )
    delta: float = option(
        "--delta", type=POSITIVE, default=0.05, show_default=True,
        help="Level of what is learned from records, and how rarely an account is to outrun its cushion.",
    )  # fmt: skip
    on_terminate: str | None = option(
        "--on-terminate", type=click.Choice(["restart"]),
        help="What follows where an episode of an environment ends: a step, for no reward, to the next one.",
    )  # fmt: skip
    checkpoint: str | None = option(
        "--checkpoint", type=FILE, help="Keep the run in this file now and then, and go on from it."
    )
    as_json: bool = flags.as_json("run")
    csv_file: str | None = flags.csv("Write the curve to this file.")
    figure: str | None = flags.figure()


@click.command()
@flags.problem
@flags.of(_Options)
def online(source: io.Source, options: _Options) -> None:
    """Let an agent run in SOURCE that learns as it goes and keeps an account for every quota.

    SOURCE is a problem, whose numbers only the world sees, module:name of a simulator or of an environment
    of Gymnasium, or an environment's id; --param sets what gymnasium.make takes. Shown are the reward and
    the shares so far, which are exact, and the accounts: what each quota was given beyond its due, in
    steps. With a safe start the run begins with a policy that is known to overstep all quotas;
    without one nothing is promised but that the accounts are kept.

    Ctrl-C ends the run and shows what it was. Exit codes: 0 all steps were taken, 4 stopped before.

    \b
    fairmdp online three-state --steps 20000 --seed 1
    fairmdp online jobs --safe-start records.csv --checkpoint run.npz --figure run.png
    fairmdp online three-state --safe-start stricter.json
    fairmdp online FrozenLake-v1 --on-terminate restart --quota '0<=0.4'
    """
    for name, file in (("--csv", options.csv_file), ("--checkpoint", options.checkpoint)):
        flags.check_file(name, file)
    if options.slack is not None and options.safe is None:
        raise click.UsageError("--slack is that of a --safe-start")
    if source.log() is not None:
        raise click.UsageError(
            f"{source.target} holds records, in which nothing can run: name a problem as SOURCE, and them as "
            "--safe-start"
        )
    env, problem, known = _system(source, options)
    start = None if options.safe is None else _start(options.safe, problem, options)
    agent = fm.OnlineAgent(problem, start=start, slack=options.slack, delta=options.delta, seed=options.seed)
    upper = _upper(problem) if known else None
    bar = output.watched(_progress, options.as_json)
    run = fm.run_online(
        env, agent, options.steps, seed=options.seed, on_terminate=options.on_terminate,
        checkpoint=options.checkpoint, progress=bar,
    )  # fmt: skip
    if bar is not None:
        click.echo(err=True)
    data = views.online_data(run, upper)
    click.echo(views.as_json(data) if options.as_json else views.online_text(source.target, problem, data))
    output.table(options.csv_file, run.to_table, options.as_json)
    output.figure(options.figure, lambda: views.plots.plot_online(run, upper), options.as_json)
    if not run.finished:
        sys.exit(STOPPED)


def _system(source: io.Source, options: _Options) -> tuple[Any, fm.Problem, bool]:
    """What the agent acts in, the quotas on it, and whether its model is known."""
    env = source.environment()
    if env is not None:
        logged = None if options.safe is None or options.slack is not None else io.Source(options.safe).log()
        told = env if logged is None else logged[0]  # which knows an action between two episodes, too
        return env, source.quotas_on(skeleton(told, None)), False
    if options.on_terminate is not None:
        raise click.UsageError(f"--on-terminate is for environments, and {source.target} has no episodes")
    simulator, problem = source.simulator()
    known = isinstance(simulator, ModelSimulator)
    return (problem if known else simulator), problem, known


def _start(path: str, problem: fm.Problem, options: _Options) -> Any:
    """What a file holds to begin with: records to learn from, a solution, or a policy."""
    if options.slack is not None:
        return io.read_policy(problem, path)
    logged = io.Source(path).log()
    if logged is None:
        return io.read_kept(problem, path)
    return fm.learn_start(logged[0], problem.quotas, delta=options.delta, seed=options.seed)


def _upper(problem: fm.Problem) -> float | None:
    """What no fair policy exceeds in the long run; nothing where none is fair."""
    found = fm.solve(problem)
    return found.upper if found.has_policy else None


def _progress(done: int, steps: int, said: fm.AgentReport) -> None:
    worst = f"; gain {said.gain:.4f}, worst account {said.worst_account:+,.1f} steps"
    click.echo(f"\r  {done:,} of {steps:,} steps{worst}   ", nl=False, err=True)
