"""The JSON interface of the page: what may be asked, checked, and handed to the workers."""

from __future__ import annotations

import asyncio
import inspect
import json
import secrets
import shutil
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fairmdp import __version__
from fairmdp.scenarios import SCENARIOS
from fairmdp.web.exports import EXPORTS
from fairmdp.web.tasks import TASKS, Request, Source
from fairmdp.web.workers import Bench, Message

MOST_WAITING = 48
"""Requests in work or waiting, all pages together; more are asked to come back."""

_KEPT_FILES = 32
_URGENT = ("open", "solve", "proof", "export")

Text = Annotated[str, Field(max_length=1000)]


class BusyError(Exception):
    """Too many requests at once."""


class BadRequestError(Exception):
    """A request that the page does not send."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Where(_Body):
    """Which problem is meant: the one on the command line, a ready-made one, or a file that was sent."""

    kind: Literal["given", "scenario", "file"]
    name: Text = ""
    params: dict[Text, Text] = Field(default={}, max_length=50)


class _Question(_Body):
    page: Annotated[str, Field(min_length=8, max_length=64)]
    task: Text
    source: _Where
    at_least: list[float] | None = None
    at_most: list[float] | None = None
    quota: Text = ""
    bound: Literal["at_least", "at_most"] = "at_least"
    kind: Text = ""


class Office:
    """Takes questions from the pages: one at a time and lane for each page, a newer one ends the older."""

    def __init__(self, bench: Bench, given: Source | None, folder: Path) -> None:
        self._bench, self._given, self._folder = bench, given, folder
        self._files: dict[str, Source] = {}
        self._running: dict[tuple[str, str], asyncio.Queue[Message]] = {}
        self._waiting = 0

    def start(self) -> dict[str, Any]:
        """What a page needs to begin with."""
        return {
            "version": __version__,
            "given": None if self._given is None else self._given.name,
            "scenarios": [_scenario(name) for name in SCENARIOS],
        }

    def keep_file(self, name: str, content: bytes) -> str:
        """Keep a file that was sent, under its own name in a folder of its own; return its handle."""
        plain = PureWindowsPath(PurePosixPath(name).name).name
        if not plain.isprintable() or not 0 < len(plain) <= 200 or plain.startswith("."):
            raise BadRequestError(f"{plain!r:.60} is not the name of a file")
        while len(self._files) >= _KEPT_FILES:
            oldest = next(iter(self._files))
            del self._files[oldest]
            shutil.rmtree(self._folder / oldest)
        handle = secrets.token_hex(8)
        path = self._folder / handle / plain
        path.parent.mkdir()
        path.write_bytes(content)
        self._files[handle] = Source(str(path), shown=plain)
        return handle

    def ask(self, body: bytes) -> AsyncIterator[Message]:
        """Answer the question in a body, message by message."""
        page, request = self._read(body)
        if self._waiting >= MOST_WAITING:
            raise BusyError("too many requests at once: try again in a moment")
        said: asyncio.Queue[Message] = asyncio.Queue()
        lane = page, "first" if request.task in ("open", "solve") else request.task
        if lane in self._running:
            self._running[lane].put_nowait(("stale", None))
        self._running[lane] = said
        self._waiting += 1
        job = asyncio.create_task(self._bench.run(request, said.put_nowait, urgent=request.task in _URGENT))
        job.add_done_callback(lambda _: self._done(lane, said))
        return _messages(said, job)

    def _done(self, lane: tuple[str, str], said: asyncio.Queue[Message]) -> None:
        self._waiting -= 1
        if self._running.get(lane) is said:
            del self._running[lane]

    def _read(self, body: bytes) -> tuple[str, Request]:
        try:
            asked = _Question.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "body"
            raise BadRequestError(f"{where}: {first['msg']}") from None
        if asked.task not in TASKS:
            raise BadRequestError(f"task: there is no {asked.task!r:.60}")
        if asked.task == "export" and asked.kind not in EXPORTS:
            raise BadRequestError(f"kind: there is no export {asked.kind!r:.60}")
        request = Request(
            asked.task,
            self._source(asked.source),
            None if asked.at_least is None else tuple(asked.at_least),
            None if asked.at_most is None else tuple(asked.at_most),
            asked.quota,
            asked.bound,
            asked.kind,
        )
        return asked.page, request

    def _source(self, where: _Where) -> Source:
        if where.kind == "given" and self._given is not None:
            return self._given
        if where.kind == "file" and where.name in self._files:
            return self._files[where.name]
        if where.kind == "scenario" and where.name in SCENARIOS:
            return Source(where.name, tuple(f"{key}={value}" for key, value in where.params.items()))
        raise BadRequestError("this problem is not here any more: open it again")


async def _messages(said: asyncio.Queue[Message], job: asyncio.Task[None]) -> AsyncIterator[Message]:
    """What is said, up to the answer; the job ends with it, or when whoever asked has left."""
    try:
        message: Message = ("progress", {})
        while message[0] == "progress":
            message = await said.get()
            yield message
    finally:
        job.cancel()


def lines(messages: AsyncIterator[Message]) -> AsyncIterator[bytes]:
    """Messages as lines of JSON."""

    async def encoded() -> AsyncIterator[bytes]:
        async for kind, content in messages:
            yield json.dumps({kind: content}, allow_nan=False).encode() + b"\n"

    return encoded()


def _scenario(name: str) -> dict[str, Any]:
    """A ready-made problem: its story in a line, and its parameters as the command line takes them."""
    function = SCENARIOS[name]
    story = (inspect.getdoc(function) or "").split("\n", 1)[0].removeprefix("Return ").rstrip(".")
    defaults = {key: p.default for key, p in inspect.signature(function).parameters.items()}
    return {"name": name, "story": story, "params": {key: _text(value) for key, value in defaults.items()}}


def _text(default: object) -> str:
    if default is None:
        return ""
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
