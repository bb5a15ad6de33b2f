"""What kernels see of components that share a pattern of states, actions and transitions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairmdp.model.checks import Floats, Ints, read_only


class Rows(NamedTuple):
    """Arrays of B rows with S states, SA pairs and n transitions each.

    What has 1 row where B are possible is the same for all of them.
    """

    pair_ptr: Ints  # (S + 1,), pairs of a state
    row_ptr: Ints  # (SA + 1,), transitions of a pair
    cols: NDArray[np.int32]  # (n,), next states
    P: Floats  # (B or 1, n)
    r: Floats  # (B or 1, SA)
    uses: Floats  # (B or 1, SA, K)
    counts: Floats  # (B or 1, SA, J), what a pair counts for each local quota
    owed: Floats  # (B, J), local quotas ask for at least this; -inf where nothing is owed
    group_counts: Floats  # (B or 1, SA, L), what a pair counts for each group of the row
    group_of: Ints  # (B, L), number of that group; -1 where there is none
    number: Ints  # (B,), how many components are like the row

    @property
    def size(self) -> int:
        """Number of rows, B."""
        return int(self.number.size)

    @property
    def n_states(self) -> int:
        """Number of states, S."""
        return int(self.pair_ptr.size - 1)

    def taken(self, rows: Any) -> Rows:
        """Some of the rows, copied unless they are a slice."""
        common = ("pair_ptr", "row_ptr", "cols")
        return sealed(
            Rows(**{
                name: array if name in common or (len(array) == 1 and self.size > 1) else array[rows]
                for name, array in self._asdict().items()
            })
        )  # fmt: skip


def sealed(rows: Rows) -> Rows:
    """The rows with contiguous arrays that nobody can write to: one type for all kernels."""
    return Rows(*(read_only(np.ascontiguousarray(array)) for array in rows))
