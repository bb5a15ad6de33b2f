"""Options that say where the work of a command is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

import fairmdp as fm

F = TypeVar("F", bound=Callable[..., Any])

ENGINES = ("serial", "processes", "ray")


def engine_options(command: F) -> F:
    """Add the options that `opened` takes; the result of a command does not depend on them."""
    for option in (
        click.option(
            "--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
            help="Draw a chunk again that takes longer than this.",
        ),
        click.option("--address", metavar="HOST:PORT", help="Ray cluster to join; else a private one."),
        click.option("--workers", type=click.IntRange(1), help="Number of workers; else one per core."),
        click.option(
            "--engine", type=click.Choice(ENGINES),
            help="Where to draw samples; the result is the same. Ray where --address is given, processes "
            "where another of these options is, else serial.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


@contextmanager
def opened(
    engine: str | None,
    workers: int | None,
    address: str | None,
    timeout: float | None,
    folder: str | None = None,
) -> Iterator[Callable[..., Any]]:
    """Engine that a command line asks for, closed in the end."""
    if engine is None:
        several = (workers, folder, timeout) != (None, None, None)
        engine = "ray" if address is not None else "processes" if several else "serial"
    if address is not None and engine != "ray":
        raise click.UsageError(f"--address is for --engine ray, not for {engine}")
    if engine == "serial":
        if (workers, folder, timeout) != (None, None, None):
            raise click.UsageError("--engine serial has no workers, and neither a timeout nor a folder")
        yield map
    elif engine == "processes":
        with fm.ProcessPool(workers, folder=folder, timeout=timeout) as pool:
            yield pool
    else:
        with fm.RayCluster(workers, address=address or "local", folder=folder, timeout=timeout) as cluster:
            yield cluster
