"""The methods of `solve`, one entry each: command line, documents, warm-up and benchmarks read them here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fairmdp import mirror, solvers
from fairmdp.backends.base import Backend
from fairmdp.backends.by_quota import obstacle
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Solution
from fairmdp.solvers.request import Progress, Request

if TYPE_CHECKING:
    from fairmdp.backends.highs import Algorithm

Run = Callable[[Backend, Request], Solution]

NOTHING_OWED, FAST_AND_FEW, SLOW_AND_FEW = "nothing owed", "fast and few", "slow and few"
FEW, STUCK, DISJOINT = "few", "stuck", "disjoint"
FAST_AND_SOME, MANY, SLOW_AND_MANY = "fast and some", "many", "slow and many"
NEAR_AND_FEW, NEAR_AND_MANY = "near and few", "near and many"
UNBOUND, SURE = "unbound", "sure"

REASONS = {
    NOTHING_OWED: "chosen because nothing is owed, so that one column is enough",
    FAST_AND_FEW: "chosen because the model mixes fast and its quotas are few",
    SLOW_AND_FEW: "chosen because the model mixes slowly and its quotas are few",
    FEW: "chosen because its quotas are few",
    STUCK: "chosen because good policies are slow to leave their start and the model is small",
    DISJOINT: "chosen because there are many disjoint quotas and the model mixes fast",
    FAST_AND_SOME: "chosen because the model mixes fast and its quotas are not too many",
    MANY: "chosen because no other method takes so many quotas on such a model",
    SLOW_AND_MANY: "chosen because the model mixes slowly and its quotas are many",
    NEAR_AND_FEW: "chosen because good policies are slow to leave their start and states lead to near ones",
    NEAR_AND_MANY: "chosen because the model mixes slowly, its quotas are many and states lead to near ones",
    SURE: "chosen because its moves are nearly certain and the model is small",
    UNBOUND: "chosen because the best policy quotas aside is fair",
}
"""Why `solve` chose a method, in words."""


class Warm(Protocol):
    """A solver for one model that is asked again and again, with other bounds on the same quotas."""

    def solve(self, problem: Problem, progress: Progress | None = None) -> Solution:
        """Best gain of the same model and quotas as before, under these bounds."""


@dataclass(frozen=True)
class Method:
    """A way to solve problems."""

    summary: str  # what it does
    suits: str  # what it is for
    run: Run
    devices: tuple[str, ...] = ("cpu",)
    compiles: bool = True  # whether its loops are compiled at their first use
    obstacle: Callable[[Backend], str | None] = lambda backend: None  # why it does not take a problem
    warm: Callable[[float], Warm] | None = None  # from an accuracy to one that keeps what it has found


def _host(backend: Backend) -> Problem:
    """The problem, for methods that take it from the host."""
    assert backend.host is not None, "a method was run in spite of its obstacle"
    return backend.host


def _lp(algorithm: Algorithm) -> Run:
    return lambda backend, request: solvers.solve_lp(
        _host(backend), tol=request.tol, seconds=request.deadline.left, algorithm=algorithm,
        patience=request.patience,
    )  # fmt: skip


def _not_on_host(backend: Backend) -> str | None:
    return "the model is on the GPU only" if backend.host is None else None


def _not_by_state(backend: Backend) -> str | None:
    """Why the states cannot be ordered by quota."""
    if backend.host is None:
        return None if backend.each_state else "on a GPU alone there must be a quota for every state"
    wrong = obstacle(backend.host)
    return wrong and wrong[0]


_BOTH = ("cpu", "cuda")

METHODS = {
    "lp": Method(
        "HiGHS simplex over all state-action pairs", "small models",
        _lp("simplex"), compiles=False, obstacle=_not_on_host,
        warm=lambda tol: solvers.lp.WarmLP(tol=tol),
    ),
    "ipm": Method(
        "HiGHS interior points over all state-action pairs", "many quotas on models that mix slowly",
        _lp("ipm"), compiles=False, obstacle=_not_on_host,
    ),
    "interior": Method(
        "interior points on the flow between neighbouring states",
        "models whose states lead to a few near ones",
        lambda *ask: solvers.interior.run_interior(*ask),
        obstacle=lambda backend: solvers.interior.obstacle(backend),
    ),
    "dual": Method(
        "Newton's method on the prices of the quotas", "few quotas on models that mix fast",
        lambda *ask: solvers.dual.run_dual(*ask), _BOTH,
    ),
    "proximal": Method(
        "proximal points and semismooth Newton, quotas in the prox", "a quota for every state",
        lambda *ask: solvers.proximal.run_proximal(*ask), _BOTH, obstacle=_not_by_state,
    ),
    "colgen": Method(
        "column generation over deterministic policies", "few quotas on models that mix slowly",
        lambda *ask: solvers.colgen.run_colgen(*ask), _BOTH,
        warm=lambda tol: solvers.colgen.WarmColumns(tol=tol),
    ),
    "mirror": Method(
        "Algorithm 1", "studying the paper",
        lambda backend, request: mirror.solve_mirror(
            _host(backend), tol=request.tol, options=mirror.Options(seconds=request.deadline.left)
        ),
        obstacle=_not_on_host,
    ),
}  # fmt: skip
"""By name, in the order in which they are listed."""

_RELATED = {
    "pdlp": "HiGHS PDLP over all state-action pairs",
    "mend": "the least change of a given policy, HiGHS simplex over all state-action pairs",
    "max-min": "the largest share that all groups can have, then HiGHS simplex over all state-action pairs",
    "leximin": "max-min shares, group after group, then HiGHS simplex over all state-action pairs",
    "split": "component after component, then where to stay or go",
    "multichain": "HiGHS simplex over all components and the moves between them",
    "welfare": "column generation over deterministic policies, welfare by its tangents",
}  # what `solve` does not offer


def summary(name: str) -> str:
    """What a method does, in words; nothing where that is not known."""
    return METHODS[name].summary if name in METHODS else _RELATED.get(name, "")
