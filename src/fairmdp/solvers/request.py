"""What is asked of a solver beside the problem, and what it may be handed on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fairmdp.certificate.facts import check_tol
from fairmdp.deadline import Deadline
from fairmdp.solution.solution import Solution

Progress = Callable[[dict[str, float]], None]


class Request(NamedTuple):
    """A certified gap to reach, where to start from, when to end, and whom to tell."""

    tol: float = 1e-6
    start: Solution | None = None
    deadline: Deadline = Deadline(None)
    progress: Progress | None = None

    @classmethod
    def of(
        cls, tol: float, start: Solution | None, seconds: float | None, progress: Progress | None
    ) -> Request:
        """Options as a user gives them, checked; the time begins."""
        return cls(check_tol(tol), start, Deadline(seconds), progress)
