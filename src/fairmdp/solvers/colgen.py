"""Column generation: mixtures of policies, for models that mix slowly and whose prices are sharp."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fairmdp.certificate import rounded
from fairmdp.device_problem import DeviceProblem
from fairmdp.kernels.bellman import Sweeps
from fairmdp.kernels.cuda.launcher import out_of_memory_is_a_message
from fairmdp.problem import Problem
from fairmdp.solution import Solution, Status
from fairmdp.solvers.columns import EXACT, PENALTIES, Mixture, Search
from fairmdp.solvers.conclude import Evaluated, check_tol, conclude, conclude_infeasible, evaluate
from fairmdp.solvers.conflict import prove_infeasible
from fairmdp.solvers.deadline import STOPS, Deadline, stop_note
from fairmdp.solvers.on_device import check_device, conclude_where, kernels_for
from fairmdp.solvers.prices import price_box, start_from, tightened
from fairmdp.solvers.repair import gave_up, margins, pull_within
from fairmdp.validation import Floats

Progress = Callable[[dict[str, float]], None]

_METHOD = "colgen: column generation over deterministic policies"
_LIKELY = 40  # columns that a search ends with, about
_HAIR = 0.05  # of the tolerance, by which quotas are tightened


@out_of_memory_is_a_message()
def solve_colgen(
    problem: Problem | DeviceProblem,
    *,
    tol: float = 1e-6,
    start: Solution | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
    device: str = "cpu",
) -> Solution:
    """Best gain under quotas as a mixture of policies: few quotas on models that mix slowly.

    Parameters
    ----------
    problem
        Model and quotas; a `DeviceProblem` is solved where it is.
    tol
        Certified gap, relative to the span of the rewards, up to which the answer is called optimal.
    start
        An earlier solution of the same model with other quotas or rewards: its policy is the first
        column, its prices (by quota name) and bias are where the search begins.
    seconds
        Time after which the search ends as if interrupted.
    progress
        Called at every column with ``upper``, ``lower``, ``gap``, ``worst_slack``, ``seconds``.
    device
        ``"cpu"``, or ``"cuda"`` for the first GPU, as for `solve_dual`.

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
    tol = check_tol(tol)
    search = _begun(problem, tol, start, check_device(device))
    search.deadline = Deadline(seconds)
    notes: tuple[str, ...] = ()
    try:
        _run(search, tol, _reporter(problem, progress))
    except STOPS as stop:
        notes = (stop_note(stop),)
    if search.upper < 0 and isinstance(problem, Problem):
        h, mu = _witness(problem, search)
        infeasible = prove_infeasible(
            problem, search.device.get(h), mu, tol=tol, method=_METHOD, counters=search.counters,
            began=search.began, deadline=search.deadline,
        )  # fmt: skip
        if infeasible is not None:
            return infeasible
    return _claim(problem, search, search.policy(), tol, notes)


class Sweep:
    """Column generation for one model under changing bounds: each answer starts from all that was found.

    Quotas that cannot be met are proved to be so, but not explained.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> problem, sweep = scenarios.three_state(), Sweep()
    >>> [round(sweep.solve(problem.with_bounds([0.1, 0.1, owed])).gain, 4) for owed in (0.2, 0.25, 0.3)]
    [0.4695, 0.4434, 0.4174]
    """

    def __init__(self, *, tol: float = 1e-6) -> None:
        self._tol = check_tol(tol)
        self._search: Search | None = None
        self._last: tuple[Floats, Evaluated] | None = None

    def solve(self, problem: Problem, progress: Progress | None = None) -> Solution:
        """Best gain of the same model and quotas as before, under these bounds."""
        if self._search is None:
            self._search = _begun(problem, self._tol, None)
            self._search.ceilings = []
        else:
            self._search.turn_to(problem, _master(problem, self._tol))
        search = self._search
        _run(search, self._tol, _reporter(problem, progress))
        if search.upper < 0:
            h, mu = _witness(problem, search)
            if rounded.ceiling(problem, np.zeros(problem.mdp.n_pairs), h, mu) < 0:
                counters = search.timed_counters
                return conclude_infeasible(
                    problem, h, mu, None, tol=self._tol, method=_METHOD, counters=counters
                )
        policy = search.policy()
        return _claim(problem, search, policy, self._tol, (), self._evaluated(problem, policy))

    def _evaluated(self, problem: Problem, policy: Floats) -> Evaluated:
        """What is proved of a policy, known already where it is the last one's: as long as no quota binds."""
        if self._last is None or not np.array_equal(self._last[0], policy):
            self._last = policy, evaluate(problem, policy)
        return self._last[1]


def _begun(
    problem: Problem | DeviceProblem, tol: float, start: Solution | None, on_device: bool = False
) -> Search:
    """Search that knows an earlier solution's policy, prices and relative values."""
    began = time.perf_counter()
    base, scale = _unit(problem)
    mu, h, nu = start_from(problem, start, scale)
    device = kernels_for(problem, base, scale, on_device, _LIKELY)
    search = Search(problem, device, _master(problem, tol), h, nu)
    search.began, search.witness = began, (search.witness[0], mu)
    if start is not None and start.has_policy:
        search.add_policy(start.policy, start.visitation)
    return search


def _master(problem: Problem | DeviceProblem, tol: float) -> Mixture:
    """Master program of quotas that are tightened by a hair, so that they hold in spite of small errors."""
    return Mixture(*tightened(*price_box(problem), _HAIR * tol))


def _run(search: Search, tol: float, report: Callable[[Search, float], None] | None) -> None:
    """Raise what a broken quota costs until none is broken, or none can be mended."""
    low, high = search.low, search.high
    for penalty in PENALTIES:
        search.master.penalty = penalty
        eager = penalty < PENALTIES[-1]
        broken = search.run(search.witness[1], 0.8 * tol, _hopeless, report, eager=eager)
        if EXACT < broken <= 2 * _HAIR * tol * low.size:  # the quotas are at the edge of what can be met
            search.master.tighten(low, high)
            broken = search.run(search.witness[1], 0.8 * tol, _hopeless, report)
        if broken <= EXACT or search.upper < 0:
            break


def _claim(
    problem: Problem | DeviceProblem,
    search: Search,
    policy: Any,
    tol: float,
    notes: tuple[str, ...],
    evaluated: Evaluated | None = None,
) -> Solution:
    """What can be proved of the mixture's policy, connected if its chain is not."""
    best = _concluded(problem, search, policy, tol, notes, evaluated)
    if best.status is Status.UNDECIDED and not notes:
        best = _connect(problem, search, best)
    return replace(best, counters={**search.timed_counters, **best.counters})


def _concluded(
    problem: Problem | DeviceProblem,
    search: Search,
    policy: Any,
    tol: float,
    notes: tuple[str, ...],
    evaluated: Evaluated | None = None,
) -> Solution:
    """What can be proved of a policy, where the search was made."""
    h, mu = _witness(problem, search)
    if isinstance(search.device, Sweeps):
        assert isinstance(problem, Problem)
        return conclude(
            problem, policy, h, mu, tol=tol, method=_METHOD, counters={}, notes=notes, evaluated=evaluated
        )
    device = search.device.patient() if search.way else search.device
    return conclude_where(
        problem, device, policy, h, mu, tol=tol, method=_METHOD, counters=search.counters, notes=notes,
        began=search.began,
    )  # fmt: skip


def _witness(problem: Problem | DeviceProblem, search: Search) -> tuple[Any, Floats]:
    """Relative values and prices in the user's unit."""
    _, scale = _unit(problem)
    h, mu = search.witness
    return h * scale, mu * scale


def _hopeless(search: Search) -> bool:
    """Whether no policy meets the quotas: rewards are at least 0, so a lower ceiling proves it."""
    return search.upper < 0


def _unit(problem: Problem | DeviceProblem) -> tuple[float, float]:
    """Least reward and span of the rewards: a search has them between 0 and 1."""
    r = problem.mdp.r
    return float(r.min()), float(r.max() - r.min()) or 1.0


def _reporter(
    problem: Problem | DeviceProblem, progress: Progress | None
) -> Callable[[Search, float], None] | None:
    """Adapter from a search to the user's callback."""
    if progress is None:
        return None
    base, scale = _unit(problem)

    def report(search: Search, broken: float) -> None:
        upper = base + scale * search.upper
        lower = base + scale * search.value if broken <= EXACT else -math.inf
        seconds = time.perf_counter() - search.began
        progress(dict(upper=upper, lower=lower, gap=upper - lower, worst_slack=-broken, seconds=seconds))

    return report


def _connect(problem: Problem | DeviceProblem, search: Search, found: Solution) -> Solution:
    """Mix in some of the uniform policy, which connects classes, at the smallest loss that can be proved."""
    uniform = search.device.uniform()
    nu, _ = search.law(uniform, EXACT)
    search.add_policy(uniform, nu)
    spread = search.columns[-1]
    low, high = price_box(problem)
    for margin, room in margins(problem, found):
        search.master.tighten(*tightened(low, high, room))
        search.value, _, search.weights, broken = search.master.solve()
        if broken > EXACT:
            break
        pull = pull_within(problem, room, spread.shares)
        policy = search.policy_of((1 - pull) * search.occupancy() + pull * spread.mass)
        best = _concluded(problem, search, policy, found.tol, (gave_up(margin),))
        if best.status is not Status.UNDECIDED:
            return best
    return found
