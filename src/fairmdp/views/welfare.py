"""An answer of `solve_welfare`, as plain data and in words; the fields of its file say the rest."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from fairmdp.certificate.welfare import WelfareVerdict
from fairmdp.model.objectives import objective_text
from fairmdp.model.problem import Problem
from fairmdp.solution.file import plain
from fairmdp.solution.solution import Status
from fairmdp.solution.welfare import WelfareSolution
from fairmdp.solution.welfare_file import welfare_to_dict
from fairmdp.views.data import Json, shown_unit, solution_data, taken
from fairmdp.views.format import (
    MAX_ROWS,
    columns,
    fixed,
    interval,
    listed,
    notes_lines,
    price,
    slack,
    table,
    verified_text,
    worst_slack,
)
from fairmdp.views.text import infeasible_lines, policies_lines, size_text

if TYPE_CHECKING:  # a single answer does without it
    from fairmdp.frontiers import WelfareFrontier

_CLAIMS = {
    Status.OPTIMAL: "optimal: no policy that meets the quotas has more than",
    Status.FEASIBLE: "fair: no policy that meets the quotas has more than",
    Status.UNDECIDED: "not proved fair: no policy that meets the quotas has more than",
}
_MEANINGS = {
    Status.OPTIMAL: "every quota is met and no policy has more welfare, within the tolerance",
    Status.FEASIBLE: "every quota is met, and a better policy may exist",
    Status.INFEASIBLE: "no policy meets the quotas, or none gives every group something",
    Status.UNDECIDED: "neither a policy with a welfare nor the absence of one was proved",
}
_MOST_GROUPS = 8  # columns of a table
_STEEP = 1e-9  # a smaller sensitivity is none


def welfare_json(fair: WelfareSolution) -> str:
    """What an answer's file holds, on one line."""
    return json.dumps(welfare_to_dict(fair), allow_nan=False)


def welfare_data(problem: Problem, fair: WelfareSolution) -> Json:
    """What was maximised, what is proved of it, and what each group gets."""
    steep = fair.sensitivities
    return {
        "status": fair.status.value,
        "principle": objective_text(fair.objective),
        **taken(fair, "reward", "welfare", "gap", "gain", "worst_slack"),
        "upper": fair.welfare_upper,
        "per": problem.mdp.per,
        "groups": [row._asdict() for row in fair.rows],
        "levels": [
            {"value": level.value, "groups": list(level.groups), "sensitivity": steep[k]}
            for k, level in enumerate(fair.levels)
        ],
        "quotas_can_be_met": fair.solution.status is not Status.INFEASIBLE,
        "solution": solution_data(problem, fair.solution, most=MAX_ROWS),
    }


def welfare_view(problem: Problem, fair: WelfareSolution) -> Json:
    """What the page shows of an answer: all but the policy, groups in their units, and why there is none."""
    data = welfare_data(problem, fair)
    groups = [row | {"unit": shown_unit(problem, problem.quota_index(row["name"]))} for row in data["groups"]]
    shown = {name: data[name] for name in ("status", "principle", "welfare", "upper", "gain", "worst_slack")}
    why = None
    if fair.status is Status.INFEASIBLE:
        why = "\n".join(_unserved(data)) if data["quotas_can_be_met"] else "no policy meets the quotas"
    return plain(shown | {"groups": groups, "why": why})


def welfare_text(name: str, problem: Problem, fair: WelfareSolution) -> str:
    """Answer first, proof beside it, then what each group gets, and the policy."""
    data = welfare_data(problem, fair)
    inner = data["solution"]
    lines = [f"{name}: {size_text(problem)}; {_asked(data)}", ""]
    if not data["quotas_can_be_met"]:
        return "\n".join([*lines, *infeasible_lines(inner["infeasible"])])
    if data["status"] == Status.INFEASIBLE:
        return "\n".join([*lines, *_unserved(data)])
    lines += [*_welfare_lines(data), "", *_group_table(data), *_level_table(data), ""]
    lines += policies_lines(inner["policies"])
    return "\n".join([*lines, *notes_lines(inner)])


def welfare_frontier_data(path: WelfareFrontier) -> Json:
    """Fair points one after the other: what each is worth, and what each group gets there."""
    return {"along": path.along, "principle": path.principle, "points": dict(path.to_table())}


def welfare_frontier_text(name: str, path: WelfareFrontier) -> str:
    """Fair points as a table, one row per value."""
    groups = path.over[:_MOST_GROUPS]
    moving = path.head.replace("_", " ")
    rows = [[moving, "gain", "worst slack", "welfare", "gap", *groups]]
    for value, fair in zip(path.values.tolist(), path.answers, strict=True):
        if fair.status is Status.INFEASIBLE:
            rows.append([f"{value:g}", "infeasible", *["-"] * (3 + len(groups))])
            continue
        means = [fixed(u) for u in fair.utilities[:_MOST_GROUPS].tolist()]
        numbers = fixed(fair.gain, 6), slack(fair.worst_slack), fixed(fair.welfare, 6), f"{fair.gap:.1e}"
        rows.append([f"{value:g}", *numbers, *means])
    lines = [f"{name}: fair points along {moving}, {path.principle}", "", *columns(rows)]
    left = len(path.over) - len(groups)
    lines += [f"  ... and {left} more groups (--csv FILE has all)"] if left else []
    return "\n".join([*lines, "", "  gap: proven, how much more welfare any policy could have"])


def welfare_verdict_data(verdict: WelfareVerdict) -> Json:
    """What was proved of an answer from the data alone."""
    names = ("ok", "welfare", "upper", "gap", "gain", "worst_slack", "levels", "messages", "exact")
    said = {"status": verdict.status.value, "meaning": _MEANINGS[verdict.status]}
    return taken(verdict, *names) | said


def welfare_verdict_text(name: str, verdict: WelfareVerdict) -> str:
    """Whether an answer was confirmed, and what was proved."""
    data, lines = welfare_verdict_data(verdict), []
    if math.isfinite(data["welfare"][0]):
        (low, high), (gain_low, gain_high) = data["welfare"], data["gain"]
        lines = [
            f"  welfare in {interval(low, high, '.12g')}, at most {data['upper']:.12g} "
            f"for any policy that meets the quotas: gap {data['gap']:.2g}",
            f"  gain    in {interval(gain_low, gain_high, '.12g')}   {worst_slack(data['worst_slack'])}",
        ]
    lines += [f"  level {k}  {value:.12g}" for k, value in enumerate(data["levels"], start=1)]
    return verified_text(name, data, lines)


def _asked(data: Json) -> str:
    """What was maximised, in words."""
    gain = f" + {data['reward']:g} gain" if data["reward"] else ""
    return f"welfare of long-run means: {data['principle']}{gain}"


def _welfare_lines(data: Json) -> list[str]:
    welfare, upper = fixed(data["welfare"], 6), fixed(data["upper"], 6)
    what = "least   " if data["principle"] == "leximin" else "welfare "
    claim = f"{_CLAIMS[Status(data['status'])]} {upper} (gap {data['gap']:.1e})"
    per = f" per {data['per']}" if data["per"] else ""
    return [
        f"  {what}{welfare}   {claim}",
        f"  gain    {fixed(data['gain'], 6)}{per}   {worst_slack(data['worst_slack'])}",
    ]


def _unserved(data: Json) -> list[str]:
    """Why a welfare is minus infinity under every policy."""
    level = data["levels"][0]
    return [
        f"infeasible: no policy gives {listed(level['groups'])} more than {max(level['value'], 0.0):.1e}",
        f"  {data['principle']} asks for something for everybody: leave that group out, or take gini",
    ]


def _group_table(data: Json) -> list[str]:
    rows = [["group", "gets", "one more is worth"]]
    shown = sorted(data["groups"], key=lambda row: row["utility"])[:MAX_ROWS]
    if len(data["groups"]) <= MAX_ROWS:
        shown = data["groups"]
    rows += [[row["name"], fixed(row["utility"]), price(row["marginal"])] for row in shown]
    return table(rows, len(data["groups"]), "groups that get more")


def _level_table(data: Json) -> list[str]:
    """Levels of leximin: who holds each down, and how far earlier ones move it."""
    if not data["levels"]:
        return []
    rows = [["level", "at most", "held down by", "moves per unit of earlier ones"]]
    for k, level in enumerate(data["levels"], start=1):
        moves = f"{level['sensitivity']:.3g}" if level["sensitivity"] > _STEEP else "-"
        rows.append([str(k), fixed(level["value"], 6), listed(level["groups"], 5), moves])
    return ["", *columns(rows)]
