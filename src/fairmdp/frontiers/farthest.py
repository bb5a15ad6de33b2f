"""The last value of a bound that can be met, where only solving says whether one can."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fairmdp.solution.solution import Solution, Status

_HALVINGS = 40
_NEAR = 3e-9  # parts of the whole interval


def farthest(
    ask: Callable[[float], Solution | None], first: float, end: float, guesses: Iterable[float]
) -> tuple[float, float] | None:
    """Return the last value that a policy is proved to meet, and one beyond which none is, 3e-9 apart.

    Parameters
    ----------
    ask
        Solves at a value; None where it is refused. What can be met at a value can be met at all before it.
    first, end
        Where values begin, and what no model goes beyond, after the first one or before it.
    guesses
        Where the last one may be; asked for once it is known that there is something to look for.

    Returns
    -------
    tuple of float or None
        None where the first value cannot be met.
    """
    if not _met(ask(first)):
        return None
    if _met(ask(end)):
        return end, end
    last, beyond, limit = first, end, end  # beyond: not proved to be met; limit: proved not to be
    way = 1.0 if end > first else -1.0

    def learn(value: float) -> None:
        nonlocal last, beyond, limit
        if not way * last < way * value < way * beyond:
            return
        found = ask(value)
        if _met(found):
            last = value
        else:
            beyond = value
            if found is None or found.status is Status.INFEASIBLE:
                limit = value

    for guess in guesses:
        learn(guess)
    for _ in range(_HALVINGS):
        if abs(beyond - last) <= _NEAR * abs(end - first):
            break
        learn((last + beyond) / 2)
    return last, limit


def _met(found: Solution | None) -> bool:
    return found is not None and found.has_policy and found.status is not Status.UNDECIDED
