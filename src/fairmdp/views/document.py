"""What the page and the report draw, as JSON documents: results as plain data, with what is drawn of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairmdp.certificate import Verdict
from fairmdp.frontiers import Frontier
from fairmdp.model.problem import Problem
from fairmdp.solution.file import plain
from fairmdp.solution.solution import Solution, Status
from fairmdp.views.audit import evaluation_data
from fairmdp.views.data import Json, frontier_data, problem_data, solution_data, verdict_data

if TYPE_CHECKING:
    from fairmdp.audit import Evaluation

__all__ = ["Json", "evaluation_view", "frontier_view", "problem_view", "solution_view", "verdict_view"]

_CURVE = (
    "quota", "bound", "unit", "exact", "concave", "values", "gains", "slopes", "worst_slacks",
    "last_feasible", "limit", "own_limit",
)  # fmt: skip


def problem_view(problem: Problem, name: str) -> Json:
    """What is asked: the size of the model and its quotas."""
    return plain(problem_data(problem, name))


def solution_view(
    problem: Problem, solution: Solution, free: Solution, other: Solution | None = None
) -> Json:
    """What was found, beside the solution without quotas; what is not proved is not drawn.

    What the `other` meaning of the quotas would come to stands among the notes, or with what conflicts.
    """
    document = plain(solution_data(problem, solution, free, other))
    if document["other"] is not None:
        conflict = document["infeasible"]
        (document["notes"] if conflict is None else conflict["lines"]).append(document["other"]["text"])
    return document | {"policies": []} if solution.status is Status.UNDECIDED else document


def frontier_view(problem: Problem, curve: Frontier) -> Json:
    """The best gain against what is owed, point by point."""
    document = frontier_data(curve, problem)
    return {name: plain(document[name]) for name in _CURVE}


def verdict_view(problem: Problem, verdict: Verdict) -> Json:
    """What was proved from the data alone."""
    return plain(verdict_data(problem, verdict))


def evaluation_view(problem: Problem, seen: Evaluation) -> Json:
    """What is proved of a policy that somebody brought, and what would mend it."""
    return plain(evaluation_data(problem, seen))
