"""Reading the fields of strict JSON: each reader names the place of what it refuses."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np

from fairmdp.errors import FormatError
from fairmdp.model.checks import Floats, frozen

Word = TypeVar("Word", bound=StrEnum)


def check_fields(
    raw: dict[str, Any], required: tuple[str, ...], ignored: tuple[str, ...], prefix: str = ""
) -> None:
    """Refuse an object that has other fields, or lacks one."""
    for name in raw:
        if name not in required and name not in ignored:
            raise FormatError(f"{prefix}{shown(name)[1:-1]}: there is no such field")
    for name in required:
        if name not in raw:
            raise FormatError(f"{prefix}{name}: this field is missing")


def word(raw: dict[str, Any], name: str, kind: type[Word], prefix: str = "") -> Word:
    """A field that holds one of few words."""
    words = [word.value for word in kind]
    if raw[name] not in words:
        raise FormatError(
            f"{prefix}{name}: expected {', '.join(filter(None, words))}, got {shown(raw[name])}"
        )
    return kind(raw[name])


def object_in(raw: dict[str, Any], name: str) -> dict[str, Any]:
    """A field that holds an object."""
    if not isinstance(raw[name], dict):
        raise FormatError(f"{name}: expected an object, got {shown(raw[name])}")
    return raw[name]


def record(place: str, value: Any, required: tuple[str, ...]) -> dict[str, Any]:
    """An object with these fields and no others."""
    if not isinstance(value, dict):
        raise FormatError(f"{place}: expected an object, got {shown(value)}")
    check_fields(value, required, (), f"{place}.")
    return value


def numbers(raw: dict[str, Any], name: str) -> dict[str, float]:
    """A field that holds numbers by name."""
    return {key: number(f"{name}.{key}", value) for key, value in object_in(raw, name).items()}


def each(raw: dict[str, Any], name: str, convert: Callable[[str, Any], Any], prefix: str = "") -> Any:
    """Items of a list, converted, as a tuple."""
    values = raw[name]
    if not isinstance(values, list):
        raise FormatError(f"{prefix}{name}: expected a list, got {shown(values)}")
    return tuple(convert(f"{prefix}{name}[{k}]", value) for k, value in enumerate(values))


def vector(raw: dict[str, Any], name: str, size: int | None = None, prefix: str = "") -> Floats:
    """A field that holds a list of numbers and nulls, as a read-only vector."""
    return floats(f"{prefix}{name}", raw[name], size)


def floats(place: str, values: Any, size: int | None) -> Floats:
    """A list of numbers and nulls as a read-only vector."""
    if not isinstance(values, list):
        raise FormatError(f"{place}: expected a list of numbers, got {shown(values)}")
    if size is not None and len(values) != size:
        raise FormatError(f"{place}: expected {size} numbers, got {len(values)}")
    # A list of plain numbers is converted at once; any other is looked at item by item.
    array = np.array(values, dtype=np.float64) if set(map(type, values)) == {float} else np.array([np.nan])
    if not np.isfinite(array).all():
        array = np.array([number(f"{place}[{k}]", v) for k, v in enumerate(values)], dtype=np.float64)
    frozen(array)
    return array


def number(place: str, value: Any) -> float:
    """A number, or NaN for null."""
    if value is None:
        return math.nan
    if type(value) not in (int, float):
        raise FormatError(f"{place}: expected a number, got {shown(value)}")
    try:
        given = float(value)
    except OverflowError:
        given = math.inf
    if not math.isfinite(given):
        raise FormatError(f"{place}: the number is too large")
    return given


def quota_number(place: str, value: Any, count: int) -> int:
    """The number of a quota."""
    if type(value) is not int or not 0 <= value < count:
        raise FormatError(f"{place}: expected the number of a quota, 0 to {count - 1}, got {shown(value)}")
    return value


def text(place: str, value: Any) -> str:
    """A text that could not steer a terminal."""
    if not isinstance(value, str):
        raise FormatError(f"{place}: expected text, got {shown(value)}")
    return printable(place, value)


def printable(place: str, value: Any) -> Any:
    """A value none of whose texts could steer a terminal."""
    if isinstance(value, dict):
        for key, item in value.items():
            printable(place, key)
            printable(place, item)
    elif isinstance(value, list):
        for item in value:
            printable(place, item)
    elif isinstance(value, str) and not value.replace("\n", "").isprintable():
        raise FormatError(f"{place}: expected printable text, got {shown(value)}")
    return value


def shown(value: Any) -> str:
    """A value as the file has it, shortened."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    written = json.dumps(value)
    return written if len(written) <= 60 else f"{written[:57]}..."
