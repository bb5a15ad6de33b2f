"""What is asked of a solver beside the problem, and what it may be handed on the way."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import NamedTuple

from fairmdp.certificate.facts import check_tol
from fairmdp.deadline import Deadline
from fairmdp.errors import ProblemError
from fairmdp.solution.solution import Solution

Progress = Callable[[dict[str, float]], None]


class Request(NamedTuple):
    """A certified gap, where to start from, when to end, whom to tell, and how rare passages may be."""

    tol: float = 1e-6
    start: Solution | None = None
    deadline: Deadline = Deadline(None)
    progress: Progress | None = None
    patience: float | None = None  # steps in which a passage between classes is made once

    @classmethod
    def of(
        cls,
        tol: float,
        start: Solution | None,
        seconds: float | None,
        progress: Progress | None,
        patience: float | None = None,
    ) -> Request:
        """Options as a user gives them, checked; the time begins."""
        return cls(check_tol(tol), start, Deadline(seconds), progress, check_patience(patience))


def check_patience(patience: float | None) -> float | None:
    """How many steps somebody waits for a passage, which takes at least one."""
    if patience is None:
        return None
    if isinstance(patience, bool) or not (isinstance(patience, Real) and patience > 0):
        raise ProblemError(
            f"patience is {patience!r}, expected a positive number\n"
            "  it is the number of steps in which a policy passes once between parts that are best kept apart"
        )
    return float(patience)
