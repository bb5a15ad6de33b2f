"""``fairmdp explore``: the web page."""

from __future__ import annotations

import click

from fairmdp.cli.source import problem_options


@click.command(short_help="A page in your browser with a slider for every quota.")
@problem_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1024, 65535), help="Port to listen on.  [default: a free one]")
@click.option(
    "--time-limit",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds for one solve.",
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=3, show_default=True, help="Processes that solve."
)
@click.option("--browser/--no-browser", default=True, help="Open the page in the browser.")
def explore(
    source: str,
    params: tuple[str, ...],
    rho: str | None,
    quotas: tuple[str, ...],
    host: str,
    port: int | None,
    time_limit: float,
    workers: int,
    browser: bool,
) -> None:
    """Open a page on SOURCE: move its quotas, and see what the fair policy earns and who pays.

    The page is served from this machine and to this machine alone, unless --host says otherwise; it loads
    nothing from elsewhere. Other problems can be opened in it. Ctrl-C ends it.

    \b
    fairmdp explore three-state
    fairmdp explore clinic.toml --quota 'ward_b>=0.25'
    """
    from fairmdp.cli.source import read_problem
    from fairmdp.web.server import serve
    from fairmdp.web.tasks import Source

    read_problem(source, params, rho, quotas)  # what is wrong with it is said here, not in the browser

    def ready(address: str) -> None:
        click.echo(f"{source} is open at {address}\n  Ctrl-C ends it")
        if browser:
            click.launch(address)

    given = Source(source, params, rho, quotas)
    serve(given, host=host, port=port or 0, seconds=time_limit, workers=workers, ready=ready)
