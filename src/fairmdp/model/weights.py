"""Weighted quotas: bounds on the long-run mean of any numbers, which solvers see as shares.

Shares ``x`` of the pairs sum to 1, so the mean ``a @ x`` of weights ``a`` is ``offset + scale * (w @ x)``
with ``offset = min a``, ``scale = max a - min a`` and ``w = (a - offset) / scale``. All of ``w`` lies in
[0, 1], and ``w @ x`` is bounded just like the share of a set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats, Ints, ReadOnly, count_of, first, numeric, refuse
from fairmdp.model.mdp import MDP

FINEST = 1e-10
"""Part of the span of a quota's weights that floats as large as they are must tell apart, to state bounds."""

SMALLEST_SPAN = 1e-280
"""Least span of the weights of a quota, so that what is between them is above what underflows."""


@dataclass(frozen=True, eq=False)
class Units(ReadOnly):
    """Where 0 and 1 of each quota's share lie in the numbers that its user wrote.

    Examples
    --------
    >>> units = Units(np.array([0.0, -2.0]), np.array([1.0, 8.0]))  # a set, and weights from -2 to 6
    >>> units.values(np.array([0.25, 0.25]))
    array([0.25, 0.  ])
    """

    offset: Floats = field(default_factory=lambda: np.zeros(()))  # (K,), or one number for all
    scale: Floats = field(default_factory=lambda: np.ones(()))  # (K,), or one number for all

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Units):
            return NotImplemented
        return np.array_equal(self.offset, other.offset) and np.array_equal(self.scale, other.scale)

    def values(self, shares: Floats) -> Floats:
        """Shares in the user's numbers."""
        return self.offset + self.scale * shares

    def shares(self, values: Floats) -> Floats:
        """The user's numbers as shares; those far outside of the weights may be infinite."""
        with np.errstate(over="ignore"):
            return (values - self.offset) / self.scale

    def spans(self, distances: Floats) -> Floats:
        """Distances between shares, such as slacks, in the user's numbers."""
        return self.scale * distances

    def prices(self, prices: Floats) -> Floats:
        """Prices per unit of share as prices per unit of the user's numbers."""
        return prices / self.scale

    def of(self, k: int | Ints) -> Units:
        """Units of one quota, or of some."""
        if self.offset.ndim == 0:
            return self
        return Units(np.asarray(self.offset[k]), np.asarray(self.scale[k]))

    @property
    def are_shares(self) -> bool:
        """Whether the user's numbers are the shares themselves."""
        return bool((self.offset == 0).all() and (self.scale == 1).all())


def stated_weights(mdp: MDP, weights: ArrayLike | Mapping[Any, float]) -> tuple[Floats, bool]:
    """Weight of each pair, (SA,), and whether they were stated over states."""
    if isinstance(weights, Mapping):
        a, over_states = _from_mapping(mdp, weights)
    else:
        a, over_states = _from_vector(mdp, weights)
    bad = ~np.isfinite(a)
    if (i := first(bad)) is not None:
        refuse(
            f"{mdp.pair_text(i)} has weight {a[i]}, expected a finite number",
            f"{count_of(bad.sum(), bad.size, 'weights')} not finite",
            "a pair that counts for nothing has weight 0",
        )
    weight_range(a)
    return a, over_states


def weight_range(a: Floats) -> tuple[float, float]:
    """Smallest of some weights, and how far the largest is above it; raise where no mean could vary."""
    low, high = float(a.min()), float(a.max())
    with np.errstate(over="ignore"):
        scale = float(np.subtract(high, low))
    if scale == 0:
        raise ProblemError(
            f"all weights are {low:.12g}, so that every policy has the same mean\n  drop the quota"
        )
    if not np.isfinite(scale):
        raise ProblemError(f"weights from {low:.3g} to {high:.3g} are too far apart for floating point")
    if scale * FINEST < np.spacing(max(abs(low), abs(high))) or scale < SMALLEST_SPAN:
        raise ProblemError(
            f"weights from {low:.17g} to {high:.17g} are too near each other: "
            "floating point has no room for bounds between them\n"
            "  subtract the same number from all weights and from the bounds, or scale them"
        )
    return low, scale


def as_shares(names: tuple[str, ...], weights: csr_array, weighted: Bools) -> tuple[csr_array, Units]:
    """Rows of weights scaled to [0, 1], (K, SA), and the units that lead back; sets stay as they are."""
    if not weighted.any():
        return weights, Units()
    K, n_pairs = weights.shape
    offset, scale = np.zeros(K), np.ones(K)
    lengths = np.diff(weights.indptr)
    indices, data = [], []
    done = 0
    for k in np.flatnonzero(weighted).tolist():
        start, stop = weights.indptr[k], weights.indptr[k + 1]
        a = np.zeros(n_pairs)
        a[weights.indices[start:stop]] = weights.data[start:stop]
        try:
            offset[k], scale[k] = weight_range(a)
        except ProblemError as error:
            raise ProblemError(f"quota {names[k]}: {error}") from None
        w = (a - offset[k]) / scale[k]
        counted = np.flatnonzero(w)
        indices += [weights.indices[done:start], counted]
        data += [weights.data[done:start], w[counted]]
        lengths[k], done = counted.size, stop
    indices.append(weights.indices[done:])
    data.append(weights.data[done:])
    rows = np.concatenate(data), np.concatenate(indices), np.concatenate([[0], np.cumsum(lengths)])
    return csr_array(rows, shape=weights.shape), Units(offset, scale)


def _from_vector(mdp: MDP, weights: ArrayLike) -> tuple[Floats, bool]:
    given = numeric("weights", weights)
    if given.shape == (mdp.n_states,):
        return given[mdp.s_of], True
    if given.shape != (mdp.n_pairs,):
        raise ProblemError(
            f"weights has shape {given.shape}, expected ({mdp.n_pairs},), one per pair, "
            f"or ({mdp.n_states},), one per state"
        )
    return given, False


def _from_mapping(mdp: MDP, weights: Mapping[Any, float]) -> tuple[Floats, bool]:
    a = np.zeros(mdp.n_pairs)
    counted = np.zeros(mdp.n_pairs, bool)
    over_states = True
    for place, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, Real):
            raise ProblemError(f"the weight of {place!r} is {weight!r}, expected a number")
        if isinstance(place, tuple) and len(place) == 2 and mdp.state_of_object(place) is None:
            first = mdp.pair_index(*place)
            pairs, over_states = slice(first, first + 1), False
        else:
            s = mdp.state_index(place)
            pairs = slice(int(mdp.pair_ptr[s]), int(mdp.pair_ptr[s + 1]))
        if counted[pairs].any():
            raise ProblemError(f"{place!r} is given a weight twice\n  weigh a state or its pairs, not both")
        a[pairs], counted[pairs] = float(weight), True
    # Where every state has one pair, a vector could not tell the two apart.
    return a, over_states or mdp.n_pairs == mdp.n_states
