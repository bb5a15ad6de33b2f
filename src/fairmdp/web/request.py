"""What the page asks: a task on a problem or a world, with its sliders and quotas as they stand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairmdp.io import Source

Values = tuple[float | None, ...]
"""Of every capacity of a world and then of every common quota; None is as it was stated."""


@dataclass(frozen=True)
class Row:
    """One quota of the page.

    Attributes
    ----------
    name : str
        What it is called now.
    was : str or None
        What it was called when the problem was opened; None for a new one.
    states : tuple of int
        Of a new one, the states that it counts.
    at_least, at_most : float or None
        Its bounds in its units; where both are missing it asks for nothing.
    """

    name: str
    was: str | None = None
    states: tuple[int, ...] = ()
    at_least: float | None = None
    at_most: float | None = None


Rows = tuple[Row, ...]


@dataclass(frozen=True)
class Request:
    """One question: a task, the problem that it is about, and the bounds that the sliders stand at.

    Bounds are in the units of their quotas; ``rows`` are the quotas, where the page has changed them.
    ``policy`` is the path of one to audit, ``text`` what names of states are looked for by, or a principle,
    ``values`` where the sliders of a world stand.
    """

    task: str
    source: Source
    at_least: tuple[float, ...] | None = None
    at_most: tuple[float, ...] | None = None
    quota: str = ""
    bound: str = "at_least"
    kind: str = ""
    rows: Rows | None = None
    policy: str = ""
    text: str = ""
    values: Values = ()

    @property
    def first(self) -> bool:
        """Whether it is what the page is for: a newer one takes its place."""
        return self.task in ("open", "solve", "world", "world-solve")

    @property
    def urgent(self) -> bool:
        """Whether somebody looks at the page until it is answered."""
        return self.first or self.task in ("proof", "export", "states", "world-proof")

    def likes(self, done: Iterable[Request]) -> tuple[bool, bool]:
        """How well a worker suits that has done these: it may know the picture, or at least the problem."""
        pictures = [past.picture for past in done if past.task in ("solve", "world-solve")]
        same_picture = pictures[-1:] == [self.picture]
        return same_picture, any((past.source, past.urgent) == (self.source, self.urgent) for past in done)

    @property
    def picture(self) -> tuple[object, ...]:
        """What a solution depends on."""
        return self.source, self.rows, self.at_least, self.at_most, self.values
