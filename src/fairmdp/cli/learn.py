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
from fairmdp.cli import flags, output
from fairmdp.cli.certify import progress
from fairmdp.cli.engine import engine_options, opened
from fairmdp.cli.exit_codes import INFEASIBLE, SOLVED, STOPPED
from fairmdp.cli.flags import FILE, POSITIVE, Count, option
from fairmdp.learning import METHODS

_FIRST_BOUNDS = 2.0  # seconds before bounds are shown along with the progress
_RARELY = 20.0  # times what they cost, between one look at them and the next


@dataclass(frozen=True)
class _Options:
    samples: int | None = option(
        "--samples", type=Count(1), help="Budget: answers of the simulator for single pairs."
    )
    eps: float | None = option("--eps", type=POSITIVE, help="Instead: accuracy, in units of reward.")
    method: str = option(
        "--method", type=click.Choice(list(METHODS)), default="plugin", show_default=True,
        help="; ".join(f"{name}: {method.summary}" for name, method in METHODS.items()) + ".",
    )  # fmt: skip
    delta: float = option(
        "--delta", default=0.05, show_default=True, help="Level of the claim: how often a run may be wrong."
    )
    seed: int = flags.seed()
    fresh: int | None = option("--certify", type=Count(1000), help="Certify with so many fresh samples.")
    rigorous: bool = option(
        "--rigorous", is_flag=True, help="With --certify: bounds that hold for any number of samples."
    )
    principle: str | None = flags.principle(
        "Maximise the welfare of a principle of fairness, as in welfare --by, and not the gain."
    )
    over: tuple[str, ...] = flags.over("With --by: ")
    gain: float = option("--gain", default=0.0, help="With --by: weight of the gain beside the welfare.")
    names_only: bool = flags.names_only()
    folder: str | None = option(
        "--folder", type=click.Path(file_okay=False), help="Keep chunks of samples here and go on from them."
    )
    as_json: bool = flags.as_json("result")
    policy: str | None = flags.policy()
    out: str | None = option("--out", "-o", type=FILE, help="Keep the result in this file (JSON).")


@click.command()
@flags.problem
@flags.of(_Options)
@engine_options
def learn(source: io.Source, options: _Options, **where: Any) -> None:
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
    flags.check_file("--out", options.out, ".json")
    flags.check_file("--policy", options.policy, ".csv", ".json")
    logged = source.log()
    if logged is not None:
        log, problem = logged
        beside: dict[str, Any] = {
            "--samples": options.samples, "--eps": options.eps, "--certify": options.fresh,
            "--folder": options.folder, "--method mirror": options.method == "mirror" or None,
            "--by": options.principle,
            "--names-only": options.names_only or None, **where,
        }  # fmt: skip
        odd = next((name for name, value in beside.items() if value is not None), None)
        if odd is not None:
            raise click.UsageError(f"{odd} is for simulators: {source.target} holds the records there are")
        found = fm.learn(log, problem.quotas, delta=options.delta, seed=options.seed)
        _finish(source, problem, found, None, options)
    if options.samples is None and options.eps is None:
        raise click.UsageError(
            "give a budget, such as --samples 10000 (hundreds per pair), or an accuracy, --eps 0.01"
        )
    if options.samples is not None and options.eps is not None:
        raise click.UsageError("give --samples or --eps, not both")
    if options.principle is None and (options.over or options.gain):
        raise click.UsageError("--over and --gain say what --by is of")
    if options.principle is not None and options.eps is not None:
        raise click.UsageError("--by takes a budget: give --samples")
    aim = _aim(options)
    given = {"eps": options.eps, "engine": options.folder or next(filter(None, where.values()), None), **aim}
    why_not = METHODS[options.method].refusal([name for name, value in given.items() if value is not None])
    if why_not is not None:
        raise click.UsageError(f"--method {options.method}: {why_not}")
    simulator, problem = source.simulator()
    problem = problem.with_sets_unbounded() if options.names_only else problem
    bar = output.watched(_progress(), options.as_json)
    proof = None
    how: dict[str, Any] = {"delta": options.delta, "seed": options.seed}
    with opened(**where, folder=options.folder) as engine:
        found = fm.learn(
            simulator, problem.quotas, samples=options.samples, eps=options.eps, method=options.method,
            progress=bar, engine=engine, **how, **aim,
        )  # fmt: skip
        if options.fresh is not None:
            proof = fm.certify(
                simulator, found.policy, problem.quotas, samples=options.fresh, rigorous=options.rigorous,
                training=found.counts, progress=progress(options.as_json), engine=engine, **how,
            )  # fmt: skip
            if bar is not None:
                click.echo(err=True)
    _finish(source, problem, found, proof, options)


def _aim(options: _Options) -> dict[str, Any]:
    """What is to be maximised, if not the gain."""
    if options.principle is None:
        return {}
    objective = fm.parse_objective(options.principle)
    return {"objective": objective, "over": options.over or None, "reward": options.gain}


def _finish(
    source: io.Source, problem: fm.Problem, found: fm.Estimate, proof: fm.CertifiedPolicy | None,
    options: _Options,
) -> NoReturn:  # fmt: skip
    """Show the result, keep it, and end with its code."""
    record = views.estimate_data(problem.units, found, proof)
    text = views.as_json(record) if options.as_json else views.estimate_text(source.target, problem, record)
    click.echo(text)
    output.policy(options.policy, problem, found, options.as_json)
    if (out := options.out) is not None:
        # Time is no part of the result: a run that was taken up again keeps the same bytes.
        kept = {name: value for name, value in record.items() if name != "seconds"}
        files.write_bytes(out, (views.as_json(kept) + "\n").encode())
        again = shlex.join([*source.words, out])
        prove = f"   (prove it: fairmdp certify {again})" if found.records is None else ""
        output.saved(out + prove, options.as_json)
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
