"""Results as plain data: each becomes a dict of names, numbers and lists here, and nowhere else.

Text, tables, notebooks, reports and the page are made from these dicts. A number that is not known is NaN, an
open end infinite; `plain` makes null of both, and of arrays lists, so that any language reads the JSON.
Nothing is computed that the public functions do not return; what is drawn of a large model is cut to what an
eye can take in, and the data say so where it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmdp import certificate, model
from fairmdp.certificate import FAIR_TOL
from fairmdp.model.checks import Floats, counted
from fairmdp.model.conditional import VOID, Condition
from fairmdp.model.problem import Problem
from fairmdp.model.time import spanned
from fairmdp.model.weights import Units
from fairmdp.solution.solution import Solution, Status, slacks
from fairmdp.views.ends import ends_data, meaning_data, seen_ends, starts_data
from fairmdp.views.policy import GRAPH_STATES, graph_data, policies_data
from fairmdp.views.sentences import infeasible_data, method_text, note_texts

if TYPE_CHECKING:  # a small solve does without them
    from fairmdp.certificate import Readout, Verdict
    from fairmdp.frontiers import Comparison, Frontier, FrontierGrid
    from fairmdp.learning.estimate import CertifiedPolicy, Estimate
    from fairmdp.learning.simulate import Simulation

Json = dict[str, Any]

_PROVED = (Status.OPTIMAL, Status.FEASIBLE)


def problem_data(problem: Problem, name: str) -> Json:
    """What is asked: the size of the model and its quotas."""
    mdp = problem.mdp
    return {
        "name": name,
        "states": mdp.n_states,
        "pairs": mdp.n_pairs,
        "transitions": int(mdp.P.nnz),
        "digest": problem.digest,
        "quotas": quotas_data(problem),
    }


def quotas_data(problem: Problem, *, most: int | None = None) -> list[Json]:
    """What each quota counts and asks for, of the first ones."""
    rows = []
    for k in range(problem.n_quotas)[:most]:
        low, high = asked_bounds(problem.lower[k], problem.upper[k], problem.at_least[k], problem.at_most[k])
        row: Json = {"name": problem.names[k], "at_least": low, "at_most": high}
        rows.append(row | {"counts": _counted(problem, k), "unit": _unit(problem, k)})
    for condition in problem.conditions[:most]:
        if condition.quota < len(rows):
            rows[condition.quota] |= {"counts": _condition_text(problem, condition), "fixed": True}
    return rows


def summary(solution: Solution, *, most: int | None = None) -> Json:
    """What a solution says by itself; of many quotas the tightest."""
    rows, gaps = solution.quotas, solution.slacks
    masses = {share.quota: share.mass for share in solution.conditions}
    return {
        "status": solution.status.value,
        "meaning": solution.status.meaning,
        **taken(solution, "gain", "upper", "gap", "worst_slack", "tol", "provenance"),
        "method": method_text(solution),
        "notes": note_texts(solution),
        "seconds": solution.counters.get("seconds"),
        "ends": ends_data(solution),
        "of_quotas": len(rows),
        "quotas": [
            {
                **rows[k]._asdict(),
                "asked": asked_bounds(
                    rows[k].at_least, rows[k].at_most, solution.at_least[k], solution.at_most[k]
                ),
                "state": "void" if masses.get(k, 1.0) <= VOID else _state(gaps[k]),
                "condition": masses.get(k),
            }
            for k in tightest(gaps, most)
        ],
    }


def solution_data(
    problem: Problem,
    solution: Solution,
    free: Solution | None = None,
    other: Solution | None = None,
    *,
    most: int | None = None,
) -> Json:
    """What was found, beside the solution without quotas, and that with the other meaning of them."""
    proved = solution.status in _PROVED
    known = free is not None and free.status in _PROVED
    per = problem.mdp.per
    document = summary(solution, most=most)
    stated = problem.stated_shares(free.occupancy) if free and known else np.full(problem.n_quotas, np.nan)
    lower, upper = problem.stated_bounds
    for k, row in zip(tightest(solution.slacks, most), document["quotas"], strict=True):
        # Bounds as they were stated, to the last digit.
        exact = {"at_least": float(lower[k]), "at_most": float(upper[k])}
        row |= exact | {"free_share": float(stated[k]), "unit": shown_unit(problem, k)}
        row["expected"] = solution.ends is not None and bool(problem.expected[k])
    comparison = None
    if free and known and proved and problem.n_quotas:
        comparison = _beside(problem, {"with quotas": solution, "without quotas": free})
    why = solution.infeasibility
    return document | {
        "notes": note_texts(solution, spanned(per) if per else "steps"),
        "free_status": free.status.value if free else None,
        "free_gain": free.gain if free and known else None,
        "cost": max(free.gain - solution.gain, 0.0) if free and known and proved else None,
        "starts": starts_data(problem, solution),
        "other": meaning_data(problem, solution, other),
        "per": per,
        "same_gain": bool(np.ptp(problem.mdp.rates) == 0),
        "all_weighted": bool(problem.weighted.all()) and not problem.conditions,
        "compare": comparison,
        "policies": policies_data(problem, solution) if solution.has_policy else [],
        "graph": graph_data(problem, solution) if proved and problem.mdp.n_states <= GRAPH_STATES else None,
        "infeasible": None if why is None else infeasible_data(problem, solution, why),
    }


def verdict_data(problem: Problem, verdict: Verdict) -> Json:
    """What was proved from the data alone."""
    worst = min(
        float(slacks(verdict.shares[:, end], problem.at_least, problem.at_most).min(initial=np.inf))
        for end in (0, 1)
    )
    return {
        "ok": verdict.ok,
        "status": verdict.status.value,
        "meaning": verdict.status.meaning,
        "gain": list(verdict.gain) if math.isfinite(verdict.gain[0]) else None,
        "per": problem.mdp.per,
        "upper": verdict.upper,
        "shares": dict(zip(problem.names, problem.units.values(verdict.shares.T).T, strict=True)),
        "worst_slack": worst,
        "fair_tol": FAIR_TOL,
        **taken(verdict, "gap", "messages", "exact", "estimates"),
    }


def frontier_data(curve: Frontier, problem: Problem | None = None) -> Json:
    """The best gain against what is owed, point by point; with its problem also in which units."""
    beyond = curve.values.size - len(curve.solutions)  # values that were refused outright come last
    document = {
        **taken(curve, "quota", "bound", "per", "exact", "concave", "values", "gains", "uppers", "slopes"),
        **taken(curve, "prices", "relative_prices", "last_feasible", "limit", "shares", "worst_slacks"),
        "factor": curve.is_factor,
        "quotas": list(curve.quota_names),
        "statuses": [s.status.value for s in curve.solutions] + [Status.INFEASIBLE.value] * beyond,
        "shadow_prices": [price._asdict() for price in curve.shadow_prices],
        "segments": [segment and segment._asdict() for segment in curve.segments],
    }
    if problem is not None:
        k = problem.quota_index(curve.quota)
        other = problem.upper[k] if curve.bound == "at_least" else problem.lower[k]
        room = FAIR_TOL * float(problem.units.of(k).scale)
        document |= {"unit": _unit(problem, k), "own_limit": abs(curve.last_feasible - other) <= room}
    return document


def grid_data(grid: FrontierGrid) -> Json:
    """The best gain for every combination of what two quotas owe."""
    return {
        "quotas": list(grid.quotas),
        "groups": list(grid.quota_names),
        **taken(grid, "per", "values", "gains", "uppers", "worst_slacks", "shares"),
    }


def comparison_data(comparison: Comparison) -> Json:
    """What each policy earns, how it treats the groups, and who has less than without quotas."""
    return {
        name: _readout_data(seen) | {"pays": comparison.pays(name)}
        for name, seen in comparison.policies.items()
    }


def estimate_data(units: Units, found: Estimate, proof: CertifiedPolicy | None = None) -> Json:
    """What was learned from a simulator, and what fresh samples prove of it."""
    names = (
        "gain", "gain_se", "gap", "worst_slack", "shares", "share_se", "share_low", "share_high", "margins",
        "margin_fraction", "prices", "feasible", "guaranteed", "claim", "quota_names", "at_least", "at_most",
        "samples", "min_samples", "tested_samples", "delta", "finished", "seconds", "notes", "policy",
        "method",
    )  # fmt: skip
    record = {"fairmdp_estimate": 1, **_fields(found, names, units)}
    bounds = record["at_least"], record["at_most"], found.at_least, found.at_most
    record["asked"] = [asked_bounds(*ends) for ends in zip(*map(_list, bounds), strict=True)]
    if found.welfare is not None:
        welfare = found.welfare
        record["welfare"] = {
            "principle": model.objective_text(welfare.objective),
            **taken(welfare, "reward", "value", "low", "upper"),
            "utilities": dict(zip(welfare.over, _list(welfare.utilities), strict=True)),
        }
    if found.records is not None:
        record["missing"] = dict(found.records.missing)
        record["more_records"] = found.records.more_records
    return record if proof is None else record | {"certificate": certificate_data(units, proof)}


def certificate_data(units: Units, proof: CertifiedPolicy) -> Json:
    """What fresh samples prove of a policy."""
    names = (
        "verdict", "verdicts", "gain_low", "gain_high", "quota_names", "share_low", "share_high", "upper",
        "delta", "method", "rigorous", "vacuous", "samples", "more_samples", "notes",
    )  # fmt: skip
    return {"fairmdp_certificate": 1, **_fields(proof, names, units)}


def simulation_data(
    problem: Problem, seen: Simulation, solution: Solution | None = None, surprises: Iterable[str] = ()
) -> Json:
    """What independent runs of a policy have seen, beside the exact values if they are known."""
    units = problem.units
    exact = {} if solution is None else {row.name: row.share for row in solution.quotas}
    if solution is not None and solution.ends is not None:  # its shares are those of the worst runs
        exact = dict(zip(problem.names, problem.stated_shares(solution.occupancy).tolist(), strict=True))
    quantiles, met = units.values(seen.quantiles((0.05, 0.5, 0.95))), seen.met
    stated = _fields(seen, ("shares", "share_se", "at_least", "at_most"), units)
    for c, masses, error in zip(seen.conditions, seen.run_masses.T, seen.part_se.tolist(), strict=True):
        k, parts = c.quota, [c._replace(mass=mass) for mass in masses.tolist()]
        runs = units.values(seen.run_shares)[:, k].tolist()
        found = [part.part(value) for part, value in zip(parts, runs, strict=True) if not part.void]
        quantiles[:, k] = np.quantile(found, (0.05, 0.5, 0.95)) if found else np.nan
        stated["shares"][k] = c.part(float(stated["shares"][k]))
        stated["share_se"][k] = error
        stated["at_least"][k], stated["at_most"][k] = (c.bound, 1.0) if c.least else (0.0, c.bound)
    notes = list(seen.notes)
    if not seen.finished:
        notes.append(f"stopped after {seen.runs:,} runs of {seen.steps:,} steps")
    return {
        "fairmdp_simulation": 1,
        **taken(seen, "runs", "steps", "finished", "gain", "gain_se", "met_all"),
        "mean_time": float(seen.run_times.mean()),
        "per": problem.mdp.per,
        "ends": None if solution is None else seen_ends(solution, seen.follows, seen.last),
        "exact_gain": None if solution is None else solution.gain,
        "quotas": [
            {
                "name": name,
                "share": stated["shares"][k],
                "share_se": stated["share_se"][k],
                "exact_share": exact.get(name),
                "at_least": stated["at_least"][k],
                "at_most": stated["at_most"][k],
                "asked": asked_bounds(
                    stated["at_least"][k], stated["at_most"][k], seen.at_least[k], seen.at_most[k]
                ),
                "after_steps": dict(zip(("5%", "50%", "95%"), quantiles[:, k].tolist(), strict=True)),
                "met": float(met[k]),
            }
            for k, name in enumerate(seen.quota_names)
        ],
        "notes": [*notes, *surprises],
    }


def tightest(gaps: Floats, most: int | None) -> Iterable[int]:
    """Numbers of the quotas to show: all of them, or those with the least slack, the tightest first."""
    if most is None or gaps.size <= most:
        return range(gaps.size)
    tight: list[int] = np.argsort(gaps, kind="stable")[:most].tolist()
    return tight


def taken(result: Any, *names: str) -> Json:
    """Fields of a result as they are."""
    return {name: getattr(result, name) for name in names}


def _fields(result: Any, names: Iterable[str], units: Units) -> Json:
    """Fields of a result; its arrays over the quotas in the units in which they were stated."""
    convert: dict[str, Callable[[Floats], Floats]] = {
        **dict.fromkeys(("shares", "share_low", "share_high", "at_least", "at_most"), units.values),
        **dict.fromkeys(("share_se", "margins"), units.spans),
        "prices": units.prices,
    }
    found = taken(result, *names)
    return found | {name: convert[name](found[name]) for name in found.keys() & convert}


def asked_bounds(
    low: float, high: float, at_least: float, at_most: float
) -> tuple[float | None, float | None]:
    """The bounds that ask for something, in the units of their quota; where none does, the lower one."""
    capped = at_most < 1
    return float(low) if at_least > 0 or not capped else None, float(high) if capped else None


def _list(array: Floats) -> list[float]:
    return array.tolist()


def shown_unit(problem: Problem, k: int) -> list[float] | None:
    """The ends of the scale that results of a quota are on, where it has weights; parts of time have none."""
    return None if any(condition.quota == k for condition in problem.conditions) else _unit(problem, k)


def _unit(problem: Problem, k: int) -> list[float] | None:
    """The ends of a quota's scale where it has weights, the smallest and the largest; shares have none."""
    if not problem.weighted[k]:
        return None
    ends: list[float] = problem.units.of(k).values(np.array([0.0, 1.0])).tolist()
    return ends


def _counted(problem: Problem, k: int) -> str:
    """What a quota counts, in words."""
    mdp = problem.mdp
    unit = _unit(problem, k)
    if unit is not None:
        return f"mean of weights from {unit[0]:.6g} to {unit[1]:.6g}"
    pairs = problem.members.indices[problem.members.indptr[k] : problem.members.indptr[k + 1]]
    if problem.over_states[k]:
        states = np.unique(mdp.s_of[pairs])
        return f"state {mdp.state_name(int(states[0]))}" if states.size == 1 else f"{states.size} states"
    return mdp.pair_text(int(pairs[0])) if pairs.size == 1 else f"{pairs.size} state-action pairs"


def _condition_text(problem: Problem, condition: Condition) -> str:
    """What a conditional quota counts and asks for, in words."""
    states = problem.mdp.s_of[condition.of]
    where = counted(np.unique(states).size, "state")
    if np.ptp(states) == 0:
        where = f"state {problem.mdp.state_name(int(states[0]))}"
    return f"{'at least' if condition.least else 'at most'} {condition.bound:.6g} of the time in {where}"


def _state(slack: float) -> str | None:
    if np.isnan(slack):
        return None
    if abs(slack) <= FAIR_TOL:
        return "binding"
    return "broken" if slack < 0 else "met"


def _readout_data(seen: Readout) -> Json:
    shares = dict(zip(seen.names, seen.shares.tolist(), strict=True))
    return {
        **taken(seen, "gain", "gain_error", "share_error", "by_group", "overall", "jain", "gini"),
        **taken(seen, "binding", "broken"),
        "worst_slack": float(seen.slacks.min(initial=np.inf)),
        "shares": shares,
        "weighted": {name: share for name, share in shares.items() if name in seen.weighted},
        "difference": seen.difference(),
        "ratio": seen.ratio(),
        "group_min": seen.group_min(),
    }


def _beside(problem: Problem, solutions: Mapping[str, Solution]) -> list[Json]:
    """Policies side by side, in the numbers of a `Readout`."""
    rows = []
    for label, solution in solutions.items():
        seen = certificate.Readout.of(problem, solution.occupancy, solution.gain)
        gaps = seen.slacks
        worst = float(gaps.min(initial=np.inf))
        row: Json = {"policy": label, "gain": seen.gain, "worst_slack": worst, "broken": list(seen.broken)}
        if seen.by_group:
            name, least = seen.group_min()
            row |= {"least": least, "least_name": name, "difference": seen.difference(), "jain": seen.jain}
        rows.append(row)
    return rows
