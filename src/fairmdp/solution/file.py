"""Solutions as JSON: strict, so that any language reads it; numbers that are not finite are ``null``.

``gap``, ``worst_slack`` and ``quotas`` (one row per quota) are there for people and programs that only look;
they follow from the other fields, and a file in which they do not is refused. Files of format 1, which 0.1
wrote, are read too: of their sentence on the method the solver's name is kept, and their notes are dropped.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from typing import Any, NoReturn, TypeVar

import numpy as np

from fairmdp.deadline import Stop
from fairmdp.errors import FormatError, ProblemError
from fairmdp.files import read_bytes, write_bytes
from fairmdp.model.checks import frozen
from fairmdp.model.conditional import ConditionalShare
from fairmdp.model.labels import Labels
from fairmdp.model.weights import Units
from fairmdp.solution import ends_file, fields
from fairmdp.solution.solution import Check, Infeasibility, Note, Remark, Solution, Status

Answer = TypeVar("Answer")

VERSION = 2

MAX_BYTES = 2 * 2**30
"""Largest file that is read."""

_VERSION_FIELD = "fairmdp_solution"
_DERIVED = ("gap", "worst_slack", "quotas")
_NUMBERS = ("gain", "upper", "tol")
_PAIR_ARRAYS = ("policy", "occupancy")
_STATE_ARRAYS = ("visitation", "bias")
_QUOTA_ARRAYS = ("shares", "prices", "at_least", "at_most")
_FIELDS_OF_1 = (
    _VERSION_FIELD, "status", *_NUMBERS, "method", "counters", "provenance", "notes", "infeasibility",
    "quota_names", *_PAIR_ARRAYS, *_STATE_ARRAYS, *_QUOTA_ARRAYS,
)  # fmt: skip
_FIELDS = (*_FIELDS_OF_1, "tried", "reason", "stopped", "check", "device")
_NAMES_FIELDS = ("states", "actions", "n_actions")  # in a file of 0.2, so that its policy can be read alone
_UNITS_FIELDS = ("offset", "scale")  # in a file where some quota has weights
_WHY_FIELDS = (
    "conflict", "reach", "reach_bias", "common_factor", "factor_bias", "factor_prices",
    "nearest_at_least", "nearest_at_most",
)  # fmt: skip


def write(solution: Solution, path: str | PathLike[str]) -> None:
    """Write a solution, one field per line, atomically."""
    write_fields(path, solution_to_dict(solution))


def read(path: str | PathLike[str]) -> Solution:
    """Read a solution that `write` wrote; the message of an error begins with the path and the field."""
    return read_as(path, solution_of)


def write_fields(path: str | PathLike[str], told: Mapping[str, Any]) -> None:
    """Write what `json.dumps` takes, one field per line, atomically."""
    try:
        lines = [f"{json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in told.items()]
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{os.fsdecode(path)}: this cannot be written as JSON: {error}") from None
    write_bytes(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def read_as(path: str | PathLike[str], build: Callable[[Any], Answer]) -> Answer:
    """What is built of the content of a file; the message of an error begins with the path."""
    data = read_bytes(path, MAX_BYTES)
    try:
        return build(parsed(data))
    except (FormatError, ProblemError) as error:
        raise FormatError(f"{os.fsdecode(path)}: {error}") from None
    except RecursionError:
        raise FormatError(f"{os.fsdecode(path)}: it is nested too deeply") from None


def solution_to_dict(solution: Solution) -> dict[str, Any]:
    """Return a solution as what `json.dumps` takes: what its file holds and ``fairmdp ... --json`` prints."""
    why, derived = solution.infeasibility, _derived(solution)
    told: dict[str, Any] = {
        _VERSION_FIELD: VERSION,
        "status": solution.status.value,
        "gain": solution.gain,
        "upper": solution.upper,
        **{name: derived[name] for name in ("gap", "worst_slack")},
        "tol": solution.tol,
        "method": solution.method,
        "tried": solution.tried,
        "reason": solution.reason,
        "stopped": solution.stopped.value,
        "check": solution.check.value,
        "device": solution.device,
        "notes": [{"remark": note.remark.value, "value": note.value} for note in solution.notes],
        "counters": solution.counters,
        "provenance": solution.provenance,
        "quotas": derived["quotas"],
        "infeasibility": None if why is None else {name: getattr(why, name) for name in _WHY_FIELDS},
        "quota_names": solution.quota_names,
    }
    if not solution.units.are_shares:
        told["units"] = {name: getattr(solution.units, name) for name in _UNITS_FIELDS}
    if solution.conditions:
        told["conditions"] = [share._asdict() for share in solution.conditions]
    if solution.ends is not None:
        told["ends"] = ends_file.to_dict(solution.ends)
    if (labels := solution.labels) is not None:
        told["names"] = {
            "states": labels.states, "actions": labels.actions, "n_actions": labels.n_actions
        }  # fmt: skip
    for name in (*_QUOTA_ARRAYS, *_STATE_ARRAYS, *_PAIR_ARRAYS):
        told[name] = getattr(solution, name)
    return {name: plain(value) for name, value in told.items()}


def plain(value: Any) -> Any:
    """A value in terms of JSON; what is no such thing is left for `json` to refuse."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.isfinite(value).all():
        return value.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def parsed(data: bytes) -> Any:
    """What strict JSON holds; a field that is there twice is refused."""
    try:
        return json.loads(data.decode(), object_pairs_hook=_distinct, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError(f"line {line} is not UTF-8 text") from None
    except FormatError:
        raise
    except ValueError as error:  # JSONDecodeError, whose text has line and column, or an endless integer
        raise FormatError(f"not valid JSON: {error}") from None


def _distinct(items: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in items:
        if name in found:
            raise FormatError(f"the field {fields.shown(name)} is there twice")
        found[name] = value
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise FormatError(f"not valid JSON: {text} is no number; what is not finite is written as null")


def solution_of(raw: Any) -> Solution:
    """The solution of what `solution_to_dict` returned."""
    if isinstance(raw, dict) and "fairmdp_estimate" in raw:
        raise FormatError(
            "this is what learn has kept, not a solution\n  fairmdp certify proves it from samples"
        )
    if not isinstance(raw, dict) or _VERSION_FIELD not in raw:
        raise FormatError(f"there is no field {_VERSION_FIELD}: this is not a solution file")
    version = raw[_VERSION_FIELD]
    if type(version) is not int or version not in (1, VERSION):
        raise FormatError(f"{_VERSION_FIELD}: this is format {fields.shown(version)}, expected {VERSION}")
    optional = (*_DERIVED, "units", "conditions", "ends", "names")
    fields.check_fields(raw, _FIELDS if version == VERSION else _FIELDS_OF_1, optional)
    names = fields.each(raw, "quota_names", fields.text)
    K = len(names)
    policy, visitation = fields.vector(raw, "policy"), fields.vector(raw, "visitation")
    SA, S = policy.size, visitation.size
    at_least, at_most = fields.vector(raw, "at_least", K), fields.vector(raw, "at_most", K)
    for name, bound in (("at_least", at_least), ("at_most", at_most)):
        # A bound of null would let a broken quota pass for one that asks for nothing.
        if np.isnan(bound).any():
            raise FormatError(f"{name}[{int(np.argmax(np.isnan(bound)))}]: expected a number, got null")
    why = raw["infeasibility"]
    solution = Solution(
        status=fields.word(raw, "status", Status),
        gain=fields.number("gain", raw["gain"]),
        upper=fields.number("upper", raw["upper"]),
        tol=fields.number("tol", raw["tol"]),
        policy=policy,
        occupancy=fields.vector(raw, "occupancy", SA),
        visitation=visitation,
        bias=fields.vector(raw, "bias", S),
        shares=fields.vector(raw, "shares", K),
        prices=fields.vector(raw, "prices", K),
        at_least=at_least,
        at_most=at_most,
        quota_names=names,
        **(_account(raw) if version == VERSION else _account_of_1(raw)),
        counters=fields.numbers(raw, "counters"),
        provenance=fields.printable("provenance", fields.object_in(raw, "provenance")),
        infeasibility=None if why is None else _infeasibility(fields.object_in(raw, "infeasibility"), S, K),
        units=_units(fields.object_in(raw, "units"), K) if "units" in raw else Units(),
        conditions=_conditions(raw, K) if "conditions" in raw else (),
        labels=_labels(fields.object_in(raw, "names"), S, SA) if "names" in raw else None,
        ends=ends_file.of_dict(fields.object_in(raw, "ends"), S, SA, K) if "ends" in raw else None,
    )
    follows = _derived(solution)
    for name in follows:
        if name in raw and raw[name] != follows[name]:
            raise FormatError(f"{name}: this is not what follows from the file's other fields")
    return solution


@np.errstate(over="ignore", invalid="ignore")  # numbers of a file may be anything
def _derived(solution: Solution) -> dict[str, Any]:
    """What a file says although it follows from its other fields."""
    return {
        "gap": plain(solution.gap),
        "worst_slack": plain(solution.worst_slack),
        "quotas": plain([row._asdict() for row in solution.quotas]),
    }


def _conditions(raw: dict[str, Any], K: int) -> tuple[ConditionalShare, ...]:
    found: tuple[ConditionalShare, ...] = fields.each(raw, "conditions", partial(_condition, K))
    return found


def _condition(K: int, place: str, value: Any) -> ConditionalShare:
    raw = fields.record(place, value, ConditionalShare._fields)
    if type(raw["least"]) is not bool:
        raise FormatError(f"{place}.least: expected true or false, got {fields.shown(raw['least'])}")
    quota = fields.quota_number(f"{place}.quota", raw["quota"], K)
    bound, mass = (fields.number(f"{place}.{name}", raw[name]) for name in ("bound", "mass"))
    return ConditionalShare(quota, bound, raw["least"], mass)


def _units(raw: dict[str, Any], K: int) -> Units:
    fields.check_fields(raw, _UNITS_FIELDS, (), "units.")
    offset, scale = (fields.vector(raw, name, K, "units.") for name in _UNITS_FIELDS)
    bad = ~(np.isfinite(offset) & (scale > 0))
    if bad.any():
        k = int(np.argmax(bad))
        raise FormatError(
            f"units: expected numbers and scales above 0, got {offset[k]} and {scale[k]} at {k}"
        )
    return Units(offset, scale)


def _labels(raw: dict[str, Any], S: int, SA: int) -> Labels:
    """Names of the states and actions, and how many actions each state has."""
    fields.check_fields(raw, _NAMES_FIELDS, (), "names.")
    counts = fields.each(raw, "n_actions", _count, "names.")
    if len(counts) != S or sum(counts) != SA:
        raise FormatError(f"names.n_actions: expected {S} numbers that sum to {SA}")
    states, actions = (
        None if raw[name] is None else fields.each(raw, name, fields.text, "names.")
        for name in ("states", "actions")
    )
    for name, names, size in (("states", states, S), ("actions", actions, SA)):
        if names is not None and len(names) != size:
            raise FormatError(f"names.{name}: expected {size} names, got {len(names)}")
    labels = Labels(states, actions, np.cumsum([0, *counts]))
    pairs = None if actions is None else list(zip(labels.s_of.tolist(), actions, strict=True))
    for name, known in (("states", states), ("actions", pairs)):
        if known is not None and len(set(known)) < len(known):
            raise FormatError(f"names.{name}: a name is there twice")
    return labels


def _count(place: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value < 2**31:
        raise FormatError(f"{place}: expected how many actions a state has, got {fields.shown(value)}")
    return value


def _infeasibility(raw: dict[str, Any], S: int, K: int) -> Infeasibility:
    fields.check_fields(raw, _WHY_FIELDS, (), "infeasibility.")
    prefix = "infeasibility."
    conflict = fields.each(raw, "conflict", lambda place, k: fields.quota_number(place, k, K), prefix)
    rows = fields.each(raw, "reach_bias", lambda place, row: fields.floats(place, row, S), prefix)
    if len(rows) > len(conflict):
        raise FormatError(f"{prefix}reach_bias: expected {len(conflict)} rows at most, got {len(rows)}")
    reach_bias = np.array(rows, dtype=np.float64).reshape(len(rows), S)
    frozen(reach_bias)
    factor = raw["common_factor"]
    return Infeasibility(
        conflict=conflict,
        reach=fields.vector(raw, "reach", len(rows), prefix),
        reach_bias=reach_bias,
        common_factor=None if factor is None else fields.number(f"{prefix}common_factor", factor),
        factor_bias=fields.vector(raw, "factor_bias", S, prefix),
        factor_prices=fields.vector(raw, "factor_prices", K, prefix),
        nearest_at_least=fields.vector(raw, "nearest_at_least", K, prefix),
        nearest_at_most=fields.vector(raw, "nearest_at_most", K, prefix),
    )


def _account(raw: dict[str, Any]) -> dict[str, Any]:
    """What the file says of how the solution was found."""
    return {
        "method": fields.text("method", raw["method"]),
        "tried": fields.each(raw, "tried", fields.text),
        "reason": fields.text("reason", raw["reason"]),
        "stopped": fields.word(raw, "stopped", Stop),
        "check": fields.word(raw, "check", Check),
        "device": fields.text("device", raw["device"]),
        "notes": fields.each(raw, "notes", _note),
    }


def _account_of_1(raw: dict[str, Any]) -> dict[str, Any]:
    """The same from a file of 0.1, whose method is a sentence: the solver stands before its first colon."""
    fields.each(raw, "notes", fields.text)
    names = re.findall(r"[\w-]+", fields.text("method", raw["method"]).partition(":")[0])
    return {"method": names[-1] if names else ""}


def _note(place: str, value: Any) -> Note:
    raw = fields.record(place, value, Note._fields)
    remark = fields.word(raw, "remark", Remark, f"{place}.")
    return Note(remark, fields.number(f"{place}.value", raw["value"]))
