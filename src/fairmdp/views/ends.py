"""Where runs end, as plain data and in words: what they earn there, and who gets what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairmdp import audit
from fairmdp.certificate import FAIR_TOL
from fairmdp.certificate.facts import reward_scale
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Ints
from fairmdp.model.problem import Problem
from fairmdp.solution.ends import End, Ends
from fairmdp.solution.solution import Solution, Status, slacks
from fairmdp.views.format import MAX_ROWS, fixed, percent, shortened, worst_slack

Json = dict[str, Any]

_MOST_NAMES = 20  # states of an ending whose names are told; the text has fewer
_WIDE = 40  # letters of names in one line
_MOST_SHARES = 4


def ends_data(solution: Solution) -> Json | None:
    """Where runs end, the most probable first; nothing where they all do the same."""
    ends = solution.ends
    if ends is None or not solution.has_policy:
        return None
    told = sum(end.probability for end in ends.classes)
    return {
        "mixture": None if ends.weights is None else (ends.weights / ends.weights.sum()).tolist(),
        "of_classes": ends.n_classes,
        "elsewhere": max(1.0 - told, 0.0) if ends.n_classes > len(ends.classes) else 0.0,
        "classes": [_end_data(solution, ends, end) for end in ends.classes],
    }


def seen_ends(solution: Solution, follows: Ints, last: Ints) -> Json | None:
    """Where runs end, and which part of those that were made has come there."""
    data = ends_data(solution)
    if data is None or solution.ends is None:
        return None
    for row, end in zip(data["classes"], solution.ends.classes, strict=True):
        row["seen"] = float((np.isin(last, end.states) & (follows == end.policy)).mean())
    return data


def starts_data(problem: Problem, solution: Solution) -> list[Json]:
    """What is earned from each start, where no start is stated and that makes a difference."""
    ends = solution.ends
    if ends is None or ends.weights is not None or not solution.has_policy or problem.mdp.initial is not None:
        return []
    try:
        found = audit.gains_by_start(problem, solution, most=MAX_ROWS)
    except ProblemError:  # there are too many to tell, or they are not proved
        return []
    return [
        {
            "gain": sum(one.gain) / 2,
            "states": state_names(solution, one.states[:_MOST_NAMES]),
            "of_states": int(one.states.size),
        }
        for one in found
    ]


def meaning_data(problem: Problem, solution: Solution, other: Solution | None) -> Json | None:
    """What the other meaning of the quotas would come to, where that is something else."""
    if other is None or not _differs(problem, solution, other):
        return None
    return {
        "expected": _in_mean(problem),
        "status": other.status.value,
        "gain": other.gain,
        "worst_slack": other.worst_slack,
        "text": _meaning_text(problem, other),
    }


def _in_mean(problem: Problem) -> bool:
    """Whether some quota is asked of the mean over runs."""
    return bool((problem.expected & ((problem.at_least > 0) | (problem.at_most < 1))).any())


def _meaning_text(problem: Problem, other: Solution) -> str:
    said = "the mean over runs is to meet the quotas; if every run had to by itself"
    if not _in_mean(problem):
        said = "every run is to meet the quotas; if only the mean over runs had to (expected = true)"
    if other.status is Status.INFEASIBLE:
        return f"{said}, no policy would do"
    if other.status is Status.UNDECIDED:
        return f"{said}, nothing is proved"
    per = f" per {problem.mdp.per}" if problem.mdp.per else ""
    return f"{said}: gain {fixed(other.gain, 6)}{per}, {worst_slack(other.worst_slack)}"


def _differs(problem: Problem, solution: Solution, other: Solution) -> bool:
    if solution.status is not other.status:
        return True
    tolerated = max(solution.gap, other.gap, 1e-9 * reward_scale(problem))
    return solution.has_policy and abs(other.gain - solution.gain) > tolerated


def _end_data(solution: Solution, ends: Ends, end: End) -> Json:
    left = slacks(end.shares, solution.at_least, solution.at_most)
    conditional = {share.quota for share in solution.conditions}
    values = solution.units.values(end.shares).tolist()
    names = state_names(solution, end.states[:_MOST_NAMES])
    met = left >= -FAIR_TOL
    tight = [k for k in np.argsort(left, kind="stable").tolist() if k not in conditional or not met[k]]
    return {
        "policy": None if ends.weights is None else end.policy,
        "place": set_text(names, end.states.size),
        "states": names,
        "of_states": int(end.states.size),
        "probability": end.probability,
        "gain": end.gain,
        "shares": [
            {
                "name": solution.quota_names[k],
                "share": None if k in conditional else values[k],
                "met": bool(met[k]),
            }
            for k in tight
        ],
    }


def state_names(solution: Solution, states: Ints) -> list[str]:
    """Names of states, or their numbers where a solution does not know them."""
    labels = solution.labels
    return [str(int(s)) if labels is None else labels.state_name(int(s)) for s in states]


def set_text(names: Sequence[str], count: int) -> str:
    """Some of the states of a set, ``{left, right, ... 7 more}``; long names lose their middle."""
    names, shown = [shortened(name) for name in names], 1
    while shown < len(names) and len(", ".join(names[: shown + 1])) <= _WIDE:
        shown += 1
    more = f", ... {count - shown} more" if count > shown else ""
    return f"{{{', '.join(names[:shown])}{more}}}"


def ends_lines(data: Json | None, per: str = "") -> list[str]:
    """Where runs end, one line for each place."""
    if data is None:
        return []
    if data["of_classes"] == 1:
        (end,) = data["classes"]
        return ["", f"  every run ends in {end['place']}"]
    lines = [""] + [f"  ends in {_end_text(end, per)}" for end in data["classes"]]
    more = data["of_classes"] - len(data["classes"])
    if more:
        lines.append(f"  ends in {more:,} other closed classes with {percent(data['elsewhere'])}")
    return lines


def starts_lines(starts: Sequence[Json], per: str = "") -> list[str]:
    """What is earned from each start, one line for each gain."""
    if not starts:
        return []
    by_gain: dict[str, Json] = {}
    for start in starts:
        told = by_gain.setdefault(fixed(start["gain"], 6), {"states": [], "of_states": 0})
        told["states"] += start["states"]
        told["of_states"] += start["of_states"]
    lines = [
        f"  from {set_text(told['states'], told['of_states'])} gain {gain}{per}"
        for gain, told in by_gain.items()
    ]
    more = len(lines) - MAX_ROWS
    return ["", *lines[:MAX_ROWS], *([f"  ... and {more} more gains of other starts"] if more > 0 else [])]


def seen_lines(data: Json | None) -> list[str]:
    """Where runs have ended, beside where they do in the long run."""
    if data is None or data["of_classes"] == 1:
        return []
    lines = [
        f"  {end['seen']:.1%} of runs ended in {_place_text(end)}; exact {percent(end['probability'])}"
        for end in data["classes"]
    ]
    return ["", *lines]


def _place_text(end: Json) -> str:
    drawn = "" if end["policy"] is None else f" by policy {end['policy'] + 1}"
    return f"{end['place']}{drawn}"


def _end_text(end: Json, per: str) -> str:
    shares = [_share_text(row) for row in end["shares"][:_MOST_SHARES]]
    said = [f"gain {fixed(end['gain'], 6)}{per}", ", ".join(shares)]
    return f"{_place_text(end)} with {percent(end['probability'])}: {'; '.join(filter(None, said))}"


def _share_text(row: Json) -> str:
    shown = row["name"] if row["share"] is None else f"{row['name']} {fixed(row['share'])}"
    return shown if row["met"] else f"{shown} (beyond its bound)"
