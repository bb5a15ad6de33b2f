"""What a rule says can happen: ``({next: probability}, reward)``, or ``(probability, next, reward)`` each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import mul
from typing import Any, NamedTuple, NoReturn

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import line_of, refuse
from fairmdp.model.transitions import ROW_SUM_TOL, SINGLE_SUM_TOL

_CONTRACT = "return ({next: probability, ...}, reward), or a list of (probability, next, reward)"
_MOST_SHOWN = 200  # letters of a value in a message


class Outcomes(NamedTuple):
    """Where one action of a state can lead, and what it pays on average: a number, or one for each name."""

    chances: Sequence[float]
    targets: Sequence[Hashable]
    reward: Any


def outcomes(step: Callable[[Any, Any], Any], state: Hashable, action: Hashable) -> Outcomes:
    """Ask a rule and check the answer; an error names the state and the action."""
    answer = called("step", step, state, action)
    if isinstance(answer, tuple | list) and len(answer) == 2 and _is_mapping(answer[0]):
        found = Outcomes(list(answer[0].values()), list(answer[0]), answer[1])
    else:
        found = _of_triples(answer, state, action)
    if not found.chances:
        mistake(state, action, "leads nowhere: step returned no outcome")
    if not (abs(_sum(found.chances) - 1) <= ROW_SUM_TOL and min(found.chances) >= 0):
        _refuse_chances(found, state, action)
    return found


def _is_mapping(value: Any) -> bool:
    """Whether a value is a mapping; that a dict is one is seen at once, of others Python asks around."""
    return type(value) is dict or isinstance(value, Mapping)


def called(name: str, function: Callable[..., Any], *arguments: Any, call: str = "") -> Any:
    """What a function of the user's returns; what it raises is named by the call, in other words if given."""
    try:
        return function(*arguments)
    except Exception as error:
        call = call or f"{name}({', '.join(map(repr, arguments))})"
        raised = f"{type(error).__name__}: {error}{line_of(error)}"
        raise ProblemError(f"{call} raised {raised}") from error


def mistake(state: Hashable, action: Hashable, what: str) -> NoReturn:
    """Raise: what is wrong with the answer, and how it should look."""
    raise ProblemError(f"state {state!r}, action {action!r} {what}\n  {_CONTRACT}")


def _of_triples(answer: Any, state: Hashable, action: Hashable) -> Outcomes:
    if isinstance(answer, Mapping):
        mistake(state, action, f"has no reward: step returned {_short(answer)} alone")
    triples = list(answer) if isinstance(answer, Iterable) else [answer]
    try:
        chances, targets, paid = zip(*triples, strict=True) if triples else ((), (), ())
    except (TypeError, ValueError):
        mistake(state, action, f"cannot be read: step returned {_short(answer)}")
    if paid and isinstance(paid[0], Mapping):
        if any(not isinstance(each, Mapping) or each.keys() != paid[0].keys() for each in paid):
            mistake(state, action, "has outcomes whose rewards have different names")
        mean: Any = {name: _mean(chances, [each[name] for each in paid], state, action) for name in paid[0]}
    else:
        mean = _mean(chances, paid, state, action)
    return Outcomes(chances, targets, mean)


def _mean(chances: Sequence[float], paid: Sequence[Any], state: Hashable, action: Hashable) -> Any:
    """Average of the rewards of outcomes, exact where all are the same."""
    if paid.count(paid[0]) == len(paid) if paid else True:
        return paid[0] if paid else 0.0
    try:
        return sum(map(mul, chances, paid))
    except TypeError:
        mistake(state, action, f"has the rewards {_short(paid)}, expected numbers")


def _sum(chances: Sequence[Any]) -> float:
    """Sum of probabilities; not a number where one is none."""
    try:
        total = float(sum(chances))
    except (TypeError, ValueError):
        return float("nan")
    if abs(total - 1) <= ROW_SUM_TOL:
        return total
    single = abs(total - 1) <= SINGLE_SUM_TOL and any(isinstance(p, np.float32) for p in chances)
    return 1.0 if single else total  # the model rescales what float32 cannot say more exactly


def _refuse_chances(found: Outcomes, state: Hashable, action: Hashable) -> NoReturn:
    """Name what is wrong with some probabilities."""
    for p, target in zip(found.chances, found.targets, strict=True):
        try:
            good = 0 <= p < float("inf")
        except TypeError:
            good = False
        if not good:
            what = f"leads to {target!r} with probability {p!r}, expected a number from 0 to 1"
            mistake(state, action, what)
    refuse(
        f"state {state!r}, action {action!r}: the probabilities sum to "
        f"{_sum(found.chances):.12g}, expected 1",
        f"its outcomes are {_short(list(zip(found.chances, found.targets, strict=True)))}",
        "an outcome is missing or counted twice; in a dictionary two that lead to one state are only one: "
        "then return triples",
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
