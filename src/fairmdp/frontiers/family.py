"""The problems along a frontier, one for each value of what is owed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np

from fairmdp.certificate import rounded
from fairmdp.chains.components import Components
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.weights import Units
from fairmdp.solution.solution import Solution, Status
from fairmdp.solvers.apart import asks_for_the_mean, concave_in, falls_apart
from fairmdp.solvers.auto import solve
from fairmdp.solvers.conflict_apart import reach
from fairmdp.solvers.infeasible import common_factor
from fairmdp.solvers.lp import solve_lp

ALL = "*"
"""Instead of a quota's name: a common factor on everything that is owed."""

_BOUNDS = "at_least", "at_most"
_ROOMS = (0.0, 2e-9, 1e-7)  # shares by which the last value may stay away from what components allow
_NO_FACTOR = "the caps alone cannot be met, whatever the factor"
_OTHERS = "the other quotas cannot be met by themselves; see solve() for the reason"

_HALVINGS = 40
_NEAR = 3e-9  # parts of the whole interval, in a search for the last value


class Family:
    """A problem in which one bound of a quota moves, or a factor on all that is owed."""

    def __init__(self, problem: Problem, quota: str, bound: str = "at_least") -> None:
        if bound not in _BOUNDS:
            raise ProblemError(f"bound is {bound!r}, expected 'at_least' or 'at_most'")
        self.problem, self.quota, self.bound = problem, quota, bound
        self.direction = -1.0 if bound == "at_most" else 1.0  # the way in which more is asked
        self._k = None if quota == ALL else problem.quota_index(quota)
        self.units = Units() if self._k is None else problem.units.of(self._k)
        if self._k in [condition.quota for condition in problem.conditions]:
            raise ProblemError(
                f"quota {quota} is on a part of the time in some states, and its bound is in what it counts\n"
                "  solve with_quotas for each bound that you want to know, or move another quota"
            )
        if self._k is not None:
            return
        if bound == "at_most":
            raise ProblemError(
                "a factor is for what is owed, not for caps\n  move one cap by its quota's name"
            )
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
        """Value from which on something is asked for: 0 or the smallest weight, of a cap the other end."""
        return float(self.units.values(np.array(1.0 if self.bound == "at_most" else 0.0)))

    def at(self, value: float) -> Problem:
        """The problem at a value."""
        if self._k is None:
            return self.problem.with_bounds(np.minimum(self.problem.at_least * value, 1.0))
        moved = getattr(self.problem, self.bound).copy()
        moved[self._k] = self.units.shares(np.array(value))
        return self.problem.with_bounds(**{self.bound: moved})

    def solve(self, value: float, solver: Callable[[Problem], Solution]) -> Solution | None:
        """The solution at a value; None where it is refused outright, as beyond the quota's other bound."""
        try:
            problem = self.at(value)
        except ProblemError:
            self.at(self.first)  # a problem of its own, not of this value, is raised here
            return None
        return solver(problem)

    def program(self, problem: Problem) -> Solution:
        """The solution of a problem of the family by linear programs, whose ceilings are exact.

        Where the curve may jump, the program of shares alone: if runs from everywhere can end in one class
        that is the best, the curve is the program's, and they do so in the same component all along.
        """
        if self._from_the_start and self.concave:
            return solve(problem, method="lp")
        return solve_lp(problem)

    @cached_property
    def _from_the_start(self) -> bool:
        return falls_apart(self.problem) is not None or asks_for_the_mean(self.problem)

    def price(self, solution: Solution) -> float:
        """What one more unit of the value costs; of a cap that is negative, more of it pays."""
        return float(self.direction * np.maximum(self.direction * solution.prices, 0.0) @ self._unit) + 0.0

    @cached_property
    def concave(self) -> bool:
        """Whether the best gain is a concave function of the value, and continuous up to the last one."""
        moved = self.problem.at_least > 0 if self._k is None else np.arange(self.problem.n_quotas) == self._k
        return bool(concave_in(self.problem)[moved].all())

    def last(self, *, proved: bool = True) -> tuple[float, float]:
        """Value beyond which none can be met, and a proven limit of such values.

        Where no policy is proved to get that far this is an error, or just the limit if that will do.
        """
        apart = falls_apart(self.problem)
        if apart is not None and (self._k is None or not self.concave):
            return self._searched(apart)
        if self._k is None:
            factor = common_factor(self.problem.uniform)[0]
            if factor is None:
                raise ProblemError(_NO_FACTOR)
            return factor, factor
        mdp = self.problem.mdp.uniform
        counts = self.direction * self.problem.members[[self._k]].toarray()[0]
        others = self.at(self.first)
        most = solve(others.with_mdp(MDP(mdp.P, counts, mdp.s_of, initial=mdp.initial)))
        if not most.has_policy:
            raise ProblemError(_OTHERS)
        decided = most.status is not Status.UNDECIDED
        if proved and not decided:
            raise ProblemError(
                f"how far {self.quota} can go is not proved\n"
                "  shares of the policy that goes farthest depend on where it starts, or nearly so"
            )
        own = self.problem.at_least if self.bound == "at_most" else self.problem.at_most
        ends = self.direction * np.minimum(
            [most.gain if decided else most.upper, most.upper], self.direction * own[self._k]
        )
        last, limit = self.units.values(ends).tolist()
        return last, limit

    def _searched(self, found: Components) -> tuple[float, float]:
        """The last value by what `solve` says, at rest, of models that fall apart."""
        problem, k, mdp = self.problem, self._k, self.problem.mdp
        rest = MDP(mdp.P, np.zeros(mdp.n_pairs), mdp.s_of, initial=mdp.initial, durations=mdp.durations)
        there = Family(problem.with_mdp(rest), self.quota, self.bound)
        if k is None:
            end = 1 / float(problem.at_least.max())
        else:
            end = float(self.units.values((problem.at_least if self.direction < 0 else problem.at_most)[k]))
        last = farthest(lambda value: there.solve(value, solve), self.first, end, there._guesses(found))
        if last is None:
            raise ProblemError(_NO_FACTOR if k is None else _OTHERS)
        return last

    def _guesses(self, found: Components) -> Iterator[float]:
        """What the components that can surely be reached allow, and values next to it."""
        if self._k is None:
            return
        least = self.bound == "at_least"
        share = reach(self.problem.uniform, found, self._k, least, solve, solve)
        if share is not None:
            near = np.clip(share + np.array([sign * room for room in _ROOMS for sign in (-1, 1)]), 0, 1)
            yield from self.units.values(near).tolist()

    def limit(self, value: float, infeasible: Solution) -> float | None:
        """Proven limit of the values that can be met, by the proof that this one cannot."""
        problem, price = self.at(value), self.price(infeasible)
        nothing = np.zeros(problem.mdp.n_pairs)
        room = rounded.ceiling(problem, nothing, infeasible.bias, infeasible.prices)
        if room >= 0 or price == 0:
            return value if infeasible.status is Status.INFEASIBLE else None
        # The ceiling falls by the price for every unit of the value, and is 0 where the proof ends.
        return float(np.nextafter(value + room / price, self.direction * np.inf))

    @property
    def _unit(self) -> Floats:
        """What share each quota owes more when the value rises by one, (K,)."""
        if self._k is None:
            return self.problem.at_least
        return np.eye(1, self.problem.n_quotas, self._k)[0] / self.units.scale


def farthest(
    ask: Callable[[float], Solution | None], first: float, end: float, guesses: Iterable[float]
) -> tuple[float, float] | None:
    """Return the last value that a policy is proved to meet, and one beyond which none is, 3e-9 apart.

    Parameters
    ----------
    ask
        Solves at a value; None where it is refused. What can be met at a value can be met at all before it.
    first, end
        Where values begin, and what no model goes beyond, after the first one or before it.
    guesses
        Where the last one may be; asked for once it is known that there is something to look for.

    Returns
    -------
    tuple of float or None
        None where the first value cannot be met.
    """
    if not _met(ask(first)):
        return None
    if _met(ask(end)):
        return end, end
    last, beyond, limit = first, end, end  # beyond: not proved to be met; limit: proved not to be
    way = 1.0 if end > first else -1.0

    def learn(value: float) -> None:
        nonlocal last, beyond, limit
        if not way * last < way * value < way * beyond:
            return
        found = ask(value)
        if _met(found):
            last = value
        else:
            beyond = value
            if found is None or found.status is Status.INFEASIBLE:
                limit = value

    for guess in guesses:
        learn(guess)
    for _ in range(_HALVINGS):
        if abs(beyond - last) <= _NEAR * abs(end - first):
            break
        learn((last + beyond) / 2)
    return last, limit


def _met(found: Solution | None) -> bool:
    return found is not None and found.has_policy and found.status is not Status.UNDECIDED
