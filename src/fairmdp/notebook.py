"""Problems, solutions and frontiers as a notebook shows them: small tables in plain HTML.

Names come from files and may hold anything, so every piece of text goes through `escape`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from fairmdp.frontiers import Frontier
from fairmdp.problem import Problem
from fairmdp.report import asked_text
from fairmdp.solution import Solution

_MOST_ROWS = 20
_WIDE, _HIGH, _EDGE = 360.0, 180.0, 8.0


def problem_html(problem: Problem) -> str:
    """Size of the model, and its quotas."""
    bounds = enumerate(zip(problem.names, problem.at_least, problem.at_most, strict=True))
    rows = ((name, asked_text(low, high, problem.units.of(k))) for k, (name, low, high) in bounds)
    return _box(repr(problem), _table(("quota", "asked"), rows, problem.n_quotas))


def solution_html(solution: Solution) -> str:
    """Status, gain with its worst slack, and one row per quota, the tightest first where there are many."""
    quotas, many = solution.quotas, len(solution.quotas) > _MOST_ROWS
    shown = np.argsort(solution.slacks, kind="stable").tolist() if many else range(len(quotas))
    rows = (
        (
            quotas[k].name,
            _number(quotas[k].share, 4),
            asked_text(solution.at_least[k], solution.at_most[k], solution.units.of(k)),
            _number(round(quotas[k].slack, 9) + 0.0, 4, "+"),
            _number(quotas[k].price, 4),
        )
        for k in shown
    )
    head = f"{solution.status.value}: {solution.status.meaning}"
    if solution.has_policy:
        slack = solution.worst_slack
        worst = f"worst slack {round(slack, 9) + 0.0:+.3g}" if np.isfinite(slack) else "nothing is owed"
        head += f". Gain {solution.gain:.6f}, at most {solution.upper:.6f}; {worst}"
    return _box(head, _table(("quota", "share", "asked", "slack", "price"), rows, len(quotas)))


def frontier_html(curve: Frontier) -> str:
    """The curve, and its points."""
    worst = [s.worst_slack if s.has_policy else float("nan") for s in curve.solutions]
    worst += [float("nan")] * (curve.values.size - len(worst))
    rows = (
        (_number(value, 6), _number(gain, 6), _number(round(slack, 9) + 0.0, 4, "+"))
        for value, gain, slack in zip(curve.values, curve.gains, worst, strict=True)
    )
    what = "at most" if curve.bound == "at_most" else "owed"
    table = _table((what, "gain", "worst slack"), rows, curve.values.size)
    return _box(repr(curve), _picture(curve) + table)


def _picture(curve: Frontier) -> str:
    met = np.isfinite(curve.gains)
    x, y = curve.values[met], curve.gains[met]
    across = _EDGE + (_WIDE - 2 * _EDGE) * (x - x.min()) / (np.ptp(x) or 1.0)
    down = _EDGE + (_HIGH - 2 * _EDGE) * (y.max() - y) / (np.ptp(y) or 1.0)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))
    return (
        f'<svg role="img" aria-label="{escape(repr(curve))}" width="{_WIDE:g}" height="{_HIGH:g}">'
        f'<polyline points="{points}" fill="none" stroke="#2b6cb0" stroke-width="2"/></svg>'
    )


def _box(head: str, body: str) -> str:
    return f"<div><p>{escape(head)}</p>{body}</div>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], total: int) -> str:
    shown = [row for row, _ in zip(rows, range(_MOST_ROWS), strict=False)]
    lines = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in shown]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    columns = "".join(f"<th>{escape(name)}</th>" for name in head)
    more = f"<p>... and {total - len(shown)} more</p>" if total > len(shown) else ""
    return f"<table><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table>{more}"


def _number(value: float, digits: int, sign: str = "") -> str:
    return f"{value:{sign}.{digits}f}" if np.isfinite(value) else "-"
