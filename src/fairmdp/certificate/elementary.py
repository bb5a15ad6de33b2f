"""Logarithms and powers of rational numbers between rational bounds, and the floats beside a number.

Bounds are 30 digits apart and never crossed. Sums are made of whole numbers of ``2**-BITS``. A term that is
cut off loses less than two of them, and no series here has 200 terms: `_LOST` is more than all of them lose.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction

_BITS = 160
_ONE = 1 << _BITS
_LOST = Fraction(1 << 12, _ONE)  # of any series
_LARGEST = 1 << 16  # exponent of 2 beyond which a number is of no use to anybody

Ends = tuple[Fraction, Fraction]


def log_bounds(x: Fraction) -> Ends:
    """Bounds on ``log x`` of a positive number.

    Examples
    --------
    >>> low, high = log_bounds(Fraction(10))
    >>> float(low), float(high - low) < 1e-30
    (2.302585092994046, True)
    """
    if x <= 0:
        raise ValueError("only positive numbers have a logarithm")
    power = x.numerator.bit_length() - x.denominator.bit_length()
    x = x / Fraction(2) ** power  # between 1/2 and 2
    value = power * _LOG_2 + _atanh((x - 1) / (x + 1))
    lost = _LOST * (abs(power) + 1)
    return value - lost, value + lost


def exp_bounds(x: Fraction) -> Ends:
    """Bounds on ``exp x``.

    Examples
    --------
    >>> low, high = exp_bounds(Fraction(-1))
    >>> float(low), float((high - low) / low) < 1e-30
    (0.36787944117144233, True)
    """
    power = round(x / _LOG_2)
    if abs(power) > _LARGEST:
        raise OverflowError(f"exp({float(x):g}) is out of reach")
    rest = x - power * _LOG_2  # within 0.35, but for what log 2 is off
    term, total, n = _ONE, _ONE, 0
    whole = _whole(rest)
    while term:
        n += 1
        term = _divide(term * whole, _ONE * n)
        total += term
    value, lost = Fraction(total, _ONE), _LOST * (abs(power) + 1)
    scale = Fraction(2) ** power
    return (value - lost) * scale, (value + lost) * scale


def power_bounds(x: Fraction, exponent: Fraction) -> Ends:
    """Bounds on ``x**exponent`` of a positive number, equal where the exponent is whole."""
    if exponent.denominator == 1:
        exact = x**exponent.numerator
        return exact, exact
    low, high = sorted(exponent * end for end in log_bounds(x))
    return exp_bounds(low)[0], exp_bounds(high)[1]


def up(value: Fraction | float) -> float:
    """Least float that is not below a number."""
    if isinstance(value, float):
        return value
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def down(value: Fraction | float) -> float:
    return -up(-value)


def _atanh(y: Fraction) -> Fraction:
    """``2 atanh(y)`` for ``|y| <= 1/3``, within `_LOST`."""
    power, total, n = _whole(y), 0, 1
    square = _whole(y * y)
    while power:
        total += _divide(power, n)
        power, n = _divide(power * square, _ONE), n + 2
    return Fraction(2 * total, _ONE)


def _whole(x: Fraction) -> int:
    return _divide(x.numerator * _ONE, x.denominator)


def _divide(a: int, b: int) -> int:
    """Quotient towards zero, so that terms end."""
    return a // b if (a >= 0) == (b > 0) else -(-a // b)


_LOG_2 = _atanh(Fraction(1, 3))
