"""``fairmdp warmup``: compile every kernel once, so that no user waits for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import click

import fairmdp as fm
from fairmdp import backends, mirror, solvers

_STEPS = 2000


@click.command()
def warmup() -> None:
    """Compile what solvers and learners need and keep it on disk.

    Without this the first run of a method compiles its own part, which takes up to ten seconds. Useful once
    after an installation, or when an image of a machine is built. The second time nothing is left to do.
    """
    first = done = _compiled()
    for name, use in _uses().items():
        began = time.perf_counter()
        use()
        before, done = done, _compiled()
        click.echo(f"  {name:<10} {time.perf_counter() - began:5.1f} s   {done - before} kernels compiled")
    places = sorted({kernel.stats.cache_path for kernel in _kernels() if kernel.stats.cache_path})
    new = done - first
    click.echo(f"{new} kernels compiled, kept in {', '.join(places)}" if new else "nothing was left to do")


def _uses() -> dict[str, Callable[[], Any]]:
    """Small problems of every shape that has kernels of its own, by the method that they exercise."""
    ready = fm.scenarios
    small, larger = ready.garnet(n_states=40), ready.garnet(n_states=600)
    owed = [fm.Quota(f"first {n}", states=range(n), at_least=n / 100) for n in (10, 20)]
    nested = fm.Problem(small.mdp, owed)
    lattice = ready.postal()
    shapes = (
        small,
        larger,
        nested,
        lattice,
        ready.three_state(),
        ready.jobs(quota=(0.3, 0.3)),
        ready.bandit(),
    )

    def every_shape(method: solvers.Method) -> None:
        for backend in map(backends.open_backend, shapes):
            if method.obstacle(backend) is None:
                method.run(backend, solvers.Request())

    def slow_chains() -> None:
        impatient = backends.ChainTuning(grouped=1, evaluation=1, stationary=1)
        solvers.colgen.run_colgen(backends.CpuBackend(lattice, tuning=impatient), solvers.Request())

    def protocol() -> None:
        for variant in mirror.experiments.VARIANTS:
            mirror.experiments.convergence(variant=variant, runs=1, steps=_STEPS)

    return {
        **{name: partial(every_shape, method) for name, method in solvers.METHODS.items() if method.compiles},
        "multigrid": slow_chains,
        "learn": lambda: fm.learn_mirror(small.mdp.simulator(), small.quotas, samples=_STEPS),
        "reproduce": protocol,
    }


def _kernels() -> Iterator[Any]:
    """Every function that numba compiles in what has been imported; none where it is told not to."""
    from numba.core.dispatcher import Dispatcher

    for name in [name for name in sys.modules if name.startswith("fairmdp.")]:
        for found in vars(sys.modules[name]).values():
            if isinstance(found, Dispatcher) and found.__module__ == name:
                yield found


def _compiled() -> int:
    """Kernels that had to be compiled so far, because the disk did not have them."""
    return sum(sum(kernel.stats.cache_misses.values()) for kernel in _kernels())
