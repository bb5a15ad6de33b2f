"""What a simulator has answered so far: sparse counts of transitions and moments of rewards.

Memory grows with the distinct transitions that were seen, not with the number of samples. All sampling of
single pairs goes through `sample_chunk`, whose randomness is its seed alone, so it does not matter where
or in which order chunks are drawn as long as they are merged in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy.sparse import csr_array

from fairmdp.mdp import MDP
from fairmdp.simulator import Simulator
from fairmdp.validation import Floats, Ints, frozen

Task = tuple[Ints, np.random.SeedSequence]

T = TypeVar("T")
R = TypeVar("R")


class RunChunks(Protocol):
    """How chunks are executed: like the built-in ``map``, with results in the order of the tasks."""

    def __call__(self, function: Callable[[T], R], tasks: Iterable[T], /) -> Iterable[R]:
        """Results of the function."""


CHUNK = 2**14  # samples asked for at once


@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """Transitions seen, one entry per distinct (pair, next state), sorted.

    Attributes
    ----------
    keys : ndarray
        ``pair * n_states + next_state`` of each entry, ascending, (D,).
    times : ndarray
        How often each was seen, (D,).
    mean, spread : ndarray
        Mean reward of each entry and the sum of squared deviations from it, (D,).

    Examples
    --------
    >>> seen = Counts.of(np.array([0, 0, 1]), np.array([1, 1, 0]), np.array([1.0, 3.0, 0.0]), 2, 2)
    >>> seen
    Counts(3 samples of 2 pairs, 2 distinct transitions)
    >>> seen.rewards
    array([2., 0.])
    """

    n_pairs: int
    n_states: int
    keys: Ints
    times: Ints
    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, pairs: Ints, s_next: Ints, rewards: Floats, n_pairs: int, n_states: int) -> Counts:
        """Count single samples."""
        once = np.ones(pairs.size, np.int64)
        keys = pairs.astype(np.int64) * n_states + s_next
        return _reduced(n_pairs, n_states, keys, once, np.asarray(rewards, float), np.zeros(pairs.size))

    @classmethod
    def merged(cls, parts: Iterable[Counts]) -> Counts:
        """Count what several parts have counted; the order of the parts matters for rounding only."""
        parts = list(parts)
        columns = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("keys", "times", "mean", "spread")
        )
        return _reduced(parts[0].n_pairs, parts[0].n_states, *columns)

    @property
    def total(self) -> int:
        """Number of samples."""
        return int(self.times.sum())

    @cached_property
    def pairs(self) -> Ints:
        """Pair of each entry, (D,)."""
        return self.keys // self.n_states

    @cached_property
    def s_next(self) -> Ints:
        """Next state of each entry, (D,)."""
        return self.keys % self.n_states

    @cached_property
    def per_pair(self) -> Ints:
        """Samples of each pair, (SA,)."""
        return np.bincount(self.pairs, weights=self.times, minlength=self.n_pairs).astype(np.int64)

    @cached_property
    def rewards(self) -> Floats:
        """Mean reward of each pair, (SA,); the smallest mean that was seen for pairs without samples."""
        means = self._pair_means(self.mean)
        return np.where(self.per_pair > 0, means, means[self.per_pair > 0].min(initial=np.inf))

    def model(self, shell: MDP) -> MDP:
        """Return the empirical MDP; a pair without samples is taken to stay where it is."""
        unseen = np.flatnonzero(self.per_pair == 0)
        rows = np.concatenate([self.pairs, unseen])
        columns = np.concatenate([self.s_next, shell.s_of[unseen]])
        shares = np.concatenate([self.times / self.per_pair[self.pairs], np.ones(unseen.size)])
        P = csr_array((shares, (rows, columns)), shape=(self.n_pairs, self.n_states))
        return MDP(P, self.rewards, shell.s_of)

    def variances(self, H: Floats) -> Floats:
        """Variance of ``H(s')`` for each pair and each column of H, (SA, m), corrected for the mean."""
        H = H - H.mean(axis=0)
        weights = csr_array((self.times / self.per_pair[self.pairs], (self.pairs, self.s_next)), self._shape)
        plain = np.maximum(weights @ H**2 - (weights @ H) ** 2, 0.0)
        return plain * self._correction[:, None]

    def reward_variances(self, h: Floats) -> Floats:
        """Variance of ``reward + h(s')`` for each pair, (SA,), corrected for the mean."""
        values = self.mean + h[self.s_next]
        off = values - self._pair_means(values)[self.pairs]
        squares = np.bincount(self.pairs, weights=self.spread + self.times * off**2, minlength=self.n_pairs)
        return squares / np.maximum(self.per_pair, 1) * self._correction

    def by_group(self, group_of: Ints, n_groups: int) -> Counts:
        """Return the counts with pairs lumped together, such as all actions of a state."""
        keys = group_of[self.pairs] * self.n_states + self.s_next
        return _reduced(n_groups, self.n_states, keys, self.times, self.mean, self.spread)

    def __repr__(self) -> str:
        seen = int((self.per_pair > 0).sum())
        return f"Counts({self.total} samples of {seen} pairs, {self.keys.size} distinct transitions)"

    @property
    def _shape(self) -> tuple[int, int]:
        return self.n_pairs, self.n_states

    @property
    def _correction(self) -> Floats:
        return self.per_pair / np.maximum(self.per_pair - 1, 1)

    def _pair_means(self, values: Floats) -> Floats:
        sums = np.bincount(self.pairs, weights=self.times * values, minlength=self.n_pairs)
        return sums / np.maximum(self.per_pair, 1)


class Tally:
    """Counts that grow chunk by chunk; merges are put off until they are worth it."""

    def __init__(self, n_pairs: int, n_states: int) -> None:
        nothing = np.empty(0, np.int64)
        self._parts = [Counts.of(nothing, nothing, np.empty(0), n_pairs, n_states)]
        self._pending = 0
        self.total = 0

    def add(self, chunk: Counts) -> None:
        """Count in a chunk."""
        self._parts.append(chunk)
        self._pending += chunk.keys.size
        self.total += chunk.total
        # Merging when as much is pending as is kept costs O(log) per entry and at most twice the memory.
        if self._pending >= max(self._parts[0].keys.size, CHUNK):
            self._merge()

    @property
    def counts(self) -> Counts:
        """Everything counted so far."""
        self._merge()
        return self._parts[0]

    def _merge(self) -> None:
        if len(self._parts) > 1:
            self._parts, self._pending = [Counts.merged(self._parts)], 0


def sample_chunk(simulator: Simulator, pairs: Ints, seed: np.random.SeedSequence) -> Counts:
    """Ask for one answer per listed pair; the result depends on the arguments alone."""
    ends = np.cumsum(simulator.n_actions)
    states = np.searchsorted(ends, pairs, side="right")
    actions = pairs - (ends - simulator.n_actions)[states]
    s_next, rewards = simulator.sample(states, actions, np.random.default_rng(seed))
    return Counts.of(pairs, s_next, rewards, int(ends[-1]), simulator.n_states)


def sample_pairs(
    simulator: Simulator,
    times: Ints,
    seeds: Iterator[np.random.SeedSequence],
    run_chunks: RunChunks = map,
) -> Iterable[Counts]:
    """Ask for pair ``i`` ``times[i]`` times, in chunks of fixed size with a seed each."""
    return run_chunks(partial(_sample_task, simulator), chunk_tasks(times, seeds))


def chunk_tasks(times: Ints, seeds: Iterator[np.random.SeedSequence]) -> Iterator[Task]:
    """Pair ``i`` ``times[i]`` times, cut into chunks with a seed each."""
    ends = np.cumsum(times)
    for start in range(0, int(ends[-1]), CHUNK):
        numbers = np.arange(start, min(start + CHUNK, int(ends[-1])))
        yield np.searchsorted(ends, numbers, side="right"), next(seeds)


def seed_stream(seed: int | np.random.SeedSequence, *key: int) -> Iterator[np.random.SeedSequence]:
    """Seeds number 0, 1, 2, ... of a stream; streams with different keys are independent."""
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    chunk = 0
    while True:
        yield np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, *key, chunk))
        chunk += 1


def shell_model(simulator: Simulator) -> MDP:
    """States and actions of a simulator whose transitions are unknown: every pair stays where it is."""
    s_of = np.repeat(np.arange(simulator.n_states), simulator.n_actions)
    stay = csr_array(
        (np.ones(s_of.size), s_of, np.arange(s_of.size + 1)), shape=(s_of.size, simulator.n_states)
    )
    return MDP(stay, np.zeros(s_of.size), s_of)


def spread_evenly(total: int, weights: Floats) -> Ints:
    """Whole numbers in proportion to weights that sum to the total: largest remainders are rounded up."""
    due = weights * (total / weights.sum())
    whole = np.floor(due).astype(np.int64)
    rounded_up = np.argsort(whole - due, kind="stable")[: total - int(whole.sum())]
    whole[rounded_up] += 1
    return whole


def _sample_task(simulator: Simulator, task: Task) -> Counts:
    return sample_chunk(simulator, *task)


def _reduced(n_pairs: int, n_states: int, keys: Any, times: Any, mean: Any, spread: Any) -> Counts:
    """Merge entries with one key: ``spread`` grows by ``times * (mean - joint mean)^2``."""
    order = np.argsort(keys, kind="stable")
    keys, times, mean, spread = keys[order], times[order], mean[order], spread[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    if first.size == 0:
        return Counts(n_pairs, n_states, keys, times, mean, spread)
    joint = np.add.reduceat(times, first)
    centre = np.add.reduceat(times * mean, first) / joint
    off = mean - np.repeat(centre, np.diff(first, append=keys.size))
    merged = keys[first], joint, centre, np.add.reduceat(spread + times * off**2, first)
    frozen(*merged)
    return Counts(n_pairs, n_states, *merged)
