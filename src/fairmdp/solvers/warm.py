"""One model under changing bounds: each answer starts from what the last ones found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fairmdp.errors import SolverError
from fairmdp.problem import Problem
from fairmdp.solution import Solution, Status
from fairmdp.solvers.auto import Progress, bounded, choose, solve
from fairmdp.solvers.lp import WarmLP

Answer = Callable[[Problem, Progress | None], Solution]


class WarmSolver:
    """`solve` for one model that is asked again and again, with other bounds on the same quotas.

    A method is chosen whenever other quotas are bounded than before. Quotas that cannot be met are proved to
    be so, but not always explained.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> problem, warm = scenarios.three_state(), WarmSolver()
    >>> [round(warm.solve(problem.with_bounds([0.1, 0.1, owed])).gain, 4) for owed in (0.2, 0.25, 0.3)]
    [0.4695, 0.4434, 0.4174]
    """

    def __init__(self, *, method: str = "auto", tol: float = 1e-6) -> None:
        self._method, self._tol = method, tol
        self._asked = b""
        self._answer: Answer | None = None

    def solve(self, problem: Problem, progress: Progress | None = None) -> Solution:
        """Best gain of the same model and quotas as before, under these bounds."""
        asked = bounded(problem).tobytes()
        if self._answer is None or asked != self._asked:
            self._asked, self._answer = asked, self._chosen(problem)
        return self._answer(problem, progress)

    def _chosen(self, problem: Problem) -> Answer:
        chosen, reason = choose(problem) if self._method == "auto" else (self._method, "")
        if chosen == "colgen":
            from fairmdp.solvers.colgen import Sweep  # compiled kernels

            return self._or_else(Sweep(tol=self._tol).solve, reason)
        if chosen == "lp":
            warm = WarmLP(tol=self._tol)
            return self._or_else(lambda problem, progress: warm.solve(problem), reason)
        return self._or_else(self._from_last(chosen), reason)

    def _or_else(self, answer: Answer, reason: str) -> Answer:
        """An answer with the reason for its method; where it settles nothing, `solve` tries what else is."""
        if self._method != "auto":
            return answer

        def settled(problem: Problem, progress: Progress | None) -> Solution:
            try:
                solution = answer(problem, progress)
            except SolverError:
                return solve(problem, tol=self._tol, progress=progress)
            if solution.status not in (Status.OPTIMAL, Status.INFEASIBLE):
                return solve(problem, tol=self._tol, start=solution, progress=progress)
            return replace(solution, method=f"{solution.method}; {reason}") if reason else solution

        return settled

    def _from_last(self, method: str) -> Answer:
        """`solve`, from the last solution."""
        last: Solution | None = None

        def solved(problem: Problem, progress: Progress | None) -> Solution:
            nonlocal last
            solution = solve(problem, method=method, tol=self._tol, start=last, progress=progress)
            last = solution if solution.has_policy else last
            return solution

        return solved
