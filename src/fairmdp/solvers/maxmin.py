"""How fair can it be: the largest share that every group can have at once, and what that would cost."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from fairmdp.certificate import rounded
from fairmdp.errors import ProblemError
from fairmdp.problem import Problem
from fairmdp.solution import Solution, Status
from fairmdp.solvers.flow_lp import Answer, FlowLP
from fairmdp.solvers.lp import solve_lp
from fairmdp.validation import Bools, Floats

_HAIR = 1e-12  # share by which the common level is lowered, so that rounding leaves a policy
_PRICED = 1e-7  # a group with a smaller price does not hold the level down


def solve_max_min(problem: Problem, *, leximin: bool = False, tol: float = 1e-6) -> Solution:
    """Serve the worst-off group as well as any policy can, and earn the most while doing so.

    Parameters
    ----------
    problem
        Its quotas name the groups; what they ask for is set aside.
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
    if problem.n_quotas == 0:
        raise ProblemError("there are no groups: name them as quotas, with at_least=0 if nothing is owed")
    began = time.perf_counter()
    open_groups = np.ones(problem.n_quotas, bool)
    at_least = np.zeros(problem.n_quotas)
    limit = None
    while open_groups.any():
        answer = _common_level(problem, at_least, open_groups)
        at_least[open_groups] = answer.extra[0]
        if limit is None:
            limit = _proven_limit(problem, answer)
        if not leximin:
            break
        holding = open_groups & (answer.mu > _PRICED)
        open_groups &= ~holding if holding.any() else False
    asked = problem.with_bounds(np.maximum(at_least - _HAIR, 0.0), np.ones(problem.n_quotas))
    solution = solve_lp(asked, tol=tol)
    if solution.status is Status.INFEASIBLE:
        raise AssertionError("shares that some policy has cannot be infeasible")
    kind = "leximin" if leximin else "max-min"
    return replace(
        solution,
        method=f"{kind}: {solution.method}",
        counters={**solution.counters, "seconds": time.perf_counter() - began},
        notes=(*solution.notes, f"no policy gives every group more than {limit:.9g}"),
    )


def _common_level(problem: Problem, fixed: Floats, open_groups: Bools) -> Answer:
    """Raise t as far as all open groups can have it while the others keep what is fixed."""
    # Rows G x - t >= 0 of the open groups; the tiny bound only makes them rows.
    asked = problem.with_bounds(np.where(open_groups, 1e-300, fixed), np.ones(problem.n_quotas))
    column = csr_array(-open_groups.astype(float)[None, :])
    return FlowLP(asked, np.zeros(problem.mdp.n_pairs), extra=column, c_extra=np.ones(1)).find()


def _proven_limit(problem: Problem, answer: Answer) -> float:
    """Proven bound on the share that all groups can have at once: a weighted mean is at least the least."""
    mu = np.maximum(answer.mu, 0.0)
    nothing_owed = problem.with_bounds(np.zeros(problem.n_quotas), np.ones(problem.n_quotas))
    return rounded.ceiling(nothing_owed, np.zeros(problem.mdp.n_pairs), answer.h, mu) / float(mu.sum())
