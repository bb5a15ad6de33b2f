"""Long-run shares and gain of a policy by running it: regeneration cycles, or batch means.

Between two visits to a state ``s0`` a chain does independent, alike things. With ``T`` the length of such a
cycle and ``Y`` what it collects, the long-run average is ``E Y / E T``, and for n cycles ::

    se = sqrt(var(Y - ratio T) / n) / mean(T)

A generative model can be started in ``s0``, so no burn-in is needed, and many rollouts run side by side.
Cycles that were begun are finished: leaving out the long ones would bias the ratio.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtri, stdtrit

from fairmdp.learning.counts import CHUNK, Counts, Tally
from fairmdp.learning.estimate import Intervals
from fairmdp.mdp import MDP
from fairmdp.problem import Problem
from fairmdp.simulator import Simulator
from fairmdp.solvers.plugin import FIRST, pooled_upper
from fairmdp.validation import Bools, Floats, Ints

_PILOT = 0.1  # share of the samples that finds the state where cycles begin
_PILOT_SAMPLES = 10**6  # and the most that it takes
_WALKS = 256  # most rollouts side by side
_RETURNS = 10  # expected visits to a state, in a pilot, whose absence is worth a note
_CYCLES = 100  # expected cycles below which batch means are the better estimate
_BATCHES = 32
_BURN_IN = 0.2  # share of a rollout that batch means leave out
_PATIENCE = 2.0  # how often the length that an open cycle is due is kept in reserve for it


def run_policy(
    simulator: Simulator,
    owed: Problem,
    pi: Floats,
    samples: int,
    share: float,
    seed: np.random.SeedSequence,
    training: Counts | None,
) -> tuple[Intervals, float]:
    """Intervals at level ``share`` from rollouts, and a bound on the best gain at the same level again."""
    walks = _Walks(simulator, owed, pi, np.random.default_rng(seed), record=training is not None)
    s0, visits, late, notes = _pilot(walks, samples)
    budget = samples - walks.samples
    level = share / (2 * (owed.n_quotas + 1))  # of each side of each interval
    if visits * budget >= _CYCLES:
        found = _by_cycles(walks, s0, budget, level)
    else:
        found = _by_batches(walks, late, budget, level)
    upper = np.inf
    if training is not None:
        upper = pooled_upper(owed, Counts.merged([training, walks.seen]), -float(ndtri(share)))
        if training.per_pair.min() < FIRST:
            notes = (*notes, f"the bound on the best gain is not valid: pairs have under {FIRST} samples")
    return replace(found, notes=found.notes + notes), upper


class _Walks:
    """Rollouts of one policy, side by side; collects what each quota counts, and the reward, per step."""

    def __init__(
        self, simulator: Simulator, owed: Problem, pi: Floats, rng: np.random.Generator, record: bool
    ) -> None:
        self.n_states = owed.mdp.n_states
        self._simulator, self._mdp, self._rng = simulator, owed.mdp, rng
        self._ladder = ladder(owed.mdp, pi)
        self._counted = owed.members.T.toarray()  # (SA, K)
        self._tally = Tally(owed.mdp.n_pairs, owed.mdp.n_states) if record else None
        self._kept: list[tuple[Ints, Ints, Floats]] = []
        self.samples = 0

    def step(self, states: Ints) -> tuple[Ints, Floats]:
        """Next state of each rollout, (W,), and what the step collects, (W, K + 1), reward last."""
        pairs = np.searchsorted(self._ladder, states + self._rng.random(states.size), side="right")
        s_next, rewards = self._simulator.sample(states, pairs - self._mdp.pair_ptr[states], self._rng)
        self.samples += states.size
        if self._tally is not None:
            self._kept.append((pairs, s_next, rewards))
            if len(self._kept) * _WALKS >= CHUNK:
                self._count()
        return s_next, np.column_stack([self._counted[pairs], rewards])

    @property
    def seen(self) -> Counts:
        """Counts of all steps."""
        assert self._tally is not None
        self._count()
        return self._tally.counts

    def _count(self) -> None:
        if self._kept and self._tally is not None:
            pairs, s_next, rewards = (np.concatenate(column) for column in zip(*self._kept, strict=True))
            self._tally.add(Counts.of(pairs, s_next, rewards, self._mdp.n_pairs, self._mdp.n_states))
            self._kept = []


def ladder(mdp: MDP, pi: Floats) -> Floats:
    """``s + P(action <= a | s)`` for each pair, ascending: ``s + uniform`` falls on the rung of its pair."""
    sums = np.cumsum(pi)
    within = sums - np.concatenate([[0.0], sums])[mdp.pair_ptr[:-1]][mdp.s_of]
    # The last action that is ever taken ends at 1 whatever the rounding, and so do idle ones after it.
    later = np.concatenate([[0.0], np.cumsum(pi[::-1])])[::-1]
    rest = later[1:] - later[mdp.pair_ptr[1:]][mdp.s_of]
    return np.where(rest <= 1e-12, 1.0, np.minimum(within, 1.0)) + mdp.s_of


def _pilot(walks: _Walks, samples: int) -> tuple[int, float, Ints, tuple[str, ...]]:
    """The state with the most visits, its share of them, where rollouts came by, and what looks wrong."""
    W = _side_by_side(samples)
    steps = max(int(min(_PILOT * samples, _PILOT_SAMPLES)) // W, 2)
    path = np.empty((steps + 1, W), np.int64)
    path[0] = np.linspace(0, walks.n_states - 1, W).round()  # from all over the state space
    for t in range(steps):
        path[t + 1], _ = walks.step(path[t])
    late = path[steps // 2 :].ravel()
    often = np.bincount(late, minlength=walks.n_states)
    s0 = int(np.argmax(often))
    visits = float(often[s0] / late.size)
    missed = int((~(path == s0).any(axis=0)).sum())
    notes: tuple[str, ...] = ()
    if missed and visits * steps >= _RETURNS:
        notes = (
            f"{missed} of {W} rollouts of {steps} steps did not reach state {s0}: the chain is slow, or "
            "has several closed classes, and then this speaks of one of them",
        )
    return s0, visits, late, notes


def _side_by_side(samples: int) -> int:
    """How many rollouts share a budget: few enough that each has time for many cycles."""
    return max(min(_WALKS, int(samples**0.5 / 8)), 1)


@dataclass(eq=False)
class _Moments:
    """Sums over cycles, rewards counted from ``shift``: of T, T^2, Y, Y T, Y^2."""

    shift: Floats  # (K + 1,)
    cycles: int = 0
    T: float = 0.0
    TT: float = 0.0
    Y: Floats = field(default_factory=lambda: np.zeros(1))
    YT: Floats = field(default_factory=lambda: np.zeros(1))
    YY: Floats = field(default_factory=lambda: np.zeros(1))

    def add(self, T: Floats, Y: Floats) -> None:
        Y = Y - np.outer(T, self.shift)
        self.cycles += T.size
        self.T += float(T.sum())
        self.TT += float(T @ T)
        self.Y = self.Y + Y.sum(axis=0)
        self.YT = self.YT + T @ Y
        self.YY = self.YY + (Y**2).sum(axis=0)

    def due_length(self, under_way: Floats) -> float:
        """Estimate ``E T^2 / E T``; cycles under way count for what they are, as the long ones end last."""
        return float((self.TT + under_way @ under_way) / (self.T + under_way.sum()))

    def ratio(self) -> tuple[Floats, Floats]:
        """Ratio of means, and its standard error."""
        q = self.Y / self.T
        squares = np.maximum(self.YY - 2 * q * self.YT + q**2 * self.TT, 0.0)
        se = np.sqrt(squares / max(self.cycles - 1, 1) * self.cycles) / self.T
        return q + self.shift, se


def _by_cycles(walks: _Walks, s0: int, budget: int, level: float) -> Intervals:
    """Ratio intervals from cycles at s0; rollouts retire at the end of a cycle when the budget runs low."""
    begun = walks.samples
    W = _side_by_side(budget)
    states = np.full(W, s0)
    T, Y = np.zeros(W), None
    moments: _Moments | None = None
    while states.size and walks.samples - begun + states.size <= budget:
        states, collected = walks.step(states)
        if moments is None or Y is None:
            # Sums of squares would cancel for rewards far from 0.
            moments = _Moments(np.append(np.zeros(collected.shape[1] - 1), collected[:, -1].mean()))
            Y = np.zeros(collected.shape)
        T, Y = T + 1, Y + collected
        home = states == s0
        if home.any():
            moments.add(T[home], Y[home])
            keep = _stay(home, budget - (walks.samples - begun), moments.due_length(T[~home]))
            T, Y = np.where(home, 0.0, T), np.where(home[:, None], 0.0, Y)
            states, T, Y = states[keep], T[keep], Y[keep]
    assert moments is not None and Y is not None
    cut = T > 0
    notes: tuple[str, ...] = ()
    if cut.any():
        moments.add(T[cut], Y[cut])
        notes = (f"the budget cut off {int(cut.sum())} of {moments.cycles} cycles",)
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


def _by_batches(walks: _Walks, start: Ints, budget: int, level: float) -> Intervals:
    """Intervals from the means of a few long rollouts from different states."""
    states = start[np.linspace(0, start.size - 1, _BATCHES).astype(np.int64)]
    steps = max(budget // states.size, 2)
    first = int(_BURN_IN * steps)
    sums = np.zeros(1)
    for t in range(steps):
        states, collected = walks.step(states)
        if t >= first:
            sums = sums + collected
    means = sums / (steps - first)  # (batches, K + 1)
    se = np.std(means, axis=0, ddof=1) / np.sqrt(states.size)
    quantile = -float(stdtrit(states.size - 1, level))
    note = "cycles are too rare for the samples: these are batch means, less sure than cycles"
    method = f"means of {states.size} rollouts"
    found = _intervals(np.mean(means, axis=0), se * quantile, level, states.size, method, (note,))
    return replace(found, cycles=0)


def _intervals(
    value: Floats, radius: Floats, level: float, count: int, method: str, notes: tuple[str, ...]
) -> Intervals:
    """``value +- radius``; a share that never varied may still do so rarely (the rule of three)."""
    shares = np.arange(value.size) < value.size - 1
    radius = np.where(shares & (radius <= 1e-12), -np.log(level) / count, radius)
    low, high = value - radius, value + radius
    low[:-1], high[:-1] = np.clip(low[:-1], 0, 1), np.clip(high[:-1], 0, 1)
    return Intervals(value, low, high, method, count, notes=notes)
