"""Models in which runs may end in several components, or of which a part is not reached: who solves them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fairmdp.chains.components import Components, components_of
from fairmdp.deadline import Deadline
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Note, Remark, Solution, Status
from fairmdp.solvers.apart import asks_for_the_mean
from fairmdp.solvers.conflict_apart import explained
from fairmdp.solvers.multichain_lp import solve_multichain_lp
from fairmdp.solvers.parts import Solve
from fairmdp.solvers.request import Request
from fairmdp.solvers.split import solve_every_run

_PROGRAMS = ("lp", "ipm")


def solve_apart(problem: Problem, found: Components, request: Request, solve: Solve) -> Solution:
    """Solve a model that falls apart, and explain what cannot be met; ``solve`` is for single components."""
    answer = partial(answer_apart, found=found, request=request, solve=solve)
    solution = answer(problem)
    if solution.status is Status.INFEASIBLE:
        return explained(problem, found, solution, answer, solve)
    return solution


def answer_apart(problem: Problem, found: Components, request: Request, solve: Solve) -> Solution:
    """Solve a model that falls apart, or prove that no policy is fair."""
    tol, deadline, patience = request.tol, request.deadline, request.patience
    if asks_for_the_mean(problem):
        return solve_multichain_lp(problem, found, tol, deadline, patience)
    return solve_every_run(problem, found, tol, solve, deadline, patience=patience)


def mean_over_runs(
    problem: Problem, solution: Solution, tol: float, deadline: Deadline, worth: Callable[[Solution], Any]
) -> Solution:
    """Of a model with one component: a mixture, where that meets quotas of the mean better than one policy.

    The better one has the larger ``worth``.
    """
    split = any(note.remark is Remark.SEVERAL_CLASSES for note in solution.notes)
    split = split and solution.status is Status.UNDECIDED and not solution.stopped
    if split and solution.method in _PROGRAMS:
        # Its occupancy meets the quotas, and is that of no policy.
        solution = replace(solution, notes=(*solution.notes, Note(Remark.ONLY_IN_THE_LIMIT)))
    connected = any(note.remark is Remark.CONNECTED for note in solution.notes)
    if not asks_for_the_mean(problem) or (solution.status is not Status.UNDECIDED and not connected):
        return solution
    found = components_of(problem.mdp)
    mixed = solve_multichain_lp(problem, found, tol, deadline)
    return max(solution, mixed, key=worth)
