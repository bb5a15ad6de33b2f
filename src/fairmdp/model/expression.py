"""Sets of states in the words of model checkers: ``"home" & !(x>=2 | "odd")``.

::

    formula    = equal { "=>" equal }             read from the right
    equal      = either { "<=>" either }
    either     = clause { "|" clause }
    clause     = literal { "&" literal }
    literal    = "!" literal | "(" formula ")" | "true" | "false" | label | comparison
    comparison = sum ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) sum
    sum        = product { ( "+" | "-" ) product }
    product    = term { "*" term }                a term is a number, a variable, or what it may be equal to

A label is a name in quotes; without them it is one where no variable has the name. A variable that is true or
false needs no comparison.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, there_are
from fairmdp.model.objects import number_or_text

_TOKEN = re.compile(r'\s*("[^"]*"|<=>|=>|<=|>=|!=|[=<>&|!()+*-]|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[^\W\d]\w*)')
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_WORD = re.compile(r"[^\W\d]\w*")
_OF_RUNS = ("F", "G", "X", "U")  # operators of temporal logic
_DEEPEST = 50  # nesting of a formula, which must not exhaust the stack


def states_where(
    text: str, n_states: int, variables: Mapping[str, Any], label: Callable[[str], Bools | None]
) -> Bools:
    """Mask of the states that satisfy a formula, (S,); `label` gives the states of a name, if there are any.

    Examples
    --------
    >>> x = np.array([0, 1, 2])
    >>> home = {"home": np.array([True, False, False])}
    >>> states_where('"home" | x>=2', 3, {"x": x}, home.get)
    array([ True, False,  True])
    """
    formula = _Formula(text, n_states, variables, label)
    found = formula.states()
    formula.end()
    return np.broadcast_to(found, (n_states,)).copy()


class _Formula:
    """A formula that is read from left to right, each part giving the states that satisfy it."""

    def __init__(
        self, text: str, n_states: int, variables: Mapping[str, Any], label: Callable[[str], Bools | None]
    ) -> None:
        self._text, self._n_states, self._variables, self._label = text, n_states, variables, label
        self._words: list[str] = []
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None:
                raise self._wrong(text[place:].strip()[:20])
            self._words.append(match[1])
            place = match.end()
        self._next = self._depth = 0

    def states(self) -> Bools:
        """States of a formula."""
        found = self._equal()
        return ~found | self.states() if self._take("=>") else found

    def _equal(self) -> Bools:
        found = self._any_of()
        while self._take("<=>"):
            found = found == self._any_of()
        return found

    def _any_of(self) -> Bools:
        found = self._all_of()
        while self._take("|"):
            found = found | self._all_of()
        return found

    def end(self) -> None:
        """Raise unless everything has been read."""
        if self._next < len(self._words):
            raise self._wrong(self._words[self._next])

    def _all_of(self) -> Bools:
        found = self._literal()
        while self._take("&"):
            found = found & self._literal()
        return found

    def _literal(self) -> Bools:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ProblemError(f"{self._text[:40]!r}... is nested too deeply")
        found = ~self._literal() if self._take("!") else self._group() if self._take("(") else self._atom()
        self._depth -= 1
        return found

    def _group(self) -> Bools:
        found = self.states()
        if not self._take(")"):
            raise self._wrong(self._peek() or "the end, ) is missing")
        return found

    def _atom(self) -> Bools:
        """A label, or a comparison."""
        word = self._peek()
        if word.startswith('"'):
            self._next += 1
            return self._states_of(word[1:-1])
        left = self._sum()
        sign = self._peek()
        if sign not in _COMPARE:
            return self._truth(word, left)
        self._next += 1
        return self._compared(left, sign, self._sum())

    def _compared(self, left: Any, sign: str, right: Any) -> Bools:
        words = [side for side in (left, right) if isinstance(side, str)]
        if words and not any(isinstance(side, np.ndarray) for side in (left, right)):
            raise self._unknown(words[0])
        kinds = [np.asarray(side).dtype.kind for side in (left, right)]
        if (kinds[0] == "U") != (kinds[1] == "U") or ("U" in kinds and sign not in ("=", "!=")):
            known = there_are(list(self._variables))
            raise ProblemError(f"{self._text!r} compares text and numbers by {sign}{known}")
        return np.broadcast_to(np.asarray(_COMPARE[sign](left, right)), (self._n_states,))

    def _truth(self, word: str, value: Any) -> Bools:
        """A part without a comparison: true, false, a variable that is one of these, or a label."""
        if np.asarray(value).dtype == bool:
            return np.broadcast_to(np.asarray(value), (self._n_states,))
        if isinstance(value, str):
            return self._states_of(word)
        raise ProblemError(f"{self._text!r}: {word} is neither true nor false, compare it, as in {word}>=1")

    def _states_of(self, name: str) -> Bools:
        found = self._label(name)
        if found is None:
            raise self._unknown(name)
        return found

    def _unknown(self, name: str) -> ProblemError:
        known = there_are(list(self._variables), name)
        if name in _OF_RUNS:
            known = "\n  F, G, X and U are about runs, and a share is of the time in a set of states"
        return ProblemError(f"{self._text!r}: there is no label or variable called {name!r}{known}")

    def _sum(self) -> Any:
        total = self._product()
        while (sign := self._peek()) in ("+", "-"):
            self._next += 1
            term = self._product()
            self._numbers(total, term)
            total = total + term if sign == "+" else total - term
        return total

    def _product(self) -> Any:
        product = self._term()
        while self._take("*"):
            term = self._term()
            self._numbers(product, term)
            product = product * term
        return product

    def _numbers(self, *sides: Any) -> None:
        if any(np.asarray(side).dtype.kind == "U" for side in sides):
            raise ProblemError(f"{self._text!r} adds or multiplies text{there_are(list(self._variables))}")

    def _term(self) -> Any:
        """A number, truth value, variable or, where there is none of the name, the name itself."""
        negative = self._take("-")
        word = self._peek()
        if not (word and (word[0].isdigit() or _WORD.fullmatch(word))):
            raise self._wrong(word or "the end")
        self._next += 1
        value = self._variables[word] if word in self._variables else number_or_text(word)
        if negative and np.asarray(value).dtype.kind not in "if":
            raise self._wrong(word)
        return -value if negative else value

    def _peek(self) -> str:
        return self._words[self._next] if self._next < len(self._words) else ""

    def _take(self, word: str) -> bool:
        taken = self._peek() == word
        self._next += taken
        return taken

    def _wrong(self, word: str) -> ProblemError:
        return ProblemError(
            f"{self._text!r} cannot be read at {word!r}\n"
            "  expected labels in quotes, variables and numbers, with & | ! ( ) and = != < <= > >=, "
            'such as "home" & x>=2'
        )
