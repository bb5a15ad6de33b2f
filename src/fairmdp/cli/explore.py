"""``fairmdp explore``: the web page."""

from __future__ import annotations

from dataclasses import dataclass

import click

from fairmdp import io, web
from fairmdp.cli import flags
from fairmdp.cli.flags import POSITIVE, option


@dataclass(frozen=True)
class _Options:
    host: str = option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
    port: int | None = option(
        "--port", type=click.IntRange(1024, 65535), help="Port to listen on.  [default: a free one]"
    )
    time_limit: float = option(
        "--time-limit", type=POSITIVE, default=60.0, show_default=True, help="Seconds for one solve."
    )
    workers: int = option(
        "--workers", type=click.IntRange(1, 64), default=3, show_default=True, help="Processes that solve."
    )
    browser: bool = option("--browser/--no-browser", default=True, help="Open the page in the browser.")


@click.command()
@flags.problem
@flags.of(_Options)
def explore(source: io.Source, options: _Options) -> None:
    """Open a page on SOURCE: move its quotas, and see what the fair policy earns and who pays.

    The page is served from this machine and to this machine alone, unless --host says otherwise; it loads
    nothing from elsewhere. Other problems can be opened in it. Ctrl-C ends it. Of a world, capacities and
    quotas that all have in common move, and clients are shown by density.

    \b
    fairmdp explore three-state
    fairmdp explore clinic.toml --quota 'ward_b>=0.25'
    fairmdp explore job-server -p clients=10000
    """
    world = source.world()
    if world is None:
        source.problem()  # what is wrong with it is said here, not in the browser

    def ready(address: str) -> None:
        click.echo(f"{source.target} is open at {address}\n  Ctrl-C ends it")
        if options.browser:
            click.launch(address)

    web.serve(
        source,
        host=options.host,
        port=options.port or 0,
        seconds=options.time_limit,
        workers=options.workers,
        ready=ready,
        page="index.html" if world is None else "world.html",
    )
