"""Results as files for other programs: tables as CSV, and what the page hands out."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fairmdp.frontiers import Frontier, FrontierGrid, ShadowPrice
from fairmdp.io import save
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Solution
from fairmdp.views.data import frontier_data, grid_data, solution_data, solution_json

EXPORTS = ("problem.toml", "problem.npz", "solution.json", "policy.csv", "quotas.csv")
"""Names of the files that the page hands out."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")  # what spreadsheets compute, or hide
_QUOTA = ("share", "at_least", "at_most", "slack", "price")


def export(problem: Problem, kind: str, solved: Callable[[], Solution]) -> bytes:
    """Content of one of the page's files."""
    if kind.startswith("problem"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, kind)
            save(problem, path)
            return path.read_bytes()
    if kind == "solution.json":
        return solution_json(solved()).encode()
    return (policy_csv if kind == "policy.csv" else quotas_csv)(problem, solved()).encode()


def policy_csv(problem: Problem, solution: Solution) -> str:
    """A policy as CSV, one row per state-action pair."""
    mdp = problem.mdp
    states = (mdp.state_name(int(s)) for s in mdp.s_of)
    actions = (mdp.action_name(i) for i in range(mdp.n_pairs))
    numbers = solution.policy.tolist(), solution.occupancy.tolist()
    head = ("state", "action", "probability", "share_of_time")
    return _csv(head, zip(states, actions, *numbers, strict=True))


def quotas_csv(problem: Problem, solution: Solution) -> str:
    """What each quota asks, gets and costs, as CSV."""
    rows = solution_data(problem, solution)["quotas"]
    return _csv(("quota", *_QUOTA), ([row["name"], *(row[what] for what in _QUOTA)] for row in rows))


def frontier_csv(curve: Frontier) -> str:
    """A frontier as CSV: the rows of its table on the screen, with all that is known of each price."""
    data = frontier_data(curve)
    columns = (
        data[what] for what in ("values", "gains", "uppers", "worst_slacks", "prices", "relative_prices")
    )
    unknown: dict[str, object] = dict.fromkeys(ShadowPrice._fields, "")
    rows = [
        [*numbers, *(segment or unknown).values(), *shares]
        for *numbers, segment, shares in zip(*columns, data["segments"], data["shares"], strict=True)
    ]
    head = ("value", "gain", "upper", "worst_slack", "price_of_fairness", "relative_price")
    return _csv([*head, *ShadowPrice._fields, *(f"share_{name}" for name in data["quotas"])], rows)


def grid_csv(grid: FrontierGrid) -> str:
    """A grid as CSV, one row per combination."""
    data = grid_data(grid)
    down, across = data["values"]
    numbers = [data[what] for what in ("gains", "uppers", "worst_slacks")]
    rows = (
        [a, b, *(number[i, j] for number in numbers), *data["shares"][i, j]]
        for i, a in enumerate(down.tolist())
        for j, b in enumerate(across.tolist())
    )
    shares = (f"share_{name}" for name in data["groups"])
    return _csv([*data["quotas"], "gain", "upper", "worst_slack", *shares], rows)


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_plain(cell) for cell in row] for row in (head, *rows))
    return text.getvalue()


def _plain(cell: object) -> object:
    """A cell that no spreadsheet takes for a formula: names that look like one come after an apostrophe.

    So does a name that begins with an apostrophe: whoever takes one off from each has the names again.
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
