"""From a mixture and its witness to an answer: what is proved, or why there is nothing to prove."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from fairmdp.backends.cpu import CpuBackend
from fairmdp.certificate.claim import certify_policy, evaluate
from fairmdp.certificate.welfare import Asked, certify_welfare
from fairmdp.chains.policy import policy_of
from fairmdp.deadline import Stop
from fairmdp.model.checks import Floats
from fairmdp.model.objectives import value_at
from fairmdp.solution.solution import Note, Remark, Solution, Status
from fairmdp.solution.welfare import Level, WelfareSolution
from fairmdp.solvers.columns import Search
from fairmdp.solvers.connect import uniform_spread
from fairmdp.solvers.lp import solve_lp
from fairmdp.welfare.setting import Setting

METHOD = "welfare"
_PULLS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)  # of the policy that connects classes, shares of time
_KEEPING = 1e-12  # share by which utilities are lowered, so that rounding leaves a policy that earns more
_LP_PAIRS = 2_000  # up to here the gain decides between the best policies: more take seconds
_PRICED = 1e-7  # a group with a smaller weight in a level does not hold it down


class Mixing(Protocol):
    """A search that can be asked for mixtures with more room."""

    def occupancy(self, room: float) -> Any | None: ...

    @property
    def witness(self) -> tuple[Any, Floats]: ...


@dataclass(frozen=True, eq=False)
class Account:
    """What an answer says of the search that found it."""

    setting: Setting
    tol: float
    began: float
    counters: Mapping[str, float] = field(default_factory=dict)
    stopped: Stop = Stop.NOT

    def after(self, counters: Mapping[str, float], stopped: Stop) -> Account:
        """The same at the end of the search."""
        return replace(self, counters=counters, stopped=stopped)

    def claim(
        self,
        policy: Any,
        h: Any,
        mu: Floats,
        notes: tuple[Note, ...] = (),
        levels: tuple[Level, ...] = (),
    ) -> WelfareSolution:
        """What is proved of a policy of equal steps, by relative values and prices of the search."""
        return self.with_floor(policy, h, mu, notes, levels)[0]

    def with_floor(
        self,
        policy: Any,
        h: Any,
        mu: Floats,
        notes: tuple[Note, ...] = (),
        levels: tuple[Level, ...] = (),
    ) -> tuple[WelfareSolution, float]:
        """The same, and the welfare that the policy is proved to have at least."""
        setting, problem = self.setting, self.setting.problem
        policy = problem.mdp.per_decision(policy)
        evaluated = evaluate(problem, policy)
        solution = certify_policy(
            problem, policy, np.zeros(problem.mdp.n_states), np.zeros(problem.n_quotas), evaluated=evaluated,
            tol=self.tol, method=METHOD, notes=notes, stopped=self.stopped,
        )  # fmt: skip
        fair = self._stated(solution, h, mu, levels)
        u, counters = fair.utilities, {**self.counters, "seconds": time.perf_counter() - self.began}
        welfare = value_at(setting.objective, u) + (setting.reward * solution.gain if setting.reward else 0.0)
        fair = certify_welfare(problem, replace(fair, welfare=welfare, counters=counters), evaluated.run)
        return fair, Asked.of(problem, fair).welfare(evaluated.run)[0]

    def _stated(
        self, solution: Solution, h: Any, mu: Floats, levels: tuple[Level, ...] = ()
    ) -> WelfareSolution:
        """An answer in the units of the problem, of whose welfare nothing is said yet."""
        setting = self.setting
        return WelfareSolution(
            solution, setting.objective, setting.reward, setting.over, Status.UNDECIDED, -math.inf, math.inf,
            setting.marginals(mu), setting.prices(mu), setting.bias(h), self.tol, levels,
        )  # fmt: skip

    def without_policy(self, solution: Solution) -> WelfareSolution:
        """Quotas that cannot be met: their own proof is the answer."""
        nothing = np.zeros(self.setting.priced.n_quotas)
        fair = self._stated(solution, np.zeros(self.setting.problem.mdp.n_states), nothing)
        return replace(fair, status=Status.INFEASIBLE)


def infeasible(account: Account, solution: Solution) -> WelfareSolution:
    """The answer where the quotas cannot be met."""
    return account.without_policy(solution)


def unserved(account: Account, phase: Search) -> WelfareSolution:
    """The answer where some groups can have nothing: that no policy gives all of them more, as one level."""
    account = account.after(phase.counters, Stop.NOT)
    h, mu = phase.witness
    return account.claim(phase.policy(), h, mu, levels=(level_of(account.setting, h, mu),))


def level_of(setting: Setting, h: Any, mu: Floats) -> Level:
    """A level from relative values and prices of a search for the largest least utility."""
    q = np.maximum(setting.marginals(mu), 0.0)
    groups = tuple(name for name, weight in zip(setting.over, q / q.sum(), strict=True) if weight > _PRICED)
    return Level(math.nan, groups, q, setting.prices(mu), setting.bias(h))


def connected(account: Account, found: WelfareSolution, search: Mixing) -> WelfareSolution:
    """Mix some of the uniform policy into what was found, at the smallest loss that can be proved."""
    problem = account.setting.priced  # the model of equal steps, which the search has seen
    spread = uniform_spread(CpuBackend(problem))
    if spread is None:
        return found
    best, most = found, (found.status is not Status.UNDECIDED, -math.inf)
    for pull in _PULLS:
        x = search.occupancy(2 * pull)
        if x is None:
            break
        policy = policy_of(problem.mdp, (1 - pull) * x + pull * spread.x)
        notes = (Note(Remark.CONNECTED, pull),)
        tied, floor = account.with_floor(policy, *search.witness, notes, found.levels)
        worth = (tied.status is not Status.UNDECIDED, floor)
        if worth <= most and best is not found:  # a looser tie costs more than its proof gains
            break
        best, most = max((best, most), (tied, worth), key=lambda each: each[1])
        if best.status is Status.OPTIMAL:
            break
    return best


def that_earns_most(account: Account, found: WelfareSolution, witness: tuple[Any, Floats]) -> WelfareSolution:
    """The policy with the same utilities that earns most, where it is proved to be as good."""
    problem = account.setting.problem
    if found.status is not Status.OPTIMAL or problem.mdp.n_pairs > _LP_PAIRS:
        return found
    kept, rows = problem.at_least.copy(), list(account.setting.rows)
    kept[rows] = np.maximum(kept[rows], found.solution.shares[rows] - _KEEPING)
    best = solve_lp(problem.with_bounds(np.minimum(kept, problem.at_most)), tol=account.tol)
    if not best.has_policy or not best.gain > found.gain:
        return found
    fair = account.claim(problem.mdp.per_step(best.policy), *witness, levels=found.levels)
    return fair if fair.status is Status.OPTIMAL else found
