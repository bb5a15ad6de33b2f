"""When the policy read off a linear program is not what the program promised.

A vertex may split its mass over classes that never meet, or hang them together by a thread; then the
policy's own chain has other shares than ``x``. A slow chain may also turn a tiny residual of flow into a
quota that is missed. The remedy asks for a little more than is owed. Where that is not enough, there is room
to mix in some of the uniform policy's occupancy, which connects everything: a mixture of occupancies is an
occupancy, and a connected one is the long-run law of its own policy.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from fairmdp.chain import Chain
from fairmdp.device_problem import DeviceProblem
from fairmdp.mdp import MDP
from fairmdp.problem import Problem
from fairmdp.solution import Solution, Status
from fairmdp.solvers.conclude import conclude
from fairmdp.solvers.deadline import Deadline, OutOfTimeError, stop_note
from fairmdp.solvers.flow_lp import FlowLP
from fairmdp.solvers.policy import policy_of, uniform_policy
from fairmdp.solvers.prices import price_box, tightened
from fairmdp.validation import Floats

CONNECTED = "so that the policy's chain is connected"
"""How the note ends that says what a connection cost."""

_HAIR = 1e-8  # by which a mixture meets its quotas, so that it can be proved; a thousandth of small ones
_MARGINS = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


def repair(problem: Problem, solution: Solution, *, start: float, deadline: Deadline) -> Solution:
    """Return a policy whose own chain is fair, at the smallest loss that can be proved, if there is one."""
    best = solution
    lp = FlowLP(problem, problem.mdp.r, deadline=deadline)
    for room, spread, note in _attempts(problem, solution):
        try:
            x = _connected(lp, problem, room, spread)
        except OutOfTimeError as stop:
            best = replace(best, notes=(*best.notes, stop_note(stop)))
            break
        if x is None:
            break
        best = conclude(
            problem,
            policy_of(problem.mdp, x),
            solution.bias,
            solution.prices,
            tol=solution.tol,
            method=solution.method,
            counters=solution.counters,
            notes=(note,),
        )
        if best.status is not Status.UNDECIDED:
            break
    return replace(best, counters=_timed(best.counters, start))


def _attempts(problem: Problem, solution: Solution) -> Iterator[tuple[Floats, Floats | None, str]]:
    """How much more to ask of each quota, what to mix in, and what to say of it; the smallest loss first."""
    mdp, K = problem.mdp, problem.n_quotas
    short = -solution.worst_slack
    if len(Chain.of(mdp, solution.policy).closed_classes) == 1 and 0 < short < solution.tol:
        note = f"quotas were raised by {4 * short:.0e} so that the policy's own chain meets them"
        yield np.full(K, 4 * short), None, note
    spread = _uniform_occupancy(mdp)
    if spread is None:
        return
    for margin, room in margins(problem, solution):
        yield room, spread, gave_up(margin)


def margins(problem: Problem | DeviceProblem, solution: Solution) -> Iterator[tuple[float, Floats]]:
    """How much more may be asked of each quota to connect a chain, (K,), from the least by powers of ten."""
    dearest = 1 + float(np.abs(solution.prices).sum()) / (float(np.ptp(problem.mdp.r)) or 1.0)
    first = solution.tol / (4 * dearest)
    bound = np.maximum(problem.at_least, np.where(problem.at_most < 1, problem.at_most, 0.0))
    for margin in (first, *(m for m in _MARGINS if m > first)):
        # Nearly in proportion, so that a thousand small quotas do not add up to more than there is.
        yield margin, margin * (bound + 1e-3)


def fall_back(problem: Problem, solution: Solution) -> Solution:
    """Of a search that was stopped before it had a fair policy: as much of its last one as fairness allows.

    The rest is the uniform policy, where that is fair; elsewhere the solution is returned as it is.
    """
    if solution.status is not Status.UNDECIDED:
        return solution
    spread = _uniform_occupancy(problem.mdp)
    if spread is None:
        return solution
    pull = _pull_to_meet(problem, problem.members @ solution.occupancy, problem.members @ spread)
    if pull is None:
        return solution
    note = f"{pull:.0%} of the time is the uniform policy's, so that the quotas are met"
    mixed = conclude(
        problem,
        policy_of(problem.mdp, (1 - pull) * solution.occupancy + pull * spread),
        solution.bias,
        solution.prices,
        tol=solution.tol,
        method=solution.method,
        counters=solution.counters,
        notes=(*solution.notes, note),
    )
    return solution if mixed.status is Status.UNDECIDED else mixed


def _uniform_occupancy(mdp: MDP) -> Floats | None:
    """Share of time of each pair under the uniform policy, (SA,); None where that depends on the start."""
    uniform = uniform_policy(mdp)
    chain = Chain.of(mdp, uniform)
    return uniform * chain.shares[mdp.s_of] if len(chain.closed_classes) == 1 else None


def _pull_to_meet(problem: Problem, shares: Floats, spread: Floats) -> float | None:
    """Least weight of the shares `spread` that meets the quotas with a hair to spare; None if none does."""
    bound = np.where(problem.at_least > 0, problem.at_least, problem.at_most)
    low, high = tightened(*price_box(problem), np.minimum(_HAIR, 1e-3 * bound))
    if ((spread < low) | (spread > high)).any():
        return None
    short = np.maximum(low - shares, shares - high)  # (K,)
    lacking = short > 0
    room = np.minimum(spread - low, high - spread)[lacking]
    return float((short[lacking] / (short[lacking] + room)).max(initial=0.0))


def gave_up(margin: float) -> str:
    """What is noted of a policy that was connected."""
    return f"about {margin:.0e} of the gain was given up {CONNECTED}"


def pull_within(problem: Problem | DeviceProblem, room: Floats, shares: Floats) -> float:
    """How much of an occupancy with these shares may be mixed in where each quota is met with some room."""
    short = np.maximum(problem.at_least - shares, shares - problem.at_most)
    lacking = short > 0
    # What it lacks must fit into half of the room; the other half is for the proof.
    most = float((room[lacking] / (room[lacking] + short[lacking])).min(initial=1.0))
    return min(float(room.max(initial=_MARGINS[0])), most / 2)


def _connected(lp: FlowLP, problem: Problem, room: Floats, spread: Floats | None) -> Floats | None:
    """Best occupancy that stays fair when some of `spread` is mixed in, mixed; None if there is none."""
    lower = np.where(problem.at_least > 0, np.minimum(problem.at_least + room, 1), 0)
    upper = np.where(problem.at_most < 1, np.maximum(problem.at_most - room, 0), 1)
    if (lower > upper).any():
        return None
    for k in range(problem.n_quotas):
        lp.set_quota(k, lower[k], upper[k])
    answer = lp.run()
    if answer is None or spread is None:
        return None if answer is None else answer.x
    pull = pull_within(problem, room, problem.members @ spread)
    return (1 - pull) * answer.x + pull * spread


def _timed(counters: Mapping[str, float], start: float) -> dict[str, float]:
    return {**counters, "seconds": time.perf_counter() - start}
