"""Long-run shares and gain of a policy by running it: regeneration cycles, or batch means.

Between two visits to a state ``s0`` a chain does independent, alike things. With ``T`` the length of such a
cycle and ``Y`` what it collects, the long-run average is ``E Y / E T``, and for n cycles ::

    se = sqrt(var(Y - ratio T) / n) / mean(T)

A generative model can be started in ``s0``, so no burn-in is needed, and many rollouts run side by side.
Cycles that were begun are finished: leaving out the long ones would bias the ratio.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add

import numpy as np
from scipy.special import ndtri, stdtrit

from fairmdp.chains.policy import ladder
from fairmdp.learning.counts import CHUNK, Counts, Tally
from fairmdp.learning.estimate import Inquiry, Intervals
from fairmdp.learning.fitting import FIRST, pooled_upper
from fairmdp.model.checks import Bools, Floats, Ints
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.simulator import Simulator

_PARTS = 8  # parts that cycles are run in, wherever that is
_PILOT = 0.1  # share of the samples that finds the state where cycles begin
_PILOT_SAMPLES = 10**6  # and the most that it takes
_WALKS = 256  # most rollouts side by side
_LONGER = 5  # times as long as others are rollouts that have not come to that state
_RETURNS = 10  # expected visits to a state, in a pilot, whose absence is worth a note
_CYCLES = 100  # expected cycles below which batch means are the better estimate
_BATCHES = 32
_SPLIT = 4  # parts that these are run in
_BURN_IN = 0.2  # share of a rollout that batch means leave out
_PATIENCE = 2.0  # how often the length that an open cycle is due is kept in reserve for it


def run_policy(inquiry: Inquiry) -> Intervals:
    """Intervals from rollouts, and a bound on the best gain where there is a training."""
    training, engine, seeds = inquiry.training, inquiry.engine, inquiry.seeds
    plan = _Plan(inquiry.simulator, inquiry.owed, inquiry.pi, record=training is not None)
    (pilot,) = engine(partial(_pilot, plan), [(inquiry.samples, next(seeds))])
    budget, told = inquiry.samples - pilot.samples, partial(inquiry.told, before=pilot.samples)
    level = inquiry.level / (2 * (plan.owed.n_quotas + 1))  # of each side of each interval
    expected = pilot.visits * budget
    parts: list[_Cycles] | list[_Batches]
    if expected >= _CYCLES:
        n_parts = max(min(_PARTS, budget // CHUNK, int(expected / _CYCLES)), 1)
        cycles = partial(_run_cycles, plan, pilot.s0, pilot.shift, budget // n_parts)
        parts = runs = list(told(engine(cycles, [next(seeds) for _ in range(n_parts)])))
        found = _by_cycles(runs, level)
    else:
        first = pilot.late[np.linspace(0, pilot.late.size - 1, _BATCHES).astype(np.int64)]
        tasks = [(states, max(budget // _BATCHES, 2), next(seeds)) for states in np.split(first, _SPLIT)]
        parts = batches = list(told(engine(partial(_run_batches, plan), tasks)))
        found = _by_batches(batches, level)
    upper, notes = np.inf, pilot.notes
    if training is not None:
        seen = Counts.merged([training, *filter(None, [pilot.seen, *(part.seen for part in parts)])])
        upper = pooled_upper(plan.owed, seen, -float(ndtri(inquiry.level)))
        if training.per_pair.min() < FIRST:
            notes = (*notes, f"the bound on the best gain is not valid: pairs have under {FIRST} samples")
    drawn = pilot.samples + sum(part.samples for part in parts)
    return replace(found, samples=drawn, together=pilot.together, notes=found.notes + notes, upper=upper)


@dataclass(frozen=True, eq=False)
class _Plan:
    """What all parts of the rollouts have in common; ``record`` if their transitions are to be counted."""

    simulator: Simulator
    owed: Problem
    pi: Floats
    record: bool


class Walks:
    """Rollouts of one policy, (SA,), side by side; of several, (M, SA), each follows one of them."""

    def __init__(
        self,
        simulator: Simulator,
        mdp: MDP,
        pi: Floats,
        seed: np.random.SeedSequence,
        follows: Ints | int = 0,
    ) -> None:
        self._simulator, self._mdp, self._rng = simulator, mdp, np.random.default_rng(seed)
        # Ladders of several policies stand one above the other.
        self._ladder = np.concatenate(
            [m * mdp.n_states + ladder(mdp, each) for m, each in enumerate(np.atleast_2d(pi))]
        )
        self._below, self._pairs_below = follows * mdp.n_states, follows * mdp.n_pairs

    def step(self, states: Ints) -> tuple[Ints, Ints, Floats]:
        """Pair that each rollout takes, its next state and its reward, (W,) each."""
        rungs = states + self._below + self._rng.random(states.size)
        pairs = np.searchsorted(self._ladder, rungs, side="right") - self._pairs_below
        return pairs, *self._simulator.sample(states, pairs - self._mdp.pair_ptr[states], self._rng)


class _Collecting:
    """Rollouts of a plan; collects what each quota counts, and the reward, per step."""

    def __init__(self, plan: _Plan, seed: np.random.SeedSequence) -> None:
        mdp = plan.owed.mdp
        self.n_states, self.samples = mdp.n_states, 0
        self._walks = Walks(plan.simulator, mdp, plan.pi, seed)
        self._counted = plan.owed.members.T.toarray()  # (SA, K)
        self._tally = Tally(mdp.n_pairs, mdp.n_states, calls=CHUNK // _WALKS) if plan.record else None

    def step(self, states: Ints) -> tuple[Ints, Floats]:
        """Next state of each rollout, (W,), and what the step collects, (W, K + 1), reward last."""
        pairs, s_next, rewards = self._walks.step(states)
        self.samples += states.size
        if self._tally is not None:
            self._tally.note(pairs, s_next, rewards)
        return s_next, np.column_stack([self._counted[pairs], rewards])

    @property
    def seen(self) -> Counts | None:
        """Counts of all steps, if they were recorded."""
        return None if self._tally is None else self._tally.counts


@dataclass(frozen=True, eq=False)
class _Pilot:
    s0: int  # the state with the most visits
    visits: float  # its share of them
    shift: float  # a reward in the middle of those seen
    late: Ints  # where rollouts came by
    together: bool  # whether all of them came to that state, as far as can be expected
    notes: tuple[str, ...]
    samples: int
    seen: Counts | None


def _pilot(plan: _Plan, task: tuple[int, np.random.SeedSequence]) -> _Pilot:
    """Look around with a few of the samples."""
    samples, seed = task
    walks = _Collecting(plan, seed)
    W = _side_by_side(samples)
    steps = max(int(min(_PILOT * samples, _PILOT_SAMPLES)) // W, 2)
    path = np.empty((steps + 1, W), np.int64)
    path[0] = np.linspace(0, walks.n_states - 1, W).round()  # from all over the state space
    for t in range(steps):
        path[t + 1], collected = walks.step(path[t])
    late = path[steps // 2 :].ravel()
    often = np.bincount(late, minlength=walks.n_states)
    s0 = int(np.argmax(often))
    visits = float(often[s0] / late.size)
    strays = path[-1, ~(path == s0).any(axis=0)]
    for _ in range((_LONGER - 1) * steps):
        if not strays.size:
            break
        strays, _ = walks.step(strays)
        strays = strays[strays != s0]
    together = not strays.size or visits * steps < _RETURNS
    apart = (
        f"{strays.size} of {W} rollouts of {_LONGER * steps} steps did not reach state {s0}: the chain "
        "is slow, or has several closed classes, and this speaks of one of them; nothing is called fair"
    )
    notes = () if together else (apart,)
    middle = float(collected[:, -1].mean())
    return _Pilot(s0, visits, middle, late, together, notes, walks.samples, walks.seen)


def _side_by_side(samples: int) -> int:
    """How many rollouts share a budget: few enough that each has time for many cycles."""
    return max(min(_WALKS, int(samples**0.5 / 8)), 1)


@dataclass(frozen=True, eq=False)
class _Moments:
    """Sums over cycles, rewards counted from ``shift``: of T, T^2, Y, Y T, Y^2."""

    shift: Floats  # (K + 1,)
    cycles: int
    T: float
    TT: float
    Y: Floats
    YT: Floats
    YY: Floats

    @classmethod
    def of(cls, shift: Floats, T: Floats, Y: Floats) -> _Moments:
        """Return the sums over some cycles, whose lengths are (n,) and collected values (n, K + 1)."""
        Y = Y - np.outer(T, shift)
        return cls(shift, T.size, float(T.sum()), float(T @ T), Y.sum(axis=0), T @ Y, (Y**2).sum(axis=0))

    def __add__(self, other: _Moments) -> _Moments:
        sums = (getattr(self, name) + getattr(other, name) for name in ("cycles", "T", "TT", "Y", "YT", "YY"))
        return _Moments(self.shift, *sums)

    def due_length(self, under_way: Floats) -> float:
        """Estimate ``E T^2 / E T``; cycles under way count for what they are, as the long ones end last."""
        return float((self.TT + under_way @ under_way) / (self.T + under_way.sum()))

    def ratio(self) -> tuple[Floats, Floats]:
        """Ratio of means, and its standard error."""
        q = self.Y / self.T
        squares = np.maximum(self.YY - 2 * q * self.YT + q**2 * self.TT, 0.0)
        se = np.sqrt(squares / max(self.cycles - 1, 1) * self.cycles) / self.T
        return q + self.shift, se


@dataclass(frozen=True, eq=False)
class _Cycles:
    """One part of the cycles, with how many of them its budget has cut off."""

    moments: _Moments
    cut: int
    samples: int
    seen: Counts | None


def _run_cycles(plan: _Plan, s0: int, middle: float, budget: int, seed: np.random.SeedSequence) -> _Cycles:
    """Cycles at s0; rollouts retire at the end of a cycle when the budget runs low."""
    walks = _Collecting(plan, seed)
    width = plan.owed.n_quotas + 1
    shift = np.append(np.zeros(width - 1), middle)  # sums of squares would cancel for rewards far from 0
    states = np.full(_side_by_side(budget), s0)
    T, Y = np.zeros(states.size), np.zeros((states.size, width))
    moments = _Moments.of(shift, T[:0], Y[:0])
    while states.size and walks.samples + states.size <= budget:
        states, collected = walks.step(states)
        T, Y = T + 1, Y + collected
        home = states == s0
        if home.any():
            moments += _Moments.of(shift, T[home], Y[home])
            keep = _stay(home, budget - walks.samples, moments.due_length(T[~home]))
            T, Y = np.where(home, 0.0, T), np.where(home[:, None], 0.0, Y)
            states, T, Y = states[keep], T[keep], Y[keep]
    cut = T > 0
    return _Cycles(moments + _Moments.of(shift, T[cut], Y[cut]), int(cut.sum()), walks.samples, walks.seen)


def _by_cycles(parts: list[_Cycles], level: float) -> Intervals:
    """Ratio intervals from all cycles together."""
    moments, cut = reduce(add, (part.moments for part in parts)), sum(part.cut for part in parts)
    notes = (f"the budget cut off {cut} of {moments.cycles} cycles",) if cut else ()
    value, se = moments.ratio()
    # Cycles of very different lengths are worth fewer: as many as (sum T)^2 / sum T^2 equal ones.
    quantile = -float(stdtrit(max(moments.T**2 / moments.TT - 1, 1.0), level))
    return _intervals(value, se * quantile, level, moments.cycles, "regeneration cycles", notes)


def _stay(home: Bools, left: int, length: float) -> Bools:
    """Which rollouts go on: all that are under way, and as many new ones as can be expected to end.

    A cycle found under way is due ``length == E T^2 / E T``, not ``E T``: long ones are met more often.
    """
    under_way = int((~home).sum())
    new = max(int(left / (_PATIENCE * length)) - under_way, 0)
    return ~home | (np.cumsum(home) <= new)


@dataclass(frozen=True, eq=False)
class _Batches:
    means: Floats  # of each rollout, (batches, K + 1)
    samples: int
    seen: Counts | None


def _run_batches(plan: _Plan, task: tuple[Ints, int, np.random.SeedSequence]) -> _Batches:
    """Means of a few long rollouts from different states."""
    states, steps, seed = task
    walks = _Collecting(plan, seed)
    first = int(_BURN_IN * steps)
    sums = np.zeros((states.size, plan.owed.n_quotas + 1))
    for t in range(steps):
        states, collected = walks.step(states)
        if t >= first:
            sums += collected
    return _Batches(sums / (steps - first), walks.samples, walks.seen)


def _by_batches(parts: list[_Batches], level: float) -> Intervals:
    """Intervals from the spread of the rollouts' means."""
    means = np.concatenate([part.means for part in parts])
    se = np.std(means, axis=0, ddof=1) / np.sqrt(len(means))
    quantile = -float(stdtrit(len(means) - 1, level))
    note = "cycles are too rare for the samples: these are batch means, less sure than cycles"
    method = f"means of {len(means)} rollouts"
    found = _intervals(np.mean(means, axis=0), se * quantile, level, len(means), method, (note,))
    return replace(found, cycles=0)


def _intervals(
    value: Floats, radius: Floats, level: float, count: int, method: str, notes: tuple[str, ...]
) -> Intervals:
    """``value +- radius``; a share that never varied may still do so rarely (the rule of three)."""
    shares = np.arange(value.size) < value.size - 1
    radius = np.where(shares & (radius <= 1e-12), -np.log(level) / count, radius)
    return Intervals.around(value, radius, method, cycles=count, notes=notes)
