"""What `solve_welfare` returns: a policy, what its welfare is, and the witnesses that none has more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import NamedTuple

import numpy as np

from fairmdp import solution as files
from fairmdp.model.checks import Floats, ReadOnly
from fairmdp.model.objectives import Objective
from fairmdp.solution.solution import Solution, Status


@dataclass(frozen=True, eq=False)
class Level(ReadOnly):
    """A proof that groups cannot all have more, while others keep what they have.

    Attributes
    ----------
    value
        No policy that meets the quotas, and gives the groups of earlier levels what this one gives them,
        gives every other group more than this.
    groups
        Which groups hold this level down: they have this much in every best policy.
    marginals
        Weights on the groups of this and later levels that add up to one, (groups,).
    prices
        Prices of the quotas, and of what the groups of earlier levels keep, (K,) in shares.
    bias
        Relative values, (S,).
    """

    value: float
    groups: tuple[str, ...]
    marginals: Floats
    prices: Floats
    bias: Floats


class UtilityRow(NamedTuple):
    """What one group gets, and what one more unit of it would be worth."""

    name: str
    utility: float
    marginal: float


@dataclass(frozen=True, eq=False, repr=False)
class WelfareSolution(ReadOnly):
    """The policy of largest welfare, with everything that is needed to check it against the problem.

    Attributes
    ----------
    solution : Solution
        The policy: gain, shares and quotas. Its ``upper`` is a ceiling on any gain at all.
    objective : AlphaFair or another objective
        The welfare W that was maximised.
    reward : float
        Weight w of the gain beside it: ``w gain + W(utilities)``.
    over : tuple of str
        The groups, as rows of the problem.
    status : Status
        What was proved of the welfare: optimal or feasible, infeasible where no policy has one, which
        ``levels`` or the policy's own status explain.
    welfare : float
        ``w gain + W(utilities)`` of the policy; for leximin the least utility.
    welfare_upper : float
        Proven: no policy that meets the quotas has more.
    marginals : ndarray
        What one more unit of each utility is worth in welfare, (groups,): with `prices` and `bias` the
        witness of `welfare_upper`.
    prices : ndarray
        What one more unit of each quota's share costs in welfare, (K,).
    bias : ndarray
        Relative values of the model that is paid ``w r`` and the marginals, (S,).
    tol : float
        Gap, in the welfare's own unit, up to which a policy is called optimal.
    levels : tuple of Level
        Of leximin one for each level; of a welfare that no policy has, the proof.
    counters : dict
        What the search did.
    """

    solution: Solution
    objective: Objective
    reward: float
    over: tuple[str, ...]
    status: Status
    welfare: float
    welfare_upper: float
    marginals: Floats
    prices: Floats
    bias: Floats
    tol: float
    levels: tuple[Level, ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """How much more welfare a better policy could still have."""
        return self.welfare_upper - self.welfare

    @property
    def has_policy(self) -> bool:
        """Whether there is a policy to speak of."""
        return self.solution.has_policy

    @property
    def gain(self) -> float:
        """Long-run average reward of the policy."""
        return self.solution.gain

    @property
    def worst_slack(self) -> float:
        """Smallest slack of a quota; infinite where nothing is owed."""
        return self.solution.worst_slack

    @property
    def policy(self) -> Floats:
        """Probability of each pair given its state, (SA,)."""
        return self.solution.policy

    @property
    def utilities(self) -> Floats:
        """What each group gets, in the unit it was stated in, (groups,)."""
        values = self.solution.units.values(self.solution.shares)
        return np.array([values[self.solution.quota_names.index(name)] for name in self.over])

    @property
    def rows(self) -> tuple[UtilityRow, ...]:
        """One row for each group: name, utility, marginal."""
        return tuple(map(UtilityRow, self.over, self.utilities.tolist(), self.marginals.tolist()))

    @property
    def sensitivities(self) -> tuple[float, ...]:
        """How far each level moves when what earlier levels keep moves by one, in shares."""
        index = [self.solution.quota_names.index(name) for name in self.over]
        return tuple(float(np.abs(level.prices[index]).sum()) for level in self.levels)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the answer as JSON, atomically."""
        files.welfare_file.write(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> WelfareSolution:
        """Read an answer that `save` wrote."""
        return files.welfare_file.read(path)

    def __repr__(self) -> str:
        return (
            f"WelfareSolution({self.status.value}, welfare={self.welfare:.6g}, "
            f"upper={self.welfare_upper:.6g}, gain={self.gain:.6g}, "
            f"worst_slack={round(self.worst_slack, 9) + 0.0:.3g})"
        )
