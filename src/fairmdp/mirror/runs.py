"""Runs of Algorithm 1 that can be advanced, read, kept and taken up again: dense, lazy, and in batches.

A checkpoint is written atomically, and taken up only by the very same run.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import PathLike
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fairmdp import mirror
from fairmdp.errors import FormatError
from fairmdp.files import read_bytes, write_bytes
from fairmdp.mirror import kernels, tables
from fairmdp.mirror.polytope import QuotaPolytope
from fairmdp.mirror.primitives import stream
from fairmdp.mirror.steps import Steps
from fairmdp.model.checks import Floats
from fairmdp.model.mdp import MDP
from fairmdp.model.simulator import CheckedSimulator

Arrays = dict[str, np.ndarray[Any, Any]]
Sums = Callable[[], tuple[Floats, Floats]]
Advance = Callable[..., object]
S = TypeVar("S")
T = TypeVar("T")

_DENSE_PAIRS = 50  # below this the dense kernel is the quicker one
_NO_RECORD = np.zeros((0, 4), np.int64)

_MAX_BYTES = 16 * 2**30
_DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, ValueError, MemoryError, RuntimeError)
_WHAT = "what"  # entry that says which run a checkpoint belongs to
_WHOLE = "whole"  # entry that says whether all the others are there, under their names


class KernelRun:
    """A run by a kernel: the arrays that it changes, and how it goes on and is read.

    ``advance(steps, eta_x, eta_lam, lam_max)`` makes steps, ``sums()`` returns the sums of the iterates x and
    lam so far, in pair order.
    """

    def __init__(
        self, name: str, start: Floats, batch: int, arrays: Arrays, advance: Advance, sums: Sums
    ) -> None:
        self.name, self.start, self.samples_per_step = name, start, 2 * batch
        self.sums = sums
        self._arrays, self._advance = arrays, advance

    def advance(self, steps: int, settings: Steps) -> None:
        """Make steps."""
        self._advance(steps, settings.eta_x, settings.eta_lam, 2 * settings.radius)

    def state(self) -> Arrays:
        """What a checkpoint must keep."""
        return {name: array.copy() for name, array in self._arrays.items()}

    def restore(self, state: Arrays) -> None:
        """Go on from a checkpoint."""
        for name, array in self._arrays.items():
            array[...] = state[name]


def tabulate(mdp: MDP, polytope: QuotaPolytope, r: Floats) -> tables.Model:
    """Tables of a known model with rewards r."""
    P = mdp.P
    indptr = P.indptr.astype(np.int64)
    return tables.build_model(indptr, P.indices, P.data, r, mdp.s_of, polytope.unit_of, polytope.n_units)


def model_run(mdp: MDP, polytope: QuotaPolytope, r: Floats, seed: np.random.SeedSequence) -> KernelRun:
    """Return a run on a known model with rewards r, one sample for each estimate, by the quicker kernel."""
    model, key = tabulate(mdp, polytope, r), stream(seed)
    if polytope.kind == "disjoint" and mdp.n_pairs > _DENSE_PAIRS:
        return _lazy_run(model, polytope, mdp.n_states, key)
    return _dense_run(model, polytope, mdp.n_states, key)


def _dense_run(model: tables.Model, polytope: QuotaPolytope, n_states: int, key: Any) -> KernelRun:
    """The plain kernel: O(SA) per step, any quotas."""
    quotas = polytope.quotas
    state = tables.start_dense(model, quotas, polytope.start, n_states, key)
    kernel = kernels.dense_run if polytope.kind == "disjoint" else kernels.dense_run_any
    advance = partial(kernel, model, quotas, state)

    def sums() -> tuple[Floats, Floats]:
        x = np.empty(model.order.size)
        x[model.order] = state.x_sum
        return x, state.lam_sum.copy()

    return KernelRun("dense", polytope.start, 1, _kept(state, tables.DENSE_STATE), advance, sums)


def _lazy_run(model: tables.Model, polytope: QuotaPolytope, n_states: int, key: Any) -> KernelRun:
    """The sublinear kernel: O(log SA) per step, disjoint quotas."""
    lazy, lazy_start = mirror.lazy, mirror.lazy_start  # loaded, and compiled, where they are used
    state = lazy_start.start_lazy(model, polytope.quotas.rho, polytope.start, n_states, key)

    def advance(*how: Any) -> None:
        lazy.lazy_run(state, *how, _NO_RECORD)

    def sums() -> tuple[Floats, Floats]:
        x, x_sum = np.empty((2, model.r.size))
        lam, lam_sum = np.empty((2, n_states))
        lazy.lazy_read(state, model.order, x, x_sum, lam, lam_sum)
        return x_sum, lam_sum

    return KernelRun("lazy", polytope.start, 1, _kept(state, lazy.LAZY_STATE), advance, sums)


class BatchRun(KernelRun):
    """Steps with the mean of a batch of samples, from any simulator; rewards are rescaled to [0, 1]."""

    def __init__(
        self,
        simulator: CheckedSimulator,
        mdp: MDP,
        polytope: QuotaPolytope,
        batch: int,
        low: float,
        span: float,
        seed: np.random.SeedSequence,
    ) -> None:
        draws, own = seed.spawn(2)
        start, quotas = polytope.start, polytope.quotas
        pairs = np.zeros(2 * batch, np.int64)
        b = tables.start_batch(quotas, start, mdp.n_states, polytope.n_units, batch, stream(draws))
        b = b._replace(uniform_pairs=pairs[:batch], x_pairs=pairs[batch:])
        rng = np.random.default_rng(own)
        unit_of = np.array(polytope.unit_of)
        s_of, action = np.array(mdp.s_of), np.arange(mdp.n_pairs) - mdp.pair_ptr[mdp.s_of]

        def advance(steps: int, *how: float) -> None:
            for _ in range(steps):
                kernels.propose(b.x, b.key, b.clock, b.uniform_pairs, b.x_pairs)
                answers = simulator.sample(s_of[pairs], action[pairs], rng)
                kernels.take_answers(quotas, b, s_of, unit_of, *answers, low, span, *how)

        def sums() -> tuple[Floats, Floats]:
            return b.x_sum.copy(), b.lam_sum.copy()

        super().__init__("batch", start, batch, _kept(b, tables.BATCH_STATE), advance, sums)
        self._rng = rng

    def state(self) -> Arrays:
        """What a checkpoint must keep, the state of the simulator's generator included."""
        text = json.dumps(self._rng.bit_generator.state).encode()
        return {**super().state(), "rng": np.frombuffer(text, np.uint8).copy()}

    def restore(self, state: Arrays) -> None:
        """Go on from a checkpoint."""
        super().restore(state)
        self._rng.bit_generator.state = json.loads(state["rng"].tobytes().decode())


def _kept(state: NamedTuple, names: Iterable[str]) -> Arrays:
    return {name: getattr(state, name) for name in names}


def in_threads(task: Callable[[S], T], arguments: Iterable[S], workers: int | None = None) -> list[T]:
    """Results in the order of the arguments; what has not begun is dropped when interrupted."""
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        futures = [pool.submit(task, argument) for argument in arguments]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


class Checkpoint:
    """The file of one run, which is known by its model and everything that decides its course."""

    def __init__(self, path: str | PathLike[str], mdp: MDP, *course: object) -> None:
        self._path = os.fsdecode(path)
        sha = hashlib.sha256(b"fairmdp checkpoint 1")
        for array in (mdp.P.indptr, mdp.P.indices, mdp.P.data, mdp.r, mdp.s_of):
            sha.update(np.ascontiguousarray(array).data)
        for part in course:
            sha.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
        self._what = np.frombuffer(sha.digest(), np.uint8)

    def save(self, arrays: Arrays) -> None:
        """Write the arrays in one go."""
        buffer = io.BytesIO()
        entries: dict[str, Any] = {_WHAT: self._what, _WHOLE: _digest(arrays), **arrays}
        np.savez(buffer, **entries)
        write_bytes(self._path, buffer.getvalue())

    def load(self) -> Arrays | None:
        """Return the arrays of an earlier stop of this run, or None if there is no file."""
        if not os.path.exists(self._path):
            return None
        try:
            with np.load(io.BytesIO(read_bytes(self._path, _MAX_BYTES)), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except _DAMAGE as error:
            raise FormatError(f"{self._path}: this is not a whole checkpoint: {error}") from None
        if not np.array_equal(arrays.pop(_WHAT, None), self._what):
            raise FormatError(
                f"{self._path}: this checkpoint belongs to a run with another model, seed or options\n"
                "  name another file, or remove this one"
            )
        if not np.array_equal(arrays.pop(_WHOLE, None), _digest(arrays)):
            raise FormatError(f"{self._path}: this is not a whole checkpoint: an array of it is lost")
        return arrays


def _digest(arrays: Arrays) -> np.ndarray[Any, Any]:
    sha = hashlib.sha256()
    for name, array in arrays.items():
        sha.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        sha.update(np.ascontiguousarray(array).data)
    return np.frombuffer(sha.digest(), np.uint8)
