"""What a welfare is worth at proven utilities, and at most anywhere: both in rational arithmetic.

For a concave welfare W, any marginals q, and utilities that lie in a box ::

    W(u)  <=  q @ u + conj(q),        conj(q) >= sup over the box of W(u) - q @ u

A sum of functions of one utility each is below its tangents, wherever these are taken; a welfare of degree 1
(Atkinson's, and the ordered ones) is at most ``q @ u / polar(q)`` for utilities of 0 or more, where polar(q)
is the least ``q @ u`` of those with welfare 1. Both are evaluated between rational bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from fairmdp.certificate.elementary import Ends, exp_bounds, log_bounds, power_bounds
from fairmdp.model.objectives import AlphaFair, Atkinson, Entropy, Objective, group_weights

Box = Sequence[tuple[Fraction, Fraction]]
Point = Sequence[Fraction]
NOWHERE = (-math.inf, -math.inf)
_MOST_ENTROPY = Fraction(367879442, 10**9)  # above 1/e, where the entropy of one share is highest, 1/e
_DENOMINATOR = 10**18  # of the places where tangents are taken


def worth(objective: Objective, low: Point, high: Point) -> tuple[Fraction | float, Fraction | float]:
    """Bounds on the welfare of utilities between low and high, (K,) each."""
    w = _weights(objective, len(low))
    if isinstance(objective, Entropy):
        ends = [_entropy_between(max(a, Fraction(0)), b) for a, b in zip(low, high, strict=True)]
        return sum(end[0] for end in ends), sum(end[1] for end in ends)
    value = _value(objective, w)
    return value(low)[0], value(high)[1]


def conjugate(objective: Objective, q: Point, box: Box) -> Fraction | float:
    """Something that is nowhere on the box below ``W(u) - q @ u``."""
    w = _weights(objective, len(q))
    if isinstance(objective, AlphaFair):
        least = Fraction(objective.reference)
        above = [(max(a - least, Fraction(0)), b - least) for a, b in box]
        if any(b <= 0 for _, b in above):
            return -math.inf if objective.alpha >= 1 else math.inf
        tangents = [_power_gap(Fraction(objective.alpha), *each) for each in zip(w, q, above, strict=True)]
        return sum(tangents) - least * sum(q)
    if isinstance(objective, Entropy):
        return sum(_entropy_gap(*each) for each in zip(q, box, strict=True))
    if any(price < 0 for price in q):
        return math.inf
    if isinstance(objective, Atkinson):
        low = [max(a, Fraction(0)) for a, _ in box]
        return _degree_one(_polar(w, q, Fraction(objective.aversion)), q, low, [b for _, b in box])
    least = min(a for a, _ in box)
    polar = _ordered_polar(w, q)
    below = _degree_one(polar, q, [a - least for a, _ in box], [b - least for _, b in box])
    return below + least * (sum(w) - sum(q))


def _weights(objective: Objective, K: int) -> list[Fraction]:
    w = [Fraction(value) for value in group_weights(objective, K).tolist()]
    return [value / sum(w) for value in w] if isinstance(objective, Atkinson) else w


def _value(objective: Objective, w: Point) -> Callable[[Point], tuple[Fraction | float, Fraction | float]]:
    """Bounds on a welfare that no utility lowers, at a point."""
    if isinstance(objective, AlphaFair):
        alpha, least = Fraction(objective.alpha), Fraction(objective.reference)
        return lambda u: _power_sum(alpha, w, [value - least for value in u])
    if isinstance(objective, Atkinson):
        return lambda u: _equivalent(Fraction(objective.aversion), w, u)

    def ordered(u: Point) -> Ends:
        total = Fraction(sum(a * b for a, b in zip(w, sorted(u), strict=True)))
        return total, total

    return ordered


def _power_sum(alpha: Fraction, w: Point, v: Point) -> tuple[Fraction | float, Fraction | float]:
    """``sum w v^(1 - alpha) / (1 - alpha)``, for alpha = 1 ``sum w log v``."""
    if alpha == 0:
        total = Fraction(sum(a * b for a, b in zip(w, v, strict=True)))
        return total, total
    if min(v) < 0 or (min(v) == 0 and alpha >= 1):
        return NOWHERE
    terms = [_power(alpha, value) for value in v]
    low, high = (sum(a * end for a, end in zip(w, ends, strict=True)) for ends in zip(*terms, strict=True))
    return low, high


def _power(alpha: Fraction, v: Fraction) -> Ends:
    """``v^(1 - alpha) / (1 - alpha)`` of a number of 0 or more."""
    if v == 0:
        return Fraction(0), Fraction(0)
    if alpha == 1:
        return log_bounds(v)
    low, high = sorted(end / (1 - alpha) for end in power_bounds(v, 1 - alpha))
    return low, high


def _equivalent(a: Fraction, w: Point, u: Point) -> tuple[Fraction | float, Fraction | float]:
    if min(u) < 0 and a > 0:
        return NOWHERE
    if min(u) <= 0 and a >= 1:
        return Fraction(0), Fraction(0)
    if a == 0:
        return _power_sum(a, w, u)
    ends = [Fraction(end) for end in _power_sum(a, w, u)]
    if a == 1:
        return exp_bounds(ends[0])[0], exp_bounds(ends[1])[1]
    sums = [end * (1 - a) for end in ends]
    if min(sums) <= 0:
        return Fraction(0), Fraction(0)
    found = [power_bounds(end, 1 / (1 - a)) for end in sums]
    return min(low for low, _ in found), max(high for _, high in found)


def _power_gap(alpha: Fraction, w: Fraction, q: Fraction, box: Ends) -> Fraction:
    """Highest ``w f(v) - q v`` of a box, by the tangent of f where its slope is about ``q / w``."""
    if alpha == 0:
        return max((w - q) * end for end in box)
    v = box[1]
    if q > 0:
        size = math.log(q / w) / -float(alpha)
        v = min(_near(math.exp(min(size, 700.0))), box[1])
    v = max(v, box[0], Fraction(1, 10**300))
    slopes = power_bounds(v, -alpha)
    value = _power(alpha, v)[1]
    return w * value + max(w * slope * (u - v) - q * u for slope in slopes for u in box)


def _entropy_gap(q: Fraction, box: Ends) -> Fraction:
    """Highest ``-u log u - q u`` of a box, by the tangent where the slope is about q."""
    v = max(min(_near(math.exp(min(-1.0 - float(q), 700.0))), box[1]), box[0], Fraction(1, 10**300))
    return v + max(-u * (1 + end + q) for end in log_bounds(v) for u in box)


def _entropy_between(low: Fraction, high: Fraction) -> Ends:
    """Bounds on ``-u log u`` for u between low and high: its ends from below, the top at 1/e from above."""
    at_low, at_high = _entropy(low), _entropy(high)
    tops = [at_low[1], at_high[1], *([_MOST_ENTROPY] if low < _MOST_ENTROPY < high else [])]
    return min(at_low[0], at_high[0]), max(tops)


def _entropy(u: Fraction) -> Ends:
    if u <= 0:
        return Fraction(0), Fraction(0)
    low, high = log_bounds(u)
    return -u * high, -u * low


def _polar(w: Point, q: Point, a: Fraction) -> Fraction:
    """Something below the least ``q @ u`` of the utilities with Atkinson welfare 1."""
    if a == 0:
        return min(price / weight for price, weight in zip(q, w, strict=True))
    if min(q) <= 0:
        return Fraction(0)
    if a == 1:
        logs = [weight * log_bounds(price / weight)[0] for price, weight in zip(q, w, strict=True)]
        return exp_bounds(Fraction(sum(logs)))[0]
    terms = [
        (power_bounds(weight, 1 / a), power_bounds(price, 1 - 1 / a))
        for price, weight in zip(q, w, strict=True)
    ]
    ends = [sum(left[end] * right[end] for left, right in terms) for end in (0, 1)]
    return min(power_bounds(Fraction(end), a / (a - 1))[0] for end in ends)


def _ordered_polar(w: Point, q: Point) -> Fraction:
    """The same of an ordered welfare: the j smallest prices against the j smallest weights."""
    paid = owed = Fraction(0)
    ratios = []
    for price, weight in zip(sorted(q), sorted(w), strict=True):
        paid, owed = paid + price, owed + weight
        if owed > 0:
            ratios.append(paid / owed)
    return min(ratios)


def _degree_one(polar: Fraction, q: Point, low: Point, high: Point) -> Fraction | float:
    """``sup (1 / polar - 1) q @ u`` over a box."""
    if polar <= 0:
        return math.inf
    part = 1 / polar - 1
    return sum(max(part * price * a, part * price * b) for price, a, b in zip(q, low, high, strict=True))


def _near(value: float) -> Fraction:
    """A number near a float that is quick to reckon with; a tangent may be taken anywhere."""
    if not 1e-9 < value < 1e9:
        return Fraction(value)
    return Fraction(value).limit_denominator(_DENOMINATOR)
