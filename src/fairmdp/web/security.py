"""Who may speak to the page's server: an ASGI layer that refuses everything that the page does not send.

The token in the address keeps other users and other pages out, the Host keeps out names that were pointed
here by somebody else (DNS rebinding), the Origin keeps out posts from other sites.

Uvicorn waits for connections that never say what they want as long as they like. Whoever has not sent a
whole head of a request holds a place that the owner of the page needs, so there is a deadline for it, and a
bound on how many wait: the oldest gives way, as the owner's browser never takes long.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_JSON = 2**20
"""Bytes of a request, other than a file, at most."""

MAX_FILE = 2**25
"""Bytes of a file that is sent to the page, at most."""

_DRAIN_SECONDS = 2.0

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Sent with every answer."""


class TooLargeError(Exception):
    """A body that is longer than the limit, in bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"this is too large: the limit is {limit // 2**20} MiB")


class Guard:
    """Refuse requests with a foreign Host or Origin, a wrong token or too long a body."""

    def __init__(self, app: ASGIApp, *, token: str, host: str) -> None:
        self._app, self._token = app, token
        self._any_address = not is_loopback(host)
        self._names = {"localhost", "127.0.0.1", "[::1]"}
        if self._any_address:  # told to be reached from elsewhere: by an address, or by this machine's name
            self._names |= {host, socket.gethostname()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, without the token in its path, or say why not."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        reply = _with_headers(send)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refuse(reply, *refusal)
            return
        path = scope["path"][len(self._token) + 1 :]
        if not path:  # the slash at the end is what the page's own addresses are relative to
            await RedirectResponse(f"/{self._token}/")(scope, receive, reply)
            return
        limit = MAX_FILE if path == "/api/upload" else MAX_JSON
        if int(headers.get("content-length", "0")) > limit:
            await _drain(receive)
            await refuse(reply, 413, str(TooLargeError(limit)))
            return
        await self._app({**scope, "path": path, "raw_path": path.encode()}, _within(receive, limit), reply)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        """Status and reason, or None for a request that may pass."""
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self._ours(host, scope["server"][1]):
            return 421, "this server does not go by that name"
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return 403, "requests from other sites are refused"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "requests from other sites are refused"
        if not scope["path"].startswith("/"):
            return 400, "the address does not begin with a slash"
        given = scope["path"].split("/")[1]
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return 403, "the address has no valid token: open the one that fairmdp explore printed"
        if not headers.get("content-length", "0").isdecimal():
            return 400, "content-length is not a number"
        return None

    def _ours(self, host: str, port: int) -> bool:
        name, colon, given = host.rpartition(":")
        if not colon or given != str(port):
            return False
        if name in self._names:
            return True
        return self._any_address and _is_address(name.strip("[]"))


async def refuse(send: Send, status: int, text: str) -> None:
    """Answer with a status and a reason, and close the connection: its body may not have been read."""
    body = json.dumps({"error": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _within(receive: Receive, limit: int) -> Receive:
    """Count the bytes of a body as they come; a length that was announced may be a lie."""
    got = 0

    async def counted() -> Message:
        nonlocal got
        message = await receive()
        got += len(message.get("body", b""))
        if got > limit:
            await _drain(receive)
            raise TooLargeError(limit)
        return message

    return counted


async def _drain(receive: Receive) -> None:
    """Let a client go on sending for a moment: one that is cut off never reads why."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            while (await receive()).get("more_body"):
                pass


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return guarded


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own, which nobody else can reach."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Tuning:
    """How long, and how many, well below the connections that the server takes in all."""

    seconds: float = 5.0  # for the head of a request; a browser that connects ahead of need comes again
    per_peer: int = 256  # without a head at once: a burst of requests comes in faster than it is read
    in_all: int = 384


USUAL = Tuning()


def impatient_protocol(tuning: Tuning = USUAL) -> type[H11Protocol]:
    """Uvicorn's HTTP protocol for one server, which ends connections that do not get to the point."""

    class Impatient(H11Protocol):
        waiting: dict[H11Protocol, tuple[str, asyncio.TimerHandle]] = {}  # noqa: RUF012 - one for all, oldest first

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._look()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            self._settle()
            super().connection_lost(exc)

        def _look(self) -> None:
            """Start the time, or stop it as soon as the head of the request is there."""
            if self.conn.their_state is not h11.IDLE:
                self._settle()
            elif self not in self.waiting and not self.transport.is_closing():
                peer = self.client[0] if self.client else ""
                self.waiting[self] = peer, self.loop.call_later(tuning.seconds, self.transport.abort)
                same = [one for one, (other, _) in self.waiting.items() if other == peer]
                for crowd, most in ((same, tuning.per_peer), (list(self.waiting), tuning.in_all)):
                    if len(crowd) > most:
                        _end(crowd[0])

        def _settle(self) -> None:
            if self in self.waiting:
                self.waiting.pop(self)[1].cancel()

    def _end(protocol: Any) -> None:
        protocol._settle()
        protocol.transport.abort()

    return Impatient
