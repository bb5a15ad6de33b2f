"""A model from rules on arrays, for millions of states: many states in, all that can happen to them out.

A state is a row of d whole numbers within a box ``shape``, so that its place in the box, one integer, tells
it from all others. Two passes are made: one finds what can be reached, the other fills the rows of the model
in the order of the places. A rule is therefore asked twice about each state, in portions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats, Ints, check_count, first, names_of, refuse
from fairmdp.model.mdp import MDP
from fairmdp.model.rules import SHOW_EVERY, Progress, called
from fairmdp.model.transitions import ROW_SUM_TOL

ArrayStep = Callable[[Ints, str], Any]
Available = Callable[[Ints], Any]

LARGEST_BOX = 2**29
"""Places of a box, each of which takes five bytes while a model is built."""

_PORTION = 2**15  # states that a rule is asked about at once


def explore_arrays(
    start: ArrayLike,
    actions: Sequence[str],
    step: ArrayStep,
    *,
    shape: Sequence[int],
    available: Available | None,
    progress: Progress | None,
) -> MDP:
    """Build the model that rules on arrays make; `MDP.from_array_rules` says how."""
    box = _Box(shape)
    labels = names_of("actions", actions)
    if not labels:
        raise ProblemError("actions is empty, expected the names of the actions")
    rules = _Rules(box, labels, step, available)
    begin = box.places(_rows(start, box.n_variables), lambda k: f"the start, row {k},")
    keys = _reached(rules, begin, progress)
    number = np.full(box.size, -1, np.int32)
    number[keys] = np.arange(keys.size, dtype=np.int32)
    initial = np.zeros(keys.size)
    np.add.at(initial, number[begin], 1 / begin.size)
    P, r, s_of, taken = _filled(rules, keys, number)
    names = [labels[a] for a in taken.tolist()] if taken.size != keys.size * len(labels) else labels
    return MDP(P, r, s_of, states=box.rows(keys), actions=names, initial=initial)


class _Box:
    """All rows of whole numbers below ``shape``, and the place of each."""

    def __init__(self, shape: Sequence[int]) -> None:
        for size in shape:
            check_count("a size in shape", size)
        self.shape = tuple(int(size) for size in shape)
        self.n_variables = len(self.shape)
        self.size = int(np.prod(self.shape, dtype=float))
        if not 0 < self.size <= LARGEST_BOX:
            refuse(
                f"the box of shape {self.shape} has {self.size:.3g} places",
                f"the limit is {LARGEST_BOX:,}, whether they are reached or not",
                "count more tightly, or use from_rules, which keeps only states that are reached",
            )

    def places(self, rows: Ints, where: Callable[[int], str]) -> Ints:
        """Place of each row, (n, d) to (n,)."""
        outside = np.logical_or.reduce((rows < 0) | (rows >= self.shape), axis=1)
        if (k := first(outside)) is not None:
            raise ProblemError(
                f"{where(k)} leads to {tuple(rows[k].tolist())}, outside of shape {self.shape}\n"
                f"  {int(outside.sum())} of {outside.size} states are outside"
            )
        return np.ravel_multi_index(tuple(rows.T), self.shape)

    def rows(self, places: Ints) -> Ints:
        """Rows at some places, (n,) to (n, d)."""
        return np.stack(np.unravel_index(places, self.shape), axis=1).astype(np.int64)


class _Move(NamedTuple):
    """What one action does to some states."""

    states: Ints  # which of those that were asked about, (m,)
    chances: Floats  # (m, outcomes)
    targets: Ints  # places, (m, outcomes)
    reward: Floats  # (m,)


class _Rules:
    """The rules of a user, whose answers are looked at before they are believed."""

    def __init__(
        self, box: _Box, actions: tuple[str, ...], step: ArrayStep, available: Available | None
    ) -> None:
        self.box, self.actions = box, actions
        self._step, self._available = step, available

    def moves(self, places: Ints) -> Iterator[_Move]:
        """What each action does to the states at some places, in the order of the actions."""
        rows = self.box.rows(places)
        rows.flags.writeable = False
        allowed = self._allowed(rows)
        for a, action in enumerate(self.actions):
            chosen = np.flatnonzero(allowed[:, a])
            if chosen.size:
                yield self._move(chosen, rows[chosen], action)
            else:
                yield _Move(chosen, np.zeros((0, 1)), np.zeros((0, 1), np.int64), np.zeros(0))

    def _allowed(self, rows: Ints) -> Bools:
        wanted = (len(rows), len(self.actions))
        if self._available is None:
            return np.ones(wanted, bool)
        allowed = np.asarray(
            called("available", self._available, rows, call=f"available, for {len(rows)} states,")
        )
        if allowed.shape != wanted or allowed.dtype != bool:
            raise ProblemError(
                f"available returned {allowed.dtype} of shape {allowed.shape}, "
                f"expected a mask of shape {wanted}"
            )
        stuck = ~np.logical_or.reduce(allowed, axis=1)
        if (k := first(stuck)) is not None:
            raise ProblemError(f"state {tuple(rows[k].tolist())} has no action: available says no to all")
        return allowed

    def _move(self, chosen: Ints, rows: Ints, action: str) -> _Move:
        what = f"step, for {len(rows)} states and action {action!r},"
        answer = called("step", self._step, rows, action, call=what)
        if not isinstance(answer, tuple) or len(answer) != 3:
            raise ProblemError(
                f"{what} returned {type(answer).__name__}, expected (probability, next, reward)"
            )
        following = np.asarray(answer[1])
        n, d = rows.shape
        if following.ndim != 3 or following.shape[::2] != (n, d) or following.dtype.kind not in "iu":
            raise ProblemError(
                f"{what} returned next as {following.dtype} of shape {following.shape}, "
                f"expected whole numbers of shape ({n}, outcomes, {d})"
            )
        outcomes = following.shape[1]
        chances = _spread(f"{what} returned probability", answer[0], (n, outcomes))
        paid = np.asarray(answer[2])
        paid = paid[:, None] if paid.ndim == 1 and paid.shape == (n,) else paid
        paid = _spread(f"{what} returned reward", paid, (n, outcomes))
        self._check(chances, rows, action)
        possible = chances > 0
        targets = np.zeros((n, outcomes), np.int64)
        state = np.nonzero(possible)[0]
        targets[possible] = self.box.places(
            following[possible], lambda k: f"state {tuple(rows[state[k]].tolist())}, action {action!r},"
        )
        low, high = paid.min(axis=1), paid.max(axis=1)
        return _Move(chosen, chances, targets, np.where(low == high, low, (chances * paid).sum(axis=1)))

    def _check(self, chances: Floats, rows: Ints, action: str) -> None:
        total = chances.sum(axis=1)
        bad = ~((np.abs(total - 1) <= ROW_SUM_TOL) & (chances >= 0).all(axis=1))
        if (k := first(bad)) is not None:
            refuse(
                f"state {tuple(rows[k].tolist())}, action {action!r}: the probabilities "
                f"{chances[k].tolist()} sum to {total[k]:.12g}, expected numbers from 0 to 1 that sum to 1",
                f"{int(bad.sum())} of {bad.size} states that were asked about at once are wrong",
                "an outcome that cannot happen has probability 0",
            )


def _spread(what: str, values: Any, shape: tuple[int, int]) -> Floats:
    try:
        return np.broadcast_to(np.asarray(values, float), shape)
    except (TypeError, ValueError):
        found = np.asarray(values)
        raise ProblemError(
            f"{what} as {found.dtype} of shape {found.shape}, expected numbers of shape {shape}"
        ) from None


def _rows(start: ArrayLike, n_variables: int) -> Ints:
    rows = np.atleast_2d(np.asarray(start))
    if rows.ndim != 2 or rows.shape[1] != n_variables or rows.dtype.kind not in "iu" or not rows.size:
        raise ProblemError(
            f"start is {start!r}, expected a row of {n_variables} whole numbers, as in shape, or some"
        )
    return rows.astype(np.int64)


def _reached(rules: _Rules, begin: Ints, progress: Progress | None) -> Ints:
    """Places that can be reached, ascending."""
    seen = np.zeros(rules.box.size, bool)
    frontier = np.unique(begin)
    seen[frontier] = True
    begun = shown = time.monotonic()
    found, explored = frontier.size, 0
    while frontier.size:
        fresh = []
        for portion in _portions(frontier):
            for move in rules.moves(portion):
                targets = move.targets[move.chances > 0]
                new = np.unique(targets[~seen[targets]])
                seen[new] = True
                fresh.append(new)
                found += new.size
            explored += portion.size
            if progress is not None and time.monotonic() - shown > SHOW_EVERY:
                shown = time.monotonic()
                progress({"states": found, "explored": explored, "seconds": shown - begun})
        frontier = np.concatenate(fresh)
    return np.flatnonzero(seen)


def _portions(places: Ints) -> Iterator[Ints]:
    for begin in range(0, places.size, _PORTION):
        yield places[begin : begin + _PORTION]


def _filled(
    rules: _Rules, keys: Ints, number: NDArray[np.int32]
) -> tuple[csr_array, Floats, Ints, NDArray[np.int16]]:
    """Transitions, rewards, states and actions of all pairs, sorted by state."""
    parts = [_rows_of(rules, portion, number) for portion in _portions(keys)]
    data, indices, lengths, rewards, n_actions, taken = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    P = csr_array((data, indices, indptr), shape=(lengths.size, keys.size))
    return P, rewards, np.repeat(np.arange(keys.size), n_actions), taken


def _rows_of(rules: _Rules, portion: Ints, number: NDArray[np.int32]) -> tuple[NDArray[Any], ...]:
    """The rows of some states: their entries, how many each has, rewards, actions."""
    moves = list(rules.moves(portion))
    sizes = (portion.size, len(moves))
    counts, rewards, has = np.zeros(sizes, np.int64), np.zeros(sizes), np.zeros(sizes, bool)
    for a, move in enumerate(moves):
        counts[move.states, a] = (move.chances > 0).sum(axis=1)
        rewards[move.states, a], has[move.states, a] = move.reward, True
    starts = (np.cumsum(counts) - counts.ravel()).reshape(sizes)
    data, indices = np.empty(counts.sum()), np.empty(counts.sum(), np.int32)
    for a, move in enumerate(moves):
        possible = move.chances > 0
        places = (starts[move.states, a][:, None] + possible.cumsum(axis=1) - 1)[possible]
        data[places], indices[places] = move.chances[possible], number[move.targets[possible]]
    taken = np.nonzero(has)[1].astype(np.int16)
    return data, indices, counts[has], rewards[has], has.sum(axis=1), taken
