"""A policy of a world: what all clients do in a step, never more than there is."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmdp import dispatch
from fairmdp.dispatch import kernels
from fairmdp.dispatch.kernels import Flat, State, Work
from fairmdp.dispatch.tables import Tables
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats, Ints, first, read_only

# What comes first when there is not enough for all, and whether arrears are booked.
KINDS = {
    "fair": (kernels.INDEX, True),
    "fair_id": (kernels.PLAN, True),
    "index": (kernels.INDEX, False),
    "id": (kernels.PLAN, False),
    "greedy": (kernels.INDEX, False),
}

PLANNED = tuple(kind for kind, (order, _) in KINDS.items() if order == kernels.PLAN)
"""Kinds that draw what the plan says."""

# Tables, where the kernels look for them, and among numbers of which kind.
_PLACES: dict[str, tuple[int, Any]] = {
    "cost": (kernels.COST, np.float32), "value": (kernels.VALUE, np.float32),
    "slope": (kernels.SLOPE, np.float32), "chance": (kernels.CHANCE, np.float32),
    "lead": (kernels.LEAD, np.float32),
    "uses": (kernels.USES, np.float64), "shares": (kernels.SHARES, np.float64),
    "counts": (kernels.COUNTS, np.float64), "owed": (kernels.OWED, np.float64),
    "unit": (kernels.UNIT, np.float64), "group_counts": (kernels.GROUP_COUNTS, np.float64),
    "follow": (kernels.FOLLOW, np.int16), "most": (kernels.MOST, np.int16),
    "group_of": (kernels.GROUP_OF, np.int64),
}  # fmt: skip


@dataclass(frozen=True)
class Groups:
    """What a policy knows of the sides of group quotas, (G,) each."""

    owed: Floats  # by all members together, with the margin
    size: Floats  # what all members can count at most
    unit: Floats  # one unit of price
    prices: Floats  # those of the plan


class DispatchPolicy:
    """What all clients of a world do in a step; made by `dispatch_policy`.

    No step uses more than there is of any resource: what does not fit is not done, and every client can do
    something that uses nothing. Each client has an account of the steps by which it is behind what it is owed
    ::

        account <- max(account + owed + margin - had, -3 window)

    so over any number of steps its share is at least ``owed + margin`` less what the account has grown, per
    step. A client of whom the plan mixes policies follows the one with a large share when it is some two
    windows behind until it is as far ahead, and then the other; it changes sooner where it happens to be in a
    state from which that costs little. Further behind it pays more than others, and in the end it takes its
    largest share: from eight windows on, or three and a quarter where a fixed order decides. That accounts
    stay within a few windows is seen in simulations, and not proved.

    Attributes
    ----------
    kind : str
        See `dispatch_policy`.
    window : float
        Steps; clients are behind and ahead by about two windows in turn. A short window is fair in the short
        run, and costs more.
    margin : float
        What the policy aims at above what is owed, in parts of the time.
    reserve : float
        Part of every capacity without which its prices were found.
    accounts : ndarray
        Steps by which each client is behind each side of its quotas, (N, J).
    group_accounts : ndarray
        Steps of all members by which each group is behind, (G,).
    """

    def __init__(
        self, kind: str, tables: tuple[Tables, ...], capacity: Floats, groups: Groups, *, window: float,
        margin: float, reserve: float,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.window, self.margin, self.reserve = float(window), float(margin), float(reserve)
        self.tables, self.capacity, self.groups = tables, capacity, groups
        self.reset()

    @property
    def n_clients(self) -> int:
        """Number of clients, N."""
        return sum(each.row_of.size for each in self.tables)

    @property
    def accounts(self) -> Floats:
        """Steps by which each client is behind each side of its quotas, (N, J); NaN where nothing is owed."""
        return np.where(self.owing, self.memory.account, np.nan)

    @property
    def group_accounts(self) -> Floats:
        """Steps of all members by which each group is behind, (G,)."""
        return self.memory.group_account.copy()

    @cached_property
    def owing(self) -> Bools:
        """Whether a client is owed something on a side of a quota, (N, J)."""
        return np.concatenate([np.isfinite(each.owed)[each.row_of] for each in self.tables])

    def reset(self) -> None:
        """Forget all arrears."""
        J, G = self.tables[0].owed.shape[1], self.groups.owed.size
        columns = np.concatenate([each.columns[each.row_of] for each in self.tables])
        follow = np.arange(self.n_clients) % columns  # not all the same, or all would change together
        if not KINDS[self.kind][1]:
            follow[:] = 0  # nobody changes: what has most weight in the plan
        self.memory = State(np.zeros((self.n_clients, J)), follow, np.zeros(G))

    def copy(self) -> DispatchPolicy:
        """Return a policy with the same tables, and accounts of its own."""
        _ = self.flat  # made once for all copies
        other = copy.copy(self)
        other.__dict__.pop("work", None)
        account, column, group = self.memory
        other.memory = State(account.copy(), column.copy(), group.copy())
        return other

    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy and its accounts as ``.npz``, atomically; the same policy gives the same bytes."""
        dispatch.file.write(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> DispatchPolicy:
        """Read a policy that `save` wrote; it goes on with the accounts that it had."""
        return dispatch.file.read(path)

    def act(self, states: Any, rng: np.random.Generator) -> Ints:
        """Choose what every client does in this step, and book it.

        Parameters
        ----------
        states
            State of every client by number, (N,): rows of the world in order, as often as their count says.
        rng
            ``numpy.random.default_rng(seed)``.

        Returns
        -------
        ndarray
            Number of the action within its state, (N,).
        """
        if not isinstance(rng, np.random.Generator):
            raise ProblemError(f"rng is a {type(rng).__name__}, expected numpy.random.default_rng(seed)")
        states = self._states(states)
        actions = np.empty(self.n_clients, np.int64)
        kernels.decide(
            self.flat, self.memory, self.work, *KINDS[self.kind], self.window, states, actions,
            np.uint64(rng.integers(2**64, dtype=np.uint64)),
        )  # fmt: skip
        return actions

    def _states(self, given: Any) -> Ints:
        states = np.asarray(given)
        if states.shape != (self.n_clients,) or states.dtype.kind not in "iu":
            raise ProblemError(
                f"states has shape {states.shape} of {states.dtype}, expected ({self.n_clients},) numbers"
            )
        states = states.astype(np.int64)
        sizes = np.repeat([t.pair_ptr.size - 1 for t in self.tables], [t.row_of.size for t in self.tables])
        if (c := first((states < 0) | (states >= sizes))) is not None:
            raise ProblemError(f"states[{c}] is {states[c]}, expected 0 to {sizes[c] - 1}")
        return states

    @cached_property
    def flat(self) -> Flat:
        """The tables as the kernels see them: to be read only, which is one type however they came about."""
        tables = self.tables
        base, stride = np.zeros((2, len(tables), len(_PLACES)), np.int64)
        joined: Any = []
        for dtype in (np.float32, np.float64, np.int16, np.int64):
            named = [(name, place) for name, (place, of) in _PLACES.items() if of is dtype]
            arrays = [[getattr(t, name) for t in tables] for name, _ in named]
            joined.append(flattened(arrays, dtype, base, stride, [place for _, place in named]))
        floats, doubles, shorts, groups = joined
        n = [t.row_of.size for t in tables]
        rows = [t.columns.size for t in tables]
        flat = Flat(
            np.repeat(np.arange(len(tables)), n), np.concatenate([t.row_of for t in tables]),
            np.random.default_rng(0).permutation(self.n_clients),
            np.cumsum([0, *(t.pair_ptr.size for t in tables[:-1])]),
            np.array([t.pair_ptr.size - 1 for t in tables]), np.array([t.cost.shape[1] for t in tables]),
            np.array([t.group_of.shape[1] for t in tables]), np.concatenate([t.pair_ptr for t in tables]),
            base, stride, floats, doubles, shorts, groups,
            np.concatenate([t.columns for t in tables]), np.cumsum([0, *rows[:-1]]),
            self.capacity, self.groups.owed, self.groups.size, self.groups.unit, -self.groups.prices,
        )  # fmt: skip
        return read_only(flat)

    @cached_property
    def work(self) -> Work:
        """Room for the offers of a step."""
        N, K, G = self.n_clients, self.capacity.size, self.groups.owed.size
        width = max(int(np.diff(t.pair_ptr).max()) for t in self.tables)
        most = N * max(width - 1, 1)
        client, pair, key, order = (np.empty(most, np.int64) for _ in range(4))
        used, rest, next_used, next_rest = np.empty((4, K))
        return Work(
            client, pair, key, np.empty((most, K)), order,
            np.empty(kernels.KEYS + 1, np.int64), np.empty((N, K)), used, rest, next_used, next_rest,
            np.empty(N), np.empty(G), np.empty(width),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"DispatchPolicy({self.kind!r}, {self.n_clients} clients, window={self.window:g})"


def flattened(
    columns: Iterable[Iterable[NDArray[Any]]], dtype: Any, base: Ints, stride: Ints, places: Iterable[int]
) -> NDArray[Any]:
    """Arrays of all patterns in one, with where each begins and how far its rows are apart."""
    arrays, start = [], 0
    for column, place in zip(columns, places, strict=True):
        for b, array in enumerate(column):
            base[b, place] = start
            stride[b, place] = 0 if len(array) <= 1 else array[0].size
            arrays.append(np.ascontiguousarray(array, dtype).ravel())
            start += array.size
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
