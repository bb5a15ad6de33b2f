"""What is known of a world that runs: counts, and models drawn from what they leave open.

The row of a pair is drawn from ``Dirichlet(counts + 1/S)``: the prior weighs as much as one record, spread
over all states. The mean reward of a pair is drawn from a normal distribution around the mean that was seen,
whose variance counts one record more, as uncertain as the range of rewards allows; without records it is
uniform on that range. A range that nobody stated is three times as wide as that of the rewards that were
seen, so that what was never tried may be better than all that was.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from fairmdp.learning.counts import Counts
from fairmdp.model.checks import Floats, Ints, ReadOnly
from fairmdp.model.labels import Labelled
from fairmdp.model.mdp import MDP

_SPECK = 1e-9  # smaller probabilities mean nothing to a linear program


@dataclass(frozen=True, eq=False)
class Seen(ReadOnly):
    """Records, counted: how often each pair led where, and what it paid."""

    counts: Floats  # (SA, S)
    paid: Floats  # sums of rewards, (SA,)
    squares: Floats  # and of their squares, (SA,)

    @classmethod
    def nothing(cls, labels: Labelled) -> Seen:
        """No records."""
        return cls(
            np.zeros((labels.n_pairs, labels.n_states)), np.zeros(labels.n_pairs), np.zeros(labels.n_pairs)
        )

    @cached_property
    def per_pair(self) -> Floats:
        """Records of each pair, (SA,)."""
        return np.asarray(self.counts.sum(axis=1))

    @cached_property
    def records(self) -> float:
        """How many there are."""
        return float(self.per_pair.sum())

    def since(self, before: Seen) -> Seen:
        """What was seen since then."""
        return Seen(self.counts - before.counts, self.paid - before.paid, self.squares - before.squares)

    def and_records(self, pairs: Ints, following: Ints, rewards: Floats) -> Seen:
        """Count records in."""
        counts, SA = self.counts.copy(), self.paid.size
        np.add.at(counts, (pairs, following), 1.0)
        paid = self.paid + np.bincount(pairs, rewards, minlength=SA)
        return Seen(counts, paid, self.squares + np.bincount(pairs, rewards**2, minlength=SA))

    def and_counts(self, known: Counts, pairs: Ints, states: Ints) -> Seen:
        """Count in what was counted elsewhere, whose pairs and states have these numbers here."""
        counts, into, SA = self.counts.copy(), pairs[known.pairs], self.paid.size
        np.add.at(counts, (into, states[known.s_next]), known.times)
        paid = np.bincount(into, known.times * known.mean, minlength=SA)
        squares = np.bincount(into, known.spread + known.times * known.mean**2, minlength=SA)
        return Seen(counts, self.paid + paid, self.squares + squares)


class Belief:
    """What is known now, and models drawn from it."""

    def __init__(self, labels: Labelled, reward_range: tuple[float, float] | None) -> None:
        self._labels = labels
        self.now = Seen.nothing(labels)
        self.reward_range = reward_range  # as stated
        self.rewards_seen = (np.inf, -np.inf)  # smallest and largest

    def add(self, pairs: Ints, following: Ints, rewards: Floats) -> None:
        """Count records."""
        self.now = self.now.and_records(pairs, following, rewards)
        self._widen(rewards)

    def add_counts(self, known: Counts, pairs: Ints, states: Ints) -> None:
        """Count what was counted elsewhere."""
        self.now = self.now.and_counts(known, pairs, states)
        self._widen(known.mean)

    def mean(self) -> Floats:
        """Mean row of each pair, (SA, S)."""
        S = self._labels.n_states
        return (self.now.counts + 1 / S) / (self.now.per_pair[:, None] + 1)

    def sample(self, rng: np.random.Generator) -> MDP:
        """Draw a model."""
        S = self._labels.n_states
        drawn = rng.standard_gamma(self.now.counts + 1 / S)
        lost = drawn.sum(axis=1) < 1e-300  # every weight of a tiny prior was rounded to nothing
        drawn[lost] = 1.0
        drawn /= drawn.sum(axis=1, keepdims=True)
        drawn[drawn < _SPECK] = 0.0
        drawn /= drawn.sum(axis=1, keepdims=True)
        return self._model(drawn, self._rewards(rng))

    def mean_model(self) -> MDP:
        """The model of the means."""
        n, (low, high) = self.now.per_pair, self._range
        rewards = np.where(n > 0, self.now.paid / np.maximum(n, 1), (low + high) / 2)
        return self._model(self.mean(), rewards)

    def _rewards(self, rng: np.random.Generator) -> Floats:
        n, (low, high) = self.now.per_pair, self._range
        means = self.now.paid / np.maximum(n, 1)
        spread = np.maximum(self.now.squares - n * means**2, 0.0) + (high - low) ** 2 / 12
        errors = np.sqrt(spread / (n + 1) / np.maximum(n, 1))
        unknown = low + (high - low) * rng.random(n.size)
        known = np.clip(means + errors * rng.standard_normal(n.size), low, high)
        return np.where(n > 0, known, unknown)

    @property
    def _range(self) -> tuple[float, float]:
        if self.reward_range is not None:
            return self.reward_range
        low, high = self.rewards_seen
        if low > high:
            return 0.0, 1.0
        wider = (high - low) or max(abs(high), 1.0)
        return low - wider, high + wider

    def _widen(self, rewards: Floats) -> None:
        if rewards.size:
            low, high = self.rewards_seen
            self.rewards_seen = min(low, float(rewards.min())), max(high, float(rewards.max()))

    def _model(self, P: Floats, rewards: Floats) -> MDP:
        return MDP(csr_array(P), rewards, self._labels.s_of)
