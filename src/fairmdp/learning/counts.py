"""What a simulator has answered so far: sparse counts of transitions and moments of rewards.

Memory grows with the distinct transitions that were seen, not with the number of samples. All sampling of
single pairs goes through `sample_chunk`, whose randomness is its seed alone, so it does not matter where
or in which order chunks are drawn as long as they are merged in the order of their numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fairmdp.errors import FormatError, ProblemError
from fairmdp.model.checks import Floats, Ints, ReadOnly, frozen
from fairmdp.model.mdp import MDP
from fairmdp.model.simulator import LARGEST_REWARD, Simulator

Task = tuple[Ints, np.random.SeedSequence]
Seed = int | np.random.Generator | np.random.SeedSequence

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Where chunks are done: like the built-in ``map``, with results in the order of the tasks."""

    def __call__(self, function: Callable[[T], R], tasks: Iterable[T], /) -> Iterable[R]:
        """Results of the function."""


CHUNK = 2**14  # samples asked for at once

_COLUMNS = {"keys": np.int64, "times": np.int64, "mean": np.float64, "spread": np.float64}


@dataclass(frozen=True, eq=False, repr=False)
class Counts(ReadOnly):
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
        columns = (np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS)
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

    @cached_property
    def frequencies(self) -> csr_array:
        """How often each next state was seen per sample of a pair, (SA, S); empty rows without samples."""
        weights = self.times / self.per_pair[self.pairs]
        return csr_array((weights, (self.pairs, self.s_next)), shape=(self.n_pairs, self.n_states))

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
        plain = np.maximum(self.frequencies @ H**2 - (self.frequencies @ H) ** 2, 0.0)
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
    def _correction(self) -> Floats:
        return self.per_pair / np.maximum(self.per_pair - 1, 1)

    def _pair_means(self, values: Floats) -> Floats:
        sums = np.bincount(self.pairs, weights=self.times * values, minlength=self.n_pairs)
        return sums / np.maximum(self.per_pair, 1)


class Tally:
    """Counts that grow chunk by chunk; merges are put off until they are worth it.

    Answers that come a few at a time, by `note`, are counted once there were so many ``calls``. After
    ``most`` distinct transitions nothing more is counted, so that memory stays within bounds.
    """

    def __init__(self, n_pairs: int, n_states: int, *, calls: int = 1, most: float = math.inf) -> None:
        self._sizes, self._calls, self._most = (n_pairs, n_states), calls, most
        nothing = np.empty(0, np.int64)
        self._parts = [Counts.of(nothing, nothing, np.empty(0), n_pairs, n_states)]
        self._noted: list[tuple[Ints, Ints, Floats]] = []
        self._pending = 0
        self.total = 0

    def add(self, chunk: Counts) -> None:
        """Count in a chunk."""
        if self._parts[0].keys.size >= self._most:
            return
        self._parts.append(chunk)
        self._pending += chunk.keys.size
        self.total += chunk.total
        # Merging when as much is pending as is kept costs O(log) per entry and at most twice the memory.
        if self._pending >= max(self._parts[0].keys.size, CHUNK):
            self._merge()

    def note(self, pairs: Ints, s_next: Ints, rewards: Floats) -> None:
        """Count in the answers of one call, sooner or later."""
        self._noted.append((pairs, s_next, rewards))
        if len(self._noted) >= self._calls:
            self._count()

    @property
    def counts(self) -> Counts:
        """Everything counted so far."""
        self._count()
        self._merge()
        return self._parts[0]

    @counts.setter
    def counts(self, counts: Counts) -> None:
        self._parts, self._noted, self._pending, self.total = [counts], [], 0, counts.total

    def _count(self) -> None:
        if self._noted:
            pairs, s_next, rewards = (np.concatenate(column) for column in zip(*self._noted, strict=True))
            self.add(Counts.of(pairs, s_next, rewards, *self._sizes))
            self._noted = []

    def _merge(self) -> None:
        if len(self._parts) > 1:
            self._parts, self._pending = [Counts.merged(self._parts)], 0


def counts_to_arrays(counts: Counts) -> dict[str, NDArray[Any]]:
    """Counts as arrays for a file, the same bytes for the same counts."""
    columns = {name: getattr(counts, name).astype(dtype, copy=False) for name, dtype in _COLUMNS.items()}
    return {"shape": np.array([counts.n_pairs, counts.n_states], "<i8"), **columns}


def counts_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Counts:
    """Counts from what `counts_to_arrays` made; `FormatError` where types, sizes or values cannot be."""
    missing = [name for name in ("shape", *_COLUMNS) if name not in arrays]
    if missing:
        raise FormatError(f"counts without {' and '.join(missing)}")
    shape, columns = arrays["shape"], [arrays[name] for name in _COLUMNS]
    wanted = [(np.dtype(dtype), (columns[0].size,)) for dtype in _COLUMNS.values()]
    if shape.dtype.kind != "i" or shape.shape != (2,) or [(c.dtype, c.shape) for c in columns] != wanted:
        raise FormatError("counts whose columns have other types or lengths than they should have")
    n_pairs, n_states = map(int, shape)
    keys, times, mean, spread = columns
    if n_pairs < 1 or n_states < 1 or (keys.size and (keys[0] < 0 or keys[-1] >= n_pairs * n_states)):
        raise FormatError("counts of transitions that there are not")
    if (np.diff(keys) <= 0).any() or (times < 1).any() or times.sum(dtype=float) > 2**53:
        raise FormatError("counts that are not positive, or transitions that are not in order, each once")
    if not (np.abs(mean) <= LARGEST_REWARD).all() or not ((spread >= 0) & (spread < np.inf)).all():
        raise FormatError("rewards, or sums of squares, that cannot be")
    frozen(*columns)
    return Counts(n_pairs, n_states, *columns)


def ask(simulator: Simulator, pairs: Ints, seed: np.random.SeedSequence) -> tuple[Ints, Floats]:
    """Next state and reward of each listed pair; they depend on the arguments alone."""
    ends = np.cumsum(simulator.n_actions)
    states = np.searchsorted(ends, pairs, side="right")
    actions = pairs - (ends - simulator.n_actions)[states]
    return simulator.sample(states, actions, np.random.default_rng(seed))


def sample_chunk(simulator: Simulator, pairs: Ints, seed: np.random.SeedSequence) -> Counts:
    """Counts of one answer per listed pair."""
    answers = ask(simulator, pairs, seed)
    return Counts.of(pairs, *answers, int(simulator.n_actions.sum()), simulator.n_states)


@dataclass(frozen=True)
class ChunkSampler:
    """`sample_chunk` of one simulator; an engine with a folder asks it how its results are kept."""

    simulator: Simulator

    def __call__(self, task: Task) -> Counts:
        return sample_chunk(self.simulator, *task)

    def content(self, task: Task) -> bytes:
        """Everything that the result depends on, beside the simulator."""
        pairs, seed = task
        entropy = seed.generate_state(8, np.uint64).tobytes()  # hashes the entropy and the key
        return f"{pairs.dtype.str} {pairs.size} {seed.spawn_key} ".encode() + entropy + pairs.tobytes()

    def to_arrays(self, counts: Counts) -> dict[str, NDArray[Any]]:
        """Arrays that hold counts."""
        return counts_to_arrays(counts)

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]], task: Task) -> Counts:
        """Return the counts that arrays hold; `FormatError` where they do not answer the task's pairs."""
        counts = counts_from_arrays(arrays)
        n_pairs = int(self.simulator.n_actions.sum())
        asked = np.bincount(task[0], minlength=n_pairs)
        if (counts.n_pairs, counts.n_states) != (n_pairs, self.simulator.n_states):
            raise FormatError("counts of another simulator")
        if not np.array_equal(counts.per_pair, asked):
            raise FormatError("counts of other pairs than were asked for")
        return counts


def sample_pairs(
    simulator: Simulator, times: Ints, seeds: Iterator[np.random.SeedSequence], engine: Engine = map
) -> Iterable[Counts]:
    """Ask for pair ``i`` ``times[i]`` times, in chunks of fixed size with a seed each."""
    return engine(ChunkSampler(simulator), chunk_tasks(times, seeds))


def chunk_tasks(times: Ints, seeds: Iterator[np.random.SeedSequence]) -> Iterator[Task]:
    """Pair ``i`` ``times[i]`` times, cut into chunks with a seed each."""
    ends = np.cumsum(times)
    for start in range(0, int(ends[-1]), CHUNK):
        numbers = np.arange(start, min(start + CHUNK, int(ends[-1])))
        yield np.searchsorted(ends, numbers, side="right"), next(seeds)


def root_seed(seed: Seed) -> np.random.SeedSequence:
    """Where all randomness of a run starts; a generator gives another one at every call."""
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(int.from_bytes(seed.bytes(16), "little"))
    try:
        return np.random.SeedSequence(operator.index(seed))
    except (TypeError, ValueError):
        raise ProblemError(
            f"seed is {seed!r}, expected a whole number of at least 0, or numpy's Generator or SeedSequence"
        ) from None


def seed_stream(seed: Seed, *key: int) -> Iterator[np.random.SeedSequence]:
    """Seeds number 0, 1, 2, ... of a stream; streams with different keys are independent."""
    root = root_seed(seed)
    return (np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, *key, k)) for k in count())


def spread_evenly(total: int, weights: Floats) -> Ints:
    """Whole numbers in proportion to weights that sum to the total: largest remainders are rounded up."""
    due = weights * (total / weights.sum())
    whole = np.floor(due).astype(np.int64)
    rounded_up = np.argsort(whole - due, kind="stable")[: total - int(whole.sum())]
    whole[rounded_up] += 1
    return whole


def _reduced(n_pairs: int, n_states: int, keys: Any, times: Any, mean: Any, spread: Any) -> Counts:
    """Merge entries with one key: ``spread`` grows by ``times * (mean - joint mean)^2``."""
    narrow = n_pairs * n_states <= 2**16  # numpy sorts two bytes by radix, ten times as quickly
    order = np.argsort(keys.astype(np.uint16) if narrow else keys, kind="stable")
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
