"""Principles of fairness: concave functions of what the groups get, to be maximised instead of bounded.

Each is data: the certificate and the search evaluate it in code of their own. ``u`` are the utilities, (K,):
long-run shares of groups or long-run means of weights. People write the principles as ``nash``, ``alpha=2``
or ``gini=4,2,1``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, refuse, there_are

Weights = tuple[float, ...] | None


@dataclass(frozen=True)
class AlphaFair:
    """``sum_k w_k (u_k - reference)^(1 - alpha) / (1 - alpha)``; for alpha = 1 its limit, the logarithm."""

    alpha: float = 1.0
    weights: Weights = None  # one for each group; 1/K where there are none
    reference: float = 0.0
    kind: ClassVar[str] = "alpha-fair"


@dataclass(frozen=True)
class Atkinson:
    """``(sum_k w_k u_k^(1 - a))^(1 / (1 - a))``: what all would have to get for this to be as good."""

    aversion: float = 1.0
    weights: Weights = None
    kind: ClassVar[str] = "Atkinson"


@dataclass(frozen=True)
class Gini:
    """``sum_j w_j u_(j)`` with the utilities in ascending order and weights that do not rise."""

    weights: Weights = None  # of the worst-off group first; those of the Gini index where there are none
    kind: ClassVar[str] = "Gini"


@dataclass(frozen=True)
class Entropy:
    """``-sum_k u_k log u_k``: how evenly time is spread; a group may have too much of it."""

    kind: ClassVar[str] = "entropy"


@dataclass(frozen=True)
class MaxMin:
    """``min_k u_k``."""

    kind: ClassVar[str] = "max-min"


@dataclass(frozen=True)
class Leximin:
    """The least utility, then the next one, and so on; the gain decides between what is left."""

    kind: ClassVar[str] = "leximin"


Objective = AlphaFair | Atkinson | Gini | Entropy | MaxMin | Leximin
KINDS: dict[str, type[Objective]] = {
    each.kind: each for each in (AlphaFair, Atkinson, Gini, Entropy, MaxMin, Leximin)
}


def alpha_fair(
    alpha: float = 1.0, *, weights: Iterable[float] | None = None, reference: float = 0.0
) -> AlphaFair:
    """Alpha-fairness: 0 is the sum, 1 proportional fairness (Nash), 2 least delay, more is nearer max-min.

    Parameters
    ----------
    alpha
        Aversion to inequality, 0 or more.
    weights
        Of the groups, positive; ``1/K`` each where there are none.
    reference
        What everybody has without any agreement: utilities count from there, and must lie above it where
        alpha is 1 or more.

    Examples
    --------
    >>> alpha_fair(2)
    AlphaFair(alpha=2.0, weights=None, reference=0.0)
    """
    return AlphaFair(_at_least_0("alpha", alpha), _positive(weights), _real("reference", reference))


def atkinson(aversion: float = 1.0, *, weights: Iterable[float] | None = None) -> Atkinson:
    """Atkinson's equally distributed equivalent, in the unit of the utilities; their mean at aversion 0.

    The weights are divided by their sum. It ranks utilities as `alpha_fair` does; added to a gain it differs.
    """
    weights = _positive(weights)
    return Atkinson(_at_least_0("aversion", aversion), weights)


def gini(weights: Iterable[float] | None = None) -> Gini:
    """Ordered weighted average: the worst-off group counts most.

    Without weights those of the Gini index, ``(2 (K - j) + 1) / K^2`` for the group of rank j: the mean
    utility times one less the Gini index.
    """
    if weights is None:
        return Gini()
    found = _numbers(weights)
    if any(value < 0 for value in found) or sorted(found, reverse=True) != list(found) or not found[0] > 0:
        refuse(
            f"gini has weights {list(found)}, expected numbers of 0 or more that do not rise",
            "the first one is of the worst-off group",
            "sort them, the largest first",
        )
    return Gini(found)


def entropy() -> Entropy:
    """Shannon's entropy of the shares."""
    return Entropy()


def max_min() -> MaxMin:
    """The least utility."""
    return MaxMin()


def leximin() -> Leximin:
    """The least utility, then the next one, and so on."""
    return Leximin()


def group_weights(objective: Objective, K: int) -> Floats:
    """Weights of the groups, of a Gini welfare by rank, (K,)."""
    stated = getattr(objective, "weights", None)
    if stated is not None and len(stated) != K:
        raise ProblemError(
            f"{objective.kind} has {len(stated)} weights, and there are {K} groups\n  give one for each"
        )
    if isinstance(objective, Gini) and stated is None:
        return (2.0 * np.arange(K, 0, -1) - 1) / K**2
    if isinstance(objective, MaxMin | Leximin):
        return np.eye(K)[0]
    if isinstance(objective, Entropy):
        return np.ones(K)
    if stated is None:
        return np.full(K, 1 / K)
    weights = np.array(stated)
    return weights / weights.sum() if isinstance(objective, Atkinson) else weights


def value_at(objective: Objective, u: Floats) -> float:
    """Welfare of some utilities, (K,), minus infinity where it is not defined.

    Examples
    --------
    >>> value_at(gini(), np.array([0.25, 0.75])), value_at(alpha_fair(2), np.array([0.5, 0.25]))
    (0.375, -3.0)
    """
    w = group_weights(objective, u.size)
    match objective:
        case AlphaFair(alpha=alpha, reference=reference):
            return _power_sum(w, u - reference, alpha)
        case Atkinson(aversion=1.0):
            return math.exp(_power_sum(w, u, 1.0))
        case Atkinson(aversion=a):
            return _equivalent(w, u, a)
        case Entropy():
            inside = u > 0
            return -float(u[inside] @ np.log(u[inside])) if (u >= 0).all() else -math.inf
        case _:
            return float(w @ np.sort(u))


def stated_objective(kind: str, parameters: Mapping[str, Any]) -> Objective:
    """Objective of a kind and the parameters that `parameters_of` gave."""
    makers = {
        "alpha-fair": alpha_fair, "Atkinson": atkinson, "Gini": gini,
        "entropy": entropy, "max-min": max_min, "leximin": leximin,
    }  # fmt: skip
    if kind not in makers:
        raise ProblemError(f"there is no welfare {kind!r}; there are {', '.join(makers)}")
    names = {field.name for field in fields(KINDS[kind])}
    if set(parameters) != names:
        raise ProblemError(f"a welfare {kind!r} has the parameters {', '.join(sorted(names)) or 'none'}")
    return makers[kind](**parameters)  # type: ignore[operator]


def needs_nonnegative(objective: Objective) -> bool:
    """Whether a welfare is defined for utilities of 0 or more only, counted from its reference."""
    match objective:
        case AlphaFair(alpha=aversion) | Atkinson(aversion=aversion):
            return aversion > 0
        case _:
            return isinstance(objective, Entropy)


def needs_everybody(objective: Objective) -> bool:
    """Whether a welfare is as low as can be once a single group has nothing."""
    match objective:
        case AlphaFair(alpha=aversion) | Atkinson(aversion=aversion):
            return aversion >= 1
        case _:
            return False


def parameters_of(objective: Objective) -> dict[str, Any]:
    """Parameters of an objective by name."""
    return {field.name: getattr(objective, field.name) for field in fields(objective)}


def _power_sum(w: Floats, v: Floats, alpha: float) -> float:
    if ((v < 0).any() and alpha > 0) or ((v == 0).any() and alpha >= 1):
        return -math.inf
    return float(w @ np.log(v)) if alpha == 1 else float(w @ v ** (1 - alpha)) / (1 - alpha)


def _equivalent(w: Floats, u: Floats, a: float) -> float:
    if a == 0:
        return float(w @ u)
    if (u < 0).any():
        return -math.inf
    if (u == 0).any() and a > 1:
        return 0.0
    top = float(u.max()) or 1.0
    return top * float(w @ (u / top) ** (1 - a)) ** (1 / (1 - a))


def _real(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ProblemError(f"{what} is {value!r}, expected a finite number")
    return float(value)


def _at_least_0(what: str, value: Any) -> float:
    number = _real(what, value)
    if number < 0:
        raise ProblemError(f"{what} is {number:g}, expected 0 or more: below 0 it would reward inequality")
    return number


def _numbers(weights: Iterable[float]) -> tuple[float, ...]:
    if isinstance(weights, str) or not isinstance(weights, Iterable):
        raise ProblemError(f"weights is {weights!r}, expected a list of numbers")
    found = tuple(_real("a weight", value) for value in weights)
    if not found:
        raise ProblemError("weights is an empty list\n  give one for each group, or leave them out")
    return found


def _positive(weights: Iterable[float] | None) -> Weights:
    if weights is None:
        return None
    found = _numbers(weights)
    if min(found) <= 0:
        raise ProblemError(f"a weight is {min(found):g}, expected numbers above 0\n  leave that group out")
    return found


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
        return _WITH_NUMBERS[name](_numbers_in(text, rest))
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


def _numbers_in(text: str, rest: str) -> list[float]:
    try:
        return [float(part) for part in rest.split(",")]
    except ValueError:
        raise ProblemError(
            f"{text!r}: {rest!r} are no numbers, expected some with commas between them"
        ) from None
