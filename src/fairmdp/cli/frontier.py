"""``fairmdp frontier``: what fairness costs, as one quota moves."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairmdp.cli.source import problem_options, read_problem

if TYPE_CHECKING:
    from fairmdp.frontiers import Frontier


@click.command()
@problem_options
@click.argument("quota", default="*")
@click.option("--values", metavar="SHARES", help="Look at these values only, e.g. 0.1,0.2,0.3.")
@click.option("--json", "as_json", is_flag=True, help="Print the frontier as JSON.")
@click.option("--csv", "csv_file", type=click.Path(dir_okay=False), help="Write the table to this file.")
@click.option("--figure", type=click.Path(dir_okay=False), help="Draw it: .png or .pdf.")
def frontier(
    source: str,
    params: tuple[str, ...],
    rho: str | None,
    quotas: tuple[str, ...],
    quota: str,
    values: str | None,
    as_json: bool,
    csv_file: str | None,
    figure: str | None,
) -> None:
    """Show the best gain of SOURCE as the share owed to QUOTA moves, or a factor on all quotas (*).

    Without --values every bend of the curve is found, from 0 to the last value that any policy can meet.

    \b
    fairmdp frontier three-state s2
    fairmdp frontier clinic.toml ward_b --figure price.png --csv price.csv
    """
    from fairmdp.cli.source import number
    from fairmdp.frontiers import frontier as compute

    if figure is not None and Path(figure).suffix.lower() not in (".png", ".pdf"):
        raise click.UsageError(f"--figure {figure}: expected a name that ends in .png or .pdf")
    problem = read_problem(source, params, rho, quotas)
    asked = None if values is None else [number(text, "--values") for text in values.split(",")]
    curve = compute(problem, quota, asked)
    click.echo(json.dumps(_as_dict(curve), allow_nan=False) if as_json else _text(source, curve))
    if csv_file is not None:
        _write(csv_file, _csv(curve))
    if figure is not None:
        from fairmdp.plots import image, plot_frontier

        _write(figure, image(plot_frontier(curve), Path(figure).suffix.lower()[1:]))


def _text(source: str, curve: Frontier) -> str:
    from fairmdp.report import columns

    what = "factor" if curve.quota == "*" else "owed"
    rows = [[what, "gain", "costs", "slope", "worst slack"]]
    for k, value in enumerate(curve.values):
        if not math.isfinite(curve.gains[k]):
            rows.append([f"{value:.6f}", "infeasible", "-", "-", "-"])
            continue
        slope = f"{curve.slopes[k]:.4f}" if k < curve.slopes.size else "-"
        slack = curve.solutions[k].worst_slack
        shown = f"{round(slack, 9) + 0.0:+.4g}" if math.isfinite(slack) else "-"
        rows.append([f"{value:.6f}", f"{curve.gains[k]:.6f}", f"{curve.prices[k]:.6f}", slope, shown])
    kind = "its ends and bends; slope: change of gain per unit owed, up to the next row"
    head = f"{source}: best gain against {'all quotas' if curve.quota == '*' else curve.quota}"
    lines = [f"{head}, {kind if curve.exact else 'at the given values'}", "", *columns(rows)]
    if curve.exact:
        lines += ["", f"  no policy meets more than {curve.limit:.6f}"]
        lines += _who_pays(curve)
    return "\n".join(lines)


def _who_pays(curve: Frontier) -> list[str]:
    """Change of every other quota's share between the ends."""
    change = curve.shares[-1] - curve.shares[0]
    moved = [
        f"{name} {delta:+.4f}"
        for name, delta in zip(curve.quota_names, change, strict=True)
        if name != curve.quota and abs(delta) > 1e-6
    ]
    return [f"  from end to end the other shares move: {', '.join(moved[:12])}"] if moved else []


def _as_dict(curve: Frontier) -> dict[str, object]:
    def plain(array: object) -> object:
        if isinstance(array, list):
            return [plain(item) for item in array]
        return array if not isinstance(array, float) or math.isfinite(array) else None

    return {
        "quota": curve.quota,
        "exact": curve.exact,
        "values": plain(curve.values.tolist()),
        "gains": plain(curve.gains.tolist()),
        "slopes": plain(curve.slopes.tolist()),
        "prices": plain(curve.prices.tolist()),
        "last_feasible": curve.last_feasible,
        "limit": curve.limit,
        "quotas": list(curve.quota_names),
        "shares": plain(curve.shares.tolist()),
    }


def _csv(curve: Frontier) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["value", "gain", "price_of_fairness", "slope", *(f"share_{n}" for n in curve.quota_names)]
    )
    for k, value in enumerate(curve.values):
        slope = curve.slopes[k] if k < curve.slopes.size else ""
        writer.writerow([value, curve.gains[k], curve.prices[k], slope, *curve.shares[k]])
    return text.getvalue().encode()


def _write(path: str, content: bytes) -> None:
    from fairmdp.io.atomic import write_bytes

    write_bytes(path, content)
