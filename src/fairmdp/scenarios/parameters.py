"""Checks for the parameters of ready-made problems, and for their size before memory is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairmdp.errors import ProblemError
from fairmdp.validation import Bools, Floats, Ints, count_of, numeric

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


def whole_number(what: str, value: Any, least: int) -> int:
    """Value as an integer of at least ``least``; 3.0 is taken for 3."""
    number = numeric(what, value)
    if number.shape != () or isinstance(value, bool) or not least <= number < _EXACT or number % 1 != 0:
        raise ProblemError(f"{what} is {value!r}, expected a whole number of at least {least}")
    return int(number)


def probability(what: str, value: Any, *, positive: bool = False, certain: bool = True) -> float:
    """Value as a probability; 0 is refused if it must be positive, 1 if it must not be certain."""
    number = numeric(what, value)
    low_ok = number > 0 if positive else number >= 0
    high_ok = number <= 1 if certain else number < 1
    if number.shape != () or isinstance(value, bool) or not (low_ok and high_ok):
        ends = f"{'above' if positive else 'from'} 0 and {'up to' if certain else 'below'} 1"
        raise ProblemError(f"{what} is {value!r}, expected a probability {ends}")
    return float(number)


def amount(what: str, value: Any) -> float:
    """Value as a finite number of at least 0."""
    number = numeric(what, value)
    if number.shape != () or not (np.isfinite(number) and number >= 0):
        raise ProblemError(f"{what} is {value!r}, expected a number of at least 0")
    return float(number)


def numbers(what: str, values: ArrayLike, count: int, item: str) -> Floats:
    """Values as finite numbers, one per item; a single one is meant for all, (count,)."""
    array = np.atleast_1d(numeric(what, values))
    if array.shape == (1,):
        array = np.repeat(array, count)
    if array.shape != (count,):
        raise ProblemError(
            f"{what} has {_extent(array)}, expected {count}, one per {item}, or a single one for all"
        )
    check_entries(what, array, np.isfinite(array), "a finite number")
    return array


def payments(what: str, values: ArrayLike, count: int, item: str) -> Floats:
    """Values as finite numbers of at least 0, one per item, not all of them 0."""
    array = numbers(what, values, count, item)
    check_entries(what, array, array >= 0, "a number of at least 0")
    if not array.any():
        raise ProblemError(f"{what} is 0 for every {item}: there is nothing to earn")
    return array


def rates(what: str, values: ArrayLike, count: int, item: str) -> Floats:
    """Values as finite numbers above 0, one per item."""
    array = numbers(what, values, count, item)
    check_entries(what, array, array > 0, "a rate above 0")
    return array


def probabilities(what: str, values: ArrayLike, count: int, item: str) -> Floats:
    """Values as positive probabilities, one per item."""
    array = numbers(what, values, count, item)
    check_entries(what, array, (array > 0) & (array <= 1), "a probability above 0 and up to 1")
    return array


def shares(what: str, values: ArrayLike, count: int, item: str) -> Floats:
    """Values as shares of time, one per item."""
    array = numbers(what, values, count, item)
    check_entries(what, array, (array >= 0) & (array <= 1), "a share between 0 and 1")
    return array


def whole_numbers(what: str, values: ArrayLike, count: int, item: str, least: int) -> Ints:
    """Values as integers of at least ``least``, one per item."""
    array = numbers(what, values, count, item)
    ok = (array % 1 == 0) & (array >= least) & (array < _EXACT)
    check_entries(what, array, ok, f"a whole number of at least {least}")
    return array.astype(np.int64)


def limits_below(limit: ArrayLike, room: Ints, item: str) -> Ints:
    """Limits as integers from 0 to below the room of each item: at the room itself nothing is asked."""
    levels = whole_numbers("limit", limit, room.size, item, 0)
    too_high = levels >= room
    if too_high.any():
        k = int(np.argmax(too_high))
        raise ProblemError(
            f"limit of {item} {k + 1} is {levels[k]}, expected less than {room[k]}, all that fits there; "
            f"{count_of(too_high.sum(), levels.size, 'limits')} too high"
        )
    return levels


def matrix(what: str, values: ArrayLike, side: int, item: str) -> Floats:
    """Values as a square matrix of finite numbers, given as rows or as one long list, (side, side)."""
    array = numeric(what, values)
    if array.shape not in ((side, side), (side * side,)):
        raise ProblemError(
            f"{what} has {_extent(array)}, expected {side} x {side}: "
            f"one row per {item}, or the rows in one long list"
        )
    array = array.reshape(side, side)
    check_entries(what, array, np.isfinite(array), "a finite number")
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


def _extent(array: Floats) -> str:
    if array.ndim > 1:
        return f"shape {array.shape}"
    return f"{array.size} number{'' if array.size == 1 else 's'}"
