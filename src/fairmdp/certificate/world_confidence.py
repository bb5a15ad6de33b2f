"""What no joint policy of a world exceeds whose chances are known from records alone, with a probability.

For prices ``lambda, nu, mu >= 0`` and relative values h that were chosen without looking at the records, they
bound for every row i and every pair, all of them at once with probability ``1 - delta`` ::

    sum_t P_t (h(t) - h(s))  <=  estimate + (max h - min h) sqrt(log(n (n + 1) m / delta) / 2 n)

over the states t that the pair may lead to, n its records and m the number of pairs of all rows (Hoeffding).
The factor n (n + 1) makes it true for every n at once, so what was tried may depend on what was seen. A pair
without records is bounded by ``max h(t) - h(s)``. The rest is the ceiling of `world_ceiling`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fairmdp.certificate.world_ceiling import Witnesses, relative_values, split, usable
from fairmdp.model.checks import Floats
from fairmdp.world.rows import Rows
from fairmdp.world.world import World

_ROUNDING = 1e-10  # of the size of all terms, for what sums in floating point are off; radii are far larger


def confident_ceiling(
    world: World, prices: Floats, witnesses: Witnesses, counts: Sequence[Floats], delta: float
) -> float:
    """Bound on the gain of every joint policy that meets the quotas, true with probability ``1 - delta``.

    The chances of the world are only used to make relative values of the witnesses, which must have been
    chosen without the counts; these are (B, n) for every block.
    """
    lam, nu = split(world, prices)
    pairs = sum(rows.size * (rows.row_ptr.size - 1) for rows in world.blocks)
    terms = [lam * world.capacity, -nu * world.group_owed]
    for rows, (policies, mu), seen in zip(world.blocks, witnesses, counts, strict=True):
        policies, mu = usable(rows, policies, mu)
        h = np.empty((rows.size, rows.n_states))
        relative_values(rows, policies, mu, lam, nu, 1.0, h)
        value = _raised(rows, mu, lam, nu) + _ahead(rows, h, seen, pairs / delta)
        owed = np.where(mu > 0, mu * np.where(np.isfinite(rows.owed), rows.owed, 0.0), 0.0)
        terms += [rows.number * value.max(axis=1), -(rows.number * owed.sum(axis=1))]
    every = np.concatenate(terms)
    if not np.isfinite(every).all():
        return math.inf
    return math.fsum(every) + _ROUNDING * math.fsum(np.abs(every))


def _raised(rows: Rows, mu: Floats, lam: Floats, nu: Floats) -> Floats:
    """``r - lambda c + nu w + mu m``, (B, SA)."""
    value = rows.r - rows.uses @ lam + np.einsum("bpj,bj->bp", np.broadcast_to(
        rows.counts, (rows.size, *rows.counts.shape[1:])), mu)  # fmt: skip
    for layer in range(rows.group_of.shape[1]):
        g = rows.group_of[:, layer]
        price = np.where(g >= 0, nu[g] if nu.size else 0.0, 0.0)
        value = value + price[:, None] * rows.group_counts[:, :, layer]
    return np.broadcast_to(value, (rows.size, rows.row_ptr.size - 1))


def _ahead(rows: Rows, h: Floats, seen: Floats, factor: float) -> Floats:
    """Upper bound on ``sum_t P_t (h(t) - h(s))`` of every pair, (B, SA)."""
    first = rows.row_ptr[:-1]
    pair_of = np.repeat(np.arange(first.size), np.diff(rows.row_ptr))
    s_of = np.repeat(np.arange(rows.n_states), np.diff(rows.pair_ptr))
    d = h[:, rows.cols] - h[:, s_of[pair_of]]  # (B, n)
    top, low = np.maximum.reduceat(d, first, axis=1), np.minimum.reduceat(d, first, axis=1)
    n = np.add.reduceat(seen, first, axis=1)
    often = np.maximum(n, 1.0)
    mean = np.add.reduceat(seen * d, first, axis=1) / often
    radius = (top - low) * np.sqrt(np.log(often * (often + 1) * factor) / (2 * often))
    return np.where(n > 0, np.minimum(mean + radius, top), top)
