"""The array functions of the per-state solver on a GPU: the twin of `backends.cpu.proximal`.

Vectors are CuPy arrays. Scattered sums are added in the order in which threads come by, so the last digits
of two runs may differ. Conjugate gradients multiply in single precision, which keeps their vectors in cache,
and add up in double. Ceilings are lowered by Jacobi's sweeps in place of Gauss and Seidel's.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fairmdp.backends.by_quota import ROUNDS, Model, Place
from fairmdp.backends.cuda.chains import follow, transposed
from fairmdp.backends.cuda.device_problem import DeviceProblem
from fairmdp.backends.cuda.launcher import Launcher, Variant

_BLOCK = 3  # as in proximal.cu
_LOOK = 4  # steps of an iteration from one look at its progress to the next


class CudaScratch(NamedTuple):
    """Scratch space of a model."""

    top: Any  # (S,), largest value of each state
    second: Any  # (S,), and the next
    group_of: Any  # (S,), int32
    search: Any  # (4,), for the common threshold


class CudaProximal:
    """`backends.cpu.proximal` on a device."""

    def __init__(self, launcher: Launcher) -> None:
        self.launcher, self.xp = launcher, launcher.xp

    def put(self, array: Any) -> Any:
        """Bring an array to the device."""
        return self.launcher.put(array)

    def get(self, array: Any) -> Any:
        """Bring an array back."""
        return self.launcher.get(array)

    def place(self, problem: DeviceProblem) -> Place:
        """Return a problem with a quota for every state as the solver wants it; the model is not copied."""
        xp, mdp = self.xp, problem.mdp
        low, high = float(mdp.r.min()), float(mdp.r.max())
        s_of = xp.searchsorted(mdp.ptr[1:], xp.arange(mdp.n_pairs), side="right").astype(np.int32)
        counts = mdp.ptr[1:] - mdp.ptr[:-1]
        groups = xp.arange(mdp.n_states + 1, dtype=np.int64)
        weights = xp.full(mdp.n_states, 1 / mdp.n_states)
        model = Model(mdp.row, mdp.col, mdp.val, mdp.ptr, groups, weights)
        r = (mdp.r - low) / ((high - low) or 1.0)
        return Place(model, r, s_of, 1.0 / counts[s_of], self.put(problem.at_least))

    def scratch_for(self, model: Model) -> CudaScratch:
        """Return scratch space that fits a model."""
        xp, w = self.xp, model.w
        return CudaScratch(xp.empty_like(w), xp.empty_like(w), self._group_of(model), xp.zeros(4))

    def advantages(self, model: Model, r: Any, h: Any, out: Any) -> None:
        """Out = r + P h - h_s."""
        n, S = r.size, model.w.size
        self.launcher.launch(self._rows(model), "pair_values", n, n, *model[:3], r, h, out)
        self.launcher.launch(self._alone(model), "less_own", S, S, model.pairs, h, out)

    def project(
        self, model: Model, scratch: CudaScratch, centre: Any, q: Any, u: Any, step: float, sigma: float,
        c: Any, lam: float, z: Any, theta: Any,
    ) -> tuple[float, float]:  # fmt: skip
        """Z = nearest point of the quota polytope to centre + sigma (q + step u); threshold, slope."""
        S, G, w = model.w.size, c.size, model.w
        launcher, groups, search = self.launcher, self._groups(model), scratch.search
        launcher.reduce(
            self._alone(model), "lift", S, S, model.pairs, w, centre, q, u, float(step), float(sigma),
            float(lam), z, scratch.top, scratch.second, search, columns=2,
        )  # fmt: skip
        values = model.pairs, model.groups, w, z, scratch.top, scratch.second, c
        launcher.launch(groups, "thresholds", G, G, *values, ROUNDS, theta)
        for _ in range(0, ROUNDS, _LOOK):
            for _ in range(_LOOK):
                launcher.reduce(groups, "above", G, G, *values, theta, search, columns=3)
            lam, _, _, done = self.get(search).tolist()
            if done:
                break
        (slope,) = self._numbers(
            groups, "lower", G, G, model.pairs, model.groups, w, u, search, z, theta, columns=1
        )
        return lam, slope

    def flow(self, model: Model, z: Any, out: Any) -> tuple[float, float]:
        """Out = inflow less outflow; sqrt(sum out^2 / w) and max |out / w|."""
        S, w = model.w.size, model.w
        self.launcher.launch(self._alone(model), "outflow", S, S, model.pairs, w, z, out)
        self.launcher.launch(self._rows(model), "inflow", S, S, model.pairs, *model[:3], w, z, out)
        worst, square = self._numbers(self._alone(model), "norms", S, S, w, out, columns=2)
        return math.sqrt(square), worst

    def direction(
        self, model: Model, scratch: CudaScratch, z: Any, loose: Any, g: Any, damping: Any, tol: float,
        most: int, d: Any,
    ) -> int:  # fmt: skip
        """Solve ``(H / sigma + diag(damping)) d = -g`` by conjugate gradients from 0; their number."""
        launcher, xp, S = self.launcher, self.xp, model.w.size
        alone = self._alone(model)
        rows = _Rows(self, model, scratch.group_of, z, loose, damping)
        left, p, out = xp.empty(S), xp.empty(S, np.float32), xp.empty(S, np.float32)
        d.fill(0.0)
        now, then, following, curvature = xp.empty(2), xp.empty(2), xp.empty(2), xp.zeros(3)
        rest, of_rows, of_blocks = curvature[:1], curvature[1:2], curvature[2:]
        launcher.reduce(alone, "cg_begin", S, S, g, rows.diagonal, rows.mean, left, p, out=now)
        goal = tol * tol * float(now[0])
        launcher.reduce(alone, "cg_product", S, S, now, rows.total, damping, rows.mean, p, out, out=rest)
        for count in range(1, most + 1):
            rows.hessian(p, out, of_rows, of_blocks)
            step = now, curvature, rows.diagonal, rows.mean, p, out, d, left
            launcher.reduce(alone, "cg_step", S, S, *step, out=following)
            launcher.reduce(
                alone, "cg_turn", S, S, now, following, rows.total, damping, rows.diagonal, rows.mean, left,
                p, out, then, out=rest,
            )  # fmt: skip
            now, then = then, now
            if count % _LOOK == 0 and not float(now[0]) > goal:
                return count
        return most

    def resist(self, model: Model, pull: float, start: Any, h: Any, g: Any) -> float:
        """Add the slope of ``pull |h - start|^2 / 2`` to g; returns sqrt(sum g^2 / w)."""
        args = g.size, model.w, float(pull), start, h, g
        return math.sqrt(self._numbers(self._alone(model), "resist", g.size, *args, columns=1)[0])

    def along(
        self, model: Model, pull: float, start: Any, h: Any, g: Any, d: Any
    ) -> tuple[float, float, float, float]:
        """Longest move of a state in direction d; g @ d; slope and curvature of the pull to the start."""
        args = d.size, model.w, float(pull), start, h, g, d
        numbers = self._numbers(self._alone(model), "along", d.size, *args, columns=4)
        longest, slope, drift, curvature = numbers
        return longest, slope, drift, curvature

    def advance(
        self, model: Model, step: float, d: Any, u: Any, common: float, radius: float, h: Any, q: Any,
        extra: Any,
    ) -> None:  # fmt: skip
        """H += step d and q += step u, in place; damping grows beyond a radius and fades within."""
        args = h.size, q.size, float(step), d, u, float(common), float(radius), h, q, extra
        self.launcher.launch(self._alone(model), "advance", q.size, *args)

    def distance(self, model: Model, z: Any, centre: Any) -> float:
        """sqrt(sum w (z - centre)^2)."""
        S = model.w.size
        (square,) = self._numbers(
            self._alone(model), "distance", S, S, model.pairs, model.w, z, centre, columns=1
        )
        return math.sqrt(square)

    def tops(self, model: Model, q: Any, out: Any) -> None:
        """out_g = max of q over the pairs of a group, (G,)."""
        G = out.size
        self.launcher.launch(self._groups(model), "tops", G, G, model.pairs, model.groups, q, out)

    def sweep(self, model: Model, r: Any, level: Any, h: Any, times: int) -> None:
        """h_s so that ``max_a (r + P h) - h_s = level_g``, all states at once; level NaN: as it is."""
        S, source, target = model.w.size, h, self.xp.empty_like(h)
        group_of = self._group_of(model)
        for _ in range(times):
            self.launcher.launch(
                self._rows(model), "bellman_sweep", S, S, model.pairs, *model[:3], r, group_of, level, source,
                target,
            )  # fmt: skip
            source, target = target, source
        if times % 2:
            h[:] = source

    def policy(self, model: Model, z: Any, q: Any, out: Any) -> None:
        """Out = z over its sum in each state; the pair of largest q where there is none."""
        S = model.w.size
        self.launcher.launch(self._alone(model), "policy", S, S, model.pairs, z, q, out)

    def stationary(
        self, model: Model, scratch: CudaScratch, pi: Any, nu: Any, tol: float, most: int
    ) -> float:
        """Power sweeps of a policy's chain from nu, in place; returns the last relative change."""
        launcher, S = self.launcher, model.w.size
        turned = transposed(launcher, follow(launcher, self._rows(model), model.pairs, model[:3], pi))
        variant = self._alone(model)._replace(lanes=launcher.few_lanes(turned.cols.size / S))
        numbers = self.xp.ones(2)  # change, mass
        source, target = nu.copy(), self.xp.empty_like(nu)
        change = math.inf
        for _ in range(most):
            numbers = launcher.reduce(
                variant, "relative_sweep", S, S, *turned, model.w, numbers, source, target, columns=2
            )
            source, target = target, source
            change = float(numbers[0])
            if change <= tol:
                break
        nu[:] = source / numbers[1]
        return change

    def visits(self, model: Model, x: Any, out: Any) -> None:
        """out_s = sum of x over the pairs of a state, (S,)."""
        self.launcher.launch(self._alone(model), "visits", out.size, out.size, model.pairs, x, out)

    def shares(self, model: Model, nu: Any, out: Any) -> None:
        """out_g = sum of nu over the states of a group, (G,)."""
        self.launcher.launch(self._groups(model), "group_sums", out.size, out.size, model.groups, nu, out)

    def _group_of(self, model: Model) -> Any:
        places = self.xp.arange(model.w.size)
        return self.xp.searchsorted(model.groups[1:], places, side="right").astype(np.int32)

    def _alone(self, model: Model) -> Variant:
        """A thread for each item."""
        return Variant(1, model.indptr.dtype == np.int64, model.data.dtype == np.float32)

    def _rows(self, model: Model) -> Variant:
        """Lanes that share the entries of a row."""
        mean = model.data.size / (model.indptr.size - 1)
        return self._alone(model)._replace(lanes=self.launcher.lanes(mean))

    def _groups(self, model: Model) -> Variant:
        """Lanes that share the states of a group, where these are many."""
        many = model.w.size > 4 * (model.groups.size - 1)
        return self._alone(model)._replace(lanes=self.launcher.lanes(32) if many else 1)

    def _numbers(self, variant: Variant, name: str, items: int, *args: Any, columns: int) -> list[float]:
        found: list[float] = self.get(
            self.launcher.reduce(variant, name, items, *args, columns=columns)
        ).tolist()
        return found


class _Rows:
    """The rows of the curvature: what `_curvature_rows` gathers on the CPU, in the order of groups."""

    def __init__(
        self, kernels: CudaProximal, model: Model, group_of: Any, z: Any, loose: Any, damping: Any
    ) -> None:
        self.launcher, xp = kernels.launcher, kernels.xp
        self._alone = kernels._alone(model)
        S, G, P = model.w.size, loose.size, model[:3]
        kind, leader, scale = xp.empty(G, np.int32), xp.empty(G, np.int64), xp.empty(G)
        self.launcher.launch(
            kernels._groups(model), "curvature_kinds", G, G, model.pairs, model.groups, model.w, z, loose,
            kind, leader, scale,
        )  # fmt: skip
        self.line_starts, entry_starts = xp.zeros(S + 1, np.int64), xp.zeros(S + 1, np.int64)
        self.launcher.launch(
            self._alone, "curvature_sizes", S, S, model.pairs, P[0], group_of, kind, leader, z,
            self.line_starts[1:], entry_starts[1:],
        )  # fmt: skip
        for starts in (self.line_starts[1:], entry_starts[1:]):
            xp.cumsum(starts, out=starts)
        self.n_rows, entries = int(self.line_starts[-1]), int(entry_starts[-1])
        self.starts = xp.full(self.n_rows + 1, entries, np.int64)
        self.to, self.value = xp.empty(entries, np.int32), xp.empty(entries, np.float32)
        self.weight = xp.empty(self.n_rows)
        self.mean = xp.zeros(S, np.float32)
        self.diagonal = damping.astype(np.float32)
        self.total = self.launcher.reduce(
            kernels._rows(model), "curvature_rows", S, S, model.pairs, *P, group_of, kind, leader, scale,
            model.w, z, self.line_starts, entry_starts, self.starts, self.to, self.value, self.weight,
            self.mean, self.diagonal, columns=1,
        )  # fmt: skip
        self.groups, self.blocks = model.groups, xp.flatnonzero(kind == _BLOCK)
        self.seen = xp.empty(self.n_rows if self.blocks.size else 0)
        self._variant = self._alone._replace(lanes=self.launcher.row_lanes(entries / max(self.n_rows, 1)))

    def hessian(self, p: Any, out: Any, of_rows: Any, of_blocks: Any) -> None:
        """Out += H p / sigma but for the mean of the loose rows; what rows and blocks add to p H p."""
        lines, n = (self.starts, self.to, self.value, self.weight), self.n_rows
        self.launcher.reduce(self._variant, "hessian_rows", n, n, *lines, p, out, out=of_rows)
        if self.blocks.size:
            n = self.blocks.size
            self.launcher.reduce(
                self._alone, "hessian_blocks", n, n, self.blocks, self.groups, self.line_starts, *lines, p,
                self.seen, out, out=of_blocks,
            )  # fmt: skip
