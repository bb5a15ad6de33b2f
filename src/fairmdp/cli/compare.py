"""``fairmdp compare``: several notions of a good policy, side by side."""

from __future__ import annotations

from dataclasses import dataclass

import click

import fairmdp as fm
from fairmdp import io, views
from fairmdp.cli import flags, output, worlds
from fairmdp.cli.flags import Count, option
from fairmdp.model.objectives import PRINCIPLES


@dataclass(frozen=True)
class _Options:
    policies: tuple[str, ...] = option(
        "--policy", multiple=True, metavar="NAME=FILE",
        help="A policy of yours as one more column, in any format that audit reads. Repeatable.",
    )  # fmt: skip
    principles: tuple[str, ...] = flags.principle(
        "The policy of a principle of fairness, as in welfare --by; all: the usual six. Repeatable.",
        multiple=True,
    )
    over: tuple[str, ...] = flags.over()
    steps: int | None = option(
        "--steps",
        type=Count(40),
        help="Of a world: steps that each policy is simulated.  [default: 5000]",
    )
    seed: int = flags.seed("Of a world: everything random follows from it.")
    as_json: bool = flags.as_json("comparison")
    figure: str | None = flags.figure()


@click.command()
@flags.problem
@flags.of(_Options)
def compare(source: io.Source, options: _Options) -> None:
    """Compare policies for SOURCE: the fair optimum, the optimum without quotas, max-min, uniform, yours.

    Shows what each earns, how it treats the groups that the quotas name, and which quotas it breaks. Every
    number is proved by the certificate; a policy whose shares cannot be proved is left out.

    Of a world, policies that keep capacity at every step are simulated, beside the ceiling that is proved.

    \b
    fairmdp compare jobs --by all
    fairmdp compare jobs --policy today=policy.csv
    fairmdp compare job-server -p clients=1000 --steps 10000
    """
    world = source.world()
    if world is not None:
        worlds.refuse_options({
            "--policy": options.policies or None, "--by": options.principles or None,
            "--over": options.over or None, "--figure": options.figure,
        })  # fmt: skip
        return worlds.compare_world(
            source, world, steps=options.steps or 5_000, seed=options.seed, as_json=options.as_json
        )
    if options.steps is not None:
        raise click.UsageError("--steps is for worlds: what a policy of a problem earns is proved")
    problem = source.problem()
    if problem.weighted.all() and not options.over:
        raise click.UsageError("there are no groups to compare: name some with --quota 'state>=0'")
    own = {}
    for text in options.policies:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise click.UsageError(f"--policy {text!r}: expected NAME=FILE, such as today=policy.csv")
        own[name] = io.read_policy(problem, path)
    principles = [one for text in options.principles for one in (PRINCIPLES if text == "all" else (text,))]
    seen = fm.compare(problem, own, principles=principles, over=options.over or None)
    output.answer(options.as_json, views.comparison_data, views.comparison_text, source.target, seen)
    output.figure(options.figure, lambda: views.plots.plot_comparison(problem, seen), options.as_json)
