"""Linear systems of chains that mix slowly, by stabilised biconjugate gradients (van der Vorst 1992).

Let P be a chain, nu a guess of its stationary distribution, and one state the pin. Two systems are solved,
on any device ::

    x - P x + x[pin] = f        x is the bias of f, up to a constant, and x[pin] its gain
    y - y P = nu P - nu         nu + y is stationary: both sides add up to zero, and so does y

Both have the eigenvalues of ``I - P`` but for the 0. What is left of the equations is looked at only now and
then, since a look at a device may take as long as a step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

MOST = 20_000  # products of one solve
_PATIENCE = 2000  # products without what is left being halved, after which no more is hoped for
_ORTHOGONAL = 1e-10  # cosine of residual and shadow below which another shadow is taken
_WORSE = 1e6  # growth of what is left beyond which too few digits remain
_PART = 1e-3  # what one solve leaves of a distribution's residual, in its norm ...
_TRUST = 100.0  # ... and by how much the next correction may exceed that part of the last one
_CORRECTIONS = 6
_TINY = 1e-300  # half a step may leave nothing


class Vectors:
    """The vector work of a step, in the terms of NumPy; ``product(x)`` is the matrix A times x.

    Numbers stay where the vectors are. The dots of a product are its scalar products with w and with itself,
    the ends of a residual its least and its largest entry and its scalar products with shadow and itself.
    """

    look = 1  # steps from one look at what is left to the next

    def __init__(self, product: Callable[[Any], Any]) -> None:
        self.product = product

    def times(self, x: Any, w: Any) -> tuple[Any, Any]:
        """Product A x and its dots."""
        out = self.product(x)
        return out, (w @ out, out @ out)

    def ends(self, r: Any, shadow: Any) -> Any:
        """Ends of a residual."""
        return r.min(), r.max(), shadow @ r, r @ r

    def half(self, r: Any, v: Any, ends: Any, first: Any) -> Any:
        """Residual after the first half of a step."""
        return r - ends[2] / first[0] * v

    def step(
        self, x: Any, p: Any, s: Any, t: Any, shadow: Any, ends: Any, first: Any, second: Any
    ) -> tuple[Any, Any]:
        """Move x, in place; the residual then, and its ends."""
        omega = second[0] / (second[1] + _TINY)
        x += ends[2] / first[0] * p + omega * s
        r = s - omega * t
        return r, self.ends(r, shadow)

    def turn(self, p: Any, r: Any, v: Any, first: Any, second: Any, ends: Any) -> Any:
        """Direction of the next step."""
        omega = second[0] / (second[1] + _TINY)
        return r + ends[2] / first[0] / omega * (p - omega * v)

    def get(self, numbers: Any) -> tuple[float, ...]:
        """Bring numbers to the host."""
        return tuple(map(float, numbers))


class Answer(NamedTuple):
    """What was found."""

    x: Any
    left: float  # norm of the residual, or its span
    products: int


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def solve(vectors: Vectors, b: Any, tol: float, *, span: bool = False, most: int = MOST) -> Answer:
    """Solve A x = b until the norm of the residual, or its span, is within tol; the best x that was met."""
    best, known, goal = 0 * b, Answer(0 * b, math.inf, 0), math.inf
    products, end, careful = 0, most, False
    while True:
        r = b - vectors.product(best)  # the residual of the steps drifts away from the true one
        ends = vectors.ends(r, r)
        numbers = vectors.get(ends)
        least = _left(numbers, span)
        stuck = least > 0.5 * known.left  # by rounding, or by a breakdown
        if not least > known.left:
            known = Answer(best, least, products)
        if not tol < least < math.inf or products >= end or (stuck and careful):
            return known._replace(products=products)
        x, p, shadow, size, careful = best.copy(), r, r, numbers[3], stuck
        if careful:
            shadow = scattered(r) - 0.5
            ends, size = vectors.ends(r, shadow), float(shadow @ shadow)
        look = 1 if careful else vectors.look
        for step in itertools.count(1):
            v, first = vectors.times(p, shadow)
            s = vectors.half(r, v, ends, first)
            t, second = vectors.times(s, s)
            r, after = vectors.step(x, p, s, t, shadow, ends, first, second)
            products += 2
            if step % look == 0:
                numbers = vectors.get(after)
                left = _left(numbers, span)
                if left < least:
                    best, least = x.copy(), left
                if least < 0.5 * goal:
                    goal, end = least, min(most, products + _PATIENCE)
                if not least > tol or products >= end or not left < _WORSE * least:
                    break
                if abs(numbers[2]) <= _ORTHOGONAL * math.sqrt(size * numbers[3]):
                    shadow, p, ends, size = r, r, vectors.ends(r, r), numbers[3]
                    continue
            p, ends = vectors.turn(p, r, v, first, second, after), after


def stationary(vectors: Vectors, nu: Any, tol: float) -> tuple[Any, float, int]:
    """Stationary distribution from a guess, an estimate of its L1 error, and the products it took.

    The matrix of `vectors` is ``I - P`` transposed.
    """
    error, products = math.inf, 0
    for _ in range(_CORRECTIONS):
        residual = -vectors.product(nu)
        residual = residual - residual.sum() * nu  # rounding is no part of a distribution
        size = math.sqrt(float(residual @ residual))
        step = solve(vectors, residual, _PART * size)
        products += step.products
        if step.left > 0.5 * size:
            break
        nu = nu + step.x
        error = _TRUST * step.left / size * float(abs(step.x).sum()) if size > 0 else 0.0
        if not error > tol:
            break
    nu = np.maximum(nu, 0.0)
    return nu / nu.sum(), error, products


def scattered(like: Any) -> Any:
    """Numbers between 0 and 1 in no order, as many as a vector has and where it is."""
    return np.sin(12.9898 * np.cumsum(np.ones_like(like))) * 43758.5453 % 1.0


def _left(numbers: tuple[float, ...], span: bool) -> float:
    low, high, _, square = numbers
    if not math.isfinite(square):  # the least of some numbers may pass over what is none
        return math.inf
    return high - low if span else math.sqrt(square)
