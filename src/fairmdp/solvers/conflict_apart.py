"""Why quotas cannot be met on a model that falls apart, and which one would have to give way.

Every proposal is solved once more before it is made. What a quota can have beside the others is known:
one of the mean by one program, one of every run by its best in each component and by which of these can
surely be reached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fairmdp.chains.components import Components
from fairmdp.model.checks import Floats
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Infeasibility, Solution, Status
from fairmdp.solvers.parts import Solve, solve_part
from fairmdp.solvers.quotient import Quotient
from fairmdp.solvers.split import groups

Answer = Callable[[Problem], Solution]

_ROOMS = (0.0, 1e-9, 1e-6, 1e-4)  # by which a proposal may stay away from the edge of what can be met
_DIGITS = 1e9  # proposals are rounded to this many parts, towards what can be met
_MET = (Status.OPTIMAL, Status.FEASIBLE)


@dataclass(frozen=True)
class Tuning:
    """Up to which sizes a reason is looked for, as each question is a solve."""

    pairs: int = 2000
    quotas: int = 12
    components: int = 200


USUAL = Tuning()


def explained(
    problem: Problem,
    found: Components,
    proof: Solution,
    answer: Answer,
    solve: Solve,
    tuning: Tuning = USUAL,
) -> Solution:
    """Return the proof of a smallest conflict with what would mend it, or of large models the proof as it is.

    ``answer`` solves the problem with other bounds, ``solve`` a single component.
    """
    bounded = int(((problem.at_least > 0) | (problem.at_most < 1)).sum())
    if problem.mdp.n_pairs > tuning.pairs or bounded > tuning.quotas or found.count > tuning.components:
        return proof
    smallest = _smallest(problem, proof, answer)
    assert smallest.ends is not None
    conflict = _charged(smallest)
    nearest = _nearest(problem, found, conflict, answer, solve)
    S, K = problem.mdp.n_states, problem.n_quotas
    why = Infeasibility(
        tuple(conflict), np.zeros(0), np.zeros((0, S)), None, np.zeros(S), np.zeros(K), *nearest
    )
    same = {name: getattr(proof, name) for name in ("at_least", "at_most", "provenance", "counters")}
    return replace(smallest, infeasibility=why, **same)


def _charged(proof: Solution) -> list[int]:
    """Quotas that a proof charges."""
    assert proof.ends is not None
    each = abs(proof.ends.component_prices) @ np.ones(proof.ends.component_prices.shape[1])
    return [int(k) for k in np.flatnonzero((proof.prices != 0) | (each > 0))]


def _without(problem: Problem, dropped: set[int]) -> Problem:
    idle = np.isin(np.arange(problem.n_quotas), list(dropped))
    return problem.with_bounds(np.where(idle, 0, problem.at_least), np.where(idle, 1, problem.at_most))


def _smallest(problem: Problem, proof: Solution, answer: Answer) -> Solution:
    """Proof that charges as few quotas as dropping one after the other leaves."""
    needed: set[int] = set()
    while open_ := [k for k in _charged(proof) if k not in needed]:
        k = open_[0]
        others = set(range(problem.n_quotas)) - (set(_charged(proof)) - {k})
        fewer = answer(_without(problem, others))
        if fewer.status is Status.INFEASIBLE:
            proof = fewer
        else:
            needed.add(k)
    return proof


def _nearest(
    problem: Problem, found: Components, conflict: list[int], answer: Answer, solve: Solve
) -> tuple[Floats, Floats]:
    """Bounds of which one is moved, by as little as will do, and those given where none of them is enough."""
    best, given = (np.inf, problem.at_least, problem.at_most), (problem.at_least, problem.at_most)
    for k in conflict:
        for least in (True, False):
            bound = problem.at_least[k] if least else problem.at_most[k]
            if bound <= 0 if least else bound >= 1:
                continue
            most = reach(problem, found, k, least, answer, solve)
            if most is None or abs(most - bound) >= best[0]:
                continue
            for room in _ROOMS:
                moved = most - room if least else most + room
                rounded = np.floor(moved * _DIGITS) if least else np.ceil(moved * _DIGITS)
                low, high = given[0].copy(), given[1].copy()
                (low if least else high)[k] = np.clip(rounded / _DIGITS, 0.0, 1.0)
                if answer(problem.with_bounds(low, high)).status in _MET:
                    best = abs(most - bound), low, high
                    break
    return best[1], best[2]


def reach(
    problem: Problem, found: Components, k: int, least: bool, answer: Answer, solve: Solve
) -> float | None:
    """What a quota can have beside all others and its own other bound, or None where these cannot be met.

    Where others bound the mean over runs, one of every run may have less than that.
    """
    sign = 1.0 if least else -1.0
    counts = problem.members[[k]].toarray()[0]
    mdp = problem.mdp
    low, high = problem.at_least.copy(), problem.at_most.copy()
    (low if least else high)[k] = 0.0 if least else 1.0
    others = problem.with_bounds(low, high).with_mdp(MDP(mdp.P, sign * counts, mdp.s_of, initial=mdp.initial))
    if problem.expected[k]:
        best = answer(others)
        return sign * best.gain if best.status in _MET else None
    quotient = Quotient.of(mdp, found)
    states = groups(found.labels, found.count)
    pairs = groups(np.where(found.internal, found.labels[mdp.s_of], -1), found.count)
    parts = [solve_part(others, *inside, 1e-9, solve) for inside in zip(states, pairs, strict=True)]
    gains = np.append([part.gain for part in parts], np.full(found.n_nodes - found.count, -np.inf))
    for gain in np.unique(gains[gains > -np.inf])[::-1]:
        if quotient.sure(gains >= gain)[quotient.start > 0].all():
            return sign * float(gain)
    return None
