"""The problems along a frontier, one for each value of what is owed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairmdp.certificate import rounded
from fairmdp.errors import ProblemError
from fairmdp.mdp import MDP
from fairmdp.problem import Problem
from fairmdp.solution import Solution
from fairmdp.solvers.auto import solve
from fairmdp.solvers.infeasible import common_factor
from fairmdp.validation import Floats
from fairmdp.weights import Units

ALL = "*"
"""Instead of a quota's name: a common factor on everything that is owed."""


class Family:
    """A problem in which one quota moves, or a factor on all of them."""

    def __init__(self, problem: Problem, quota: str) -> None:
        self.problem, self.quota = problem, quota
        self._k = None if quota == ALL else problem.quota_index(quota)
        self.units = Units() if self._k is None else problem.units.of(self._k)
        if self._k is not None:
            return
        if not problem.at_least.any():
            raise ProblemError("nothing is owed, so there is no factor to move\n  move one quota by its name")
        fixed = problem.weighted & (problem.at_least > 0)
        if fixed.any():
            raise ProblemError(
                f"quota {problem.names[int(np.argmax(fixed))]} has weights: a factor is for shares only\n"
                "  move one quota by its name"
            )

    @property
    def is_share(self) -> bool:
        """Whether values are parts of the time, neither factors nor means of weights."""
        return self._k is not None and not self.problem.weighted[self._k]

    @property
    def first(self) -> float:
        """Value from which on something is asked for: 0, or the smallest weight."""
        return float(self.units.offset)

    def at(self, value: float) -> Problem:
        """The problem at a value."""
        at_least = self.problem.at_least.copy()
        if self._k is None:
            at_least = np.minimum(at_least * value, 1.0)
        else:
            at_least[self._k] = self.units.shares(np.array(value))
        return self.problem.with_bounds(at_least)

    def solve(self, value: float, solver: Callable[[Problem], Solution]) -> Solution | None:
        """The solution at a value; None where it is refused outright, as more than all of the time."""
        try:
            problem = self.at(value)
        except ProblemError:
            self.at(self.first)  # a problem of its own, not of this value, is raised here
            return None
        return solver(problem)

    def price(self, solution: Solution) -> float:
        """What one more unit of the value costs."""
        return float(np.maximum(solution.prices, 0.0) @ self._unit)

    def last(self) -> tuple[float, float]:
        """Largest value that can be met, and a proven limit of such values."""
        if self._k is None:
            factor = common_factor(self.problem)[0]
            if factor is None:
                raise ProblemError("the caps alone cannot be met, whatever the factor")
            return factor, factor
        mdp = self.problem.mdp
        counts = self.problem.members[[self._k]].toarray()[0]
        others = self.at(self.first)
        most = solve(others.with_mdp(MDP(mdp.P, counts, mdp.s_of)))
        if not most.has_policy:
            raise ProblemError("the other quotas cannot be met by themselves; see solve() for the reason")
        ends = np.minimum([most.gain, most.upper], self.problem.at_most[self._k])
        last, limit = self.units.values(ends).tolist()
        return last, limit

    def limit(self, value: float, infeasible: Solution) -> float | None:
        """Proven limit of the values that can be met, by the proof that this one cannot."""
        problem, price = self.at(value), self.price(infeasible)
        nothing = np.zeros(problem.mdp.n_pairs)
        room = rounded.ceiling(problem, nothing, infeasible.bias, infeasible.prices)
        # The ceiling falls by the price for every unit of the value, and is 0 where the proof ends.
        return float(np.nextafter(value + room / price, np.inf)) if room < 0 < price else None

    @property
    def _unit(self) -> Floats:
        """What share each quota owes more when the value rises by one, (K,)."""
        if self._k is None:
            return self.problem.at_least
        return np.eye(1, self.problem.n_quotas, self._k)[0] / self.units.scale
