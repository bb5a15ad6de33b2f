"""``fairmdp frontier``: what fairness costs, as one quota moves, or two."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import click

import fairmdp as fm
from fairmdp import io, views
from fairmdp.cli import flags, output, worlds
from fairmdp.cli.flags import option

_MOST = 100_000  # values that may be asked for by their count


@dataclass(frozen=True)
class _Options:
    values: str | None = option(
        "--values", metavar="SHARES", help="Look at these only: 0.1,0.2 or 0:0.4:9 (nine, even)."
    )
    second_values: str | None = option("--second-values", metavar="SHARES", help="The same for SECOND.")
    cap: bool = option("--cap", is_flag=True, help="Move the cap of QUOTA instead of what it is owed.")
    workers: int | None = option(
        "--workers", type=click.IntRange(1), help="Share the values out to so many processes."
    )
    as_json: bool = flags.as_json("frontier")
    csv_file: str | None = flags.csv()
    figure: str | None = flags.figure()


@click.command()
@flags.problem
@click.argument("quota", default="*")
@click.argument("second", required=False)
@flags.of(_Options)
def frontier(source: io.Source, quota: str, second: str | None, options: _Options) -> None:
    """Show the best gain of SOURCE as the share owed to QUOTA moves, its cap, or a factor on all quotas (*).

    QUOTA is a quota's name; a state or a state/action will do, too.
    Without --values every breakpoint of the curve is found, from 0 to the last value that any policy can
    meet. With SECOND, another quota, the best gain is shown for every combination of the two: of the given
    values, or of eleven even ones each, up to the last that can be met.

    Of a world QUOTA is a resource, whose capacity moves (the first one, where none is named), or a quota,
    which then asks the same of all who are owed something.

    \b
    fairmdp frontier three-state s2
    fairmdp frontier clinic.toml ward_b --figure price.png --csv price.csv
    fairmdp frontier clinic.toml ward_a --cap
    fairmdp frontier clinic.toml ward_b ward_c --values 0:0.3:7 --second-values 0:0.3:7
    fairmdp frontier job-server slots --values 200:500:7
    fairmdp frontier job-server 'short queue'
    """
    if second is None and options.second_values is not None:
        raise click.UsageError("--second-values goes with a second quota")
    if second is not None and options.cap:
        raise click.UsageError("--cap goes with one quota only")
    world, values = source.world(), values_of(options.values, "--values")
    if world is not None:
        worlds.refuse_options({
            "SECOND": second, "--second-values": options.second_values, "--cap": options.cap,
            "--workers": options.workers,
        })  # fmt: skip
        return worlds.frontier_of_world(
            source, world, quota, values, csv_file=options.csv_file, figure=options.figure,
            as_json=options.as_json,
        )  # fmt: skip
    problem = source.problem()
    with _engine(options.workers) as engine:
        if second is None:
            shown: Any = views.frontier_data, views.frontier_text
            bound = "at_most" if options.cap else "at_least"
            found: Any = fm.frontier(problem, quota, values, bound=bound, engine=engine)
        else:
            shown = views.grid_data, views.grid_text
            others = values_of(options.second_values, "--second-values")
            found = fm.frontier_grid(problem, quota, second, values, others, engine=engine)
    output.answer(options.as_json, *shown, source.target, found)
    output.table(options.csv_file, found.to_table, options.as_json)
    plot: Any = views.plots.plot_frontier if second is None else views.plots.plot_grid
    output.figure(options.figure, lambda: plot(found, problem=problem), options.as_json)


def values_of(text: str | None, option: str) -> list[float] | None:
    """Shares with commas between them, or first:last:count; none where nothing was asked for."""
    if text is None:
        return None
    first, *rest = text.split(":")
    if not rest:
        return [io.number(part, option) for part in text.split(",")]
    if len(rest) != 2 or not rest[1].isdecimal() or not 2 <= int(rest[1][:9]) <= _MOST:
        raise click.UsageError(
            f"{option} {text!r}: expected FIRST:LAST:COUNT, such as 0:0.4:9, with 2 to {_MOST:,} values"
        )
    low, high, count = io.number(first, option), io.number(rest[0], option), int(rest[1])
    return [low + (high - low) * k / (count - 1) for k in range(count)]


def _engine(workers: int | None) -> AbstractContextManager[Any]:
    return nullcontext(map) if workers is None else fm.ProcessPool(workers)
