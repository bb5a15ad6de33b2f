"""What the page asks for, done in a worker process: the public functions, and their answers as documents.

A problem is named by the words of the command line, so that a worker can build it by itself and every answer
can say which command gives it again.
"""

from __future__ import annotations

import base64
import shlex
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import click
import numpy as np

from fairmdp.certificate import verify
from fairmdp.cli.source import read_problem
from fairmdp.errors import FairMDPError, ProblemError
from fairmdp.frontiers import Frontier, frontier, last_feasible
from fairmdp.problem import Problem
from fairmdp.solution import Solution, Status
from fairmdp.solvers.auto import Progress, solve
from fairmdp.solvers.warm import WarmSolver
from fairmdp.web.document import Json, frontier_view, problem_view, solution_view, verdict_view
from fairmdp.web.exports import export

MOST_QUOTAS = 2000
"""Quotas that the page takes."""

MOST_RANGES = 12
"""Quotas up to which the feasible range of every one is worked out, and not only of the one that moves."""

EXACT_PAIRS = 1000
"""Size up to which all bends of a frontier are found; beyond, it is looked at in a few places."""

EXACT_PROOF = 400
"""Transitions up to which a proof is repeated in rational arithmetic."""

_KEPT = 4  # problems that a worker remembers
_LONG_COMMAND = 40  # quotas on a command line, more belong into a file
_POINTS = 16  # of a frontier that is not exact, and of one that takes long
_FEW_POINTS = 9
_SLOW_PAIRS = 5000


@dataclass(frozen=True)
class Source:
    """A problem in the words of the command line; `shown` is what its user calls a file that was sent."""

    target: str
    params: tuple[str, ...] = ()
    rho: str | None = None
    quotas: tuple[str, ...] = ()
    shown: str = ""

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.shown or self.target

    @property
    def words(self) -> list[str]:
        """The words that name it again."""
        words = [self.name, *(f"--param={p}" for p in self.params)]
        words += [f"--rho={self.rho}"] if self.rho is not None else []
        return words + [f"--quota={q}" for q in self.quotas]


@dataclass(frozen=True)
class Request:
    """One question: a task, the problem that it is about, and the bounds that the sliders stand at.

    Bounds are in the units of their quotas.
    """

    task: str
    source: Source
    at_least: tuple[float, ...] | None = None
    at_most: tuple[float, ...] | None = None
    quota: str = ""
    bound: str = "at_least"
    kind: str = ""


class RefusedError(Exception):
    """A question that cannot be answered; the text is for the person who asked."""


class _Opened:
    """A problem that a worker knows, with what it found for other bounds and without quotas."""

    def __init__(self, source: Source) -> None:
        self.source, self._warm = source, WarmSolver()
        self._last: tuple[bytes, Solution] | None = None
        self.problem = read_problem(source.target, source.params, source.rho, source.quotas)
        if self.problem.n_quotas > MOST_QUOTAS:
            raise RefusedError(
                f"{source.name} has {self.problem.n_quotas:,} quotas, the page takes up to {MOST_QUOTAS:,}\n"
                "  use fairmdp solve and fairmdp report"
            )

    @cached_property
    def free(self) -> Solution:
        return solve(self.problem.without_quotas())

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


class Desk:
    """Where a worker answers requests, and remembers the last problems."""

    def __init__(self) -> None:
        self._opened: OrderedDict[Source, _Opened] = OrderedDict()

    def answer(self, request: Request, progress: Progress) -> Json:
        """Return the answer to a request, or raise `RefusedError` with the reason why there is none."""
        source = request.source
        try:
            return _TASKS[request.task](self._open(source), request, progress)
        except FairMDPError as error:
            raise RefusedError(str(error).replace(source.target, source.name)) from None
        except click.ClickException as error:
            raise RefusedError(error.format_message().replace(source.target, source.name)) from None
        except MemoryError:
            raise RefusedError("out of memory: this problem is too large for this machine") from None

    def _open(self, source: Source) -> _Opened:
        if source not in self._opened:
            self._opened[source] = _Opened(source)
        self._opened.move_to_end(source)
        if len(self._opened) > _KEPT:
            self._opened.popitem(last=False)
        return self._opened[source]


def best_curve(problem: Problem, quota: str, bound: str) -> Frontier:
    """Return the frontier of a quota: exact where that is quick, else in a few places up to the last one."""
    if problem.mdp.n_pairs <= EXACT_PAIRS:
        with suppress(ProblemError):  # rounding may leave its last point without a certificate
            return frontier(problem, quota, bound=bound)
    try:
        last = last_feasible(problem, quota, bound)
    except ProblemError:
        raise ProblemError("the other quotas cannot be met by themselves") from None
    first = problem.units.of(problem.quota_index(quota)).values(np.array(float(bound == "at_most")))
    points = _POINTS if problem.mdp.n_pairs <= _SLOW_PAIRS else _FEW_POINTS
    return frontier(problem, quota, np.linspace(first, last, points), bound=bound)


def solve_command(source: Source, asked: Problem, problem: Problem) -> str:
    """Return the command line that solves `problem`, which is `asked` with other bounds."""
    changed = (problem.at_least != asked.at_least) | (problem.at_most != asked.at_most)
    first = int(np.argmax(changed)) if changed.any() else problem.n_quotas
    # A quota that is named again goes to the end, so those after it are named too: the order stays.
    named = []
    for k in range(first, problem.n_quotas):
        name, before, after = problem.names[k], asked.quotas[k], problem.quotas[k]
        # What was asked for and is not any more has to be said too.
        low = (before.at_least, after.at_least) != (None, None)
        high = (before.at_most, after.at_most) != (None, None)
        named += [f"{name}>={float(problem.lower[k])!r}"] if low else []
        named += [f"{name}<={float(problem.upper[k])!r}"] if high else []
    if len(named) > _LONG_COMMAND:
        return "fairmdp solve problem.npz   # many quotas have moved: export the problem first"
    return shlex.join(["fairmdp", "solve", *source.words, *(f"--quota={q}" for q in named)])


def _open(opened: _Opened, request: Request, progress: Progress) -> Json:
    problem = opened.problem
    quick = problem.mdp.n_pairs <= _SLOW_PAIRS  # else the page asks for them after its first answer
    name = Path(opened.source.name).name
    return {"problem": problem_view(problem, name), "ranges": _ranges(problem, "") if quick else []}


def _solve(opened: _Opened, request: Request, progress: Progress) -> Json:
    try:
        problem = opened.at(request)
    except ProblemError as error:
        return _too_much(opened, request, error)
    solution = opened.solved(problem, progress)
    command = solve_command(opened.source, opened.problem, problem)
    return {**solution_view(problem, solution, opened.free), "command": command}


def _too_much(opened: _Opened, request: Request, error: ProblemError) -> Json:
    """Disjoint quotas that owe more time than there is: no model is needed to see it."""
    problem, at_least = opened.problem, np.array(request.at_least)
    total = at_least[~problem.weighted].sum()
    shrunk = np.where(problem.weighted, at_least, np.floor(at_least / total * 1e9) / 1e9)
    trimmed = problem.with_stated_bounds(shrunk, request.at_most)
    nearest = solve(trimmed)
    document = solution_view(trimmed, nearest, opened.free)
    headline, *where = str(error).split("\n")
    why = document["infeasible"] or {"at_least": trimmed.lower.tolist(), "at_most": trimmed.upper.tolist()}
    owed = [trimmed.names[k] for k in np.flatnonzero((at_least > 0) & ~problem.weighted)]
    bounds = zip(trimmed.names, why["at_least"], at_least, strict=True)
    return {
        "status": "infeasible",
        "meaning": "no policy meets the quotas",
        "free_gain": document["free_gain"],
        "method": "the quotas by themselves",
        "notes": [],
        "quotas": [],
        "infeasible": {
            **why,
            "headline": headline,
            "lines": [line.strip() for line in where[:1]],
            "conflict": owed,
            "nearest": [f"{name}>={bound:.9g}" for name, bound, asked in bounds if bound != asked],
        },
        "command": None,
    }


def _ranges(problem: Problem, moving: str) -> list[Json]:
    """How far each bound can go while the others stay; only the moving quota's where there are many."""
    many = problem.n_quotas > MOST_RANGES
    found = []
    for k, quota in enumerate(problem.quotas):
        if many and quota.name != moving:
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
    try:
        return {"ranges": _ranges(opened.at(request), request.quota)}
    except ProblemError:  # more is owed than there is time
        return {"ranges": []}


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
    verdict = verify(problem, solution, exact=problem.mdp.P.nnz <= EXACT_PROOF)
    return verdict_view(problem, verdict)


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
}

TASKS = tuple(_TASKS)
"""What can be asked."""
