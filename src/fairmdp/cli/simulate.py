"""``fairmdp simulate``: run a solution's policy and watch the shares come about."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from fairmdp.cli.engine import engine_options, opened
from fairmdp.cli.source import is_simulator, problem_options, read_kept, read_simulator

if TYPE_CHECKING:
    from fairmdp.learning.simulate import Simulation
    from fairmdp.mdp import MDP
    from fairmdp.problem import Problem
    from fairmdp.solution import Solution
    from fairmdp.validation import Floats
    from fairmdp.weights import Units

_SURPRISING = 5.0  # standard errors from the exact value that call for a note
_MAX_ROWS = 20
_STOPPED = 4


@click.command(short_help="Run a policy and watch its shares come about.")
@problem_options
@click.argument("solution_file", metavar="SOLUTION")
@click.option("--steps", type=click.IntRange(1), default=10_000, show_default=True, help="Steps of a run.")
@click.option("--runs", type=click.IntRange(2), default=100, show_default=True, help="Independent runs.")
@click.option("--seed", default=0, show_default=True, help="Everything random follows from it.")
@click.option("--start", metavar="STATE", help="First state of every run; else drawn as the model says.")
@engine_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def simulate(
    source: str,
    solution_file: str,
    params: tuple[str, ...],
    rho: str | None,
    quotas: tuple[str, ...],
    steps: int,
    runs: int,
    seed: int,
    start: str | None,
    as_json: bool,
    **where: Any,
) -> None:
    """Run the policy of SOLUTION on SOURCE; shares with error bars, beside the exact ones if they are known.

    SOURCE is a problem, or module:name of a simulator; SOLUTION is what solve or learn has kept with --out.
    A share after finitely many steps scatters around its long-run value, so that a quota without room to
    spare is missed by about half of the runs however long they are. The last columns show this.

    \b
    fairmdp solve three-state -o three.json
    fairmdp simulate three-state three.json --steps 1000
    """
    from fairmdp.errors import ProblemError
    from fairmdp.learning.simulate import simulate as run
    from fairmdp.solution import Solution

    simulator, problem = read_simulator(source, params, rho, quotas)
    kept = read_kept(solution_file)
    solution = None if "fairmdp_estimate" in kept else Solution.load(solution_file)
    if len(kept["policy"]) != problem.mdp.n_pairs:
        raise ProblemError(
            f"{solution_file} has a policy over {len(kept['policy'])} state-action pairs, "
            f"{source} has {problem.mdp.n_pairs}\n  name the problem as you did when it was solved"
        )
    known = not is_simulator(source)
    with opened(**where) as engine:
        seen = run(
            problem.mdp if known else simulator, kept["policy"], steps=steps, runs=runs, seed=seed,
            starts=start, quotas=problem.quotas, run_chunks=engine,
        )  # fmt: skip
    notes = seen.notes
    if not seen.finished:
        notes += (f"stopped after {seen.runs:,} runs of {seen.steps:,} steps",)
    if known and solution is not None:
        notes += tuple(_surprises(problem, solution, seen))
    record = json.dumps(_as_dict(problem.units, solution, seen, notes), allow_nan=False) if as_json else ""
    click.echo(record or _text(source, problem.units, solution, seen, notes))
    if not seen.finished:
        sys.exit(_STOPPED)


def _exact_shares(solution: Solution | None) -> dict[str, float]:
    return {} if solution is None else {row.name: row.share for row in solution.quotas}


def _surprises(problem: Problem, solution: Solution, seen: Simulation) -> list[str]:
    """What does not fit: another problem, or means far from the exact values."""
    notes = []
    if solution.provenance.get("problem") != problem.digest:
        notes.append("the solution is of another model or other quotas; its exact values are not of this one")
    mdp, policy = problem.mdp, solution.policy
    exact = _exact_shares(solution)
    shares, errors = problem.units.values(seen.shares), problem.units.spans(seen.share_se)
    watched = [("gain", solution.gain, seen.gain, seen.gain_se, mdp.r)]
    watched += [
        (
            f"share of {name}",
            exact[name],
            float(shares[k]),
            float(errors[k]),
            problem.weights[[k]],
        )
        for k, name in enumerate(seen.quota_names)
        if name in exact
    ]
    for what, due, mean, se, collected in watched:
        off = abs(mean - due)
        if off > _SURPRISING * se + 1e-9 * max(1.0, abs(due)) and len(notes) < _MAX_ROWS:
            left_over = _end_effect(mdp, policy, collected) / seen.steps / 0.9
            why = f"where runs begin and end may shift it by {left_over:.1g}; take more steps"
            if off > left_over + _SURPRISING * se:
                why = "that is no accident"
            notes.append(f"{what} {mean:.4f} is {off:.1g} off, beyond its error bar: {why}")
    return notes


def _end_effect(mdp: MDP, policy: Floats, collected: Any) -> float:
    """Span of the bias of what a pair collects: T steps differ from T times the mean by at most that."""
    import numpy as np

    from fairmdp.chain import Chain

    chain = Chain.of(mdp, policy)
    if len(chain.closed_classes) > 1:
        return float("inf")
    f = collected.toarray()[0] if hasattr(collected, "toarray") else collected
    return float(np.ptp(chain.bias(np.add.reduceat(policy * f, mdp.pair_ptr[:-1]))))


def _text(
    source: str, units: Units, solution: Solution | None, seen: Simulation, notes: tuple[str, ...]
) -> str:
    from fairmdp.report import asked_text, columns

    exact = _exact_shares(solution)
    late = f"after {seen.steps:,} steps"
    rows = [["quota", "share", "exact", "asked", f"{late}, 5% to 95% of runs", "met in"]]
    low, high = units.values(seen.quantiles((0.05, 0.95)))
    shares, errors = units.values(seen.shares), units.spans(seen.share_se)
    met = seen.met
    for k, name in enumerate(seen.quota_names[:_MAX_ROWS]):
        rows.append(
            [
                name,
                f"{shares[k]:.4f} +- {errors[k]:.4f}",
                f"{exact[name]:.4f}" if name in exact else "-",
                asked_text(seen.at_least[k], seen.at_most[k], units.of(k)),
                f"{low[k]:.4f} to {high[k]:.4f}",
                f"{met[k]:.0%} of runs",
            ]
        )
    lines = [
        f"{source}: {seen.runs:,} runs of {seen.steps:,} steps; means without the first tenth, "
        "+- one standard error",
        "",
        f"  gain    {seen.gain:.4f} +- {seen.gain_se:.4f}"
        + ("" if solution is None else f"   exact {solution.gain:.6f}"),
        "",
        *(columns(rows) if len(rows) > 1 else ["  no quotas"]),
    ]
    if len(seen.quota_names) > _MAX_ROWS:
        lines.append(f"  ... and {len(seen.quota_names) - _MAX_ROWS} more quotas")
    if len(rows) > 2:
        lines += ["", f"  all quotas are met {late} in {seen.met_all:.0%} of runs"]
    return "\n".join(lines + [f"  note    {note}" for note in notes])


def _as_dict(
    units: Units, solution: Solution | None, seen: Simulation, notes: tuple[str, ...]
) -> dict[str, Any]:
    exact = _exact_shares(solution)
    quantiles, met = units.values(seen.quantiles((0.05, 0.5, 0.95))), seen.met
    shares, errors = units.values(seen.shares), units.spans(seen.share_se)
    lower, upper = units.values(seen.at_least), units.values(seen.at_most)
    return {
        "fairmdp_simulation": 1,
        "runs": seen.runs,
        "steps": seen.steps,
        "finished": seen.finished,
        "gain": seen.gain,
        "gain_se": seen.gain_se,
        "exact_gain": None if solution is None else solution.gain,
        "quotas": [
            {
                "name": name,
                "share": float(shares[k]),
                "share_se": float(errors[k]),
                "exact_share": exact.get(name),
                "at_least": float(lower[k]),
                "at_most": float(upper[k]),
                "after_steps": dict(zip(("5%", "50%", "95%"), quantiles[:, k].tolist(), strict=True)),
                "met": float(met[k]),
            }
            for k, name in enumerate(seen.quota_names)
        ],
        "met_all": seen.met_all,
        "notes": list(notes),
    }
