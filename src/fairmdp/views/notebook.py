"""Models, problems and results as a notebook shows them: small tables in plain HTML.

To import this module is to attach it: `fairmdp` does so where IPython or marimo is already there. Names come
from files and may hold anything, so every piece of text goes through `escape`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from fairmdp.audit import Evaluation, LogAudit
from fairmdp.certificate import Verdict
from fairmdp.certificate.welfare import WelfareVerdict
from fairmdp.frontiers import (
    Comparison,
    Frontier,
    FrontierGrid,
    WelfareFrontier,
    WorldComparison,
    WorldFrontier,
)
from fairmdp.learning import CertifiedPolicy, Estimate, Simulation
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.online import OnlineRun, SafeStart
from fairmdp.policy import Policy
from fairmdp.solution.solution import Solution, Status
from fairmdp.solution.welfare import UtilityRow, WelfareSolution
from fairmdp.tables import Table
from fairmdp.views.data import frontier_data, quotas_data, summary
from fairmdp.views.ends import ends_lines
from fairmdp.views.format import MAX_ROWS, asked, fixed, price, shortened, slack, worst_slack
from fairmdp.views.text import comparison_text, grid_text

_WIDE, _HIGH, _EDGE = 420.0, 200.0, 8.0
_MARGIN, _LINE = 48.0, 14.0  # room for the numbers beside and below a picture


def problem_html(problem: Problem) -> str:
    """Size of the model, and its quotas."""
    quotas = quotas_data(problem, most=MAX_ROWS)
    rows = ((row["name"], asked((row["at_least"], row["at_most"]))) for row in quotas)
    return _box(repr(problem), _table(("quota", "asked"), rows, problem.n_quotas))


def solution_html(solution: Solution) -> str:
    """Status, gain with its worst slack, and one row per quota, the tightest first where there are many."""
    data = summary(solution, most=MAX_ROWS)
    rows = (
        (row["name"], fixed(row["share"]), asked(row["asked"]), slack(row["slack"]), price(row["price"]))
        for row in data["quotas"]
    )
    head = f"{data['status']}: {data['meaning']}"
    if data["status"] != Status.INFEASIBLE:
        gain, upper = fixed(data["gain"], 6), fixed(data["upper"], 6)
        head += f". Gain {gain}, at most {upper}; {worst_slack(data['worst_slack'])}"
    ends = "".join(f"<p>{escape(line.strip())}</p>" for line in ends_lines(data["ends"]) if line)
    table = _table(("quota", "share", "asked", "slack", "price"), rows, data["of_quotas"])
    return _box(head, table + ends)


def frontier_html(curve: Frontier) -> str:
    """The curve, and its points."""
    data = frontier_data(curve)
    points = zip(data["values"], data["gains"], data["worst_slacks"], strict=True)
    rows = ((fixed(value, 6), fixed(gain, 6), slack(worst)) for value, gain, worst in points)
    what = "at most" if data["bound"] == "at_most" else "owed"
    return _box(repr(curve), _picture(curve) + _table((what, "gain", "worst slack"), rows, curve.values.size))


def verdict_html(verdict: Verdict | WelfareVerdict) -> str:
    """Whether a solution was confirmed, what was proved, and what was not."""
    head = (
        f"{'confirmed' if verdict.ok else 'NOT CONFIRMED'}: {verdict.status.value}, {verdict.status.meaning}"
    )
    return _box(head, "".join(f"<p>{escape(message)}</p>" for message in verdict.messages))


def grid_html(grid: FrontierGrid) -> str:
    """Gains for every combination of the two quotas."""
    return _lines(grid_text("Grid", grid))


def comparison_html(comparison: Comparison) -> str:
    """The policies side by side."""
    return _lines(comparison_text("Comparison", comparison))


def tabled_html(result: Any) -> str:
    """What a result says of itself, and its table."""
    table: Table = result if isinstance(result, Table) else result.to_table()
    rows = (tuple(map(_cell, row)) for row in table.rows)
    count = len(next(iter(table.values()), ()))
    return _box(repr(result), _table([name.replace("_", " ") for name in table], rows, count))


def estimate_html(estimate: Estimate) -> str:
    """What was learned: the gain, the shares with their errors, and the claim."""
    body = tabled_html(estimate)
    return body if not estimate.claim else f"{body}<p>{escape(str(estimate.claim))}</p>"


def welfare_html(fair: WelfareSolution) -> str:
    """What was maximised, and what each group gets."""
    rows = (tuple(map(_cell, row)) for row in fair.rows)
    return _box(repr(fair), _table(UtilityRow._fields, rows, len(fair.rows)))


def model_html(mdp: MDP) -> str:
    """Size of a model, and the states with their actions."""
    rows = (
        (mdp.state_name(s), ", ".join(map(mdp.action_name, range(*mdp.pair_ptr[s : s + 2].tolist()))))
        for s in range(mdp.n_states)
    )
    return _box(repr(mdp), _table(("state", "actions"), rows, mdp.n_states))


def _picture(curve: Frontier) -> str:
    """The curve as a picture with both axes: what is owed to the right, the best gain upwards."""
    met = np.isfinite(curve.gains)
    x, y = curve.values[met], curve.gains[met]
    if not x.size:
        return ""
    of = "factor on all quotas" if curve.is_factor else shortened(curve.quota, 30)
    left, bottom = _EDGE + _MARGIN, _HIGH - _EDGE - _LINE
    across = left + (_WIDE - _EDGE - left) * (x - x.min()) / (np.ptp(x) or 1.0)
    down = _EDGE + (bottom - _EDGE) * (y.max() - y) / (np.ptp(y) or 1.0)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))
    texts = (
        (left, bottom + _LINE, "start", f"{x.min():.4g}"),
        (
            (left + _WIDE - _EDGE) / 2,
            bottom + _LINE,
            "middle",
            f"{'at most' if curve.bound == 'at_most' else 'owed'}: {of}",
        ),
        (_WIDE - _EDGE, bottom + _LINE, "end", f"{x.max():.4g}"),
        (left - 4, _EDGE + _LINE / 2, "end", f"{y.max():.4g}"),
        (left - 4, (_EDGE + bottom) / 2, "end", "gain"),
        (left - 4, bottom, "end", f"{y.min():.4g}"),
    )
    labels = "".join(
        f'<text x="{a:.1f}" y="{b:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        for a, b, anchor, text in texts
    )
    return (
        f'<svg role="img" aria-label="{escape(repr(curve))}" width="{_WIDE:g}" height="{_HIGH:g}" '
        f'font-size="11" fill="currentColor">'
        f'<path d="M{left:g},{_EDGE:g}V{bottom:g}H{_WIDE - _EDGE:g}" fill="none" stroke="currentColor"/>'
        f'<polyline points="{points}" fill="none" stroke="#2b6cb0" stroke-width="2"/>{labels}</svg>'
    )


def _cell(value: Any) -> str:
    """A value of a table, as people read it."""
    if isinstance(value, float):
        return fixed(value)
    return "-" if value is None else str(value)


def _box(head: str, body: str) -> str:
    return f"<div><p>{escape(head)}</p>{body}</div>"


def _lines(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], total: int) -> str:
    shown = [row for row, _ in zip(rows, range(MAX_ROWS), strict=False)]
    lines = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in shown]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    columns = "".join(f"<th>{escape(name)}</th>" for name in head)
    more = f"<p>... and {total - len(shown)} more</p>" if total > len(shown) else ""
    return f"<table><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table>{more}"


_SHOWN: dict[type[Any], Callable[[Any], str]] = {
    MDP: model_html,
    Problem: problem_html,
    Solution: solution_html,
    WelfareSolution: welfare_html,
    Frontier: frontier_html,
    Verdict: verdict_html,
    WelfareVerdict: verdict_html,
    FrontierGrid: grid_html,
    Comparison: comparison_html,
    Estimate: estimate_html,
    **dict.fromkeys(
        (
            CertifiedPolicy, Evaluation, LogAudit, OnlineRun, Policy, SafeStart, Simulation, Table,
            WelfareFrontier, WorldComparison, WorldFrontier,
        ),
        tabled_html,
    ),
}  # fmt: skip

for _kind, _html in _SHOWN.items():
    _kind._repr_html_ = _html
