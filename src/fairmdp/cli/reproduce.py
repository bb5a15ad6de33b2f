"""``fairmdp reproduce``: every figure of the paper."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmdp import mirror, scenarios
from fairmdp.files import write_bytes
from fairmdp.views import plots
from fairmdp.views.paper import curve_end, reproduction_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmdp.mirror.experiments import Variant


@click.command(short_help="Repeat the paper's experiments.")
@click.option(
    "--out", "-o", default="reproduction", show_default=True, type=click.Path(file_okay=False),
    help="Folder for the tables and figures; made if there is none.",
)  # fmt: skip
@click.option(
    "--variant", type=click.Choice(["definition", "published"]), default="definition", show_default=True,
    help="Algorithm 1 as stated, or the step of the authors' script (reversed KL, half step in lambda).",
)  # fmt: skip
@click.option("--full", is_flag=True, help="100 runs for every quota, where the paper has 10.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="First seed.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def reproduce(out: str, variant: Variant, full: bool, seed: int, as_json: bool) -> None:
    """Repeat the paper's experiments: tables as CSV, figures as PNG and PDF, and a summary.

    The same seed gives the same tables, whatever the number of cores. The bias floor, which the paper
    does not show, runs the algorithm 50 times as long with constant steps and with our default.

    \b
    fairmdp reproduce
    fairmdp reproduce --variant published --out published --full
    """
    begin, experiments = time.perf_counter(), mirror.experiments
    folder = _folder(out)
    quota_runs = 100 if full else 10
    reward, shares = experiments.optimum(scenarios.three_state([0, 0, 0]))
    summary: dict[str, Any] = {
        "variant": variant,
        "seed": seed,
        "out": str(folder),
        "without_quotas": {"reward": reward, "shares": shares.tolist()},
    }
    try:
        with _progress(100 + 5 * quota_runs + 20) as tick:
            curve = experiments.convergence(variant=variant, seed=seed, tick=tick)
            write_bytes(folder / "convergence.csv", experiments.curves_csv([curve]))
            _draw(folder / "reward", plots.plot_reward(curve))
            _draw(folder / "visitation", plots.plot_visitation(curve))
            _draw(folder / "gap", plots.plot_gap(curve))
            summary["convergence"] = curve_end(curve)

            curves = experiments.quotas(variant=variant, runs=quota_runs, seed=seed, tick=tick)
            write_bytes(folder / "quotas.csv", experiments.curves_csv(curves))
            _draw(folder / "quota-reward", plots.plot_quota_rewards(curves))
            _draw(folder / "quota-visitation", plots.plot_quota_shares(curves))
            summary["quotas"] = [curve_end(curve) for curve in curves]

            floor = experiments.bias_floor(seed=seed, tick=tick)
            write_bytes(folder / "floor.csv", experiments.floor_csv(floor))
            _draw(folder / "bias-floor", plots.plot_bias_floor(floor))
            summary["floor"] = [{"schedule": curve.label} | curve_end(curve) for curve in floor]
    except KeyboardInterrupt:
        done = [name for name in ("convergence", "quotas", "floor") if name in summary]
        click.echo(f"stopped; complete in {folder}: {', '.join(done) or 'nothing'}", err=True)
        sys.exit(4)
    summary["seconds"] = round(time.perf_counter() - begin, 1)
    click.echo(json.dumps(summary) if as_json else reproduction_text(summary))


def _folder(out: str) -> Path:
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"--out {out}: {error.strerror}") from None
    return Path(out)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], object] | None]:
    """What to call after each run: moves a bar, if somebody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("runs", total=total)
        yield lambda: bar.advance(task)


def _draw(path: Path, axes: Axes) -> None:
    for kind in ("png", "pdf"):
        write_bytes(path.with_suffix(f".{kind}"), plots.image(axes, kind))
