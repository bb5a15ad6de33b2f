"""Many small chains at once: their stationary distributions and hitting times by common factors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import splu

from fairmdp.chains.chain import Chain
from fairmdp.model.checks import Bools, Floats, Ints

SMALL = 400
"""Chains of up to so many states are worth solving side by side."""

_TOGETHER = 20_000  # states that are factored at once
_GLANCES = 20  # steps of the chains after which the state with the most mass is their pin
_CLOSE = 1e-11  # error of a distribution, by its residual and the steps it takes to the pin


class SideBySide(NamedTuple):
    """Chains that never meet, one after the other, each with a state that the others of it lead to."""

    shares: Floats  # (n,), summing to one in each chain
    pins: Ints  # (m,), places of these states
    steps: Floats  # (n,), expected until the pin is reached
    close: Bools  # (m,), whether both are about as good as can be


def side_by_side(P: csr_array, ptr: Ints) -> SideBySide:
    """Solve irreducible chains that lie one after the other in a matrix.

    Parameters
    ----------
    P
        Transition matrix, (n, n), whose rows lead to states of their own chain only.
    ptr
        Where each chain begins, (m + 1,).
    """
    found = [_solved(*chunk) for chunk in _chunks(P, ptr)]
    at = np.cumsum([0, *(part.shares.size for part in found)])
    pins = [part.pins + offset for part, offset in zip(found, at.tolist(), strict=False)]
    return SideBySide(
        np.concatenate([part.shares for part in found]),
        np.concatenate(pins),
        np.concatenate([part.steps for part in found]),
        np.concatenate([part.close for part in found]),
    )


def distributions(P: csr_array, ptr: Ints) -> Floats:
    """Stationary distributions of irreducible chains that lie one after the other in a matrix, (n,)."""
    sizes, nu = np.diff(ptr), np.ones(P.shape[0])
    left = np.flatnonzero(sizes > 1)
    together = left[sizes[left] <= SMALL]
    if together.size:
        places = np.flatnonzero(np.isin(np.repeat(np.arange(sizes.size), sizes), together))
        found = side_by_side(P[places][:, places], np.append(0, np.cumsum(sizes[together])))
        nu[places] = found.shares
        left = np.setdiff1d(left, together[found.close])
    for c in left.tolist():
        inside = slice(ptr[c], ptr[c + 1])
        nu[inside] = Chain(csr_array(P[inside, inside])).shares
    return nu


def _chunks(P: csr_array, ptr: Ints) -> Iterator[tuple[csr_array, Ints]]:
    """Consecutive chains of not too many states together."""
    first = 0
    while first < ptr.size - 1:
        last = max(int(np.searchsorted(ptr, ptr[first] + _TOGETHER, "right")) - 1, first + 1)
        start, stop = int(ptr[first]), int(ptr[last])
        entries = slice(P.indptr[start], P.indptr[stop])
        block = P.data[entries], P.indices[entries] - start, P.indptr[start : stop + 1] - P.indptr[start]
        yield csr_array(block, shape=(stop - start, stop - start)), ptr[first : last + 1] - start
        first = last


def _solved(P: csr_array, ptr: Ints) -> SideBySide:
    n, first, chain = P.shape[0], ptr[:-1], np.repeat(np.arange(ptr.size - 1), np.diff(ptr))
    backwards = P.T.tocsr()
    nu = np.full(n, 1.0)
    for _ in range(_GLANCES):
        nu = 0.5 * (nu + backwards @ nu)
    pins = np.lexsort((nu, chain))[ptr[1:] - 1]
    pinned = np.zeros(n, bool)
    pinned[pins] = True
    row = np.repeat(np.arange(n), np.diff(P.indptr))
    kept = ~pinned[row] & ~pinned[P.indices]
    within = csr_array((np.where(kept, P.data, 0.0), P.indices, P.indptr), shape=P.shape)
    try:
        lu = splu(
            (eye_array(n, format="csr") - within).tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )  # fmt: skip
    except RuntimeError:  # a chain that hardly ever moves: each is to be looked at by itself
        return SideBySide(nu, pins, np.zeros(n), np.zeros(pins.size, bool))
    out = np.bincount(P.indices[pinned[row]], P.data[pinned[row]], n)
    shares = np.maximum(lu.solve(np.where(pinned, 0.0, out), trans="T"), 0.0)
    shares[pins] = 1.0
    shares /= np.add.reduceat(shares, first)[chain]
    steps = lu.solve(np.where(pinned, 0.0, 1.0))
    with np.errstate(invalid="ignore"):
        off = np.abs(backwards @ shares - shares) + np.finfo(float).eps * shares
        off = np.add.reduceat(off * steps, first)
        close = (off <= _CLOSE) & (np.minimum.reduceat(steps, first) >= 0)
    return SideBySide(shares, pins, steps, close)
