"""The array functions that solvers ask for, on one GPU.

Vectors are CuPy arrays. Sums over columns of a chain are added in the order in which threads come by, so
the last digits of two runs may differ.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fairmdp.backends.base import ROUNDING, Backup, ChainTuning, Way, rare
from fairmdp.backends.by_quota import KernelSet, Layout, Place, layout, place
from fairmdp.backends.cuda.chains import ROOM, follow, transposed
from fairmdp.backends.cuda.device_problem import DeviceProblem
from fairmdp.backends.cuda.launcher import MOST_QUOTAS, Launcher, Variant, open_cuda
from fairmdp.backends.cuda.near import MANY, Near
from fairmdp.backends.cuda.proximal import CudaProximal
from fairmdp.backends.cuda.ways import Krylov, Sweeping
from fairmdp.backends.factoring import Factoring
from fairmdp.chains.bicgstab import scattered
from fairmdp.chains.policy import NO_MASS
from fairmdp.chains.sweeps import ChainRows
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Ints
from fairmdp.model.problem import Problem

# Products are quick and factors are made on the host.
ON_GPU = ChainTuning(cheap=0, evaluation=60, stationary=200)

EPS = float(np.finfo(float).eps)
_OWN_MARGIN = 1e-11  # of shares that the GPU's certificate proves
_LOOK, _LARGE = 4, 3_000_000  # sweeps from one look at what is left to the next, below so many states
_EXACT, _CLOSE = 1e-13, 1e-11  # error of a stationary distribution to aim at, and to be content with
_PLAYED = 2.5  # actions of a state that a soft policy plays, on average, at most


class _Arrays(NamedTuple):
    """A model and its quotas on the device, and how many threads share what."""

    ptr: Any
    P: tuple[Any, Any, Any]
    G: tuple[Any, Any, Any, int]
    rows: Variant  # a row of the model
    backups: Variant  # the same where other rows are read at the same time
    chunk: int  # states that a block takes at a time


class CudaBackend:
    """A `Backend` of a problem on the host, which is uploaded at its first use, or of one that is on the GPU.

    ``launchers`` opens the kernels of one source, `open_cuda` if nothing is said.
    """

    device = "cuda"

    def __init__(
        self, problem: Problem | DeviceProblem, launchers: Any = None, *, tuning: ChainTuning | None = None
    ) -> None:
        mdp = problem.mdp
        self.stated, self.tuning = problem, tuning or ON_GPU
        self.host = problem if isinstance(problem, Problem) else None
        self.n_states, self.n_pairs, self.n_quotas = mdp.n_states, mdp.n_pairs, problem.n_quotas
        self.names, self.at_least, self.at_most = tuple(problem.names), problem.at_least, problem.at_most
        low, high = float(mdp.r.min()), float(mdp.r.max())
        self.base, self.scale = low, (high - low) or 1.0
        # The CPU's certificate has the last word where there is one, so its margin counts.
        self.margin = _OWN_MARGIN if self.host is None else ROUNDING * self.n_states
        self.sweeps = 0
        self._launchers = launchers or open_cuda
        self._followed: tuple[Any, ChainRows] | None = None
        self._turned: ChainRows | None = None
        # Asking a device how it fares takes as long as a sweep over a small model.
        self.look = _LOOK if self.n_states < _LARGE else 1

    @cached_property
    def launcher(self) -> Launcher:
        """What runs the kernels."""
        found: Launcher = self._launchers("sweeps")
        return found

    @cached_property
    def problem(self) -> DeviceProblem:
        """The problem on the GPU."""
        if isinstance(self.stated, DeviceProblem):
            return self.stated
        return DeviceProblem.of(self.stated, self.launcher.put)

    @property
    def residuals(self) -> CudaBackend:
        """What a certificate needs here."""
        return self

    @property
    def each_state(self) -> bool:
        """Whether every state has a quota of its own, in the order of the states."""
        return self.problem.each_state

    def require_memory(self, columns: int) -> None:
        """Say what a solve takes that keeps so many pairs of vectors, or raise where there is too little."""
        if self.n_quotas > MOST_QUOTAS:
            raise ProblemError(
                f"this method takes up to {MOST_QUOTAS} quotas on a GPU, there are {self.n_quotas}\n"
                '  use method "proximal", or device="cpu"'
            )
        entries, width = self.n_transitions, self.width(self.n_quotas)
        chain = min(entries, int(_PLAYED * entries * self.n_states / max(self.n_pairs, 1)))
        policies, vectors, blocks = 4, 16, 4
        working = (
            policies * 8 * self.n_pairs
            + (vectors + 2 * columns) * 8 * self.n_states
            + blocks * 4 * width * self.n_states
            + 3 * 8 * self.n_states
            + self.n_pairs  # which ones are near their state's best
            + 2 * 12 * chain  # a chain and its transpose
            + 16 * min(chain, ROOM)
        )
        self._require(self.launcher, working, "problem" in vars(self))

    def _require(self, launcher: Launcher, working: int, uploaded: bool = False) -> None:
        model = 0 if uploaded or self.host is None else _model_bytes(self.host)
        what = "this solve" if model else "this solve, beside the model,"
        launcher.require_memory(model + working, self.n_states, what)

    @property
    def n_transitions(self) -> int:
        """Transitions of the model."""
        return self.host.mdp.P.nnz if self.host is not None else self.problem.mdp.n_transitions

    @cached_property
    def variant(self) -> Variant:
        """What the kernels are compiled for, a thread for each item."""
        mdp = self.problem.mdp
        return Variant(1, mdp.row.dtype == np.int64, mdp.val.dtype == np.float32)

    @cached_property
    def _arrays(self) -> _Arrays:
        mdp, launcher = self.problem.mdp, self.launcher
        successors = self.n_transitions / max(self.n_pairs, 1)
        backups = self.variant._replace(lanes=launcher.few_lanes(successors))
        return _Arrays(
            mdp.ptr,
            (mdp.row, mdp.col, mdp.val),
            (*self.problem.sets, int(self.problem.by_state)),
            self.variant._replace(lanes=launcher.lanes(successors)),
            backups,
            launcher.chunk(self.n_states, backups),
        )

    @cached_property
    def _near(self) -> Near:
        return Near(self.launcher, self.n_pairs, self.n_pairs >= MANY and self.problem.by_state)

    def span_between(self, a: Any, b: Any) -> float:
        """Span of the difference of two vectors over the states."""
        low, high = self.get(self._reduce("apart", a, b, columns=2)).tolist()
        return float(high - low)

    def put(self, vector: Any) -> Any:
        """Bring a vector to the device."""
        return self.launcher.put(vector)

    def get(self, vector: Any) -> Any:
        """Bring a vector back."""
        return self.launcher.get(vector)

    def full(self, value: float) -> Any:
        """Vector over the states with one value."""
        return self.launcher.xp.full(self.n_states, value)

    def width(self, columns: int) -> int:
        """Length of a row of so many columns: rows begin where sectors of memory do."""
        lanes = self.launcher.lanes(columns)
        return -(-columns // lanes) * lanes

    def improve(self, h: Any, mu: Any, tau: float) -> Backup:
        """Softmax policy of r + G.T mu at relative values h."""
        pi, e = self._of_pairs(), self._vector()
        told = self._near.look(h, tau, self.span_between)
        numbers = self._backup("soft_states", mu, float(tau), rare(tau), h, *told, pi, e, columns=3)
        return Backup(pi, e, *self.get(numbers).tolist())

    def first_pairs(self) -> Any:
        """First pair of every state."""
        return self.problem.mdp.ptr[:-1].copy()

    def play(self, choice: Any) -> Any:
        """Policy of one pair in every state."""
        pi = self.launcher.xp.zeros(self.n_pairs)
        pi[choice] = 1.0
        return pi

    def uniform(self) -> Any:
        """Every action of a state with the same probability."""
        return self._read(self.launcher.xp.ones(self.n_pairs), self.first_pairs(), 0.0)

    def read_policy(self, x: Any, towards: Any) -> Any:
        """Policy of an occupancy; states without mass do what `towards` does, pairs of the states."""
        return self._read(x, self.first_pairs() if towards is None else towards, NO_MASS / self.n_states)

    def _read(self, x: Any, choice: Any, least: float) -> Any:
        """Policy of an occupancy; one of one pair in states whose share of time is not above the least."""
        return self._over_states("policy_states", x, choice, float(least), self._of_pairs())

    def greedy(self, h: Any, mu: Any, choice: Any, tie: float) -> tuple[Any, Backup]:
        """Best pair of every state at h, the old one where it is within tie of it."""
        pi, e, choice = self._of_pairs(), self._vector(), self.put(choice).astype(np.int64)
        numbers = self._backup("greedy_states", mu, float(tie), h, choice, pi, e, columns=2)
        low, high = self.get(numbers).tolist()
        return choice, Backup(pi, e, low, high, high)

    def follow(self, pi: Any) -> ChainRows:
        """Chain of a policy; the last one is kept, so nobody may change a policy that was followed."""
        if self._followed is None or self._followed[0] is not pi:
            self._followed = self._turned = None
            there = self._arrays
            self._followed = pi, follow(self.launcher, there.rows, there.ptr, there.P, pi)
        return self._followed[1]

    def way(self, name: str, **how: Any) -> Way:
        """One of the ways to solve chains."""
        if name == "sweeps":
            return Sweeping(self, **how)
        return Krylov(self) if name == "krylov" else Factoring(self, **how)

    def patient(self) -> Way:
        """One way for chains on which sweeps stop short: factors, or Krylov spaces."""
        return self.way("factors" if 1 < self.n_states <= self.tuning.patient else "krylov")

    def stationary(self, pi: Any, start: Any = None) -> tuple[Any, float]:
        """Stationary distribution of a policy from a guess, and an estimate of its error."""
        chain, nu = self.follow(pi), self.full(1 / self.n_states) if start is None else start
        nu, error = self.way("sweeps", damping=0.1).stationary(chain, nu, _EXACT)
        return (nu, error) if error <= _CLOSE else self.patient().stationary(chain, nu, _EXACT)

    def remembered(self, pi: Any, sweeps: int, enough: float) -> float:
        """What sweeps of a policy's chain leave of the span of a scattered function, until that is enough."""
        f = scattered(self.full(0.0))
        span = float(f.max() - f.min()) or 1.0
        way = self.way("sweeps", damping=0.1, most=sweeps)
        _, left = way.evaluate(self.follow(pi), self.full(0.0), f, enough * span)
        return left / span

    def totals(self, pi: Any, nu: Any, e: Any) -> tuple[Any, float, float]:
        """Share of each quota, reward, and mean of e under a policy and its stationary distribution."""
        there, K = self._arrays, self.n_quotas
        args = there.ptr, *there.G, self.problem.mdp.r, self.base, self.scale, pi, nu, e
        n = self.n_states
        numbers = self.get(self.launcher.sums(self.variant, "totals", n, n, K, *args, columns=K + 2))
        return numbers[:K], float(numbers[K]), float(numbers[K + 1])

    def occupancy(self, pi: Any, nu: Any) -> Any:
        """Share of time of each pair under a policy and its stationary distribution."""
        return self._over_states("occupancy", pi, nu, self._of_pairs())

    def among(self, quotas: Ints) -> None:
        """Quotas on a GPU are few enough to be looked at together."""

    def quota_block(self, pi: Any, shares: Any) -> Any:
        """What each quota counts in each state, less its share: rows of K floats and some padding."""
        width, n, there = self.width(self.n_quotas), self.n_states, self._arrays
        F = self.launcher.xp.empty((n, width), np.float32)
        args = n, self.n_quotas, width, there.ptr, *there.G, pi, self.put(shares), F
        self.launcher.launch(self.variant, "quota_block", n, *args)
        return F

    def curvature(self, pi: Any, nu: Any, H: Any) -> Any:
        """Mean covariance of the quotas' pair values under the policy, (K, K)."""
        launcher, xp, there, K = self.launcher, self.launcher.xp, self._arrays, self.n_quotas
        played = self._over_states("mixed_states", pi, xp.empty(self.n_states, np.int64))
        states = xp.flatnonzero(played)
        ends = xp.cumsum(played[states])
        C = np.zeros((K, K))
        if states.size == 0 or K == 0:
            return C
        total = int(ends[-1])
        D = xp.empty((K, total))
        launcher.launch(
            self.variant._replace(lanes=launcher.lanes(K)), "deviations", states.size, states.size, K,
            self.width(K), total, states, ends - played[states], there.ptr, *there.P, *there.G, pi, nu, H, D,
        )  # fmt: skip
        pairs = K * (K + 1) // 2
        sums = launcher.sums(self.variant, "gram", total, total, D, columns=pairs, rows=pairs)
        C[np.tril_indices(K)] = self.get(sums)
        return C + np.tril(C, -1).T

    def shift(self, h: Any, H: Any, d: Any) -> Any:
        """Return h + H d."""
        n, K, out = self.n_states, self.n_quotas, self._vector()
        self.launcher.launch(self.variant, "shift", n, n, K, self.width(K), h, H, self.put(d), out)
        return out

    def top(self, h: Any, mu: Any, pay: float, size: float) -> float:
        """Largest ``pay * r + G.T mu + P h - h`` with its rounding error; ``|h| <= size``."""
        there = self._arrays
        numbers = self._reduce(
            "ceiling_states", there.chunk, there.ptr, *there.P, self.problem.mdp.r, float(pay), *there.G,
            self.put(mu), h, float(size), self._of_pairs(), columns=1, variant=there.backups,
        )  # fmt: skip
        return float(numbers[0])

    def mean_bounds(self, pi: Any, k: int, h: Any, size_f: float, size: float) -> tuple[Any, float, float]:
        """Bounds on the long-run mean of quota k (or of r, k = -1) from a guess h of its bias.

        The first of the results is how far h is off at each state.
        """
        there, e = self._arrays, self._vector()
        args = there.ptr, *there.P, self.problem.mdp.r, *there.G, k, pi, h, float(size_f), float(size), e
        low, high = self.get(self._reduce("mean_bounds", *args, columns=2)).tolist()
        return e, low, high

    def defect(self, pi: Any) -> float:
        """Bound on the relative error of an entry of the policy's chain, against rows that add up to one."""
        mdp = self.problem.mdp
        args = mdp.ptr, mdp.row, mdp.val, pi
        numbers = self._reduce("defects", *args, columns=2, variant=self._arrays.rows)
        actions = int((mdp.ptr[1:] - mdp.ptr[:-1]).max())
        return (actions + 6) * EPS + 2 * float(numbers.sum())

    def push(self, turned: ChainRows, x: Any) -> Any:
        """Return x P, from the transpose of P."""
        ones, out = self.launcher.xp.ones(2), self._vector()
        self._reduce("stationary_sweep", *turned, 0.0, ones, x, out, columns=2, variant=self.of_chain(turned))
        return out

    def transposed(self, chain: ChainRows) -> ChainRows:
        """Transpose of a chain, entries of a row in any order; that of the chain followed last is kept."""
        if self._followed is None or self._followed[1] is not chain:
            return transposed(self.launcher, chain)
        if self._turned is None:
            self._turned = transposed(self.launcher, chain)
        return self._turned

    def column_sizes(self, turned: ChainRows) -> Any:
        """Entries of each column, from the transpose."""
        return turned.starts[1:] - turned.starts[:-1]

    def earned(self, x: Any) -> tuple[float, float]:
        """Sums of ``r x`` and of ``|r| x`` over the pairs."""
        r = self.problem.mdp.r
        return float((r * x).sum()), float((abs(r) * x).sum())

    def columns(self, count: int) -> Any:
        """Room for so many columns over the states."""
        return self.launcher.xp.zeros((self.n_states, self.width(count)))

    def by_quota(self) -> tuple[Layout | None, Place, KernelSet]:
        """The problem with states and pairs ordered by quota, and the functions of the per-state solver."""
        launcher: Launcher = self._launchers("proximal")
        kernels = CudaProximal(launcher)
        # Centre, q, z, u and the like over pairs, vectors over states, the rows of the curvature, a chain.
        S, SA = self.n_states, self.n_pairs
        working = 13 * 8 * SA + 30 * 8 * S + 4 * 12 * self.n_transitions * S // SA
        if self.host is not None:
            order, r = layout(self.host), (self.host.mdp.r - self.base) / self.scale
            self._require(launcher, working)
            return order, place(self.host, order, r, kernels), kernels
        if not self.each_state:
            raise ProblemError(
                "the per-state solver takes a problem on the device only with a quota for every state, "
                'in the order of the states\n  use solve_dual, or a Problem with device="cuda"'
            )
        self._require(launcher, working)
        return None, kernels.place(self.problem), kernels

    def _backup(self, name: str, mu: Any, *args: Any, columns: int) -> Any:
        """A reduction over the states that begins with r + G.T mu + P h."""
        there, r = self._arrays, (self.problem.mdp.r, self.base, self.scale)
        model = there.chunk, there.ptr, *there.P, *r, *there.G, self.put(mu)
        return self._reduce(name, *model, *args, columns=columns, variant=there.backups)

    def _over_states(self, name: str, *args: Any) -> Any:
        """Run a kernel over the states; its last argument is what it fills."""
        n = self.n_states
        self.launcher.launch(self.variant, name, n, n, self._arrays.ptr, *args)
        return args[-1]

    def _vector(self) -> Any:
        return self.launcher.xp.empty(self.n_states)

    def _of_pairs(self) -> Any:
        return self.launcher.xp.empty(self.n_pairs)

    def of_chain(self, chain: ChainRows) -> Variant:
        """Lanes that share a row of a chain."""
        return self.variant._replace(lanes=self.launcher.few_lanes(chain.cols.size / self.n_states))

    def _reduce(self, name: str, *args: Any, columns: int, variant: Variant | None = None) -> Any:
        """A reduction over the states."""
        variant = variant or self.variant
        return self.launcher.reduce(variant, name, self.n_states, self.n_states, *args, columns=columns)


def _model_bytes(problem: Problem) -> int:
    mdp = problem.mdp
    wide = 8 if mdp.P.nnz >= 2**31 else 4
    return int(
        8 * (mdp.n_states + 2 * mdp.n_pairs) + wide * mdp.n_pairs + 12 * mdp.P.nnz + 12 * problem.members.nnz
    )
