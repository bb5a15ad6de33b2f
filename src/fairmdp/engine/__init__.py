"""Where chunks of work are done: in this process, in several, or on a cluster.

An engine is a callable like the built-in ``map``: a function and tasks in, results in the order of the tasks
out. A chunk's randomness is the seed in its task, so neither the engine nor the number of workers changes a
result; see `learn_plugin`, which takes an engine as ``run_chunks``. Sweeps over quotas or seeds use the same
call with tasks of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from fairmdp.engine.chunks import EngineError
from fairmdp.engine.crew import Engine
from fairmdp.engine.process_pool import ProcessPool
from fairmdp.engine.ray_cluster import RayCluster

__all__ = ["Engine", "EngineError", "ProcessPool", "RayCluster", "serial"]

T = TypeVar("T")
R = TypeVar("R")


def serial(function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
    """Run tasks in this process, each when its result is asked for.

    Examples
    --------
    >>> list(serial(abs, [-1, 2]))
    [1, 2]
    """
    return map(function, tasks)
