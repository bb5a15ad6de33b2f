"""One component by itself: its best fair policy, what bounds it, or a proof that it has none.

Inside a component the uniform policy is connected, so that whatever works for a model with one component
works here. Quotas of which nothing counts in a component are settled at once: if they owe any, it is out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fairmdp.backends.flow_lp import FlowLP
from fairmdp.certificate import rounded
from fairmdp.certificate.claim import certify_policy
from fairmdp.certificate.facts import FAIR_TOL
from fairmdp.chains.chain import Chain
from fairmdp.chains.policy import best_pairs, policy_of
from fairmdp.deadline import Deadline
from fairmdp.model.checks import Floats, Ints, ReadOnly
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Note, Solution, Status
from fairmdp.solvers.connect import repair
from fairmdp.solvers.infeasible import Programs, Witness, ceiling_at_rest

Solve = Callable[[Problem], Solution]

_FAIR = (Status.OPTIMAL, Status.FEASIBLE)


@dataclass(frozen=True, eq=False)
class Part(ReadOnly):
    """What is known of a component.

    Attributes
    ----------
    policy
        Probability of its pairs, or None where none was found to be fair.
    gain
        What that earns; -inf where there is none.
    upper
        What no fair policy exceeds; -inf where there is none for certain.
    bias, prices
        Witness of `upper`, or where that is -inf that no policy is fair, (states,) and (K,).
    notes
        What is to be said of the policy.
    in_the_limit
        Whether policies may come as near to the quotas as one likes, and none was found to meet them.
    taken_on_trust
        Whether the policy's own chain is yet to be looked at: a program says what it earns and gives.
    """

    policy: Floats | None
    gain: float
    upper: float
    bias: Floats
    prices: Floats
    notes: tuple[Note, ...] = ()
    in_the_limit: bool = False
    taken_on_trust: bool = False


@dataclass(frozen=True)
class Tuning:
    """Sizes at which a component is solved another way."""

    lp_pairs: int = 1500  # up to here a linear program is done before others are compiled


USUAL = Tuning()


def owed_in_every_run(problem: Problem) -> Ints:
    """Quotas that every run has to meet by itself."""
    asks = (problem.at_least > 0) | (problem.at_most < 1)
    return np.flatnonzero(asks & ~problem.expected)


def solve_part(
    problem: Problem,
    states: Ints,
    pairs: Ints,
    tol: float,
    solve: Solve,
    tuning: Tuning = USUAL,
    patience: float | None = None,
    trust: bool = False,
    bias: Floats | None = None,
) -> Part:
    """Solve what is owed in every run on one component; relative values of its states help to begin."""
    owed = owed_in_every_run(problem)
    empty = np.diff(problem.counted(pairs).indptr)[owed] == 0
    lacking = owed[empty & (problem.at_least[owed] > 0)]
    if lacking.size:
        return _none(states.size, _unit(problem.n_quotas, int(lacking[0])))
    kept = owed[~empty]
    if pairs.size == states.size == 1:
        return _alone(problem, int(pairs[0]), kept)
    part = problem.within(states, pairs, kept)
    if kept.size == 0 or pairs.size > tuning.lp_pairs:
        return _spread(problem, kept, _read(part, solve(part)))
    return _spread(problem, kept, _by_program(part, tol, patience, trust, bias))


def _alone(problem: Problem, pair: int, kept: Ints) -> Part:
    """A state that is never left, by one pair."""
    shares = problem.members[kept][:, [pair]].toarray()[:, 0]
    short = shares < problem.at_least[kept] - FAIR_TOL
    over = shares > problem.at_most[kept] + FAIR_TOL
    r = float(problem.mdp.r[pair])
    if not (short | over).any():
        return Part(np.ones(1), r, r, np.zeros(1), np.zeros(problem.n_quotas))
    j = int(np.argmax(short | over))
    return _none(1, _unit(problem.n_quotas, int(kept[j]), 1.0 if short[j] else -1.0))


def _by_program(part: Problem, tol: float, patience: float | None, trust: bool, bias: Floats | None) -> Part:
    """A small component, by a linear program."""
    program = FlowLP(part, part.mdp.r)
    if bias is not None:
        program.start_from_policy(best_pairs(part.mdp, part.mdp.r + part.mdp.P @ bias))
    answer = program.run()
    if answer is None:
        witness = Programs(part).elastic(range(part.n_quotas))
        if ceiling_at_rest(part, witness) < 0:
            return _none(part.mdp.n_states, witness.mu, witness.h)
        return Part(None, -np.inf, np.inf, np.zeros(part.mdp.n_states), np.zeros(part.n_quotas))
    policy = policy_of(part.mdp, answer.x)
    if trust and len(Chain.of(part.mdp, policy).closed_classes) == 1:
        upper = rounded.ceiling(part, part.mdp.r, answer.h, answer.mu)
        return Part(policy, answer.objective, upper, answer.h, answer.mu, taken_on_trust=True)
    found = certify_policy(part, policy, answer.h, answer.mu, tol=tol, method="lp")
    if found.status is not Status.OPTIMAL:
        found = repair(part, found, start=time.perf_counter(), deadline=Deadline(None), patience=patience)
    return _read(part, found)


def _read(part: Problem, found: Solution) -> Part:
    """What a solution says of a component."""
    if not found.has_policy or ceiling_at_rest(part, Witness(found.bias, found.prices)) < 0:
        return _none(part.mdp.n_states, found.prices, found.bias)
    fair = found.status in _FAIR
    policy, gain = (found.policy, found.gain) if fair else (None, -np.inf)
    return Part(policy, gain, found.upper, found.bias, found.prices, found.notes, not fair)


def _none(n_states: int, prices: Floats, bias: Floats | None = None) -> Part:
    """A component without a fair policy."""
    return Part(None, -np.inf, -np.inf, np.zeros(n_states) if bias is None else bias, prices)


def _spread(problem: Problem, kept: Ints, part: Part) -> Part:
    """The same with prices of all quotas, (K,)."""
    prices = np.zeros(problem.n_quotas)
    prices[kept] = part.prices
    return replace(part, prices=prices)


def _unit(size: int, k: int, value: float = 1.0) -> Floats:
    prices = np.zeros(size)
    prices[k] = value
    return prices
