"""A problem whose arrays live in GPU memory: for models that never were on the host, or do not fit there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats
from fairmdp.model.problem import Problem


@dataclass(frozen=True, eq=False)
class DeviceMDP:
    """A model as plain device arrays, in the order and with the names of `backends.cpu.kernels`.

    Attributes
    ----------
    ptr
        First pair of each state, (S + 1,) int64.
    row
        First entry of each pair, (SA + 1,) int32 or int64.
    col
        Successors, (entries,) int32.
    val
        Their probabilities, (entries,) float64; or float32, and then the last one of each row is not read:
        it is one less the others, in double precision.
    r
        Rewards, (SA,) float64.
    """

    ptr: Any
    row: Any
    col: Any
    val: Any
    r: Any

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.ptr.size) - 1

    @property
    def n_pairs(self) -> int:
        """Number of state-action pairs."""
        return int(self.r.size)

    @property
    def n_transitions(self) -> int:
        """Number of stored probabilities."""
        return int(self.col.size)

    @property
    def rates(self) -> Any:
        """Reward per unit of time, (SA,): steps are equally long here."""
        return self.r

    @property
    def bytes(self) -> int:
        """Memory that the model takes."""
        return sum(int(array.nbytes) for array in (self.ptr, self.row, self.col, self.val, self.r))


@dataclass(frozen=True, eq=False)
class DeviceProblem:
    """Model and quotas in GPU memory; `solve`, `solve_dual` and `solve_colgen` take it like a `Problem`.

    The arrays are believed: nothing checks that rows are probabilities. Solutions of such a problem keep
    their long vectors on the device too, and are certified there.

    Attributes
    ----------
    mdp
        The model.
    sets
        ``(gptr, gcol, gval)``: item i counts with weight ``gval[j]`` for quota ``gcol[j]``, for j from
        ``gptr[i]`` to ``gptr[i + 1]``; int64, int32 and float64.
    by_state
        Whether the items are states, or else pairs.
    at_least, at_most
        Bounds on the shares, (K,), in host memory.
    names
        What messages call the quotas, if they have names.
    """

    mdp: DeviceMDP
    sets: tuple[Any, Any, Any]
    by_state: bool
    at_least: Floats
    at_most: Floats
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        items = self.mdp.n_states if self.by_state else self.mdp.n_pairs
        for what, size, expected in (
            ("mdp.row", self.mdp.row.size, self.mdp.n_pairs + 1),
            ("mdp.val", self.mdp.val.size, self.mdp.col.size),
            ("sets[0]", self.sets[0].size, items + 1),
            ("at_most", self.at_most.size, self.at_least.size),
        ):
            if size != expected:
                raise ProblemError(f"{what} has {size} entries, expected {expected}")

    @property
    def n_quotas(self) -> int:
        """Number of quotas."""
        return int(self.at_least.size)

    @property
    def bytes(self) -> int:
        """Memory that model and quotas take."""
        return self.mdp.bytes + sum(int(array.nbytes) for array in self.sets)

    @cached_property
    def each_state(self) -> bool:
        """Whether every state has a quota of its own, in the order of the states."""
        n, (gptr, gcol, gval) = self.mdp.n_states, self.sets
        if not (self.by_state and self.n_quotas == n == gcol.size):
            return False
        numbers = gptr[:-1]  # 0, 1, 2, ... if there is one quota for each
        in_order = bool((gptr[1:] - numbers == 1).all() and (gcol == numbers).all())
        return in_order and bool((gval == 1).all())

    @classmethod
    def of(cls, problem: Problem, put: Any) -> DeviceProblem:
        """Copy a problem to a device, array by array; `put` copies one."""
        arrays, by_state = host_arrays(problem)
        ptr, row, col, val, r, *sets = (put(array) for array in arrays)
        mdp = DeviceMDP(ptr, row, col, val, r)
        return cls(
            mdp, (sets[0], sets[1], sets[2]), by_state, problem.at_least, problem.at_most, problem.names
        )


def host_arrays(problem: Problem) -> tuple[list[Any], bool]:
    """The arrays of a problem that a device needs, and whether its sets are given by states."""
    mdp = problem.mdp
    if mdp.durations is not None:
        raise ProblemError(
            "there is no time on a device\n  upload problem.uniform, or solve the problem itself there"
        )
    by_state = bool(problem.over_states.all() and (problem.members.data == 1).all())
    sets = (problem.members[:, mdp.pair_ptr[:-1]] if by_state else problem.members).T.tocsr()
    P = mdp.P
    wide = np.int64 if P.nnz >= 2**31 else np.int32
    return [
        mdp.pair_ptr.astype(np.int64, copy=False),
        P.indptr.astype(wide, copy=False),
        P.indices.astype(np.int32, copy=False),
        P.data,
        mdp.r,
        sets.indptr.astype(np.int64),
        sets.indices.astype(np.int32, copy=False),
        sets.data.astype(np.float64, copy=False),
    ], by_state
