"""What is proved of any policy: gain and shares, the quotas it breaks, how far the best fair one is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fairmdp.audit.mending import MOST_PAIRS, Mended, mend
from fairmdp.audit.outcomes import Outcome, mean_outcome, outcomes
from fairmdp.certificate import FAIR_TOL, worst_slack
from fairmdp.deadline import Deadline
from fairmdp.io.policy_files import read_policy
from fairmdp.model.checks import Floats, ReadOnly
from fairmdp.model.problem import Problem
from fairmdp.policy.policy import Policy
from fairmdp.solution.solution import Solution, Status, slacks
from fairmdp.solvers.auto import solve
from fairmdp.tables import Table

FAIR, NOT_FAIR, UNDECIDED = "fair", "not fair", "undecided"


class Finding(NamedTuple):
    """One quota under a policy, in the units it was stated in; all numbers are proved."""

    quota: str
    low: float
    """Its share, or mean of weights, is at least this"""
    high: float
    """and at most this, whatever a run comes to; of a quota on the mean over runs that is meant."""
    at_least: float
    at_most: float
    short: float
    """What is certainly missing to the nearer bound in some run; 0 where the quota may be met."""
    verdict: str
    """``"fair"``, ``"not fair"`` where some run breaks it for certain, or ``"undecided"``."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(ReadOnly):
    """A policy judged.

    Attributes
    ----------
    policy : Policy
        What was judged, in the order of the model.
    outcomes : tuple of Outcome
        What a run may come to: more than one where the chain has several closed classes, or of a mixture.
    mean_gain : tuple of float
        Interval that contains the gain in the mean over runs.
    best : Solution
        The best fair policy, or the proof that there is none.
    mended : Mended or None
        The least change that makes the policy fair, where it is not.
    findings : tuple of Finding
        One per quota.
    worst_slack : float
        Smallest slack of a quota in any run, at the worse end of what is proved, as a share of time; infinite
        where nothing is owed.
    notes : tuple of str
        What a careful reader should know.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> problem = scenarios.three_state()
    >>> seen = evaluate(problem, {"s0": "a0", "s1": "a1", "s2": "a0"})
    >>> seen
    Evaluation(not fair, gain in [0.526316, 0.526316], worst_slack=-0.159, breaks s2)
    >>> row = seen.findings[2]
    >>> row.quota, round(row.low, 4), row.at_least, round(row.short, 4)
    ('s2', 0.0909, 0.25, 0.1591)
    >>> round(seen.mended.moved, 4), seen.mended.solution
    (0.3778, Solution(optimal, gain=0.443421, upper=0.443421, worst_slack=0))
    """

    policy: Policy
    outcomes: tuple[Outcome, ...]
    mean_gain: tuple[float, float]
    best: Solution
    mended: Mended | None
    findings: tuple[Finding, ...]
    worst_slack: float
    notes: tuple[str, ...] = ()

    @cached_property
    def gain(self) -> tuple[float, float]:
        """Interval that contains the long-run average reward of every run."""
        return min(o.gain[0] for o in self.outcomes), max(o.gain[1] for o in self.outcomes)

    @property
    def verdict(self) -> str:
        """``"fair"`` if all runs meet all quotas, ``"not fair"`` if some break one, else ``"undecided"``."""
        verdicts = {finding.verdict for finding in self.findings}
        if any(outcome.flaw for outcome in self.outcomes):
            verdicts.add(UNDECIDED)
        return next((word for word in (NOT_FAIR, UNDECIDED) if word in verdicts), FAIR)

    @property
    def broken(self) -> tuple[str, ...]:
        """Quotas that some run breaks."""
        return tuple(finding.quota for finding in self.findings if finding.verdict == NOT_FAIR)

    @property
    def behind(self) -> tuple[float, float] | None:
        """Interval for what the best fair policy earns more in the mean over runs; None where there is none.

        It is negative where quotas are broken for gain.
        """
        if self.best.status not in (Status.OPTIMAL, Status.FEASIBLE):
            return None
        return self.best.gain - self.mean_gain[1], self.best.upper - self.mean_gain[0]

    def to_table(self) -> Table:
        """Return one row per quota."""
        return Table.of(Finding._fields, self.findings)

    def __repr__(self) -> str:
        low, high = (round(end, 12) + 0.0 for end in self.gain)
        broken = f", breaks {', '.join(self.broken)}" if self.broken else ""
        gain = f"gain in [{low:.6g}, {high:.6g}], worst_slack={self.worst_slack:.3g}"
        return f"Evaluation({self.verdict}, {gain}{broken})"


def evaluate(problem: Problem, policy: Any, *, tol: float = 1e-6, seconds: float | None = None) -> Evaluation:
    """Judge a policy: what it earns, which quotas it breaks and by how much, and what would mend it.

    Parameters
    ----------
    problem
        The model and the quotas that the policy should meet.
    policy
        Whatever `Policy.of` takes, or the path of a file: a table or JSON of ours, a solution, an estimate, a
        strategy of PRISM or a scheduler of Storm.
    tol, seconds
        As for `solve`, which finds the best fair policy.

    Returns
    -------
    Evaluation
        Shares and gain in intervals that the certificate proves, for each closed class where the chain has
        several. Where the policy is not proved fair, the least change that makes it so, proved as well.

    Notes
    -----
    A policy is fair if every run from the model's ``initial``, or where that is None from any state, keeps
    every quota in the long run, wherever it ends; quotas on the mean over runs are kept by that.
    """
    deadline = Deadline(seconds)
    if isinstance(policy, str | os.PathLike):
        given = read_policy(problem, policy)
    else:
        given = Policy.of(problem, policy)
    runs = outcomes(problem, given)
    mean = runs[0] if len(runs) == 1 else mean_outcome(problem, given)
    judged = [_judged(problem, run, mean) for run in runs]
    best = solve(problem, tol=tol, seconds=seconds)
    seen = Evaluation(
        given, runs, mean.gain, best, None, tuple(_findings(problem, judged)),
        min(worst_slack(problem, run.shares) for run in judged), tuple(_notes(runs)),
    )  # fmt: skip
    if seen.verdict == FAIR or best.status not in (Status.OPTIMAL, Status.FEASIBLE):
        return seen
    if problem.mdp.n_pairs > MOST_PAIRS:
        large = f"the least change is looked for up to {MOST_PAIRS:,} state-action pairs"
        return replace(seen, notes=(*seen.notes, large))
    return replace(seen, mended=mend(problem, given, best, deadline))


def _judged(problem: Problem, run: Outcome, mean: Outcome) -> Outcome:
    """What counts of a run: its own shares, and for quotas on the mean over runs those of the mean."""
    of_mean = problem.expected[:, None]
    return replace(
        run,
        shares=np.where(of_mean, mean.shares, run.shares),
        values=np.where(of_mean, mean.values, run.values),
    )


def _findings(problem: Problem, runs: Sequence[Outcome]) -> Iterator[Finding]:
    values, (lower, upper) = np.array([run.values for run in runs]), problem.stated_bounds  # (runs, K, 2)
    worst, sure = _slacks_of(problem, np.array([run.shares for run in runs]))
    broken, met = sure.min(axis=0) < -FAIR_TOL, worst.min(axis=0) >= -FAIR_TOL
    short = np.fmax(lower - values[..., 1], values[..., 0] - upper).max(axis=0, initial=0.0)
    ends = np.fmin.reduce(values[..., 0]), np.fmax.reduce(values[..., 1])
    columns = [column.tolist() for column in (*ends, lower, upper, np.where(broken, short, 0.0))]
    verdicts = np.where(broken, NOT_FAIR, np.where(met, FAIR, UNDECIDED)).tolist()
    yield from map(Finding, problem.names, *columns, verdicts)


def _slacks_of(problem: Problem, shares: Floats) -> tuple[Floats, Floats]:
    """Smallest and largest slack that shares within their intervals may have, (runs, K) each."""
    low, high = (slacks(shares[..., end], problem.at_least, problem.at_most) for end in (0, 1))
    possible = (shares[..., 0] <= problem.at_most) & (shares[..., 1] >= problem.at_least)
    return np.minimum(low, high), np.maximum(np.maximum(low, high), np.where(possible, 0.0, -np.inf))


def _notes(runs: tuple[Outcome, ...]) -> Iterator[str]:
    yield from dict.fromkeys(run.flaw for run in runs if run.flaw)
    if len(runs) > 1:
        yield f"a run may come to {len(runs)} ends, and shares depend on which"
