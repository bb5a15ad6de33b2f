"""Engine whose workers are actors on a Ray cluster: a private one on this machine, or one that runs already.

Each has a core of its own. Ray is not asked to retry anything: it would do so out of
order and without the function that the actor had. Results are kept by the driver, since the machines of a
cluster need not share a disk.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from types import ModuleType
from typing import Any

from fairmdp.errors import ProblemError
from fairmdp.workers.engine import Engine, EngineError, cores
from fairmdp.workers.pool import Pool
from fairmdp.workers.worker import Code, Message, Runner, Worker, WorkerLost

_PRIVATE = "local"  # what Ray calls a cluster of one's own, on this machine
_RUNNING = "auto"  # and one that was started here with `ray start`
_REACH = 10.0  # seconds in which a cluster's port must answer
_STORE = 2**28  # bytes that a private cluster takes for results under way


_secret: dict[str, str] = {}  # of this process: Ray reads it once, when it is imported


class RayCluster(Engine):
    """Engine of workers on a Ray cluster; the same promises as those of a `ProcessPool`.

    Needs the extra ``ray``. Simulators must be importable on the machines of the cluster, and fairmdp
    installed there; classes of the script itself travel with the work.

    Parameters
    ----------
    workers
        Number of workers, each with a core of its own; by default as many as the cluster has cores.
    address
        ``"local"`` (the default) starts a private cluster on this machine that ends with this process; it
        listens on the loopback device alone and takes no orders without a secret that only this process has.
        ``"host:port"`` is a running cluster, ``"auto"`` one that ``ray start`` has started on this machine;
        their authentication follows ``RAY_AUTH_MODE``, which must be the same on both sides. Where this
        process has connected to a cluster already, that one is used and left running.
    timeout, attempts, folder
        As for a `ProcessPool`; the files are the same, too, and one engine goes on where another was killed.

    Examples
    --------
    A cluster takes some seconds to start, so this one is not run here.

    >>> with RayCluster(2) as engine:  # doctest: +SKIP
    ...     learned = learn_plugin(simulator, quotas, samples=10**6, engine=engine)
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        address: str = _PRIVATE,
        timeout: float | None = None,
        attempts: int = 3,
        folder: str | PathLike[str] | None = None,
    ) -> None:
        super().__init__(workers, timeout, attempts, folder)
        ray, self._private = _connected(address, workers or cores())
        size = workers or max(int(ray.cluster_resources().get("CPU", 1)), 1)
        self.pool = Pool(_Cluster(ray), int(size), timeout=math.inf if timeout is None else timeout)
        self._ray = ray

    def close(self) -> None:
        """Stop the workers, for good, and the cluster if it is private."""
        if self.pool.closed:
            return
        super().close()
        if self._private:
            self._ray.shutdown()
            self._ray._private.worker._worker_logs_enabled = True


class _Cluster:
    """Host of workers that are actors of a Ray cluster."""

    shares_disk = False

    def __init__(self, ray: ModuleType) -> None:
        self._ray = ray
        self._actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Runner)

    def start(self, timeout: float) -> Worker:
        return _Actor(timeout, self._ray, self._actor.remote())

    def code(self, function: Callable[[Any], Any]) -> Code:
        """Encode a function with the classes of a script; its digest is that of its plain pickle."""
        return replace(Code.of(function), content=self._ray.cloudpickle.dumps(function))

    def wait(self, workers: Iterable[_Actor], seconds: float | None, bell: Any) -> set[Worker]:
        due = {worker.answers[0]: worker for worker in workers if worker.answers}
        if not due:
            return set()
        # First for one, as long as it takes, then for what has come meanwhile.
        self._ray.wait(list(due), timeout=seconds, fetch_local=False)
        ready, _ = self._ray.wait(list(due), num_returns=len(due), timeout=0, fetch_local=False)
        return {due[answer] for answer in ready}


class _Actor(Worker):
    def __init__(self, timeout: float, ray: ModuleType, actor: Any) -> None:
        super().__init__(timeout)
        self._ray, self._actor = ray, actor
        self.answers: deque[Any] = deque()

    @property
    def is_alive(self) -> bool:
        return True  # what is not shows when it is asked

    def _take(self, code: bytes) -> None:
        paths = [os.path.abspath(path) for path in sys.path]
        self.answers.append(self._actor.take.remote(code, paths))

    def _run(self, task: Any) -> None:
        self.answers.append(self._actor.run.remote(task))

    def _message(self) -> Message:
        try:
            return self._ray.get(self.answers.popleft())
        except self._ray.exceptions.RayTaskError as error:  # a task or a result that cannot travel
            return "failed", (f"it raised {type(error.cause).__name__}: {error.cause}", str(error))
        except self._ray.exceptions.RayError as error:
            raise WorkerLost(f"its Ray worker was lost: {str(error).strip().splitlines()[0]}") from None

    def dismiss(self) -> None:
        self._ray.kill(self._actor)

    def end(self) -> None:
        pass  # Ray sees to it


def _connected(address: str, workers: int) -> tuple[ModuleType, bool]:
    """Ray, connected to a cluster, and whether it was us who connected it."""
    if address not in (_PRIVATE, _RUNNING):
        _check_reach(address)
    with _environment(_secluded() if address == _PRIVATE else {}):
        try:
            import ray
        except ImportError:
            raise EngineError(
                "Ray is not installed\n"
                "  install the extra: pip install '.[ray]' in a clone, else 'fairmdp[ray]'; or take processes"
            ) from None
        if ray.is_initialized():
            return ray, False
        how: dict[str, Any] = {"address": address, "log_to_driver": False, "configure_logging": False}
        if address == _PRIVATE:
            how |= {"num_cpus": workers, "include_dashboard": False, "object_store_memory": _STORE}
        # Ray would print each death to standard output, where programs read answers; no public switch exists.
        ray._private.worker._worker_logs_enabled = False
        try:
            ray.init(**how)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            what = "start a Ray cluster here" if address == _PRIVATE else f"join the Ray cluster {address!r}"
            raise EngineError(f"cannot {what}: {str(error).strip().splitlines()[0]}") from error
        return ray, True


def _check_reach(address: str) -> None:
    """Raise at once where nobody listens; Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or "//" in host:
        raise ProblemError(f"address is {address!r}, expected host:port, {_RUNNING} or {_PRIVATE}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH).close()
    except (OSError, OverflowError) as error:
        raise EngineError(
            f"cannot reach the Ray cluster {address!r}: {error}\n"
            "  the address is that of its head node, with the port that `ray start --head` has printed"
        ) from None


def _secluded() -> dict[str, str]:
    """Settings of a cluster for this process alone: loopback, a secret, no reports to anybody."""
    settings = {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        # Under `uv run` Ray would pack the working folder and build an environment for every worker.
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    }
    if "ray" not in sys.modules and "RAY_AUTH_MODE" not in os.environ:
        _secret.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    return settings | _secret


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Set environment variables for a while; Ray and the processes that it starts read them then."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
