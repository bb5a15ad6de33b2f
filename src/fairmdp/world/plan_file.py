"""Plans of worlds as npz: the answer with its witnesses, so that `verify` needs the world and nothing else.

A plan has K resources and G sides of group quotas, and blocks of B rows with S states, SA pairs, J sides of
local quotas, outcomes of W numbers and R rows that are split; their members end in the number of their block.
"""

from __future__ import annotations

import os
from os import PathLike
from typing import Any

import numpy as np

from fairmdp import npz
from fairmdp.deadline import Stop
from fairmdp.errors import FormatError
from fairmdp.files import naming
from fairmdp.npz import FLOAT, INT, MAX_BYTES, SHORT, TEXT, Arrays, Kind, Member
from fairmdp.solution.solution import Status
from fairmdp.world.plan import Alone, BlockPlan, Shortage, WorldPlan

VERSION = 1
VERSION_MEMBER = "fairmdp_plan"

_OF_PLAN = {
    VERSION_MEMBER: Member(INT, "one"),  # version of the format
    "words": Member(TEXT, "words"),  # status, method and why it stopped, in lines
    "numbers": Member(FLOAT, "numbers"),  # ceiling, value, tolerance
    "prices": Member(FLOAT, "K"),  # one unit more of each resource ...
    "group_prices": Member(FLOAT, "G"),  # ... and of each group quota
    "counter_names": Member(TEXT, "counter text"),
    "counters": Member(FLOAT, "counters"),  # what the search counted
    "alone_rows": Member(INT, "alone", optional=True),  # who cannot be served alone
    "alone_sides": Member(INT, "alone", optional=True),
    "alone_reach": Member(FLOAT, "alone", optional=True),
    "shortage_prices": Member(FLOAT, "shortage prices", optional=True),  # (K + G)
    "shortage": Member(FLOAT, "shortage", optional=True),  # what is needed, and what there is
}

_OF_BLOCK = {
    "size": Member(INT, "size"),  # B, S, J, W, R, SA
    "witness": Member(SHORT, "witness"),  # B S, actions
    "mu": Member(FLOAT, "mu"),  # B J, prices
    "policies": Member(SHORT, "policies"),  # B (J + 1) S, actions
    "weights": Member(FLOAT, "weights"),  # B (J + 1), their mixture
    "outcomes": Member(FLOAT, "outcomes"),  # B W, what each component does
    "split": Member(INT, "split"),  # R, rows that mix for all ...
    "chances": Member(FLOAT, "chances"),  # R SA, ... and how
}

_KIND = Kind("plan", VERSION_MEMBER, VERSION, npz.with_blocks(_OF_PLAN, _OF_BLOCK, "size", "block"))


def write(plan: WorldPlan, path: str | PathLike[str]) -> None:
    """Write a plan, atomically; the same plan gives the same bytes."""
    arrays: Arrays = {
        VERSION_MEMBER: np.array([VERSION]),
        "words": npz.text_of([plan.status.value, plan.method, plan.stopped.value]),
        "numbers": np.array([plan.upper, plan.value, plan.tol]),
        "prices": plan.prices,
        "group_prices": plan.group_prices,
        "counter_names": npz.text_of(list(plan.counters)),
        "counters": np.array(list(plan.counters.values()), dtype=np.float64),
    }
    for b, block in enumerate(plan.blocks):
        (B, S), J, W = block.witness.shape, block.mu.shape[1], block.outcomes.shape[1]
        arrays[f"size.{b}"] = np.array([B, S, J, W, *block.chances.shape])
        arrays |= {f"{name}.{b}": array for name, array in block._asdict().items()}
    if plan.alone is not None:
        arrays |= {
            "alone_rows": plan.alone.rows, "alone_sides": plan.alone.sides, "alone_reach": plan.alone.reach
        }  # fmt: skip
    if plan.shortage is not None:
        arrays["shortage_prices"] = plan.shortage.prices
        arrays["shortage"] = np.array([plan.shortage.needed, plan.shortage.available])
    path = os.fsdecode(path)
    with naming(path):
        npz.write_arrays(path, arrays)


def read(path: str | PathLike[str], *, max_bytes: int = MAX_BYTES) -> WorldPlan:
    """Read a plan that `write` wrote; the message of an error begins with the path."""
    path = os.fsdecode(path)
    with naming(path):
        return _plan(npz.read_arrays(path, _KIND, max_bytes=max_bytes))


def _plan(arrays: Arrays) -> WorldPlan:
    words = npz.names_in("words", arrays) or []
    numbers, counted, counters = (
        arrays["numbers"],
        npz.names_in("counter_names", arrays) or [],
        arrays["counters"],
    )
    for name, found, expected in (
        ("words", len(words), 3), ("numbers", numbers.size, 3), ("counter_names", len(counted), counters.size)
    ):  # fmt: skip
        if found != expected:
            raise FormatError(f"{name} has {found} entries, expected {expected}")
    n_blocks = sum(name.startswith("size.") for name in arrays)
    return WorldPlan(
        status=_word(Status, words[0]),
        upper=float(numbers[0]),
        value=float(numbers[1]),
        prices=arrays["prices"],
        group_prices=arrays["group_prices"],
        blocks=tuple(_block(arrays, b) for b in range(n_blocks)),
        tol=float(numbers[2]),
        method=words[1],
        alone=_alone(arrays),
        shortage=_shortage(arrays),
        stopped=_word(Stop, words[2]),
        counters=dict(zip(counted, counters.tolist(), strict=True)),
    )


def _word(kind: Any, word: str) -> Any:
    try:
        return kind(word)
    except ValueError:
        known = ", ".join(each.value for each in kind)
        raise FormatError(f"words: {word!r:.60} is none of {known}") from None


def _block(arrays: Arrays, b: int) -> BlockPlan:
    size = arrays[f"size.{b}"].tolist()
    if len(size) != 6 or min(size) < 0:
        raise FormatError(f"size.{b} holds {size!s:.60}, expected 6 sizes")
    B, S, J, W, R, SA = size
    shapes = {
        "witness": (B, S), "mu": (B, J), "policies": (B, J + 1, S), "weights": (B, J + 1), "outcomes": (B, W),
        "split": (R,), "chances": (R, SA),
    }  # fmt: skip
    return BlockPlan(
        **{name: npz.shaped(f"{name}.{b}", arrays[f"{name}.{b}"], shape) for name, shape in shapes.items()}
    )


def _alone(arrays: Arrays) -> Alone | None:
    names = ("alone_rows", "alone_sides", "alone_reach")
    found = [arrays[name] for name in names if name in arrays]
    if found and len(found) < len(names):
        raise FormatError(f"of {', '.join(names)} only {len(found)} are there")
    return Alone(*found) if found else None


def _shortage(arrays: Arrays) -> Shortage | None:
    if "shortage" not in arrays and "shortage_prices" not in arrays:
        return None
    if "shortage" not in arrays or "shortage_prices" not in arrays or arrays["shortage"].size != 2:
        raise FormatError("shortage has two numbers, and comes with shortage_prices")
    return Shortage(arrays["shortage_prices"], *arrays["shortage"].tolist())
