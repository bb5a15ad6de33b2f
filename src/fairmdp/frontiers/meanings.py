"""The two meanings of a quota beside each other: met by every run, or by the mean over runs."""

from __future__ import annotations

from fairmdp.chains.components import components_of
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Solution, Status
from fairmdp.solvers.auto import solve

MOST_PAIRS = 20_000
"""Size up to which the other meaning is solved for unasked."""


def other_meaning(
    problem: Problem, solution: Solution, *, tol: float = 1e-6, most_pairs: int = MOST_PAIRS
) -> Solution | None:
    """Solve a problem with its quotas meant the other way, where that may make a difference.

    Where runs can end differently, quotas that every run has to meet are asked of the mean over runs
    instead; if some are of the mean already, all of them are asked of every run.

    Parameters
    ----------
    problem, solution
        What was asked, and what was found.
    tol
        As for `solve`.
    most_pairs
        Size up to which this is done.

    Returns
    -------
    Solution or None
        None where both mean the same, where nothing says where runs start, which a mean over runs depends
        on, where what is impossible for the mean is impossible for every run, and for larger models.
    """
    asks = (problem.at_least > 0) | (problem.at_most < 1)
    in_mean = bool((asks & problem.expected).any())
    if solution.ends is None or not asks.any() or problem.mdp.n_pairs > most_pairs:
        return None
    if in_mean and solution.status is Status.INFEASIBLE:
        return None
    if not in_mean and (problem.mdp.initial is None or components_of(problem.mdp).count == 1):
        return None
    return solve(problem.with_meaning(expected=not in_mean), tol=tol)
