"""Kinds of words on the command line: counts as people write them, and sources and files that complete."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from fairmdp import io, scenarios

FILE = click.Path(dir_okay=False)


class Count(click.IntRange):
    """A whole number, which may be written as ``1e6`` or ``200_000``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Text as a number within the range."""
        if isinstance(value, str):
            try:
                value = io.whole(value)
            except ValueError:
                self.fail(f"{value!r} is not a whole number, such as 20000 or 2e4", param, ctx)
        number: int = super().convert(value, param, ctx)
        return number


class SourceWord(click.ParamType[str]):
    """What names a problem; the shell completes ready-made problems and files."""

    name = "source"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names of ready-made problems that begin so; where there are none, the shell looks for files."""
        known = [name for name in (*scenarios.SCENARIOS, *scenarios.WORLDS) if name.startswith(incomplete)]
        return [CompletionItem(incomplete, type="file"), *map(CompletionItem, known)]
