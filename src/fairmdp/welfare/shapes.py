"""Welfare functions as a master program sees them: its value, cuts or rows that describe it, its conjugate.

``z`` are utilities scaled so that the largest one possible is 1, (K,), in a box ``low <= z <= high``. For a
concave W and all prices q ::

    W(z)  <=  q @ z + conj(q),        conj(q) = sup over the box of W(z) - q @ z

A separable welfare and Atkinson's have a family of tangents for each group, to be added where they are
needed; the ordered ones are finitely many rows from the start (Ogryczak and Tamir, 2003): ``sum_j w_j z_(j)``
is the sum over j of ``(w_j - w_{j+1})`` times the j smallest together, and these are at most
``j t - sum_k max(t - z_k, 0)``, with equality for the right t.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fairmdp.backends.highs import INFINITE
from fairmdp.model.checks import Bools, Floats, Ints
from fairmdp.model.objectives import (
    AlphaFair,
    Atkinson,
    Entropy,
    Leximin,
    MaxMin,
    Objective,
    group_weights,
    value_at,
)
from fairmdp.welfare.program import Program

_TIGHT = 1e-10  # of a tangent that needs no other one, relative to the welfare's own size
_NEARER = 0.1  # where a tangent is put, of the last one's place, when a program runs to the end of the box
_NEAREST = 1e-12  # utility below which none is: slopes are out of hand there


class Box(NamedTuple):
    """Ends of what the utilities can be, (K,) each."""

    low: Floats
    high: Floats


class Concave(NamedTuple):
    """A concave function of one number: its value, its slope, and where it has a given slope."""

    value: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]
    at_slope: Callable[[Floats], Floats]


class Shape(ABC):
    """A welfare of K utilities, which a program describes in columns and rows of its own."""

    def __init__(self, objective: Objective, box: Box) -> None:
        self.objective, self.box = objective, box
        self.w = group_weights(objective, box.low.size)
        self.is_open = np.ones(box.low.size, bool)  # groups that it counts

    @property
    def monotone(self) -> bool:
        """Whether no group can have too much."""
        return not isinstance(self.objective, Entropy)

    @abstractmethod
    def enter(self, program: Program, z: list[int]) -> None:
        """Add columns and rows to a program whose utilities are the columns z."""

    def cut(self, program: Program, values: Floats) -> bool:
        """Add tangents where a program's solution lies above the welfare; whether there were any."""
        return False

    @abstractmethod
    def conjugate(self, q: Floats) -> float:
        """``conj(q)``, or something above it."""

    def value(self, z: Floats) -> float:
        """W(z)."""
        return value_at(self.objective, z)


class Separable(Shape):
    """``sum_k w_k f(z_k)``: alpha-fairness and entropy."""

    def __init__(self, objective: Objective, box: Box) -> None:
        super().__init__(objective, box)
        self._f = _power(objective.alpha) if isinstance(objective, AlphaFair) else _ENTROPY

    def enter(self, program: Program, z: list[int]) -> None:
        self._z, self._theta = z, [program.column(w, -INFINITE, INFINITE) for w in self.w]
        self._nearest = self.box.high.copy()
        self._tangents(program, np.arange(len(z)), self.box.high)

    def cut(self, program: Program, values: Floats) -> bool:
        z, theta = values[self._z], values[self._theta]
        at = np.maximum(z, np.maximum(_NEARER * self._nearest, _NEAREST))
        with np.errstate(divide="ignore"):
            over = theta - self._f.value(np.maximum(z, 0.0))
        slack = _TIGHT * np.maximum(np.abs(theta), 1.0)
        loose = np.flatnonzero((over > slack) & ((z > _NEAREST) | (at < self._nearest)))
        self._tangents(program, loose, at[loose])
        self._nearest[loose] = np.minimum(self._nearest[loose], at[loose])
        return bool(loose.size)

    def conjugate(self, q: Floats) -> float:
        at = np.where(q > 0, self._f.at_slope(np.maximum(q, 1e-300) / self.w), self.box.high)
        if isinstance(self.objective, Entropy):
            at = self._f.at_slope(q / self.w)
        at = np.clip(at, self.box.low, self.box.high)
        return float(self.w @ self._f.value(at) - q @ at)

    def _tangents(self, program: Program, groups: Ints, at: Floats) -> None:
        slope, value = self._f.slope(at), self._f.value(at)
        for k, a, b, v in zip(groups.tolist(), slope.tolist(), value.tolist(), at.tolist(), strict=True):
            program.row(-INFINITE, b - a * v, [self._theta[k], self._z[k]], [1.0, -a])


class Equivalent(Shape):
    """Atkinson's equivalent t, the largest with ``sum_k w_k t f(z_k / t) >= t f(1)``, by tangents."""

    def __init__(self, objective: Atkinson, box: Box) -> None:
        super().__init__(objective, box)
        self._a, self._f = objective.aversion, _power(objective.aversion)

    def enter(self, program: Program, z: list[int]) -> None:
        one = np.ones(len(z))
        self._z, self._t = z, program.column(1.0, 0.0, INFINITE)
        self._psi = [program.column(0.0, -INFINITE, INFINITE) for _ in z]
        level = float(self._f.value(np.ones(1))[0])
        program.row(0.0, INFINITE, [*self._psi, self._t], [*self.w.tolist(), -level])
        self._nearest = one.copy()
        self._tangents(program, np.arange(len(z)), one)

    def cut(self, program: Program, values: Floats) -> bool:
        z, psi, t = values[self._z], values[self._psi], float(values[self._t])
        if t <= 0:
            return False
        ratio = np.maximum(z, 0.0) / t
        at = np.maximum(ratio, np.maximum(_NEARER * self._nearest, _NEAREST))
        with np.errstate(divide="ignore"):
            over = psi - t * self._f.value(ratio)
        loose = np.flatnonzero((over > _TIGHT * t) & ((ratio > _NEAREST) | (at < self._nearest)))
        self._tangents(program, loose, at[loose])
        self._nearest[loose] = np.minimum(self._nearest[loose], at[loose])
        return bool(loose.size)

    def conjugate(self, q: Floats) -> float:
        if not (q > 0).all():
            return math.inf
        return _homogeneous(_polar(self.w, q, self._a), q, self.box)

    def _tangents(self, program: Program, groups: Ints, at: Floats) -> None:
        slope, value = self._f.slope(at), self._f.value(at)
        for k, a, b in zip(groups.tolist(), slope.tolist(), (value - slope * at).tolist(), strict=True):
            program.row(-INFINITE, 0.0, [self._psi[k], self._z[k], self._t], [1.0, -a, -b])


class Least(Shape):
    """The least utility of the groups that are open; what the others have is a matter of quotas."""

    def __init__(self, box: Box, is_open: Bools | None = None) -> None:
        super().__init__(MaxMin(), box)
        self.is_open = self.is_open if is_open is None else is_open

    def enter(self, program: Program, z: list[int]) -> None:
        t = program.column(1.0, -INFINITE, INFINITE)
        for k in np.flatnonzero(self.is_open).tolist():
            program.row(-INFINITE, 0.0, [t, z[k]], [1.0, -1.0])

    def value(self, z: Floats) -> float:
        return float(z[self.is_open].min())

    def conjugate(self, q: Floats) -> float:
        return _of_degree_one(float(q.sum()), 1.0, q, self.box)


class Ordered(Shape):
    """``sum_j w_j z_(j)`` with weights that do not rise: Gini welfare."""

    def enter(self, program: Program, z: list[int]) -> None:
        drops = self.w - np.append(self.w[1:], 0.0)
        for j in np.flatnonzero(drops > 0).tolist():
            if j + 1 == len(z):  # all together need no order
                for column in z:
                    program.cost(column, float(drops[j]))
                break
            t = program.column((j + 1) * drops[j], -INFINITE, INFINITE)
            for column in z:
                below = program.column(-drops[j], 0.0, INFINITE)
                program.row(-INFINITE, 0.0, [t, column, below], [1.0, -1.0, -1.0])

    def conjugate(self, q: Floats) -> float:
        owed, paid = np.cumsum(np.sort(self.w)), np.cumsum(np.sort(q))
        polar = float((paid[owed > 0] / owed[owed > 0]).min())
        return _of_degree_one(polar, float(self.w.sum()), q, self.box)


def shape_of(objective: Objective, box: Box) -> Shape:
    """The welfare of an objective on a box; of leximin its first level."""
    if isinstance(objective, Atkinson) and objective.aversion == 0:
        weights = tuple(group_weights(objective, box.low.size).tolist())
        return Separable(AlphaFair(0.0, weights), box)
    if isinstance(objective, Atkinson):
        return Equivalent(objective, box)
    if isinstance(objective, AlphaFair | Entropy):
        return Separable(objective, box)
    return Least(box) if isinstance(objective, MaxMin | Leximin) else Ordered(objective, box)


def _homogeneous(polar: float, q: Floats, box: Box) -> float:
    """``sup (1 / polar - 1) q @ z``: W of degree 1 is at most ``q @ z / polar`` for z of 0 or more."""
    if not polar > 0:
        return math.inf
    part = (1 / polar - 1) * q
    return float(np.maximum(part * box.low, part * box.high).sum())


def _of_degree_one(polar: float, total: float, q: Floats, box: Box) -> float:
    """The same where taking a number off everybody takes `total` times it off W, so that z may be below 0."""
    least = float(box.low.min())
    above = Box(box.low - least, box.high - least)
    return _homogeneous(polar, q, above) + least * (total - float(q.sum()))


def _polar(w: Floats, q: Floats, a: float) -> float:
    """Least ``q @ z`` among the z of Atkinson welfare 1."""
    if a == 1:
        return math.exp(float(w @ np.log(q / w)))
    return float((w ** (1 / a) * q ** (1 - 1 / a)).sum()) ** (a / (a - 1))


def _power(alpha: float) -> Concave:
    if alpha == 0:
        return Concave(lambda z: z, np.ones_like, lambda s: np.where(s < 1, np.inf, -np.inf))
    if alpha == 1:
        return Concave(np.log, lambda z: 1 / z, lambda s: 1 / s)
    return Concave(lambda z: z ** (1 - alpha) / (1 - alpha), lambda z: z**-alpha, lambda s: s ** (-1 / alpha))


def _entropy(z: Floats) -> Floats:
    return -z * np.log(np.where(z > 0, z, 1.0))


_ENTROPY = Concave(_entropy, lambda z: -1 - np.log(z), lambda s: np.exp(-1 - s))
