"""What the mathematics sees of a problem: a model, rows over its pairs, and bounds on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from scipy.sparse import csr_array

from fairmdp.model.checks import Floats, ReadOnly
from fairmdp.model.mdp import MDP


class Rows(Protocol):
    """A `Problem`, or what is like one but for names and units."""

    @property
    def mdp(self) -> MDP: ...

    @property
    def n_quotas(self) -> int: ...

    @property
    def members(self) -> csr_array: ...

    @property
    def at_least(self) -> Floats: ...

    @property
    def at_most(self) -> Floats: ...


@dataclass(frozen=True, eq=False)
class PlainRows(ReadOnly):
    """Rows that nobody stated as quotas."""

    mdp: MDP
    members: csr_array  # (K, SA)
    at_least: Floats  # (K,)
    at_most: Floats  # (K,)

    @property
    def n_quotas(self) -> int:
        """Number of rows, K."""
        return int(self.members.shape[0])
