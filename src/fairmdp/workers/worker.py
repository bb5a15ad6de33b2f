"""One worker from both sides: what runs tasks inside of it, and how its pool sees it.

A worker answers being handed a function, and each task, with one message; a task may report its progress
before.
"""

from __future__ import annotations

import math
import pickle
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing.reduction import ForkingPickler
from typing import Any, Protocol

from fairmdp.errors import ProblemError, SimulatorError

Message = tuple[str, Any]
"""What a worker says: ``ready`` for more, ``progress`` and a report, ``done`` and a result, or ``failed`` and
a reason with a traceback. Of a worker that cannot say anything any more its pool says ``lost`` and how it
ended, or ``late``."""

_START = 60.0  # seconds granted on top of the timeout for starting, and for loading a function
_MOMENT = 0.1  # seconds of work that a worker has at most, beyond the task that it does
_QUEUE = 4  # tasks that it has at most
_HISTORY = 100  # tasks that are remembered of a worker

_tell: Callable[[Message], object] | None = None  # where this process is a worker: how its pool hears


def report(progress: Any) -> None:
    """Tell whoever waits for the task that this process does how far it is; on a cluster nobody hears it."""
    if _tell is not None:
        _tell(("progress", progress))


def tell_pool(tell: Callable[[Message], object]) -> None:
    """Say how this process, which is a worker, reports."""
    global _tell
    _tell = tell


class WorkerLost(Exception):  # noqa: N818 - it is news, not a mistake
    """A worker ended that was not meant to; the text says how."""


@dataclass(frozen=True)
class Code:
    """A function on its way to workers; its digest tells it from others."""

    content: bytes
    digest: bytes

    @classmethod
    def of(cls, function: Callable[[Any], Any]) -> Code:
        """Encode a function for other processes, by pickling; that goes into no file."""
        try:
            content = bytes(ForkingPickler.dumps(function))
        except Exception as error:  # whatever a class's own reduction raises
            raise ProblemError(
                f"the simulator cannot be sent to another process: {error}\n"
                "  its class must be at the top level of a module, and its data must survive pickling"
            ) from error
        return cls(content, sha256(content).digest())


@dataclass(eq=False)
class Job:
    """One task on its way.

    ``hear`` is called with the job and every message about it; jobs of lower ``order`` come first. A job
    leaves ``spare`` idle workers to others and goes to the one that it likes most, by what that has done.
    """

    code: Code
    task: Any
    hear: Callable[[Job, Message], object]
    order: int = 0
    spare: int = 0
    likes: Callable[[Iterable[Any]], Any] | None = None


class Worker(ABC):
    """One worker as its pool sees it: ``jobs`` are those that it has been given and not yet answered.

    One whose tasks are quick is given the next ones ahead of time, so that it need not wait for the pool;
    never more than a moment's work, as another worker could do that instead.
    """

    def __init__(self, timeout: float) -> None:
        self.jobs: deque[Job] = deque()
        self.history: deque[Any] = deque(maxlen=_HISTORY)  # tasks of the jobs that have likes
        self.started = False
        self._timeout, self._digest = timeout, b""  # of the function that it has
        self._preparing = 0  # functions that it has still to load
        self._pace = math.inf  # seconds that its last task took
        self._since = 0.0  # when its task began
        self.deadline = math.inf  # when it counts as hanging, if it has jobs

    @property
    def room(self) -> int:
        """How many more jobs it may be given ahead of time."""
        most = 1 if self._preparing else min(1 + int(_MOMENT / self._pace), _QUEUE)
        return most - len(self.jobs)

    def give(self, job: Job) -> None:
        """Hand over a job, after its function if the worker has another one."""
        self.jobs.append(job)  # first of all, as Ctrl-C may come in between: a worker with jobs gets killed
        if self._digest != job.code.digest:
            self._digest = job.code.digest
            self._preparing += 1
            self._take(job.code.content)
        self._run(job.task)
        if len(self.jobs) == 1:
            self._begin()

    def hear(self) -> Message:
        """Return its next message, which is there; `WorkerLost` if the worker is not."""
        message = self._message()
        if message[0] == "progress":
            return message
        self.started = True
        if message[0] == "ready":
            self._preparing -= 1
        else:
            self._pace = max(time.monotonic() - self._since, 1e-6)
        self._begin()
        return message

    def hurry(self, seconds: float) -> None:
        """Have it lost unless it answers within some seconds."""
        self.deadline = min(self.deadline, time.monotonic() + seconds)

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
    def _run(self, task: Any) -> None: ...

    @abstractmethod
    def _message(self) -> Message: ...

    @abstractmethod
    def dismiss(self) -> None:
        """Have it end: at once if it has jobs."""

    @abstractmethod
    def end(self) -> None:
        """Wait until it has ended."""


class Host(Protocol):
    """A place where workers live."""

    shares_disk: bool
    """Whether workers may write the files that this process reads."""

    def start(self, timeout: float) -> Worker:
        """Start a worker."""

    def code(self, function: Callable[[Any], Any]) -> Code:
        """Encode a function as it travels there."""

    def wait(self, workers: Iterable[Any], seconds: float | None, bell: Any) -> set[Worker]:
        """Wait for workers that have a message or are gone, or until the bell rings; return the workers."""


class Runner:
    """A worker's own side: it has a function, and answers each task with what became of it."""

    def __init__(self) -> None:
        self._function: Callable[[Any], Any] | None = None
        self._unloaded: Message | None = None

    def take(self, code: bytes, paths: Sequence[str] = ()) -> Message:
        """Have another function from now on; what is wrong with it becomes the answer to its tasks.

        ``paths`` are where its modules may be, as far as this process does not know them.
        """
        sys.path += [path for path in paths if path not in sys.path]
        try:
            self._function, self._unloaded = pickle.loads(code), None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._unloaded = failure(error)
        return "ready", None

    def run(self, task: Any) -> Message:
        """Do a task."""
        if self._unloaded is not None:
            return self._unloaded
        assert self._function is not None, "the function comes before the first task"
        try:
            return "done", self._function(task)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return failure(error)


def failure(error: BaseException) -> Message:
    """What a worker says of an error that it is just handling; a simulator's names itself."""
    what = str(error) if isinstance(error, SimulatorError) else f"it raised {type(error).__name__}: {error}"
    return "failed", (what, traceback.format_exc())
