"""Results as files for other programs: tables as CSV, and what the page hands out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from fairmdp.io import save
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Solution
from fairmdp.tables import Table
from fairmdp.views.data import solution_data, solution_json

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
    """A policy as CSV, one row per state-action pair."""
    mdp = problem.mdp
    states = (mdp.state_name(int(s)) for s in mdp.s_of)
    actions = (mdp.action_name(i) for i in range(mdp.n_pairs))
    numbers = solution.policy.tolist(), solution.occupancy.tolist()
    head = ("state", "action", "probability", "share_of_time")
    return Table.of(head, zip(states, actions, *numbers, strict=True)).to_csv()


def quotas_csv(problem: Problem, solution: Solution) -> str:
    """What each quota asks, gets and costs, as CSV."""
    rows = solution_data(problem, solution)["quotas"]
    cells = ([row["name"], *(row[what] for what in _QUOTA)] for row in rows)
    return Table.of(("quota", *_QUOTA), cells).to_csv()
