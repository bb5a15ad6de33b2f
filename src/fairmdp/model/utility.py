"""A row of a problem that asks for nothing: what a group gets, to be counted by a welfare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray

from fairmdp.model.quota import Quota


def Utility(
    name: str,
    states: Sequence[int | str] | NDArray[Any] | None = None,
    pairs: Sequence[int | tuple[int | str, int | str]] | NDArray[Any] | None = None,
    weights: ArrayLike | Mapping[Any, float] | None = None,
) -> Quota:
    """Return a quota that asks for nothing: a share of time, or a long-run mean of weights, to be looked at.

    Parameters are those of `Quota`. Weights may be the rewards of a group.

    Examples
    --------
    >>> Utility("north", weights={"a1": 3.0, "b0": -1.0})
    Quota('north', at_least=-inf)
    """
    return Quota(name, states, pairs, at_least=-math.inf, weights=weights)
