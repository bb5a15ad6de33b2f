"""What states and actions are called: any hashable objects may stand for them, and every one has a name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmdp.errors import ProblemError
from fairmdp.model.checks import first_repeat, names_of, refuse

MOST_NAMED_ROWS = 100_000
"""States that are rows of numbers get names up to here; names of more would take more room than the model."""

Objects = Sequence[Hashable] | NDArray[Any]


def text_of(value: Any) -> str:
    """Name of a state or an action: text as it is, a tuple as ``1,0``, fields as ``x=1 & y=0``.

    Examples
    --------
    >>> text_of("home"), text_of((1, (0, 2))), text_of(2.0)
    ('home', '1,(0,2)', '2.0')
    """
    if isinstance(value, str):
        return str(value)
    if (named := fields_of(value)) is not None:
        return " & ".join(f"{name}={_part(part)}" for name, part in named.items())
    if isinstance(value, tuple | list):
        return ",".join(map(_part, value))
    return _part(value)


def fields_of(value: Any) -> dict[str, Any] | None:
    """Parts of a named tuple or a dataclass by name; None of anything else."""
    if hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return None


def state_labels(states: Iterable[Hashable] | None, count: int) -> tuple[tuple[str, ...] | None, Any]:
    """Names of the states, and the objects that stand for them where these are not the names themselves."""
    if isinstance(states, np.ndarray) and states.ndim == 2 and len(states) == count:
        named = tuple(map(text_of, states.tolist())) if count <= MOST_NAMED_ROWS else None
        return named, kept(states)
    if states is None or isinstance(states, str) or not isinstance(states, Iterable):
        return names_of("states", states, count), None
    objects = tuple(states)
    if objects == tuple(range(count)) and not any(isinstance(state, bool) for state in objects):
        return None, None
    all_text = all(isinstance(state, str) for state in objects)
    names = names_of("states", [text_of(state) for state in objects], count)
    assert names is not None
    if len(set(names)) < len(names):
        _refuse_twins(names, objects)
    return names, None if all_text else kept(objects)


def kept(objects: Objects) -> Objects:
    """Objects of our own: a tuple, or the rows of an array."""
    return objects.copy() if isinstance(objects, np.ndarray) else tuple(objects)


def numbers_of(objects: Objects) -> dict[Hashable, int]:
    """Number of each object that stands for a state; a row of an array is a tuple here."""
    rows = map(tuple, objects.tolist()) if isinstance(objects, np.ndarray) else objects
    try:
        return {state: s for s, state in enumerate(rows)}
    except TypeError as error:
        raise ProblemError(f"states holds something that is not hashable: {error}") from None


def variables_of(objects: Any, names: Sequence[str] | None) -> Mapping[str, NDArray[Any]]:
    """Variables of the states by name, (S,) each: fields of the objects, or names such as ``x=1 & y=0``."""
    if isinstance(objects, np.ndarray):
        return {f"x{k}": objects[:, k] for k in range(objects.shape[1])}
    rows = [fields_of(state) for state in objects] if objects else [_parsed(name) for name in names or ()]
    if not rows or rows[0] is None or any(row is None or row.keys() != rows[0].keys() for row in rows):
        return {}
    return {name: np.array([row[name] for row in rows if row]) for name in rows[0]}


def _parsed(name: str) -> dict[str, Any] | None:
    """Variables in a name such as ``x=1 & y=0`` or, as Storm has truth values, ``x=1 & !up``."""
    parts = [part.strip() for part in name.split("&")]
    if parts[0].isidentifier() and len(parts) == 1:
        return None
    found = {}
    for part in parts:
        key, equals, value = part.partition("=")
        found[key.removeprefix("!").strip()] = number_or_text(value.strip()) if equals else part[:1] != "!"
    return found if all(map(str.isidentifier, found)) and len(found) == len(parts) else None


def number_or_text(word: str) -> Any:
    """A word as a truth value, a number or, failing these, text."""
    if word in ("true", "false"):
        return word == "true"
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def _part(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, tuple) or fields_of(value) is not None:
        return f"({text_of(value)})"
    if isinstance(value, frozenset):
        return f"{{{','.join(sorted(map(_part, value)))}}}"
    return " ".join(str(value).split())


def _refuse_twins(names: Sequence[str], objects: Sequence[Hashable]) -> None:
    i = first_repeat(np.array(names))
    assert i is not None
    k = names.index(names[i])
    if objects[k] == objects[i]:
        raise ProblemError(f"two states are called {names[i]!r}\n  give every state a name of its own")
    refuse(
        f"two states are called {names[i]!r}",
        f"they are state {k}, {objects[k]!r}, and state {i}, {objects[i]!r}",
        "give the objects different texts, such as by a __str__ of their own",
    )
