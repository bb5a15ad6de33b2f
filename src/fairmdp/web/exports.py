"""Files that the page hands out: the problem as it stands, and what was found for it."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fairmdp.io import save
from fairmdp.io.json_solution import solution_to_dict
from fairmdp.problem import Problem
from fairmdp.solution import Solution
from fairmdp.web.document import as_asked

EXPORTS = ("problem.toml", "problem.npz", "solution.json", "policy.csv", "quotas.csv")
"""Names of the files."""


def export(problem: Problem, kind: str, solved: Callable[[], Solution]) -> bytes:
    """Content of one of the files."""
    if kind.startswith("problem"):
        return _problem_file(problem, kind)
    solution = solved()
    if kind == "solution.json":
        return json.dumps(solution_to_dict(solution), allow_nan=False).encode()
    if kind == "policy.csv":
        return _policy_csv(problem, solution)
    return _csv(("quota", "share", "at_least", "at_most", "slack", "price"), as_asked(problem, solution))


def _problem_file(problem: Problem, kind: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, kind)
        save(problem, path)
        return path.read_bytes()


def _policy_csv(problem: Problem, solution: Solution) -> bytes:
    mdp = problem.mdp
    states = (mdp.state_name(int(s)) for s in mdp.s_of)
    actions = (mdp.action_name(i) for i in range(mdp.n_pairs))
    numbers = solution.policy.tolist(), solution.occupancy.tolist()
    return _csv(
        ("state", "action", "probability", "share_of_time"), zip(states, actions, *numbers, strict=True)
    )


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue().encode()
