"""Rigorous bounds on the shares and the gain of a policy, and on the best gain, without a mixing time.

For a model ``P0`` of the policy's chain with shares ``nu0``, ``Z = (I - P0 + 1 nu0)^-1`` and ``E = P - P0``,
every true share is, exactly ::

    nu @ f = nu0 @ f + nu0 @ E @ h + (nu - nu0) @ E @ h,        h = Z @ f

The middle term is the mean of independent draws from ``nu0``. For the last one, ``|E h|(s) <= W(s)`` is
bounded row by row, and ``d = |nu - nu0|`` by the same identity for single states: ``d <= a + W.T @ d``, so
``d <= (I - W.T)^-1 @ a`` whenever the spectral radius of W is below 1. All bounds are Maurer and Pontil's
empirical Bernstein inequality (COLT 2009) with the level shared out evenly.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from fairmdp.backends.flow_lp import FlowLP
from fairmdp.chains.chain import Chain
from fairmdp.chains.policy import policy_matrix
from fairmdp.errors import ProblemError
from fairmdp.learning.counts import Counts, Tally, Task, ask, chunk_tasks, spread_evenly
from fairmdp.learning.estimate import Inquiry, Intervals
from fairmdp.learning.evaluation import per_state
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.simulator import Simulator

_MOST_STATES = 2000
_FOR_MODEL = 0.4  # share of the samples that makes a model where there is none from training
_FOR_UPPER = 0.25  # share that bounds the best gain where it is asked for
_FOR_ROWS = 0.15  # share of the remainder that goes to all rows alike
_METHOD = "two-level empirical Bernstein bounds"


def bound_rigorously(inquiry: Inquiry) -> Intervals:
    """Intervals, and a bound on the best gain where there is a training."""
    owed, samples, training = inquiry.owed, inquiry.samples, inquiry.training
    if owed.mdp.n_states > _MOST_STATES:
        raise ProblemError(f"rigorous bounds take up to {_MOST_STATES} states, this has {owed.mdp.n_states}")
    fresh = _Fresh(inquiry)
    if training is not None:
        left = samples - int(_FOR_UPPER * samples)
        P0 = policy_matrix(training.model(owed.mdp), inquiry.pi)
        r0 = fresh.mix @ training.rewards
    else:
        for_model = int(_FOR_MODEL * samples)
        left = samples - for_model
        seen = fresh.by_state(fresh.rows(for_model))
        P0, r0 = seen.frequencies, seen.rewards
    found, drawn = _two_levels(fresh, P0, r0, left)
    if training is not None:
        upper, notes = _upper(fresh, training, samples - left, drawn)
        found = replace(found, upper=upper, notes=found.notes + notes)
    if inquiry.reward_range is None:
        rewards = f"rigorous for the gain if rewards stay within {fresh.low:.6g} and {fresh.high:.6g}"
        found = replace(found, notes=(*found.notes, rewards))
    return replace(found, samples=fresh.samples)


class _Fresh:
    """Fresh samples, and the range of their rewards; those outside of a promised one are refused."""

    def __init__(self, inquiry: Inquiry) -> None:
        self.owed, self.pi, self.level = inquiry.owed, inquiry.pi, inquiry.level
        self.mix = per_state(self.owed.mdp, self.pi)  # averages over the actions of each state, (S, SA)
        promised = inquiry.reward_range
        self.low, self.high = (math.inf, -math.inf) if promised is None else promised
        if not (promised is None or -math.inf < self.low <= self.high < math.inf):
            raise ProblemError(f"reward_range is {promised}, expected (least, largest)")
        self._inquiry = inquiry
        self.rng = np.random.default_rng(next(inquiry.seeds))
        self.samples = 0

    def draw(self, times: Ints) -> Counts:
        """Counts of samples of pair ``i``, ``times[i]`` of them."""
        inquiry, promised = self._inquiry, self._inquiry.reward_range
        tally = Tally(times.size, inquiry.simulator.n_states)
        look = partial(_watched_chunk, inquiry.simulator)
        for chunk, low, high in inquiry.engine(look, chunk_tasks(times, inquiry.seeds)):
            if promised is not None and (low < self.low or high > self.high):
                raise ProblemError(
                    f"the simulator gave a reward of {low if low < self.low else high}, "
                    f"outside of reward_range {promised}"
                )
            self.low, self.high = min(self.low, low), max(self.high, high)
            tally.add(chunk)
            inquiry.tell(self.samples + tally.total)
        self.samples += tally.total
        return tally.counts

    def rows(self, samples: int) -> Counts:
        """Counts of the policy's steps from every state alike, by pair."""
        mdp = self.owed.mdp
        times = spread_evenly(samples, np.ones(mdp.n_states))
        parts = zip(times, np.split(self.pi, mdp.pair_ptr[1:-1]), strict=True)
        return self.draw(np.concatenate([self.rng.multinomial(n, part) for n, part in parts]))

    def by_state(self, counts: Counts) -> Counts:
        """Lump the actions of a state together: the policy's own chain, if they were drawn from it."""
        return counts.by_group(self.owed.mdp.s_of, counts.n_states)

    def nothing(self, why: str) -> Intervals:
        """What is known without samples."""
        K, gain = self.owed.n_quotas, (self.low, self.high)
        return Intervals(
            value=np.append(np.full(K, 0.5), sum(gain) / 2),
            low=np.append(np.zeros(K), gain[0]),
            high=np.append(np.ones(K), gain[1]),
            method=_METHOD,
            vacuous=True,
            notes=(f"vacuous: {why}; draw more samples or ask without rigorous",),
        )

    @property
    def span(self) -> float:
        return max(self.high - self.low, 0.0)


def _watched_chunk(simulator: Simulator, task: Task) -> tuple[Counts, float, float]:
    """Counts of a chunk, and the least and the largest reward in it."""
    s_next, rewards = ask(simulator, *task)
    n_pairs = int(simulator.n_actions.sum())
    chunk = Counts.of(task[0], s_next, rewards, n_pairs, simulator.n_states)
    return chunk, float(rewards.min()), float(rewards.max())


def _two_levels(fresh: _Fresh, P0: csr_array, r0: Floats, samples: int) -> tuple[Intervals, Counts]:
    """Intervals around the model ``P0, r0`` of the policy's chain, and the samples drawn for them."""
    owed = fresh.owed
    K, S = owed.n_quotas, owed.mdp.n_states
    chain = Chain(P0)
    if len(chain.closed_classes) > 1:
        why = "the model of the policy's chain has several closed classes"
        return fresh.nothing(why), Tally(owed.mdp.n_pairs, S).counts
    nu0 = chain.shares
    x0 = fresh.pi * nu0[owed.mdp.s_of]
    for_rows = int(_FOR_ROWS * samples)
    first = fresh.draw(fresh.rng.multinomial(samples - for_rows, x0 / x0.sum()))
    # Given where they start, the draws from nu0 are samples of the rows as well.
    drawn = Counts.merged([first, fresh.rows(for_rows)])
    main, rows = fresh.by_state(first), fresh.by_state(drawn)
    if rows.per_pair.min() < 2:
        return fresh.nothing(f"{samples} samples are too few for {S} states"), drawn
    Z = chain.fundamental_matrix
    members = fresh.mix @ owed.members.T.toarray()  # (S, K)
    H = np.column_stack([Z @ members, Z])  # of the quotas, then of the single states
    h = Z @ r0
    share = fresh.level
    logs = math.log(4 * (K + 1 + S) / (share / 2)), math.log(4 * S * (K + 1 + S) / (share / 2))
    means, radii = _main_errors(main, H, P0, logs[0])
    W = _row_errors(rows, H, P0, logs[1])  # (S, K + S)
    # Only the mean of the reward is unknown besides: r + h(s') takes the place of h(s').
    gain_mean, gain_radius = _main_gain_error(main, h, r0 + P0 @ h, fresh.span, logs[0])
    gain_W = _row_gain_errors(rows, h, r0 + P0 @ h, fresh.span, logs[1])
    a = np.abs(means[K:]) + radii[K:]
    WT = W[:, K:].T
    d = np.linalg.solve(np.eye(S) - WT, a)
    # d > 0 with W.T d < d is a witness that the spectral radius is below 1.
    if not (d > 0).all() or not (WT @ d < d).all():
        why = f"the rows are too uncertain (radius {_radius(WT):.2g}, below 1 is needed)"
        return fresh.nothing(why), drawn
    value = np.append(nu0 @ members + means[:K], nu0 @ r0 + gain_mean)
    radius = np.append(radii[:K] + d @ W[:, :K], gain_radius + d @ gain_W)
    return Intervals.around(value, radius, _METHOD), drawn


def _main_errors(main: Counts, H: Floats, P0: csr_array, log: float) -> tuple[Floats, Floats]:
    """Mean of ``H(s') - (P0 H)(s)`` over the draws from nu0, and its radius."""
    n, H = main.total, H - H.mean(axis=0)
    seen = csr_array((main.times / n, (main.pairs, main.s_next)), shape=P0.shape)
    PH = P0 @ H
    from_s, to_s = seen.sum(axis=1), seen.sum(axis=0)
    mean = to_s @ H - from_s @ PH
    square = to_s @ H**2 - 2 * (PH * (seen @ H)).sum(axis=0) + from_s @ PH**2
    variance = np.maximum(square - mean**2, 0.0) * n / (n - 1)
    return mean, _bernstein(variance, np.ptp(H, axis=0) + np.ptp(PH, axis=0), n, log)


def _row_errors(rows: Counts, H: Floats, P0: csr_array, log: float) -> Floats:
    """Bound on ``|E H|`` for each state and column."""
    n = rows.per_pair[:, None]
    mean = rows.frequencies @ H
    return np.abs(mean - P0 @ H) + _bernstein(rows.variances(H), np.ptp(H, axis=0), n, log)


def _main_gain_error(main: Counts, h: Floats, due: Floats, span: float, log: float) -> tuple[float, float]:
    """Mean of ``r + h(s') - due(s)`` over the draws from nu0, and its radius."""
    n = main.total
    y = main.mean + h[main.s_next] - due[main.pairs]
    mean = float(main.times @ y) / n
    variance = float(main.spread.sum() + main.times @ (y - mean) ** 2) / (n - 1)
    return mean, float(_bernstein(np.array(variance), span + np.ptp(h) + np.ptp(due), n, log))


def _row_gain_errors(rows: Counts, h: Floats, due: Floats, span: float, log: float) -> Floats:
    """Bound on the error of ``r + h(s')`` for each state."""
    mean = rows.rewards + rows.frequencies @ h
    return np.abs(mean - due) + _bernstein(rows.reward_variances(h), span + np.ptp(h), rows.per_pair, log)


def _upper(fresh: _Fresh, training: Counts, samples: int, drawn: Counts) -> tuple[float, tuple[str, ...]]:
    """Weak duality: any h and prices bound the best gain by the largest priced reward of a pair.

    ``v* <= max_i [ r + P h - h(s) + G.T mu ]_i - rho @ mu``; the training makes h and mu, fresh samples bound
    ``r + P h`` from above, most of them where the maximum is near: those ``drawn`` for the policy, and more.
    """
    owed = fresh.owed
    mdp = training.model(owed.mdp)
    answer = FlowLP(owed.with_mdp(mdp), mdp.r).run()
    if answer is None:
        return math.inf, ("the quotas cannot be met on the model of the training: no bound on the best gain",)
    h, mu = answer.h, answer.mu
    log = math.log(2 * mdp.n_pairs / fresh.level)
    priced = owed.members.T @ mu - h[mdp.s_of]
    level = mdp.r + mdp.P @ h + priced
    span = np.ptp(h) + np.ptp(training.rewards)
    variance = training.reward_variances(h)
    times = _near_the_top(level.max() - level, variance, span, samples, log, drawn.per_pair)
    counts = Counts.merged([drawn, fresh.draw(times)])
    mean = counts.rewards + counts.frequencies @ h
    radius = _bernstein(counts.reward_variances(h), fresh.span + np.ptp(h), counts.per_pair, log)
    owed_value = owed.at_least @ np.maximum(mu, 0.0) + owed.at_most @ np.minimum(mu, 0.0)
    return float((mean + radius + priced).max() - owed_value), ()


def _near_the_top(
    slack: Floats, variance: Floats, span: float, samples: int, log: float, drawn: Ints
) -> Ints:
    """Further samples that bring every radius below its slack plus t, for the least t in the budget."""

    def lacking(t: float) -> Floats:
        room = slack + t
        needed = np.maximum(8 * variance * log / room**2, 14 / 3 * span * log / room) + 2
        return np.maximum(needed - drawn, 0.0)

    low, high = 1e-9, max(float(slack.max()), span, 1e-6) * 1e3
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if lacking(middle).sum() <= samples else (middle, high)
    return np.maximum(spread_evenly(samples, lacking(high)), 2 - drawn)


def _bernstein(variance: Floats, span: float | Floats, n: int | Ints, log: float) -> Floats:
    """Radius around the mean of n draws, with ``log = log(2 / level)`` of one side."""
    return np.sqrt(2 * variance * log / n) + 7 * span * log / (3 * (np.asarray(n) - 1))


def _radius(W: Floats) -> float:
    """Spectral radius of a non-negative matrix, by power steps."""
    v = np.ones(W.shape[0])
    size = 0.0
    for _ in range(200):
        v = W @ v
        size = float(v.sum())
        v /= size
    return size
