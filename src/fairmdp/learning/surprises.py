"""What a simulation has seen that does not fit the exact values of a solution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairmdp.chains.chain import Chain
from fairmdp.learning.simulate import Simulation
from fairmdp.model.checks import Floats
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Solution

_SURPRISING = 5.0  # standard errors from the exact value that call for a word
_KEPT = 0.9  # of a run, after the first tenth
_MOST = 20


def surprises(problem: Problem, solution: Solution, seen: Simulation) -> tuple[str, ...]:
    """Say what does not fit: a solution of another problem, or means far from its exact values.

    Examples
    --------
    >>> from fairmdp import scenarios, simulate, solve
    >>> problem = scenarios.three_state()
    >>> solution = solve(problem)
    >>> seen = simulate(problem.mdp, solution.policy, steps=100, runs=10, quotas=problem.quotas)
    >>> surprises(problem.with_bounds([0, 0, 0]), solution, seen)
    ('the solution is of another model or other quotas; its exact values are not of this one',)
    """
    found = []
    if solution.provenance.get("problem") != problem.digest:
        found.append("the solution is of another model or other quotas; its exact values are not of this one")
    mdp, units = problem.mdp, problem.units
    # The shares of a solution about runs from the start are those of the worst of them.
    known = solution.shares if solution.ends is None else problem.members @ solution.occupancy
    exact = dict(zip(solution.quota_names, units.values(known).tolist(), strict=True))
    shares, errors = units.values(seen.shares).tolist(), units.spans(seen.share_se).tolist()
    watched: list[tuple[str, float, float, float, Any]] = [
        ("gain", solution.gain, seen.gain, seen.gain_se, mdp.rates)
    ]
    for k, name in enumerate(seen.quota_names):
        if name in exact:
            watched.append((f"share of {name}", exact[name], shares[k], errors[k], problem.weights[[k]]))
    for what, due, mean, error, collected in watched:
        off = abs(mean - due)
        if off > _SURPRISING * error + 1e-9 * max(1.0, abs(due)) and len(found) < _MOST:
            why = _why(mdp, solution, seen, collected, off - _SURPRISING * error)
            found.append(f"{what} {mean:.4f} is {off:.1g} off, beyond its error bar: {why}")
    return tuple(found)


def _why(mdp: MDP, solution: Solution, seen: Simulation, collected: Any, beyond: float) -> str:
    """What may have moved a mean so far beyond its error bar."""
    if solution.ends is not None:
        return "runs may still have been on their way to where they end; take more steps"
    ends = _end_effect(mdp, solution.policy, collected) / seen.run_times.min() / _KEPT
    if beyond > ends:
        return "that is no accident"
    return f"where runs begin and end may shift it by {ends:.1g}; take more steps"


def _end_effect(mdp: MDP, policy: Floats, collected: Any) -> float:
    """Span of the bias of what a pair collects: a time T differs from T times the mean by at most that."""
    chain = Chain.of(mdp, policy)
    if len(chain.closed_classes) > 1:
        return math.inf
    f = collected.toarray()[0] if hasattr(collected, "toarray") else collected
    f_of = np.add.reduceat(mdp.per_step(policy) * f, mdp.pair_ptr[:-1])
    return float(np.ptp(chain.bias(f_of))) * mdp.step
