"""Principles of fairness as people write them: ``nash``, ``alpha=2``, ``gini=4,2,1``."""

from __future__ import annotations

from collections.abc import Callable

from fairmdp.errors import ProblemError
from fairmdp.model.checks import there_are
from fairmdp.model.objectives import (
    AlphaFair,
    Atkinson,
    Gini,
    Objective,
    alpha_fair,
    atkinson,
    entropy,
    gini,
    leximin,
    max_min,
)

_PLAIN: dict[str, Callable[[], Objective]] = {
    "utilitarian": lambda: alpha_fair(0.0),
    "nash": lambda: alpha_fair(1.0),
    "gini": gini,
    "entropy": entropy,
    "max-min": max_min,
    "leximin": leximin,
}
_WITH_NUMBERS: dict[str, Callable[[list[float]], Objective]] = {
    "alpha": lambda numbers: alpha_fair(_one("alpha", numbers)),
    "atkinson": lambda numbers: atkinson(_one("atkinson", numbers)),
    "gini": gini,
}

PRINCIPLES = ("utilitarian", "nash", "alpha=2", "gini", "leximin", "max-min")
"""What `compare` shows side by side: from no care for the worst-off to nothing but it."""


def parse_objective(text: str) -> Objective:
    """Read a principle of fairness.

    Parameters
    ----------
    text
        ``utilitarian``, ``nash``, ``gini``, ``entropy``, ``max-min`` or ``leximin``; or with numbers
        ``alpha=2``, ``atkinson=0.5``, ``gini=4,2,1`` (the worst-off group's weight first).

    Examples
    --------
    >>> parse_objective("alpha=2")
    AlphaFair(alpha=2.0, weights=None, reference=0.0)
    """
    name, equals, rest = text.partition("=")
    name = name.strip().lower()
    if not equals and name in _PLAIN:
        return _PLAIN[name]()
    if equals and name in _WITH_NUMBERS:
        return _WITH_NUMBERS[name](_numbers(text, rest))
    known = there_are([*_PLAIN, *(name for name in _WITH_NUMBERS if name not in _PLAIN)], name)
    raise ProblemError(f"there is no principle {text!r}{known}\n  numbers follow a =, such as alpha=2")


def objective_text(objective: Objective) -> str:
    """A principle as `parse_objective` reads it, and behind it in brackets what that has no word for."""
    weights = getattr(objective, "weights", None)
    if isinstance(objective, Gini):
        return "gini" if weights is None else f"gini={','.join(f'{w:g}' for w in weights)}"
    notes = [] if weights is None else [f"weights {', '.join(f'{w:g}' for w in weights)}"]
    if isinstance(objective, AlphaFair):
        named = {0.0: "utilitarian", 1.0: "nash"}
        words = named.get(objective.alpha, f"alpha={objective.alpha:g}")
        notes += [f"above {objective.reference:g}"] if objective.reference else []
    else:
        words = f"atkinson={objective.aversion:g}" if isinstance(objective, Atkinson) else objective.kind
    return f"{words} ({'; '.join(notes)})" if notes else words


def _one(what: str, numbers: list[float]) -> float:
    if len(numbers) != 1:
        raise ProblemError(f"{what} takes one number, and there are {len(numbers)}")
    return numbers[0]


def _numbers(text: str, rest: str) -> list[float]:
    try:
        return [float(part) for part in rest.split(",")]
    except ValueError:
        raise ProblemError(
            f"{text!r}: {rest!r} are no numbers, expected some with commas between them"
        ) from None
