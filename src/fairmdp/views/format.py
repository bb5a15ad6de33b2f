"""How numbers are shown, wherever people read them: one definition of each kind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fairmdp.certificate import FAIR_TOL

MAX_ROWS = 20
"""Rows of a table for people; more are counted, not shown."""

NOTHING = 1e-9
"""A probability or a price below it is none."""


def fixed(value: float | None, digits: int = 4) -> str:
    """A number with so many decimals, such as a share (4) or a gain (6); a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{round(value, digits) + 0.0:.{digits}f}"  # never -0.0000


def slack(value: float | None) -> str:
    """A slack with its sign, 0 where the bound is met with equality; a dash where nothing is owed."""
    if value is None or not math.isfinite(value):
        return "-"
    return "0" if abs(value) <= FAIR_TOL else f"{value:+.4f}" if abs(value) >= 1e-4 else f"{value:+.1e}"


def worst_slack(value: float | None) -> str:
    """The smallest slack in words."""
    return "nothing owed" if slack(value) == "-" else f"worst slack {slack(value)}"


def price(value: float | None) -> str:
    """What one more unit costs; a dash where that is nothing."""
    return "-" if value is None or abs(value) <= NOTHING else fixed(value)


def with_error(value: float, error: float) -> str:
    """An estimate and one standard error."""
    return f"{value:.4f} +- {error:.4f}"


def interval(low: float, high: float, digits: str = ".4f") -> str:
    """The two ends of an interval."""
    return f"[{low:{digits}}, {high:{digits}}]"


def percent(probability: float) -> str:
    """A probability that is neither 0 nor 1, and does not look so."""
    if not 0.0005 <= probability < 0.9995:
        return "below 0.1%" if probability < 0.5 else "above 99.9%"
    return f"{100 * probability:.1f}%"


def asked(bounds: Sequence[float | None]) -> str:
    """What a lower and an upper bound ask for, ``>= 0.25, <= 0.5``."""
    return ", ".join(f"{sign} {b:.4g}" for sign, b in zip((">=", "<="), bounds, strict=True) if b is not None)


def listed(names: Sequence[str], most: int = MAX_ROWS) -> str:
    """Some names with commas between them, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def shortened(text: str, most: int = 40) -> str:
    """A long name without its middle: ends tell apart what begins alike."""
    if len(text) <= most:
        return text
    end = 2 * most // 3
    return f"{text[: most - 3 - end].rstrip()}...{text[-end:].lstrip()}"


def table(cells: Sequence[Sequence[str]], total: int = 0, more: str = "more quotas") -> list[str]:
    """Rows under their head, and how many more there are of so many; words where there is none."""
    left = total - len(cells) + 1
    lines = columns(cells) if len(cells) > 1 else ["  no quotas"]
    return lines + ([f"  ... and {left} {more}"] if left > 0 else [])


def notes_lines(data: Mapping[str, Any]) -> list[str]:
    """What a careful reader should know, a line each."""
    return [f"  note    {note}" for note in data["notes"]]


def verified_text(name: str, data: Mapping[str, Any], proved: Sequence[str]) -> str:
    """Whether claims were confirmed, what was proved of them, what is wrong, and what is not proved."""
    arithmetic = "rational arithmetic" if data["exact"] else "floating point with outward rounding"
    lines = [
        f"{name}: {'confirmed' if data['ok'] else 'NOT CONFIRMED'} in {arithmetic}",
        f"  proved  {data['status']}: {data['meaning']}",
        *proved,
        *(f"  wrong   {message}" for message in data["messages"]),
        *(f"  no proof  {estimate}" for estimate in data.get("estimates", ())),
    ]
    return "\n".join(lines)


def columns(cells: Sequence[Sequence[str]]) -> list[str]:
    """Rows of text as aligned lines."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
