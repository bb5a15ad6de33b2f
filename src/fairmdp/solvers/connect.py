"""When a policy's own chain is not what an occupancy promised, or a search was stopped before it was fair.

A vertex may split its mass over classes that never meet, or hang them together by a thread; then the
policy's own chain has other shares than ``x``. A slow chain may also turn a tiny residual of flow into a
quota that is missed. The remedy asks for a little more than is owed. Where that is not enough, there is room
to mix in some of the uniform policy's occupancy, which connects everything: a mixture of occupancies is an
occupancy, and a connected one is that of its own policy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fairmdp.backends.base import Backend, Bounds
from fairmdp.backends.cpu.backend import CpuBackend
from fairmdp.backends.flow_lp import FlowLP
from fairmdp.certificate.claim import certify, certify_policy
from fairmdp.chains.policy import policy_of
from fairmdp.deadline import Deadline, OutOfTimeError, stop_of
from fairmdp.errors import SolverError
from fairmdp.model.checks import Floats
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Note, Remark, Solution, Status
from fairmdp.solvers.passages import Split, classes_apart, connect_by_passages
from fairmdp.solvers.prices import price_box, tightened

_MARGIN = 1e-8  # by which a mixture meets its quotas, so that it can be proved; a thousandth of small ones
_MARGINS = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
_KNOWN = 1e-10  # error of a stationary distribution that may be mixed in


class Spread(NamedTuple):
    """An occupancy that connects all states, and its shares."""

    x: Any  # (SA,)
    shares: Floats  # (K,)


def uniform_spread(backend: Backend) -> Spread | None:
    """Occupancy of the uniform policy; None where that depends on the start."""
    uniform = backend.uniform()
    nu, error = backend.stationary(uniform)
    if error > _KNOWN:
        return None
    shares, _, _ = backend.totals(uniform, nu, nu)
    return Spread(backend.occupancy(uniform, nu), shares)


def connect(
    asked: Bounds,
    found: Solution,
    span: float,
    spread: Spread,
    best: Callable[[Floats], Any],
    claim: Callable[[Any, Note], Solution],
    enough: Callable[[Solution], bool] = lambda solution: True,
) -> Solution:
    """Mix some of a spread into what a search has found, at the smallest loss that can be proved.

    ``best(room)`` is an occupancy that meets the quotas with so much room, (K,), or None; ``claim(x, note)``
    what is proved of its policy; more is mixed in until that is ``enough``.
    """
    for margin, room in _rooms(asked, found, span):
        x = best(room)
        if x is None:
            break
        pull = pull_within(asked, room, spread.shares)
        solution = claim((1 - pull) * x + pull * spread.x, Note(Remark.CONNECTED, margin))
        if solution.status is not Status.UNDECIDED:
            found = solution
            if enough(solution):
                break
    return found


def repair(
    problem: Problem, solution: Solution, *, start: float, deadline: Deadline, patience: float | None = None
) -> Solution:
    """Return a policy whose own chain is fair, at the smallest loss that can be proved, if there is one.

    Classes that never meet are connected by passages, each made once in `patience` steps if that is given.
    """
    lp, backend = FlowLP(problem, problem.mdp.r, deadline=deadline), CpuBackend(problem)

    def best(room: Floats) -> Floats | None:
        low, high = problem.at_least, problem.at_most
        lower = np.where(low > 0, np.minimum(low + room, 1), 0)
        upper = np.where(high < 1, np.maximum(high - room, 0), 1)
        if (lower > upper).any():
            return None
        for k in range(problem.n_quotas):
            lp.set_quota(k, lower[k], upper[k])
        try:
            answer = lp.run()
        except SolverError:  # HiGHS gives up on so much room: what was found without it stands
            return None
        return None if answer is None else answer.x

    def claim(x: Floats, *notes: Note) -> Solution:
        return certify_policy(
            problem, policy_of(problem.mdp, x), solution.bias, solution.prices, tol=solution.tol,
            method=solution.method, counters=solution.counters, notes=notes,
        )  # fmt: skip

    found, short = solution, -solution.worst_slack
    try:
        classes = classes_apart(problem.mdp, solution.policy, solution.occupancy)
        if len(classes) > 1:
            split = Split(classes, solution.upper)
            found = connect_by_passages(problem, split, claim, solution.tol, patience, deadline) or solution
        elif 0 < short < solution.tol:
            x = best(np.full(problem.n_quotas, 4 * short))
            found = solution if x is None else claim(x, Note(Remark.RAISED, 4 * short))
        spread = uniform_spread(backend) if found.status is Status.UNDECIDED else None
        if spread is not None:
            found = connect(problem, found, backend.scale, spread, best, claim)
    except OutOfTimeError as stop:
        found = replace(found, stopped=stop_of(stop))
    return replace(found, counters={**found.counters, "seconds": time.perf_counter() - start})


def _rooms(asked: Bounds, solution: Solution, span: float) -> Iterator[tuple[float, Floats]]:
    """How much more may be asked of each quota to connect a chain, (K,), from the least by powers of ten."""
    first = solution.tol / (4 * (1 + float(np.abs(solution.prices).sum()) / span))
    bound = np.maximum(asked.at_least, np.where(asked.at_most < 1, asked.at_most, 0.0))
    for margin in (first, *(m for m in _MARGINS if m > first)):
        # Nearly in proportion, so that a thousand small quotas do not add up to more than there is.
        yield margin, margin * (bound + 1e-3)


def pull_within(asked: Bounds, room: Floats, shares: Floats) -> float:
    """How much of an occupancy with these shares may be mixed in where each quota is met with some room."""
    short = np.maximum(asked.at_least - shares, shares - asked.at_most)
    lacking = short > 0
    # What it lacks must fit into half of the room; the other half is for the proof.
    most = float((room[lacking] / (room[lacking] + short[lacking])).min(initial=1.0))
    return min(float(room.max(initial=_MARGINS[0])), most / 2)


def fall_back(backend: Backend, solution: Solution) -> Solution:
    """Of a search that was stopped before it had a fair policy: as much of its last one as fairness allows.

    The rest is the uniform policy, where that is fair; elsewhere the solution is returned as it is.
    """
    if solution.status is not Status.UNDECIDED:
        return solution
    began = time.perf_counter()
    spread = uniform_spread(backend)
    if spread is None:
        return solution
    policy, nu = backend.put(solution.policy), backend.put(solution.visitation)
    shares, _, _ = backend.totals(policy, nu, nu)
    pull = _pull_to_meet(backend, shares, spread.shares)
    if pull is None:
        return solution
    x = (1 - pull) * backend.put(solution.occupancy) + pull * spread.x
    mixed = certify(
        backend,
        backend.read_policy(x, None),
        backend.put(solution.bias),
        solution.prices,
        tol=solution.tol,
        method=solution.method,
        counters=solution.counters,
        began=began - solution.counters.get("seconds", 0.0),
        notes=(*solution.notes, Note(Remark.MIXED_WITH_UNIFORM, pull)),
        stopped=solution.stopped,
    )
    return (
        solution
        if mixed.status is Status.UNDECIDED
        else replace(mixed, tried=solution.tried, reason=solution.reason)
    )


def _pull_to_meet(asked: Bounds, shares: Floats, spread: Floats) -> float | None:
    """Least weight of the shares `spread` that meets the quotas with a margin; None if none does."""
    bound = np.where(asked.at_least > 0, asked.at_least, asked.at_most)
    low, high = tightened(*price_box(asked), np.minimum(_MARGIN, 1e-3 * bound))
    if ((spread < low) | (spread > high)).any():
        return None
    short = np.maximum(low - shares, shares - high)  # (K,)
    lacking = short > 0
    room = np.minimum(spread - low, high - spread)[lacking]
    return float((short[lacking] / (short[lacking] + room)).max(initial=0.0))
