"""Chains that mix slowly, on a GPU: the twin of `kernels.krylov`, without factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairmdp.kernels import bicgstab
from fairmdp.kernels.bellman import Chain
from fairmdp.kernels.cuda.chains import transposed
from fairmdp.kernels.cuda.launcher import Launcher, Variant
from fairmdp.kernels.cuda.sweeps import CudaSweeps


class CudaVectors(bicgstab.Vectors):
    """`bicgstab.Vectors` of ``x - P x + lift * x[pin]``, with a kernel for each function."""

    def __init__(
        self, launcher: Launcher, rows: Variant, chain: Chain, lift: float, pin: int, look: int
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


class CudaKrylov(CudaSweeps):
    """The same functions with every chain solved by BiCGStab; `sweeps` counts products with chains."""

    _pin = 0

    def settle(self, chain: Chain, h: Any, e: Any, tol: float) -> tuple[Any, float]:
        """Relative values of the policy whose backup at h is off by e, and the span of what is left."""
        change, left = self._bias(chain, e, tol)
        h = h + change
        return h - h[self._pin], left  # the constant may be large, and costs digits

    def law(self, chain: Chain, nu: Any, tol: float) -> tuple[Any, float]:
        """Long-run law of a chain from a guess, and an estimate of its L1 error."""
        turned = transposed(self.launcher, chain)
        vectors = CudaVectors(self.launcher, self._of_chain(turned), turned, 0.0, 0, self._look)
        nu, error, products = bicgstab.law(vectors, nu, tol)
        self._pin = int(nu.argmax())
        self.sweeps += products
        return nu, error

    def block(self, chain: Chain, pi: Any, shares: Any, H: Any | None, tol: float) -> tuple[Any, float]:
        """Bias of every quota's set, rows of K floats and some padding, and the largest span left."""
        F = self._quota_block(pi, shares)
        H, span = self.biases(chain, F.astype(np.float64), self.n_quotas, tol)
        return H.astype(np.float32), span

    def biases(self, chain: Chain, F: Any, columns: int, tol: float) -> tuple[Any, float]:
        """Bias of the first columns of F, (S, wider), and the largest span left."""
        H, span = self.launcher.xp.zeros_like(F), 0.0
        for k in range(columns):
            H[:, k], left = self._bias(chain, F[:, k].copy(), tol)
            span = max(span, left)
        return H, span

    def _bias(self, chain: Chain, f: Any, tol: float) -> tuple[Any, float]:
        vectors = CudaVectors(self.launcher, self._of_chain(chain), chain, 1.0, self._pin, self._look)
        answer = bicgstab.solve(vectors, f, tol, span=True)
        self.sweeps += answer.products
        return answer.x, answer.left
