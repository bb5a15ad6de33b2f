"""The JSON interface of the page: what may be asked, checked, and handed to the workers."""

from __future__ import annotations

import asyncio
import inspect
import re
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response, StreamingResponse

from fairmdp.scenarios import SCENARIOS
from fairmdp.version import __version__
from fairmdp.views.exports import EXPORTS
from fairmdp.web.request import Request, Row
from fairmdp.web.tasks import MOST_QUOTAS, MOST_STATES, TASKS, OpenProblems, Source, line
from fairmdp.workers import Job, Pool, PoolThread, Processes
from fairmdp.workers.worker import Code, Message

MOST_WAITING = 48
"""Requests in work or waiting, all pages together; more are asked to come back."""

_KEPT_FILES = 32
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")  # module:name
_LONGEST_NAME = 200  # bytes; file systems take 255
_SECONDS_TO_SEND = 30.0  # for a client to send a whole body
_GRACE = 0.25  # seconds for a stale solve to finish by itself, which is cheaper than a new process

_TOO_SLOW = "  start with a longer --time-limit, or use fairmdp solve for large problems"
_ENDED = "the solver's process ended, perhaps for want of memory\n  try a smaller model"

Text = Annotated[str, Field(max_length=1000)]


class BusyError(Exception):
    """Too many requests at once."""


class BadRequestError(Exception):
    """A request that the page does not send."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Where(_Body):
    """Which problem is meant: that of the command line, a ready-made one, a file that was sent, or rules."""

    kind: Literal["given", "scenario", "file", "module"]
    name: Text = ""
    params: dict[Text, Text] = Field(default={}, max_length=50)


class _Row(_Body):
    """A quota of the page, as `Row` has it."""

    name: Text
    was: Text | None = None
    states: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(), max_length=MOST_STATES)
    at_least: float | None = None
    at_most: float | None = None


class _Question(_Body):
    page: Annotated[str, Field(min_length=8, max_length=64)]
    task: Text
    source: _Where
    at_least: tuple[float, ...] | None = None
    at_most: tuple[float, ...] | None = None
    quota: Text = ""
    bound: Literal["at_least", "at_most"] = "at_least"
    kind: Text = ""
    rows: tuple[_Row, ...] | None = Field(default=None, max_length=MOST_QUOTAS)
    policy: Text = ""
    text: Text = ""
    values: tuple[float | None, ...] = Field(default=(), max_length=MOST_QUOTAS)


class _Asked(NamedTuple):
    """Where a question stands: its page and lane, and the lines that the page has still to get."""

    lane: tuple[str, str]
    lines: asyncio.Queue[tuple[bool, bytes]]  # the last one is marked


class RequestHandler:
    """Takes questions from the pages: one at a time and lane for each page, a newer one ends the older.

    Processes answer them, so that a solve can be stopped at any moment and the server lives on.
    """

    def __init__(self, given: Source | None, *, workers: int, seconds: float, modules: bool) -> None:
        self._given, self._workers, self._seconds = given, workers, seconds
        self._modules = modules  # whether pages may name Python code of this machine
        self._files: dict[str, Source] = {}
        self._asked: dict[Job, _Asked] = {}  # in work or waiting

    @asynccontextmanager
    async def running(self, app: Starlette) -> AsyncIterator[None]:
        """Have processes, and a folder for files that are sent, while the server runs."""
        self._function = Code.of(OpenProblems())
        # What every solve needs is imported before anybody asks.
        first = Job(self._function, Request("solve", Source("three-state")), lambda job, message: None)
        with tempfile.TemporaryDirectory(prefix="fairmdp-") as folder:
            self._folder = Path(folder)
            self._pool = Pool(Processes(), self._workers, timeout=self._seconds, first=first)
            self._thread = PoolThread(self._pool)
            try:
                yield
            finally:
                self._thread.stop()

    async def start(self, request: WebRequest) -> Response:
        """Say what a page needs to begin with."""
        return JSONResponse(
            {
                "version": __version__,
                "given": None if self._given is None else self._given.name,
                "scenarios": [_scenario(name) for name in SCENARIOS],
                "modules": self._modules,
            }
        )

    async def upload(self, request: WebRequest) -> Response:
        """Keep a file that is sent, under its own name in a folder of its own; answer with its handle."""
        name, content = request.query_params.get("name", ""), await _body(request, "application/octet-stream")
        plain = PureWindowsPath(PurePosixPath(name).name).name
        too_long = len(plain.encode("utf-8", "replace")) > _LONGEST_NAME
        if not plain.isprintable() or not plain or too_long or plain.startswith("."):
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
        return JSONResponse({"handle": handle})

    async def ask(self, request: WebRequest) -> Response:
        """Answer a question by lines of JSON: progress now and then, the answer last."""
        page, question = self._read(await _body(request, "application/json"))
        if len(self._asked) >= MOST_WAITING:
            raise BusyError("too many requests at once: try again in a moment")
        lane = page, "first" if question.first else question.task
        for older, asked in list(self._asked.items()):
            if asked.lane == lane:
                asked.lines.put_nowait((True, line("stale", None)))
                self._settle(older)
        loop, lines = asyncio.get_running_loop(), asyncio.Queue[tuple[bool, bytes]]()

        def hear(job: Job, message: Message) -> None:
            with suppress(RuntimeError):  # the loop may be closed by now
                loop.call_soon_threadsafe(self._hear, job, message)

        later = 0 if question.urgent else 1  # what is not urgent leaves one worker free for what is
        job = Job(self._function, question, hear, order=later, spare=later, likes=question.likes)
        self._asked[job] = _Asked(lane, lines)
        self._thread.call(self._pool.submit, job)
        return StreamingResponse(self._lines(job, lines), media_type="application/x-ndjson")

    async def _lines(self, job: Job, lines: asyncio.Queue[tuple[bool, bytes]]) -> AsyncIterator[bytes]:
        """Lines up to the answer; where whoever asked has left, nobody works on it any more."""
        try:
            last = False
            while not last:
                last, text = await lines.get()
                yield text
        finally:
            self._settle(job)

    def _hear(self, job: Job, message: Message) -> None:
        """Pass on what is said about a job, in the event loop."""
        if job not in self._asked:
            return
        kind, content = message
        if kind == "late":
            content = line("error", f"stopped after {self._seconds:g} s\n{_TOO_SLOW}")
        elif kind == "lost":
            content = line("error", _ENDED)
        elif kind == "failed":
            content = line("error", f"a mistake of ours, not yours: {content[0]}")
        self._asked[job].lines.put_nowait((kind != "progress", content))
        if kind != "progress":
            del self._asked[job]

    def _settle(self, job: Job) -> None:
        if self._asked.pop(job, None) is not None:
            self._thread.call(self._pool.cancel, [job], _GRACE)

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
        rows = None if asked.rows is None else tuple(Row(**row.model_dump()) for row in asked.rows)
        policy = "" if asked.task != "audit" else self._sent(asked.policy).target
        rest = asked.model_dump(exclude={"page", "source", "rows", "policy"})
        return asked.page, Request(source=self._source(asked.source), rows=rows, policy=policy, **rest)

    def _sent(self, handle: str) -> Source:
        if handle not in self._files:
            raise BadRequestError("this file is not here any more: open it again")
        return self._files[handle]

    def _source(self, where: _Where) -> Source:
        if where.kind == "given" and self._given is not None:
            return self._given
        if where.kind == "file":
            return self._sent(where.name)
        if where.kind == "module" and self._modules and _MODULE.fullmatch(where.name):
            return Source(where.name)
        if where.kind == "scenario" and where.name in SCENARIOS:
            return Source(where.name, tuple(f"{key}={value}" for key, value in where.params.items()))
        raise BadRequestError("this problem is not here any more: open it again")


async def _body(request: WebRequest, kind: str) -> bytes:
    if request.headers.get("content-type", "").split(";")[0].strip() != kind:
        raise HTTPException(415, f"expected a body of type {kind}")
    async with asyncio.timeout(_SECONDS_TO_SEND):
        return await request.body()


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
