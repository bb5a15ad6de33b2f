"""What an agent did along one trajectory, as plain data and in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fairmdp.views.data import Json, asked_bounds, taken
from fairmdp.views.format import MAX_ROWS, asked, columns, fixed, interval, notes_lines, table, worst_slack

if TYPE_CHECKING:
    from fairmdp.model.problem import Problem
    from fairmdp.online import OnlineRun

_POINTS = 10  # of the course, in a text


def online_data(run: OnlineRun, upper: float | None = None) -> Json:
    """Where a run stands, and how it came there; ``upper`` is what no fair policy exceeds, where known."""
    said, values = run.report, run.report.units.values
    stated, had = (values(ends) for ends in (said.at_least, said.at_most)), values(said.shares)
    low, high = (values(ends) for ends in (said.long_run.low, said.long_run.high))
    bounds = list(zip(*stated, said.at_least, said.at_most, strict=True))
    worst = said.worst_account if math.isfinite(said.worst_account) else None
    return {
        "fairmdp_online": 1,
        **taken(said, "steps", "gain", "mode", "restoring", "epochs", "start"),
        "finished": run.finished,
        "upper": upper,
        "worst_account": worst,
        "worst_slack": None if worst is None else worst / max(said.steps, 1),
        "quotas": [
            {
                "quota": name,
                "asked": asked_bounds(*bounds[k]),
                "share": had[k],
                "account": _number(said.accounts[k]),
                "lowest": _number(said.lowest[k]),
                "cushion": _number(said.cushions[k]),
                "met": bool(said.met[k]),
                "long_run": [low[k], high[k]],
            }
            for k, name in enumerate(said.quota_names)
        ],
        "long_run_cycles": said.long_run.cycles,
        "long_run_steps": said.long_run.steps,
        "course": {
            "steps": run.steps.tolist(),
            "gains": run.gains.tolist(),
            "shares": [values(row).tolist() for row in run.shares],
            "accounts": [[_number(account) for account in row] for row in run.accounts],
            "restoring": run.restoring.tolist(),
        },
        "drifts": [drift._asdict() for drift in said.drifts],
        "notes": list(said.notes),
    }


def online_text(source: str, problem: Problem, data: Json) -> str:
    """What was earned and what every quota was given, then how the run came there."""
    rows, ended = data["quotas"], "" if data["finished"] else ", stopped"
    broken = sum(not row["met"] for row in rows)
    met = "nothing is owed" if data["worst_account"] is None else "every quota was given its due"
    if broken:
        met = f"{broken} of {len(rows)} quotas are short of their due"
    ceiling = data["upper"]
    best = "" if ceiling is None else f"; in the long run no fair policy exceeds {fixed(ceiling)}"
    lines = [
        f"{source}: {problem.mdp.n_states:,} states, {problem.mdp.n_pairs:,} pairs; {data['steps']:,} steps"
        f"{ended}, {met}",
        "",
        f"  gain    {fixed(data['gain'])} so far, {worst_slack(data['worst_slack'])}{best}",
        f"  start   {data['start']}",
        f"  now     it {'restores' if data['mode'] == 'restore' else 'earns'}; {data['epochs']:,} epochs, "
        f"{100 * data['restoring']:.0f} % of the steps restored",
    ]
    if rows:
        lines += ["", *_quota_table(data)]
    lines += ["", *_course(data)]
    return "\n".join([*lines, *notes_lines(data)])


def _quota_table(data: Json) -> list[str]:
    rows, enough = data["quotas"], data["long_run_cycles"]
    cells = [["quota", "share", "asked", "account", "lowest", "", "policy in force, long run"]]
    for row in rows[:MAX_ROWS]:
        known = row["long_run"] != [0.0, 1.0] and enough
        long_run = interval(*row["long_run"]) if known else "-"
        met = "" if row["met"] else "SHORT"
        account = _steps(row["account"]), _steps(row["lowest"])
        cells.append([row["quota"], fixed(row["share"]), asked(row["asked"]), *account, met, long_run])
    return table(cells, len(rows))


def _course(data: Json) -> list[str]:
    """A few points of the run, the last of them its latest."""
    course = data["course"]
    n = len(course["steps"])
    cells = [["steps", "gain", "worst account", "then"]]
    for k in sorted({*np.linspace(0, n - 1, min(n, _POINTS)).round().astype(int).tolist()}):
        worst = min((a for a in course["accounts"][k] if a is not None), default=None)
        mode = "restoring" if course["restoring"][k] else "earning"
        cells.append([f"{course['steps'][k]:,}", fixed(course["gains"][k]), _steps(worst), mode])
    return columns(cells)


def _steps(account: float | None) -> str:
    return "-" if account is None else f"{account:+,.1f}"


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
