"""``fairmdp frontier``: what fairness costs, as one quota moves, or two."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fairmdp.cli.figures import figure_option, save_figure
from fairmdp.cli.source import number, problem_options, read_problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmdp.frontiers.points import Engine
    from fairmdp.problem import Problem

_EVEN = 11  # values of each quota of a grid where none are given
_MOST = 100_000  # values that may be asked for by their count


@click.command(short_help="What fairness costs: the best gain for every share owed.")
@problem_options
@click.argument("quota", default="*")
@click.argument("second", required=False)
@click.option("--values", metavar="SHARES", help="Look at these only: 0.1,0.2 or 0:0.4:9 (nine, even).")
@click.option("--second-values", metavar="SHARES", help="The same for SECOND.")
@click.option("--cap", is_flag=True, help="Move the cap of QUOTA instead of what it is owed.")
@click.option("--workers", type=click.IntRange(1), help="Share the values out to so many processes.")
@click.option("--json", "as_json", is_flag=True, help="Print the frontier as JSON.")
@click.option("--csv", "csv_file", type=click.Path(dir_okay=False), help="Write the table to this file.")
@figure_option
def frontier(
    source: str,
    params: tuple[str, ...],
    rho: str | None,
    quotas: tuple[str, ...],
    quota: str,
    second: str | None,
    values: str | None,
    second_values: str | None,
    cap: bool,
    workers: int | None,
    as_json: bool,
    csv_file: str | None,
    figure: str | None,
) -> None:
    """Show the best gain of SOURCE as the share owed to QUOTA moves, its cap, or a factor on all quotas (*).

    QUOTA is a quota's name; a state or a state/action will do, too.
    Without --values every bend of the curve is found, from 0 to the last value that any policy can meet. With
    SECOND, another quota, the best gain is shown for every combination of the two: of the given values, or of
    eleven even ones each, up to the last that can be met.

    \b
    fairmdp frontier three-state s2
    fairmdp frontier clinic.toml ward_b --figure price.png --csv price.csv
    fairmdp frontier clinic.toml ward_a --cap
    fairmdp frontier clinic.toml ward_b ward_c --values 0:0.3:7 --second-values 0:0.3:7
    """
    from fairmdp.quota_text import parse_quota

    if second is None and second_values is not None:
        raise click.UsageError("--second-values goes with a second quota")
    if second is not None and cap:
        raise click.UsageError("--cap goes with one quota only")
    problem = read_problem(source, params, rho, quotas)
    for name in filter(None, (quota, second)):
        if name != "*" and name not in problem.names:
            problem = problem.with_quotas([parse_quota(problem, f"{name}>=0")])
    first = None if values is None else _values(values, "--values")
    with _engine(workers) as engine:
        if second is None:
            shown = _curve(source, problem, quota, first, engine, "at_most" if cap else "at_least")
        else:
            other = None if second_values is None else _values(second_values, "--second-values")
            shown = _grid(source, problem, (quota, second), (first, other), engine)
    click.echo(json.dumps(shown.data, allow_nan=False) if as_json else shown.text)
    if csv_file is not None:
        from fairmdp.io.atomic import write_bytes

        write_bytes(csv_file, shown.csv.encode())
        if not as_json:
            click.echo(f"  saved   {csv_file}")
    save_figure(figure, shown.draw, quiet=as_json)


class _Shown(NamedTuple):
    """A result in all its forms."""

    text: str
    csv: str
    data: dict[str, Any]
    draw: Callable[[], Axes]


def _curve(
    source: str, problem: Problem, quota: str, values: list[float] | None, engine: Engine, bound: str
) -> _Shown:
    from fairmdp.frontiers import frontier, report
    from fairmdp.plots import plot_frontier

    curve = frontier(problem, quota, values, bound=bound, engine=engine)
    return _Shown(
        report.frontier_text(source, curve),
        report.frontier_csv(curve),
        report.frontier_dict(curve),
        lambda: plot_frontier(curve),
    )


def _grid(
    source: str,
    problem: Problem,
    quotas: tuple[str, str],
    values: tuple[list[float] | None, list[float] | None],
    engine: Engine,
) -> _Shown:
    from fairmdp.frontiers import frontier_grid, last_feasible, report
    from fairmdp.plots import plot_grid

    owed = [
        _even(0, last_feasible(problem, quota), _EVEN) if given is None else given
        for quota, given in zip(quotas, values, strict=True)
    ]
    grid = frontier_grid(problem, *quotas, *owed, engine=engine)
    return _Shown(
        report.grid_text(source, grid), report.grid_csv(grid), report.grid_dict(grid), lambda: plot_grid(grid)
    )


def _values(text: str, option: str) -> list[float]:
    """Shares with commas between them, or first:last:count."""
    first, *rest = text.split(":")
    if not rest:
        return [number(part, option) for part in text.split(",")]
    if len(rest) != 2 or not rest[1].isdecimal() or not 2 <= int(rest[1][:9]) <= _MOST:
        raise click.UsageError(
            f"{option} {text!r}: expected FIRST:LAST:COUNT, such as 0:0.4:9, with 2 to {_MOST:,} values"
        )
    return _even(number(first, option), number(rest[0], option), int(rest[1]))


def _even(first: float, last: float, count: int) -> list[float]:
    return [first + (last - first) * k / (count - 1) for k in range(count)]


def _engine(workers: int | None) -> AbstractContextManager[Engine]:
    if workers is None:
        return nullcontext(map)
    from fairmdp.engine import ProcessPool

    return ProcessPool(workers)
