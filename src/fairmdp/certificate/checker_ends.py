"""Check what a solution says of runs from the start: witnesses that fit, and claims about where runs end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from fairmdp.certificate import conditions
from fairmdp.certificate.claim_ends import prices_of
from fairmdp.certificate.ends import of_every_run, shown_prices
from fairmdp.certificate.facts import CLAIM_TOL, reward_scale
from fairmdp.certificate.law import IN_THE_MEAN, Law, candidates
from fairmdp.chains.chain import Chain
from fairmdp.model.checks import Floats
from fairmdp.model.problem import Problem
from fairmdp.solution.ends import MOST_SHOWN, End, Ends
from fairmdp.solution.solution import Solution, Status


class StartArithmetic(Protocol):
    """The facts about runs from the start, in some arithmetic."""

    def ceiling(self, problem: Problem, r: Floats, bias: Floats, prices: Floats, ends: Ends) -> float: ...

    def law(
        self, problem: Problem, policies: Floats, weights: Floats | None, guess: Floats | None
    ) -> Law: ...


@dataclass(frozen=True)
class FromStart:
    """The two facts of the certificate, about runs from the start as a solution tells of them."""

    facts: StartArithmetic
    ends: Ends
    guess: Floats  # what it says of where the time goes

    def ceiling(self, problem: Problem, r: Floats, bias: Floats, prices: Floats) -> float:
        """Proven upper bound on what runs from the start earn that meet the quotas."""
        return self.facts.ceiling(problem, r, bias, prices, self.ends)

    def long_run(self, problem: Problem, policy: Floats, chain: Chain | None = None) -> Law:
        """Proven intervals for runs from the start."""
        policies = policy if self.ends.policies is None else self.ends.policies
        return self.facts.law(problem, policies, self.ends.weights, self.guess)


# --- whether the witnesses fit the problem ------------------------------------------------------------


def misfits(problem: Problem, solution: Solution) -> Iterator[str]:
    """Reasons why what a solution says of its ends cannot be looked at."""
    ends = solution.ends
    if ends is None:
        return
    S, K, label = problem.mdp.n_states, problem.n_quotas, ends.components
    if label.shape != (S,) or label.dtype.kind != "i" or not (label.min() >= -1 and 0 <= label.max() < S):
        yield f"components are not the numbers of {S} states' components, or -1"
        return
    for name in ("values", "moves"):
        if not _numbers(getattr(ends, name), (S,)):
            yield f"{name} are not {S} numbers"
    prices = ends.component_prices
    if not isinstance(prices, csr_array) or prices.shape != (K, int(label.max()) + 1) or not _finite(prices):
        yield "component_prices do not fit the quotas and components"
    if not solution.has_policy and (ends.policies is not None or ends.classes or ends.n_classes):
        yield "where no policy meets the quotas there is none whose runs end somewhere"
    yield from _unusable_policies(problem, solution, ends)
    if not all(_usable_end(problem, ends, end) for end in ends.classes):
        yield "the classes in which runs end are not told in numbers that fit the problem"


def _numbers(values: Floats, shape: tuple[int, ...]) -> bool:
    return values.shape == shape and bool(np.isfinite(values).all())


def _finite(prices: csr_array) -> bool:
    return bool(np.isfinite(prices.data).all())


def _unusable_policies(problem: Problem, solution: Solution, ends: Ends) -> Iterator[str]:
    weights, policies = ends.weights, ends.policies
    if weights is None or policies is None:
        if weights is not None or policies is not None:
            yield "weights and policies go together"
        return
    M = weights.size
    if M < 2 or not _numbers(weights, (M,)) or not _numbers(policies, (M, problem.mdp.n_pairs)):
        yield "weights and policies are not those of several policies"
    elif not (weights.min() > 0 and abs(weights.sum() - 1) <= CLAIM_TOL):
        yield f"the weights of the policies are no distribution: they sum to {weights.sum():.12g}"
    if not np.isnan(solution.policy).all():
        yield "one of several policies is drawn, and yet there is one policy"


def _usable_end(problem: Problem, ends: Ends, end: End) -> bool:
    count = 1 if ends.weights is None else ends.weights.size
    told = np.array([end.probability, end.gain])
    return (
        0 <= end.policy < count
        and end.states.ndim == 1
        and end.states.dtype.kind == "i"
        and end.states.size > 0
        and _numbers(end.shares, (problem.n_quotas,))
        and _numbers(told, (2,))
    )


# --- whether what it claims is so --------------------------------------------------------------------


def messages(problem: Problem, solution: Solution, run: Law, facts: FromStart, slip: float) -> Iterator[str]:
    """What is wrong with what a solution says of its policy's runs; a gain may be off by `slip`."""
    nu, x, (low, high) = solution.visitation, solution.occupancy, run.gain
    assert run.visitation is not None
    if run.flaw is not None:  # of estimates it can only be said that they are of one piece
        if solution.status is not Status.UNDECIDED:
            yield run.reason
        low = high = float(problem.mdp.rates @ x)
    off = max(np.abs(nu - run.visitation).sum(), np.abs(x - run.occupancy).sum()) - 2 * run.error
    if not (off <= CLAIM_TOL and nu.min() >= 0):
        yield "visitation and occupancy are not the long-run shares of time of the policy"
    if not low - slip <= solution.gain <= high + slip:
        yield f"the gain {solution.gain:.12g} is not the policy's: it lies in [{low:.12g}, {high:.12g}]"
    if run.flaw is None:
        sets = facts.long_run(conditions.sets(problem), solution.policy) if problem.conditions else None
        yield from _share_messages(problem, solution, run, sets)
        yield from _class_messages(problem, facts.ends, run, slip)


def _share_messages(problem: Problem, solution: Solution, run: Law, sets: Law | None) -> Iterator[str]:
    """What is wrong with shares, and with the mass of conditions, whose sets have intervals of their own."""
    of_quota = {condition.quota: j for j, condition in enumerate(problem.conditions)}
    for k in range(problem.n_quotas):
        wrong = ""
        for c in candidates(problem, run, k):
            low, high = run.shares[k].tolist() if c == IN_THE_MEAN else run.share(k, c)
            wrong = _off_share(problem, k, float(solution.shares[k]), low, high)
            if not wrong and sets is not None and k in of_quota:
                wrong = _off_condition(problem, solution, of_quota[k], sets, c)
            if not wrong:
                break
        if wrong:
            yield wrong


def _off_share(problem: Problem, k: int, share: float, low: float, high: float) -> str:
    if low - CLAIM_TOL <= share <= high + CLAIM_TOL:
        return ""
    name = problem.names[k]
    return f"the share {share:.12g} of quota {name} is not the policy's: it lies in [{low:.12g}, {high:.12g}]"


def _off_condition(problem: Problem, solution: Solution, j: int, sets: Law, c: int) -> str:
    of, within = (
        tuple(sets.shares[row].tolist()) if c == IN_THE_MEAN else sets.share(row, c)
        for row in (2 * j, 2 * j + 1)
    )
    return conditions.flaw(problem, solution, solution.conditions[j], of, within)


def _class_messages(problem: Problem, ends: Ends, run: Law, slip: float) -> Iterator[str]:
    """What is wrong with the classes that a solution tells of."""
    m, told, name = len(run.states), _numbers_of(ends, run), problem.mdp.state_name
    if ends.n_classes != m or len(told) != min(m, MOST_SHOWN):
        yield f"runs end in {m} closed classes, and it tells of {len(told)} of {ends.n_classes}"
    elif -1 in told or len(set(told)) < len(told):
        yield "the classes in which it says that runs end are not those of the policy"
    else:
        for end, c in zip(ends.classes, told, strict=True):
            if not _is_so(end, run, c, slip):
                yield f"what it says of the class of state {name(int(end.states[0]))} is not so"
        chances = [end.probability for end in ends.classes]
        beyond = np.delete(run.probabilities[:, 0], told).max(initial=0.0)
        if (np.diff(chances) > CLAIM_TOL).any() or beyond > chances[-1] + CLAIM_TOL:
            yield "the classes that it tells of are not the most probable ones, in their order"


def _numbers_of(ends: Ends, run: Law) -> list[int]:
    """Which of the proven classes are told of, -1 for none of them."""
    classes = zip(run.policy_of.tolist(), run.states, strict=True)
    known = {(j, int(states[0])): c for c, (j, states) in enumerate(classes)}
    found = [known.get((end.policy, int(end.states[0])), -1) for end in ends.classes]
    return [
        c if c >= 0 and np.array_equal(end.states, run.states[c]) else -1
        for end, c in zip(ends.classes, found, strict=True)
    ]


def _is_so(end: End, run: Law, c: int, slip: float) -> bool:
    low, high = (ends[:, [c]].toarray()[:, 0] for ends in (run.low, run.high))
    return (
        _near(end.probability, run.probabilities[c], CLAIM_TOL)
        and _near(end.gain, run.gains[c], slip)
        and bool((end.shares >= low - CLAIM_TOL).all() and (end.shares <= high + CLAIM_TOL).all())
    )


def _near(claimed: float, proved: Floats, slip: float) -> bool:
    return bool(proved[0] - slip <= claimed <= proved[1] + slip)


def price_messages(problem: Problem, solution: Solution, run: Law | None) -> Iterator[str]:
    """What is wrong with the prices of quotas that every run must meet."""
    ends = solution.ends
    assert ends is not None
    own = csr_array(ends.component_prices)
    charged = of_every_run(problem, ends)
    if (own - charged).count_nonzero():
        yield "a component price is on a bound that every policy meets, or on a quota on the mean"
    if solution.has_policy and run is None:
        return
    mu = solution.prices
    shown = shown_prices(problem, mu, ends) if run is None else prices_of(problem, mu, ends, run)
    unit = reward_scale(problem) + float(np.abs(own.data).max(initial=0.0))
    off = np.abs(mu - shown) > CLAIM_TOL * unit
    if off.any():
        k = int(np.argmax(off))
        name = problem.names[k]
        yield f"the price {mu[k]:.12g} of quota {name} is not that of its components, {shown[k]:.12g}"
