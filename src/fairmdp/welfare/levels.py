"""The most that all groups can have at once where runs may end differently.

A proof that a level is too much rules out all levels down to another one, as its ceiling is a function of the
level (`certificate.rounded_ends`). Such steps lead down from 1 to a level that is met.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fairmdp.certificate import rounded_ends
from fairmdp.model.checks import Bools, Floats
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Solution, Status

Answer = Callable[[Problem], Solution]

_MARGIN = 1e-12  # share by which a level stays below what is ruled out, so that rounding leaves a policy
_ROOM = 1e-8  # the same where an optimum has to be proved
_NEAR = 3e-9  # distance at which a level that is met and one that is not are the same
_HALVINGS = 50
_MORE = 1e-6  # share by which a group has to gain before it counts as one that can have more
_MET = (Status.OPTIMAL, Status.FEASIBLE)


class Level(NamedTuple):
    """What some groups can all have."""

    value: float
    limit: float  # which is proved to be too much, or all of the time
    solution: Solution  # of largest gain in which they have it


def common_level(problem: Problem, groups: Bools, answer: Answer, guess: float = 1.0) -> Level | None:
    """Return the largest share that groups can all have beside other quotas; None if these cannot be met.

    A guess that is right needs three answers.
    """

    def asked(level: float) -> Problem:
        return problem.with_bounds(np.where(groups, level, problem.at_least))

    best = answer(asked(0.0))
    if best.status not in _MET:
        return None
    low, beyond, limit = 0.0, 1.0, 1.0  # what is met, what is not known to be, what is known not to be
    guesses = [value for value in (guess + _NEAR / 2, guess - _MARGIN) if 0 < value < 1] or [1.0]
    level = guesses.pop()
    while beyond - low > _NEAR:
        found, width = answer(asked(level)), beyond - low
        if found.status in _MET:
            low, best = level, found
        else:
            if found.status is Status.INFEASIBLE:
                limit = min(limit, _ruled_out(asked, found, low, level))
            beyond = min(level, limit)
        # Proofs lead down to the level itself where they lead far; halving gets there in any case.
        far = found.status is Status.INFEASIBLE and beyond - low < width / 2
        level = max(beyond - _MARGIN, low) if far else (low + beyond) / 2
        if guesses and low < guesses[0] < beyond:
            level = guesses.pop()
    if best.status is Status.FEASIBLE and low > 0:  # at the very edge the gain is hard to prove
        level = max(low - _ROOM, 0.0)
        away = answer(asked(level))
        if away.status is Status.OPTIMAL:
            low, best = level, away
    return Level(low, limit, best)


def leximin_levels(problem: Problem, groups: Bools, answer: Answer) -> tuple[Level, Level] | None:
    """Return the first level and the last one; None as for `common_level`.

    Once the groups cannot all have more, those that can while the others keep theirs go on.
    """
    least, open_ = problem.at_least.copy(), groups.copy()
    first = level = common_level(problem, groups, answer)
    while level is not None and first is not None:
        least[open_] = level.value
        stuck = [k for k in np.flatnonzero(open_).tolist() if not _can_have_more(problem, least, k, answer)]
        open_[stuck if stuck else slice(None)] = False
        if not open_.any():
            return first, level
        level = common_level(problem.with_bounds(least), open_, answer)
    return None


def _can_have_more(problem: Problem, least: Floats, k: int, answer: Answer) -> bool:
    owed = np.maximum(least - _NEAR, 0.0)
    owed[k] = min(least[k] + _MORE, 1.0)
    return least[k] < owed[k] and answer(problem.with_bounds(owed)).status in _MET


def _ruled_out(asked: Callable[[float], Problem], proof: Solution, low: float, level: float) -> float:
    """Smallest level that a proof of another one rules out as well."""
    assert proof.ends is not None
    at_rest = np.zeros(proof.policy.size)

    def too_much(value: float) -> bool:
        ends = proof.ends
        assert ends is not None
        return rounded_ends.ceiling(asked(value), at_rest, proof.bias, proof.prices, ends) < 0

    if not too_much(level):
        return level
    for _ in range(_HALVINGS):
        middle = (low + level) / 2
        low, level = (low, middle) if too_much(middle) else (middle, level)
    return level
