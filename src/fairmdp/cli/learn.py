"""``fairmdp learn``: a fair policy from a simulator or from records, and a certificate from fresh samples."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import click

import fairmdp as fm
from fairmdp import files, io, views
from fairmdp.cli.certify import progress
from fairmdp.cli.engine import engine_options, opened
from fairmdp.cli.exit_codes import INFEASIBLE, SOLVED, STOPPED
from fairmdp.cli.options import check_file, option, options, problem_options
from fairmdp.cli.words import FILE, Count
from fairmdp.learning import METHODS

_FIRST_BOUNDS = 2.0  # seconds before bounds are shown along with the progress
_RARELY = 20.0  # times what they cost, between one look at them and the next


@dataclass(frozen=True)
class _Options:
    principle: str | None = option(
        "--by", metavar="PRINCIPLE",
        help="Maximise the welfare of a principle of fairness, as in welfare --by, and not the gain.",
    )  # fmt: skip
    over: tuple[str, ...] = option(
        "--over", multiple=True, metavar="NAME",
        help="With --by: a group to count.  [default: all quotas that are sets]  Repeatable.",
    )  # fmt: skip
    gain: float = option("--gain", default=0.0, help="With --by: weight of the gain beside the welfare.")
    names_only: bool = option(
        "--names-only", is_flag=True, help="Quotas name the groups; what they ask for is set aside."
    )


@click.command()
@problem_options
@click.option("--samples", type=Count(1), help="Budget: answers of the simulator for single pairs.")
@click.option("--eps", type=click.FloatRange(0, min_open=True), help="Instead: accuracy, in units of reward.")
@click.option(
    "--method", type=click.Choice(list(METHODS)), default="plugin", show_default=True,
    help="; ".join(f"{name}: {method.summary}" for name, method in METHODS.items()) + ".",
)  # fmt: skip
@click.option(
    "--delta", default=0.05, show_default=True, help="Level of the claim: how often a run may be wrong."
)
@click.option("--seed", default=0, show_default=True, help="Everything random follows from it.")
@click.option("--certify", "fresh", type=Count(1000), help="Certify with so many fresh samples.")
@click.option("--rigorous", is_flag=True, help="With --certify: bounds that hold for any number of samples.")
@options(_Options)
@engine_options
@click.option(
    "--folder", type=click.Path(file_okay=False), help="Keep chunks of samples here and go on from them."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--policy", "policy_file", type=FILE, help="Write the policy by names, as .csv or .json.")
@click.option("--out", "-o", type=click.Path(dir_okay=False), help="Keep the result in this file (JSON).")
def learn(
    source: io.Source,
    samples: int | None,
    eps: float | None,
    method: str,
    delta: float,
    seed: int,
    fresh: int | None,
    rigorous: bool,
    folder: str | None,
    as_json: bool,
    policy_file: str | None,
    out: str | None,
    options: _Options,
    **where: Any,
) -> None:
    """Learn a fair policy of SOURCE from samples alone, or from the records that there are.

    SOURCE is module:name of a simulator (an object, or a class or function that makes one without
    parameters; see fairmdp.Simulator), a problem file or a ready-made problem, whose model is then only
    sampled from. Or it is a table of records (.csv, .parquet) with columns state, action, reward and next,
    and perhaps trajectory, time and weight: then nothing is sampled, and no budget is given.
    Quotas on a simulator name states by number, e.g. --quota '3>=0.25', or state/action, e.g. '3/a1>=0.1'.

    \b
    fairmdp learn three-state --samples 6000 --certify 100000
    fairmdp learn mymodule:simulator --quota '0>=0.2' --eps 0.01
    fairmdp learn jobs --names-only --by nash --samples 50000
    fairmdp learn records.csv --quota 'ward_b>=0.25' -o learned.json
    """
    check_file("--out", out, ".json")
    check_file("--policy", policy_file, ".csv", ".json")
    logged = source.log()
    if logged is not None:
        log, problem = logged
        beside: dict[str, Any] = {
            "--samples": samples, "--eps": eps, "--certify": fresh, "--folder": folder,
            "--method mirror": method == "mirror" or None, "--by": options.principle,
            "--names-only": options.names_only or None, **where,
        }  # fmt: skip
        odd = next((name for name, value in beside.items() if value is not None), None)
        if odd is not None:
            raise click.UsageError(f"{odd} is for simulators: {source.target} holds the records there are")
        found = fm.learn(log, problem.quotas, delta=delta, seed=seed)
        _finish(source, problem, found, None, as_json, policy_file, out)
    if samples is None and eps is None:
        raise click.UsageError(
            "give a budget, such as --samples 10000 (hundreds per pair), or an accuracy, --eps 0.01"
        )
    if samples is not None and eps is not None:
        raise click.UsageError("give --samples or --eps, not both")
    if options.principle is None and (options.over or options.gain):
        raise click.UsageError("--over and --gain say what --by is of")
    if options.principle is not None and eps is not None:
        raise click.UsageError("--by takes a budget: give --samples")
    aim = _aim(options)
    given = {"eps": eps, "engine": folder or next(filter(None, where.values()), None), **aim}
    why_not = METHODS[method].refusal([name for name, value in given.items() if value is not None])
    if why_not is not None:
        raise click.UsageError(f"--method {method}: {why_not}")
    simulator, problem = source.simulator()
    problem = problem.with_sets_unbounded() if options.names_only else problem
    bar = _progress() if sys.stderr.isatty() and not as_json else None
    proof = None
    with opened(**where, folder=folder) as engine:
        found = fm.learn(
            simulator, problem.quotas, samples=samples, eps=eps, delta=delta, method=method, seed=seed,
            progress=bar, engine=engine, **aim,
        )  # fmt: skip
        if fresh is not None:
            proof = fm.certify(
                simulator, found.policy, problem.quotas, samples=fresh, delta=delta, rigorous=rigorous,
                seed=seed, training=found.counts, progress=progress(as_json), engine=engine,
            )  # fmt: skip
            if bar is not None:
                click.echo(err=True)
    _finish(source, problem, found, proof, as_json, policy_file, out)


def _aim(options: _Options) -> dict[str, Any]:
    """What is to be maximised, if not the gain."""
    if options.principle is None:
        return {}
    objective = fm.parse_objective(options.principle)
    return {"objective": objective, "over": options.over or None, "reward": options.gain}


def _finish(
    source: io.Source,
    problem: fm.Problem,
    found: fm.Estimate,
    proof: fm.CertifiedPolicy | None,
    as_json: bool,
    policy_file: str | None,
    out: str | None,
) -> NoReturn:
    """Show the result, keep it, and end with its code."""
    record = views.estimate_data(problem.units, found, proof)
    click.echo(views.as_json(record) if as_json else views.estimate_text(source.target, problem, record))
    if policy_file is not None:
        fm.Policy.of(problem, found).save(policy_file)
        if not as_json:
            click.echo(f"  saved   {policy_file}")
    if out is not None:
        # Time is no part of the result: a run that was taken up again keeps the same bytes.
        kept = {name: value for name, value in record.items() if name != "seconds"}
        files.write_bytes(out, (views.as_json(kept) + "\n").encode())
        if not as_json:
            again = shlex.join([*source.words, out])
            prove = f"   (prove it: fairmdp certify {again})" if found.records is None else ""
            click.echo(f"  saved   {out}{prove}")
    sys.exit(SOLVED if found.finished and found.guaranteed else _unproved(found))


def _unproved(found: fm.Estimate) -> int:
    return STOPPED if found.feasible or not found.finished else INFEASIBLE


def _progress(clock: Callable[[], float] = time.perf_counter) -> Callable[..., None]:
    """Show samples and time left after every chunk, and bounds as often as they cost next to nothing."""
    begun = clock()
    due, bounds = begun + _FIRST_BOUNDS, ""

    def show(done: int, planned: int, estimate: Callable[[], fm.Estimate]) -> None:
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
