"""Checks for the parameters of ready-made problems, and for their size before memory is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats, Ints, count_of, first, numeric
from fairmdp.model.quota import Quota

MAX_STATES = 10**7
"""States up to which a ready-made problem is built."""

MAX_TRANSITIONS = 10**8
"""Transitions up to which a ready-made problem is built: 4 GB of memory at the most, while it is checked."""

_EXACT = 2**53  # floats below it are whole numbers without doubt


def check_size(what: str, states: float, transitions: float, advice: str) -> None:
    """Raise if a model has too many states or transitions; the numbers may be lower bounds."""
    if states > MAX_STATES or transitions > MAX_TRANSITIONS:
        raise ProblemError(
            f"{what} has {states:.3g} states and {transitions:.3g} transitions or more\n"
            f"  ready-made problems are built up to {MAX_STATES:.0e} states and "
            f"{MAX_TRANSITIONS:.0e} transitions\n  {advice}"
        )


class Kind(NamedTuple):
    """What the numbers of a parameter may be, besides finite."""

    allowed: Callable[[Any], Any]
    expected: str


FINITE = Kind(np.isfinite, "a finite number")
AMOUNT = Kind(lambda a: a >= 0, "a number of at least 0")
RATE = Kind(lambda a: a > 0, "a rate above 0")
CHANCE = Kind(lambda a: (a > 0) & (a <= 1), "a probability above 0 and up to 1")
SHARE = Kind(lambda a: (a >= 0) & (a <= 1), "a share between 0 and 1")


def whole(least: int) -> Kind:
    """Whole numbers, which may be written as 3.0."""
    return Kind(lambda a: (a % 1 == 0) & (a >= least) & (a < _EXACT), f"a whole number of at least {least}")


def number(what: str, value: Any, kind: Kind) -> float:
    """Value as a finite number of a kind."""
    given = numeric(what, value)
    if given.shape != () or isinstance(value, bool) or not (np.isfinite(given) and kind.allowed(given)):
        raise ProblemError(f"{what} is {value!r}, expected {kind.expected}")
    return float(given)


def whole_number(what: str, value: Any, least: int) -> int:
    """Value as an integer of at least ``least``."""
    return int(number(what, value, whole(least)))


def probability(what: str, value: Any, *, positive: bool = False, certain: bool = True) -> float:
    """Value as a probability; 0 is refused if it must be positive, 1 if it must not be certain."""
    ends = f"{'above' if positive else 'from'} 0 and {'up to' if certain else 'below'} 1"
    kind = Kind(
        lambda p: (p > 0 if positive else p >= 0) & (p <= 1 if certain else p < 1), f"a probability {ends}"
    )
    return number(what, value, kind)


def numbers(what: str, values: ArrayLike, count: int, item: str, kind: Kind = FINITE) -> Floats:
    """Values as finite numbers of a kind, one per item; a single one is meant for all, (count,)."""
    array = np.atleast_1d(numeric(what, values))
    if array.shape == (1,):
        array = np.repeat(array, count)
    if array.shape != (count,):
        raise ProblemError(
            f"{what} has {_extent(array)}, expected {count}, one per {item}, or a single one for all"
        )
    return _all_of(what, array, kind)


def payments(what: str, values: ArrayLike, count: int, item: str) -> Floats:
    """Values as finite numbers of at least 0, one per item, not all of them 0."""
    array = numbers(what, values, count, item, AMOUNT)
    if not array.any():
        raise ProblemError(f"{what} is 0 for every {item}: there is nothing to earn")
    return array


def whole_numbers(what: str, values: ArrayLike, count: int, item: str, least: int) -> Ints:
    """Values as integers of at least ``least``, one per item."""
    return numbers(what, values, count, item, whole(least)).astype(np.int64)


def limits_below(limit: ArrayLike, room: Ints, item: str) -> Ints:
    """Limits as integers from 0 to below the room of each item: at the room itself nothing is asked."""
    levels = whole_numbers("limit", limit, room.size, item, 0)
    too_high = levels >= room
    if (k := first(too_high)) is not None:
        raise ProblemError(
            f"limit of {item} {k + 1} is {levels[k]}, expected less than {room[k]}, all that fits there; "
            f"{count_of(too_high.sum(), levels.size, 'limits')} too high"
        )
    return levels


def matrix(what: str, values: ArrayLike, side: int, item: str, kind: Kind) -> Floats:
    """Values as a square matrix of a kind, given as rows or as one long list, (side, side)."""
    array = numeric(what, values)
    if array.shape not in ((side, side), (side * side,)):
        raise ProblemError(
            f"{what} has {_extent(array)}, expected {side} x {side}: "
            f"one row per {item}, or the rows in one long list"
        )
    return _all_of(what, array.reshape(side, side), kind)


def _all_of(what: str, array: Floats, kind: Kind) -> Floats:
    for each in (FINITE, kind):
        check_entries(what, array, each.allowed(array), each.expected)
    return array


def check_entries(what: str, array: Floats, ok: Bools, expected: str) -> None:
    """Raise with the first entry of a vector or matrix that is not ok."""
    if not ok.all():
        place = tuple(int(k) for k in np.argwhere(~ok)[0])
        where = ", ".join(str(k) for k in place)
        raise ProblemError(
            f"{what}[{where}] is {array[place]:.12g}, expected {expected}; "
            f"{count_of((~ok).sum(), ok.size, 'entries')} out of range"
        )


def owed_each(item: str, owed: Floats, **sets: Any) -> list[Quota]:
    """One quota per item, ``item1``, ``item2``, ..., on its own set of ``states`` or ``pairs``."""
    ((over, members),) = sets.items()
    return [
        Quota(f"{item}{k + 1}", at_least=share, **{over: members[k]}) for k, share in enumerate(owed.tolist())
    ]


def _extent(array: Floats) -> str:
    if array.ndim > 1:
        return f"shape {array.shape}"
    return f"{array.size} number{'' if array.size == 1 else 's'}"
