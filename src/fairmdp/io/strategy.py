"""Policies as the files in which PRISM and Storm keep strategies; written only.

PRISM's "actions" export has a line for every state, named as in the ``.sta`` file, with what to do there::

    (ward_a)=share
    (ward_b)=0.25:share+0.75:keep

A name that ends in ``.json`` gives Storm's scheduler: a list with the choices of each state, which Storm
numbers over the whole model. Neither format can draw a policy when a run begins, so a mixture is written as
a file for each of its policies, ``policy.1.txt``, ``policy.2.txt``, ...
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.files import write_together
from fairmdp.model.checks import Floats
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.policy.policy import Policy
from fairmdp.solution.solution import Solution


def save_strategy(problem: Problem, solution: Solution, path: str | PathLike[str]) -> tuple[str, ...]:
    """Write the policy of a solution for PRISM, or for Storm where the name ends in ``.json``, atomically.

    Returns
    -------
    tuple of str
        What was written: `path`, or of a mixture a file for each of its policies, with its number before
        the ending.

    Raises
    ------
    ProblemError
        The solution has no policy, or belongs to another model.
    FormatError
        The file cannot be written.
    """
    path = os.fsdecode(path)
    if not solution.has_policy:
        raise ProblemError(f"there is no policy to write: {solution.status.meaning}")
    if solution.policy.shape != (problem.mdp.n_pairs,):
        raise ProblemError(
            f"the solution has {solution.policy.size} state-action pairs, the problem {problem.mdp.n_pairs}"
        )
    policy = Policy.of(problem, solution)
    stem, ending = os.path.splitext(path)
    numbers = range(1, len(policy.parts) + 1) if policy.is_mixture else ()
    paths = [f"{stem}.{m}{ending}" for m in numbers] or [path]
    lines = _storm_lines if path.lower().endswith(".json") else _prism_lines
    write_together({name: lines(problem.mdp, part) for name, part in zip(paths, policy.parts, strict=True)})
    return tuple(paths)


def _prism_lines(mdp: MDP, policy: Floats) -> Iterator[str]:
    for s, pairs in _used(mdp, policy):
        state = f"({mdp.states[s]})" if mdp.states else str(s)
        mix = [f"{float(policy[i])!r}:{mdp.action_name(i)}" for i in pairs]
        yield f"{state}={mdp.action_name(pairs[0]) if len(pairs) == 1 else '+'.join(mix)}"


def _storm_lines(mdp: MDP, policy: Floats) -> Iterator[str]:
    yield "["
    for s, pairs in _used(mdp, policy):
        state: Any = {"state": mdp.states[s]} if mdp.states else s
        choices = [{"index": i, "labels": [mdp.action_name(i)], "prob": float(policy[i])} for i in pairs]
        yield json.dumps({"s": state, "c": choices}) + ("," if s + 1 < mdp.n_states else "")
    yield "]"


def _used(mdp: MDP, policy: Floats) -> Iterator[tuple[int, list[int]]]:
    """States, and the pairs of each that the policy uses."""
    used = np.flatnonzero(policy > 0)
    ends = np.searchsorted(used, mdp.pair_ptr)
    for s in range(mdp.n_states):
        yield s, used[ends[s] : ends[s + 1]].tolist()
