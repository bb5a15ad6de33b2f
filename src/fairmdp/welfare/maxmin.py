"""How fair can it be: the largest share that every group can have at once, and what that would cost."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from fairmdp.backends.ends_lp import EndsLP
from fairmdp.backends.flow_lp import Answer, FlowLP
from fairmdp.certificate import rounded
from fairmdp.certificate.restated import by_uniform_steps
from fairmdp.chains.components import Components
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats
from fairmdp.model.objectives import Leximin
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Note, Remark, Solution, Status
from fairmdp.solvers.apart import falls_apart
from fairmdp.solvers.auto import solve
from fairmdp.solvers.lp import solve_lp
from fairmdp.solvers.multichain import answer_apart
from fairmdp.solvers.quotient import Quotient
from fairmdp.solvers.request import Request
from fairmdp.solvers.split import groups as label_groups
from fairmdp.welfare.levels import common_level, leximin_levels
from fairmdp.welfare.solve import solve_welfare

_MARGIN = 1e-12  # share by which the common level is lowered, so that rounding leaves a policy
_NEXT_TO_NOTHING = 1e-300  # a bound that only makes a row of a quota, and a price on it one that counts
_KEPT = 1e-11  # the same for what a policy has, whose shares are known to about as much
_PROGRAM_PAIRS = 6000  # up to here one program says what the groups have in the mean over runs
_OUT_OF_REACH = "the quotas with weights cannot be met; see solve() for the reason"


@by_uniform_steps
def solve_max_min(problem: Problem, *, leximin: bool = False, tol: float = 1e-6) -> Solution:
    """Serve the worst-off group as well as any policy can, and earn the most while doing so.

    Parameters
    ----------
    problem
        Its quotas name the groups; what they ask for is set aside. Quotas with weights are no groups: they
        have to be met. Where runs may end differently, each group is to have the share in every run, or in
        the mean over runs, as its quota says.
    leximin
        Go on: once the worst-off groups cannot be helped any further, help the next, and so on. The answer of
        ``solve_welfare(problem, leximin())`` has a proof of every level; this one is of what the gain can be.
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
    problem = problem.with_sets_unbounded()
    found = falls_apart(problem)
    if found is None:
        least, limit = (_leximin_shares if leximin else _common_share)(problem, groups, tol)
        solution = solve_lp(problem.with_bounds(np.where(groups, least, problem.at_least)), tol=tol)
        if solution.status is Status.INFEASIBLE:
            raise AssertionError("shares that some policy has cannot be infeasible")
    else:
        solution, limit = _apart(problem, groups, found, tol, leximin=leximin)
    return replace(
        solution,
        method="leximin" if leximin else "max-min",
        counters={**solution.counters, "seconds": time.perf_counter() - began},
        notes=(*solution.notes, Note(Remark.BEST_LEAST_SHARE, limit)),
    )


def _apart(
    problem: Problem, groups: Bools, found: Components, tol: float, *, leximin: bool
) -> tuple[Solution, float]:
    """The same where runs may end differently: in every run, or in the mean, as each quota is meant."""
    request = Request.of(tol, None, None, None)
    answer = partial(answer_apart, found=found, request=request, solve=partial(solve, tol=tol))
    if leximin and found.count > 1 and not problem.expected[groups].all():
        raise ProblemError(
            "shares of every run have no levels where runs may end differently: to help a group may mean to"
            " end elsewhere\n  let quotas bound the mean over runs (expected = true), or leave out leximin"
        )
    if leximin:
        levels = leximin_levels(problem, groups, answer)
        first, last = (None, None) if levels is None else levels
    else:
        first = last = common_level(problem, groups, answer, _guessed(problem, groups, found))
    if first is None or last is None:
        raise ProblemError(_OUT_OF_REACH)
    return last.solution, first.limit


def _guessed(problem: Problem, groups: Bools, found: Components) -> float:
    """What all groups can probably have: 1 where there is no short way to know."""
    if not problem.expected.any():
        return _level_in_every_run(problem, groups, found)
    if problem.mdp.n_pairs > _PROGRAM_PAIRS or not problem.expected[groups].all():
        return 1.0
    asked = problem.with_bounds(np.where(groups, _NEXT_TO_NOTHING, problem.at_least))
    lifted = EndsLP(asked, found, lifted=groups).run()
    return 1.0 if lifted is None else lifted.objective


def _level_in_every_run(problem: Problem, groups: Bools, found: Components) -> float:
    """What all groups can have in every run: the most with which runs can surely end, by each component's."""
    states = label_groups(found.labels, found.count)
    pairs = label_groups(np.where(found.internal, found.labels[problem.mdp.s_of], -1), found.count)
    levels = np.full(found.n_nodes, -np.inf)
    for c, inside in enumerate(zip(states, pairs, strict=True)):
        part = problem.within(*inside, np.arange(problem.n_quotas))
        least = _best_common(part, groups)
        levels[c] = -np.inf if least is None else max(float(least.extra[0]), 0.0)
    quotient = Quotient.of(problem.mdp, found)
    for level in np.unique(levels[levels > -np.inf])[::-1].tolist():
        if quotient.sure(levels >= level)[quotient.start > 0].all():
            return min(level, 1.0)
    return 0.0


def _leximin_shares(problem: Problem, groups: Bools, tol: float) -> tuple[Floats, float]:
    """What each group is to have, (K,), and the proven first level."""
    names = [problem.names[k] for k in np.flatnonzero(groups)]
    fair = solve_welfare(problem, Leximin(), over=names, tol=tol)
    if not fair.has_policy:
        raise ProblemError(_OUT_OF_REACH)
    return np.maximum(fair.solution.shares - _KEPT, 0.0), fair.levels[0].value


def _common_share(problem: Problem, groups: Bools, tol: float) -> tuple[Floats, float]:
    """What all groups can have at once, (K,), and the proof that it is no more."""
    answer = _best_common(problem, groups)
    if answer is None:
        raise ProblemError(_OUT_OF_REACH)
    least = np.full(problem.n_quotas, max(float(answer.extra[0]) - _MARGIN, 0.0))
    return least, _proven_limit(problem, groups, answer)


def _best_common(problem: Problem, groups: Bools) -> Answer | None:
    """Occupancy with the largest common share, beyond its own columns; None where quotas cannot be met."""
    # Rows G x - t >= 0 of the groups.
    asked = problem.with_bounds(np.where(groups, _NEXT_TO_NOTHING, problem.at_least))
    column = csr_array(-groups.astype(float)[None, :])
    return FlowLP(asked, np.zeros(problem.mdp.n_pairs), extra=column, c_extra=np.ones(1)).run()


def _proven_limit(problem: Problem, groups: Bools, answer: Answer) -> float:
    """Proven bound on the share that all groups can have at once: a weighted mean is at least the least."""
    mu = np.where(groups, np.maximum(answer.mu, 0.0), answer.mu)
    asked = problem.with_bounds(
        np.where(groups, np.maximum(problem.at_least, _NEXT_TO_NOTHING), problem.at_least)
    )
    return rounded.ceiling(asked, np.zeros(problem.mdp.n_pairs), answer.h, mu) / float(mu[groups].sum())
