"""What a policy earns from each start, where that makes a difference."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairmdp.certificate import rounded_ends
from fairmdp.certificate.course import course_of
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Ints, refuse
from fairmdp.model.problem import Problem
from fairmdp.policy.policy import Policy

MOST_STARTS = 200
"""Kinds of starts that are told apart, at most."""


class GainFrom(NamedTuple):
    """What runs earn that start in some states: an interval that is proved to contain it."""

    states: Ints
    gain: tuple[float, float]


def gains_by_start(problem: Problem, policy: Any, *, most: int = MOST_STARTS) -> tuple[GainFrom, ...]:
    """Return what a policy earns in the long run from each start, the highest gain first.

    States from which runs end in the same way, whatever happens before, are told together.

    Parameters
    ----------
    problem
        The model; where it starts does not matter.
    policy
        What `Policy.of` takes; no mixture, which is drawn for one start.
    most
        How many kinds of starts are told apart.

    Raises
    ------
    ProblemError
        There are more kinds of starts, or the gain from one cannot be proved.

    Examples
    --------
    >>> from fairmdp import MDP, solve
    >>> coin = MDP([[0, 0.5, 0.5], [0, 1, 0], [0, 0, 1]], [0.0, 1.0, 3.0], [0, 1, 2])
    >>> problem = Problem(coin)
    >>> for found in gains_by_start(problem, solve(problem)):
    ...     print(found.states, round(found.gain[0], 9))
    [2] 3.0
    [0] 2.0
    [1] 1.0
    """
    pi = Policy.of(problem, policy).array
    anywhere = problem.with_mdp(problem.mdp.with_initial(None))
    gate = course_of(anywhere.mdp, pi).gate
    kinds, first = np.unique(gate, return_index=True)
    if kinds.size > most:
        refuse(
            f"runs from {kinds.size:,} kinds of starts end differently",
            f"up to {most} are told apart",
            "evaluate the policy from one: problem.with_mdp(mdp.with_initial(state))",
        )
    found = []
    for kind, s in zip(kinds.tolist(), first.tolist(), strict=True):
        start = np.eye(1, gate.size, s)[0]
        run = rounded_ends.law(problem.with_mdp(problem.mdp.with_initial(start)), pi)
        if run.flaw is not None:
            where = problem.mdp.state_name(s)
            raise ProblemError(f"the gain from state {where} cannot be proved: {run.reason}")
        found.append(GainFrom(np.flatnonzero(gate == kind), run.gain))
    return tuple(sorted(found, key=lambda one: -one.gain[0]))
