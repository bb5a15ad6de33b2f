"""How the fair point moves: along the aversion to inequality, or along the weight of the gain."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, ReadOnly, numeric
from fairmdp.model.objectives import AlphaFair, Atkinson, Objective, alpha_fair, objective_text
from fairmdp.model.problem import Problem
from fairmdp.solution.welfare import WelfareSolution
from fairmdp.tables import Table
from fairmdp.welfare.solve import solve_welfare

ALONG = ("alpha", "gain")
_USUAL = {"alpha": (0.0, 0.5, 1.0, 2.0, 4.0, 8.0), "gain": (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)}


@dataclass(frozen=True, eq=False)
class WelfareFrontier(ReadOnly):
    """Fair points for several aversions to inequality, or weights of the gain.

    Attributes
    ----------
    along : str
        What moves: ``"alpha"`` or ``"gain"``.
    values : ndarray
        Where it was looked at, (n,).
    answers : tuple of WelfareSolution
        What `solve_welfare` found there, each with its proof.
    """

    along: str
    values: Floats
    answers: tuple[WelfareSolution, ...]

    @property
    def over(self) -> tuple[str, ...]:
        """The groups."""
        return self.answers[0].over

    @property
    def head(self) -> str:
        """What the values are called in tables."""
        return "weight_of_gain" if self.along == "gain" else self.along

    @property
    def principle(self) -> str:
        """What stays the same."""
        return "alpha-fair" if self.along == "alpha" else objective_text(self.answers[0].objective)

    def to_table(self) -> Table:
        """Return a row per value: status, gain, smallest slack, welfare, and what each group gets."""
        nothing = [math.nan] * len(self.over)
        return Table.of(
            (self.head, "status", "gain", "worst_slack", "welfare", "upper", *self.over),
            (
                (
                    value, fair.status.value, fair.gain, fair.worst_slack, fair.welfare, fair.welfare_upper,
                    *(fair.utilities.tolist() if fair.has_policy else nothing),
                )
                for value, fair in zip(self.values.tolist(), self.answers, strict=True)
            ),
        )  # fmt: skip


def welfare_frontier(
    problem: Problem,
    along: str = "alpha",
    values: Iterable[float] | None = None,
    *,
    objective: Objective | None = None,
    over: Iterable[str] | None = None,
    reward: float = 0.0,
    tol: float = 1e-6,
) -> WelfareFrontier:
    """Follow the fair point as aversion to inequality grows, or as the gain comes to count for more.

    Parameters
    ----------
    problem, over, tol
        As for `solve_welfare`.
    along
        ``"alpha"``: from the sum of the utilities (0) by proportional fairness (1) towards max-min; or
        ``"gain"``: the weight of the gain beside the welfare.
    values
        Of alpha, or of the weight; a usual handful where there are none.
    objective
        What is followed: along the gain any welfare, along alpha an `alpha_fair` (its weights and reference)
        or `atkinson`; proportional fairness where there is none.
    reward
        Weight of the gain, along alpha.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> path = welfare_frontier(scenarios.jobs().with_sets_unbounded(), values=[0, 1, 8])
    >>> [fair.utilities.round(1).tolist() for fair in path.answers]
    [[0.1, 0.7], [0.3, 0.5], [0.3, 0.4]]
    """
    if along not in ALONG:
        raise ProblemError(f"along is {along!r}, expected {' or '.join(ALONG)}")
    objective = alpha_fair(1.0) if objective is None else objective
    if along == "alpha" and not isinstance(objective, AlphaFair | Atkinson):
        raise ProblemError("along alpha there is alpha_fair or atkinson to follow, and nothing else")
    at = numeric("values", list(_USUAL[along] if values is None else values))
    if at.ndim != 1 or at.size == 0 or not np.isfinite(at).all() or at.min() < 0:
        raise ProblemError(f"values are {at.tolist()}, expected numbers of 0 or more")
    over = None if over is None else tuple(over)
    answers = [
        solve_welfare(problem, each, over=over, reward=weight, tol=tol)
        for each, weight in (_asked(along, objective, value, reward) for value in at.tolist())
    ]
    return WelfareFrontier(along, at, tuple(answers))


def _asked(along: str, objective: Objective, value: float, reward: float) -> tuple[Objective, float]:
    """The welfare and the weight of the gain at one value."""
    if along == "gain":
        return objective, value
    if isinstance(objective, Atkinson):
        return replace(objective, aversion=value), reward
    assert isinstance(objective, AlphaFair)
    return replace(objective, alpha=value), reward
