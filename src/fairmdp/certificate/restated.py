"""From what a solver found for the model of equal steps to a claim of the model that was stated.

Solvers see `Problem.uniform`. Gains, shares, prices and occupancies are the same there; a policy's
probabilities are per step and become those per decision, and relative values are in units of a step. The
claim is made afresh, from the stated data: the two translations round. What bounds the steps between
components bounds the decisions there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from fairmdp import certificate
from fairmdp.certificate.claim import Account, certify_policy
from fairmdp.certificate.limits import factor_limit, reach_limit
from fairmdp.model.checks import Floats
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Infeasibility, Remark, Solution

_IN_STEPS = (Remark.SLOWEST_PASSAGE, Remark.PATIENCE_TOO_SHORT)

Solve = TypeVar("Solve", bound=Callable[..., Solution])


def by_uniform_steps(solve: Solve) -> Solve:
    """Let a solver see a model of equal steps, and claim of the stated model what it finds."""

    @wraps(solve)
    def solved(problem: Any, **options: Any) -> Solution:
        if not isinstance(problem, Problem) or problem.mdp.durations is None:
            return solve(problem, **options)
        if options.get("start") is not None:
            options["start"] = _per_step(problem, options["start"])
        if isinstance(options.get("patience"), float | int):
            options["patience"] /= problem.mdp.step
        return restated(problem, solve(problem.uniform, **options))

    return cast(Solve, solved)


def restated(problem: Problem, found: Solution) -> Solution:
    """Claim of a problem what is proved of it by a solution of its model of equal steps."""
    mdp = problem.mdp
    if mdp.durations is None:
        return found
    bias, why = found.bias * mdp.step, found.infeasibility
    asked = problem.with_bounds(found.at_least, found.at_most)
    provenance = {**found.provenance, "problem": asked.digest}
    if not found.has_policy:
        why = None if why is None else _in_time(asked, found, why)
        return replace(found, bias=bias, infeasibility=why, provenance=provenance)
    claimed = _claimed(asked, found, bias)
    account = {name: getattr(found, name) for name in ("counters", "tried", "reason", "stopped", "device")}
    said = {note.remark for note in found.notes}
    notes = (
        *(
            note._replace(value=note.value * mdp.step) if note.remark in _IN_STEPS else note
            for note in found.notes
        ),
        *(note for note in claimed.notes if note.remark not in said),
    )
    return replace(claimed, **account, check=found.check, notes=notes, provenance=provenance)


def _claimed(problem: Problem, found: Solution, bias: Floats) -> Solution:
    """What is proved of the policy per decision, or of runs from the start."""
    mdp, ends = problem.mdp, found.ends
    account: Account = {"tol": found.tol, "method": found.method}
    if ends is None:
        return certify_policy(problem, mdp.per_decision(found.policy), bias, found.prices, **account)
    policies = np.atleast_2d(found.policy if ends.policies is None else ends.policies)
    policies = np.array([mdp.per_decision(policy) for policy in policies])
    return certificate.certify_ends(problem, policies, ends.weights, bias, found.prices, ends, **account)


def _per_step(problem: Problem, start: Solution) -> Solution:
    """An earlier solution as one of the model of equal steps, to start from."""
    mdp = problem.mdp
    if start.policy.shape != (mdp.n_pairs,):  # of another model: the solver says so
        return start
    return replace(start, policy=mdp.per_step(start.policy), bias=start.bias / mdp.step)


def _in_time(problem: Problem, found: Solution, why: Infeasibility) -> Infeasibility:
    """An explanation whose limits follow from the stated data, which may round a little more."""
    step = problem.mdp.step
    bias, factor_bias = why.reach_bias * step, why.factor_bias * step
    reach = [
        reach_limit(problem, k, h, capped=bool(found.prices[k] < 0))
        for k, h in zip(why.conflict, bias, strict=False)
    ]
    factor = why.common_factor
    if factor is not None:
        factor = factor_limit(problem, factor_bias, why.factor_prices)
    return replace(why, reach=np.array(reach), reach_bias=bias, common_factor=factor, factor_bias=factor_bias)
