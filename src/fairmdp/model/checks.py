"""Checks for data that comes from a user: each raises a `ProblemError` in the user's words.

What has been checked stays as it was: `ReadOnly` keeps the arrays of a record from being changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from difflib import SequenceMatcher, get_close_matches
from functools import cached_property, wraps
from traceback import extract_tb
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from fairmdp.errors import ProblemError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_NEAR = 0.7  # similarity from which a name may have been meant
_MOST_COMPARED = 5000  # names that a misspelt one is compared with, which takes 0.1 s
_LEAST_BEGUN = 3  # letters that say which longer name is meant


def refuse(what: str, where: str, advice: str) -> NoReturn:
    """Raise: what is wrong and by how much; where and how often; what to do."""
    raise ProblemError(f"{what}\n  {where}\n  {advice}")


def line_of(error: BaseException) -> str:
    """Ending of a message about code of the user's that raised: the file and the line where it did."""
    frames = extract_tb(error.__traceback__)[1:]  # the first one is our own, which called it
    return f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""


def as_share(value: float) -> str:
    """Advice for whoever wrote a percentage where a share is expected."""
    return f"write {value:g} % as {value / 100:g}" if 2 <= value <= 100 else "write 25 % as 0.25"


def count_of(count: Any, total: int, what: str) -> str:
    """``2 of 6 rows are``."""
    return f"{int(count)} of {total} {what} {'is' if count == 1 else 'are'}"


def counted(count: int, noun: str) -> str:
    """``1 quota``, ``2 quotas``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def there_are(names: Sequence[str] | None, wanted: str = "") -> str:
    """Ending of a message about an unknown name: which one it may have been, and which ones exist."""
    if not names:
        return ""
    close = closest(wanted, names)
    listed = f"there are {', '.join(names[:8])}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"; did you mean {close!r}? {listed}" if close is not None else f"; {listed}"


def closest(wanted: str, names: Sequence[str]) -> str | None:
    """Name that is nearest to what somebody wrote; None where none is near, or begins like it.

    Capitals only decide between names that are otherwise the same.
    """
    small, names = wanted.casefold(), names[:_MOST_COMPARED]
    near = get_close_matches(small, [name.casefold() for name in names], n=1, cutoff=_NEAR)
    if near:
        same = [name for name in names if name.casefold() == near[0]]
        return max(same, key=lambda name: SequenceMatcher(None, name, wanted).ratio())
    begun = [name for name in names if _begins(small, name.casefold())]
    return begun[0] if len(begun) == 1 else None


def _begins(one: str, other: str) -> bool:
    """Whether the shorter of two words is how the longer one begins."""
    short, long = sorted((one, other), key=len)
    return len(short) >= _LEAST_BEGUN and long.startswith(short)


def names_of(what: str, names: Iterable[str] | None, count: int | None = None) -> tuple[str, ...] | None:
    """Names as a tuple of printable strings, `count` of them if given."""
    if names is None:
        return None
    if isinstance(names, str):
        raise ProblemError(f"{what} is the single string {names!r}, expected a list of names")
    try:
        names = tuple(names)
    except TypeError:
        raise ProblemError(f"{what} is {names!r}, expected a list of names") from None
    if count is not None and len(names) != count:
        raise ProblemError(f"{what} has {counted(len(names), 'name')}, expected {count}")
    for name in names:
        if not isinstance(name, str) or not name or not name.isprintable() or name != name.strip():
            raise ProblemError(f"{what} has the name {name!r}, expected printable text without outer spaces")
    return names


def numeric(what: str, values: Any) -> Floats:
    """Values as a new float64 array; text, objects, complex numbers and ragged lists are refused."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ProblemError(f"{what} is ragged: its rows have different lengths") from None
    if array.dtype.kind not in "fiub":
        raise ProblemError(f"{what} holds {array.dtype}, expected real numbers")
    return array.astype(np.float64)


def real_vector(what: str, values: ArrayLike, size: int) -> Floats:
    """Values as a new float64 vector of the given size."""
    array = numeric(what, values)
    if array.shape != (size,):
        raise ProblemError(f"{what} has shape {array.shape}, expected ({size},)")
    return array


def number_within(what: str, value: Any, count: int) -> int:
    """Value as an integer from 0 to count - 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ProblemError(f"{value!r} is not the number or name of a {what}")
    if not 0 <= value < count:
        raise ProblemError(f"there is no {what} {value}, expected 0 to {count - 1}")
    return int(value)


def check_count(what: str, value: Any) -> None:
    """Raise unless a value is a whole number of at least 1."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ProblemError(f"{what} is {value!r}, expected a whole number of at least 1")


def first(bad: NDArray[np.bool_]) -> int | None:
    """Place of the first True, if there is one."""
    k = int(bad.argmax()) if bad.size else 0
    return k if bad.size and bad[k] else None


def first_repeat(values: NDArray[Any]) -> int | None:
    """Index of the first value that has occurred before, if any."""
    order = np.argsort(values, kind="stable")
    again = order[1:][values[order[1:]] == values[order[:-1]]]
    return int(again.min()) if again.size else None


def frozen(*arrays: NDArray[Any]) -> None:
    """Make arrays of our own read-only."""
    for array in arrays:
        array.flags.writeable = False


_TEXT = {str}


def read_only(value: Any) -> Any:
    """Return an array, sparse matrix or tuple of these for reading only; all else, as on a GPU, as it is.

    Nothing is copied, and an array that somebody else holds stays as writable to them as it was.
    """
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    elif isinstance(value, csr_array) and value.data.flags.writeable:
        value = copy(value)
        value.data, value.indices, value.indptr = map(read_only, (value.data, value.indices, value.indptr))
    elif isinstance(value, tuple) and set(map(type, value)) != _TEXT:
        items = [read_only(item) for item in value]
        if any(new is not old for new, old in zip(items, value, strict=True)):
            value = type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


class ReadOnly:
    """Base of frozen dataclasses: nor can their arrays be changed, or those of a copy or a pickle.

    This holds for fields and for what a public `cached_property` keeps.
    """

    def __init_subclass__(cls) -> None:
        for name, cached in vars(cls).items():
            if isinstance(cached, cached_property) and not name.startswith("_"):
                cached.func = _returning_read_only(cached.func)

    def __post_init__(self) -> None:
        self.__dict__.update({name: read_only(value) for name, value in vars(self).items()})

    def __getstate__(self) -> dict[str, Any]:
        """Fields alone: what was derived from them is derived again, so that no use shows in a pickle."""
        kind = type(self)
        return {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        ReadOnly.__post_init__(self)


def _returning_read_only(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(function)
    def protected(self: Any) -> Any:
        return read_only(function(self))

    return protected
