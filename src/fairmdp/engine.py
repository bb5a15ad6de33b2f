"""Where chunks of samples are drawn: in this process, or in several.

An engine is a callable like the built-in ``map``: a function and tasks in, results in the order of the tasks
out. A chunk's randomness is the seed in its task, so neither the engine nor the number of workers changes a
result; see `learn_plugin`, which takes an engine as ``run_chunks``.

The driver and each worker talk over a pipe of their own, one message at a time: a worker answers being
started, being handed the function, and each task with one message, and is sent the next only then. So nothing
blocks, and a process that hangs can be killed without harm to the others.
"""

from __future__ import annotations

import heapq
import math
import os
import signal
import threading
import time
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from os import PathLike
from types import TracebackType
from typing import Any, Generic, TypeVar

import numpy as np

from fairmdp.errors import FormatError, ProblemError, SimulatorError
from fairmdp.io.atomic import reading, replacing
from fairmdp.learning.counts import Counts
from fairmdp.validation import check_count, frozen

T = TypeVar("T")
R = TypeVar("R")

_AHEAD = 4  # chunks drawn ahead of the one that is due, per worker
_START = 60.0  # seconds granted on top of the timeout for starting, and for loading the function
_LISTEN = 3600.0  # seconds to wait at most before looking again; a system's limit is a few weeks
_END = 1.0  # seconds that a worker is given to end by itself
_COLUMNS = {"keys": np.int64, "times": np.int64, "mean": np.float64, "spread": np.float64}
_DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, ValueError, MemoryError, RuntimeError)

# Not fork: a fork copies the locks that numba's and BLAS' threads hold, and nobody to open them.
_PROCESSES = get_context("spawn")


class EngineError(SimulatorError):
    """A chunk failed as often as it may: ``chunk`` is its number, ``partial`` what was learned before it."""

    chunk: int | None = None


def serial(function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
    """Run tasks in this process, each when its result is asked for.

    Examples
    --------
    >>> list(serial(abs, [-1, 2]))
    [1, 2]
    """
    return map(function, tasks)


class ProcessPool:
    """Engine of several processes that survives what happens to them.

    A worker that dies is replaced and its chunk tried again, as is a chunk that raises or takes too long.
    Processes are started with ``spawn`` when the first results are asked for, and stay until the pool is
    closed; a script that uses a pool needs ``if __name__ == "__main__":``.

    Parameters
    ----------
    workers
        Number of processes; by default one for each core that this process may use.
    timeout
        Seconds after which a chunk counts as hanging and its worker is killed; by default never.
    attempts
        Times that a chunk is tried before the run is stopped with an `EngineError`. The chunks before it are
        yielded first.
    folder
        Where finished chunks are kept, one file each, ``chunk-<key of the seed>.npz``. A run that finds the
        file of the very same chunk (simulator, pairs and seed) takes it instead of drawing it again, so a
        run that was killed goes on where it was. Files of other chunks are overwritten. A simulator is
        compared by its pickle, which holds its data, not its code: after a change there, take a new folder.

    Examples
    --------
    >>> from math import sqrt
    >>> with ProcessPool(1) as engine:
    ...     list(engine(sqrt, [1, 4, 9]))
    [1.0, 2.0, 3.0]
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        timeout: float | None = None,
        attempts: int = 3,
        folder: str | PathLike[str] | None = None,
    ) -> None:
        if workers is not None:
            check_count("workers", workers)
        check_count("attempts", attempts)
        number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if timeout is not None and not (number and 0 < timeout < math.inf):
            raise ProblemError(f"timeout is {timeout!r}, expected a positive number of seconds, or None")
        self.workers = _cores() if workers is None else int(workers)
        self.timeout = math.inf if timeout is None else float(timeout)
        self.attempts = int(attempts)
        self.folder = None if folder is None else _made(folder)
        self._alive: list[_Worker] = []
        self._closed = False

    def __call__(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Results of the function in the order of the tasks, like the built-in ``map``.

        Everything that is sent must survive pickling. Where the caller stops early, or an error or Ctrl-C
        comes through, busy workers are killed; the next call starts others.
        """
        return _Run[R](self, function, tasks).results()

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers, for good."""
        self._closed = True
        self._stop(list(self._alive))

    def _hire(self) -> _Worker | None:
        """A worker that has nothing to do, if there is one or may be one more."""
        for worker in list(self._alive):
            if worker.chunk is None:
                if worker.process.is_alive():
                    return worker
                self._stop([worker])
        if len(self._alive) >= self.workers:
            return None
        self._alive.append(_Worker(self.timeout + _START))
        return self._alive[-1]

    def _stop(self, workers: list[_Worker]) -> None:
        self._alive = [worker for worker in self._alive if worker not in workers]
        for worker in workers:
            worker.dismiss()
        for worker in workers:
            worker.end()


@dataclass(order=True)
class _Chunk:
    """One task on its way; ``number`` is what the user knows it by, the last key of its seed."""

    position: int
    number: int = field(compare=False)
    task: Any = field(compare=False)
    path: str | None = field(compare=False)
    digest: bytes = field(compare=False)
    failures: int = field(compare=False, default=0)


class _Worker:
    """One process, as the driver sees it: it has a chunk from being hired on until that is done or failed."""

    def __init__(self, seconds: float) -> None:
        self.pipe, theirs = _PROCESSES.Pipe()
        self.process = _PROCESSES.Process(target=_work, args=(theirs,), daemon=True, name="fairmdp-worker")
        try:
            self.process.start()
        except BaseException:
            self.pipe.close()
            raise
        finally:
            theirs.close()  # so that the end of the process is the end of the pipe
        self.started = False
        self.listens = False
        self.function = b""  # digest of the one that it has
        self.chunk: _Chunk | None = None
        self.deadline = time.monotonic() + seconds

    def send(self, message: bytes, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds
        self.listens = False
        self.pipe.send_bytes(message)

    def hear(self) -> tuple[str, Any]:
        """Its answer: ready, done with a result, or failed with a reason; EOFError if the process is gone."""
        if not self.pipe.poll():  # ended, and a process of its own holds the pipe
            raise EOFError
        answer: tuple[str, Any] = ForkingPickler.loads(self.pipe.recv_bytes())
        self.started = self.listens = True
        return answer

    def dismiss(self) -> None:
        """Have it end: at once if it is busy, else by itself, since nothing more will come."""
        if self.chunk is not None:
            self.process.kill()
        self.pipe.close()

    def end(self) -> None:
        """Wait until it has ended."""
        self.process.join(_END)
        self.process.kill()
        self.process.join()
        self.process.close()


class _Run(Generic[R]):
    """One call of a pool."""

    def __init__(self, pool: ProcessPool, function: Callable[[Any], R], tasks: Iterable[Any]) -> None:
        self.pool = pool
        self.code = _pickled(function)
        self.digest = sha256(self.code).digest()
        self.source = enumerate(tasks)
        self.drawn = 0
        self.waiting: list[_Chunk] = []  # a heap: the one that is due first comes first
        self.mine: list[_Worker] = []  # workers that are busy with this run
        self.done: dict[int, R] = {}
        self.failed: dict[int, EngineError] = {}

    def results(self) -> Iterator[R]:
        due = 0
        try:
            while True:
                if self.pool._closed:
                    raise EngineError("the pool is closed")
                self._listen(0.0)
                self._assign()  # first of all: drawing takes time that a worker would lose
                self._draw(due + _AHEAD * self.pool.workers)
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
            self.pool._stop([worker for worker in self.mine if worker in self.pool._alive])

    def _draw(self, end: int) -> None:
        """Take tasks up to a position, and results from the folder where they are kept."""
        while self.drawn < end and not self.failed:
            try:
                position, task = next(self.source)
            except StopIteration:
                return
            self.drawn += 1
            chunk = self._chunk(position, task)
            kept = None if chunk.path is None else _kept(chunk.path, chunk.digest)
            if kept is None:
                heapq.heappush(self.waiting, chunk)
            else:
                self.done[position] = kept  # type: ignore[assignment]

    def _chunk(self, position: int, task: Any) -> _Chunk:
        pair = isinstance(task, tuple) and len(task) == 2
        if pair and isinstance(task[0], np.ndarray) and isinstance(task[1], np.random.SeedSequence):
            pairs, seed = task
            key = seed.spawn_key or (position,)
        elif self.pool.folder is not None:
            raise ProblemError(
                f"task {position} is not (pairs, seed)\n  a pool with a folder runs chunks of samples only"
            )
        else:
            return _Chunk(position, position, task, None, b"")
        if self.pool.folder is None:
            return _Chunk(position, key[-1], task, None, b"")
        name = f"chunk-{'-'.join(map(str, key))}.npz"
        content = sha256(self.digest)
        content.update(f"{pairs.dtype.str} {pairs.size} {seed.spawn_key} ".encode())
        content.update(seed.generate_state(8, np.uint64).tobytes())  # hashes the entropy and the key
        content.update(pairs.tobytes())
        return _Chunk(position, key[-1], task, os.path.join(self.pool.folder, name), content.digest())

    def _assign(self) -> None:
        """Give the first waiting chunks to workers; none after one that has failed for good."""
        while self.waiting and self.waiting[0].position < min(self.failed, default=self.drawn):
            worker = self.pool._hire()
            if worker is None:
                if self.mine:
                    return
                raise EngineError("the workers are busy with another run of the same pool: finish that first")
            self.mine.append(worker)  # before it has a chunk: Ctrl-C may come in between
            worker.chunk = heapq.heappop(self.waiting)
            if worker.listens:
                self._advance(worker, worker.chunk)

    def _advance(self, worker: _Worker, chunk: _Chunk) -> None:
        """Send the worker what it needs next: the function, or the task."""
        try:
            if worker.function != self.digest:
                worker.send(self.code, self.pool.timeout + _START)
            else:
                worker.send(_encoded(("task", chunk.task, chunk.path, chunk.digest)), self.pool.timeout)
        except OSError:
            self._lose(worker, chunk, _fate(worker))

    def _listen(self, seconds: float | None) -> None:
        """Deal with every answer, death and overrun; wait for one, unless told for how long."""
        if seconds is None:
            first = min(worker.deadline for worker in self.mine)
            seconds = min(max(first - time.monotonic(), 0.0), _LISTEN)
        ready = set(wait([end for w in self.mine for end in (w.pipe, w.process.sentinel)], seconds))
        for worker in list(self.mine):
            assert worker.chunk is not None, "a worker of a run has a chunk"
            if worker.pipe in ready or worker.process.sentinel in ready:
                self._hear(worker, worker.chunk)
            elif time.monotonic() >= worker.deadline:
                self._lose(worker, worker.chunk, f"it took more than {self.pool.timeout:g} seconds")

    def _hear(self, worker: _Worker, chunk: _Chunk) -> None:
        was_started = worker.started
        try:
            kind, answer = worker.hear()
        except (EOFError, OSError):
            self._lose(worker, chunk, _fate(worker))
            return
        if kind == "ready":
            if was_started:  # else it has not been sent the function yet
                worker.function = self.digest
            self._advance(worker, chunk)
            return
        worker.chunk = None
        self.mine.remove(worker)
        if kind == "done":
            self.done[chunk.position] = _frozen(answer)
        else:
            self._retry(chunk, *answer)

    def _lose(self, worker: _Worker, chunk: _Chunk, reason: str) -> None:
        self.mine.remove(worker)
        self.pool._stop([worker])
        self._retry(chunk, reason)

    def _retry(self, chunk: _Chunk, reason: str, trace: str = "") -> None:
        chunk.failures += 1
        if chunk.failures < self.pool.attempts:
            heapq.heappush(self.waiting, chunk)
            return
        times = "once," if chunk.failures == 1 else f"{chunk.failures} times, the last time"
        error = EngineError(f"chunk {chunk.number} failed {times} because {reason}")
        error.chunk = chunk.number
        if trace:
            error.add_note(f"In the worker:\n{trace}")
        self.failed[chunk.position] = error


def _work(pipe: Connection[Any, Any]) -> None:
    """Life of a worker: answer each message with one, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's business
    threading.Thread(target=_end_with_driver, daemon=True).start()
    function: Callable[[Any], Any] | None = None
    answer = _encoded(("ready", None))
    with suppress(EOFError, OSError):  # the driver is gone, or needs us no more
        while True:
            pipe.send_bytes(answer)
            message = pipe.recv_bytes()
            try:
                kind, *content = ForkingPickler.loads(message)
                if kind == "function":
                    (function,) = content
                    answer = _encoded(("ready", None))
                else:
                    assert function is not None, "the function comes before the first task"
                    task, path, digest = content
                    result = function(task)
                    if path is not None:
                        _keep(path, digest, result)
                    answer = _encoded(("done", result))
            except Exception as error:
                reason = f"it raised {type(error).__name__}: {error}"
                answer = _encoded(("failed", (reason, traceback.format_exc())))


def _end_with_driver() -> None:
    """End this process when its driver is gone, even in the middle of a chunk."""
    driver = parent_process()
    assert driver is not None, "a worker has a driver"
    driver.join()
    os._exit(1)


def _keep(path: str, digest: bytes, counts: Any) -> None:
    """Write a finished chunk, whole or not at all; the same chunk gives the same bytes."""
    if not isinstance(counts, Counts):
        raise ProblemError(f"a folder keeps Counts, not a {type(counts).__name__}")
    arrays = {name: getattr(counts, name).astype(dtype, copy=False) for name, dtype in _COLUMNS.items()}
    shape = np.array([counts.n_pairs, counts.n_states], "<i8")
    with replacing(path) as file:
        np.savez(file, allow_pickle=False, digest=np.frombuffer(digest, np.uint8), shape=shape, **arrays)


def _kept(path: str, digest: bytes) -> Counts | None:
    """Result of a chunk if the file is there, whole, and of this chunk."""
    try:
        with reading(path) as file, np.load(file, allow_pickle=False) as arrays:
            if arrays["digest"].tobytes() != digest:
                return None
            n_pairs, n_states = map(int, arrays["shape"])
            columns = [arrays[name] for name in _COLUMNS]
    except (FormatError, *_DAMAGE):
        return None
    wanted = [(np.dtype(dtype), columns[0].shape) for dtype in _COLUMNS.values()]
    if columns[0].ndim != 1 or [(column.dtype, column.shape) for column in columns] != wanted:
        return None
    return _frozen(Counts(n_pairs, n_states, *columns))


def _frozen(result: R) -> R:
    """The result, whose arrays are read-only as they were before they travelled."""
    if isinstance(result, Counts):
        frozen(*(getattr(result, name) for name in _COLUMNS))
    return result


def _fate(worker: _Worker) -> str:
    """How a worker ended that was not meant to."""
    worker.process.join(_END)
    code = worker.process.exitcode
    if code is None:
        how = "its process closed the pipe"
    else:
        how = (
            f"its process was killed by signal {-code}" if code < 0 else f"its process ended with code {code}"
        )
    if worker.started:
        return how
    return (
        f"{how} while it started\n  what it printed says why; "
        'a script that uses a pool needs `if __name__ == "__main__":`'
    )


def _encoded(message: object) -> bytes:
    """A message between our own processes, in multiprocessing's encoding; nothing of it goes to a file."""
    return bytes(ForkingPickler.dumps(message))


def _pickled(function: Any) -> bytes:
    try:
        return _encoded(("function", function))
    except Exception as error:  # whatever a class's own reduction raises
        raise ProblemError(
            f"the simulator cannot be sent to another process: {error}\n"
            "  its class must be at the top level of a module, and its data must survive pickling"
        ) from error


def _made(folder: str | PathLike[str]) -> str:
    try:
        os.makedirs(folder, exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ProblemError(f"folder is {os.fsdecode(folder)!r}, which cannot be made: {why}") from None
    return os.path.abspath(os.fsdecode(folder))


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
