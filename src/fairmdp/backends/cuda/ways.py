"""Ways to solve a policy's chain on a GPU: damped sweeps, and BiCGStab where these take too long."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmdp.backends.cuda.launcher import Launcher, Variant
from fairmdp.chains import bicgstab
from fairmdp.chains.sweeps import ChainRows

if TYPE_CHECKING:
    from fairmdp.backends.cuda.backend import CudaBackend


class Sweeping:
    """Sweeps over a chain, at most so many for each answer; they stop short on a chain that mixes slowly."""

    def __init__(self, backend: CudaBackend, damping: float = 0.0, most: int = 300) -> None:
        self._backend, self._launcher, self._n = backend, backend.launcher, backend.n_states
        self._damping, self._most, self._look = damping, most, backend.look

    def evaluate(self, chain: ChainRows, h: Any, e: Any, tol: float) -> tuple[Any, float]:
        """Relative values of the policy whose backup at h is off by e, and the span of what is left."""
        launcher, n, xp = self._launcher, self._n, self._launcher.xp
        variant, each = self._backend.of_chain(chain), self._backend.variant
        ends = launcher.reduce(each, "krylov_ends", n, n, e, e, columns=4)
        h, left = h.copy(), xp.empty(n, np.float32)
        launcher.launch(each, "value_start", n, n, self._damping, ends, e, left, h)
        work, out = xp.empty_like(left), xp.empty_like(left)
        last, span = xp.zeros(2), math.inf
        for _ in range(0, self._most, self._look):
            numbers = xp.empty((self._look, 2))
            for row in numbers:
                args = n, *chain, self._damping, last, left, out, h
                last = launcher.reduce(variant, "value_sweep", n, *args, out=row)
                left, out, work = out, work, left
            self._backend.sweeps += self._look
            low, high = launcher.get(last).tolist()
            span = high - low
            if span <= tol:
                break
        return h, span

    def stationary(self, chain: ChainRows, nu: Any, tol: float) -> tuple[Any, float]:
        """Stationary distribution of a chain from a guess, and an estimate of its L1 error."""
        launcher, n, xp = self._launcher, self._n, self._launcher.xp
        turned, variant = self._backend.transposed(chain), self._backend.of_chain(chain)
        numbers = xp.ones(2)  # change, mass
        work, out = xp.empty_like(nu), xp.empty_like(nu)
        last, rate, error = math.inf, 0.0, math.inf
        for _ in range(0, self._most, self._look):
            ends = xp.empty((self._look, 2))
            for row in ends:
                args = n, *turned, self._damping, numbers, nu, out
                numbers = launcher.reduce(variant, "stationary_sweep", n, *args, out=row)
                nu, out, work = out, work, out
            self._backend.sweeps += self._look
            for change in launcher.get(ends)[:, 0].tolist():
                rate = max(change / last, 0.95 * rate)  # complex eigenvalues make single ratios oscillate
                last = change
                error = change / (1 - rate) if rate < 1 else math.inf
                if error <= tol or change <= 1e-15:
                    return nu / numbers[1], error
        return nu / numbers[1], error

    def biases(self, chain: ChainRows, F: Any, H: Any | None, columns: int, tol: float) -> tuple[Any, float]:
        """Bias of the first columns of F from a guess, and the largest span of what is left."""
        launcher, n, width = self._launcher, self._n, F.shape[1]
        kernel = "block_sweep" if F.dtype == np.float32 else "wide_block_sweep"
        variant = self._backend.variant._replace(lanes=launcher.lanes(columns))
        spare = [launcher.xp.empty_like(F), launcher.xp.empty_like(F)]
        board = launcher.board(2 * columns, n, variant)
        source = given = F if H is None else H
        span = math.inf if columns else 0.0
        for _ in range(self._most if columns else 0):
            target = spare.pop()
            for first in range(0, columns, variant.lanes):
                args = n, columns, width, first, *chain, self._damping, F, source, target, board
                launcher.launch(variant, kernel, n, *args)
            self._backend.sweeps += columns
            ends = launcher.get(launcher.fold(2 * columns, n, variant, columns, columns))
            span = float((ends[columns:] - ends[:columns]).max())
            if source is not given:
                spare.append(source)
            source = target
            if span <= tol:
                break
        return source, span


class Krylov:
    """BiCGStab, see `chains.bicgstab`; products with chains count as sweeps."""

    def __init__(self, backend: CudaBackend) -> None:
        self._backend, self._pin = backend, 0

    def evaluate(self, chain: ChainRows, h: Any, e: Any, tol: float) -> tuple[Any, float]:
        """Relative values of the policy whose backup at h is off by e, and the span of what is left."""
        change, left = self._bias(chain, e, tol)
        h = h + change
        return h - h[self._pin], left  # the constant may be large, and costs digits

    def stationary(self, chain: ChainRows, nu: Any, tol: float) -> tuple[Any, float]:
        """Stationary distribution of a chain from a guess, and an estimate of its L1 error."""
        nu, error, products = bicgstab.stationary(
            self._vectors(self._backend.transposed(chain), 0.0, 0), nu, tol
        )
        self._pin = int(nu.argmax())
        self._backend.sweeps += products
        return nu, error

    def biases(self, chain: ChainRows, F: Any, H: Any | None, columns: int, tol: float) -> tuple[Any, float]:
        """Bias of the first columns of F, and the largest span of what is left."""
        found, span = self._backend.launcher.xp.zeros_like(F), 0.0
        for k in range(columns):
            found[:, k], left = self._bias(chain, F[:, k].astype(np.float64), tol)
            span = max(span, left)
        return found, span

    def _bias(self, chain: ChainRows, f: Any, tol: float) -> tuple[Any, float]:
        answer = bicgstab.solve(self._vectors(chain, 1.0, self._pin), f, tol, span=True)
        self._backend.sweeps += answer.products
        return answer.x, answer.left

    def _vectors(self, chain: ChainRows, lift: float, pin: int) -> CudaVectors:
        backend = self._backend
        return CudaVectors(backend.launcher, backend.of_chain(chain), chain, lift, pin, backend.look)


class CudaVectors(bicgstab.Vectors):
    """`bicgstab.Vectors` of ``x - P x + lift * x[pin]``, with a kernel for each function."""

    def __init__(
        self, launcher: Launcher, rows: Variant, chain: ChainRows, lift: float, pin: int, look: int
    ) -> None:
        self.look = look
        self._launcher, self._rows, self._each = launcher, rows, rows._replace(lanes=1)
        self._n, self._A = chain.starts.size - 1, (*chain, float(lift), pin)

    def product(self, x: Any) -> Any:
        """Product A x."""
        return self.times(x, x)[0]

    def times(self, x: Any, w: Any) -> tuple[Any, Any]:
        """Product A x and its dots."""
        out = self._empty()
        return out, self._reduce(self._rows, "krylov_times", *self._A, x, w, out, columns=2)

    def half(self, r: Any, v: Any, ends: Any, first: Any) -> Any:
        """Residual after the first half of a step."""
        return self._map("krylov_half", r, v, ends, first)

    def ends(self, r: Any, shadow: Any) -> Any:
        """Ends of a residual."""
        return self._reduce(self._each, "krylov_ends", r, shadow, columns=4)

    def step(
        self, x: Any, p: Any, s: Any, t: Any, shadow: Any, ends: Any, first: Any, second: Any
    ) -> tuple[Any, Any]:
        """Move x, in place; the residual then, and its ends."""
        r = self._empty()
        args = p, s, t, shadow, ends, first, second, x, r
        return r, self._reduce(self._each, "krylov_step", *args, columns=4)

    def turn(self, p: Any, r: Any, v: Any, first: Any, second: Any, ends: Any) -> Any:
        """Direction of the next step."""
        return self._map("krylov_turn", p, r, v, first, second, ends)

    def get(self, numbers: Any) -> tuple[float, ...]:
        """Bring numbers to the host."""
        return tuple(self._launcher.get(numbers).tolist())

    def _map(self, kernel: str, *args: Any) -> Any:
        out = self._empty()
        self._launcher.launch(self._each, kernel, self._n, self._n, *args, out)
        return out

    def _reduce(self, variant: Variant, kernel: str, *args: Any, columns: int) -> Any:
        return self._launcher.reduce(variant, kernel, self._n, self._n, *args, columns=columns)

    def _empty(self) -> Any:
        return self._launcher.xp.empty(self._n)
