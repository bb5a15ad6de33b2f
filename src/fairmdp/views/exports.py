"""Results as files for other programs: tables as CSV, and what the page hands out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from fairmdp.io import save
from fairmdp.model.problem import Problem
from fairmdp.policy.policy import Policy
from fairmdp.solution.solution import Solution
from fairmdp.tables import Table
from fairmdp.views.data import solution_data
from fairmdp.views.json_lines import solution_json

EXPORTS = ("problem.toml", "problem.npz", "solution.json", "policy.csv", "quotas.csv")
"""Names of the files that the page hands out."""

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
    """A policy as CSV, one row per state-action pair; of a mixture one per pair of each of its policies."""
    policy = Policy.of(problem, solution)
    shares = [] if policy.is_mixture else [("share_of_time", solution.occupancy.tolist())]
    return Table([*policy.to_table().items(), *shares]).to_csv()


def quotas_csv(problem: Problem, solution: Solution) -> str:
    """What each quota asks, gets and costs, as CSV."""
    rows = solution_data(problem, solution)["quotas"]
    cells = ([row["name"], *(row[what] for what in _QUOTA)] for row in rows)
    return Table.of(("quota", *_QUOTA), cells).to_csv()
