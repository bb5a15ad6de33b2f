"""Runs of Algorithm 1 that can be advanced, read, kept and taken up again: dense, lazy, and in batches."""

from __future__ import annotations

import json
from typing import Any, Protocol

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.kernels import mirror as kernels
from fairmdp.mdp import MDP
from fairmdp.simulator import CheckedSimulator
from fairmdp.solvers.domain import Domain
from fairmdp.solvers.mirror_steps import Steps
from fairmdp.validation import Floats

Arrays = dict[str, np.ndarray[Any, Any]]

_DENSE_PAIRS = 50  # below this the dense kernel is the quicker one
_NO_RECORD = np.zeros((0, 4), np.int64)


class Run(Protocol):
    """One run: `advance` makes steps, `sums` reads the sums of iterates so far, `state` is a checkpoint."""

    name: str
    start: Floats
    samples_per_step: int

    def advance(self, steps: int, settings: Steps) -> None: ...

    def sums(self) -> tuple[Floats, Floats]: ...

    def state(self) -> Arrays: ...

    def restore(self, state: Arrays) -> None: ...


def model_run(mdp: MDP, domain: Domain, r: Floats, batch: int, seed: np.random.SeedSequence) -> Run:
    """Return a run on a known model with rewards r, by the quicker kernel."""
    P = mdp.P
    model = kernels.build_model(
        P.indptr.astype(np.int64), P.indices, P.data, r, mdp.s_of, domain.unit_of, domain.unit_rho
    )
    key = kernels.stream(seed)
    if batch > 1:
        if domain.kind != "disjoint":
            raise ProblemError(f"batches of a known model take disjoint quotas, these are {domain.kind}")
        return BatchModelRun(model, domain, mdp.n_states, key, batch)
    if domain.kind == "disjoint" and mdp.n_pairs > _DENSE_PAIRS:
        return LazyRun(model, domain, mdp.n_states, key)
    return DenseRun(model, domain, mdp.n_states, key)


class DenseRun:
    """The plain kernel: O(SA) per step, any quotas."""

    name = "dense"
    samples_per_step = 2

    def __init__(self, model: kernels.Model, domain: Domain, n_states: int, key: Any) -> None:
        self.start = domain.start
        self._model, self._domain = model, domain
        self._dense = kernels.start_dense(model, domain.start, np.zeros(n_states), key)

    def advance(self, steps: int, settings: Steps) -> None:
        """Make steps."""
        how: Any = (steps, settings.eta_x, settings.eta_lam, 2 * settings.radius)
        domain = self._domain
        if domain.kind == "disjoint":
            kernels.dense_run(self._model, self._dense, *how)
        elif domain.kind == "nested":
            kernels.dense_run_laminar(self._model, self._dense, *domain.shape, *how)
        else:
            kernels.dense_run_overlapping(self._model, self._dense, domain.rho, *domain.shape, *how)

    def sums(self) -> tuple[Floats, Floats]:
        """Sums of the iterates so far, in pair order."""
        x = np.empty(self._model.order.size)
        x[self._model.order] = self._dense.x_sum
        return x, self._dense.lam_sum.copy()

    def state(self) -> Arrays:
        """What a checkpoint must keep."""
        return {name: array.copy() for name, array in self._dense._asdict().items()}

    def restore(self, state: Arrays) -> None:
        """Go on from a checkpoint."""
        for name, array in self._dense._asdict().items():
            array[...] = state[name]


class LazyRun:
    """The sublinear kernel: O(log SA) per step, disjoint quotas."""

    name = "lazy"
    samples_per_step = 2

    def __init__(self, model: kernels.Model, domain: Domain, n_states: int, key: Any) -> None:
        from fairmdp.kernels import lazy

        self.start = domain.start
        self._model, self._n_states, self._kernel = model, n_states, lazy
        self._lazy = lazy.start_lazy(model, domain.start, np.zeros(n_states), key)

    def advance(self, steps: int, settings: Steps) -> None:
        """Make steps."""
        self._kernel.lazy_run(
            self._lazy, steps, settings.eta_x, settings.eta_lam, 2 * settings.radius, _NO_RECORD
        )

    def sums(self) -> tuple[Floats, Floats]:
        """Sums of the iterates so far, in pair order."""
        L = self._model.order.size
        x, x_sum = np.empty(L), np.empty(L)
        lam, lam_sum = np.empty(self._n_states), np.empty(self._n_states)
        self._kernel.lazy_read(self._lazy, self._model.order, x, x_sum, lam, lam_sum)
        return x_sum, lam_sum

    def state(self) -> Arrays:
        """What a checkpoint must keep."""
        return {name: getattr(self._lazy, name).copy() for name in self._kernel.LAZY_STATE}

    def restore(self, state: Arrays) -> None:
        """Go on from a checkpoint."""
        for name in self._kernel.LAZY_STATE:
            getattr(self._lazy, name)[...] = state[name]


class BatchModelRun:
    """Steps with the mean of a batch of samples of a known model, disjoint quotas."""

    name = "batch"

    def __init__(self, model: kernels.Model, domain: Domain, n_states: int, key: Any, batch: int) -> None:
        self.start = domain.start
        self.samples_per_step = 2 * batch
        self._model, self._s_of = model, model.s_of.astype(np.int64)
        self._batch = kernels.start_batch(domain.start[model.order], n_states, model.rho.size, batch, key)

    def advance(self, steps: int, settings: Steps) -> None:
        """Make steps."""
        kernels.batch_run(
            self._model, self._s_of, self._model.unit, self._batch,
            steps, settings.eta_x, settings.eta_lam, 2 * settings.radius,
        )  # fmt: skip

    def sums(self) -> tuple[Floats, Floats]:
        """Sums of the iterates so far, in pair order."""
        x = np.empty(self._model.order.size)
        x[self._model.order] = self._batch.x_sum
        return x, self._batch.lam_sum.copy()

    def state(self) -> Arrays:
        """What a checkpoint must keep."""
        return {name: getattr(self._batch, name).copy() for name in kernels.BATCH_STATE}

    def restore(self, state: Arrays) -> None:
        """Go on from a checkpoint."""
        for name in kernels.BATCH_STATE:
            getattr(self._batch, name)[...] = state[name]


class BatchRun:
    """Steps with the mean of a batch of samples, from any simulator; rewards are rescaled to [0, 1]."""

    name = "batch"

    def __init__(
        self,
        simulator: CheckedSimulator,
        mdp: MDP,
        domain: Domain,
        batch: int,
        low: float,
        span: float,
        seed: np.random.SeedSequence,
    ) -> None:
        draws, answers = seed.spawn(2)
        self.start = domain.start
        self.samples_per_step = 2 * batch
        self._simulator, self._mdp, self._domain, self._low, self._span = simulator, mdp, domain, low, span
        self._rng = np.random.default_rng(answers)
        self._action = np.arange(mdp.n_pairs) - mdp.pair_ptr[mdp.s_of]
        self._batch = kernels.start_batch(
            domain.start, mdp.n_states, domain.unit_rho.size, batch, kernels.stream(draws)
        )

    def advance(self, steps: int, settings: Steps) -> None:
        """Make steps; one call of the simulator each."""
        for _ in range(steps):
            self._step(settings)

    def _step(self, settings: Steps) -> None:
        b, domain = self._batch, self._domain
        kernels.propose(b.x, b.key, b.clock, b.uniform_pairs, b.x_pairs)
        pairs = np.concatenate([b.uniform_pairs, b.x_pairs])
        s_next, rewards = self._simulator.sample(self._mdp.s_of[pairs], self._action[pairs], self._rng)
        B = b.uniform_pairs.size
        kernels.tilt(
            b.logx, b.lam, self._mdp.s_of, b.uniform_pairs, (rewards[:B] - self._low) / self._span,
            s_next[:B], b.x_pairs, s_next[B:], settings.eta_x, settings.eta_lam, 2 * settings.radius, b.work,
        )  # fmt: skip
        kernels.exponentiate(b.logx, domain.unit_of, b.x, b.Y)
        if domain.kind == "disjoint":
            kernels.fill_blocks(b.Y, domain.unit_rho, b.mult)
        elif domain.kind == "nested":
            kernels.fill_laminar(b.Y, domain.unit_rho, *domain.shape, b.mult)
        else:
            kernels.fill_overlapping(b.Y, domain.rho, *domain.shape, 1e-13, b.mult)
        kernels.scale(b.logx, b.x, domain.unit_of, b.mult, b.lam, b.x_sum, b.lam_sum)

    def sums(self) -> tuple[Floats, Floats]:
        """Sums of the iterates so far."""
        return self._batch.x_sum.copy(), self._batch.lam_sum.copy()

    def state(self) -> Arrays:
        """What a checkpoint must keep, the state of the simulator's generator included."""
        text = json.dumps(self._rng.bit_generator.state).encode()
        arrays = {name: getattr(self._batch, name).copy() for name in kernels.BATCH_STATE}
        return {**arrays, "rng": np.frombuffer(text, np.uint8).copy()}

    def restore(self, state: Arrays) -> None:
        """Go on from a checkpoint."""
        for name in kernels.BATCH_STATE:
            getattr(self._batch, name)[...] = state[name]
        self._rng.bit_generator.state = json.loads(state["rng"].tobytes().decode())
