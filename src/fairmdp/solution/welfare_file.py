"""Answers of `solve_welfare` as JSON: the policy's solution, and around it what is claimed of its welfare.

A welfare of ``null`` is minus infinity, an upper bound of ``null`` infinity: nothing is proved.
"""

from __future__ import annotations

import math
from os import PathLike
from typing import Any

from fairmdp.errors import FormatError
from fairmdp.model.objectives import Objective, parameters_of, stated_objective
from fairmdp.solution import fields, file
from fairmdp.solution.solution import Solution, Status
from fairmdp.solution.welfare import Level, WelfareSolution

VERSION = 1
VERSION_FIELD = "fairmdp_welfare"
_LEVEL_FIELDS = ("value", "groups", "marginals", "prices", "bias")
_FIELDS = (
    VERSION_FIELD, "status", "objective", "reward", "over", "welfare", "welfare_upper", "tol", "levels",
    "counters", "marginals", "prices", "bias", "solution",
)  # fmt: skip


def write(fair: WelfareSolution, path: str | PathLike[str]) -> None:
    """Write an answer, one field per line, atomically."""
    file.write_fields(path, welfare_to_dict(fair))


def read(path: str | PathLike[str]) -> WelfareSolution:
    """Read an answer that `write` wrote; the message of an error begins with the path and the field."""
    return file.read_as(path, _welfare)


def read_either(path: str | PathLike[str]) -> Solution | WelfareSolution:
    """Read a solution, or an answer about welfare, whichever a file holds."""
    return file.read_as(path, _either)


def _either(raw: Any) -> Solution | WelfareSolution:
    return _welfare(raw) if isinstance(raw, dict) and VERSION_FIELD in raw else file.solution_of(raw)


def welfare_to_dict(fair: WelfareSolution) -> dict[str, Any]:
    """Return an answer as what `json.dumps` takes; ``rows``, one per group, are for whoever only looks."""
    told = {
        VERSION_FIELD: VERSION,
        "status": fair.status.value,
        "objective": {"kind": fair.objective.kind, "parameters": parameters_of(fair.objective)},
        **{name: getattr(fair, name) for name in ("reward", "welfare", "welfare_upper", "tol", "over")},
        "levels": [{name: getattr(level, name) for name in _LEVEL_FIELDS} for level in fair.levels],
        "sensitivities": fair.sensitivities,
        "rows": [row._asdict() for row in fair.rows],
        **{name: getattr(fair, name) for name in ("counters", "marginals", "prices", "bias")},
    }
    return {name: file.plain(value) for name, value in told.items()} | {
        "solution": file.solution_to_dict(fair.solution)
    }


def _welfare(raw: Any) -> WelfareSolution:
    if not isinstance(raw, dict) or VERSION_FIELD not in raw:
        raise FormatError(f"there is no field {VERSION_FIELD}: this is not an answer of welfare")
    if raw[VERSION_FIELD] != VERSION:
        raise FormatError(f"{VERSION_FIELD}: expected the format {VERSION}")
    fields.check_fields(raw, _FIELDS, ("rows", "sensitivities"))
    solution = file.solution_of(raw["solution"])
    K, S = len(solution.quota_names), solution.bias.size
    over = fields.each(raw, "over", fields.text)
    sizes = {"marginals": len(over), "prices": K, "bias": S}
    upper = raw["welfare_upper"]
    levels = fields.each(raw, "levels", lambda place, level: _level(place, level, sizes))
    return WelfareSolution(
        solution=solution,
        objective=_objective(raw["objective"]),
        reward=fields.number("reward", raw["reward"]),
        over=over,
        status=fields.word(raw, "status", Status),
        welfare=-math.inf if raw["welfare"] is None else fields.number("welfare", raw["welfare"]),
        welfare_upper=math.inf if upper is None else fields.number("welfare_upper", upper),
        tol=fields.number("tol", raw["tol"]),
        levels=levels,
        counters=fields.numbers(raw, "counters"),
        **{name: fields.vector(raw, name, size) for name, size in sizes.items()},
    )


def _objective(raw: Any) -> Objective:
    parts = raw if isinstance(raw, dict) else {}
    if set(parts) != {"kind", "parameters"} or not isinstance(parts["parameters"], dict):
        raise FormatError("objective: expected an object with kind and parameters")
    return stated_objective(fields.text("objective.kind", raw["kind"]), raw["parameters"])


def _level(place: str, raw: Any, sizes: dict[str, int]) -> Level:
    raw = fields.record(place, raw, _LEVEL_FIELDS)
    vectors = {name: fields.vector(raw, name, size, f"{place}.") for name, size in sizes.items()}
    groups = fields.each(raw, "groups", fields.text, f"{place}.")
    return Level(value=fields.number(f"{place}.value", raw["value"]), groups=groups, **vectors)
