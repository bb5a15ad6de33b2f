"""Workers that are processes of this machine, and the engine of such workers.

The pool and each worker talk over a pipe of their own. A thread of the pool's process writes to it, so that
one who does not read blocks nobody, and a process that hangs can be killed without harm to the others.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from os import PathLike
from queue import SimpleQueue
from typing import Any

from fairmdp.workers.engine import Engine, cores
from fairmdp.workers.pool import Pool
from fairmdp.workers.worker import Code, Message, Runner, Worker, WorkerLost, failure, tell_pool

_END = 1.0  # seconds that a worker is given to end by itself

# Not fork: a fork copies the locks that numba's and BLAS' threads hold, and nobody to open them.
_SPAWN = get_context("spawn")


class ProcessPool(Engine):
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
        Where finished chunks of samples are kept, one file each, ``chunk-<key of the seed>.npz``; results of
        other tasks are not. A run that finds the file of the very same chunk (simulator, pairs and seed)
        takes it instead of drawing it again, so a run that was killed goes on where it was. Files of other
        chunks are overwritten. A simulator is compared by its pickle, which holds its data, not its code:
        after a change there, take a new folder.

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
        super().__init__(workers, timeout, attempts, folder)
        size = cores() if workers is None else int(workers)
        self.pool = Pool(Processes(), size, timeout=math.inf if timeout is None else timeout)


class Processes:
    """Host of workers that are processes of this machine."""

    shares_disk = True

    def start(self, timeout: float) -> Worker:
        """Start a process."""
        return _Process(timeout)

    def code(self, function: Callable[[Any], Any]) -> Code:
        """Pickle a function."""
        return Code.of(function)

    def wait(self, workers: Iterable[_Process], seconds: float | None, bell: Any) -> set[Worker]:
        """Wait for pipes, ends and the bell."""
        ends = {end: worker for worker in workers for end in (worker.pipe, worker.process.sentinel)}
        ready = wait([*ends, bell] if bell else list(ends), seconds)
        return {ends[end] for end in ready if end is not bell}  # type: ignore[index]


class _Process(Worker):
    def __init__(self, timeout: float) -> None:
        super().__init__(timeout)
        self.pipe, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_work, args=(theirs,), daemon=True, name="fairmdp-worker")
        try:
            with _deaf_to_interrupts():
                self.process.start()
        except BaseException:
            self.pipe.close()
            raise
        finally:
            theirs.close()  # so that the end of the process is the end of the pipe
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._writer = threading.Thread(target=_post, args=(self._outbox, self.pipe), daemon=True)
        self._writer.start()

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive()

    def _take(self, code: bytes) -> None:
        self._outbox.put(pickle.dumps(("take", code)))

    def _run(self, task: Any) -> None:
        self._outbox.put(pickle.dumps(("run", task), pickle.HIGHEST_PROTOCOL))

    def _message(self) -> Message:
        try:
            if not self.pipe.poll():  # ended, and a process of its own holds the pipe
                raise EOFError
            return pickle.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            raise WorkerLost(self._fate()) from None

    def dismiss(self) -> None:
        if self.jobs:
            self.process.kill()
        self._outbox.put(None)  # and an idle one ends by itself, since nothing more will come

    def end(self) -> None:
        self._writer.join(_END)
        self.process.join(_END)
        self.process.kill()
        self.process.join()
        self.process.close()

    def _fate(self) -> str:
        """How it ended."""
        self.process.join(_END)
        code = self.process.exitcode
        if code is None:
            how = "its process closed the pipe"
        elif code < 0:
            how = f"its process was killed by signal {-code}"
        else:
            how = f"its process ended with code {code}"
        if self.started:
            return how
        return (
            f"{how} while it started\n  what it printed says why; "
            'a script that uses a pool needs `if __name__ == "__main__":`'
        )


def _post(outbox: SimpleQueue[bytes | None], pipe: Connection[Any, Any]) -> None:
    """Write what is to be sent until None comes, then close the pipe; the end of a worker shows elsewhere."""
    with pipe:
        while (message := outbox.get()) is not None:
            with suppress(OSError):
                pipe.send_bytes(message)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let processes that are started here never see a Ctrl-C, not even while they start."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # or starting it would lift the mask again
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _work(pipe: Connection[Any, Any]) -> None:
    """Life of a worker: answer each message with one, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's business
    threading.Thread(target=_end_with_driver, daemon=True).start()
    tell_pool(lambda message: pipe.send_bytes(pickle.dumps(message)))
    runner = Runner()
    with suppress(EOFError, OSError):  # the driver is gone, or needs us no more
        while True:
            pipe.send_bytes(_answer(runner, pipe.recv_bytes()))


def _answer(runner: Runner, message: bytes) -> bytes:
    try:
        kind, content = pickle.loads(message)
        answer = runner.take(content) if kind == "take" else runner.run(content)
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # a task or a result that does not survive the journey
        return pickle.dumps(failure(error))


def _end_with_driver() -> None:
    """End this process when its driver is gone, even in the middle of a task."""
    driver = parent_process()
    assert driver is not None, "a worker has a driver"
    driver.join()
    os._exit(1)
