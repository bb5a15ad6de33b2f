"""``fairmdp certify``: whether a policy meets its quotas, from fresh samples of a simulator alone."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

import click

from fairmdp.cli.engine import engine_options, opened
from fairmdp.cli.source import problem_options, read_kept, read_simulator

if TYPE_CHECKING:
    from fairmdp.learning.estimate import CertifiedPolicy
    from fairmdp.weights import Units

_STOPPED = 4
_MAX_ROWS = 20


@click.command(short_help="Prove from fresh samples that a learned policy is fair.")
@problem_options
@click.argument("solution_file", metavar="SOLUTION")
@click.option(
    "--samples", type=click.IntRange(1000), default=100_000, show_default=True, help="Fresh samples to draw."
)
@click.option("--delta", default=0.05, show_default=True, help="Probability with which a verdict may fail.")
@click.option("--rigorous", is_flag=True, help="Bounds that hold for any number of samples.")
@click.option("--seed", default=0, show_default=True, help="Everything random follows from it.")
@engine_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def certify(
    source: str,
    solution_file: str,
    params: tuple[str, ...],
    rho: str | None,
    quotas: tuple[str, ...],
    samples: int,
    delta: float,
    rigorous: bool,
    seed: int,
    as_json: bool,
    **where: Any,
) -> None:
    """Say whether the policy of SOLUTION meets the quotas on SOURCE, from fresh samples of it.

    SOURCE is what learn takes, module:name of a simulator or a problem; SOLUTION is the file that learn or
    solve has kept with --out. Each quota is fair, not fair or undecided, with probability 1 - delta for all
    of them. Samples of the training are not looked at: a seed gives learn and certify different ones.

    Exit codes: 0 fair, 3 not fair, 4 undecided.

    \b
    fairmdp learn three-state --samples 6000 -o three.json
    fairmdp certify three-state three.json --samples 1000000
    """
    from fairmdp.learning.certify import certify as prove

    simulator, problem = read_simulator(source, params, rho, quotas)
    policy = read_kept(solution_file)["policy"]
    with opened(**where) as engine:
        proof = prove(
            simulator, policy, problem.quotas, samples=samples, delta=delta, rigorous=rigorous, seed=seed,
            run_chunks=engine,
        )  # fmt: skip
    click.echo(
        json.dumps(proof_record(problem.units, proof), allow_nan=False)
        if as_json
        else _text(source, problem.units, proof)
    )
    sys.exit({"fair": 0, "not fair": 3, "undecided": _STOPPED}[proof.verdict])


def _text(source: str, units: Units, proof: CertifiedPolicy) -> str:
    return "\n".join([f"{source}: {proof.verdict}", "", *proof_lines(units, proof)])


def proof_lines(units: Units, proof: CertifiedPolicy) -> list[str]:
    """What a certificate says, for people."""
    level = f"with probability {1 - proof.delta:g}"
    lines = [f"  certificate from {proof.samples:,} fresh samples, {proof.method}: {proof.verdict}, {level}"]
    if proof.vacuous:
        return [*lines, "  vacuous: these samples are too few for a rigorous statement"]
    lines.append(f"  gain in [{proof.gain_low:.4f}, {proof.gain_high:.4f}]")
    if math.isfinite(proof.upper):
        lines[-1] += f", no fair policy exceeds {proof.upper:.4f}"
    low, high = units.values(proof.share_low), units.values(proof.share_high)
    for k, name in enumerate(proof.quota_names[:_MAX_ROWS]):
        interval = f"[{low[k]:.4f}, {high[k]:.4f}]"
        lines.append(f"  share of {name} in {interval}: {proof.verdicts[k]}")
    if len(proof.quota_names) > _MAX_ROWS:
        lines.append(f"  ... and {len(proof.quota_names) - _MAX_ROWS} more quotas")
    if proof.more_samples is not None:
        lines.append(f"  about {proof.more_samples:,} more samples would decide")
    return lines + [f"  note    {note}" for note in proof.notes]


def proof_record(units: Units, proof: CertifiedPolicy) -> dict[str, Any]:
    """What a certificate says, for programs; numbers that are not finite are null."""
    names = (
        "verdict", "verdicts", "gain_low", "gain_high", "quota_names", "share_low", "share_high", "upper",
        "delta", "method", "rigorous", "vacuous", "samples", "more_samples", "notes",
    )  # fmt: skip
    record = {"fairmdp_certificate": 1, **{name: plain(getattr(proof, name)) for name in names}}
    for name in ("share_low", "share_high"):
        record[name] = plain(units.values(getattr(proof, name)))
    return record


def plain(value: Any) -> Any:
    """A value as JSON takes it."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
