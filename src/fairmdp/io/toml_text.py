"""What all TOML files of ours have in common: strict reading with the place of what is wrong, and writing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import tomli_w
from pydantic import BaseModel, ValidationError

from fairmdp.errors import FormatError
from fairmdp.files import read_bytes
from fairmdp.model.checks import closest, there_are

Form = TypeVar("Form", bound=BaseModel)

Place = Sequence[str | int]
"""Keys and numbers of items that lead to a field."""

MAX_BYTES = 2**25
"""Largest file that is read; the parser takes about a second for each 2 MB."""

_HEAD_OF_WORLD = re.compile(rb"^\s*fairmdp_world\s*=", re.MULTILINE)
_EXPECTED = {
    "bool_type": "true or false",
    "float_type": "a number",
    "int_type": "a whole number",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "too_short": "[state, action]",
    "too_long": "[state, action]",
}


def holds_world(path: str) -> bool:
    """Whether a file says that it holds a world."""
    return _HEAD_OF_WORLD.search(read_bytes(path, MAX_BYTES)) is not None


def misfit(place: Place, what: str) -> FormatError:
    """What is wrong with the form of the file."""
    text = f"{place_text(place)}: {what}" if place else what
    # Names from the file may hold what would steer a terminal.
    return FormatError("".join(c if c.isprintable() or c == "\n" else f"\\u{ord(c):04X}" for c in text))


def _parsed(data: bytes) -> dict[str, Any]:
    """Content of a file, not yet looked at."""
    import tomllib

    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise misfit((), f"line {line} is not UTF-8 text") from None
    except RecursionError:
        raise misfit((), "it is nested too deeply") from None
    except ValueError as error:  # also TOMLDecodeError, whose text has line and column
        raise misfit((), f"not valid TOML: {error}") from None


def checked(data: bytes, form: type[Form], field: str, version: int, called: str) -> Form:
    """Content as its form has it; `field` holds the version of the format."""
    raw = _parsed(data)
    given = raw.get(field)
    if given is None:
        raise misfit((field,), f"this field is missing; a {called} file begins with {field} = {version}")
    if type(given) is not int or given != version:
        raise misfit((field,), f"this is format {shown(given)}, expected {version}")
    try:
        return form.model_validate(raw)
    except ValidationError as error:
        raise _first_misfit(error, _fields(form)) from None


def _fields(form: type[BaseModel]) -> list[str]:
    """Names of the fields of a form and of those inside it."""
    shape = form.model_json_schema()
    return list(
        dict.fromkeys(
            key for part in (shape, *shape.get("$defs", {}).values()) for key in part.get("properties", ())
        )
    )


def _first_misfit(error: ValidationError, known: Sequence[str]) -> FormatError:
    def misspelt(each: Any) -> str | None:
        return closest(str(each["loc"][-1]), known) if each["type"] == "extra_forbidden" else None

    first, *others = sorted(error.errors(include_url=False), key=lambda each: misspelt(each) is None)
    kind, meant = first["type"], misspelt(first)
    if kind == "missing":
        what = "this field is missing"
    elif kind == "extra_forbidden":
        what = "there is no such field" + (f"; did you mean {meant!r}?" if meant else "")
    else:
        what = f"expected {_EXPECTED[kind]}, got {shown(first['input'])}"
    if others:
        what += f"\n  {len(others)} more of the fields {'is' if len(others) == 1 else 'are'} wrong"
    return misfit(first["loc"], what)


class Names:
    """States and actions of a model in a file, one table for each action, by which all else is looked up."""

    def __init__(
        self, place: Place, states: list[str] | None, model: Mapping[str, Mapping[str, Any]], owner: str
    ) -> None:
        self.states = list(model) if states is None else states
        if not model:
            raise misfit((*place, "model"), "there are no states in it")
        self.numbers: dict[str, int] = {}
        for k, name in enumerate(self.states):
            if name not in model:
                missing = place_text([*(part for part in place if isinstance(part, str)), "model", name])
                raise misfit((*place, "states", k), f"there is no table [{missing}.<action>]")
            if name in self.numbers:
                raise misfit((*place, "states", k), f"{shown(name)} is listed twice")
            self.numbers[name] = k
        for name, actions in model.items():
            if not actions:
                raise misfit((*place, "model", name), "this state has no action")
            if name not in self.numbers:
                raise misfit((*place, "model", name), "this state is not listed in states")
        self.pairs = {pair: i for i, pair in enumerate((s, a) for s in self.states for a in model[s])}
        self._place, self._model, self._owner = place, model, owner

    def tables(self) -> Iterator[tuple[Place, Any]]:
        """The table of each pair, with its place."""
        for state, action in self.pairs:
            yield (*self._place, "model", state, action), self._model[state][action]

    def state(self, place: Place, name: str) -> int:
        """Number of a state."""
        if name not in self.numbers:
            told = there_are(self.states, name)
            raise misfit(place, f"{self._owner} no state called {shown(name)}{told}")
        return self.numbers[name]

    def pair(self, place: Place, state: str, action: str) -> int:
        """Number of a pair."""
        self.state(place, state)
        if (state, action) not in self.pairs:
            told = there_are(list(self._model[state]), action)
            raise misfit(place, f"state {shown(state)} has no action called {shown(action)}{told}")
        return self.pairs[state, action]

    def check_counted(self, place: Place, table: Any) -> None:
        """Raise unless there are the states and pairs that a quota counts."""
        for k, name in enumerate(table.states or ()):
            self.state((*place, "states", k), name)
        for k, pair in enumerate(table.pairs or ()):
            self.pair((*place, "pairs", k), *pair)


def number(place: Place, value: Any) -> float:
    """A number where the form allows other things too."""
    if type(value) not in (int, float):
        raise misfit(place, f"expected a number, got {shown(value)}")
    return float(value)


def inline(value: Any) -> str:
    """A value on one line; tomli_w alone would give each table and each item lines of its own."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key_text(key)} = {inline(item)}' for key, item in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(inline, value))}]"
    return tomli_w.dumps({"x": value})[len("x = ") : -1]


def key_text(name: str) -> str:
    """A name as a key, in quotes where it needs them."""
    return tomli_w.dumps({name: 0})[: -len(" = 0\n")]


def place_text(place: Place) -> str:
    """``model.s0."night shift".to``, ``quotas[0].states[2]``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{key_text(part)}" for part in place)[1:]


def shown(value: Any) -> str:
    """A value as the file has it, shortened."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    text = inline(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
