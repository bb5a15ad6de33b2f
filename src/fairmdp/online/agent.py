"""An agent that learns while it runs, and keeps an account for every quota.

``B(t)``, what a quota was given beyond its due in t steps, is known exactly at every step. Two policies serve
it: *earn* has the most reward on a model drawn from what is known, and *restore* oversteps every quota, so
that the accounts fill. The agent restores once an account falls below its cushion (`planning`), and earns
again when all are above by the span of their bias. A new epoch, with a new model, begins when the records of
a pair have doubled, and at the latest when the run is half as long again as it was.

With a safe start the restoring policy is known to be fair before the first step, and the run begins with it:
what is explored is paid for from what was saved. Without one, restore is made for a drawn model too, and
nothing is promised. Neither is proved to keep the accounts above 0; how far they fall was measured
(``benchmarks/online.py``).
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Container, Hashable, Iterable
from copy import copy
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from fairmdp import online
from fairmdp.chains.chain import Chain
from fairmdp.chains.policy import ladder
from fairmdp.errors import ProblemError, SolverError
from fairmdp.learning.counts import Seed, seed_stream
from fairmdp.learning.plugin import check_delta
from fairmdp.model.checks import Floats, Ints, refuse
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.model.simulator import LARGEST_REWARD
from fairmdp.online.belief import Belief
from fairmdp.online.bounds import Bounds
from fairmdp.online.drift import Drift, Watch
from fairmdp.online.intervals import Cycles
from fairmdp.online.planning import Cushion, Mode, Plan, Planner, cushion
from fairmdp.online.report import AgentReport
from fairmdp.online.skeleton import skeleton
from fairmdp.online.start import Start, known_from, start_of
from fairmdp.records.log import Log

log = logging.getLogger("fairmdp")

ACTING, THINKING = 5, 6
"""Keys of the streams of seeds: of actions, and of models that are drawn."""

_UNIFORMS = 1024  # drawn at a time
_FAR = 2**62


@dataclass(frozen=True)
class Tuning:
    """How the agent weighs earning against restoring."""

    part: float = 0.5  # of the largest slack of a drawn model, asked of a restoring policy without a start
    epoch: float = 0.5  # length of an epoch, relative to all before, at most


TUNING = Tuning()


class OnlineAgent:
    """Acts along one trajectory, learns from it, and keeps every quota's account.

    Parameters
    ----------
    source
        Which states and actions there are: a model, a problem, a log, a simulator, or
        ``(number of states, number of actions)``. Of a model nothing but its names is read.
    quotas
        What is owed; those of the problem where a `Problem` is given.
    start
        The safe start: a `SafeStart` of `learn_start`, a `Solution` or an `Estimate` with a claim, which know
        their slack, or a `Policy` or what else is one, with ``slack``. Without it the agent promises nothing
        but to keep its accounts.
    slack
        By how much the long-run shares of the start's policy overstep every bound, at least.
    records
        A `Log` of the same world, by name, with which the agent begins to know it; by default what the start
        was learned from. A change of the world since then is looked for, too.
    reward_range
        Smallest and largest mean reward that a pair may have; by default three times the range of the rewards
        seen so far.
    delta
        How rarely an account is to outrun the cushion; a setting, not a guarantee.
    seed
        Everything random follows from it.

    Examples
    --------
    >>> from fairmdp import scenarios, solve
    >>> world = scenarios.three_state()
    >>> stricter = solve(world.with_bounds([0.12, 0.12, 0.3]))
    >>> agent = OnlineAgent(world, start=stricter, seed=1)
    >>> agent.act("s1")
    'a0'
    >>> agent.observe("s1", "a1", 0.2, "s2")
    >>> agent.report()
    AgentReport(1 step, gain=0.2, worst_account=-0.2 steps, restore)
    """

    _t: int
    _at: int  # state that the last step led to; -1 where it is not known
    _due: int  # step at which the accounts are looked at again
    _uniforms: list[float]

    def __init__(
        self,
        source: Any,
        quotas: Iterable[Quota] | None = None,
        *,
        start: Any = None,
        slack: float | None = None,
        records: Log | None = None,
        reward_range: tuple[float, float] | None = None,
        delta: float = 0.05,
        seed: Seed = 0,
        tuning: Tuning = TUNING,
    ) -> None:
        check_delta(delta)
        if start is None and slack is not None:
            raise ProblemError("slack is given without a start that has it")
        owed = skeleton(source, quotas)
        self._set_up(
            owed, _checked_range(reward_range), delta, tuning,
            None if start is None else start_of(start, slack, owed),
        )  # fmt: skip
        self._acting, self._thinking = (
            np.random.default_rng(next(seed_stream(seed, key))) for key in (ACTING, THINKING)
        )
        known = known_from(start if records is None else records, owed)
        if known is not None:
            self._belief.add_counts(*known)
            self._watch.before = self._belief.now
        self._begin_epoch()
        self._decide()

    @property
    def problem(self) -> Problem:
        """States, actions and quotas; its transitions are not known."""
        return self._owed

    @property
    def steps(self) -> int:
        """Steps that were observed."""
        return self._t

    def act(self, state: Any) -> Any:
        """Draw what to do in a state.

        Names give names of actions. Numbers give numbers: what an action is called where that is a number, as
        in the log of an environment, else its place within its state. The agent learns from `observe` alone,
        so an action that is not carried out does no harm.
        """
        try:
            s = self._number[state]
        except (KeyError, TypeError):
            s = self._numbered(state)
        if not self._uniforms:
            self._uniforms = self._acting.random(_UNIFORMS).tolist()
        k = bisect_right(self._rungs[s], self._uniforms.pop())
        self._chosen = i = self._first[s] + k
        return self._action_number[i] if isinstance(state, int | np.integer) else self._action[i]

    def observe(self, state: Any, action: Any, reward: float, next_state: Any) -> None:
        """Learn from a step: what was done in a state, what it paid, and which state followed.

        Raises
        ------
        ProblemError
            The step does not begin where the last one ended; say so with `moved`.
        """
        try:
            i = self._pair[state, action]
            s_next = self._number[next_state]
        except (KeyError, TypeError):
            i = self._paired(state, action)
            s_next = self._numbered(next_state)
        if self._s_of[i] != self._at:
            self._check_begins(i)
        reward = float(reward)
        if not -LARGEST_REWARD <= reward <= LARGEST_REWARD:
            raise ProblemError(f"the reward of {self._owed.mdp.pair_text(i)} is {reward!r}")
        if i != self._chosen:
            self._deviated = True
        self._pairs.append(i)
        self._following.append(s_next)
        self._rewards.append(reward)
        self._at = s_next
        self._t += 1
        left = self._left[i] - 1
        self._left[i] = left
        if left <= 0 or self._t >= self._due:
            self._look()

    def moved(self) -> None:
        """Say that the system was set to another state, by no step of its own: an episode was begun anew."""
        self._at = -1
        self._deviated = True

    def report(self) -> AgentReport:
        """Say what was done so far, and where the accounts stand."""
        return copy(self)._reported()  # what is counted for it leaves the agent as it is

    def _reported(self) -> AgentReport:
        self._count()
        owed, bounds = self._owed, self._bounds
        t = max(self._t, 1)
        accounts = bounds.accounts(self._given, self._t)
        return AgentReport(
            steps=self._t,
            gain=self._earned / t if self._t else np.nan,
            shares=self._visits @ self._members / t if self._t else np.full(owed.n_quotas, np.nan),
            accounts=bounds.per_quota(accounts, np.inf),
            lowest=bounds.per_quota(self._lowest, np.inf),
            cushions=bounds.per_quota(self._cushion_now, 0.0),
            quota_names=owed.names,
            at_least=owed.at_least,
            at_most=owed.at_most,
            units=owed.units,
            mode=self._mode,
            restoring=(self._restored + self._restoring_now) / t,
            epochs=self._epochs,
            long_run=self._cycles.intervals(self._delta),
            start=self._said_of_start,
            drifts=self._drifts,
            notes=self._notes,
        )

    def become(self, other: OnlineAgent) -> None:
        """Go on as another agent would, such as one from a file."""
        self.__dict__ = other.__dict__

    def save(self, path: str | PathLike[str]) -> None:
        """Write the agent as ``.npz``, atomically: what is loaded goes on to the same bits."""
        online.save(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> OnlineAgent:
        """Read an agent that `save` wrote."""
        return online.load(path)

    def _set_up(
        self,
        owed: Problem,
        reward_range: tuple[float, float] | None,
        delta: float,
        tuning: Tuning,
        start: Start | None,
    ) -> None:
        """Everything that is not read from a file."""
        mdp = owed.mdp
        self._owed, self._delta, self._tuning, self._start = owed, delta, tuning, start
        self._bounds = Bounds.of(owed)
        self._members = owed.members.toarray().T  # (SA, K)
        self._belief = Belief(mdp, reward_range)
        self._watch, self._drifts = Watch(mdp, self._belief.now), tuple[Drift, ...]()
        self._planner = Planner(self._bounds, tuning.part)
        self._s_of: list[int] = mdp.s_of.tolist()
        self._first: list[int] = mdp.pair_ptr[:-1].tolist()
        self._action = [mdp.action_name(i) for i in range(mdp.n_pairs)]
        within = (np.arange(mdp.n_pairs) - mdp.pair_ptr[mdp.s_of]).tolist()
        self._action_number = [
            int(name) if name.isdecimal() else k for name, k in zip(self._action, within, strict=True)
        ]
        self._number: dict[Hashable, int] = {}
        self._pair: dict[tuple[Hashable, Hashable], int] = {}
        self._pairs: list[int] = []  # records that are not yet counted
        self._following: list[int] = []
        self._rewards: list[float] = []
        self._counted = 0  # records among them that are in the accounts
        self._chosen, self._deviated = (
            -1,
            False,
        )  # the last action, and whether another was done since counting
        self._anchor = 0
        self._uniforms = []
        self._visits = np.zeros(mdp.n_pairs)
        self._given = np.zeros(self._bounds.size)
        self._lowest = np.zeros(self._bounds.size)
        self._earned = 0.0
        self._t = self._epochs = self._epoch_began = self._restored = self._entered = 0
        self._at = -1
        self._policy = np.full(mdp.n_pairs, np.nan)
        self._cycles = self._no_cycles()
        self._mode: Mode = "restore" if self._bounds.size else "earn"
        self._plans: dict[Mode, Plan] = {}
        B = self._bounds.size
        self._cushion = Cushion(np.zeros(B), np.zeros(B), np.ones(B), delta)

    def _look(self) -> None:
        """Count, begin a new epoch if it is time, change the mode if the accounts ask for it."""
        self._count()
        longest = max(int(self._tuning.epoch * self._epoch_began), 1)
        if min(self._left) <= 0 or self._t - self._epoch_began >= longest:
            self._begin_epoch()
        self._decide()

    def _count(self) -> None:
        """Put the latest records into the accounts."""
        new = np.array(self._pairs[self._counted :], np.int64)
        if new.size:
            before = self._bounds.accounts(self._given, self._t - new.size)
            course = before + self._bounds.increments[new].cumsum(axis=0)
            self._lowest = np.minimum(self._lowest, course.min(axis=0))
            self._given = self._given + self._bounds.counts[new].sum(axis=0)
            self._visits = self._visits + np.bincount(new, minlength=self._visits.size)
            self._cycle(new)
            self._earned += sum(self._rewards[self._counted :])
            self._counted = len(self._pairs)

    def _cycle(self, pairs: Ints) -> None:
        """Let the cycles of the policy in force grow; what was not done by it begins them anew."""
        if self._deviated:
            self._deviated, self._cycles = False, self._no_cycles()
        else:
            self._cycles = copy(self._cycles)
            self._cycles.add(pairs)

    def _no_cycles(self) -> Cycles:
        return Cycles(self._members, self._owed.mdp.s_of == self._anchor)

    def _begin_epoch(self) -> None:
        """Learn from the last epoch, and drop the plans that were made before it."""
        pairs, following = np.array(self._pairs, np.int64), np.array(self._following, np.int64)
        self._belief.add(pairs, following, np.array(self._rewards, float))
        self._pairs, self._following, self._rewards, self._counted = [], [], [], 0
        self._look_for_drift()
        self._left = np.maximum(self._belief.now.per_pair, 1.0).astype(np.int64).tolist()
        self._epoch_began, self._epochs = self._t, self._epochs + 1
        self._plans = {}
        if self._start is not None:
            self._plans["restore"] = Plan(self._start.policy, self._start.slack)
            self._cushion = self._cushion_of(self._plans["restore"])
        self._enter(self._mode)

    def _look_for_drift(self) -> None:
        """Forget what was seen before a change of the world, and a start that was made for it."""
        found = self._watch.look(self._belief, self._t)
        if found is not None:
            log.warning("%s", found.sentence)
            self._drifts, self._start = (*self._drifts, found), None

    def _decide(self) -> None:
        """Change the mode if the accounts ask for it, and say when to look again."""
        accounts = self._bounds.accounts(self._given, self._t)
        if self._mode == "earn" and (accounts < self._cushion(self._t)).any():
            self._enter("restore")
        elif self._mode == "restore" and (accounts >= self._upper(self._t)).all():
            self._enter("earn")
        longest = max(int(self._tuning.epoch * self._epoch_began), 1)
        self._due = min(self._epoch_began + longest, self._t + self._quiet(accounts))

    def _quiet(self, accounts: Floats) -> int:
        """Steps in which the accounts cannot ask for another mode."""
        if not accounts.size:
            return _FAR

        def steps(t: int) -> int:
            if self._mode == "earn":
                until = ((accounts - self._cushion(t)) / self._bounds.largest_fall).min()
            else:
                until = ((self._upper(t) - accounts) / self._bounds.largest_rise).max()
            return max(int(min(until, _FAR)), 1)

        soon = steps(self._t)
        return min(soon, steps(self._t + soon)) if self._mode == "earn" else soon

    def _enter(self, mode: Mode) -> None:
        """Follow the plan of a mode from now on; it is made where there is none yet."""
        before = self._mode
        if self._mode == "restore":
            self._restored += self._t - self._entered
        self._mode, self._entered = mode, self._t
        if mode not in self._plans:
            self._plans[mode] = self._planned(mode)
            if mode == "restore":
                self._cushion = self._cushion_of(self._plans[mode])
        policy = self._plans[mode].policy
        if mode != before or not np.array_equal(policy, self._policy):
            chain = Chain.of(self._belief.mean_model(), policy)
            self._anchor = int(np.argmax(chain.shares))  # cycles are short between visits to it
            self._cycles = self._no_cycles()
        self._follow(policy)

    def _planned(self, mode: Mode) -> Plan:
        """The plan for a model drawn from what is known; for the mean where HiGHS cannot solve that one."""
        make = self._planner.earn if mode == "earn" else self._planner.restore
        try:
            return make(self._belief.sample(self._thinking))
        except SolverError as error:
            log.info("a drawn model was given up: %s", error)
            return make(self._belief.mean_model())

    def _follow(self, policy: Floats) -> None:
        mdp, self._policy = self._owed.mdp, policy
        rungs = np.split(ladder(mdp, policy) - mdp.s_of, mdp.pair_ptr[1:-1])
        self._rungs: list[list[float]] = [each.tolist() for each in rungs]

    def _cushion_of(self, plan: Plan) -> Cushion:
        mean, records = self._belief.mean_model(), self._belief.now.per_pair
        return cushion(mean, records, plan.policy, self._bounds, plan.room, self._delta)

    def _upper(self, t: int) -> Floats:
        """Accounts from which the agent earns, (B,)."""
        return self._cushion(t) + self._cushion.span

    @property
    def _cushion_now(self) -> Floats:
        return self._cushion(self._t)

    @property
    def _restoring_now(self) -> int:
        return self._t - self._entered if self._mode == "restore" else 0

    @property
    def _said_of_start(self) -> str:
        if self._drifts:
            return "none since the world has changed: nothing is promised"
        return "none: nothing is promised" if self._start is None else self._start.said

    @property
    def _notes(self) -> tuple[str, ...]:
        drifts = tuple(
            f"{drift.sentence}; what was seen before is not used any more" for drift in self._drifts
        )
        plan = self._plans.get("restore")
        if plan is None or plan.room > 0:
            return drifts
        short = f", at least {-plan.room:.3g} of share is missing" if plan.room < 0 else ""
        return (
            *drifts,
            f"on the model that was drawn last no policy oversteps all quotas{short}: what they are owed "
            "cannot be restored, and the policy that misses them by the least is kept",
        )

    def _numbered(self, state: Any) -> int:
        """Number of a state, which is remembered."""
        mdp = self._owed.mdp
        s = mdp.state_index(_as_called(state, mdp.state_numbers))
        self._number[state] = s
        return s

    def _paired(self, state: Any, action: Any) -> int:
        """Number of a pair, which is remembered."""
        mdp, s = self._owed.mdp, self._numbered(state)
        names = self._action[mdp.pair_ptr[s] : mdp.pair_ptr[s + 1]]
        i = mdp.pair_index(s if mdp.states is None else mdp.states[s], _as_called(action, names))
        self._pair[state, action] = i
        return i

    def _check_begins(self, i: int) -> None:
        if self._at < 0:
            return
        mdp = self._owed.mdp
        began, ended = (mdp.state_name(s) for s in (self._s_of[i], self._at))
        refuse(
            f"this step begins in state {began}, the last one ended in {ended}",
            f"after {self._t:,} steps",
            "if the system was set there by no step of its own, call agent.moved() first",
        )


def _as_called(value: Any, names: Container[str]) -> Any:
    """What a number stands for: the name that it is, where there is such a name."""
    return str(value) if isinstance(value, int | np.integer) and str(value) in names else value


def _checked_range(given: tuple[float, float] | None) -> tuple[float, float] | None:
    if given is None:
        return None
    low, high = (float(end) for end in given)
    if not (np.isfinite([low, high]).all() and low <= high):
        raise ProblemError(f"reward_range is {given!r}, expected the smallest and the largest mean reward")
    return low, high
