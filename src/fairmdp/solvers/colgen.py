"""Column generation: mixtures of policies, for models that mix slowly and whose prices are sharp."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fairmdp.problem import Problem
from fairmdp.solution import Solution, Status
from fairmdp.solvers.columns import EXACT, PENALTIES, Column, Mixture, Search
from fairmdp.solvers.conclude import check_tol, conclude
from fairmdp.solvers.conflict import prove_infeasible
from fairmdp.solvers.deadline import STOPS, Deadline, stop_note
from fairmdp.solvers.policy import policy_of, uniform_policy
from fairmdp.solvers.prices import price_box, start_from, tightened
from fairmdp.solvers.repair import gave_up, margins, pull_within

Progress = Callable[[dict[str, float]], None]


def solve_colgen(
    problem: Problem,
    *,
    tol: float = 1e-6,
    start: Solution | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Best gain under quotas as a mixture of policies: few quotas on models that mix slowly.

    Parameters
    ----------
    problem
        Model and quotas.
    tol
        Certified gap, relative to the span of the rewards, up to which the answer is called optimal.
    start
        An earlier solution of the same model with other quotas or rewards: its policy is the first
        column, its prices (by quota name) and bias are where the search begins.
    seconds
        Time after which the search ends as if interrupted.
    progress
        Called at every column with ``upper``, ``lower``, ``gap``, ``worst_slack``, ``seconds``.

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
    r = problem.mdp.r
    base, scale = float(r.min()), float(np.ptp(r)) or 1.0
    mu, h, nu = start_from(problem, start, scale)
    low, high = price_box(problem)
    hair = 0.05 * tol  # quotas are tightened by it, so that they hold in spite of small errors
    search = Search(problem, (r - base) / scale, Mixture(*tightened(low, high, hair)), h, nu)
    search.deadline = Deadline(seconds)
    if start is not None and start.has_policy:
        search.add(Column(None, start.occupancy, problem.members @ start.occupancy, 0.0, 0.0))
    notes: tuple[str, ...] = ()
    report = _reporter(progress, base, scale)
    try:
        for penalty in PENALTIES:
            search.master.penalty = penalty
            broken = search.run(mu, 0.8 * tol, _hopeless, report, eager=penalty < PENALTIES[-1])
            mu = search.witness[1]
            if EXACT < broken <= 2 * hair * low.size:  # the quotas are at the edge of what can be met
                search.master.tighten(low, high)
                broken = search.run(mu, 0.8 * tol, _hopeless, report)
            if broken <= EXACT or search.upper < 0:
                break
    except STOPS as stop:
        notes = (stop_note(stop),)
    method = "colgen: column generation over deterministic policies"
    h, mu = search.witness[0] * scale, search.witness[1] * scale
    if search.upper < 0:
        infeasible = prove_infeasible(
            problem, h, mu, tol=tol, method=method, counters=search.counters, began=search.began
        )
        if infeasible is not None:
            return infeasible
    best = conclude(
        problem,
        search.policy(),
        h,
        mu,
        tol=tol,
        method=method,
        counters=search.timed_counters,
        notes=notes,
    )
    if best.status is Status.UNDECIDED and not notes:
        best = _connect(problem, search, best)
    return replace(best, counters=search.timed_counters)


def _hopeless(search: Search) -> bool:
    """Whether no policy meets the quotas: rewards are at least 0, so a lower ceiling proves it."""
    return search.upper < 0


def _reporter(progress: Progress | None, base: float, scale: float) -> Callable[[Search, float], None] | None:
    """Adapter from a search to the user's callback."""
    if progress is None:
        return None

    def report(search: Search, broken: float) -> None:
        upper = base + scale * search.upper
        lower = base + scale * search.value if broken <= EXACT else -math.inf
        seconds = time.perf_counter() - search.began
        progress(dict(upper=upper, lower=lower, gap=upper - lower, worst_slack=-broken, seconds=seconds))

    return report


def _connect(problem: Problem, search: Search, found: Solution) -> Solution:
    """Mix in some of the uniform policy, which connects classes, at the smallest loss that can be proved."""
    mdp = problem.mdp
    uniform = uniform_policy(mdp)
    nu, _ = search.law(uniform, EXACT)
    spread = uniform * nu[mdp.s_of]
    shares = problem.members @ spread
    low, high = price_box(problem)
    search.add(Column(None, spread, shares, 0.0, 0.0))
    for margin, room in margins(problem, found):
        search.master.tighten(*tightened(low, high, room))
        search.value, _, search.weights, broken = search.master.solve()
        if broken > EXACT:
            break
        pull = pull_within(problem, room, spread)
        best = conclude(
            problem,
            policy_of(mdp, (1 - pull) * search.occupancy() + pull * spread),
            found.bias,
            found.prices,
            tol=found.tol,
            method=found.method,
            counters=found.counters,
            notes=(gave_up(margin),),
        )
        if best.status is not Status.UNDECIDED:
            return best
    return found
