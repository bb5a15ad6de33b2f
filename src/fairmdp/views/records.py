"""What a log says of the policy that left it, as plain data and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairmdp.model.checks import counted
from fairmdp.model.problem import Problem
from fairmdp.views.data import Json, asked_bounds, estimate_data
from fairmdp.views.format import MAX_ROWS, asked, columns, fixed, interval, listed, worst_slack

if TYPE_CHECKING:
    from fairmdp.audit import LogAudit
    from fairmdp.records import Log

_WORDS = {"fair": "met", "not fair": "NOT MET", "undecided": "undecided"}


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
        "verdict": seen.verdict,
        "gain": seen.gain,
        "gain_low": seen.gain_low,
        "gain_high": seen.gain_high,
        "worst_slack": seen.worst_slack,
        "delta": seen.delta,
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
        f"  done    gain {fixed(data['gain'])} in {interval(data['gain_low'], data['gain_high'])}, "
        f"{worst_slack(data['worst_slack'])}, in the long run if it goes on like this",
        f"  fair    gain {fixed(best['gain'])} +- {fixed(best['gain_se'])} (estimate), "
        f"{worst_slack(best['worst_slack'])}; {best['claim']}",
        "",
        *_quota_table(data),
    ]
    checks = [f"  {'ALARM ' if row['alarm'] else 'check '}  {row['sentence']}" for row in data["checks"]]
    notes = [f"  note    {note}" for note in dict.fromkeys([*data["notes"], *best["notes"]])]
    alarms = {row["sentence"] for row in data["checks"] if row["alarm"]}
    return "\n".join([*lines, "", *checks, *(note for note in notes if note[10:] not in alarms)])


def _quota_table(data: Json) -> list[str]:
    rows = data["quotas"]
    if not rows:
        return ["  no quotas"]
    cells = [["quota", "recorded", "in the long run", "asked", "", "doubt", "fair policy"]]
    for k, row in enumerate(rows[:MAX_ROWS]):
        doubt = "-" if row["doubt"] == 0 else f"{row['doubt']:.2g}"
        met, best = _WORDS[row["verdict"]], fixed(data["best"]["shares"][k])
        there = fixed(row["recorded"]), interval(row["share_low"], row["share_high"]), asked(row["asked"])
        cells.append([row["quota"], *there, met, doubt, best])
    more = [f"  ... and {len(rows) - MAX_ROWS} more quotas"] if len(rows) > MAX_ROWS else []
    return columns(cells) + more
