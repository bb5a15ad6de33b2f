"""Policies as files that need nothing of ours to be read: JSON by names, and CSV for spreadsheets.

JSON has one line per state; most policies have one entry in ``policies``, and a mixture several::

    {"fairmdp_policy": 1,
    "policies": [{"weight": 1.0, "states": {
    "ward_a": {"share": 0.25, "keep": 0.75},
    "ward_b": {"share": 1.0}
    }}]}

CSV has the columns ``state``, ``action`` and ``probability``, of a mixture also ``policy`` and ``weight``;
other columns are not looked at, and without ``probability`` every action that is named is certain. Actions of
a state stand in the order of the model, those that are never taken too, so that numbers are the model's.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np

from fairmdp import policy, solution
from fairmdp.errors import FormatError, ProblemError
from fairmdp.files import naming, read_bytes, write_together
from fairmdp.model.checks import names_of
from fairmdp.model.labels import Labels
from fairmdp.model.transitions import ROW_SUM_TOL
from fairmdp.solution.file import MAX_BYTES, parsed
from fairmdp.tables import unguarded

VERSION = 1

_VERSION_FIELD = "fairmdp_policy"

States = dict[str, dict[str, float]]
"""Probabilities by state and action."""


def write(kept: policy.Policy, path: str | PathLike[str]) -> None:
    """Write a policy as what the ending of the file's name says, atomically."""
    path = os.fsdecode(path)
    ending = os.path.splitext(path)[1].lower()
    if ending == ".csv":
        kept.to_table().save(path)
    elif ending == ".json":
        write_together({path: _json_lines(kept)})
    else:
        raise FormatError(
            f"{path}: the ending {ending!r} is not a format of policies, expected .json or .csv"
        )


def read(path: str | PathLike[str]) -> policy.Policy:
    """Read a policy, or that of a solution's file; the message of an error begins with the path."""
    path = os.fsdecode(path)
    with naming(path):
        data = read_bytes(path, MAX_BYTES)
        if os.path.splitext(path)[1].lower() == ".csv":
            return _of_rows(data)
        raw = parsed(data)
        if isinstance(raw, dict) and _VERSION_FIELD in raw:
            return _of_json(raw)
        if isinstance(raw, dict) and "fairmdp_solution" in raw:
            return _of_solution(path)
        raise FormatError(f"there is no field {_VERSION_FIELD}: this is not a policy, nor a solution")


def _json_lines(kept: policy.Policy) -> Iterator[str]:
    labels = kept.labels
    yield f'{{"{_VERSION_FIELD}": {VERSION},'
    yield '"policies": ['
    for m, (weight, part) in enumerate(zip(kept.weights.tolist(), kept.parts, strict=True)):
        yield f'{"," if m else ""}{{"weight": {weight!r}, "states": {{'
        for s in range(labels.n_states):
            pairs = range(int(labels.pair_ptr[s]), int(labels.pair_ptr[s + 1]))
            mix = json.dumps({labels.action_name(i): float(part[i]) for i in pairs})
            yield f"{json.dumps(labels.state_name(s))}: {mix}{',' if s + 1 < labels.n_states else ''}"
        yield "}}"
    yield "]}"


def _of_json(raw: dict[str, Any]) -> policy.Policy:
    if raw[_VERSION_FIELD] != VERSION:
        raise FormatError(f"{_VERSION_FIELD}: this is format {raw[_VERSION_FIELD]!r}, expected {VERSION}")
    listed = raw.get("policies")
    if not isinstance(listed, list) or not listed:
        raise FormatError("policies: expected a list with at least one policy")
    weights, states = [], []
    for m, each in enumerate(listed):
        place = f"policies[{m}]"
        if not isinstance(each, dict) or set(each) != {"weight", "states"}:
            raise FormatError(f"{place}: expected an object with weight and states")
        weights.append(_number(f"{place}.weight", each["weight"]))
        states.append(_states(f"{place}.states", each["states"]))
    return _assembled(weights, states)


def _states(place: str, raw: Any) -> States:
    if not isinstance(raw, dict) or not raw:
        raise FormatError(f"{place}: expected an object with one entry per state")
    found = {}
    for state, mix in raw.items():
        if not isinstance(mix, dict) or not mix:
            raise FormatError(f"{place}.{state}: expected an object with the probability of each action")
        found[state] = {action: _number(f"{place}.{state}.{action}", p) for action, p in mix.items()}
    return found


def _of_rows(data: bytes) -> policy.Policy:
    """A policy from the lines of a table."""
    try:
        rows = csv.DictReader(io.StringIO(data.decode("utf-8-sig")), strict=True)
        head = [name.strip().lower() for name in rows.fieldnames or ()]
        rows.fieldnames = head
        for name in ("state", "action"):
            if name not in head:
                raise FormatError(f"line 1: there is no column {name!r}, only {', '.join(head) or 'nothing'}")
        if "next" in head:
            raise FormatError(
                "this is a table of transitions or of records, it has a column 'next'\n"
                "  a policy has the columns state, action and, where it is random, probability"
            )
        weights: dict[str, float] = {}
        policies: dict[str, States] = {}
        for row in rows:
            part, state, action, chance, weight = _row(row, f"line {rows.line_num}")
            mix = policies.setdefault(part, {}).setdefault(state, {})
            if action in mix:
                raise FormatError(
                    f"line {rows.line_num}: action {action!r} of state {state!r} is there twice"
                )
            mix[action] = chance
            if weights.setdefault(part, weight) != weight:
                raise FormatError(f"line {rows.line_num}: policy {part!r} has two weights")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError(f"line {line} is not UTF-8 text") from None
    except csv.Error as error:
        raise FormatError(f"line {rows.line_num + 1}: {error}") from None
    if not policies:
        raise FormatError("there is no line below the names of the columns")
    return _assembled([weights[part] for part in policies], list(policies.values()))


def _row(row: dict[str, Any], place: str) -> tuple[str, str, str, float, float]:
    """Policy, state, action, probability and weight of a line."""
    state, action = (unguarded((row[name] or "").strip()) for name in ("state", "action"))
    if not state or not action:
        raise FormatError(f"{place}: a state or an action is missing")
    chance = _cell(f"{place}: probability", row["probability"]) if "probability" in row else 1.0
    weight = _cell(f"{place}: weight", row["weight"]) if "weight" in row else 1.0
    return row.get("policy") or "", state, action, chance, weight


def _cell(place: str, text: str | None) -> float:
    """A decimal or a percentage."""
    text = (text or "").strip()
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise FormatError(f"{place} is {text!r}, expected a number") from None
    return _number(place, number)


def _number(place: str, value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1 + ROW_SUM_TOL or math.isnan(value):
        raise FormatError(f"{place} is {value!r}, expected a number from 0 to 1")
    return float(value)


def _assembled(weights: list[float], policies: list[States]) -> policy.Policy:
    """A policy from states and actions by name, in the order of their first mention."""
    actions: dict[str, dict[str, None]] = {}
    for states in policies:
        for state, mix in states.items():
            actions.setdefault(state, {}).update(dict.fromkeys(mix))
    labels = Labels(
        names_of("states", actions),
        names_of("actions", [action for mix in actions.values() for action in mix]),
        np.cumsum([0, *map(len, actions.values())]),
    )
    each = [policy.Policy.of(labels, states) for states in policies]
    return policy.Policy.mixture(each, weights) if len(each) > 1 else each[0]


def _of_solution(path: str) -> policy.Policy:
    """The policy of a solution whose file has the names of its states and actions."""
    kept = solution.Solution.load(path)
    if kept.labels is None:
        raise FormatError(
            "this solution does not name its states: 0.1 wrote it, or its model was on a GPU only\n"
            "  Policy.of(problem, Solution.load(path)) takes the names from the problem"
        )
    if not kept.has_policy:
        raise ProblemError(f"there is no policy in it: {kept.status.meaning}")
    return policy.Policy.of(kept.labels, kept)
