"""Engines: a function and tasks in, results in the order of the tasks out, whatever happens to workers.

Results of a function that says how (`Keepable`) are kept in a folder, so that a run goes on where it was.
"""

from __future__ import annotations

import math
import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from os import PathLike
from types import TracebackType
from typing import Any, BinaryIO, Generic, Protocol, Self, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fairmdp.errors import FormatError, ProblemError, SimulatorError
from fairmdp.files import reading, replacing
from fairmdp.model.checks import check_count
from fairmdp.workers.pool import Pool
from fairmdp.workers.worker import Job, Message

T = TypeVar("T")
R = TypeVar("R")

_DIGESTS = ("digest", "content")  # of the question, and of the answer and the question
_AHEAD = 6  # chunks drawn ahead of the one that is due, per worker
_DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, ValueError, MemoryError, RuntimeError)


class EngineError(SimulatorError):
    """A chunk failed as often as it may: ``chunk`` is its number, ``partial`` what was learned before it."""

    chunk: int | None = None


@runtime_checkable
class Keepable(Protocol):
    """A function that says how its results are kept; its tasks end with a `numpy.random.SeedSequence`."""

    def __call__(self, task: Any) -> Any:
        """Do a task."""

    def content(self, task: Any) -> bytes:
        """Everything that the result depends on, beside the function."""

    def to_arrays(self, result: Any) -> Mapping[str, NDArray[Any]]:
        """Arrays that hold a result."""

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]], task: Any) -> Any:
        """Return the result of a task that arrays hold; an error where they hold none."""


class Engine:
    """Engine of several workers; see `ProcessPool` and `RayCluster`."""

    pool: Pool

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
        self.attempts = int(attempts)
        self.folder = None if folder is None else _made(folder)

    @property
    def workers(self) -> int:
        """Number of workers, at most."""
        return self.pool.size

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
        self.pool.close()


@dataclass(eq=False)
class _Chunk:
    """One task; ``number`` is what the user knows it by, ``path`` where its result is kept, if anywhere."""

    position: int
    number: int
    task: Any
    path: str = ""
    digest: bytes = b""
    failures: int = 0


@dataclass(frozen=True)
class _Keeper:
    """A function that keeps its results and finds them again; its tasks come with a file and a digest."""

    function: Keepable
    digest: bytes

    def __call__(self, task_and_place: tuple[Any, str, bytes]) -> Any:
        task, path, digest = task_and_place
        result = self.function(task)
        self.keep(result, path, digest)
        return result

    def place(self, chunk: _Chunk, folder: str) -> None:
        """Give a chunk its file, and the digest of all that its result depends on."""
        key = chunk.task[-1].spawn_key or (chunk.number,)
        chunk.path = os.path.join(folder, f"chunk-{'-'.join(map(str, key))}.npz")
        chunk.digest = sha256(self.digest + self.function.content(chunk.task)).digest()

    def keep(self, result: Any, path: str, digest: bytes) -> None:
        """Write a result: whole or not at all, the same bytes every time."""
        arrays = dict(self.function.to_arrays(result))
        content = _content_digest(digest, arrays)
        with replacing(path) as file:
            np.savez(file, allow_pickle=False, digest=np.frombuffer(digest, np.uint8),
                     content=np.frombuffer(content, np.uint8), **arrays)  # fmt: skip

    def kept(self, chunk: _Chunk) -> Any:
        """Result from the chunk's file, if that is there, whole, and an answer to its task; else None."""
        try:
            with reading(chunk.path) as file:
                _refuse_inflated(file)
                with np.load(file, allow_pickle=False) as stored:
                    if stored["digest"].tobytes() != chunk.digest:
                        return None
                    if "content" not in stored:
                        _say_once(os.path.dirname(chunk.path))
                        return None
                    arrays = {name: stored[name] for name in stored if name not in _DIGESTS}
                    if stored["content"].tobytes() != _content_digest(chunk.digest, arrays):
                        return None
            return self.function.from_arrays(arrays, chunk.task)
        except (FormatError, *_DAMAGE):
            return None


class _Run(Generic[R]):
    """One call of an engine."""

    def __init__(self, engine: Engine, function: Callable[[Any], R], tasks: Iterable[Any]) -> None:
        self.pool, self.attempts, self.folder = engine.pool, engine.attempts, engine.folder
        host = self.pool.host
        self.code = host.code(function)
        self.keeper: _Keeper | None = None
        if self.folder is not None and isinstance(function, Keepable):
            self.keeper = _Keeper(function, self.code.digest)
        self.workers_keep = self.keeper is not None and host.shares_disk
        if self.workers_keep:
            self.code = host.code(cast(_Keeper, self.keeper))
        self.source = enumerate(tasks)
        self.drawn = 0
        self.under_way: dict[Job, _Chunk] = {}
        self.done: dict[int, R] = {}
        self.failed: dict[int, EngineError] = {}

    def results(self) -> Iterator[R]:
        due = 0
        try:
            while True:
                if self.pool.closed:
                    raise EngineError("the engine is closed")
                self.pool.step(0.0)  # first of all: drawing takes time that a worker would lose
                self._draw(due + _AHEAD * self.pool.size)
                if due in self.done:
                    yield self.done.pop(due)
                    due += 1
                elif due in self.failed:
                    raise self.failed[due]
                elif due < self.drawn:
                    self.pool.step(None)
                else:
                    return
        finally:
            self.pool.cancel(self.under_way)

    def _draw(self, end: int) -> None:
        """Take tasks up to a position, and results from the folder where they are kept."""
        while self.drawn < end and not self.failed:
            try:
                position, task = next(self.source)
            except StopIteration:
                return
            self.drawn += 1
            chunk = _Chunk(position, _number(task, position), task)
            if self.keeper is not None:
                self.keeper.place(chunk, cast(str, self.folder))
                kept = self.keeper.kept(chunk)
                if kept is not None:
                    self.done[position] = kept
                    continue
            self._submit(chunk)

    def _submit(self, chunk: _Chunk) -> None:
        task = (chunk.task, chunk.path, chunk.digest) if self.workers_keep else chunk.task
        likes = getattr(chunk.task, "likes", None)  # of tasks that know which worker suits them
        job = Job(self.code, task, self._hear, order=chunk.position, likes=likes)
        self.under_way[job] = chunk
        self.pool.submit(job)

    def _hear(self, job: Job, message: Message) -> None:
        kind, content = message
        if kind == "progress":
            return
        chunk = self.under_way.pop(job)
        if kind == "done":
            if self.keeper is not None and not self.workers_keep:
                self.keeper.keep(content, chunk.path, chunk.digest)
            self.done[chunk.position] = content
        elif kind == "failed":
            self._retry(chunk, *content)
        else:
            late = f"it took more than {self.pool.timeout:g} seconds"
            self._retry(chunk, late if kind == "late" else content)

    def _retry(self, chunk: _Chunk, reason: str, trace: str = "") -> None:
        if chunk.position > min(self.failed, default=chunk.position):
            return  # nobody will ask for it
        chunk.failures += 1
        if chunk.failures < self.attempts:
            self._submit(chunk)
            return
        times = "once," if chunk.failures == 1 else f"{chunk.failures} times, the last time"
        error = EngineError(f"chunk {chunk.number} failed {times} because {reason}")
        error.chunk = chunk.number
        if trace:
            error.add_note(f"In the worker:\n{trace}")
        self.failed[chunk.position] = error
        self.pool.withdraw({job for job, other in self.under_way.items() if other.position > chunk.position})


def _content_digest(digest: bytes, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Digest of the arrays of a chunk and of what they answer."""
    found = sha256(digest)
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
    return found.digest()


def _refuse_inflated(file: BinaryIO) -> None:
    """What is kept is stored as it is, so a file whose members are larger than itself is not ours."""
    with zipfile.ZipFile(file) as archive:
        packed = [member.filename for member in archive.infolist() if member.compress_type]
        if packed or sum(member.file_size for member in archive.infolist()) > os.fstat(file.fileno()).st_size:
            raise FormatError("members are larger than the file")
    file.seek(0)


@cache
def _say_once(folder: str) -> None:
    """Tell that chunks of an older version are not believed."""
    warnings.warn(
        f"chunks in {folder} are of fairmdp 0.1 and have no digest of their content: they are drawn anew",
        UserWarning,
        stacklevel=2,
    )


def serial(function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
    """Run tasks in this process, each when its result is asked for.

    Examples
    --------
    >>> list(serial(abs, [-1, 2]))
    [1, 2]
    """
    return map(function, tasks)


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _number(task: Any, position: int) -> int:
    """The last key of its seed where a task has one, else where it stands."""
    seed = task[-1] if isinstance(task, tuple) and task else None
    key = seed.spawn_key if isinstance(seed, np.random.SeedSequence) else ()
    return int(key[-1]) if key else position


def _made(folder: str | PathLike[str]) -> str:
    """The folder, which is there now."""
    try:
        os.makedirs(folder, exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ProblemError(f"folder is {os.fsdecode(folder)!r}, which cannot be made: {why}") from None
    return os.path.abspath(os.fsdecode(folder))
