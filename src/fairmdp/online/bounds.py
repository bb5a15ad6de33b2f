"""Every bound of every quota as a row of its own: what it counts, what is due, and what was given beyond."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from fairmdp.model.checks import Floats, Ints, ReadOnly
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.rows import PlainRows


@dataclass(frozen=True, eq=False)
class Bounds(ReadOnly):
    """The B bounds of K quotas: a floor has sign 1, a cap -1."""

    quota: Ints  # (B,)
    sign: Floats  # (B,)
    bound: Floats  # (B,)
    counts: Floats  # what a step in each pair counts, (SA, B)
    n_quotas: int

    @classmethod
    def of(cls, problem: Problem) -> Bounds:
        """Bounds that ask for something."""
        floors, caps = np.flatnonzero(problem.at_least > 0), np.flatnonzero(problem.at_most < 1)
        quota = np.concatenate([floors, caps])
        sign = np.repeat([1.0, -1.0], [floors.size, caps.size])
        bound = np.concatenate([problem.at_least[floors], problem.at_most[caps]])
        return cls(quota, sign, bound, problem.members[quota].toarray().T, problem.n_quotas)

    @property
    def size(self) -> int:
        """Number of bounds, B."""
        return int(self.quota.size)

    @cached_property
    def increments(self) -> Floats:
        """What a step in each pair puts into each account, (SA, B)."""
        return self.sign * (self.counts - self.bound)

    @cached_property
    def largest_fall(self) -> Floats:
        """The most that a step takes out of each account, (B,)."""
        return np.maximum(-self.increments.min(axis=0), 1e-12)

    @cached_property
    def largest_rise(self) -> Floats:
        """The most that a step puts into each account, (B,)."""
        return np.maximum(self.increments.max(axis=0), 1e-12)

    def accounts(self, given: Floats, steps: int) -> Floats:
        """What each bound was given beyond its due in so many steps, (B,); ``given`` sums the counts."""
        return self.sign * (given - self.bound * steps)

    def rows(self, mdp: MDP, room: float) -> PlainRows:
        """The bounds on a model, each moved by so much to the strict side."""
        floor = self.sign > 0
        moved = self.bound + self.sign * room
        members = csr_array(self.counts.T)
        return PlainRows(mdp, members, np.where(floor, moved, 0.0), np.where(floor, 1.0, moved))

    def per_quota(self, values: Floats, otherwise: float) -> Floats:
        """The smallest value over the bounds of each quota, (K,)."""
        least = np.full(self.n_quotas, np.inf)
        np.minimum.at(least, self.quota, values)
        return np.where(np.isin(np.arange(self.n_quotas), self.quota), least, otherwise)
