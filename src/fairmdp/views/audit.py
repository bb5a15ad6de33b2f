"""A policy judged, on a model or by the log that it left, as plain data and in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fairmdp.model.checks import counted
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Solution
from fairmdp.views.data import Json, asked_bounds, estimate_data, shown_unit, taken
from fairmdp.views.format import (
    MAX_ROWS,
    asked,
    fixed,
    interval,
    listed,
    notes_lines,
    percent,
    slack,
    table,
    worst_slack,
)

if TYPE_CHECKING:
    from fairmdp.audit import Evaluation, Finding, LogAudit, Mended, Outcome
    from fairmdp.records import Log

_NARROW = 1e-6  # an interval that is narrower is shown as a number
_MOST_CHANGES = 12
_MOST_ENDS = 5
_WORDS = {"fair": "", "not fair": "NOT MET", "undecided": "undecided"}
_MET_WORDS = {"fair": "met", "not fair": "NOT MET", "undecided": "undecided"}


def evaluation_data(problem: Problem, seen: Evaluation) -> Json:
    """What is proved of a policy, what the best fair one earns, and what would mend it."""
    return {
        "fairmdp_audit": 1,
        **taken(seen, "verdict", "gain", "mean_gain", "worst_slack", "behind"),
        "per": problem.mdp.per,
        "best": _claimed(seen.best),
        "quotas": [
            _finding(problem, k, finding, len(seen.outcomes) > 1) for k, finding in enumerate(seen.findings)
        ],
        "outcomes": [_outcome(problem, outcome) for outcome in seen.outcomes],
        "mended": None if seen.mended is None else _mended(seen.mended),
        "notes": list(seen.notes),
    }


def evaluation_text(source: str, name: str, problem: Problem, seen: Evaluation) -> str:
    """Verdict first, then what the policy earns, its quotas, and what would mend it."""
    data = evaluation_data(problem, seen)
    broken = [row["quota"] for row in data["quotas"] if row["verdict"] == "not fair"]
    unit = f" per {data['per']}" if data["per"] else ""
    mean = ", mean over runs" if len(data["outcomes"]) > 1 else ""
    earned = f"{_number(data['mean_gain'], 6)}{unit}{mean}"
    lines = [
        f"{source}: {name} is {data['verdict']}" + (f", it breaks {listed(broken)}" if broken else ""),
        "",
        f"  gain    {earned}   {worst_slack(data['worst_slack'])}; {_beside(data)}",
        "",
        *_quota_table(data["quotas"]),
        *_ends(data["outcomes"]),
        *(_mended_lines(data["mended"]) if data["mended"] else []),
    ]
    return "\n".join([*lines, *notes_lines(data)])


def _finding(problem: Problem, k: int, finding: Finding, several: bool) -> Json:
    bounds = asked_bounds(finding.at_least, finding.at_most, problem.at_least[k], problem.at_most[k])
    in_mean = several and bool(problem.expected[k])
    return finding._asdict() | {"asked": bounds, "unit": shown_unit(problem, k), "in_mean": in_mean}


def _outcome(problem: Problem, outcome: Outcome) -> Json:
    return {
        "policy": outcome.part,
        "of_states": int(outcome.states.size),
        "states": [problem.mdp.state_name(s) for s in outcome.states[:MAX_ROWS].tolist()],
        "chance": outcome.chance,
        "gain": list(outcome.gain),
        "shares": dict(zip(problem.names, outcome.values.tolist(), strict=True)),
        "flaw": outcome.flaw,
    }


def _mended(mended: Mended) -> Json:
    changes = [change._asdict() for change in mended.changes]
    return _claimed(mended.solution) | {"moved": mended.moved, "changes": changes}


def _claimed(found: Solution) -> Json:
    return {"status": found.status.value, **taken(found, "gain", "upper", "worst_slack")}


def _beside(data: Json) -> str:
    """What the best fair policy earns beside it."""
    best, behind = data["best"], data["behind"]
    if behind is None:
        return "no policy meets the quotas" if best["status"] == "infeasible" else "no policy was proved fair"
    words = f"the best fair policy earns {fixed(best['gain'], 6)} with {worst_slack(best['worst_slack'])}"
    more = sum(behind) / 2
    if abs(more) < _NARROW:
        return f"{words}, as much"
    return f"{words}, {fixed(abs(more), 6)} {'more' if more > 0 else 'less'}"


def _number(ends: list[float], digits: int = 4) -> str:
    """A number that is known closely, or else the interval in which it lies; a dash where there is none."""
    low, high = ends
    if not math.isfinite(high - low):
        return "-"
    return fixed((low + high) / 2, digits) if high - low < _NARROW else interval(low, high, f".{digits}f")


def _quota_table(rows: list[Json]) -> list[str]:
    worst = sorted(rows, key=lambda row: -row["short"])[:MAX_ROWS] if len(rows) > MAX_ROWS else rows
    cells = [["quota", "share", "asked", "short", ""]]
    for row in worst:
        short = fixed(row["short"]) if row["verdict"] == "not fair" else "-"
        said = _WORDS[row["verdict"]], "in the mean over runs" if row["in_mean"] else ""
        words = ", ".join(filter(None, said))
        shown = _number([row["low"], row["high"]]), asked(row["asked"]), short, words
        cells.append([row["quota"], *shown])
    return table(cells, len(rows), "quotas of which less is missing")


def _ends(runs: list[Json]) -> list[str]:
    """What a run may come to, where there is more than one end."""
    if len(runs) == 1:
        return []
    lines = ["", "  a run ends in one of these, with an estimate of how likely that is:"]
    for run in runs[:_MOST_ENDS]:
        where = (
            listed(run["states"], 3)
            if run["of_states"] <= 3
            else f"{run['of_states']} states with {run['states'][0]}"
        )
        shares = ", ".join(
            f"{name} {_number(ends)}" for name, ends in list(run["shares"].items())[:_MOST_ENDS]
        )
        lines.append(f"    {100 * run['chance']:.1f} %  {where}: gain {_number(run['gain'], 6)}; {shares}")
    return lines + ([f"    ... and {len(runs) - _MOST_ENDS} more"] if len(runs) > _MOST_ENDS else [])


def _mended_lines(mended: Json) -> list[str]:
    """The least change that is proved fair."""
    claim = (
        "optimal" if mended["status"] == "optimal" else f"no fair policy exceeds {fixed(mended['upper'], 6)}"
    )
    lines = [
        "",
        f"  mended  by moving {fixed(100 * mended['moved'], 2)} % of the time; proved fair: gain "
        f"{fixed(mended['gain'], 6)}, {claim}, worst slack {slack(mended['worst_slack'])}",
    ]
    for change in mended["changes"][:_MOST_CHANGES]:
        before, after = _chance(change["before"]), _chance(change["after"])
        lines.append(f"          {change['state']}: {change['action']} from {before} to {after}")
    left = len(mended["changes"]) - _MOST_CHANGES
    return lines + ([f"          ... and {left} more changes"] if left > 0 else [])


def _chance(probability: float) -> str:
    return f"{100 * round(probability):d}%" if probability in (0.0, 1.0) else percent(probability)


def log_audit_data(problem: Problem, log: Log, seen: LogAudit) -> Json:
    """What was done, which quotas that breaks and how surely, and what the best fair policy has instead."""
    values = problem.units.values
    arrays = {"recorded", "shares", "share_low", "share_high", "at_least", "at_most"}
    shown = {name: values(getattr(seen, name)).tolist() for name in sorted(arrays)}
    bounds = zip(shown["at_least"], shown["at_most"], seen.at_least, seen.at_most, strict=True)
    rows = [
        {
            "quota": name,
            "asked": asked_bounds(*ends),
            "verdict": seen.verdicts[k],
            "doubt": float(seen.doubt[k]),
        }
        | {what: shown[what][k] for what in ("recorded", "shares", "share_low", "share_high")}
        for k, (name, ends) in enumerate(zip(seen.quota_names, bounds, strict=True))
    ]
    findings = () if seen.best.records is None else seen.best.records.findings
    return {
        "fairmdp_log_audit": 1,
        "records": log.n_records,
        **taken(seen, "verdict", "gain", "gain_low", "gain_high", "worst_slack", "delta"),
        "quotas": rows,
        "checks": [finding._asdict() for finding in findings],
        "best": estimate_data(problem.units, seen.best),
        "notes": list(seen.notes),
    }


def log_audit_text(source: str, problem: Problem, log: Log, seen: LogAudit) -> str:
    """Verdict first, then what was earned, the quotas, the best fair policy beside it, and the checks."""
    data = log_audit_data(problem, log, seen)
    best, broken = data["best"], listed(seen.broken)
    lines = [
        f"{source}: {data['records']:,} records, {counted(problem.mdp.n_states, 'state')}; what was done is "
        f"{data['verdict']}" + (f", it breaks {broken}" if broken else ""),
        "",
        f"  done    {_done(data)}",
        f"  fair    gain {fixed(best['gain'])} +- {fixed(best['gain_se'])} (estimate), "
        f"{worst_slack(best['worst_slack'])}; {best['claim']}",
        "",
        *_recorded_table(data),
    ]
    checks = [f"  {'ALARM ' if row['alarm'] else 'check '}  {row['sentence']}" for row in data["checks"]]
    notes = [f"  note    {note}" for note in dict.fromkeys([*data["notes"], *best["notes"]])]
    alarms = {row["sentence"] for row in data["checks"] if row["alarm"]}
    return "\n".join([*lines, "", *checks, *(note for note in notes if note[10:] not in alarms)])


def _done(data: Json) -> str:
    """What was done has in the long run, where that is known."""
    if math.isnan(data["gain"]):
        return "of the long run nothing is known"
    gain = f"gain {fixed(data['gain'])} in {interval(data['gain_low'], data['gain_high'])}"
    return f"{gain}, {worst_slack(data['worst_slack'])}, in the long run if it goes on like this"


def _recorded_table(data: Json) -> list[str]:
    cells = [["quota", "recorded", "in the long run", "asked", "", "doubt", "fair policy"]]
    for k, row in enumerate(data["quotas"][:MAX_ROWS]):
        doubt = "-" if row["doubt"] == 0 else f"{row['doubt']:.2g}"
        met, best = _MET_WORDS[row["verdict"]], fixed(data["best"]["shares"][k])
        ahead = "-" if math.isnan(row["share_low"]) else interval(row["share_low"], row["share_high"])
        there = fixed(row["recorded"]), ahead, asked(row["asked"])
        cells.append([row["quota"], *there, met, doubt, best])
    return table(cells, len(data["quotas"]))
