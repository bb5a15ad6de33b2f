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

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmdp.reproduce import Curve, Variant

_SAYINGS = {
    "reward": "approaches the fair optimal value",
    "nu2": "approaches the required value (25%)",
}
"""What the paper says of its runs; it prints numbers for the optimum without quotas only."""


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
    from fairmdp import plots, scenarios, solve_lp
    from fairmdp import reproduce as experiments

    begin = time.perf_counter()
    folder = _folder(out)
    quota_runs = 100 if full else 10
    free = solve_lp(scenarios.three_state([0, 0, 0]))
    summary: dict[str, Any] = {
        "variant": variant,
        "seed": seed,
        "out": str(folder),
        "without_quotas": {"reward": free.gain, "shares": free.visitation.tolist()},
    }
    try:
        with _progress(100 + 5 * quota_runs + 20) as tick:
            curve = experiments.convergence(variant=variant, seed=seed, tick=tick)
            _write(folder / "convergence.csv", experiments.curves_csv([curve]))
            _draw(folder / "reward", plots.plot_reward(curve))
            _draw(folder / "visitation", plots.plot_visitation(curve))
            _draw(folder / "gap", plots.plot_gap(curve))
            summary["convergence"] = _row(curve)

            curves = experiments.quotas(variant=variant, runs=quota_runs, seed=seed, tick=tick)
            _write(folder / "quotas.csv", experiments.curves_csv(curves))
            _draw(folder / "quota-reward", plots.plot_quota_rewards(curves))
            _draw(folder / "quota-visitation", plots.plot_quota_shares(curves))
            summary["quotas"] = [_row(curve) for curve in curves]

            floor = experiments.bias_floor(seed=seed, tick=tick)
            _write(folder / "floor.csv", experiments.floor_csv(floor))
            _draw(folder / "bias-floor", plots.plot_bias_floor(floor))
            summary["floor"] = [{"schedule": curve.label} | _row(curve) for curve in floor]
    except KeyboardInterrupt:
        done = [name for name in ("convergence", "quotas", "floor") if name in summary]
        click.echo(f"stopped; complete in {folder}: {', '.join(done) or 'nothing'}", err=True)
        sys.exit(4)
    summary["seconds"] = round(time.perf_counter() - begin, 1)
    click.echo(json.dumps(summary) if as_json else _text(summary))


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
    from fairmdp.plots import image

    for kind in ("png", "pdf"):
        _write(path.with_suffix(f".{kind}"), image(axes, kind))


def _write(path: Path, content: bytes) -> None:
    from fairmdp.io.atomic import write_bytes

    write_bytes(path, content)


def _row(curve: Curve) -> dict[str, Any]:
    """Where a curve ends."""
    from fairmdp.reproduce import QUANTITIES

    t = int(curve.t[-1])
    ends = {quantity: curve.at(t, quantity) for quantity in QUANTITIES}
    return {
        "t": t,
        "runs": curve.runs,
        "rho": list(curve.rho),
        "optimum": curve.optimum,
        **{quantity: {"mean": mean, "std": std} for quantity, (mean, std) in ends.items()},
        "runs_below_quota": int((curve.samples["nu2"][:, -1] < curve.rho[2]).sum()),
    }


def _text(summary: dict[str, Any]) -> str:
    free, end = summary["without_quotas"], summary["convergence"]
    shares = ", ".join(f"{100 * share:.1f}" for share in free["shares"])
    lines = [
        f"three-state, variant {summary['variant']}: M = 100, eta = 0.01, mean +- std over the runs",
        "",
        f"  without quotas: reward {free['reward']:.4f}, shares {shares} %",
        "       the paper: reward 0.526, shares 47.4, 43.5, 9.1 %",
        "",
        f"  convergence: {_runs(end)}, owed {', '.join(map(str, end['rho']))}",
        "                                             optimum   the paper",
    ]
    for quantity, name, due in (
        ("reward", "reward of the policy", f"{end['optimum']:.4f}"),
        ("reward_avg", "reward of the average", f"{end['optimum']:.4f}"),
        ("nu2", "share of s2, owed 0.25", "0.2500"),
        ("gap", "gap", "0"),
    ):
        said = _SAYINGS.get(quantity, "")
        lines.append(f"  {name:<22}  {_pm(end[quantity])}   {due:<7}   {said}".rstrip())
    first = summary["quotas"][0]
    lines += [
        "",
        f"  quotas: {_runs(first)} each",
        "  owed s2   reward             optimum   share of s2        runs below",
    ]
    lines += [
        f"  {row['rho'][2]:<7.2f}   {_pm(row['reward'])}   {row['optimum']:<7.4f}   {_pm(row['nu2'])}"
        f"   {row['runs_below_quota']}"
        for row in summary["quotas"]
    ]
    lines += [
        "",
        f"  bias floor, which the paper does not show: {_runs(summary['floor'][0])}, variant definition",
        "  steps                    reward             from the optimum",
    ]
    names = ("0.01, whole run", "0.01, later half", "our default")
    lines += [
        f"  {name:<22}   {_pm(row['reward'])}   {row['reward']['mean'] - row['optimum']:+.4f}"
        for name, row in zip(names, summary["floor"], strict=True)
    ]
    lines += ["", f"  saved   3 tables and 6 figures in {summary['out']}   ({summary['seconds']:.1f} s)"]
    return "\n".join(lines)


def _runs(row: dict[str, Any]) -> str:
    return f"{row['runs']} runs of {row['t']:,} steps"


def _pm(value: dict[str, float]) -> str:
    return f"{value['mean']:.4f} +- {value['std']:.4f}"
