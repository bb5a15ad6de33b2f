"""Newton's method on the prices of an ordered welfare: many groups on models that mix fast.

The best ordered welfare is the least gain, smoothed, at prices whose order can be that of the weights ::

    minimise over p, q    beta_tau(G.T p + M.T q) - b @ p        q in P(w), the permutahedron of the weights

because ``conj(q)`` is 0 there and of no use elsewhere. Gradient and Hessian of beta_tau are those of
`solvers.dual`. Each step is a quadratic program over P(w), solved by alternating directions, whose
projection is a sort and an isotonic regression. A master program of the same welfare has a row for every two
groups and is degenerate: with fifty groups its simplex steps take half a second for every policy.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from fairmdp.model.checks import Floats
from fairmdp.solvers.prices import dual_value, price_box, tightened
from fairmdp.solvers.request import Request
from fairmdp.solvers.smoothed import Point, Smoothed, StallError, require
from fairmdp.welfare.master import WelfareMaster
from fairmdp.welfare.setting import Setting
from fairmdp.welfare.shapes import Shape

_HOT = 0.01  # first temperature, of what is paid at the first prices
_COOLING, _CAREFUL, _MANY = 0.15, 0.4, 5  # from one temperature to the next, after few steps and after many
_CALM, _BOLD = 0.3, 3.0  # change of the log-policy that ends a temperature, and one that is not believed
_APART = 3.0  # a temperature is not done before utilities are as even as their prices say, in entropies
_SETTLED = 1e-3  # part of the gap to reach, below which a step has nothing to bring
_STEPS, _PATIENCE, _HALVINGS = 150, 30, 12
_IMPROVEMENTS, _UNSETTLED = 50, 10
_ROUNDS, _RELAXED, _SMALL = 3000, 1.6, 1e-9  # of alternating directions
_MET = 5e-10  # share by which a quota may be missed here: half of what the certificate forgives


class Prices(NamedTuple):
    """Where the prices of quotas and utilities may lie, and what the quotas charge for them."""

    low: Floats  # bounds of the quotas, (n_owed,)
    high: Floats
    weights: Floats  # of an ordered welfare, descending, (groups,)

    def charged(self, y: Floats) -> float:
        """``b @ p``."""
        return dual_value(y[: self.low.size], self.low, self.high)

    def nearest(self, v: Floats, rho: float) -> Floats:
        """Minimise ``rho / 2 |y - v|^2 - b @ p`` over quota prices p and q in the permutahedron."""
        n = self.low.size
        p = v[:n]
        up, down = p + self.low / rho, p + self.high / rho
        p = np.where(up > 0, up, np.where(down < 0, down, 0.0))
        order = np.argsort(-v[n:], kind="stable")
        q = np.empty(order.size)
        ranked = v[n:][order]
        q[order] = ranked - isotonic_regression(ranked - self.weights, increasing=False).x
        return np.append(p, q)

    def step(self, A: Floats, slope: Floats, y: Floats) -> Floats:
        """Minimise ``slope @ (z - y) + (z - y) A (z - y) / 2 - b @ p`` over such prices z."""
        scale, V = np.linalg.eigh(A)
        rho = math.sqrt(scale[-1] * max(scale[0], 1e-6 * scale[-1]))
        aim, z, dual = V.T @ (A @ y - slope), y, np.zeros(y.size)
        size = float(np.abs(y).max(initial=1e-300))
        for _ in range(_ROUNDS):
            free = V @ ((aim + rho * (V.T @ (z - dual))) / (scale + rho))
            mixed = _RELAXED * free + (1 - _RELAXED) * z
            new = self.nearest(mixed + dual, rho)
            dual = dual + mixed - new
            moved, z = max(float(np.abs(new - z).max()), float(np.abs(free - new).max())), new
            if moved <= _SMALL * size:
                break
        return z


class PriceDescent:
    """Newton steps at falling temperatures, and what they have proved so far, in units of the search."""

    def __init__(
        self, setting: Setting, request: Request, master: WelfareMaster, shape: Shape, tol: float
    ) -> None:
        self._master, self._shape, self._scaled, self._tol = master, shape, setting.scaled, tol
        backend = self.backend = setting.backend()
        n_owed, K = setting.owed.size, len(setting.rows)
        self._units = np.append(np.ones(n_owed), setting.scaled.scale)  # shares in the units of prices y
        self._offset = np.append(np.zeros(n_owed), setting.scaled.offset)
        self._ends = low, high = price_box(setting.priced)
        inner = tightened(low, high, max(0.1 * tol, 1.5 * backend.margin))
        self._prices = Prices(inner[0][:n_owed], inner[1][:n_owed], np.sort(shape.w)[::-1])
        self._least_room = np.where(high - low < 1e-7, 0.0, backend.margin) - _MET
        self._size = float(np.ptp(setting.paid) + shape.w.mean() * setting.scaled.scale.max())
        self._first = np.append(np.zeros(n_owed), np.full(K, shape.w.mean()))
        self._smoothed = Smoothed(backend, request._replace(tol=tol), _IMPROVEMENTS, _UNSETTLED)
        self.upper, self.lower, self.steps = math.inf, -math.inf, 0
        self.policy: Any = None
        self.witness: tuple[Any, Floats] = backend.full(0.0), np.zeros(n_owed + K)

    @property
    def counters(self) -> dict[str, float]:
        """What was done so far."""
        return {"steps": self.steps, "sweeps": self.backend.sweeps}

    def run(self) -> bool:
        """Descend; whether the gap was closed."""
        try:
            self._descend()
        except StallError:
            return False
        return self.upper - self.lower <= self._tol

    def _descend(self) -> None:
        y, backend = self._first, self.backend
        tau = _HOT * self._size
        point, H, taken = self._at(y, backend.full(0.0), backend.full(1 / backend.n_states), tau), None, 0
        for self.steps in range(1, _STEPS + 1):
            point = self._record(point)
            if self.upper - self.lower <= 0.9 * self._tol:
                return
            F = backend.quota_block(point.backup.pi, point.shares)
            H, left = self._smoothed.chains.biases(point.chain, F, H, backend.n_quotas, 3e-3)
            require(left <= 0.1)
            point, y, cooled = self._step(point, y, H, taken)
            taken = 0 if cooled else taken + 1
            require(taken <= _PATIENCE)

    def _step(self, point: Point, y: Floats, H: Any, taken: int) -> tuple[Point, Floats, bool]:
        """One Newton step, shortened until it keeps its promise; cools where it changes little."""
        C = self.backend.curvature(point.backup.pi, point.nu, H) * np.outer(self._units, self._units)
        A = C / point.tau
        A += (1e-12 * np.trace(A) + 1e-15) * np.eye(y.size)
        slope = self._units * point.shares + self._offset
        d = self._prices.step(A, slope, y) - y
        change = math.sqrt(max(float(d @ C @ d), 0.0)) / point.tau
        part = min(1.0, _BOLD / change) if change > 0 else 1.0
        for _ in range(_HALVINGS):
            there = y + part * d
            promised = self._prices.charged(there) - self._prices.charged(y)
            promised -= part * float(slope @ d) + part**2 * float(d @ A @ d) / 2
            calm = part * change < _CALM and promised <= 0.1 * point.tau
            tau = self._next_tau(point, taken, promised) if calm else point.tau
            h = self.backend.shift(point.h, H, self._units * (there - y))
            new = self._at(there, h, point.nu, tau)
            if tau < point.tau or self._level(point, y) - self._level(new, there) >= (
                0.1 * promised - 1e-4 * tau  # beta is known to about 1e-4 tau
            ):
                return new, there, tau < point.tau
            part *= 0.5
        raise StallError

    def _at(self, y: Floats, h: Any, nu: Any, tau: float) -> Point:
        return self._smoothed.evaluate(self._units * y, h, nu, tau)

    def _level(self, point: Point, y: Floats) -> float:
        """What is minimised."""
        return point.beta + float(self._offset @ y) - self._prices.charged(y)

    def _next_tau(self, point: Point, taken: int, promised: float) -> float:
        """Temperature to go on with: lower while entropy costs too much, or where nothing else is left."""
        if self._apart(point) > max(_APART * point.entropy, self._tol):
            return point.tau
        if point.entropy <= 0.3 * self._tol:
            settled = promised <= _SETTLED * self._tol and self._met(point)
            return point.tau * _CAREFUL if settled else point.tau
        cooling = _COOLING if taken < _MANY else _CAREFUL
        return point.tau * max(cooling, math.sqrt(0.2 * self._tol / point.entropy))

    def _apart(self, point: Point) -> float:
        """What the prices say that the utilities are worth, less what these are."""
        z = self._scaled.of(point.shares)
        q = (point.mu / self._units)[self._scaled.rows]
        return float(q @ z) - self._shape.value(z)

    def _record(self, point: Point) -> Point:
        """Keep the best ceiling, and the best policy that meets the quotas: what may is looked at closely."""
        if self._met(point, point.error):
            point = self._smoothed.settled(point)
        upper = self._master.ceiling(point.backup.top, point.mu, *self._ends)
        if upper < self.upper:
            self.upper, self.witness = upper, (point.h, point.mu)
        value = point.gain + self._shape.value(self._scaled.of(point.shares))
        if value > self.lower and self._met(point):
            self.lower, self.policy = value, point.backup.pi
        return point

    def _met(self, point: Point, error: float = 0.0) -> bool:
        """Whether the quotas are met with the room that a proof takes, but for an error of the shares."""
        room = np.minimum(point.shares - self._ends[0], self._ends[1] - point.shares)
        return bool((room >= self._least_room - error).all())
