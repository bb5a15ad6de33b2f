"""Text files of numbers, split into words by numpy: a million lines take about a second.

Nothing is allocated for what a file merely claims, and every message names the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fairmdp.errors import FormatError
from fairmdp.model.checks import Bools, Floats, Ints, first

MAX_BYTES = 2**31 - 1
"""Largest text file that is read; positions in it fit into 4 bytes."""

_NEWLINE, _BLANK = 10, 32  # bytes up to the blank separate words
_MAX_DIGITS = 18  # of an integer
_MAX_WIDTH = 40  # of a number
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(/[1-9]\d*)?")
_PLAIN = np.zeros(256, bool)
_PLAIN[[0, *b"0123456789+-.eE"]] = True

Places = NDArray[np.int64]


class Tokens:
    """The words of a text, with the line of each.

    Attributes
    ----------
    raw : ndarray
        The bytes.
    start, stop : ndarray
        Where each word lies in them, (T,).
    first, count : ndarray
        First word and number of words of each line that is neither blank nor a comment, (L,).
    """

    def __init__(self, text: bytes | NDArray[np.uint8], comment: bytes, *, line: int = 1) -> None:
        self.raw = np.frombuffer(text, np.uint8) if isinstance(text, bytes) else text
        word = np.concatenate([[False], self.raw > _BLANK, [False]])
        edges = np.flatnonzero(word[1:] != word[:-1]).astype(np.int32)
        self.start, self.stop = edges[::2], edges[1::2]
        self._ends = np.flatnonzero(self.raw == _NEWLINE).astype(np.int32)
        self._line = line
        row = np.searchsorted(self._ends, self.start)  # line of each word
        first = np.flatnonzero(np.diff(row, prepend=-1))
        count = np.diff(first, append=self.start.size)
        kept = ~self._begins(first, comment)
        self.first, self.count = first[kept], count[kept]

    def _begins(self, words: Places, with_: bytes) -> NDArray[np.bool_]:
        """Whether words begin with the given bytes."""
        at, room = self.start[words], self.stop[words] - self.start[words]
        found = room >= len(with_)
        for k, byte in enumerate(with_):
            found[found] = self.raw[at[found] + k] == byte
        return found

    def check(self, bad: Bools, words: Places, what: str | Callable[[int], str]) -> None:
        """Raise with the line of the first bad word and what is wrong there, perhaps told by its place."""
        if (k := first(bad)) is not None:
            message = what if isinstance(what, str) else what(k)
            raise FormatError(f"line {self.line_of(int(words[k]))}: {message}")

    def line_of(self, word: int) -> int:
        """Number of the line that holds a word, from 1."""
        return int(np.searchsorted(self._ends, self.start[word])) + self._line

    def line_end(self, words: Places) -> Places:
        """Where the lines of some words end."""
        ends = np.append(self._ends, self.raw.size)
        return ends[np.searchsorted(self._ends, self.start[words])]

    def is_word(self, words: Places, text: bytes) -> NDArray[np.bool_]:
        """Whether words are the given text."""
        return self._begins(words, text) & (self.stop[words] - self.start[words] == len(text))

    def text(self, begin: int, end: int) -> str:
        """Bytes from one place to another as text."""
        try:
            return self.raw[begin:end].tobytes().decode()
        except UnicodeDecodeError:
            line = int(np.searchsorted(self._ends, begin)) + self._line
            raise FormatError(f"line {line} is not UTF-8 text") from None

    def words(self, words: Places) -> list[str]:
        """Words as text."""
        places = list(zip(self.start[words].tolist(), self.stop[words].tolist(), strict=True))
        whole = self.raw.tobytes()
        try:
            return [whole[a:b].decode() for a, b in places]
        except UnicodeDecodeError:
            return [self.text(a, b) for a, b in places]

    def integers(self, words: Places, what: str) -> Ints:
        """Words as numbers that count or index something."""
        letters, width = self._letters(words, _MAX_DIGITS + 1)
        digit = letters.astype(np.int64) - ord("0")
        inside = np.arange(letters.shape[1]) < width[:, None]
        bad = (width > _MAX_DIGITS) | (inside & ((digit < 0) | (digit > 9))).any(axis=1)
        self.check(bad, words, lambda k: self._wrong(int(words[k]), f"{what}, a whole number from 0 on"))
        value = np.zeros(words.size, np.int64)
        for k in range(letters.shape[1]):
            value = np.where(inside[:, k], 10 * value + digit[:, k], value)
        return value

    def below(self, limit: int, words: Places, what: str) -> Ints:
        """Words as numbers below a limit."""
        found = self.integers(words, what)
        self.check(found >= limit, words, lambda k: f"{what} {found[k]}, expected 0 to {limit - 1}")
        return found

    def floats(
        self, words: Places, what: str, constants: Mapping[str, float] = MappingProxyType({})
    ) -> Floats:
        """Words as numbers; fractions, and names of constants, are understood too."""
        letters, width = self._letters(words, _MAX_WIDTH)
        plain = (width <= _MAX_WIDTH) & _PLAIN[letters].all(axis=1)
        value = np.zeros(words.size)
        try:
            value[plain] = np.ascontiguousarray(letters[plain]).view(f"S{letters.shape[1]}")[:, 0]
        except ValueError:  # one of them is not a number: find it
            plain[:] = False
        for k in np.flatnonzero(~plain).tolist():
            value[k] = self._odd_number(int(words[k]), what, constants)
        finite = np.isfinite(value)
        self.check(~finite, words, lambda k: self._wrong(int(words[k]), f"{what}, a finite number"))
        return value

    def _odd_number(self, word: int, what: str, constants: Mapping[str, float]) -> float:
        begin, end = int(self.start[word]), int(self.stop[word])
        written = self.raw[begin:end].tobytes()
        if end - begin <= 4 * _MAX_WIDTH and _NUMBER.fullmatch(written):
            above, _, below = written.partition(b"/")
            return float(above) / float(below or b"1")
        name = self.text(begin, end)
        if name not in constants:
            raise FormatError(f"line {self.line_of(word)}: {self._wrong(word, f'{what}, a number')}")
        return constants[name]

    def _letters(self, words: Places, most: int) -> tuple[NDArray[np.uint8], Places]:
        """First bytes of words as rows, (W, at most `most`), zero beyond their ends, and their lengths."""
        start = self.start[words]
        width = self.stop[words] - start
        columns = np.arange(min(most, int(width.max(initial=1))), dtype=np.int32)
        place = np.minimum(start[:, None] + columns, max(self.raw.size - 1, 0))
        return np.where(columns < width[:, None], self.raw[place], np.uint8(0)), width

    def _wrong(self, word: int, expected: str) -> str:
        shown = self.raw[self.start[word] : self.stop[word]][:_MAX_WIDTH].tobytes().decode(errors="replace")
        return f"{''.join(c if c.isprintable() else '?' for c in shown)!r} is wrong here, expected {expected}"
