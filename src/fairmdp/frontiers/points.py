"""A frontier at given values: runs of neighbouring ones, each starting from what the last ones found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.frontiers.curve import Frontier
from fairmdp.frontiers.family import Family
from fairmdp.solution import Solution
from fairmdp.solvers.warm import WarmSolver
from fairmdp.validation import Floats, check_count

T = TypeVar("T")
R = TypeVar("R")

TOGETHER = 50
"""Values that are solved one after the other; runs of them share nothing."""

_WAYS = {1.0: "on", -1.0: "down"}


class Engine(Protocol):
    """Where runs are solved: `map`, or a `ProcessPool`."""

    def __call__(self, function: Callable[[T], R], tasks: Iterable[T], /) -> Iterator[R]: ...


def checked_values(family: Family, values: Iterable[float]) -> Floats:
    """Values in the order in which more is asked, each once."""
    way = family.direction
    asked = way * np.unique(way * np.asarray(list(values), dtype=float))
    if asked.size == 0 or not np.isfinite(asked).all() or way * (asked[0] - family.first) < 0:
        least = "that are not negative" if family.first == 0 else f"from {family.first:.12g} {_WAYS[way]}"
        raise ProblemError(f"values must be numbers {least}, at least one")
    if family.is_share and asked[-1] > 1:
        raise ProblemError(f"{asked[-1]:.12g} is no share, expected values from 0 to 1\n  write 25 % as 0.25")
    return asked


def frontier_at(
    family: Family, values: Floats, *, method: str, tol: float, engine: Engine, together: int
) -> Frontier:
    """Frontier at values in the order in which more is asked."""
    check_count("together", together)
    runs = [values[k : k + together] for k in range(0, values.size, together)]
    solutions: list[Solution] = []
    for found, run in zip(engine(partial(solve_run, family, method, tol), runs), runs, strict=True):
        solutions += found
        if len(found) < run.size or not found[-1].has_policy:
            break
    limit = None
    if solutions and not solutions[-1].has_policy:
        limit = family.limit(float(values[len(solutions) - 1]), solutions[-1])
    return Frontier.of(family, values, solutions, exact=False, limit=limit)


def solve_run(family: Family, method: str, tol: float, values: Sequence[float]) -> list[Solution]:
    """Solutions at values that ask for more and more, up to the first that cannot be met."""
    warm = WarmSolver(method=method, tol=tol)
    solutions: list[Solution] = []
    for value in map(float, values):
        solution = family.solve(value, warm.solve)
        if solution is None:  # refused outright
            break
        solutions.append(solution)
        if not solution.has_policy:
            break
    return solutions
