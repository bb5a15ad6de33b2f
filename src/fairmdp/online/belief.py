"""What is known of a world that runs: counts, and models drawn from what they leave open.

The row of a pair is drawn from ``Dirichlet(counts + 1/S)``: the prior weighs as much as one record, spread
over all states. The mean reward of a pair is drawn from a normal distribution around the mean that was seen,
whose variance counts one record more, as uncertain as the range of rewards allows; without records it is
uniform on that range. A range that nobody stated is three times as wide as that of the rewards that were
seen, so that what was never tried may be better than all that was.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from fairmdp.learning.counts import Counts
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.labels import Labelled
from fairmdp.model.mdp import MDP

_SPECK = 1e-9  # smaller probabilities mean nothing to a linear program


class Belief:
    """Counts of transitions and rewards, which grow."""

    def __init__(self, labels: Labelled, reward_range: tuple[float, float] | None) -> None:
        self._labels = labels
        SA, S = labels.n_pairs, labels.n_states
        self.seen = np.zeros((SA, S))
        self.paid, self.squares = np.zeros(SA), np.zeros(SA)  # sums of rewards and of their squares
        self.reward_range = reward_range  # as stated
        self.rewards_seen = (np.inf, -np.inf)  # smallest and largest

    @property
    def per_pair(self) -> Floats:
        """Records of each pair, (SA,)."""
        return np.asarray(self.seen.sum(axis=1))

    def add(self, pairs: Ints, following: Ints, rewards: Floats) -> None:
        """Count records."""
        np.add.at(self.seen, (pairs, following), 1.0)
        SA = self._labels.n_pairs
        self.paid += np.bincount(pairs, rewards, minlength=SA)
        self.squares += np.bincount(pairs, rewards**2, minlength=SA)
        self._widen(rewards)

    def add_counts(self, counts: Counts, pairs: Ints, states: Ints) -> None:
        """Count what was counted elsewhere, whose pairs and states have these numbers here."""
        into = pairs[counts.pairs]
        np.add.at(self.seen, (into, states[counts.s_next]), counts.times)
        np.add.at(self.paid, into, counts.times * counts.mean)
        np.add.at(self.squares, into, counts.spread + counts.times * counts.mean**2)
        self._widen(counts.mean)

    def mean(self) -> Floats:
        """Mean row of each pair, (SA, S)."""
        S = self._labels.n_states
        return (self.seen + 1 / S) / (self.per_pair[:, None] + 1)

    def sample(self, rng: np.random.Generator) -> MDP:
        """Draw a model."""
        S = self._labels.n_states
        drawn = rng.standard_gamma(self.seen + 1 / S)
        lost = drawn.sum(axis=1) < 1e-300  # every weight of a tiny prior was rounded to nothing
        drawn[lost] = 1.0
        drawn /= drawn.sum(axis=1, keepdims=True)
        drawn[drawn < _SPECK] = 0.0
        drawn /= drawn.sum(axis=1, keepdims=True)
        return self._model(drawn, self._rewards(rng))

    def mean_model(self) -> MDP:
        """The model of the means."""
        n, (low, high) = self.per_pair, self._range
        rewards = np.where(n > 0, self.paid / np.maximum(n, 1), (low + high) / 2)
        return self._model(self.mean(), rewards)

    def _rewards(self, rng: np.random.Generator) -> Floats:
        n, (low, high) = self.per_pair, self._range
        means = self.paid / np.maximum(n, 1)
        spread = np.maximum(self.squares - n * means**2, 0.0) + (high - low) ** 2 / 12
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
