"""What the page asks for, done in a worker process: the public functions, and their answers as documents.

A problem is named by the words of the command line, so that a worker can build it by itself and every answer
can say which command gives it again.
"""

from __future__ import annotations

import base64
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fairmdp import web, welfare
from fairmdp.audit import evaluate
from fairmdp.certificate import verify
from fairmdp.certificate.exact import QUICK_TRANSITIONS
from fairmdp.errors import FairMDPError, ProblemError
from fairmdp.frontiers import last_feasible
from fairmdp.frontiers.drawn import best_curve
from fairmdp.frontiers.meanings import other_meaning
from fairmdp.io import Source
from fairmdp.model.objectives import parse_objective
from fairmdp.model.problem import Problem
from fairmdp.model.quota_text import states_matching
from fairmdp.solution.file import plain
from fairmdp.solution.solution import Solution, Status
from fairmdp.solvers.auto import solve
from fairmdp.solvers.request import Progress
from fairmdp.solvers.warm import WarmSolver
from fairmdp.views.audit import evaluation_data
from fairmdp.views.data import Json, problem_data, verdict_data
from fairmdp.views.exports import export
from fairmdp.views.html import frontier_view, solution_view
from fairmdp.views.welfare import welfare_view
from fairmdp.web.edits import edited, solve_command, welfare_command
from fairmdp.web.request import Request, Rows
from fairmdp.workers import report

if TYPE_CHECKING:
    from fairmdp.web.worlds import OpenWorlds

__all__ = ["TASKS", "OpenProblems", "RefusedError", "Request", "Source"]

MOST_QUOTAS = 2000
"""Quotas that the page takes."""

MOST_RANGES = 12
"""Quotas up to which the feasible range of every one is worked out, and not only of the one that moves."""

MOST_STATES = 20_000
"""States that a new quota may have; larger groups belong into the problem's file."""

MOST_NAMES = 200
"""States that are listed by name."""

WORLD_TASKS = ("world", "world-solve", "world-frontier", "world-proof")
"""What is asked about worlds; `worlds` answers, and is loaded when it is."""

_BETWEEN = 0.2  # seconds between two reports of progress
_MOST_MEANT = 2000  # pairs up to which the other meaning of quotas is solved for, at every answer
_KEPT = 4  # problems that a worker remembers
_SLOW_PAIRS = 5000  # beyond these, a picture comes first and the ranges follow


K = TypeVar("K")
V = TypeVar("V")


class RefusedError(Exception):
    """A question that cannot be answered; the text is for the person who asked."""


class _Stated:
    """A problem as its source states it."""

    def __init__(self, source: Source) -> None:
        self.source, self.problem = source, source.problem()
        if self.problem.n_quotas > MOST_QUOTAS:
            raise RefusedError(
                f"{source.name} has {self.problem.n_quotas:,} quotas, the page takes up to {MOST_QUOTAS:,}\n"
                "  use fairmdp solve and fairmdp report"
            )

    @cached_property
    def free(self) -> Solution:
        return solve(self.problem.without_quotas())


class _Opened:
    """A problem with the quotas that the page has now, and what was found for its bounds."""

    def __init__(self, stated: _Stated, rows: Rows | None) -> None:
        self.stated, self.rows, self._warm = stated, rows, WarmSolver()
        self._last: tuple[bytes, Solution] | None = None
        self.problem = stated.problem if rows is None else edited(stated.problem, rows)

    def solved(self, problem: Problem, progress: Progress) -> Solution:
        """The solution under these bounds; what is asked about a picture is answered from what it shows."""
        bounds = problem.at_least.tobytes() + problem.at_most.tobytes()
        if self._last is None or self._last[0] != bounds:
            solution = self._warm.solve(problem, progress)
            if solution.status is Status.INFEASIBLE and solution.infeasibility is None:
                solution = solve(problem, progress=progress)  # which says why
            self._last = bounds, solution
        return self._last[1]

    def at(self, request: Request) -> Problem:
        """The problem with the bounds that were asked for, which are in the units of the quotas."""
        K, names = self.problem.n_quotas, self.problem.names
        ends = [self.problem.units.values(np.full(K, end)).tolist() for end in (0.0, 1.0)]
        for bounds in (request.at_least, request.at_most):
            if bounds is None:
                continue
            if len(bounds) != K:
                raise RefusedError(f"{len(bounds)} bounds were sent, the problem has {K} quotas")
            for name, bound, low, high in zip(names, bounds, *ends, strict=True):
                if not low <= bound <= high:
                    raise RefusedError(
                        f"quota {name} is bounded by {bound:g}, its scale is {low:g} to {high:g}"
                    )
        lows = self.problem.lower if request.at_least is None else request.at_least
        highs = self.problem.upper if request.at_most is None else request.at_most
        for name, low, high in zip(names, lows, highs, strict=True):
            if low > high:
                raise RefusedError(f"quota {name} asks for at least {low:g} and at most {high:g}")
        return self.problem.with_stated_bounds(request.at_least, request.at_most)


class OpenProblems:
    """What a worker process answers requests with; it remembers the last problems."""

    def __init__(self) -> None:
        self._stated: OrderedDict[Source, _Stated] = OrderedDict()
        self._opened: OrderedDict[tuple[Source, Rows | None], _Opened] = OrderedDict()

    @cached_property
    def _worlds(self) -> OpenWorlds:
        return web.worlds.OpenWorlds()

    def __call__(self, request: Request) -> bytes:
        """Return the last line about a request, which the page gets as it is; report others before."""
        last = time.monotonic()

        def progress(row: dict[str, float]) -> None:
            nonlocal last
            if time.monotonic() - last >= _BETWEEN:
                last = time.monotonic()
                report(line("progress", plain(row)))

        try:
            return line("answer", self.answer(request, progress))
        except RefusedError as error:
            return line("error", str(error))

    def answer(self, request: Request, progress: Progress) -> Json:
        """Return the answer to a request, or raise `RefusedError` with the reason why there is none."""
        source = request.source
        try:
            if request.task in WORLD_TASKS:
                return self._worlds.answer(request, progress)
            return _TASKS[request.task](self._open(source, request.rows), request, progress)
        except FairMDPError as error:
            raise RefusedError(str(error).replace(source.target, source.name)) from None
        except MemoryError:
            raise RefusedError("out of memory: this problem is too large for this machine") from None

    def _open(self, source: Source, rows: Rows | None) -> _Opened:
        stated = _remembered(self._stated, source, lambda: _Stated(source))
        return _remembered(self._opened, (source, rows), lambda: _Opened(stated, rows))


def _remembered(kept: OrderedDict[K, V], key: K, make: Callable[[], V]) -> V:
    """What is kept under a key, made where it is missing; the last ones are kept."""
    if key not in kept:
        kept[key] = make()
    kept.move_to_end(key)
    if len(kept) > _KEPT:
        kept.popitem(last=False)
    return kept[key]


def line(kind: str, content: object) -> bytes:
    """One line of JSON that is sent to the page."""
    return json.dumps({kind: content}, allow_nan=False).encode() + b"\n"


def _open(opened: _Opened, request: Request, progress: Progress) -> Json:
    problem = opened.problem
    quick = problem.mdp.n_pairs <= _SLOW_PAIRS  # else the page asks for them after its first answer
    name = Path(opened.stated.source.name).name
    return {"problem": plain(problem_data(problem, name)), "ranges": _ranges(problem, "") if quick else []}


def _solve(opened: _Opened, request: Request, progress: Progress) -> Json:
    problem = opened.at(request)
    solution = opened.solved(problem, progress)
    stated = opened.stated
    command = solve_command(stated.source, stated.problem, problem, opened.rows)
    other = other_meaning(problem, solution, most_pairs=_MOST_MEANT)
    return {**solution_view(problem, solution, stated.free, other), "command": command}


def _welfare(opened: _Opened, request: Request, progress: Progress) -> Json:
    """What a principle prefers under the quotas as they stand."""
    problem, stated = opened.at(request), opened.stated
    fair = welfare.solve_welfare(problem, parse_objective(request.text), progress=progress)
    command = welfare_command(request.text, stated.source, stated.problem, problem, opened.rows)
    return {**welfare_view(problem, fair), "command": command}


def _states(opened: _Opened, request: Request, progress: Progress) -> Json:
    """The states that a text chooses: all of their numbers, and the names of the first."""
    problem = opened.stated.problem
    found = np.flatnonzero(states_matching(problem, request.text)).tolist()
    names = [problem.mdp.state_name(s) for s in found[:MOST_NAMES]]
    return {"count": len(found), "states": found[:MOST_STATES], "names": names}


def _audit(opened: _Opened, request: Request, progress: Progress) -> Json:
    problem = opened.at(request)
    try:
        seen = evaluate(problem, request.policy)
    except FairMDPError as error:
        raise RefusedError(str(error).replace(request.policy, Path(request.policy).name)) from None
    return plain(evaluation_data(problem, seen))


def _ranges(problem: Problem, moving: str) -> list[Json]:
    """How far each bound can go while the others stay; only the moving quota's where there are many."""
    many = problem.n_quotas > MOST_RANGES
    found = []
    fixed = [condition.quota for condition in problem.conditions]
    for k, quota in enumerate(problem.quotas):
        if k in fixed or (many and quota.name != moving):
            continue
        at_most = None if quota.at_most is None else _reach(problem, k, "at_most")
        found.append({"k": k, "most": _reach(problem, k, "at_least"), "least": at_most})
    return found


def _reach(problem: Problem, k: int, bound: str) -> float | None:
    """How far a bound can go while the other quotas are met; None where they cannot be."""
    at_least, at_most = problem.at_least.copy(), problem.at_most.copy()
    at_least[k], at_most[k] = 0.0, 1.0
    try:
        return last_feasible(problem.with_bounds(at_least, at_most), problem.names[k], bound)
    except ProblemError:
        return None


def _range(opened: _Opened, request: Request, progress: Progress) -> Json:
    return {"ranges": _ranges(opened.at(request), request.quota)}


def _curve(opened: _Opened, request: Request, progress: Progress) -> Json:
    try:
        problem = opened.at(request)
        curve = best_curve(problem, request.quota, request.bound)
    except ProblemError as error:
        return {"curve": None, "message": str(error)}
    return {"curve": frontier_view(problem, curve)}


def _proof(opened: _Opened, request: Request, progress: Progress) -> Json:
    problem = opened.at(request)
    solution = opened.solved(problem, progress)
    verdict = verify(problem, solution, exact=problem.mdp.P.nnz <= QUICK_TRANSITIONS)
    return plain(verdict_data(problem, verdict))


def _export(opened: _Opened, request: Request, progress: Progress) -> Json:
    problem = opened.at(request)
    content = export(problem, request.kind, lambda: opened.solved(problem, progress))
    return {"name": request.kind, "content": base64.b64encode(content).decode()}


_TASKS: dict[str, Callable[[_Opened, Request, Progress], Json]] = {
    "open": _open,
    "solve": _solve,
    "ranges": _range,
    "frontier": _curve,
    "proof": _proof,
    "export": _export,
    "states": _states,
    "audit": _audit,
    "welfare": _welfare,
}

TASKS = (*_TASKS, *WORLD_TASKS)
"""What can be asked."""
