"""What a solver returns: the policy, what it earns and whom it serves, and the witnesses that prove it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from fairmdp import solution
from fairmdp.deadline import Stop
from fairmdp.model.checks import Floats, ReadOnly
from fairmdp.model.conditional import ConditionalShare
from fairmdp.model.labels import Labels
from fairmdp.model.weights import Units
from fairmdp.solution.ends import Ends
from fairmdp.tables import Table


class Status(StrEnum):
    """What was proved; equal to its word, so that ``status == "optimal"`` holds."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNDECIDED = "undecided"

    @property
    def meaning(self) -> str:
        """The status in one sentence."""
        return _MEANING[self]


_MEANING = {
    Status.OPTIMAL: "every quota is met and no policy earns more, within the tolerance",
    Status.FEASIBLE: "every quota is met; a better policy may exist within the gap",
    Status.INFEASIBLE: "no policy meets the quotas",
    Status.UNDECIDED: "neither a fair policy nor the impossibility of one was proved",
}


class Check(StrEnum):
    """Where the certificate was evaluated; the arithmetic is double precision, rounded outward."""

    CPU = "cpu"
    CUDA = "cuda"
    BOTH = "cuda, then cpu"


class Remark(StrEnum):
    """What a careful reader of a solution should know; ``views.sentences`` has the words."""

    CONNECTED = "connected"  # value: what connecting classes costs, in spans of the rewards
    SLOWEST_PASSAGE = "slowest passage"  # value: units of time in which the rarest passage is made once
    PATIENCE_TOO_SHORT = "patience too short"  # value: units of time in which passages cannot be made
    RAISED = "raised"  # value: by how much quotas were raised so that the policy's own chain meets them
    MIXED_WITH_UNIFORM = "mixed with uniform"  # value: share of time of the uniform policy
    NEARLY_REDUCIBLE = "nearly reducible"  # value: norm of the deviation matrix
    SHARES_UNPROVED = "shares unproved"  # the chain is so nearly reducible that nothing can be said
    SEVERAL_CLASSES = "several classes"  # value: number of closed classes
    CONFLICT_MAY_SHRINK = "conflict may shrink"  # a part of a large conflict may be enough
    AT_THE_EDGE = "at the edge"  # the quotas lie within rounding of what can be met
    BEST_LEAST_SHARE = "best least share"  # value: no policy gives every group more
    IMPOSSIBLE = "impossible"  # bias and prices prove that no policy meets the quotas
    UNREACHABLE = "unreachable"  # value: number of states that cannot be reached from the start
    ONLY_IN_THE_LIMIT = "only in the limit"  # policies may come near to the quotas, and none meets them
    CERTIFICATES_DIFFER = "certificates differ"  # the GPU's check proved another status; the CPU's counts


class Note(NamedTuple):
    """A remark and its number, NaN where it has none."""

    remark: Remark
    value: float = math.nan


def slacks(shares: Floats, at_least: Floats, at_most: Floats) -> Floats:
    """Distance of each share from its nearer bound, (K,); negative where a quota is broken."""
    return np.minimum(
        np.where(at_least > 0, shares - at_least, np.inf), np.where(at_most < 1, at_most - shares, np.inf)
    )


class QuotaRow(NamedTuple):
    """One quota in a solution, in the units it was stated in: what was asked and given, and what it costs."""

    name: str
    share: float
    at_least: float
    at_most: float
    slack: float
    price: float


def _of_condition(row: QuotaRow, share: ConditionalShare) -> QuotaRow:
    """A row over all of the time as one over the time for which a condition holds."""
    return row._replace(
        share=share.part(row.share),
        at_least=share.bound if share.least else 0.0,
        at_most=1.0 if share.least else share.bound,
        slack=math.nan if share.void else row.slack / share.mass,
        price=row.price * share.mass,
    )


@dataclass(frozen=True, eq=False)
class Infeasibility(ReadOnly):
    """Why quotas cannot be met, in the user's terms.

    Attributes
    ----------
    conflict
        Numbers of quotas that cannot hold together although any of them can be dropped to repair it (a
        note says so where that is not sure).
    reach
        For the first quotas of the conflict, up to twenty, the best share for each alone: no policy gives
        more to a quota that is ``at_least``, or less to one that is ``at_most``.
    reach_bias
        Witnesses of `reach`, one row of relative values each, (reach, S).
    common_factor
        Largest alpha such that all ``at_least`` bounds times alpha can be met, or None where the caps
        alone are already too much, or where no policy was proved to get that far.
    factor_bias, factor_prices
        Witness that no larger factor will do, (S,) and (K,).
    nearest_at_least, nearest_at_most
        Bounds with the least total change that a policy was proved to meet, (K,) each; those of the problem
        where there are none: shares may depend on the start.
    """

    conflict: tuple[int, ...]
    reach: Floats
    reach_bias: Floats
    common_factor: float | None
    factor_bias: Floats
    factor_prices: Floats
    nearest_at_least: Floats
    nearest_at_most: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Solution(ReadOnly):
    """A solver's answer, with everything that is needed to check it against the problem.

    Attributes
    ----------
    status : Status
        What was proved.
    gain : float
        Long-run average reward of ``policy``; NaN where there is none.
    upper : float
        Proven ceiling: no policy that meets the quotas earns more. ``bias`` and ``prices`` prove it.
    policy : ndarray
        Probability of each pair given its state, (SA,); NaN, like all that depends on it, where no policy
        meets the quotas.
    occupancy, visitation : ndarray
        Long-run share of time of each pair, (SA,), and of each state, (S,), under ``policy``.
    shares : ndarray
        Long-run share of each quota's set, (K,); see `Quota` for what that is where it has weights.
    bias : ndarray
        Relative values of the model whose rewards are raised by the prices, (S,).
    prices : ndarray
        What one more unit of share costs in gain, (K,): positive where ``at_least`` binds, negative
        where ``at_most`` does.
    tol : float
        Gap, relative to the span of the rewards, up to which a policy is called optimal.
    method : str
        The solver that answered, by its bare name.
    tried : tuple of str
        Solvers that were asked before it and stalled; itself among them where a later one did no better.
    reason : str
        Why `solve` chose the first of them: a key of ``solvers.registry.REASONS``, empty where it did not.
    stopped : Stop
        Why the search ended early, if it did.
    check : Check
        Where the certificate was evaluated.
    device : str
        Where the search was made: ``"cpu"`` or ``"cuda"``.
    counters : dict
        What the solver did: iterations, seconds.
    provenance : dict
        Digest of the problem, version, options.
    notes : tuple of Note
        What a careful reader should know; ``fairmdp.views.sentences`` has the words.
    infeasibility : Infeasibility or None
        The explanation when ``status`` is INFEASIBLE, unless only the proof was asked for; ``bias`` and
        ``prices`` are then its proof.
    labels : Labels or None
        Names of the states and actions, where the model was at hand: `Policy` reads them.
    units : Units
        Turns shares, slacks and prices into the numbers in which the quotas were stated.
    conditions : tuple of ConditionalShare
        How much time the condition of each conditional quota has.
    ends : Ends or None
        Where runs end and the witnesses of it, where that depends on the start. Every claim is then about
        runs from there: gain and time in the mean over runs, each share in the worst class that is reached,
        or in the mean where its quota is on the mean. Of several policies, one is drawn; ``policy`` is NaN.
    """

    status: Status
    gain: float
    upper: float
    policy: Floats
    occupancy: Floats
    visitation: Floats
    shares: Floats
    bias: Floats
    prices: Floats
    quota_names: tuple[str, ...]
    at_least: Floats
    at_most: Floats
    tol: float
    method: str
    counters: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    tried: tuple[str, ...] = ()
    reason: str = ""
    stopped: Stop = Stop.NOT
    check: Check = Check.CPU
    device: str = "cpu"
    notes: tuple[Note, ...] = ()
    infeasibility: Infeasibility | None = None
    units: Units = field(default_factory=Units)
    conditions: tuple[ConditionalShare, ...] = ()
    labels: Labels | None = None
    ends: Ends | None = None

    @property
    def has_policy(self) -> bool:
        """Whether there is a policy to speak of."""
        return self.status is not Status.INFEASIBLE

    @property
    def gap(self) -> float:
        """How much a better fair policy could still earn: ``upper - gain``."""
        return self.upper - self.gain

    @cached_property
    def slacks(self) -> Floats:
        """Distance of each share from its nearer bound, (K,); negative where a quota is broken."""
        return slacks(self.shares, self.at_least, self.at_most)

    @property
    def worst_slack(self) -> float:
        """Smallest slack over the quotas; infinite where nothing is owed, NaN without a policy."""
        return float(self.slacks.min(initial=np.inf))

    @cached_property
    def quotas(self) -> tuple[QuotaRow, ...]:
        """One row per quota, in the units it was stated in: name, share, at_least, at_most, slack, price."""
        units = self.units
        columns = (
            *(units.values(shares) for shares in (self.shares, self.at_least, self.at_most)),
            units.spans(self.slacks),
            units.prices(self.prices),
        )
        rows = list(map(QuotaRow, self.quota_names, *(column.tolist() for column in columns)))
        for share in self.conditions:
            rows[share.quota] = _of_condition(rows[share.quota], share)
        return tuple(rows)

    def to_table(self) -> Table:
        """Return one row per quota, in the units it was stated in."""
        return Table.of(("quota", *QuotaRow._fields[1:]), self.quotas)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the solution as JSON, atomically."""
        solution.file.write(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> Solution:
        """Read a solution that `save` wrote."""
        return solution.file.read(path)

    def __repr__(self) -> str:
        return (
            f"Solution({self.status.value}, gain={self.gain:.6g}, upper={self.upper:.6g}, "
            f"worst_slack={round(self.worst_slack, 9) + 0.0:.3g})"
        )
