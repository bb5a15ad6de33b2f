"""How fair can it be: the largest share that every group can have at once, and what that would cost."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from fairmdp.backends.flow_lp import Answer, FlowLP
from fairmdp.certificate import rounded
from fairmdp.certificate.restated import by_uniform_steps
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Note, Remark, Solution, Status
from fairmdp.solvers.lp import solve_lp

_MARGIN = 1e-12  # share by which the common level is lowered, so that rounding leaves a policy
_NEXT_TO_NOTHING = 1e-300  # a bound that only makes a row of a quota, and a price on it one that counts
_PRICED = 1e-7  # a group with a smaller price does not hold the level down


@by_uniform_steps
def solve_max_min(problem: Problem, *, leximin: bool = False, tol: float = 1e-6) -> Solution:
    """Serve the worst-off group as well as any policy can, and earn the most while doing so.

    Parameters
    ----------
    problem
        Its quotas name the groups; what they ask for is set aside. Quotas with weights are no groups: they
        have to be met.
    leximin
        Go on: once the worst-off groups cannot be helped any further, help the next, and so on.
    tol
        As for `solve_lp`.

    Returns
    -------
    Solution
        A solution of the same problem with the shares found as ``at_least``; its ``problem`` digest is that
        of ``problem.with_bounds(solution.at_least, ...)``.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> even = solve_max_min(scenarios.three_state())
    >>> even.shares.round(4), round(even.gain, 4)
    (array([0.3333, 0.3333, 0.3333]), 0.4)
    """
    groups = ~problem.weighted
    if not groups.any():
        raise ProblemError("there are no groups: name them as quotas, with at_least=0 if nothing is owed")
    began = time.perf_counter()
    problem = problem.with_bounds(
        np.where(groups, 0.0, problem.at_least), np.where(groups, 1.0, problem.at_most)
    )
    open_groups = groups
    at_least = problem.at_least.copy()
    limit = math.nan
    while open_groups.any():
        answer = _common_level(problem, at_least, open_groups)
        at_least[open_groups] = answer.extra[0]
        if math.isnan(limit):
            limit = _proven_limit(problem, groups, answer)
        if not leximin:
            break
        holding = open_groups & (answer.mu > _PRICED)
        open_groups = open_groups & ~holding if holding.any() else np.zeros_like(groups)
    asked = problem.with_bounds(np.where(groups, np.maximum(at_least - _MARGIN, 0.0), at_least))
    solution = solve_lp(asked, tol=tol)
    if solution.status is Status.INFEASIBLE:
        raise AssertionError("shares that some policy has cannot be infeasible")
    return replace(
        solution,
        method="leximin" if leximin else "max-min",
        counters={**solution.counters, "seconds": time.perf_counter() - began},
        notes=(*solution.notes, Note(Remark.BEST_LEAST_SHARE, limit)),
    )


def _common_level(problem: Problem, fixed: Floats, open_groups: Bools) -> Answer:
    """Raise t as far as all open groups can have it while the others keep what is fixed."""
    # Rows G x - t >= 0 of the open groups.
    asked = problem.with_bounds(np.where(open_groups, _NEXT_TO_NOTHING, fixed))
    column = csr_array(-open_groups.astype(float)[None, :])
    answer = FlowLP(asked, np.zeros(problem.mdp.n_pairs), extra=column, c_extra=np.ones(1)).run()
    if answer is None:  # what is fixed for groups was found by the last level
        raise ProblemError("the quotas with weights cannot be met; see solve() for the reason")
    return answer


def _proven_limit(problem: Problem, groups: Bools, answer: Answer) -> float:
    """Proven bound on the share that all groups can have at once: a weighted mean is at least the least."""
    mu = np.where(groups, np.maximum(answer.mu, 0.0), answer.mu)
    asked = problem.with_bounds(
        np.where(groups, np.maximum(problem.at_least, _NEXT_TO_NOTHING), problem.at_least)
    )
    return rounded.ceiling(asked, np.zeros(problem.mdp.n_pairs), answer.h, mu) / float(mu[groups].sum())
