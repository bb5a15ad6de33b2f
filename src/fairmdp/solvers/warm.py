"""One model under changing bounds: each answer starts from what the last ones found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fairmdp.backends.base import bounded
from fairmdp.backends.opening import open_backend
from fairmdp.certificate.restated import restated
from fairmdp.errors import SolverError
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Solution, Status
from fairmdp.solvers.apart import falls_apart
from fairmdp.solvers.auto import choose, solve
from fairmdp.solvers.registry import METHODS, Method, Warm
from fairmdp.solvers.request import Progress


class WarmSolver:
    """`solve` for one model that is asked again and again, with other bounds on the same quotas.

    A method is chosen whenever other quotas are bounded than before; one that keeps what it has found says so
    in the registry, and any other starts from the last solution. Quotas that cannot be met are proved to be
    so, but not always explained.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> problem, warm = scenarios.three_state(), WarmSolver()
    >>> [round(warm.solve(problem.with_bounds([0.1, 0.1, owed])).gain, 4) for owed in (0.2, 0.25, 0.3)]
    [0.4695, 0.4434, 0.4174]
    """

    def __init__(
        self, *, method: str = "auto", tol: float = 1e-6, methods: Mapping[str, Method] = METHODS
    ) -> None:
        self._method, self._tol, self._methods = method, tol, methods
        self._asked, self._reason = b"", ""
        self._of: tuple[MDP, bool] | None = None  # whether a model falls apart
        self._warm: Warm | None = None

    def solve(self, problem: Problem, progress: Progress | None = None) -> Solution:
        """Best gain of the same model and quotas as before, under these bounds.

        Where a method that was not asked for by name settles nothing, `solve` tries what else there is.
        """
        return restated(problem, self._solved(problem.uniform, progress))

    def _solved(self, problem: Problem, progress: Progress | None) -> Solution:
        if self._of is None or self._of[0] is not problem.mdp:
            self._of = problem.mdp, falls_apart(problem) is not None
        if self._of[1] or problem.expected.any():
            return solve(problem, method=self._method, tol=self._tol, progress=progress)
        asked = bounded(problem).tobytes()
        if self._warm is None or asked != self._asked:
            self._asked, self._warm = asked, self._chosen(problem)
        if self._method != "auto":
            return self._warm.solve(problem, progress)
        try:
            solution = self._warm.solve(problem, progress)
        except SolverError:
            return solve(problem, tol=self._tol, progress=progress)
        if solution.status not in (Status.OPTIMAL, Status.INFEASIBLE):
            return solve(problem, tol=self._tol, start=solution, progress=progress)
        return replace(solution, reason=self._reason)

    def _chosen(self, problem: Problem) -> Warm:
        method = self._method
        if method == "auto":
            method, self._reason = choose(open_backend(problem))
        known = self._methods.get(method)
        return _FromLast(method, self._tol) if known is None or known.warm is None else known.warm(self._tol)


class _FromLast:
    """`solve`, from the last solution."""

    def __init__(self, method: str, tol: float) -> None:
        self._method, self._tol = method, tol
        self._last: Solution | None = None

    def solve(self, problem: Problem, progress: Progress | None = None) -> Solution:
        """Best gain under these bounds."""
        solution = solve(problem, method=self._method, tol=self._tol, start=self._last, progress=progress)
        self._last = solution if solution.has_policy else self._last
        return solution
