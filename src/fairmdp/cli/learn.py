"""``fairmdp learn``: a fair policy from a simulator, and a certificate from fresh samples."""

from __future__ import annotations

import json
import math
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmdp.cli.certify import plain, proof_lines, proof_record
from fairmdp.cli.engine import engine_options, opened
from fairmdp.cli.source import problem_options, read_simulator, repeat

if TYPE_CHECKING:
    from fairmdp.learning.estimate import CertifiedPolicy, Estimate
    from fairmdp.problem import Problem
    from fairmdp.validation import Floats
    from fairmdp.weights import Units

_STOPPED = 4
_FIRST_BOUNDS = 2.0  # seconds before bounds are shown along with the progress
_RARELY = 20.0  # times what they cost, between one look at them and the next


@click.command(short_help="Learn a fair policy from a simulator.")
@problem_options
@click.option("--samples", type=click.IntRange(1), help="Budget: answers of the simulator for single pairs.")
@click.option("--eps", type=click.FloatRange(0, min_open=True), help="Instead: accuracy, in units of reward.")
@click.option("--delta", default=0.05, show_default=True, help="Probability with which the claim may fail.")
@click.option("--seed", default=0, show_default=True, help="Everything random follows from it.")
@click.option("--certify", "fresh", type=click.IntRange(1000), help="Certify with so many fresh samples.")
@click.option("--rigorous", is_flag=True, help="With --certify: bounds that hold for any number of samples.")
@engine_options
@click.option(
    "--folder", type=click.Path(file_okay=False), help="Keep chunks of samples here and go on from them."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--out", "-o", type=click.Path(dir_okay=False), help="Keep the result in this file (JSON).")
def learn(
    source: str,
    params: tuple[str, ...],
    rho: str | None,
    quotas: tuple[str, ...],
    samples: int | None,
    eps: float | None,
    delta: float,
    seed: int,
    fresh: int | None,
    rigorous: bool,
    folder: str | None,
    as_json: bool,
    out: str | None,
    **where: Any,
) -> None:
    """Learn a fair policy of SOURCE from samples alone.

    SOURCE is module:name of a simulator (an object, or a class or function that makes one without
    parameters; see fairmdp.Simulator), a problem file or a ready-made problem, whose model is then only
    sampled from.
    Quotas on a simulator name states by number, e.g. --quota '3>=0.25', or state/action, e.g. '3/a1>=0.1'.

    \b
    fairmdp learn three-state --samples 6000 --certify 100000
    fairmdp learn mymodule:simulator --quota '0>=0.2' --eps 0.01
    """
    from fairmdp.learning.certify import certify
    from fairmdp.solvers.plugin import learn_plugin

    if samples is None and eps is None:
        raise click.UsageError(
            "give a budget, such as --samples 10000 (a claim takes 100 per pair), or an accuracy, --eps 0.01"
        )
    if samples is not None and eps is not None:
        raise click.UsageError("give --samples or --eps, not both")
    if out is not None and not Path(out).absolute().parent.is_dir():
        raise click.UsageError(f"--out {out}: there is no such folder")
    simulator, problem = read_simulator(source, params, rho, quotas)
    bar = _progress() if sys.stderr.isatty() and not as_json else None
    proof = None
    with opened(**where, folder=folder) as engine:
        found = learn_plugin(
            simulator, problem.quotas, samples=samples, eps=eps, delta=delta, seed=seed, progress=bar,
            run_chunks=engine,
        )  # fmt: skip
        if fresh is not None:
            proof = certify(
                simulator, found.policy, problem.quotas, samples=fresh, delta=delta, rigorous=rigorous,
                seed=seed, training=found.counts, run_chunks=engine,
            )  # fmt: skip
    record = _as_dict(problem.units, found, proof)
    click.echo(json.dumps(record, allow_nan=False) if as_json else _text(source, problem, found, proof))
    if out is not None:
        from fairmdp.io.atomic import write_bytes

        write_bytes(out, (json.dumps(record, allow_nan=False) + "\n").encode())
        if not as_json:
            again = repeat(source, params, rho, quotas)
            click.echo(f"  saved   {out}   (prove it: fairmdp certify {again} {shlex.quote(out)})")
    if not found.finished:
        sys.exit(_STOPPED)
    sys.exit(0 if found.guaranteed else _STOPPED if found.feasible else 3)


def _progress(clock: Callable[[], float] = time.perf_counter) -> Callable[..., None]:
    """Show samples and time left after every chunk, and bounds as often as they cost next to nothing."""
    begun = clock()
    due, bounds = begun + _FIRST_BOUNDS, ""

    def show(done: int, planned: int, estimate: Callable[[], Estimate]) -> None:
        nonlocal due, bounds
        now = clock()
        if now >= due:
            found = estimate()
            due = now + max(_FIRST_BOUNDS, _RARELY * (clock() - now))
            bounds = f"; gain {found.gain:.4f} +- {found.gain_se:.4f}, worst slack {found.worst_slack:+.4f}"
        left = (planned - done) * (now - begun) / done
        end = "\n" if done >= planned else ""
        click.echo(
            f"\r  {done:,} of {planned:,} samples, {left:.0f} s left{bounds}   {end}", nl=False, err=True
        )

    return show


def _text(source: str, problem: Problem, found: Estimate, proof: CertifiedPolicy | None) -> str:
    from fairmdp.report import asked_text, columns, size_text

    slack = f"{found.worst_slack:+.4f}" if math.isfinite(found.worst_slack) else "-"
    better = f"; a better fair policy earns at most {max(found.gap, 0):.4f} more" if found.feasible else ""
    lines = [
        f"{source}: {size_text(problem)}; "
        f"plug-in from {found.samples:,} samples, at least {found.min_samples:,} of every pair",
        "",
        f"  gain    {found.gain:.4f} +- {found.gain_se:.4f} (estimate); worst slack {slack}{better}",
        f"  claim   {found.claim}",
        "",
    ]
    rows = [["quota", "share", "+-", "asked", "margin", "price"]]
    shown = {name: convert(getattr(found, name)) for name, convert in _conversions(problem.units).items()}
    for k, name in enumerate(found.quota_names[:20]):
        asked = asked_text(found.at_least[k], found.at_most[k], problem.units.of(k))
        share, error, margin = (f"{shown[what][k]:.4f}" for what in ("shares", "share_se", "margins"))
        price = f"{shown['prices'][k]:.4f}" if found.feasible else "-"
        rows.append([name, share, error, asked, margin, price])
    lines += columns(rows) if found.quota_names else ["  no quotas"]
    lines += [f"  note    {note}" for note in found.notes]
    if proof is not None:
        lines += ["", *proof_lines(problem.units, proof)]
    return "\n".join(lines)


def _conversions(units: Units) -> dict[str, Callable[[Floats], Floats]]:
    """What turns each array over the quotas into the units in which they were stated."""
    return {
        **dict.fromkeys(("shares", "at_least", "at_most"), units.values),
        **dict.fromkeys(("share_se", "margins"), units.spans),
        "prices": units.prices,
    }


def _as_dict(units: Units, found: Estimate, proof: CertifiedPolicy | None) -> dict[str, Any]:
    """What was learned, for programs; numbers that are not finite are null."""
    names = (
        "gain", "gain_se", "gap", "worst_slack", "shares", "share_se", "margins", "margin_fraction", "prices",
        "feasible", "guaranteed", "claim", "quota_names", "at_least", "at_most", "samples", "min_samples",
        "delta", "finished", "seconds", "notes", "policy",
    )  # fmt: skip
    record: dict[str, Any] = {"fairmdp_estimate": 1, **{name: plain(getattr(found, name)) for name in names}}
    for name, convert in _conversions(units).items():
        record[name] = plain(convert(getattr(found, name)))
    if proof is not None:
        record["certificate"] = proof_record(units, proof)
    return record
