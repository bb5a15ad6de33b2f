"""Column generation: mixtures of policies, for models that mix slowly and whose prices are sharp."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairmdp.backends.base import Backend, Bounds
from fairmdp.backends.cpu.backend import CpuBackend
from fairmdp.backends.cuda.device_problem import DeviceProblem
from fairmdp.backends.memory import out_of_memory_is_a_message
from fairmdp.backends.opening import open_backend
from fairmdp.certificate.claim import Evaluated, certify, certify_infeasible, evaluate
from fairmdp.certificate.facts import check_tol
from fairmdp.certificate.restated import by_uniform_steps
from fairmdp.deadline import STOPS, Stop, stop_of
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Note, Remark, Solution, Status
from fairmdp.solvers import columns, conflict
from fairmdp.solvers.columns import EXACT, PENALTIES, Mixture, Search
from fairmdp.solvers.connect import Spread, connect
from fairmdp.solvers.infeasible import Witness, ceiling_at_rest
from fairmdp.solvers.passages import Split, classes_apart, connect_by_passages, slowest_passage, with_passages
from fairmdp.solvers.prices import price_box, start_from, tightened
from fairmdp.solvers.request import Progress, Request

_GENTLE = 0.1  # first penalty: far prices lead slow chains through policies of several classes
_LIKELY = 40  # columns that a search ends with, about
_MARGIN = 0.05  # of the tolerance, by which quotas are tightened


@dataclass(frozen=True)
class Tuning:
    """Tuning of the search, and of what follows where the quotas cannot be met."""

    search: columns.Tuning = columns.USUAL
    conflict: conflict.Tuning = conflict.USUAL
    passage_pairs: int = 20_000  # up to here classes are connected by linear programs


USUAL = Tuning()

_LOOK = columns.Tuning(columns=8, improvements=60)  # for a policy that is likely not to be fair


@by_uniform_steps
@out_of_memory_is_a_message()
def solve_colgen(
    problem: Problem | DeviceProblem,
    *,
    tol: float = 1e-6,
    start: Solution | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
    device: str = "cpu",
    tuning: Tuning = USUAL,
) -> Solution:
    """Best gain under quotas as a mixture of policies: few quotas on models that mix slowly.

    Parameters
    ----------
    problem, tol, seconds, progress, device
        As for `solve`; progress is reported at every column.
    start
        An earlier solution of the same model with other quotas or rewards: its policy is the first
        column, its prices (by quota name) and bias are where the search begins.
    tuning
        Numbers that the answer does not depend on, but the time it takes.

    Returns
    -------
    Solution
        The mixture's occupancy belongs to a stationary policy. Where that policy's own chain cannot be
        proved fair (a mixture of classes that never meet), ``status`` is UNDECIDED and ``upper`` still
        holds. Ctrl-C ends the search early and returns the best mixture so far.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> sol = solve_colgen(scenarios.three_state(rho=[0.1, 0.1, 0.25]))
    >>> sol.status.value, round(sol.gain, 5), sol.prices.round(4)
    ('optimal', 0.44342, array([0.    , 0.    , 0.5211]))
    """
    return run_colgen(open_backend(problem, device), Request.of(tol, start, seconds, progress), tuning)


def run_colgen(backend: Backend, request: Request, tuning: Tuning = USUAL) -> Solution:
    """`solve_colgen` where a problem is already."""
    backend.require_memory(_LIKELY)
    search = _begun(backend, backend, request, tuning)
    stopped = Stop.NOT
    try:
        _run(search, request.tol, request.progress)
    except STOPS as stop:
        stopped = stop_of(stop)
    if search.upper < 0 and backend.host is not None:
        h, mu = _witness(search)
        infeasible = conflict.prove_infeasible(
            backend.host, Witness(backend.get(h), mu), tol=request.tol, method="colgen",
            counters=search.counters, began=search.began, deadline=request.deadline, tuning=tuning.conflict,
        )  # fmt: skip
        if infeasible is not None:
            return infeasible
    return _claim(backend, search, request, stopped, tuning=tuning)


def run_unbound(backend: Backend, request: Request) -> Solution | None:
    """Return the best policy quotas aside, where it meets them all; None where that would be too easy."""
    free = np.full(backend.n_quotas, np.inf)
    search = Search(backend, Mixture(-free, free), request.deadline, tuning=_LOOK)
    try:
        search.run(np.zeros(backend.n_quotas), 0.8 * request.tol, lambda search: False)
    except STOPS as stop:
        return _claim(backend, search, request, stop_of(stop))
    low, high = tightened(*price_box(backend), _MARGIN * request.tol)
    shares = sum(w * c.shares for w, c in zip(search.weights, search.columns, strict=True))
    if search.upper - search.value > request.tol or (shares < low).any() or (shares > high).any():
        return None
    return _claim(backend, search, request, Stop.NOT)


class WarmColumns:
    """Column generation for one model under changing bounds: each answer starts from all that was found.

    Quotas that cannot be met are proved to be so, but not explained.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> problem, warm = scenarios.three_state(), WarmColumns()
    >>> [round(warm.solve(problem.with_bounds([0.1, 0.1, owed])).gain, 4) for owed in (0.2, 0.25, 0.3)]
    [0.4695, 0.4434, 0.4174]
    """

    def __init__(self, *, tol: float = 1e-6) -> None:
        self._request = Request(check_tol(tol))
        self._search: Search | None = None
        self._last: tuple[Floats, Evaluated] | None = None

    def solve(self, problem: Problem, progress: Progress | None = None) -> Solution:
        """Best gain of the same model and quotas as before, under these bounds."""
        tol, backend = self._request.tol, CpuBackend(problem)
        if self._search is None:
            self._search = _begun(backend, problem, self._request, Tuning())
            self._search.ceilings = []
        else:
            self._search.turn_to(problem, _master(problem, tol))
        search = self._search
        _run(search, tol, progress)
        if search.upper < 0:
            witness = Witness(*_witness(search))
            if ceiling_at_rest(problem, witness) < 0:
                counters = {**search.counters, "seconds": time.perf_counter() - search.began}
                return certify_infeasible(
                    problem, *witness, None, tol=tol, method="colgen", counters=counters
                )
        return _claim(backend, search, self._request, Stop.NOT, self._evaluated(problem, search.policy()))

    def _evaluated(self, problem: Problem, policy: Floats) -> Evaluated:
        """What is proved of a policy, known already where it is the last one's: as long as no quota binds."""
        if self._last is None or not np.array_equal(self._last[0], policy):
            self._last = policy, evaluate(problem, policy)
        return self._last[1]


def _begun(backend: Backend, asked: Bounds, request: Request, tuning: Tuning) -> Search:
    """Search that knows an earlier solution's policy, prices and relative values."""
    mu, h, nu = start_from(backend, request.start)
    search = Search(backend, _master(asked, request.tol), request.deadline, h, nu, tuning=tuning.search)
    search.witness = search.witness[0], mu
    if request.start is not None and request.start.has_policy:
        search.add_policy(request.start.policy, request.start.visitation)
    return search


def _master(asked: Bounds, tol: float) -> Mixture:
    """Master program of quotas that are tightened, so that they hold in spite of small errors."""
    return Mixture(*tightened(*price_box(asked), _MARGIN * tol))


def _run(search: Search, tol: float, progress: Progress | None) -> None:
    """Raise what a broken quota costs until none is broken, or none can be mended."""
    low, high, report = search.low, search.high, _reporter(search, progress)
    for penalty in (_GENTLE, *PENALTIES):
        search.master.penalty = penalty
        eager = penalty < PENALTIES[-1]
        broken = search.run(search.witness[1], 0.8 * tol, _hopeless, report, eager=eager)
        if EXACT < broken <= 2 * _MARGIN * tol * low.size:  # the quotas are at the edge of what can be met
            search.master.tighten(low, high)
            broken = search.run(search.witness[1], 0.8 * tol, _hopeless, report)
        if broken <= EXACT or search.upper < 0:
            break


def _hopeless(search: Search) -> bool:
    """Whether no policy meets the quotas: rewards are at least 0, so a lower ceiling proves it."""
    return search.upper < 0


def _claim(
    backend: Backend,
    search: Search,
    request: Request,
    stopped: Stop,
    evaluated: Evaluated | None = None,
    tuning: Tuning = USUAL,
) -> Solution:
    """What can be proved of the mixture's policy, connected if its chain is not."""
    (h, mu), tol = _witness(search), request.tol

    def claim(policy: Any, notes: tuple[Note, ...] = (), known: Evaluated | None = None) -> Solution:
        return certify(
            backend, policy, h, mu, tol=tol, method="colgen", counters=search.counters, began=search.began,
            notes=notes, stopped=stopped, evaluated=known,
        )  # fmt: skip

    found = claim(search.policy(), known=evaluated)
    promised = backend.scale * (search.upper - search.value + tol)
    if stopped or (found.status is not Status.UNDECIDED and found.gap <= 2 * promised):
        return found
    host = backend.host
    classes: Sequence[Ints] = ()
    if host is not None:
        classes = classes_apart(host.mdp, found.policy, backend.get(search.occupancy()))
    if host is not None and 1 < len(classes) and host.mdp.n_pairs <= tuning.passage_pairs:
        split = Split(classes, backend.base + backend.scale * search.upper)
        joined = connect_by_passages(
            host,
            split,
            lambda x: claim(search.policy_of(backend.put(x))),
            tol,
            request.patience,
            request.deadline,
        )
        if joined is not None:
            return joined

    def best(room: Floats) -> Any | None:
        search.master.tighten(*tightened(*price_box(backend), room))
        search.value, _, search.weights, broken = search.master.solve()
        return None if broken > EXACT else search.occupancy()

    def noted(x: Any, note: Note) -> Solution:
        return with_passages(host, classes, claim(search.policy_of(x), (note,)))

    patience = request.patience
    connected = connect(
        backend, found, backend.scale, _uniform_spread(search), best, noted,
        lambda solution: patience is None or slowest_passage(solution) <= patience,
    )  # fmt: skip
    if patience is not None and slowest_passage(connected) > patience:
        connected = replace(connected, notes=(*connected.notes, Note(Remark.PATIENCE_TOO_SHORT, patience)))
    return replace(connected, counters={**connected.counters, **search.counters})


def _uniform_spread(search: Search) -> Spread:
    """Occupancy of the uniform policy, which becomes a column."""
    uniform = search.backend.uniform()
    search.add_policy(uniform, search.stationary(uniform, EXACT)[0])
    return Spread(search.columns[-1].mass, search.columns[-1].shares)


def _witness(search: Search) -> tuple[Any, Floats]:
    """Relative values and prices in the user's unit; none of both where a ceiling is above every reward."""
    h, mu = search.witness if search.upper <= 1 else (search.backend.full(0.0), 0 * search.witness[1])
    return h * search.backend.scale, mu * search.backend.scale


def _reporter(search: Search, progress: Progress | None) -> Callable[[Search, float], None] | None:
    """Adapter from a search to the user's callback."""
    if progress is None:
        return None
    base, scale = search.backend.base, search.backend.scale

    def report(search: Search, broken: float) -> None:
        upper = base + scale * search.upper
        lower = base + scale * search.value if broken <= EXACT else -math.inf
        seconds = time.perf_counter() - search.began
        progress(dict(upper=upper, lower=lower, gap=upper - lower, worst_slack=-broken, seconds=seconds))

    return report
