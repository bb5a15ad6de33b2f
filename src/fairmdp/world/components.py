"""Components of a world: many small decision processes with the same states and actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, Ints, ReadOnly, count_of, first, names_of, numeric, refuse
from fairmdp.model.mdp import MDP
from fairmdp.model.transitions import EXACT_SUM_TOL, ROW_SUM_TOL


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Components(ReadOnly):
    """Components that have the same states and actions, and each their own chances and rewards.

    Parameters
    ----------
    name
        What messages and tables call them: ``clients``. With more than one row, row i is ``clients i + 1``.
    mdp
        The model of one of them, with S states, SA pairs and n transitions. States and actions have their
        names here.
    count
        How many components are exactly alike: one number, or one for each row, (B,).
    P
        Chances of each row, where rows differ: (B, n), in the order of ``mdp.P``; or (B, SA, S).
    r
        Rewards of each row, (B, SA).
    names
        Names of the rows, (B,).

    Attributes
    ----------
    row_ptr, cols : ndarray
        Transitions of every pair and where they lead, (SA + 1,) and (n,).

    Examples
    --------
    >>> names = ["wait", "serve", "wait"]
    >>> queue = MDP([[0.5, 0.5], [1, 0], [0.3, 0.7]], [0, 1.0, 0], [0, 1, 1], actions=names)
    >>> Components("clients", queue, r=[[0, 1, 0], [0, 3, 0]])
    Components('clients', 2 rows of 2 states and 3 pairs)
    >>> Components("clients", queue, count=1000)
    Components('clients', 1 row of 2 states and 3 pairs, 1000 components)
    """

    name: str
    mdp: MDP
    row_ptr: Ints  # (SA + 1,)
    cols: NDArray[np.int32]  # (n,)
    P: Floats  # (B or 1, n)
    r: Floats  # (B or 1, SA)
    count: Ints  # (B,)
    names: tuple[str, ...] | None

    def __init__(
        self,
        name: str,
        mdp: MDP,
        *,
        count: int | ArrayLike = 1,
        P: ArrayLike | None = None,
        r: ArrayLike | None = None,
        names: Iterable[str] | None = None,
    ) -> None:
        names_of("components", [name])
        if not isinstance(mdp, MDP):
            raise ProblemError(f"components {name}: mdp is a {type(mdp).__name__}, expected a fairmdp.MDP")
        if mdp.durations is not None:
            raise ProblemError(f"components {name}: the steps of a world are equally long\n  use mdp.uniform")
        row_ptr, cols, chances = _transitions(name, mdp, P)
        rewards = mdp.r[None] if r is None else rows_of(f"components {name}: r", r, (mdp.n_pairs,))
        numbers = _counts(name, count)
        n_rows = _agreed(name, {"P": len(chances), "r": len(rewards), "count": numbers.size})
        self.__dict__.update(
            name=name, mdp=mdp, row_ptr=row_ptr, cols=cols, P=chances, r=rewards,
            count=np.broadcast_to(numbers, n_rows).copy(),
            names=names_of(f"components {name}", names, n_rows),
        )  # fmt: skip
        self._check()
        self.__post_init__()

    @classmethod
    def alike(
        cls, name: str, mdps: Sequence[MDP], *, count: int | ArrayLike = 1, names: Iterable[str] | None = None
    ) -> Components:
        """Components from one MDP for each row, all of the same states and actions."""
        mdps = tuple(mdps)
        if not mdps:
            raise ProblemError(f"components {name}: there is no MDP")
        for i, mdp in enumerate(mdps):
            if not np.array_equal(mdp.s_of, mdps[0].s_of):
                refuse(
                    f"components {name}: MDP {i} has other states or actions than MDP 0",
                    f"{mdp!r} beside {mdps[0]!r}",
                    "put components of another kind into fairmdp.Components of their own",
                )
        dense = np.stack([mdp.P.toarray() for mdp in mdps])
        return cls(name, mdps[0], count=count, P=dense, r=np.stack([mdp.r for mdp in mdps]), names=names)

    @property
    def n_rows(self) -> int:
        """Number of rows, B."""
        return int(self.count.size)

    def row_name(self, i: int) -> str:
        """Name of a row."""
        if self.names is not None:
            return self.names[i]
        return self.name if self.n_rows == 1 else f"{self.name} {i + 1}"

    def row_mdp(self, i: int) -> MDP:
        """Row i as a model of its own."""
        return MDP(
            _csr(self.P[i % len(self.P)], self.cols, self.row_ptr, self.mdp), self.r[i % len(self.r)],
            self.mdp.s_of, states=self.mdp.states, actions=self.mdp.actions, initial=self.mdp.initial,
        )  # fmt: skip

    def __repr__(self) -> str:
        rows = "1 row" if self.n_rows == 1 else f"{self.n_rows} rows"
        total = int(self.count.sum())
        many = f", {total} components" if total != self.n_rows else ""
        size = f"{rows} of {self.mdp.n_states} states and {self.mdp.n_pairs} pairs"
        return f"Components({self.name!r}, {size}{many})"

    def _check(self) -> None:
        """Raise for chances that are none and rewards that are not finite; correct sums by rounding."""
        self._refuse_entry("P", ~(np.isfinite(self.P) & (self.P >= 0)), "a probability", self._pair_of_entry)
        self._refuse_entry("r", ~np.isfinite(self.r), "a finite number", lambda pair: pair)
        sums = np.add.reduceat(self.P, self.row_ptr[:-1], axis=1)  # (B or 1, SA)
        off = np.abs(sums - 1)
        bad = off > ROW_SUM_TOL
        if bad.any():
            i, pair = np.argwhere(bad)[0]
            refuse(
                f"components {self.name}: chances of a pair sum to {sums[i, pair]:.12g}, expected 1",
                f"this is {self.mdp.pair_name(int(pair))} of {self.row_name(int(i))}; "
                f"{count_of(bad.any(axis=1).sum(), len(self.P), 'rows')} off",
                "send what is missing somewhere, or divide by the sum if these are weights",
            )
        if (off > EXACT_SUM_TOL).any():
            lengths = np.diff(self.row_ptr)
            self.__dict__["P"] = self.P / np.repeat(np.where(off > EXACT_SUM_TOL, sums, 1.0), lengths, axis=1)

    def _refuse_entry(self, what: str, bad: NDArray[np.bool_], expected: str, pair_of: Any) -> None:
        if bad.any():
            i, k = (int(v) for v in np.argwhere(bad)[0])
            value = getattr(self, what)[i, k]
            refuse(
                f"components {self.name}: {what}[{i}, {k}] is {value}, expected {expected}",
                f"this is {self.mdp.pair_name(pair_of(k))} of {self.row_name(i)}; "
                f"{count_of(bad.any(axis=1).sum(), len(bad), 'rows')} wrong",
                "mend it, or leave the row out",
            )

    def _pair_of_entry(self, entry: int) -> int:
        return int(np.searchsorted(self.row_ptr, entry, side="right")) - 1


def rows_of(what: str, values: Any, shape: tuple[int, ...]) -> Floats:
    """Values as float64 rows of a shape; what has that shape itself is one row for all."""
    array = numeric(what, values)
    if array.shape == shape:
        array = array[None]
    if array.shape[1:] != shape or not len(array):
        wanted = ", ".join(map(str, shape))
        raise ProblemError(f"{what} has shape {array.shape}, expected (rows, {wanted})")
    return np.ascontiguousarray(array)


def _transitions(name: str, mdp: MDP, P: Any) -> tuple[Ints, NDArray[np.int32], Floats]:
    """Pattern and chances of the rows."""
    row_ptr, cols = mdp.P.indptr.astype(np.int64), mdp.P.indices.astype(np.int32)
    if P is None:
        return row_ptr, cols, mdp.P.data[None]
    if np.ndim(P) < 3:
        return row_ptr, cols, rows_of(f"components {name}: P", P, (cols.size,))
    dense = rows_of(f"components {name}: P", P, (mdp.n_pairs, mdp.n_states))
    used = (dense != 0).any(axis=0)
    pair, to = np.nonzero(used)
    row_ptr = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    return row_ptr.astype(np.int64), to.astype(np.int32), np.ascontiguousarray(dense[:, pair, to])


def _csr(data: Floats, cols: NDArray[Any], row_ptr: Ints, mdp: MDP) -> Any:
    from scipy.sparse import csr_array

    return csr_array((data, cols, row_ptr), shape=(mdp.n_pairs, mdp.n_states))


def _counts(name: str, count: Any) -> Ints:
    given = np.atleast_1d(np.asarray(count))
    if given.ndim != 1 or given.dtype.kind not in "iuf" or (given % 1 != 0).any():
        raise ProblemError(f"components {name}: count is not a whole number, or one for each row")
    if (i := first(given < 1)) is not None:
        raise ProblemError(f"components {name}: count[{i}] is {given[i]}, expected at least 1")
    return given.astype(np.int64)


def _agreed(name: str, lengths: dict[str, int]) -> int:
    """The number of rows that all arrays agree on; one row does for any number."""
    rows = max(lengths.values())
    for what, length in lengths.items():
        if length not in (1, rows):
            told = ", ".join(f"{each} has {n}" for each, n in lengths.items())
            raise ProblemError(f"components {name}: {what} has {length} rows, expected {rows}\n  {told}")
    return rows
