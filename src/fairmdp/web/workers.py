"""Processes that solve, so that a solve can be stopped at any moment and the server lives on.

A worker that is told to stop gets a moment to finish; then it is killed, and another one takes its place.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from fairmdp.io.json_solution import plain
from fairmdp.web.tasks import Desk, RefusedError, Request, Source

_GRACE = 0.25  # seconds for a stale solve to finish by itself, which is cheaper than a new process
_BETWEEN = 0.2  # seconds between two reports of progress

_TOO_SLOW = "  start with a longer --time-limit, or use fairmdp solve for large problems"
_ENDED = "the solver's process ended, perhaps for want of memory\n  try a smaller model"

Message = tuple[str, Any]


class Bench:
    """A few worker processes; `run` gives a request to one of them and passes on what it says."""

    def __init__(self, workers: int, seconds: float) -> None:
        self._count, self._seconds = workers, seconds
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._free = asyncio.Condition()
        self._chores: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start the processes; they take work once they have imported what they need."""
        for _ in range(self._count):
            self._hire()

    def stop(self) -> None:
        """End all processes."""
        for chore in self._chores:
            chore.cancel()
        for worker in self._all:
            worker.kill()

    async def run(self, request: Request, say: Callable[[Message], None], *, urgent: bool) -> None:
        """Say ``("progress", row)`` now and then, at last ``("answer", document)`` or ``("error", text)``.

        What is not urgent leaves one worker free for what is.
        """
        keep = 0 if urgent or self._count == 1 else 1
        async with self._free:
            await self._free.wait_for(lambda: len(self._idle) > keep)
            worker = self._take(request, urgent)
        settled = False
        try:
            deadline = time.monotonic() + self._seconds
            worker.ask(request)
            while not settled:
                message = await worker.hear(deadline - time.monotonic())
                if message is None or message[0] == "ended":
                    say(("error", _ENDED if message else f"stopped after {self._seconds:g} s\n{_TOO_SLOW}"))
                    return
                say(message)
                settled = message[0] != "progress"
        finally:
            self._chore(self._settle(worker, settled))

    def _take(self, request: Request, urgent: bool) -> _Worker:
        """An idle worker, if possible the one that knows the answer, or has done such work before."""
        work, position = (request.source, urgent), (request.source, request.at_least, request.at_most)
        best = max(self._idle, key=lambda worker: (worker.solved == position, work in worker.done))
        self._idle.remove(best)
        best.done.add(work)
        if request.task == "solve":
            best.solved = position
        return best

    def _hire(self) -> None:
        worker = _Worker()
        self._all.add(worker)
        self._chore(self._settle(worker, True))

    async def _settle(self, worker: _Worker, settled: bool) -> None:
        """Put a worker back on the bench if it is done, or soon will be; else replace it."""
        if settled:
            await worker.ready()
        elif not await worker.finishes_within(_GRACE):
            worker.kill()
            self._all.discard(worker)
            self._hire()
            return
        async with self._free:
            self._idle.append(worker)
            self._free.notify_all()

    def _chore(self, chore: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(chore)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)


class _Worker:
    """One process and the pipe to it; `done` is what it may remember."""

    def __init__(self) -> None:
        self.done: set[tuple[Source, bool]] = set()
        self.solved: tuple[Any, ...] | None = None  # problem and bounds of the last solve
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _deaf_to_interrupts():
            self._process.start()
        theirs.close()
        self._loop = asyncio.get_running_loop()
        self._said: asyncio.Queue[Message] = asyncio.Queue()
        self._ready = asyncio.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def ask(self, request: Request) -> None:
        with suppress(OSError):  # a process that is gone is heard as ended
            self._pipe.send(request)

    async def hear(self, seconds: float) -> Message | None:
        """Next message, or None where none comes in time."""
        try:
            return await asyncio.wait_for(self._said.get(), max(seconds, 0))
        except TimeoutError:
            return None

    async def ready(self) -> None:
        await self._ready.wait()

    async def finishes_within(self, seconds: float) -> bool:
        """Whether a stale request ends in time; what it says is thrown away."""
        deadline = time.monotonic() + seconds
        while message := await self.hear(deadline - time.monotonic()):
            if message[0] != "progress":
                return message[0] != "ended"
        return False

    def kill(self) -> None:
        self._process.kill()

    def _listen(self) -> None:
        """Pass what the process says on to the event loop, in a thread of its own."""
        message: Message = ("", None)
        while message[0] != "ended":
            try:
                message = self._pipe.recv()
            except (EOFError, OSError):
                message = ("ended", None)
            with suppress(RuntimeError):  # the loop may be closed by now
                self._loop.call_soon_threadsafe(self._take, message)
        self._process.join()
        self._pipe.close()

    def _take(self, message: Message) -> None:
        if message[0] in ("ready", "ended"):  # whoever waits for one that has died must hear of it
            self._ready.set()
        if message[0] != "ready":
            self._said.put_nowait(message)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let processes that are started here never see a Ctrl-C: it is for the server, which ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # or starting it would lift the mask again
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _work(pipe: Connection) -> None:
    """A worker's life: get ready, then answer until nobody asks any more."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    desk = Desk()
    desk.answer(Request("solve", Source("three-state")), lambda row: None)  # imports what every solve needs
    pipe.send(("ready", None))
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return
        pipe.send(_answer(desk, request, pipe))


def _answer(desk: Desk, request: Request, pipe: Connection) -> Message:
    last = time.monotonic()

    def report(row: dict[str, float]) -> None:
        nonlocal last
        if time.monotonic() - last >= _BETWEEN:
            last = time.monotonic()
            pipe.send(("progress", plain(row)))

    try:
        return "answer", desk.answer(request, report)
    except RefusedError as error:
        return "error", str(error)
    except Exception as error:
        return "error", f"a mistake of ours, not yours: {type(error).__name__}: {error}"


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
