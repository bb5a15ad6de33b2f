"""The array functions of the dual solvers on a GPU: the twin of `kernels.bellman.Sweeps`.

Vectors are CuPy arrays. Sums over columns of a chain are added in the order in which threads come by, so
the last digits of two runs may differ.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np

from fairmdp.device_problem import DeviceProblem
from fairmdp.kernels.bellman import FACTORED, RARE, Backup, Chain, Factors
from fairmdp.kernels.cuda.chains import follow, transposed
from fairmdp.kernels.cuda.launcher import Launcher, Variant

_LOOK, _LARGE = 4, 3_000_000  # sweeps from one look at what is left to the next, below so many states
EPS = float(np.finfo(float).eps)

Kind = TypeVar("Kind", bound="CudaSweeps")


class CudaSweeps:
    """`kernels.bellman.Sweeps` on a device; rewards are ``(r - base) / scale``.

    ``margin`` is the room with which a share must meet its bound for the certificate to prove that it does.
    """

    def __init__(
        self, launcher: Launcher, problem: DeviceProblem, base: float, scale: float, margin: float = 1e-11
    ) -> None:
        mdp = problem.mdp
        self.launcher, self.problem, self.margin = launcher, problem, margin
        self.n_states, self.n_pairs, self.n_quotas = mdp.n_states, mdp.n_pairs, problem.n_quotas
        self.damping = 0.0
        self.most = 300  # sweeps of one call
        self.sweeps = 0  # so far, counted over vectors
        self._pay = float(base), float(scale)
        self._P = mdp.row, mdp.col, mdp.val
        self._G = *problem.sets, int(problem.by_state)
        self._model = Variant(1, mdp.row.dtype == np.int64, mdp.val.dtype == np.float32)
        self._rows = self._model._replace(lanes=launcher.lanes(mdp.col.size / max(self.n_pairs, 1)))
        self._columns = self._model._replace(lanes=launcher.lanes(self.n_quotas))
        self._backups = self._rows._replace(lanes=launcher.few_lanes(mdp.col.size / max(self.n_pairs, 1)))
        self._chunk = launcher.chunk(self.n_states, self._backups)
        # Asking a device how it fares takes as long as a sweep over a small model.
        self._look = _LOOK if self.n_states < _LARGE else 1
        self._width = self.width(self.n_quotas)

    def put(self, vector: Any) -> Any:
        """Bring a vector to the device."""
        return self.launcher.put(vector)

    def get(self, vector: Any) -> Any:
        """Bring a vector back."""
        return self.launcher.get(vector)

    def full(self, value: float) -> Any:
        """Vector over the states with one value."""
        return self.launcher.xp.full(self.n_states, value)

    def made(self, kind: type[Kind]) -> Kind:
        """Another kernel set for the same model."""
        return kind(self.launcher, self.problem, *self._pay, self.margin)

    def patient(self) -> CudaSweeps:
        """These functions for chains on which sweeps stop short: factors, or Krylov spaces."""
        from fairmdp.kernels.cuda.krylov import CudaKrylov

        kind = CudaFactored if 1 < self.n_states <= FACTORED else CudaKrylov
        return self if type(self) is kind else self.made(kind)

    def width(self, columns: int) -> int:
        """Length of a row of so many columns: rows begin where sectors of memory do."""
        lanes = self.launcher.lanes(columns)
        return -(-columns // lanes) * lanes

    def improve(self, h: Any, mu: Any, tau: float) -> Backup:
        """Softmax policy of r + G.T mu at relative values h."""
        pi, e = self._of_pairs(), self._vector()
        numbers = self._backup("soft_states", mu, float(tau), RARE, h, pi, e, columns=3)
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
        return self.read_policy(self.launcher.xp.ones(self.n_pairs), self.first_pairs(), 0.0)

    def read_policy(self, x: Any, choice: Any, least: float) -> Any:
        """Policy of an occupancy; one of one pair in states whose share of time is not above the least."""
        pi, ptr = self.launcher.xp.empty(self.n_pairs), self.problem.mdp.ptr
        self.launcher.launch(
            self._model, "policy_states", self.n_states, self.n_states, ptr, x, choice, float(least), pi
        )
        return pi

    def greedy(self, h: Any, mu: Any, choice: Any, tie: float) -> tuple[Any, Backup]:
        """Best pair of every state at h, the old one where it is within tie of it."""
        pi, e, choice = self._of_pairs(), self._vector(), self.put(choice).astype(np.int64)
        numbers = self._backup("greedy_states", mu, float(tie), h, choice, pi, e, columns=2)
        low, high = self.get(numbers).tolist()
        return choice, Backup(pi, e, low, high, high)

    def follow(self, pi: Any) -> Chain:
        """Chain of a policy."""
        return follow(self.launcher, self._rows, self.problem.mdp.ptr, self._P, pi)

    def settle(self, chain: Chain, h: Any, e: Any, tol: float) -> tuple[Any, float]:
        """Relative values of the policy whose backup at h is off by e, and the span of what is left."""
        variant, xp = self._of_chain(chain), self.launcher.xp
        h, work, out = h + (1 - self.damping) * e, xp.empty_like(e), xp.empty_like(e)
        last, span = xp.zeros(2), math.inf
        for _ in range(0, self.most, self._look):
            numbers = xp.empty((self._look, 2))
            for row in numbers:
                last = self.launcher.reduce(
                    variant, "value_sweep", self.n_states, self.n_states, *chain, self.damping, last, e, out,
                    h, out=row,
                )  # fmt: skip
                e, out, work = out, work, out
            self.sweeps += self._look
            low, high = self.get(last).tolist()
            span = high - low
            if span <= tol:
                break
        return h, span

    def law(self, chain: Chain, nu: Any, tol: float) -> tuple[Any, float]:
        """Long-run law of a chain from a guess, and an estimate of its L1 error."""
        turned, xp = transposed(self.launcher, chain), self.launcher.xp
        variant = self._of_chain(chain)
        numbers = xp.ones(2)  # change, mass
        work, out = xp.empty_like(nu), xp.empty_like(nu)
        last, rate, error = math.inf, 0.0, math.inf
        for _ in range(0, self.most, self._look):
            ends = xp.empty((self._look, 2))
            for row in ends:
                numbers = self.launcher.reduce(
                    variant, "law_sweep", self.n_states, self.n_states, *turned, self.damping, numbers, nu,
                    out, out=row,
                )  # fmt: skip
                nu, out, work = out, work, out
            self.sweeps += self._look
            for change in self.get(ends)[:, 0].tolist():
                rate = max(change / last, 0.95 * rate)  # complex eigenvalues make single ratios oscillate
                last = change
                error = change / (1 - rate) if rate < 1 else math.inf
                if error <= tol or change <= 1e-15:
                    return nu / numbers[1], error
        return nu / numbers[1], error

    def totals(self, pi: Any, nu: Any, e: Any) -> tuple[Any, float, float]:
        """Share of each quota, reward, and mean of e under a policy and its law."""
        mdp, K = self.problem.mdp, self.n_quotas
        args = self.n_states, K, mdp.ptr, *self._G, mdp.r, *self._pay, pi, nu, e
        sums = self.launcher.sums(self._model, "totals", self.n_states, *args, columns=K + 2)
        numbers = self.get(sums)
        return numbers[:K], float(numbers[K]), float(numbers[K + 1])

    def occupancy(self, pi: Any, nu: Any) -> Any:
        """Share of time of each pair under a policy and its law."""
        x = self._of_pairs()
        ptr = self.problem.mdp.ptr
        self.launcher.launch(self._model, "occupancy", self.n_states, self.n_states, ptr, pi, nu, x)
        return x

    def block(self, chain: Chain, pi: Any, shares: Any, H: Any | None, tol: float) -> tuple[Any, float]:
        """Bias of every quota's set, rows of K floats and some padding, and the largest span left."""
        K, F = self.n_quotas, self._quota_block(pi, shares)
        return self._block_sweeps("block_sweep", chain, F, F if H is None else H, K, tol)

    def biases(self, chain: Chain, F: Any, columns: int, tol: float) -> tuple[Any, float]:
        """Bias of the first columns of F, (S, wider), in double precision, and the largest span left."""
        return self._block_sweeps("wide_block_sweep", chain, F, F, columns, tol)

    def curvature(self, pi: Any, nu: Any, H: Any) -> Any:
        """Mean covariance of the quotas' pair values under the policy, (K, K)."""
        launcher, xp, mdp, K = self.launcher, self.launcher.xp, self.problem.mdp, self.n_quotas
        played = xp.empty(self.n_states, np.int64)
        launcher.launch(self._model, "mixed_states", self.n_states, self.n_states, mdp.ptr, pi, played)
        states = xp.flatnonzero(played)
        ends = xp.cumsum(played[states])
        C = np.zeros((K, K))
        if states.size == 0 or K == 0:
            return C
        total = int(ends[-1])
        D = xp.empty((K, total))
        launcher.launch(
            self._columns, "deviations", states.size, states.size, K, self._width, total, states,
            ends - played[states], mdp.ptr, *self._P, *self._G, pi, nu, H, D,
        )  # fmt: skip
        pairs = K * (K + 1) // 2
        sums = launcher.sums(self._model, "gram", total, total, D, columns=pairs, rows=pairs)
        C[np.tril_indices(K)] = self.get(sums)
        return C + np.tril(C, -1).T

    def shift(self, h: Any, H: Any, d: Any) -> Any:
        """Return h + H d."""
        out = self._vector()
        self.launcher.launch(
            self._model,
            "shift",
            self.n_states,
            self.n_states,
            self.n_quotas,
            self._width,
            h,
            H,
            self.put(d),
            out,
        )
        return out

    def top(self, h: Any, mu: Any, pay: float, size: float) -> float:
        """Largest ``pay * r + G.T mu + P h - h`` with its rounding error; ``|h| <= size``."""
        mdp = self.problem.mdp
        return float(
            self._reduce(
                "ceiling_states", self._chunk, mdp.ptr, *self._P, mdp.r, float(pay), *self._G, self.put(mu),
                h, float(size), self._of_pairs(), columns=1, variant=self._backups,
            )[0]
        )  # fmt: skip

    def mean_bounds(self, pi: Any, k: int, h: Any, size_f: float, size: float) -> tuple[Any, float, float]:
        """Bounds on the long-run mean of quota k (or of r, k = -1) from a guess h of its bias.

        The first of the results is how far h is off at each state.
        """
        mdp, e = self.problem.mdp, self._vector()
        low, high = self.get(
            self._reduce(
                "mean_bounds", mdp.ptr, *self._P, mdp.r, *self._G, k, pi, h, float(size_f), float(size), e,
                columns=2,
            )
        ).tolist()  # fmt: skip
        return e, low, high

    def defect(self, pi: Any) -> float:
        """Bound on the relative error of an entry of the policy's chain, against rows that add up to one."""
        mdp = self.problem.mdp
        numbers = self._reduce("defects", mdp.ptr, mdp.row, mdp.val, pi, columns=2, variant=self._rows)
        actions = int((mdp.ptr[1:] - mdp.ptr[:-1]).max())
        return (actions + 6) * EPS + 2 * float(numbers.sum())

    def push(self, turned: Chain, x: Any) -> Any:
        """Return x P, from the transpose of P."""
        ones, out = self.launcher.xp.ones(2), self._vector()
        self._reduce("law_sweep", *turned, 0.0, ones, x, out, columns=2, variant=self._of_chain(turned))
        return out

    def _block_sweeps(
        self, kernel: str, chain: Chain, F: Any, source: Any, columns: int, tol: float
    ) -> tuple[Any, float]:
        """H <- F + P H from a source, column by column, until every residual has span <= tol."""
        launcher, n, width = self.launcher, self.n_states, F.shape[1]
        variant = self._model._replace(lanes=launcher.lanes(columns))
        spare = [launcher.xp.empty_like(F), launcher.xp.empty_like(F)]
        board = launcher.board(2 * columns, n, variant)
        span, given = (math.inf if columns else 0.0), source
        for _ in range(self.most if columns else 0):
            target = spare.pop()
            for first in range(0, columns, variant.lanes):
                launcher.launch(
                    variant, kernel, n, n, columns, width, first, *chain, self.damping, F, source, target,
                    board,
                )  # fmt: skip
            self.sweeps += columns
            ends = self.get(launcher.fold(2 * columns, n, variant, columns, columns))
            span = float((ends[columns:] - ends[:columns]).max())
            if source is not given:
                spare.append(source)
            source = target
            if span <= tol:
                break
        return source, span

    def _backup(self, name: str, mu: Any, *args: Any, columns: int) -> Any:
        """A reduction over the states that begins with r + G.T mu + P h."""
        mdp = self.problem.mdp
        return self._reduce(
            name, self._chunk, mdp.ptr, *self._P, mdp.r, *self._pay, *self._G, self.put(mu), *args,
            columns=columns, variant=self._backups,
        )  # fmt: skip

    def _quota_block(self, pi: Any, shares: Any) -> Any:
        F = self.launcher.xp.empty((self.n_states, self._width), np.float32)
        self.launcher.launch(
            self._model, "quota_block", self.n_states, self.n_states, self.n_quotas, self._width,
            self.problem.mdp.ptr, *self._G, pi, self.put(shares), F,
        )  # fmt: skip
        return F

    def _vector(self) -> Any:
        return self.launcher.xp.empty(self.n_states)

    def _of_pairs(self) -> Any:
        return self.launcher.xp.empty(self.n_pairs)

    def _of_chain(self, chain: Chain) -> Variant:
        return self._model._replace(lanes=self.launcher.row_lanes(chain.cols.size / self.n_states))

    def _reduce(self, name: str, *args: Any, columns: int, variant: Variant | None = None) -> Any:
        """A reduction over the states."""
        variant = variant or self._model
        return self.launcher.reduce(variant, name, self.n_states, self.n_states, *args, columns=columns)


class CudaFactored(CudaSweeps):
    """The same functions with every chain factored on the CPU: for small chains that mix slowly."""

    restart = 1e-12
    _pin = 0
    _factored: tuple[Any, Factors] | None = None

    def settle(self, chain: Chain, h: Any, e: Any, tol: float) -> tuple[Any, float]:
        """Relative values of the policy whose backup at h is off by e."""
        return h + self.put(self._factors(chain).bias(self.get(e)[:, None])[:, 0]), 0.0

    def law(self, chain: Chain, nu: Any, tol: float) -> tuple[Any, float]:
        """Long-run law of a chain."""
        law = self._factors(chain).law()
        self._pin = int(np.argmax(law))
        return self.put(law), 0.0

    def block(self, chain: Chain, pi: Any, shares: Any, H: Any | None, tol: float) -> tuple[Any, float]:
        """Bias of every quota's set, rows of K floats and some padding."""
        F = self.get(self._quota_block(pi, shares))
        return self.put(self._factors(chain).bias(F).astype(np.float32)), 0.0

    def biases(self, chain: Chain, F: Any, columns: int, tol: float) -> tuple[Any, float]:
        """Bias of every column of F, as exact as can be: zero in a state where the chain often is."""
        self.law(chain, F, tol)
        self._factored = None
        return self.put(self._factors(chain).bias(self.get(F))), 0.0

    def _factors(self, chain: Chain) -> Factors:
        if self._factored is None or self._factored[0] is not chain.vals:
            host = Chain(*(self.get(array) for array in chain))
            self._factored = chain.vals, Factors(host, self._pin, self.restart)
        return self._factored[1]
