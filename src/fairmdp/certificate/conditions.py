"""What a solution says of the parts of conditional quotas, against intervals that are proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fairmdp.certificate.facts import CLAIM_TOL, LongRun
from fairmdp.model.checks import Floats
from fairmdp.model.conditional import VOID, ConditionalShare
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.solution.solution import Solution

_EPS = float(np.finfo(float).eps)


def misfits(problem: Problem, solution: Solution) -> Iterator[str]:
    """Whether a solution speaks of the conditions that were stated."""
    stated = [(c.quota, c.bound, c.least) for c in problem.conditions]
    if [(c.quota, c.bound, c.least) for c in solution.conditions] != stated:
        yield "its conditions are not those of the problem's quotas"


def messages(
    problem: Problem, solution: Solution, long_run: Callable[[Problem, Floats, Any], LongRun], chain: Any
) -> Iterator[str]:
    """What is wrong with the parts that a solution claims, if its policy's long run can be proved."""
    if not problem.conditions:
        return
    run = long_run(sets(problem), solution.policy, chain)
    if run.flaw is not None:
        return
    ends = run.shares.reshape(-1, 2, 2)  # (conditions, of and within, low and high)
    for share, (of, within) in zip(solution.conditions, ends, strict=True):
        wrong = flaw(problem, solution, share, of, within)
        if wrong:
            yield wrong


def flaw(
    problem: Problem,
    solution: Solution,
    share: ConditionalShare,
    of: Sequence[float],
    within: Sequence[float],
) -> str:
    """What is wrong with one part, or nothing, where these are the ends of its two intervals."""
    name, slip = problem.names[share.quota], CLAIM_TOL * share.mass
    if not of[0] - slip - _EPS <= share.mass <= of[1] + slip + _EPS:
        return f"the condition of quota {name} is not met {share.mass:.12g} of the time: it lies in {of}"
    if share.void:
        return ""
    low, high = within[0] / of[1], within[1] / max(of[0], VOID)
    slip = CLAIM_TOL + 8 * _EPS / share.mass
    part = share.part(float(problem.units.values(solution.shares)[share.quota]))
    if low - slip <= part <= high + slip:
        return ""
    return f"the part {part:.12g} of quota {name} is not the policy's: [{low:.12g}, {high:.12g}]"


def sets(problem: Problem) -> Problem:
    """For each condition its states, and what of them is in the set, as quotas that ask for nothing."""
    quotas = [
        Quota(f"{what} {c.quota}", pairs=pairs, at_least=0.0)
        for c in problem.conditions
        for what, pairs in (("of", c.of), ("within", c.within))
    ]
    return Problem(problem.mdp, quotas)
