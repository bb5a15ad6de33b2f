"""The worker pool: who gets which job, and what follows when a worker dies, hangs or is not needed any more.

`Pool.step` does one round. Engines call it while they wait for results; `PoolThread` calls it for callers
that must not wait, such as the server of the page.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe
from queue import Empty, SimpleQueue
from typing import Any

from fairmdp.workers.worker import Host, Job, Message, Worker, WorkerLost

_LISTEN = 3600.0  # seconds to wait at most before looking again; a system's limit is a few weeks


class Pool:
    """Some workers of a host, started when they are needed and replaced when they are lost.

    Parameters
    ----------
    host
        Where workers live.
    size
        How many there are at most.
    timeout
        Seconds after which a job counts as hanging and its worker is killed.
    first
        Job of every new worker, which prepares it for others: such workers are started ahead of need, and
        do one job after the other. Without it they start with the first jobs that wait, and quick ones get
        jobs ahead of time.
    """

    def __init__(self, host: Host, size: int, *, timeout: float = math.inf, first: Job | None = None) -> None:
        self.host, self.size, self.timeout = host, size, timeout
        self.workers: list[Worker] = []
        self.closed = False
        self._first = first
        self._waiting: list[tuple[int, int, Job]] = []  # a heap: the one that is due first comes first
        self._count = itertools.count()

    def submit(self, job: Job) -> None:
        """Have a job done; it is given to a worker at once if there is one for it."""
        heapq.heappush(self._waiting, (job.order, next(self._count), job))
        self._assign()

    def withdraw(self, jobs: Collection[Job]) -> None:
        """Drop jobs that no worker has yet."""
        self._waiting = [entry for entry in self._waiting if entry[2] not in jobs]
        heapq.heapify(self._waiting)

    def cancel(self, jobs: Collection[Job], grace: float = 0.0) -> None:
        """Drop jobs and hear nothing of them any more; a worker that has one gets some seconds to finish."""
        self.withdraw(jobs)
        busy = [worker for worker in self.workers if any(job in jobs for job in worker.jobs)]
        for job in jobs:
            job.hear = _nobody
        if grace:
            for worker in busy:
                worker.hurry(grace)
            return
        for worker in busy:
            self._wait_again(job for job in worker.jobs if job not in jobs)
        self.stop(busy)

    def step(self, seconds: float | None, bell: Any = None) -> None:
        """Give jobs to workers and deal with every message, death and overrun.

        Waits for one, up to some seconds, or with ``None`` for as long as it takes; a bell ends the wait.
        """
        self._assign()
        if seconds is None:
            first = min((worker.deadline for worker in self.workers if worker.jobs), default=math.inf)
            seconds = min(max(first - time.monotonic(), 0.0), _LISTEN)
        ready = self.host.wait(self.workers, seconds, bell)
        for worker in list(self.workers):
            if worker not in self.workers:
                continue  # found dead meanwhile
            if worker in ready:
                self._hear(worker)
            elif worker.jobs and time.monotonic() >= worker.deadline:
                self._lose(worker, ("late", None))
        self._assign()

    def fill(self) -> None:
        """Start the workers that are ahead of need."""
        while self._first is not None and len(self.workers) < self.size:
            self._start()

    def reject(self, message: Message) -> None:
        """Give up the first job that waits."""
        if self._waiting:
            job = heapq.heappop(self._waiting)[2]
            job.hear(job, message)

    def stop(self, workers: list[Worker]) -> None:
        """End workers, and wait until they have."""
        self._dismiss(workers)
        for worker in workers:
            worker.end()

    def close(self) -> None:
        """End all workers, for good."""
        self.closed = True
        self.stop(list(self.workers))

    def _assign(self) -> None:
        while self._waiting:
            job = self._waiting[0][2]
            worker = self._worker_for(job)
            if worker is None:
                return
            worker.give(job)  # before it is gone from here: Ctrl-C may come in between
            heapq.heappop(self._waiting)

    def _worker_for(self, job: Job) -> Worker | None:
        self.stop([worker for worker in self.workers if not worker.jobs and not worker.is_alive])
        idle = [worker for worker in self.workers if not worker.jobs]
        if len(idle) > min(job.spare, self.size - 1):
            return idle[0] if job.likes is None else max(idle, key=lambda one: job.likes(one.history))  # type: ignore[misc]
        if len(self.workers) < self.size:
            worker = self._start()
            return worker if self._first is None else None
        if self._first is None:
            quickest = max(self.workers, key=lambda worker: worker.room)
            return quickest if quickest.room > 0 else None
        return None

    def _start(self) -> Worker:
        worker = self.host.start(self.timeout)
        self.workers.append(worker)
        if self._first is not None:
            worker.give(self._first)
        return worker

    def _hear(self, worker: Worker) -> None:
        try:
            message = worker.hear()
        except WorkerLost as how:
            self._lose(worker, ("lost", str(how)))
            return
        if message[0] == "ready":
            return
        job = worker.jobs[0]
        if message[0] != "progress":
            worker.jobs.popleft()
            if job.likes is not None:
                worker.history.append(job.task)
        job.hear(job, message)

    def _lose(self, worker: Worker, message: Message) -> None:
        """Replace a worker; its first job has failed, those that it had ahead wait again."""
        jobs = list(worker.jobs)
        self._dismiss([worker])
        self._wait_again(jobs[1:])
        if jobs and jobs[0] is self._first:
            self.reject(message)  # or one that cannot start would be started for ever
        else:
            self.fill()
            for job in jobs[:1]:
                job.hear(job, message)
        self._assign()
        worker.end()  # last of all: a process that gives back much memory takes its time

    def _dismiss(self, workers: list[Worker]) -> None:
        self.workers = [worker for worker in self.workers if worker not in workers]
        for worker in workers:
            worker.dismiss()

    def _wait_again(self, jobs: Any) -> None:
        for job in jobs:
            heapq.heappush(self._waiting, (job.order, next(self._count), job))


class PoolThread:
    """A thread that serves a pool, for callers that must not wait; jobs hear in that thread."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._bell, self._button = Pipe(duplex=False)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def call(self, method: Callable[..., None], *args: Any) -> None:
        """Have a method of the pool called, soon, by the thread."""
        self._calls.put(partial(method, *args))
        self._button.send_bytes(b"!")

    def stop(self) -> None:
        """End the workers and the thread."""
        self.call(self._pool.close)
        self._thread.join()

    def _serve(self) -> None:
        self._guarded(self._pool.fill)
        while not self._pool.closed:
            self._guarded(lambda: self._pool.step(None, self._bell))
            while self._bell.poll():
                self._bell.recv_bytes()
            with suppress(Empty):
                while True:
                    self._guarded(self._calls.get_nowait())

    def _guarded(self, function: Callable[[], None]) -> None:
        """Call a function; where a process cannot be started, whoever waits for it hears so."""
        try:
            function()
        except OSError as error:
            self._pool.reject(("lost", str(error)))


def _nobody(job: Job, message: Message) -> None:
    """Hear nothing."""
