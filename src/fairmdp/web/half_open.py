"""Connections that never say what they want: uvicorn waits for them as long as they like, this does not.

Whoever has not sent a whole head of a request holds a place that the owner of the page needs. So there is a
deadline for it, and a bound on how many wait: the oldest gives way, as the owner's browser never takes long.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


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
