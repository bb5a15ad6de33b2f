"""What the long run of a policy may be: one outcome, or one for each closed class that a run may end in.

In a closed class ``C`` the chain is that of a smaller model: the states of ``C`` with the pairs that the
policy uses there, none of which leaves it. So the certificate for one closed class proves each of several.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairmdp.certificate import rounded, rounded_ends
from fairmdp.certificate.course import course_of
from fairmdp.certificate.facts import LongRun
from fairmdp.chains.chain import Chain
from fairmdp.model.checks import Floats, Ints, ReadOnly
from fairmdp.model.conditional import VOID, Condition
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.rows import PlainRows
from fairmdp.policy.policy import Policy


@dataclass(frozen=True, eq=False)
class Outcome(ReadOnly):
    """What one run may come to, proved.

    Attributes
    ----------
    part : int
        Which of the policies of a mixture the run follows; 0 of a policy that is none.
    states : ndarray
        The closed class in which it ends, numbers of states.
    chance : float
        How likely that is from the model's ``initial``, or from all states alike where it has none; an
        estimate.
    gain : tuple of float
        Interval that contains the long-run average reward.
    shares : ndarray
        Interval that contains the share of each quota's set, (K, 2).
    values : ndarray
        The same in what the quotas were stated in: shares, means of weights, parts of a condition, (K, 2).
    flaw : str
        Why nothing could be proved, or nothing.
    """

    part: int
    states: Ints
    chance: float
    gain: tuple[float, float]
    shares: Floats
    values: Floats
    flaw: str = ""


def outcomes(problem: Problem, policy: Policy) -> tuple[Outcome, ...]:
    """Return what a run of a policy may come to from where the model starts, the likeliest first."""
    found = [
        outcome
        for m, pi in enumerate(policy.parts)
        for outcome in _of_part(problem, pi, m, float(policy.weights[m]))
    ]
    return tuple(sorted(found, key=lambda outcome: -outcome.chance))


def mean_outcome(problem: Problem, policy: Policy) -> Outcome:
    """Return what runs come to in the mean: gain, and shares of quotas on the mean over runs."""
    run = rounded_ends.law(problem, policy.parts, policy.weights if policy.is_mixture else None)
    return _outcome(problem, run, 0, np.unique(np.concatenate(run.states)), 1.0)


def occupancy(problem: Problem, policy: Policy) -> Floats:
    """Expected long-run share of time of each pair, (SA,), over what a run may come to; an estimate."""
    mdp = problem.mdp
    x = np.zeros(mdp.n_pairs)
    for pi, weight in zip(policy.parts, policy.weights, strict=True):
        chain = Chain.of(mdp, pi)
        nu = chain.shares if len(chain.closed_classes) == 1 else chain.shares_from(_initial(mdp))
        x += weight * mdp.per_step(pi) * nu[mdp.s_of]
    return x


def _of_part(problem: Problem, pi: Floats, part: int, weight: float) -> Iterator[Outcome]:
    chain = Chain.of(problem.mdp, pi)
    classes = chain.closed_classes
    if len(classes) == 1:
        run = rounded.long_run(problem, pi, chain)
        yield _outcome(problem, run, part, classes[0], weight)
        return
    entered = chain.shares_from(_initial(problem.mdp))
    if problem.mdp.initial is not None:
        reached = course_of(problem.mdp, pi).gate >= 0
        classes = tuple(states for states in classes if reached[states[0]])
    for states in classes:
        run = _within(problem, pi, states)
        yield _outcome(problem, run, part, states, weight * float(entered[states].sum()))


def _within(problem: Problem, pi: Floats, states: Ints) -> LongRun:
    """What is proved of a policy where it never leaves some states again."""
    mdp = problem.mdp
    number = np.full(mdp.n_states, -1)
    number[states] = np.arange(states.size)
    pairs = np.flatnonzero((number[mdp.s_of] >= 0) & (pi > 0))
    durations = None if mdp.durations is None else mdp.durations[pairs]
    small = MDP(mdp.P[pairs][:, states], mdp.r[pairs], number[mdp.s_of[pairs]], durations=durations)
    members = problem.members[:, pairs]
    members.eliminate_zeros()
    counted = np.flatnonzero(np.diff(members.indptr))  # a quota that counts nothing here has no share
    rows = PlainRows(small, members[counted], problem.at_least[counted], problem.at_most[counted])
    run = rounded.long_run(rows, pi[pairs])
    shares = np.zeros((problem.n_quotas, 2))
    shares[counted] = run.shares
    visitation = np.zeros(mdp.n_states)
    if run.visitation is not None:
        visitation[states] = run.visitation
    return LongRun(run.gain, shares, run.error, run.flaw, visitation)


def _outcome(problem: Problem, run: LongRun, part: int, states: Ints, chance: float) -> Outcome:
    values = problem.units.values(run.shares.T).T
    for condition in problem.conditions:
        k = condition.quota
        values[k] = _parts(condition, values[k], problem.mdp.s_of, run)
    return Outcome(part, states, chance, run.gain, run.shares, values, run.reason)


def _parts(condition: Condition, means: Floats, s_of: Ints, run: LongRun) -> list[float]:
    """Ends of the part of a condition's time, from those of the mean of its weights; NaN where it is void."""
    if run.visitation is None:
        return [0.0, 1.0]
    mass = float(run.visitation[np.unique(s_of[condition.of])].sum())
    least, most = max(mass - run.error, 0.0), mass + run.error
    if most <= VOID:
        return [math.nan, math.nan]
    over = [least if outward else most for outward in (means[0] < 0, means[1] > 0)]
    ends = [m / mass if mass > 0 else math.copysign(math.inf, m) for m, mass in zip(means, over, strict=True)]
    return [min(max(condition.bound + end, 0.0), 1.0) for end in ends]


def _initial(mdp: MDP) -> Floats:
    return np.full(mdp.n_states, 1 / mdp.n_states) if mdp.initial is None else mdp.initial
