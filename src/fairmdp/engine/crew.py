"""What all engines of several workers share: who gets which chunk, and what follows when one fails.

A worker answers being started, being handed the function, and each task with one message. One whose chunks
are quick is handed the next ones ahead of time, so that it need not wait for the driver; never more than a
moment's work, as another worker could do that instead.
"""

from __future__ import annotations

import heapq
import math
import os
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from hashlib import sha256
from os import PathLike
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from fairmdp.engine.chunks import Answer, Chunk, EngineError, as_sent, encoded, made
from fairmdp.errors import ProblemError
from fairmdp.validation import check_count

T = TypeVar("T")
R = TypeVar("R")

_AHEAD = 6  # chunks drawn ahead of the one that is due, per worker
_QUEUE = 4  # chunks that a worker has at most
_MOMENT = 0.1  # seconds of work that it has at most, beyond the chunk that it does
_START = 60.0  # seconds granted on top of the timeout for starting, and for loading the function
_LISTEN = 3600.0  # seconds to wait at most before looking again; a system's limit is a few weeks


class WorkerLost(Exception):  # noqa: N818 - it is news, not a mistake
    """A worker ended that was not meant to; the text says how."""


class Worker(ABC):
    """One worker as the driver sees it: ``chunks`` are those that it has been given and not yet answered."""

    def __init__(self, timeout: float) -> None:
        self.chunks: deque[Chunk] = deque()
        self.function = b""  # digest of the one that it has
        self.started = False
        self._timeout = timeout
        self._preparing = 1  # answers due before that to the first chunk: to being started, to a function
        self._pace = math.inf  # seconds that its last chunk took
        self._begin()

    @property
    def room(self) -> int:
        """How many chunks it may have now."""
        return 1 if self._preparing else min(1 + int(_MOMENT / self._pace), _QUEUE)

    def give(self, chunk: Chunk, code: bytes, digest: bytes) -> None:
        """Hand over a chunk, after the function if it has another one."""
        if self.function != digest:
            self.function = digest
            self._preparing += 1
            self._take(code)
        self._run(chunk)
        self.chunks.append(chunk)
        if len(self.chunks) == 1:
            self._begin()

    def hear(self) -> Answer:
        """Return its next answer, which is there; `WorkerLost` if the worker is not."""
        answer = self._answer()
        self.started = True
        if answer[0] == "ready":
            self._preparing -= 1
        else:
            self._pace = time.monotonic() - self._since
        self._begin()
        return answer

    def _begin(self) -> None:
        self._since = time.monotonic()
        self.deadline = self._since + self._timeout + (_START if self._preparing else 0.0)

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """Whether an idle worker can be given something."""

    @abstractmethod
    def _take(self, code: bytes) -> None: ...

    @abstractmethod
    def _run(self, chunk: Chunk) -> None: ...

    @abstractmethod
    def _answer(self) -> Answer: ...

    @abstractmethod
    def dismiss(self) -> None:
        """Have it end: at once if it has chunks."""

    @abstractmethod
    def end(self) -> None:
        """Wait until it has ended."""


class Engine(ABC):
    """Engine of several workers; see `ProcessPool` and `RayCluster`."""

    def __init__(
        self,
        workers: int | None,
        timeout: float | None,
        attempts: int,
        folder: str | PathLike[str] | None,
    ) -> None:
        if workers is not None:
            check_count("workers", workers)
        check_count("attempts", attempts)
        number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if timeout is not None and not (number and 0 < timeout < math.inf):
            raise ProblemError(f"timeout is {timeout!r}, expected a positive number of seconds, or None")
        self.workers = cores() if workers is None else int(workers)
        self.timeout = math.inf if timeout is None else float(timeout)
        self.attempts = int(attempts)
        self.folder = None if folder is None else made(folder)
        self._alive: list[Worker] = []
        self._closed = False

    def __call__(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Results of the function in the order of the tasks, like the built-in ``map``.

        Everything that is sent must survive pickling. Where the caller stops early, or an error or Ctrl-C
        comes through, busy workers are killed; the next call starts others.
        """
        return _Run[R](self, function, tasks).results()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers, for good."""
        self._closed = True
        self._stop(list(self._alive))

    @abstractmethod
    def _start(self) -> Worker: ...

    @abstractmethod
    def _code(self, function: Callable[[Any], Any], plain: bytes) -> bytes:
        """How the function travels; ``plain`` is its pickle."""

    @abstractmethod
    def _wait(self, workers: list[Any], seconds: float) -> Collection[Worker]:
        """Workers that have an answer or are gone; waits for one, up to some time."""

    @abstractmethod
    def _received(self, chunk: Chunk, result: Any) -> None:
        """Keep a result that has come, unless the worker has done so."""

    def _hire(self) -> Worker | None:
        """A worker that has nothing to do, if there is one or may be one more."""
        for worker in list(self._alive):
            if not worker.chunks:
                if worker.is_alive:
                    return worker
                self._stop([worker])
        if len(self._alive) >= self.workers:
            return None
        self._alive.append(self._start())
        return self._alive[-1]

    def _stop(self, workers: list[Worker]) -> None:
        self._alive = [worker for worker in self._alive if worker not in workers]
        for worker in workers:
            worker.dismiss()
        for worker in workers:
            worker.end()


class _Run(Generic[R]):
    """One call of an engine."""

    def __init__(self, engine: Engine, function: Callable[[Any], R], tasks: Iterable[Any]) -> None:
        self.engine = engine
        plain = encoded(function)
        self.digest = sha256(plain).digest()
        self.code = engine._code(function, plain)
        self.source = enumerate(tasks)
        self.drawn = 0
        self.waiting: list[Chunk] = []  # a heap: the one that is due first comes first
        self.mine: list[Worker] = []  # workers that are busy with this run
        self.done: dict[int, R] = {}
        self.failed: dict[int, EngineError] = {}

    def results(self) -> Iterator[R]:
        due = 0
        try:
            while True:
                if self.engine._closed:
                    raise EngineError("the engine is closed")
                self._listen(0.0)
                self._assign()  # first of all: drawing takes time that a worker would lose
                self._draw(due + _AHEAD * self.engine.workers)
                self._assign()
                if due in self.done:
                    yield self.done.pop(due)
                    due += 1
                elif due in self.failed:
                    raise self.failed[due]
                elif due < self.drawn:
                    self._listen(None)
                else:
                    return
        finally:
            self.engine._stop([worker for worker in self.mine if worker in self.engine._alive])

    def _draw(self, end: int) -> None:
        """Take tasks up to a position, and results from the folder where they are kept."""
        while self.drawn < end and not self.failed:
            try:
                position, task = next(self.source)
            except StopIteration:
                return
            self.drawn += 1
            chunk = Chunk.of(position, task, self.digest, self.engine.folder)
            kept = chunk.kept()
            if kept is None:
                heapq.heappush(self.waiting, chunk)
            else:
                self.done[position] = kept  # type: ignore[assignment]

    def _assign(self) -> None:
        """Give the first waiting chunks to workers; none after one that has failed for good."""
        while self.waiting and self.waiting[0].position < min(self.failed, default=self.drawn):
            worker = self.engine._hire()
            if worker is not None:
                self.mine.append(worker)  # before it has a chunk: Ctrl-C may come in between
            elif self.mine:
                worker = min(self.mine, key=lambda worker: len(worker.chunks) - worker.room)
                if len(worker.chunks) >= worker.room:
                    return
            else:
                raise EngineError(
                    "the workers are busy with another run of the same engine: finish that first"
                )
            worker.give(heapq.heappop(self.waiting), self.code, self.digest)

    def _listen(self, seconds: float | None) -> None:
        """Deal with every answer, death and overrun; wait for one, unless told for how long."""
        if seconds is None:
            first = min(worker.deadline for worker in self.mine)
            seconds = min(max(first - time.monotonic(), 0.0), _LISTEN)
        ready = self.engine._wait(self.mine, seconds)
        for worker in list(self.mine):
            if worker in ready:
                self._hear(worker)
            elif time.monotonic() >= worker.deadline:
                self._lose(worker, f"it took more than {self.engine.timeout:g} seconds")

    def _hear(self, worker: Worker) -> None:
        try:
            kind, answer = worker.hear()
        except WorkerLost as how:
            self._lose(worker, str(how))
            return
        if kind == "ready":
            return
        chunk = worker.chunks.popleft()
        if not worker.chunks:
            self.mine.remove(worker)
        if kind == "failed":
            self._retry(chunk, *answer)
        else:
            self.done[chunk.position] = as_sent(answer)
            self.engine._received(chunk, answer)

    def _lose(self, worker: Worker, reason: str) -> None:
        """Replace a worker; its first chunk has failed, those that it had ahead have not."""
        self.mine.remove(worker)
        failed, *ahead = worker.chunks
        self.engine._stop([worker])
        for chunk in ahead:
            heapq.heappush(self.waiting, chunk)
        self._retry(failed, reason)

    def _retry(self, chunk: Chunk, reason: str, trace: str = "") -> None:
        chunk.failures += 1
        if chunk.failures < self.engine.attempts:
            heapq.heappush(self.waiting, chunk)
            return
        times = "once," if chunk.failures == 1 else f"{chunk.failures} times, the last time"
        error = EngineError(f"chunk {chunk.number} failed {times} because {reason}")
        error.chunk = chunk.number
        if trace:
            error.add_note(f"In the worker:\n{trace}")
        self.failed[chunk.position] = error


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
