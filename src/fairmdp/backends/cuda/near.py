"""Pairs that a soft backup leaves out, since an earlier one has found them too far below their state's best.

With relative values h that differ from earlier ones by a function of span d, the values of two actions of a
state move apart by d at most, as long as the actions are paid the same prices. So pairs that were further
than some reach below the best one are still further than reach - d: where that is more than the depth at
which a softmax policy leaves actions out, the backup is the same without them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fairmdp.backends.base import rare
from fairmdp.backends.cuda.launcher import Launcher

MANY = 200_000
"""Pairs from which on it pays to leave some out."""

_REACH = 2.0  # depths below the best within which a pair is kept ...
_WIDE = 3.0  # ... and from which on fewer are kept as soon as that is safe
_ROUNDING = 1e-9  # of a depth


class Looked(NamedTuple):
    """What a backup is told, in the order of the kernel's arguments."""

    known: int  # whether pairs may be left out
    pairs: Any  # (SA,), 1 for those that may not
    reach: float  # what to keep from now on, 0 where that does not change


class Near:
    """What is known of the pairs of a problem; `look` says nothing where it would not be ``of_use``."""

    def __init__(self, launcher: Launcher, n_pairs: int, of_use: bool) -> None:
        self._of_use, self._h, self._reach = of_use, None, 0.0
        self._pairs = launcher.xp.empty(n_pairs, np.uint8) if of_use else 0

    def look(self, h: Any, tau: float, span_between: Callable[[Any, Any], float]) -> Looked:
        """What to tell a backup at relative values h, which are kept."""
        if not self._of_use:
            return Looked(0, self._pairs, 0.0)
        depth = -tau * math.log(rare(tau)) * (1 + _ROUNDING)
        room = 0.0 if self._h is None else self._reach - span_between(h, self._h)
        known = room >= depth
        if known and not (room >= _REACH * depth and self._reach > _WIDE * depth):
            return Looked(1, self._pairs, 0.0)
        self._h, self._reach = h, _REACH * depth
        return Looked(int(known), self._pairs, self._reach)
