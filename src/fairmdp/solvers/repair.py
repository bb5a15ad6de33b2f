"""When the policy read off a linear program is not what the program promised.

A vertex may split its mass over classes that never meet, or hang them together by a thread; then the
policy's own chain has other shares than ``x``. A slow chain may also turn a tiny residual of flow into a
quota that is missed. The remedy asks for a little more than is owed. Where that is not enough, there is room
to mix in some of the uniform policy's occupancy, which connects everything: a mixture of occupancies is an
occupancy, and a connected one is the long-run law of its own policy.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from fairmdp.chain import Chain
from fairmdp.problem import Problem
from fairmdp.solution import Solution, Status
from fairmdp.solvers.conclude import conclude
from fairmdp.solvers.flow_lp import FlowLP
from fairmdp.solvers.policy import policy_of, uniform_policy
from fairmdp.validation import Floats


def repair(problem: Problem, solution: Solution, *, start: float) -> Solution:
    """Return a policy whose own chain is fair, at the smallest loss that can be proved, if there is one."""
    best = solution
    for margin, spread, note in _attempts(problem, solution):
        x = _connected(problem, spread, margin)
        if x is None:
            break
        best = conclude(
            problem,
            policy_of(problem.mdp, x),
            solution.bias,
            solution.prices,
            tol=solution.tol,
            method=solution.method,
            counters=solution.counters,
            notes=(note,),
        )
        if best.status is not Status.UNDECIDED:
            break
    return replace(best, counters=_timed(best.counters, start))


def _attempts(problem: Problem, solution: Solution) -> Iterator[tuple[float, Floats | None, str]]:
    """How much more to ask for, what to mix in, and what to say of it; the smallest loss first."""
    mdp = problem.mdp
    short = -solution.worst_slack
    if len(Chain.of(mdp, solution.policy).closed_classes) == 1 and 0 < short < solution.tol:
        margin = 4 * short
        yield margin, None, f"quotas were raised by {margin:.0e} so that the policy's own chain meets them"
    uniform = uniform_policy(mdp)
    chain = Chain.of(mdp, uniform)
    if len(chain.closed_classes) > 1:
        return
    spread = uniform * chain.shares[mdp.s_of]
    dearest = 1 + float(np.abs(solution.prices).sum()) / (float(np.ptp(mdp.r)) or 1.0)
    for margin in (solution.tol / (4 * dearest), 1e-4, 1e-2):
        note = f"a share {margin:.0e} of gain was given up so that the policy's chain is connected"
        yield margin, spread, note


def _connected(problem: Problem, spread: Floats | None, margin: float) -> Floats | None:
    """Best occupancy that stays fair when some of `spread` is mixed in, mixed; None if there is none."""
    raised, pull = margin, 0.0
    if spread is not None:
        shares = problem.members @ spread
        short = float(np.maximum(problem.at_least - shares, shares - problem.at_most).max(initial=0.0))
        if short <= 0:  # any mixture with a fair occupancy is fair
            raised, pull = 0.0, margin
        else:
            pull = min(margin, 0.5 * margin / (margin + short))
    lower = np.where(problem.at_least > 0, np.minimum(problem.at_least + raised, 1), 0)
    upper = np.where(problem.at_most < 1, np.maximum(problem.at_most - raised, 0), 1)
    if (lower > upper).any():
        return None
    lp = FlowLP(problem, problem.mdp.r)
    for k in range(problem.n_quotas):
        lp.set_quota(k, lower[k], upper[k])
    answer = lp.run()
    if answer is None or spread is None:
        return None if answer is None else answer.x
    return (1 - pull) * answer.x + pull * spread


def _timed(counters: Mapping[str, float], start: float) -> dict[str, float]:
    return {**counters, "seconds": time.perf_counter() - start}
