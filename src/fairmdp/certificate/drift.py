"""Long-run means that need no stationary distribution: by relative values of what is averaged.

For every vector ``h`` the long-run mean of f under a policy lies between the smallest and the largest entry
of ``f + P_pi h - h``, and with h near the bias of f that is a short interval. Where a chain passes between
its parts once in a million steps, h is as large, and floats of that size have no digits left for f. So h is
the sum of two floats, only differences of it between neighbours are used, and they are averaged pair by pair
in the widest floats that there are, never through a matrix of the chain that was rounded before.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairmdp.certificate.facts import CLAIM_TOL, LongRun
from fairmdp.chains.chain import Chain
from fairmdp.model.checks import Floats
from fairmdp.model.mdp import MDP
from fairmdp.model.rows import Rows

_EPS = float(np.finfo(float).eps)
_WIDE = np.longdouble
_WIDE_EPS = float(np.finfo(_WIDE).eps)
_TINY = 2.0**-1000
MANY = 100
"""Quotas up to which each has relative values of its own; more are proved by one function of the states."""

_LARGEST = 20_000  # states up to which relative values are worth their time
_REFINED = 2  # times that what is left of the equations is solved for again


class Drift(NamedTuple):
    """Relative values of the rewards and of each quota, as sums of two floats, (S, 1 + K) each."""

    high: Floats
    low: Floats


def find_drift(problem: Rows, policy: Floats, chain: Chain) -> Drift:
    """Relative values of a policy's rewards and quotas: unproved."""
    high = np.zeros((problem.mdp.n_states, 1 + problem.n_quotas))
    low = np.zeros_like(high)
    for _ in range(1 + _REFINED):
        left = np.empty_like(high)
        for k in range(high.shape[1]):
            means, _ = _means(problem, policy, k, high[:, k], low[:, k], 0.0)
            left[:, k] = means - np.median(means)
        wide = high.astype(_WIDE) + low + chain.bias(left)
        high = wide.astype(float)
        low = (wide - high).astype(float)
    return Drift(high, low)


def wide(run: LongRun, chain: Chain) -> bool:
    """Whether relative values are worth their work: shares are few, hardly known, and the chain factors."""
    few = run.shares.shape[0] <= MANY and chain.n_states <= _LARGEST
    return few and run.error > CLAIM_TOL


def narrowed(run: LongRun, gain: tuple[float, float], shares: Floats) -> LongRun:
    """What is proved of a policy in two ways."""
    both = (max(run.gain[0], gain[0]), min(run.gain[1], gain[1]))
    low, high = np.maximum(run.shares[:, 0], shares[:, 0]), np.minimum(run.shares[:, 1], shares[:, 1])
    return replace(run, gain=both, shares=np.column_stack([low, high]))


def mean_intervals(
    problem: Rows, policy: Floats, drift: Drift, relative: Floats | float
) -> tuple[tuple[float, float], Floats]:
    """Proven intervals of the gain and of each share, (K, 2).

    `relative` is the error of the rows of the model of equal steps, (SA,), and of a policy's in it.
    """
    ends = []
    for k in range(drift.high.shape[1]):
        means, error = _means(problem, policy, k, drift.high[:, k], drift.low[:, k], relative)
        low, high = float((means - error).min()), float((means + error).max())
        size = _EPS * max(abs(low), abs(high)) + _TINY
        found = (low - size, high + size)
        ends.append(found if all(map(math.isfinite, found)) else (-math.inf, math.inf))
    return ends[0], np.array(ends[1:]).reshape(-1, 2)


@np.errstate(over="ignore", invalid="ignore")  # what overflows proves nothing
def _means(
    problem: Rows, policy: Floats, k: int, high: Floats, low: Floats, relative: Floats | float
) -> tuple[Any, Any]:
    """Mean of f + P_pi h - h in each state, and its error; f is the rewards, or what quota k - 1 counts."""
    stated, mdp = problem.mdp, problem.mdp.uniform
    f = mdp.r if k == 0 else problem.members[[k - 1]].toarray()[0]
    weights, P = stated.per_step(policy).astype(_WIDE), mdp.P
    moved = P.data * _ahead(mdp, high, low)
    mass = np.add.reduceat(P.data.astype(_WIDE), P.indptr[:-1])
    ahead = np.add.reduceat(moved, P.indptr[:-1]) / mass
    size = np.abs(f) + np.add.reduceat(np.abs(moved), P.indptr[:-1]) / mass
    terms = 2 * int(np.diff(P.indptr).max()) + 2 * int(mdp.n_actions.max()) + 16
    around = (terms * _WIDE_EPS + 2 * relative) * size + 4 * _EPS * np.abs(f)  # f was rounded before
    total = np.add.reduceat(weights, mdp.pair_ptr[:-1])
    means = np.add.reduceat(weights * (f + ahead), mdp.pair_ptr[:-1]) / total
    error = np.add.reduceat(weights * around, mdp.pair_ptr[:-1]) / total
    return means, error + _TINY


def _ahead(mdp: MDP, high: Floats, low: Floats) -> NDArray[Any]:
    """How much more of h the end of each transition has than its beginning."""
    to = mdp.P.indices
    start = np.repeat(mdp.s_of, np.diff(mdp.P.indptr))
    far, near = high.astype(_WIDE), low.astype(_WIDE)
    return (far[to] - far[start]) + (near[to] - near[start])
