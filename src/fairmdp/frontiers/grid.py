"""Two quotas at once: the best gain for every combination of what they owe."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.frontiers.family import ALL, Family
from fairmdp.frontiers.points import checked_values, frontier_at
from fairmdp.learning.counts import Engine
from fairmdp.model.checks import Floats, ReadOnly
from fairmdp.model.problem import Problem
from fairmdp.model.quota_text import with_named
from fairmdp.tables import Table

_EVEN = 11  # values of a quota where none are given


@dataclass(frozen=True, eq=False, repr=False)
class FrontierGrid(ReadOnly):
    """Best gain for combinations of two quotas' ``at_least``.

    Attributes
    ----------
    quotas : tuple of str
        The two quotas that move.
    values : tuple of ndarray
        What each of them owes, ascending, (N,) and (M,).
    gains, uppers : ndarray
        Best gain and proven ceiling for each combination, (N, M); NaN where no policy is fair.
    worst_slacks : ndarray
        Smallest slack of a quota, (N, M).
    shares : ndarray
        Share of every quota's set, (N, M, K).
    quota_names : tuple of str
        Names of the K quotas.
    per : str or None
        What gains are per, where that is not a step.
    """

    quotas: tuple[str, str]
    values: tuple[Floats, Floats]
    gains: Floats
    uppers: Floats
    worst_slacks: Floats
    shares: Floats
    quota_names: tuple[str, ...]
    per: str | None = None

    def __repr__(self) -> str:
        met = int(np.isfinite(self.gains).sum())
        return f"FrontierGrid({' by '.join(self.quotas)}, {met} of {self.gains.size} combinations can be met)"

    def to_table(self) -> Table:
        """Return one row per combination."""
        N, M = self.gains.shape
        columns = [
            np.repeat(self.values[0], M), np.tile(self.values[1], N),
            *(numbers.ravel() for numbers in (self.gains, self.uppers, self.worst_slacks)),
            *self.shares.reshape(N * M, -1).T,
        ]  # fmt: skip
        shares = (f"share_{name}" for name in self.quota_names)
        head = [*(f"owed_{quota}" for quota in self.quotas), "gain", "upper", "worst_slack", *shares]
        return Table(zip(head, (column.tolist() for column in columns), strict=True))


def frontier_grid(
    problem: Problem,
    first: str,
    second: str,
    first_values: Iterable[float] | None = None,
    second_values: Iterable[float] | None = None,
    *,
    method: str = "auto",
    tol: float = 1e-6,
    engine: Engine = map,
) -> FrontierGrid:
    """Compute the best gain for every combination of two quotas' ``at_least``.

    Parameters
    ----------
    problem
        Model and quotas; the others stay as they are.
    first, second
        Names of the two quotas that move; states or ``state/action`` without a quota will do, too.
    first_values, second_values
        What each of them is to owe; by default eleven even shares up to the last that can be met.
    method, tol
        As for `solve`.
    engine
        Where the rows of the grid are solved, as for `frontier`; it does not change the result.

    Examples
    --------
    >>> from fairmdp import frontier_grid, scenarios
    >>> frontier_grid(scenarios.three_state(), "s1", "s2", [0.1, 0.46], [0.1, 0.3, 0.46]).gains.round(4)
    array([[0.5216, 0.4174, 0.1292],
           [0.496 , 0.316 ,    nan]])
    """
    if first == second or ALL in (first, second):
        raise ProblemError("a grid takes two different quotas by name")
    problem = with_named(problem, first, second)
    down, across = Family(problem, first), Family(problem, second)
    rows, columns = (
        checked_values(family, _even(family) if given is None else given)
        for family, given in ((down, first_values), (across, second_values))
    )
    solve_row = partial(_row, down, second, columns, method, tol)
    gains, uppers, slacks, shares = zip(*engine(solve_row, rows.tolist()), strict=True)
    return FrontierGrid(
        quotas=(first, second),
        values=(rows, columns),
        gains=np.array(gains),
        uppers=np.array(uppers),
        worst_slacks=np.array(slacks),
        shares=np.array(shares),
        quota_names=problem.names,
        per=problem.mdp.per,
    )


def _even(family: Family) -> Floats:
    """Values from the first to the last that can be met."""
    return family.first + (family.last()[0] - family.first) * np.arange(_EVEN) / (_EVEN - 1)


def _row(
    down: Family, second: str, values: Floats, method: str, tol: float, owed: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Gains, ceilings, worst slacks and shares of one row; nothing fair where the row itself is refused."""
    try:
        family = Family(down.at(owed), second)
    except ProblemError:
        nothing = np.full(values.size, np.nan)
        return nothing, nothing, nothing, np.full((values.size, down.problem.n_quotas), np.nan)
    row = frontier_at(family, values, method=method, tol=tol, engine=map, together=values.size)
    slacks = np.full(values.size, np.nan)
    slacks[: len(row.solutions)] = [s.worst_slack for s in row.solutions]
    return row.gains, row.uppers, slacks, row.shares
