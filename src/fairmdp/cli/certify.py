"""``fairmdp certify``: whether a policy meets its quotas, from fresh samples of a simulator alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

import fairmdp as fm
from fairmdp import io, views
from fairmdp.cli import flags
from fairmdp.cli.engine import engine_options, opened
from fairmdp.cli.exit_codes import OF_VERDICT
from fairmdp.cli.flags import FILE, Count, option
from fairmdp.learning.estimate import Told


def progress(quiet: bool, clock: Callable[[], float] = time.perf_counter) -> Told | None:
    """Show how many samples a certificate has drawn, and the time left, to whoever waits at a terminal."""
    if quiet or not sys.stderr.isatty():
        return None
    begun = clock()

    def show(done: int, planned: int) -> None:
        left = max(planned - done, 0) * (clock() - begun) / max(done, 1)
        click.echo(f"\r  {done:,} of {planned:,} fresh samples, {left:.0f} s left   ", nl=False, err=True)

    return show


@dataclass(frozen=True)
class _Options:
    samples: int = option(
        "--samples", type=Count(1000), default=100_000, show_default=True, help="Fresh samples to draw."
    )
    delta: float = option(
        "--delta", default=0.05, show_default=True, help="Probability with which a verdict may fail."
    )
    rigorous: bool = option("--rigorous", is_flag=True, help="Bounds that hold for any number of samples.")
    seed: int = flags.seed()
    as_json: bool = flags.as_json("result")


@click.command()
@flags.problem
@click.argument("solution_file", type=FILE, metavar="SOLUTION")
@flags.of(_Options)
@engine_options
def certify(source: io.Source, solution_file: str, options: _Options, **where: Any) -> None:
    """Say whether the policy of SOLUTION meets the quotas on SOURCE, from fresh samples of it.

    SOURCE is what learn takes, module:name of a simulator or a problem; SOLUTION is the file that learn or
    solve has kept with --out, or a policy in any file that audit reads. Each quota is fair, not fair or
    undecided, with probability 1 - delta for all of them. Samples of the training are not looked at: a seed
    gives learn and certify different ones.

    Exit codes: 0 fair, 3 not fair, 4 undecided.

    \b
    fairmdp learn three-state --samples 6000 -o three.json
    fairmdp certify three-state three.json --samples 1000000
    """
    simulator, problem = source.simulator()
    policy = fm.Policy.of(problem, io.read_kept(problem, solution_file))
    if policy.is_mixture:
        raise fm.ProblemError(
            f"{solution_file}: this is a mixture of policies, and one is certified at a time\n"
            "  in Python, give fm.certify each of Solution.load(path).ends.policies"
        )
    bar = progress(options.as_json)
    with opened(**where) as engine:
        proof = fm.certify(
            simulator, policy.array, problem.quotas, samples=options.samples, delta=options.delta,
            rigorous=options.rigorous, seed=options.seed, progress=bar, engine=engine,
        )  # fmt: skip
    if bar is not None:
        click.echo(err=True)
    record = views.certificate_data(problem.units, proof)
    click.echo(views.as_json(record) if options.as_json else views.certificate_text(source.target, record))
    sys.exit(OF_VERDICT[proof.verdict])
