"""When to stop a search: one rule for the end of the time and for Ctrl-C."""

from __future__ import annotations

import math
import time
from enum import StrEnum
from numbers import Real

from fairmdp.errors import ProblemError


class Stop(StrEnum):
    """Why a search ended before it was done, if it did."""

    NOT = ""
    INTERRUPTED = "interrupted"
    OUT_OF_TIME = "out of time"
    OUT_OF_STEPS = "out of steps"  # of Algorithm 1, whose steps are its budget


class OutOfTimeError(Exception):
    """The time of a search is over; it ends like one that was interrupted."""


STOPS = (KeyboardInterrupt, OutOfTimeError)
"""What ends a search early, to be caught where its best answer is at hand."""


class Deadline:
    """The moment at which a search is to end; without seconds there is none.

    Examples
    --------
    >>> Deadline(None).left
    inf
    >>> Deadline(60).left > 59
    True
    """

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not (isinstance(seconds, Real) and seconds > 0):
            raise ProblemError(f"seconds is {seconds!r}, expected a positive number")
        self._end = math.inf if seconds is None else time.perf_counter() + seconds

    @property
    def left(self) -> float:
        """Seconds from now, never quite none."""
        return max(self._end - time.perf_counter(), 1e-3)

    def check(self) -> None:
        """Raise OutOfTimeError once the time is over."""
        if time.perf_counter() > self._end:
            raise OutOfTimeError


def stop_of(exception: BaseException) -> Stop:
    """Why a search ended that one of `STOPS` has ended."""
    return Stop.OUT_OF_TIME if isinstance(exception, OutOfTimeError) else Stop.INTERRUPTED
