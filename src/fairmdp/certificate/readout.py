"""How evenly policies treat groups: shares side by side, and the usual numbers for their spread.

The words are those of Fairlearn's MetricFrame: `by_group`, `overall`, `difference`, `ratio`, `group_min`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from fairmdp.certificate import FAIR_TOL, rounded, rounded_ends
from fairmdp.certificate.claim_ends import shares_of
from fairmdp.certificate.facts import LongRun
from fairmdp.certificate.law import Law
from fairmdp.chains.chain import Chain
from fairmdp.chains.policy import checked_policy
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats, ReadOnly, real_vector
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import slacks

_READABLE = 1e-6  # error of a share above which the digits that are shown would not be right


@dataclass(frozen=True, eq=False)
class Readout(ReadOnly):
    """Shares of the groups of a problem under one policy, and what it earns.

    A quota with weights or a condition is no group: its mean or part is among the shares, but no number for
    their spread counts it.

    Examples
    --------
    >>> from fairmdp import scenarios, solve
    >>> problem = scenarios.three_state()
    >>> seen = readout(problem, solve(problem).policy)
    >>> seen.group_min(), round(seen.ratio(), 4), seen.binding
    (('s2', 0.25), 0.6552, ('s2',))
    """

    names: tuple[str, ...]
    shares: Floats  # (K,), in the units that the quotas were stated in
    slacks: Floats  # (K,)
    gain: float
    share_error: float = 0.0
    """Proven: no share (of a weighted quota: no mean, in spans of its weights) is off by more."""
    gain_error: float = 0.0
    """Proven: the gain is not off by more."""
    weighted: tuple[str, ...] = ()  # quotas that are no groups

    @classmethod
    def of(
        cls, problem: Problem, x: Floats, gain: float, share_error: float = 0.0, gain_error: float = 0.0
    ) -> Readout:
        """Return the read-out of a policy whose shares of the pairs, (SA,), and gain are known."""
        left = slacks(problem.members @ x, problem.at_least, problem.at_most)
        weighted = tuple(problem.names[k] for k in np.flatnonzero(problem.weighted))
        return cls(problem.names, problem.stated_shares(x), left, gain, share_error, gain_error, weighted)

    @cached_property
    def by_group(self) -> dict[str, float]:
        """Share of each group."""
        shares = zip(self.names, self.shares.tolist(), strict=True)
        return {name: share for name, share in shares if name not in self.weighted}

    @cached_property
    def _groups(self) -> Floats:
        return np.array(list(self.by_group.values()))

    @property
    def overall(self) -> float:
        """Mean share of a group."""
        return float(self._groups.mean())

    def group_min(self) -> tuple[str, float]:
        """Name and share of the worst-off group."""
        name = min(self.by_group, key=self.by_group.__getitem__)
        return name, round(self.by_group[name], 12)

    def group_max(self) -> tuple[str, float]:
        """Name and share of the best-off group."""
        name = max(self.by_group, key=self.by_group.__getitem__)
        return name, round(self.by_group[name], 12)

    def difference(self) -> float:
        """Largest share less the smallest."""
        return float(np.ptp(self._groups))

    def ratio(self) -> float:
        """Smallest share over the largest; 1 is even."""
        top = float(self._groups.max())
        return float(self._groups.min()) / top if top > 0 else 1.0

    @property
    def jain(self) -> float:
        """Jain's index ``(sum s)^2 / (K sum s^2)``: 1 is even, 1/K is all for one."""
        squares = float(self._groups @ self._groups)
        return float(self._groups.sum()) ** 2 / (self._groups.size * squares) if squares > 0 else 1.0

    @property
    def gini(self) -> float:
        """Gini coefficient, the mean difference of two groups over twice the mean share: 0 is even."""
        total = float(self._groups.sum())
        if total == 0:
            return 0.0
        ranked, K = np.sort(self._groups), self._groups.size
        return float((2 * np.arange(1, K + 1) - K - 1) @ ranked) / (K * total)

    @property
    def binding(self) -> tuple[str, ...]:
        """Quotas that are met without room to spare."""
        return self._where(np.abs(self.slacks) <= FAIR_TOL)

    @property
    def broken(self) -> tuple[str, ...]:
        """Quotas that are not met."""
        return self._where(self.slacks < -FAIR_TOL)

    def _where(self, true: Bools) -> tuple[str, ...]:
        return tuple(self.names[k] for k in np.flatnonzero(true))


def readout(
    problem: Problem,
    policy: ArrayLike,
    over: Iterable[str] | None = None,
    *,
    weights: ArrayLike | None = None,
) -> Readout:
    """Read off how a policy treats the groups that the quotas name, as far as the certificate proves it.

    Parameters
    ----------
    problem
        The model and the quotas.
    policy
        Probability of each pair given its state, (SA,); of several policies one is drawn, (M, SA).
    over
        The groups by name, which may have weights; without it all quotas that are sets.
    weights
        With which probability each of several policies is drawn, (M,).

    Returns
    -------
    Readout
        Where the policy has several closed classes, of runs from `MDP.start`: gain and shares in the mean
        over runs, and slacks of quotas that every run must meet in the worst class.
    """
    seen = _of_one(problem, policy) if weights is None else _of_ends(problem, policy, weights)
    return seen if over is None else replace(seen, weighted=_others(problem, over))


def _of_one(problem: Problem, policy: ArrayLike) -> Readout:
    mdp = problem.mdp
    checked = checked_policy(mdp, policy)
    chain = Chain.of(mdp, checked)
    if len(chain.closed_classes) > 1:
        return _of_ends(problem, checked[None], None)
    run = rounded.long_run(problem, checked, chain)
    _require(run)
    return _readout(problem, mdp.per_step(checked) * chain.shares[mdp.s_of], run)


def _of_ends(problem: Problem, policies: ArrayLike, weights: ArrayLike | None) -> Readout:
    """Of runs from the start, where they may end differently."""
    checked = np.array([checked_policy(problem.mdp, each) for each in np.asarray(policies)])
    drawn = None if weights is None else real_vector("weights", weights, len(checked))
    law = rounded_ends.law(problem, checked, drawn)
    _require(law)
    left = slacks(shares_of(problem, law), problem.at_least, problem.at_most)
    return replace(_readout(problem, law.occupancy, law), slacks=left)


def _require(run: LongRun) -> None:
    if run.flaw is not None:
        raise ProblemError(run.reason)


def _readout(problem: Problem, x: Floats, run: LongRun) -> Readout:
    shares, gain = problem.members @ x, float(problem.mdp.rates @ x)
    of_all = run.error if isinstance(run, Law) else np.abs(run.shares - shares[:, None]).max(initial=0.0)
    if of_all > _READABLE:
        raise ProblemError(f"the shares of this policy cannot be proved: they may be off by {of_all:.1g}")
    gain_error = max(run.gain[1] - gain, gain - run.gain[0])
    return Readout.of(problem, x, gain, float(of_all), gain_error)


def _others(problem: Problem, over: Iterable[str]) -> tuple[str, ...]:
    """Names of the quotas that are not among those which are given."""
    rows = {problem.quota_index(name) for name in over}
    return tuple(name for k, name in enumerate(problem.names) if k not in rows)
