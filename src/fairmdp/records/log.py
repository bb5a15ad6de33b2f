"""Logs: records of what was done in which state, what it paid and what followed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any, Literal

import numpy as np

from fairmdp import records
from fairmdp.errors import ProblemError
from fairmdp.files import naming
from fairmdp.model.checks import Bools, Floats, Ints, ReadOnly, counted
from fairmdp.model.columns import table_of
from fairmdp.model.labels import Labels
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.model.simulator import LARGEST_REWARD
from fairmdp.model.transitions import staying
from fairmdp.tables import Table

LOG_ROLES = ("state", "action", "reward", "next", "trajectory", "time", "weight")
"""What the columns of a table of records say; the last three may be missing."""

NOT_RECORDED = "not recorded"
"""Name of the only action of a state that was entered and never left."""


@dataclass(frozen=True, eq=False, repr=False)
class Log(ReadOnly):
    """Records of a system that ran: state, action, reward and next state, N of them.

    Made by `from_table` or `from_trajectories`. States are all that were entered or left; a state that was
    never left has one action, called "not recorded".

    Attributes
    ----------
    labels : Labels
        Names of the states and of the actions that were recorded.
    pairs, s_next : ndarray
        State-action pair of each record and the state that followed, by number, (N,). Records of one
        trajectory stand together, in order.
    rewards : ndarray
        What each record paid, (N,).
    times : ndarray
        When each was made, (N,): what the table says, else the place in it.
    follows : ndarray
        Whether a record begins where the one before it in its trajectory ended, (N,).
    gaps : int
        Records that should follow the one before, and do not: something is missing between them.
    ordered : bool
        Whether records came one by one; False where a row stands for many.

    Examples
    --------
    >>> log = Log.from_table({
    ...     "state": ["day", "night", "day"], "action": ["work", "sleep", "work"],
    ...     "reward": [2, 0, 1], "next": ["night", "day", "day"],
    ... })
    >>> log
    Log(3 records of 2 pairs in 2 states)
    """

    labels: Labels
    pairs: Ints
    s_next: Ints
    rewards: Floats
    times: Floats
    follows: Bools
    gaps: int = 0
    ordered: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        wild = ~(np.abs(self.rewards) <= LARGEST_REWARD)
        if wild.any():
            raise ProblemError(
                f"record {int(wild.argmax())} (from 0) pays {self.rewards[wild.argmax()]}, "
                f"expected at most {LARGEST_REWARD:g}"
            )

    @classmethod
    def from_table(cls, table: Any, *, columns: Mapping[str, str | None] | None = None) -> Log:
        """Read a table with one record per row.

        Parameters
        ----------
        table
            A data frame of pandas or polars, an Arrow table, a dictionary of columns, a list of
            dictionaries, or the path of a ``.csv`` or ``.parquet`` file. Its columns are state, action,
            reward and next (the next state), and perhaps trajectory (rows of different trajectories do not
            follow each other), time (numbers, or dates as 2026-11-19 or 2026-11-19T08:00; rows are sorted
            by it; numbers that begin anew with each trajectory are its steps, and trajectories are as old as
            their place in the table says) and weight (a whole number: so many equal records, whose order is
            not known).
        columns
            Which column is what, where the names differ: ``{"next": "to"}``. With ``{"next": None}`` the
            next state is the state of the next row of the trajectory, whose last row is left out.

        Examples
        --------
        >>> rows = {"state": ["a", "b", "a"], "action": ["x", "y", "x"], "reward": [1, 0, 1]}
        >>> Log.from_table(rows, columns={"next": None})
        Log(2 records of 2 pairs in 2 states)
        """
        if isinstance(table, str | PathLike):
            with naming(table):
                return records.log_of(table_of(table), columns)
        return records.log_of(table_of(table), columns)

    @classmethod
    def from_trajectories(
        cls, trajectories: Iterable[Any], *, on_terminate: Literal["restart", "absorb"] | None = None
    ) -> Log:
        """Read trajectories of a Gymnasium loop, or the episodes of a Minari dataset.

        Parameters
        ----------
        trajectories
            Each is a tuple ``(states, actions, rewards)`` with one more state than actions, or has these as
            entries or attributes ``observations`` (or ``states``), ``actions``, ``rewards``, and perhaps
            ``terminations``. States and actions are numbers, names or other hashable objects.
        on_terminate
            What follows where an episode ends by itself: ``"restart"`` records a step, called restart, to
            the first state of the next episode, ``"absorb"`` leaves the last state as one that was never
            left. An episode that was only cut off needs nothing.

        Examples
        --------
        >>> Log.from_trajectories([(["a", "b", "a"], [0, 1], [1.0, 0.0]), (["b", "b"], [0], [0.5])])
        Log(3 records of 3 pairs in 2 states, 2 trajectories)
        """
        return records.log_of_trajectories(trajectories, on_terminate)

    @property
    def n_records(self) -> int:
        """Number of records, N."""
        return int(self.pairs.size)

    @property
    def n_trajectories(self) -> int:
        """Number of stretches that the table calls trajectories."""
        return self.n_records - int(self.follows.sum()) - self.gaps if self.ordered else self.n_records

    @cached_property
    def per_pair(self) -> Ints:
        """Records of each pair, (SA,)."""
        return np.bincount(self.pairs, minlength=self.labels.n_pairs)

    @cached_property
    def shell(self) -> MDP:
        """States and actions by name, with nothing known of what follows: quotas are stated on it."""
        labels = self.labels
        return MDP(
            staying(labels.s_of, labels.n_states), np.zeros(labels.n_pairs), labels.s_of,
            states=labels.states, actions=labels.actions,
        )  # fmt: skip

    def problem(self, quotas: Iterable[Quota]) -> Problem:
        """Return quotas over the states and actions of the log; transitions in it are not known."""
        return Problem(self.shell, quotas)

    def check(self, *, possible: MDP | None = None) -> tuple[records.Finding, ...]:
        """Look for what the log of a Markov model does not have, and for gaps and what was hardly tried.

        Parameters
        ----------
        possible
            A model of the same states and actions, by name, whose transitions are all that can happen.

        Returns
        -------
        tuple of Finding
            Each with a sentence. Of tests (of drift over time, of memory of the state and of the action
            before, of likeness to earlier records; where rewards are noisy, of theirs, too) with a p-value
            that is corrected for their number, and an alarm where that is below 0.01.

        Examples
        --------
        >>> from fairmdp import record, scenarios
        >>> for finding in record(scenarios.three_state().mdp, steps=2000, seed=1).check():
        ...     print(finding.sentence)
        what follows does not seem to change over time (p = 1)
        what follows does not seem to depend on the state before (p = 0.041)
        what follows does not seem to depend on the action before (p = 0.88)
        what follows does not seem to be alike at records near each other, as if the state lacked
        something that lasts (p = 1)
        """
        return records.check_log(self, possible=possible)

    def part(self, chosen: Bools) -> Log:
        """Return the log of some of the records, (N,), with the same states and actions."""
        n = np.flatnonzero(chosen)
        follows = self.follows[n] & (np.diff(n, prepend=-2) == 1)
        return Log(
            self.labels, self.pairs[n], self.s_next[n], self.rewards[n], self.times[n], follows,
            ordered=self.ordered,
        )  # fmt: skip

    def earlier(self, share: float) -> Bools:
        """Mask of the records that were made first, such a share of all, (N,)."""
        first = np.zeros(self.n_records, bool)
        first[np.argsort(self.times, kind="stable")[: int(share * self.n_records)]] = True
        return first

    def to_table(self) -> Table:
        """Return one row per record, as `from_table` reads it."""
        labels = self.labels
        states = [labels.state_name(s) for s in range(labels.n_states)]
        actions = [labels.action_name(i) for i in range(labels.n_pairs)]
        columns = {
            "state": [states[s] for s in labels.s_of[self.pairs].tolist()],
            "action": [actions[i] for i in self.pairs.tolist()],
            "reward": self.rewards.tolist(),
            "next": [states[s] for s in self.s_next.tolist()],
        }
        if self.ordered:
            columns["trajectory"] = np.cumsum(~self.follows).tolist()
        return Table(columns)

    def __repr__(self) -> str:
        several = (
            f", {self.n_trajectories:,} trajectories" if self.ordered and self.n_trajectories > 1 else ""
        )
        pairs = counted(int((self.per_pair > 0).sum()), "pair")
        return (
            f"Log({self.n_records:,} records of {pairs} in {counted(self.labels.n_states, 'state')}{several})"
        )


def name_of(value: Hashable) -> Hashable:
    """A state or an action as Python's own object: numpy's numbers as numbers, arrays as tuples."""
    if isinstance(value, np.ndarray):
        return name_of(value.item()) if value.ndim == 0 else tuple(value.tolist())
    return value.item() if isinstance(value, np.generic) else value
