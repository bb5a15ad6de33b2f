"""The server of the page: its files, its JSON interface, and how it is started."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from fairmdp.errors import FairMDPError
from fairmdp.web.api import BadRequestError, BusyError, RequestHandler
from fairmdp.web.security import Guard, TooLargeError, impatient_protocol, is_loopback
from fairmdp.web.tasks import Source

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_MOST_CONNECTIONS = 512


def serve(
    given: Source | None,
    *,
    host: str,
    port: int,
    seconds: float,
    workers: int,
    ready: Callable[[str], None],
    page: str = "index.html",
) -> None:
    """Serve a page until somebody stops it; `ready` is called with its address."""
    token = secrets.token_urlsafe(18)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # whoever comes before the server is up waits in line
    except OSError as error:
        listener.close()
        raise FairMDPError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    shown = f"[{host}]" if ":" in host else host
    config = uvicorn.Config(
        application(given, token=token, host=host, seconds=seconds, workers=workers, page=page),
        http=impatient_protocol(),
        log_level="critical",
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    with listener, suppress(KeyboardInterrupt):  # the way to end it
        ready(f"http://{shown}:{listener.getsockname()[1]}/{token}/")
        uvicorn.Server(config).run(sockets=[listener])


def application(
    given: Source | None, *, token: str, host: str = "127.0.0.1", seconds: float = 60.0, workers: int = 3,
    page: str = "index.html",
) -> ASGIApp:  # fmt: skip
    """The page as an ASGI application: ``index.html`` of problems, or ``world.html``."""
    handler = RequestHandler(given, workers=workers, seconds=seconds, modules=is_loopback(host))
    app = Starlette(
        routes=[
            Route("/", _index(page)),
            Route("/api/start", handler.start),
            Route("/api/upload", handler.upload, methods=["POST"]),
            Route("/api/ask", handler.ask, methods=["POST"]),
            Route("/static/{name}", _file),
        ],
        exception_handlers={
            BadRequestError: _refused(400),
            BusyError: _refused(503),
            TooLargeError: _refused(413),
            TimeoutError: _refused(408),
            HTTPException: _http_error,
        },
        lifespan=handler.running,
    )
    app.router.redirect_slashes = False  # it would not know of the token
    return Guard(app, token=token, host=host)


def static_files() -> dict[str, bytes]:
    """Every file of the page, by the name that it is asked for."""
    return {item.name: item.read_bytes() for item in files("fairmdp.web").joinpath("static").iterdir()}


_FILES = static_files()


def _index(page: str) -> Callable[[Request], Awaitable[Response]]:
    async def index(request: Request) -> Response:
        return Response(_FILES[page], media_type=_TYPES[".html"])

    return index


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _FILES:
        raise HTTPException(404, "there is no such file")
    return Response(_FILES[name], media_type=_TYPES[Path(name).suffix])


def _refused(status: int) -> Callable[[Request, Exception], Response]:
    def handler(request: Request, error: Exception) -> Response:
        text = str(error) or "the request took too long to arrive"
        return JSONResponse({"error": text}, status, {"connection": "close"})

    return handler


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)
