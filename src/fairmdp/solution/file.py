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
from enum import StrEnum
from functools import partial
from os import PathLike
from typing import Any, NoReturn, TypeVar

import numpy as np

from fairmdp.deadline import Stop
from fairmdp.errors import FormatError
from fairmdp.files import read_bytes, write_bytes
from fairmdp.model.checks import Floats, frozen
from fairmdp.model.conditional import ConditionalShare
from fairmdp.model.labels import Labels
from fairmdp.model.weights import Units
from fairmdp.solution.solution import Check, Infeasibility, Note, Remark, Solution, Status

Word = TypeVar("Word", bound=StrEnum)

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
    try:
        lines = [
            f"{json.dumps(name)}: {json.dumps(value, allow_nan=False)}"
            for name, value in solution_to_dict(solution).items()
        ]
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{os.fsdecode(path)}: this solution cannot be written as JSON: {error}") from None
    write_bytes(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def read(path: str | PathLike[str]) -> Solution:
    """Read a solution that `write` wrote; the message of an error begins with the path and the field."""
    data = read_bytes(path, MAX_BYTES)
    try:
        return solution_of(parsed(data))
    except FormatError as error:
        raise FormatError(f"{os.fsdecode(path)}: {error}") from None
    except RecursionError:
        raise FormatError(f"{os.fsdecode(path)}: it is nested too deeply") from None


def solution_to_dict(solution: Solution) -> dict[str, Any]:
    """Return a solution as what `json.dumps` takes: what its file holds and ``fairmdp ... --json`` prints."""
    why, derived = solution.infeasibility, _derived(solution)
    fields = {
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
        fields["units"] = {name: getattr(solution.units, name) for name in _UNITS_FIELDS}
    if solution.conditions:
        fields["conditions"] = [share._asdict() for share in solution.conditions]
    if (labels := solution.labels) is not None:
        fields["names"] = {
            "states": labels.states, "actions": labels.actions, "n_actions": labels.n_actions
        }  # fmt: skip
    for name in (*_QUOTA_ARRAYS, *_STATE_ARRAYS, *_PAIR_ARRAYS):
        fields[name] = getattr(solution, name)
    return {name: plain(value) for name, value in fields.items()}


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
    fields: dict[str, Any] = {}
    for name, value in items:
        if name in fields:
            raise FormatError(f"the field {_shown(name)} is there twice")
        fields[name] = value
    return fields


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
        raise FormatError(f"{_VERSION_FIELD}: this is format {_shown(version)}, expected {VERSION}")
    optional = (*_DERIVED, "units", "conditions", "names")
    _check_fields(raw, _FIELDS if version == VERSION else _FIELDS_OF_1, optional)
    names = _each(raw, "quota_names", _text)
    K = len(names)
    policy, visitation = _vector(raw, "policy"), _vector(raw, "visitation")
    SA, S = policy.size, visitation.size
    at_least, at_most = _vector(raw, "at_least", K), _vector(raw, "at_most", K)
    for name, bound in (("at_least", at_least), ("at_most", at_most)):
        # A bound of null would let a broken quota pass for one that asks for nothing.
        if np.isnan(bound).any():
            raise FormatError(f"{name}[{int(np.argmax(np.isnan(bound)))}]: expected a number, got null")
    why = raw["infeasibility"]
    solution = Solution(
        status=_word(raw, "status", Status),
        gain=_number("gain", raw["gain"]),
        upper=_number("upper", raw["upper"]),
        tol=_number("tol", raw["tol"]),
        policy=policy,
        occupancy=_vector(raw, "occupancy", SA),
        visitation=visitation,
        bias=_vector(raw, "bias", S),
        shares=_vector(raw, "shares", K),
        prices=_vector(raw, "prices", K),
        at_least=at_least,
        at_most=at_most,
        quota_names=names,
        **(_account(raw) if version == VERSION else _account_of_1(raw)),
        counters={name: _number(f"counters.{name}", v) for name, v in _object(raw, "counters").items()},
        provenance=_printable("provenance", _object(raw, "provenance")),
        infeasibility=None if why is None else _infeasibility(_object(raw, "infeasibility"), S, K),
        units=_units(_object(raw, "units"), K) if "units" in raw else Units(),
        conditions=_conditions(raw, K) if "conditions" in raw else (),
        labels=_labels(_object(raw, "names"), S, SA) if "names" in raw else None,
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
    found: tuple[ConditionalShare, ...] = _each(raw, "conditions", partial(_condition, K))
    return found


def _condition(K: int, place: str, value: Any) -> ConditionalShare:
    if not isinstance(value, dict):
        raise FormatError(f"{place}: expected an object, got {_shown(value)}")
    _check_fields(value, ConditionalShare._fields, (), f"{place}.")
    if type(value["least"]) is not bool:
        raise FormatError(f"{place}.least: expected true or false, got {_shown(value['least'])}")
    bound, mass = (_number(f"{place}.{name}", value[name]) for name in ("bound", "mass"))
    return ConditionalShare(_quota_number(f"{place}.quota", value["quota"], K), bound, value["least"], mass)


def _units(raw: dict[str, Any], K: int) -> Units:
    _check_fields(raw, _UNITS_FIELDS, (), "units.")
    offset, scale = (_vector(raw, name, K, "units.") for name in _UNITS_FIELDS)
    bad = ~(np.isfinite(offset) & (scale > 0))
    if bad.any():
        k = int(np.argmax(bad))
        raise FormatError(
            f"units: expected numbers and scales above 0, got {offset[k]} and {scale[k]} at {k}"
        )
    return Units(offset, scale)


def _labels(raw: dict[str, Any], S: int, SA: int) -> Labels:
    """Names of the states and actions, and how many actions each state has."""
    _check_fields(raw, _NAMES_FIELDS, (), "names.")
    counts = _each(raw, "n_actions", _count, "names.")
    if len(counts) != S or sum(counts) != SA:
        raise FormatError(f"names.n_actions: expected {S} numbers that sum to {SA}")
    states, actions = (
        None if raw[name] is None else _each(raw, name, _text, "names.") for name in ("states", "actions")
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
        raise FormatError(f"{place}: expected how many actions a state has, got {_shown(value)}")
    return value


def _infeasibility(raw: dict[str, Any], S: int, K: int) -> Infeasibility:
    _check_fields(raw, _WHY_FIELDS, (), "infeasibility.")
    prefix = "infeasibility."
    conflict = _each(raw, "conflict", lambda place, k: _quota_number(place, k, K), prefix)
    rows = _each(raw, "reach_bias", lambda place, row: _floats(place, row, S), prefix)
    if len(rows) > len(conflict):
        raise FormatError(f"{prefix}reach_bias: expected {len(conflict)} rows at most, got {len(rows)}")
    reach_bias = np.array(rows, dtype=np.float64).reshape(len(rows), S)
    frozen(reach_bias)
    factor = raw["common_factor"]
    return Infeasibility(
        conflict=conflict,
        reach=_vector(raw, "reach", len(rows), prefix),
        reach_bias=reach_bias,
        common_factor=None if factor is None else _number(f"{prefix}common_factor", factor),
        factor_bias=_vector(raw, "factor_bias", S, prefix),
        factor_prices=_vector(raw, "factor_prices", K, prefix),
        nearest_at_least=_vector(raw, "nearest_at_least", K, prefix),
        nearest_at_most=_vector(raw, "nearest_at_most", K, prefix),
    )


def _check_fields(
    raw: dict[str, Any], required: tuple[str, ...], ignored: tuple[str, ...], prefix: str = ""
) -> None:
    for name in raw:
        if name not in required and name not in ignored:
            raise FormatError(f"{prefix}{_shown(name)[1:-1]}: there is no such field")
    for name in required:
        if name not in raw:
            raise FormatError(f"{prefix}{name}: this field is missing")


def _account(raw: dict[str, Any]) -> dict[str, Any]:
    """What the file says of how the solution was found."""
    return {
        "method": _text("method", raw["method"]),
        "tried": _each(raw, "tried", _text),
        "reason": _text("reason", raw["reason"]),
        "stopped": _word(raw, "stopped", Stop),
        "check": _word(raw, "check", Check),
        "device": _text("device", raw["device"]),
        "notes": _each(raw, "notes", _note),
    }


def _account_of_1(raw: dict[str, Any]) -> dict[str, Any]:
    """The same from a file of 0.1, whose method is a sentence: the solver stands before its first colon."""
    _each(raw, "notes", _text)
    names = re.findall(r"[\w-]+", _text("method", raw["method"]).partition(":")[0])
    return {"method": names[-1] if names else ""}


def _note(place: str, value: Any) -> Note:
    if not isinstance(value, dict):
        raise FormatError(f"{place}: expected an object, got {_shown(value)}")
    _check_fields(value, Note._fields, (), f"{place}.")
    return Note(_word(value, "remark", Remark, f"{place}."), _number(f"{place}.value", value["value"]))


def _word(raw: dict[str, Any], name: str, kind: type[Word], prefix: str = "") -> Word:
    """A field that holds one of few words."""
    words = [word.value for word in kind]
    if raw[name] not in words:
        raise FormatError(
            f"{prefix}{name}: expected {', '.join(filter(None, words))}, got {_shown(raw[name])}"
        )
    return kind(raw[name])


def _object(raw: dict[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(raw[name], dict):
        raise FormatError(f"{name}: expected an object, got {_shown(raw[name])}")
    return raw[name]


def _each(raw: dict[str, Any], name: str, convert: Callable[[str, Any], Any], prefix: str = "") -> Any:
    """Items of a list, converted, as a tuple."""
    values = raw[name]
    if not isinstance(values, list):
        raise FormatError(f"{prefix}{name}: expected a list, got {_shown(values)}")
    return tuple(convert(f"{prefix}{name}[{k}]", value) for k, value in enumerate(values))


def _vector(raw: dict[str, Any], name: str, size: int | None = None, prefix: str = "") -> Floats:
    return _floats(f"{prefix}{name}", raw[name], size)


def _floats(place: str, values: Any, size: int | None) -> Floats:
    """A list of numbers and nulls as a read-only vector."""
    if not isinstance(values, list):
        raise FormatError(f"{place}: expected a list of numbers, got {_shown(values)}")
    if size is not None and len(values) != size:
        raise FormatError(f"{place}: expected {size} numbers, got {len(values)}")
    # A list of plain numbers is converted at once; any other is looked at item by item.
    array = np.array(values, dtype=np.float64) if set(map(type, values)) == {float} else np.array([np.nan])
    if not np.isfinite(array).all():
        array = np.array([_number(f"{place}[{k}]", v) for k, v in enumerate(values)], dtype=np.float64)
    frozen(array)
    return array


def _number(place: str, value: Any) -> float:
    """A number, or NaN for null."""
    if value is None:
        return math.nan
    if type(value) not in (int, float):
        raise FormatError(f"{place}: expected a number, got {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise FormatError(f"{place}: the number is too large")
    return number


def _quota_number(place: str, value: Any, count: int) -> int:
    if type(value) is not int or not 0 <= value < count:
        raise FormatError(f"{place}: expected the number of a quota, 0 to {count - 1}, got {_shown(value)}")
    return value


def _text(place: str, value: Any) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{place}: expected text, got {_shown(value)}")
    return _printable(place, value)


def _printable(place: str, value: Any) -> Any:
    """A value none of whose texts could steer a terminal."""
    if isinstance(value, dict):
        for key, item in value.items():
            _printable(place, key)
            _printable(place, item)
    elif isinstance(value, list):
        for item in value:
            _printable(place, item)
    elif isinstance(value, str) and not value.replace("\n", "").isprintable():
        raise FormatError(f"{place}: expected printable text, got {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    """A value as the file has it, shortened."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
