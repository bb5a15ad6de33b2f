"""What a solver asks of the place where the arrays are: a `Backend`, opened once and passed down.

Vectors over states and pairs, policies and chains are as the backend keeps them, on the host or on a GPU; a
solver looks into none of them. What it computes with itself are numbers, prices (K,) and K x K matrices. A
search has its rewards between 0 and 1: ``(r - base) / scale``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from fairmdp.backends.by_quota import KernelSet, Layout, Place
from fairmdp.model.checks import Bools, Floats, Ints
from fairmdp.model.problem import Problem

Vector = Any  # over states or pairs
Rows = Any  # chain of a policy
Block = Any  # a vector over the states for each quota


def rare(tau: float) -> float:
    """Weight, relative to the best action's, below which a softmax policy of temperature tau leaves one out.

    A chain of every action with any weight has three times the entries at high temperatures, where nothing
    needs to be known to many digits.
    """
    return min(max((10 * tau) ** 4, 1e-12), 1e-4)


ROUNDING = 5e-15
"""Error of the shares that the CPU's certificate proves, per state: 2.6e-10 at 1e5 states."""


@dataclass(frozen=True)
class ChainTuning:
    """From where on chains that mix slowly are solved in which way."""

    grouped: int = 1500  # states from which chains are solved on groups of them before that
    cheap: int = 5000  # states up to which factors come next
    factored: int = 20_000  # states up to which chains are factored at all: beyond, factors fill up
    patient: int = 5000  # the same for a solver that wants an answer without a search for the way
    evaluation: int = 100  # sweeps of an evaluation ...
    stationary: int = 200  # ... and of a stationary distribution beyond which other ways are quicker
    wide: float = 30.0  # transitions of a pair from which on factors fill up at any size ...
    longer: int = 3  # ... and so many times as many sweeps are worth it

    def ways(self, backend: Backend) -> tuple[str, ...]:
        """Ways that are worth trying, from chains that mix fast to chains that hardly mix."""
        n_states = backend.n_states
        if self.fill_up(backend):
            return "sweeps", "krylov"
        if n_states <= self.cheap:
            return ("sweeps", "multigrid", "factors") if n_states > self.grouped else ("sweeps", "factors")
        return ("sweeps", "krylov", "factors") if n_states <= self.factored else ("sweeps", "krylov")

    def sweeps(self, backend: Backend) -> tuple[int, int]:
        """Sweeps of an evaluation, and of a stationary distribution, at most."""
        times = self.longer if self.fill_up(backend) else 1
        return times * self.evaluation, times * self.stationary

    def fill_up(self, backend: Backend) -> bool:
        """Whether factors of a chain are dense whatever its size."""
        return backend.n_transitions > self.wide * backend.n_pairs


class Backup(NamedTuple):
    """A policy that is best at some relative values, with the error of those values."""

    pi: Vector  # (SA,)
    e: Vector  # (S,), maximum of q over the actions, soft or hard, minus h
    low: float  # min e
    high: float  # max e
    top: float  # max q - h: the ceiling before the quotas' dual value is taken off


class Way(Protocol):
    """A way of solving a policy's chain; each answer comes with an estimate of how exact it is."""

    def evaluate(self, chain: Rows, h: Vector, e: Vector, tol: float) -> tuple[Vector, float]:
        """Relative values of the policy whose backup at h is off by e, and the span of what is left."""

    def stationary(self, chain: Rows, nu: Vector, tol: float) -> tuple[Vector, float]:
        """Stationary distribution of a chain from a guess, and its L1 error."""

    def biases(self, chain: Rows, F: Block, H: Block | None, columns: int, tol: float) -> tuple[Block, float]:
        """Bias of the first columns of F from a guess, and the largest span of what is left."""


class Residuals(Protocol):
    """What a certificate needs where the arrays are: products with the rounding errors added outward."""

    def top(self, h: Vector, mu: Floats, pay: float, size: float) -> float:
        """Largest ``pay * r + G.T mu + P h - h``; ``|h| <= size``."""

    def mean_bounds(
        self, pi: Vector, k: int, h: Vector, size_f: float, size: float
    ) -> tuple[Vector, float, float]:
        """How far h is off as the bias of quota k (of r: -1), and bounds on its long-run mean."""

    def defect(self, pi: Vector) -> float:
        """Relative error of an entry of the policy's chain, against rows that add up to one."""

    def push(self, turned: Rows, x: Vector) -> Vector:
        """Return x P, from the transpose of P."""

    def transposed(self, chain: Rows) -> Rows:
        """Transpose of a chain."""

    def column_sizes(self, turned: Rows) -> Vector:
        """Entries of each column, (S,)."""

    def earned(self, x: Vector) -> tuple[float, float]:
        """Sums of ``r x`` and of ``|r| x`` over the pairs."""

    def columns(self, count: int) -> Block:
        """Room for so many columns over the states."""


class Backend(Protocol):
    """Where a problem's arrays are, and what is computed there."""

    device: str  # "cpu" or "cuda"
    stated: Any  # the problem, wherever it is
    tuning: ChainTuning
    n_states: int
    n_pairs: int
    n_quotas: int
    at_least: Floats  # (K,)
    at_most: Floats
    base: float  # reward that becomes 0
    scale: float  # and what becomes 1
    sweeps: int  # sweeps over vectors so far
    margin: float  # room with which a share must meet its bound for the certificate to prove that it does

    @property
    def n_transitions(self) -> int:
        """Transitions of the model."""

    @property
    def host(self) -> Problem | None:
        """The problem, unless it is on a GPU only."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the quotas, (K,)."""

    @property
    def each_state(self) -> bool:
        """Whether every state has a quota of its own, in the order of the states."""

    @property
    def residuals(self) -> Residuals | None:
        """None where the certificate is evaluated from the problem itself."""

    def require_memory(self, columns: int) -> None:
        """Say what a solve takes that keeps so many pairs of vectors, or raise where there is too little."""

    def put(self, vector: Any) -> Vector:
        """Bring a vector to where the arrays are."""

    def get(self, vector: Vector) -> Any:
        """Bring a vector back."""

    def full(self, value: float) -> Vector:
        """Vector over the states with one value."""

    def improve(self, h: Vector, mu: Floats, tau: float) -> Backup:
        """Softmax policy of r + G.T mu at relative values h."""

    def greedy(self, h: Vector, mu: Floats, choice: Vector, tie: float) -> tuple[Vector, Backup]:
        """Best pair of every state at h, the old one where it is within tie of it."""

    def first_pairs(self) -> Vector:
        """First pair of every state."""

    def play(self, choice: Vector) -> Vector:
        """Policy of one pair in every state."""

    def uniform(self) -> Vector:
        """Every action of a state with the same probability."""

    def read_policy(self, x: Vector, towards: Vector | None) -> Vector:
        """Policy of an occupancy; states without mass get an action towards the rest."""

    def follow(self, pi: Vector) -> Rows:
        """Chain of a policy."""

    def way(self, name: str, **how: Any) -> Way:
        """One of the ways to solve chains: "sweeps", "multigrid" (CPU only), "krylov" or "factors"."""

    def patient(self) -> Way:
        """One way for chains on which sweeps stop short."""

    def stationary(self, pi: Vector, start: Vector | None = None) -> tuple[Vector, float]:
        """Stationary distribution of a policy from a guess and its error, infinite where it is not one."""

    def remembered(self, pi: Vector, sweeps: int, enough: float) -> float:
        """What sweeps of a policy's chain leave of the span of a random function, until that is enough."""

    def totals(self, pi: Vector, nu: Vector, e: Vector) -> tuple[Floats, float, float]:
        """Share of each quota, reward, and mean of e under a policy and its stationary distribution."""

    def occupancy(self, pi: Vector, nu: Vector) -> Vector:
        """Share of time of each pair."""

    def among(self, quotas: Ints) -> Backend | None:
        """The same arrays with some of the quotas only; None where they cannot be picked."""

    def quota_block(self, pi: Vector, shares: Floats) -> Block:
        """What each quota counts in each state under a policy, less its share."""

    def curvature(self, pi: Vector, nu: Vector, H: Block) -> Floats:
        """Mean covariance of the quotas' pair values under the policy, (K, K)."""

    def shift(self, h: Vector, H: Block, d: Floats) -> Vector:
        """Return h + H d."""

    def by_quota(self) -> tuple[Layout | None, Place, KernelSet]:
        """The problem with states and pairs ordered by quota, and the functions of the per-state solver."""


class Bounds(Protocol):
    """What is asked of the shares: by a problem, or a backend."""

    @property
    def at_least(self) -> Floats: ...

    @property
    def at_most(self) -> Floats: ...


def bounded(asked: Bounds) -> Bools:
    """Whether each quota asks for something, (K,); labels of a model are quotas that do not."""
    return np.asarray((asked.at_least > 0) | (asked.at_most < 1))
