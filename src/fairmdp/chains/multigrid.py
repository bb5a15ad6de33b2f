# mypy: disable-error-code="untyped-decorator,no-any-return"
# (numba's decorators carry no types: the signatures below are checked, what a decorator returns cannot be)
"""Chains that mix slowly, by multigrid on groups of states (aggregation) inside conjugate residuals.

With ``A = I - P`` the bias of f solves ``A h = f`` up to constants on both sides, and the stationary
distribution ``nu A = 0``. A level smooths by incomplete factors of A, before and after it is corrected by the
next one; a level whose correction leaves much has it done twice (Notay and Vassilevski's K-cycle). For the
distribution the equations are the transposed ones, and a group's part is spread over its states as the
distribution so far has it (aggregation and disaggregation).
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit

from fairmdp.chains.aggregates import Aggregates
from fairmdp.chains.krylov import sparse_substitute, sparse_substitute_transposed
from fairmdp.chains.levels import Level, Levels, built, level_of
from fairmdp.chains.sweeps import F8, ChainRows

_STEPS = 16  # of conjugate residuals
_STUCK = 6  # of them, after which less than half must be left
_COARSE = 2  # steps on a coarse level ...
_CUT = 0.25  # ... and what the first of them may leave for the second to be left out
_REFINEMENTS = 4  # of relative values, where rounding has let their equations drift
_ROUNDS = 8  # of a distribution, each with its groups weighted by the last
_FIRST = 1e-2  # what the first of them leaves of a guess's residual
_TRUST = 30.0  # by how much what is left may weigh more than what has been corrected
_ROUNDING = 1e-16  # what cannot be told from nothing


@njit(cache=True, nogil=True)
def multiply(here: Level, x: F8, out: F8, turned: bool) -> None:
    """Out = A x, or x A, the mean subtracted: constants do not count."""
    starts, cols, vals = here.starts, here.cols, here.vals
    n = x.size
    if turned:
        out[:] = 0.0
        for i in range(n):
            for k in range(starts[i], starts[i + 1]):
                out[cols[k]] += vals[k] * x[i]
    else:
        for i in range(n):
            acc = 0.0
            for k in range(starts[i], starts[i + 1]):
                acc += vals[k] * x[cols[k]]
            out[i] = acc
    mean = 0.0
    for i in range(n):
        mean += out[i]
    mean /= n
    for i in range(n):
        out[i] -= mean


class Work(NamedTuple):
    """Vectors of all levels, laid end to end as the states are."""

    r: F8  # what is left on a level
    x: F8
    found: F8  # the correction so far
    left: F8
    directions: F8  # (2, S)
    images: F8


@njit(cache=True, nogil=True)
def work_for(levels: Levels) -> Work:
    """Room for a cycle."""
    S, two = levels.at[-1], _COARSE
    return Work(np.empty(S), np.empty(S), np.empty(S), np.empty(S), np.empty((two, S)), np.empty((two, S)))


@njit(cache=True, nogil=True)
def cycle(levels: Levels, work: Work, r: F8, turned: bool) -> None:
    """Leave in the first level of ``work.x`` about what solves A x = r, or x A = r.

    From level to level downwards, and up again; a level whose correction leaves much has it done twice.
    """
    at, last = levels.at, levels.at.size - 2
    steps, size = np.zeros(last + 1, np.int64), np.zeros(last + 1)
    work.r[: r.size] = r
    number, down = 0, True
    while True:
        states, here = slice(at[number], at[number + 1]), level_of(levels, number)
        left, x, found = work.r[states], work.x[states], work.found[states]
        if down and number < last:
            smooth(here, left, x, turned)
            number += 1
            coarse = work.r[at[number] : at[number + 1]]
            restrict(here, left, x, work.left[states], coarse, turned)
            work.found[at[number] : at[number + 1]] = 0.0
            steps[number], size[number] = 0, np.dot(coarse, coarse)
            continue
        if down:
            coarsest(levels, here, left, x, turned)
        if number == 0:
            return
        down = False
        if number == last and levels.inverse.size > 0:
            found[:] = x
        else:
            k = steps[number]
            work.directions[k, states] = x
            multiply(here, work.directions[k, states], work.images[k, states], turned)
            advance(work.directions, work.images, k, at[number], found, left)
            steps[number] += 1
            down = steps[number] < _COARSE and np.dot(left, left) > _CUT**2 * size[number]
        if not down:
            number -= 1
            states = slice(at[number], at[number + 1])
            prolong(level_of(levels, number), found, work.left[states], work.x[states], turned)


@njit(cache=True, nogil=True)
def coarsest(levels: Levels, here: Level, r: F8, x: F8, turned: bool) -> None:
    """X = what solves the last level for r."""
    n, inverse = r.size, levels.inverse
    if inverse.size == 0:
        smooth(here, r, x, turned)
        return
    for i in range(n):
        acc = 0.0
        for j in range(n - 1 if turned else n):
            acc += (inverse[j, i] if turned else inverse[i, j]) * r[j]
        x[i] = acc
    if not turned:
        x[n - 1] = 0.0


@njit(cache=True, nogil=True)
def smooth(here: Level, r: F8, x: F8, turned: bool) -> None:
    """X = U^-1 L^-1 r, or r U^-1 L^-1."""
    x[:] = r
    if turned:
        sparse_substitute_transposed(here.starts, here.cols, here.diagonal, here.factors, x)
    else:
        sparse_substitute(here.starts, here.cols, here.diagonal, here.factors, x)


@njit(cache=True, nogil=True)
def restrict(here: Level, r: F8, x: F8, left: F8, coarse: F8, turned: bool) -> None:
    """What x leaves of r, and what that is on the next level."""
    multiply(here, x, left, turned)
    coarse[:] = 0.0
    for i in range(r.size):
        left[i] = r[i] - left[i]
        coarse[here.group[i]] += left[i] if turned else here.weight[i] * left[i]


@njit(cache=True, nogil=True)
def prolong(here: Level, found: F8, left: F8, x: F8, turned: bool) -> None:
    """Correct x by what the next level has found, and smooth what is left then."""
    step, image = np.empty(x.size), np.empty(x.size)
    for i in range(x.size):
        step[i] = found[here.group[i]] * (here.weight[i] if turned else 1.0)
        x[i] += step[i]
    multiply(here, step, image, turned)
    for i in range(x.size):
        left[i] -= image[i]
    smooth(here, left, step, turned)
    for i in range(x.size):
        x[i] += step[i]


@njit(cache=True, nogil=True)
def advance(directions: F8, images: F8, k: int, first: int, x: F8, r: F8) -> None:
    """A step of conjugate residuals along direction k, made orthogonal to those before.

    The vectors of these begin at `first` in their rows.
    """
    last = first + x.size
    z, q = directions[k, first:last], images[k, first:last]
    for j in range(k):
        other, image = directions[j, first:last], images[j, first:last]
        part = np.dot(image, q)
        for i in range(q.size):
            q[i] -= part * image[i]
            z[i] -= part * other[i]
    size = np.sqrt(np.dot(q, q))
    if not size > 0:
        q[:] = 0.0
        return
    part = np.dot(q, r) / size
    for i in range(q.size):
        q[i] /= size
        z[i] /= size
        x[i] += part * z[i]
        r[i] -= part * q[i]


@njit(cache=True, nogil=True)
def solved(levels: Levels, b: F8, tol: float, most: int, turned: bool) -> tuple[F8, float, int]:
    """X with A x, or x A, near b: span of what is left, or its L1 norm; steps."""
    n = b.size
    work, here = work_for(levels), level_of(levels, 0)
    x, r = np.zeros(n), b - np.mean(b)
    directions, images = np.empty((most, n)), np.empty((most, n))
    left, before, count = _left(r, turned), np.inf, 0
    for k in range(most):
        if left <= tol:
            break
        if k % _STUCK == _STUCK - 1:
            if left > 0.5 * before:
                break
            before = left
        cycle(levels, work, r, turned)
        directions[k] = work.x[:n]
        multiply(here, directions[k], images[k], turned)
        advance(directions, images, k, 0, x, r)
        count += 1
        left = _left(r, turned)
    return x, left, count


@njit(cache=True, nogil=True)
def _left(r: F8, turned: bool) -> float:
    if not turned:
        return np.max(r) - np.min(r)
    total = 0.0
    for i in range(r.size):
        total += abs(r[i])
    return total


class Multigrid:
    """What multigrid solves for a chain, whose model has been grouped.

    Relative values are those of ``(1 - restart) P``: with a restart in some state they differ by a constant.
    """

    def __init__(self, chain: ChainRows, aggregates: Aggregates, restart: float = 0.0) -> None:
        self._chain, self._aggregates, self._restart = chain, aggregates, restart

    def bias(self, f: F8, tol: float) -> tuple[F8, float]:
        """Bias of f, up to a constant, and the span of what is left of the equations."""
        f = f[self._aggregates.order]
        h, rest, image, left = np.zeros_like(f), f, np.empty_like(f), np.inf
        for _ in range(_REFINEMENTS):
            change, short, _ = solved(self._even, rest, tol, _STEPS, False)
            h = h + change
            multiply(level_of(self._even, 0), h, image, False)
            rest = f - image
            before, left = left, float(np.ptp(rest))
            if left <= tol or short > tol or left > 0.5 * before:
                break
        return self._back(h), left

    def stationary(self, nu: F8, tol: float) -> tuple[F8, float]:
        """Stationary distribution from a guess, and an estimate of its L1 error."""
        order = self._aggregates.order
        y, slope, known = nu[order], 1.0, np.inf
        image = np.empty_like(y)
        for turn in range(_ROUNDS):
            levels = built(*self._chain, *self._aggregates, self._back(y))
            multiply(level_of(levels, 0), y, image, True)
            size = float(np.abs(image).sum())
            goal = max(tol / (_TRUST * slope), _FIRST * size if turn == 0 else 0.0)
            x, left, count = solved(levels, -image, goal, _STEPS, True)
            total = float(np.sum(y + x))  # what solves the equations may be any multiple of the distribution
            if not abs(total) > 0:
                return nu, np.inf
            y, left = np.maximum((y + x) / total, 0.0), left / abs(total)
            y /= y.sum()
            slope = max(slope, float(np.abs(x).sum()) / size) if count else slope
            error = slope * (_TRUST * left + _ROUNDING)
            if error <= tol or (turn > 1 and error > 0.5 * known):
                break
            known = min(error, known)
        return self._back(y), error

    @cached_property
    def _even(self) -> Levels:
        """Levels in which all states of a group count the same."""
        starts, cols, vals = self._chain
        even = np.ones(self._aggregates.order.size)
        return built(starts, cols, (1 - self._restart) * vals, *self._aggregates, even)

    def _back(self, x: F8) -> F8:
        """A vector in the chain's own order of the states."""
        out = np.empty_like(x)
        out[self._aggregates.order] = x
        return out
