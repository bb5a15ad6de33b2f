"""One task on its way through an engine, what becomes of it, and the file that keeps its result."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from multiprocessing.reduction import ForkingPickler
from os import PathLike
from typing import Any, Literal, TypeVar

import numpy as np

from fairmdp.errors import FormatError, ProblemError, SimulatorError
from fairmdp.io.atomic import reading, replacing
from fairmdp.learning.counts import Counts
from fairmdp.validation import frozen

R = TypeVar("R")

Answer = tuple[Literal["ready", "done", "failed"], Any]
"""What a worker says: that it is ready for more, a result, or a reason and a traceback."""

_COLUMNS = {"keys": np.int64, "times": np.int64, "mean": np.float64, "spread": np.float64}
_DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, ValueError, MemoryError, RuntimeError)


class EngineError(SimulatorError):
    """A chunk failed as often as it may: ``chunk`` is its number, ``partial`` what was learned before it."""

    chunk: int | None = None


@dataclass(order=True)
class Chunk:
    """One task; ``number`` is what the user knows it by, the last key of its seed."""

    position: int
    number: int = field(compare=False)
    task: Any = field(compare=False)
    path: str | None = field(compare=False, default=None)
    digest: bytes = field(compare=False, default=b"")
    failures: int = field(compare=False, default=0)

    @classmethod
    def of(cls, position: int, task: Any, function: bytes, folder: str | None) -> Chunk:
        """Return a task, with its file if it asks for samples and they are kept; ``function`` is a digest."""
        if not _is_sampling(task):
            return cls(position, position, task)
        pairs, seed = task
        key = seed.spawn_key or (position,)
        if folder is None:
            return cls(position, key[-1], task)
        content = sha256(function)
        content.update(f"{pairs.dtype.str} {pairs.size} {seed.spawn_key} ".encode())
        content.update(seed.generate_state(8, np.uint64).tobytes())  # hashes the entropy and the key
        content.update(pairs.tobytes())
        path = os.path.join(folder, f"chunk-{'-'.join(map(str, key))}.npz")
        return cls(position, key[-1], task, path, content.digest())

    def keep(self, counts: Any) -> None:
        """Write counts where they belong, if anywhere: whole or not at all, the same bytes every time."""
        if self.path is None or not isinstance(counts, Counts):
            return
        arrays = {name: getattr(counts, name).astype(dtype, copy=False) for name, dtype in _COLUMNS.items()}
        shape = np.array([counts.n_pairs, counts.n_states], "<i8")
        with replacing(self.path) as file:
            digest = np.frombuffer(self.digest, np.uint8)
            np.savez(file, allow_pickle=False, digest=digest, shape=shape, **arrays)

    def kept(self) -> Counts | None:
        """Result from the file, if that is there, whole, and of this chunk."""
        if self.path is None:
            return None
        try:
            with reading(self.path) as file, np.load(file, allow_pickle=False) as arrays:
                if arrays["digest"].tobytes() != self.digest:
                    return None
                n_pairs, n_states = map(int, arrays["shape"])
                columns = [arrays[name] for name in _COLUMNS]
        except (FormatError, *_DAMAGE):
            return None
        wanted = [(np.dtype(dtype), columns[0].shape) for dtype in _COLUMNS.values()]
        if columns[0].ndim != 1 or [(column.dtype, column.shape) for column in columns] != wanted:
            return None
        return as_sent(Counts(n_pairs, n_states, *columns))


class Station:
    """A worker's own side: it has a function, and answers each task with what became of it."""

    def __init__(self) -> None:
        self._function: Callable[[Any], Any] | None = None
        self._unloaded: Answer | None = None

    def ready(self) -> Answer:
        """Say that the worker has started."""
        return "ready", None

    def take(self, code: bytes, paths: Sequence[str] = ()) -> Answer:
        """Have another function from now on; what is wrong with it becomes the answer to its tasks.

        ``paths`` are where its modules may be, as far as this process does not know them.
        """
        sys.path += [path for path in paths if path not in sys.path]
        try:
            self._function, self._unloaded = pickle.loads(code), None
        except Exception as error:
            self._unloaded = failure(error)
        return "ready", None

    def run(self, chunk: Chunk) -> Answer:
        """Do a task, and keep its result."""
        if self._unloaded is not None:
            return self._unloaded
        assert self._function is not None, "the function comes before the first task"
        try:
            result = self._function(chunk.task)
            chunk.keep(result)
        except Exception as error:
            return failure(error)
        return "done", result


def _is_sampling(task: Any) -> bool:
    """Whether a task is ``(pairs, seed)``."""
    pair = isinstance(task, tuple) and len(task) == 2
    return pair and isinstance(task[0], np.ndarray) and isinstance(task[1], np.random.SeedSequence)


def failure(error: Exception) -> Answer:
    """What a worker says of an error that it is just handling."""
    return "failed", (f"it raised {type(error).__name__}: {error}", traceback.format_exc())


def as_sent(result: R) -> R:
    """The result, whose arrays are read-only as they were before they travelled."""
    if isinstance(result, Counts):
        frozen(*(getattr(result, name) for name in _COLUMNS))
    return result


def encoded(function: Callable[[Any], Any]) -> bytes:
    """The function for another process, in multiprocessing's encoding; it goes into no file."""
    try:
        return bytes(ForkingPickler.dumps(function))
    except Exception as error:  # whatever a class's own reduction raises
        raise ProblemError(
            f"the simulator cannot be sent to another process: {error}\n"
            "  its class must be at the top level of a module, and its data must survive pickling"
        ) from error


def made(folder: str | PathLike[str]) -> str:
    """The folder, which is there now."""
    try:
        os.makedirs(folder, exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ProblemError(f"folder is {os.fsdecode(folder)!r}, which cannot be made: {why}") from None
    return os.path.abspath(os.fsdecode(folder))
