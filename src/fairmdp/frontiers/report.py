"""Frontiers in words and tables: for a terminal, as CSV, and as plain data."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fairmdp.frontiers.curve import Frontier, ShadowPrice
from fairmdp.frontiers.family import ALL
from fairmdp.frontiers.grid import FrontierGrid
from fairmdp.report import columns

_MOVED = 1e-6  # a smaller change of a share is not worth a word
_MOST_NAMES = 12
_EXACT_PRICES = "up to the next bend; at a bend all prices between its sides hold"
_GIVEN_PRICES = "or what these values prove of it; from, to: where one price holds"


def frontier_text(source: str, curve: Frontier) -> str:
    """A frontier as a table: what is owed, gain, costs, price with its range, worst slack."""
    every, cap = curve.quota == ALL, curve.bound == "at_most"
    what = "factor" if every else "at most" if cap else "owed"
    rows = [[what, "gain", "costs", "", "price", "from", "to", "worst slack"]]
    for k, value in enumerate(curve.values):
        if not math.isfinite(curve.gains[k]):
            tried = k < len(curve.solutions) and curve.solutions[k].has_policy
            rows.append([f"{value:.6f}", "not proved" if tried else "infeasible", *["-"] * 6])
            continue
        part = curve.relative_prices[k]
        rows.append(
            [
                f"{value:.6f}",
                f"{curve.gains[k]:.6f}",
                f"{curve.prices[k] + 0.0:.6f}",
                f"{100 * part:.1f} %" if math.isfinite(part) else "-",
                *_price_text(curve, k),
                _slack_text(curve.solutions[k].worst_slack),
            ]
        )
    moving = "all quotas" if every else f"the cap of {curve.quota}" if cap else curve.quota
    unit = "unit allowed, which pays" if cap else "unit owed"
    where = "its ends and bends" if curve.exact else "at the given values"
    lines = [
        f"{source}: best gain against {moving}, {where}",
        "",
        *columns(rows),
        "",
        f"  price: of one more {unit}, {_EXACT_PRICES if curve.exact else _GIVEN_PRICES}",
    ]
    if curve.limit is not None:
        lines.append(f"  no policy {'meets less' if cap else 'meets more'} than {curve.limit:.6f}")
    return "\n".join([*lines, *_who_pays(curve)])


def grid_text(source: str, grid: FrontierGrid) -> str:
    """A grid as a table of gains, one row per value of the first quota."""
    first, second = grid.quotas
    cells = [[f"{first} \\ {second}", *(f"{v:.4g}" for v in grid.values[1])]]
    for value, gains in zip(grid.values[0], grid.gains, strict=True):
        cells.append([f"{value:.4g}", *(f"{g:.6f}" if math.isfinite(g) else "-" for g in gains)])
    fair = np.isfinite(grid.gains)
    lines = [f"{source}: best gain against {first} (rows) and {second} (columns)", "", *columns(cells), ""]
    if fair.any():
        lines.append(f"  worst slack of all {_slack_text(float(grid.worst_slacks[fair].min()))}")
    if not fair.all():
        lines.append("  - : no policy meets both")
    return "\n".join(lines)


def frontier_dict(curve: Frontier) -> dict[str, Any]:
    """A frontier as data for JSON."""
    return {
        "quota": curve.quota,
        "bound": curve.bound,
        "exact": curve.exact,
        "values": _plain(curve.values),
        "gains": _plain(curve.gains),
        "uppers": _plain(curve.uppers),
        "worst_slacks": [_number(s.worst_slack) for s in curve.solutions],
        "slopes": _plain(curve.slopes),
        "prices": _plain(curve.prices),
        "relative_prices": _plain(curve.relative_prices),
        "shadow_prices": [
            {name: _number(value) for name, value in price._asdict().items()} for price in curve.shadow_prices
        ],
        "last_feasible": _number(curve.last_feasible),
        "limit": curve.limit,
        "quotas": list(curve.quota_names),
        "shares": _plain(curve.shares),
    }


def grid_dict(grid: FrontierGrid) -> dict[str, Any]:
    """A grid as data for JSON."""
    return {
        "quotas": list(grid.quotas),
        "values": [_plain(values) for values in grid.values],
        "gains": _plain(grid.gains),
        "uppers": _plain(grid.uppers),
        "worst_slacks": _plain(grid.worst_slacks),
        "groups": list(grid.quota_names),
        "shares": _plain(grid.shares),
    }


def frontier_csv(curve: Frontier) -> str:
    """A frontier as CSV, one row per value."""
    shares = [f"share_{name}" for name in curve.quota_names]
    head = [
        "value",
        "gain",
        "upper",
        "worst_slack",
        "price_of_fairness",
        "relative_price",
        *ShadowPrice._fields,
    ]
    rows = []
    for k, value in enumerate(curve.values.tolist()):
        known = math.isfinite(curve.gains[k])
        price: Iterable[object] = curve.shadow_price(value) if known else [""] * len(ShadowPrice._fields)
        slack = curve.solutions[k].worst_slack if k < len(curve.solutions) else math.nan
        costs = curve.prices[k], curve.relative_prices[k]
        rows.append([value, curve.gains[k], curve.uppers[k], slack, *costs, *price, *curve.shares[k]])
    return _csv([*head, *shares], rows)


def grid_csv(grid: FrontierGrid) -> str:
    """A grid as CSV, one row per combination."""
    head = [*grid.quotas, "gain", "upper", "worst_slack", *(f"share_{name}" for name in grid.quota_names)]
    rows = [
        [a, b, grid.gains[i, j], grid.uppers[i, j], grid.worst_slacks[i, j], *grid.shares[i, j]]
        for i, a in enumerate(grid.values[0].tolist())
        for j, b in enumerate(grid.values[1].tolist())
    ]
    return _csv(head, rows)


def _price_text(curve: Frontier, k: int) -> tuple[str, str, str]:
    """Exact: price of the segment that begins here. Else the price here, or what is proved of it."""
    price = curve.shadow_price(float(curve.values[k]))
    if curve.exact:
        if k == curve.values.size - 1:
            return "-", "-", "-"
        price = curve.shadow_price(float(curve.values[k : k + 2].mean()))
    near, far = (price.low, price.high) if curve.bound == "at_least" else (price.high, price.low)
    end = f"{far:.4f}" if math.isfinite(far) else "more"
    shown = f"{price.price:.4f}" if price.unique else f"{near:.4f} to {end}"
    return shown, f"{price.start:.4f}", f"{price.stop:.4f}"


def _slack_text(slack: float) -> str:
    return f"{round(slack, 9) + 0.0:+.4g}" if math.isfinite(slack) else "-"


def _who_pays(curve: Frontier) -> list[str]:
    """Change of every other quota's share from the first value to the last that can be met."""
    fair = np.flatnonzero(np.isfinite(curve.gains))
    if not fair.size:
        return []
    moved = [
        f"{name} {change:+.4f}"
        for name, change in zip(curve.quota_names, curve.share_changes[fair[-1]], strict=True)
        if name != curve.quota and abs(change) > _MOVED
    ]
    if not moved:
        return []
    more = f" and {len(moved) - _MOST_NAMES} more" if len(moved) > _MOST_NAMES else ""
    return [f"  from end to end the other shares move: {', '.join(moved[:_MOST_NAMES])}{more}"]


def _plain(array: Any) -> Any:
    """An array as lists, with None for what is not finite."""
    return [_plain(part) for part in array] if np.ndim(array) else _number(float(array))


def _number(value: float | bool | None) -> float | bool | None:
    return value if value is None or math.isfinite(value) else None


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
