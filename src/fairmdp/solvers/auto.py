"""`solve`: picks a method and says why."""

from __future__ import annotations

from fairmdp.errors import ProblemError
from fairmdp.problem import Problem
from fairmdp.solution import Solution
from fairmdp.solvers.lp import solve_lp

METHODS = ("lp", "mirror")


def solve(problem: Problem, *, method: str = "auto", tol: float = 1e-6) -> Solution:
    """Find the policy of largest gain among those that meet every quota.

    Parameters
    ----------
    problem
        Model and quotas.
    method
        ``"auto"``, or the name of a solver: ``"lp"``, or ``"mirror"`` (Algorithm 1, with its defaults).
    tol
        Certified gap, relative to the span of the rewards, up to which the answer is called optimal.

    Returns
    -------
    Solution
        What was proved is in ``status``; quotas that cannot be met are an answer, not an exception.

    Examples
    --------
    >>> from fairmdp import scenarios, solve
    >>> solve(scenarios.three_state(rho=[0.1, 0.1, 0.25]))
    Solution(optimal, gain=0.443421, upper=0.443421, worst_slack=0)
    """
    if not isinstance(problem, Problem):
        raise ProblemError(f"solve takes a Problem, got a {type(problem).__name__}")
    if method in ("auto", "lp"):
        return solve_lp(problem, tol=tol)
    if method == "mirror":
        from fairmdp.solvers.mirror import solve_mirror

        return solve_mirror(problem, tol=tol)
    raise ProblemError(f"there is no method {method!r}; there are auto, {', '.join(METHODS)}")
