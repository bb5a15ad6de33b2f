"""The price solver: Newton's method on the entropy-smoothed dual, for few quotas on many states.

Let ``beta_tau(mu)`` be the gain of the MDP with rewards ``r + G.T mu`` whose actions are drawn from softmax
policies of temperature tau and paid tau times their entropy. Then ::

    f(mu) = beta_tau(mu) - sum_k b_k mu_k,     b_k = at_least where mu_k > 0, at_most where mu_k < 0

is convex and smooth but for the kinks of ``b``, and bounds the gain of every fair policy from above. With
``nu`` the stationary distribution of the softmax policy pi, and ``h_k`` the bias of the indicator of quota k
under pi ::

    gradient   G x - b,    x = pi nu
    Hessian    (1 / tau) sum_s nu_s Cov_{a ~ pi(s)}(q_k, q_l),    q_k = 1_k + P h_k
    h(mu + d)  h + sum_k d_k h_k  to first order

so a Newton step costs sweeps over one chain with K + 2 vectors, and predicts the relative values of the
next one. As tau goes down the policy becomes optimal; the loss to entropy falls like tau squared where
many states share the burden. The line through the ends of the last two temperatures leads near that of the
next one, and at the end some improvements without entropy halve the gap. Where quotas are many, a step is
about those that have a price or are as near to being broken as the worst is broken; the others cost nothing.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fairmdp.backends.base import Backend
from fairmdp.backends.cuda.device_problem import DeviceProblem
from fairmdp.backends.memory import out_of_memory_is_a_message
from fairmdp.backends.opening import open_backend
from fairmdp.certificate.claim import certify
from fairmdp.certificate.restated import by_uniform_steps
from fairmdp.deadline import STOPS, Stop, stop_of
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Solution, Status
from fairmdp.solvers import conflict
from fairmdp.solvers.colgen import run_colgen
from fairmdp.solvers.infeasible import Witness
from fairmdp.solvers.price_step import price_step
from fairmdp.solvers.prices import dual_value, price_box, start_from, tightened
from fairmdp.solvers.request import Progress, Request
from fairmdp.solvers.smoothed import Point, Smoothed, StallError, require


@dataclass(frozen=True)
class Tuning:
    """Temperatures, in reward spans, and when a step, a temperature or the search is given up."""

    hot: float = 0.01  # first temperature, without ...
    warm: float = 4e-4  # ... and with a start
    cooling: float = 0.15  # factor from one temperature to the next ...
    careful: float = 0.4  # ... and where steps were many
    many: int = 5
    coldest: float = 1e-10
    idle: float = 0.02  # room of every quota at prices 0 with which no step is looked for
    rough: float = 3e-2  # what is left of the quotas' biases that a step is made of ...
    exact: float = 3e-3  # ... and where steps were many
    far: float = 0.1  # quotas missed by so much, in temperatures, are met better first
    calm: float = 0.3  # change of the log-policy, root mean square, below which a temperature is done
    bold: float = 3.0  # and above which a step is not believed
    spent: float = 0.9  # of the tolerance: gap at which the search ends
    first_entropy: float = 0.7  # of the tolerance: what entropy may cost near the end ...
    least_entropy: float = 0.5  # ... and where that is not enough
    nearly: float = 3.0  # of the tolerance: gap at which the ceiling is lowered ...
    hard: int = 6  # ... by so many improvements without entropy, which halve the gap
    least: float = 1e-13  # a step this short says that rounding rules
    steps: int = 300
    patience: int = 80  # steps at one temperature
    improvements: int = 50  # policy improvements of one evaluation
    unsettled: int = 10  # evaluations that may need more
    met: float = 5e-10  # how far a quota may be missed here: half of what the certificate forgives
    crowd: int = 60  # quotas beyond which a step is about those that are priced, broken or nearly so
    narrow: float = 1e-7  # quotas with less room than this cannot be met with a margin
    conflict: conflict.Tuning = conflict.USUAL


USUAL = Tuning()


@by_uniform_steps
@out_of_memory_is_a_message()
def solve_dual(
    problem: Problem | DeviceProblem,
    *,
    tol: float = 1e-6,
    start: Solution | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
    device: str = "cpu",
    tuning: Tuning = USUAL,
) -> Solution:
    """Best gain under quotas by Newton's method on their prices: up to about a hundred quotas, any size.

    ::

        minimise over mu    beta_tau(mu) - b @ mu,    tau -> 0

    Made for chains that mix fast: a million states take about a minute. Small models whose sweeps do not
    converge are factored instead; where Newton's method stalls, `solve_colgen` goes on from its prices,
    on the same device.

    Parameters are those of `solve`. Progress is reported at every temperature; of ``start`` the prices (by
    quota name), the bias and the visitation are taken; ``tuning`` changes the time that the answer takes.

    Returns
    -------
    Solution
        Gain and shares are those of the policy's own chain, proved by the certificate. Ctrl-C ends the
        search early and returns the best policy so far.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> sol = solve_dual(scenarios.three_state(rho=[0.1, 0.1, 0.25]))
    >>> sol.status.value, round(sol.gain, 5), sol.prices.round(3)
    ('optimal', 0.44342, array([0.   , 0.   , 0.521]))
    """
    return run_dual(open_backend(problem, device), Request.of(tol, start, seconds, progress), tuning)


def run_dual(backend: Backend, request: Request, tuning: Tuning = USUAL) -> Solution:
    """`solve_dual` where a problem is already."""
    if backend.n_quotas == 0:
        # No prices to look for: policy iteration is all there is to do.
        return run_colgen(backend, request)
    backend.require_memory(0)
    search = _Search(backend, request, tuning)
    stopped = Stop.NOT
    try:
        stalled = search.run()
    except STOPS as stop:
        stalled, stopped = False, stop_of(stop)
    solution = search.solution(stopped)
    if not stalled or solution.status in (Status.OPTIMAL, Status.INFEASIBLE):
        return solution
    mixture = run_colgen(backend, request._replace(start=solution))
    return replace(mixture, tried=("dual", *mixture.tried))


class _Held(NamedTuple):
    """Quotas whose prices a step may change, where their arrays are, and their biases, (S, quotas)."""

    quotas: Ints
    backend: Backend
    H: Any


class _Search:
    """Newton's method with what it has proved so far, in units of the reward span."""

    def __init__(self, backend: Backend, request: Request, tuning: Tuning) -> None:
        self.backend, self.request, self.tuning, self.tol = backend, request, tuning, request.tol
        self.smoothed = Smoothed(backend, request, tuning.improvements, tuning.unsettled)
        self.began, self.swept = time.perf_counter(), backend.sweeps
        self.low, self.high = price_box(backend)
        self.owed_slack = (
            np.where(self.high - self.low < tuning.narrow, 0.0, backend.margin) - tuning.met
        )  # (K,)
        self.upper, self.lower, self.slack = math.inf, -math.inf, -math.inf
        self.witness = backend.full(0.0), np.zeros(backend.n_quotas)
        self.best: tuple[Any, Any] | None = None  # fair policy that earns most, its stationary distribution
        self.point: Point | None = None
        self.ended: tuple[float, Floats, Any] | None = None  # where the last temperature ended
        self.doubted = False
        self.counters = {"steps": 0.0, "levels": 1.0}

    def run(self) -> bool:
        """Search for prices; returns whether that came to a halt before its end."""
        mu, h, nu = start_from(self.backend, self.request.start)
        tau = self.tuning.hot if self.request.start is None else self.tuning.warm
        for retry in range(1 if self.backend.tuning.fill_up(self.backend) else 2):
            if retry:
                self.smoothed.chains = self.backend.patient()
            if self.point is not None:
                mu, h, nu, tau = self.point.mu, self.point.h, self.point.nu, self.point.tau
            try:
                self._descend(mu, h, nu, tau)
                return False
            except StallError:
                continue
        return True

    def solution(self, stopped: Stop) -> Solution:
        """What the search amounts to."""
        backend = self.backend
        h, mu = self.witness[0] * backend.scale, self.witness[1] * backend.scale
        counters = {**self.counters, "sweeps": backend.sweeps - self.swept}
        if self.upper < 0 and backend.host is not None:
            infeasible = conflict.prove_infeasible(
                backend.host, Witness(backend.get(h), mu), tol=self.tol, method="dual", counters=counters,
                began=self.began, deadline=self.request.deadline, tuning=self.tuning.conflict,
            )  # fmt: skip
            if infeasible is not None:
                return infeasible
        last = self.point and (self.point.backup.pi, self.point.nu)
        policy, nu = self.best or last or (backend.uniform(), None)
        return certify(
            backend, policy, h, mu, nu=nu, tol=self.tol, method="dual", counters=counters,
            began=self.began, stopped=stopped,
        )  # fmt: skip

    def _descend(self, mu: Floats, h: Floats, nu: Floats, tau: float) -> None:
        """Newton steps at falling temperatures until the gap is closed."""
        point = self.smoothed.evaluate(mu, h, nu, tau)
        held: _Held | None = None
        self.ended = None
        radius, taken = 1.0, 0
        for _ in range(self.tuning.steps):
            point = self._record(point)
            done = self.upper - self.lower <= self.tuning.spent * self.tol or self.upper < 0
            if done or point.tau < self.tuning.coldest:
                self._report()
                return
            if not point.mu.any() and self._slack(point) > self.tuning.idle:
                tau = self.tuning.cooling * point.tau
                point = self.smoothed.evaluate(mu, point.h, point.nu, tau, point.entropy_at(tau))
                self.counters["levels"] += 1
                continue
            self.counters["steps"] += 1
            exact = self.tuning.rough if taken < self.tuning.many else self.tuning.exact
            held = self._held(point, held, exact)
            new, radius, cooled = self._step(point, held, radius, taken)
            taken = 0 if cooled else taken + 1
            require(taken <= self.tuning.patience)
            if cooled:
                self._report()
                self.counters["levels"] += 1
            point = new

    def _held(self, point: Point, last: _Held | None, exact: float) -> _Held:
        """Quotas that the next step is about, with their biases at a point."""
        quotas, backend = np.arange(self.backend.n_quotas), self.backend
        if quotas.size > self.tuning.crowd:
            room = self._room(point)
            near = np.flatnonzero((point.mu != 0) | (room <= abs(float(room.min()))))
            part = self.backend.among(near)
            if part is not None:
                quotas, backend = near, part
        F = backend.quota_block(point.backup.pi, point.shares[quotas])
        guess = None if last is None else last.H
        if last is not None and not np.array_equal(quotas, last.quotas):
            _, here, there = np.intersect1d(quotas, last.quotas, return_indices=True)
            guess = F.copy()
            guess[:, here] = last.H[:, there]
        H, left = self.smoothed.chains.biases(point.chain, F, guess, quotas.size, exact)
        require(left <= 0.1)
        return _Held(quotas, backend, H)

    def _step(self, point: Point, held: _Held, radius: float, taken: int) -> tuple[Point, float, bool]:
        """One Newton step in a box that shrinks until the step keeps its promise; cools where calm."""
        low, high = self._aim(point.mu)
        some = held.quotas
        C = held.backend.curvature(point.backup.pi, point.nu, held.H)
        A = C / point.tau
        A += (1e-12 * np.trace(A) + 1e-15) * np.eye(some.size)
        f = point.beta - dual_value(point.mu, low, high)
        shares, now = point.shares[some], point.mu[some]
        while True:
            d = price_step(A, shares, now, low[some], high[some], radius)
            change = math.sqrt(max(float(d @ C @ d), 0.0)) / point.tau
            reach = float(np.abs(d).max(initial=0.0))
            if change > self.tuning.bold:
                if not self.doubted and self._impossible(point):
                    return point, radius, False
                radius = 0.7 * min(radius, reach)
                continue
            mu = point.mu.copy()
            mu[some] = now + d
            gained = float(shares @ d + d @ A @ d / 2)
            promised = dual_value(mu, low, high) - dual_value(point.mu, low, high) - gained
            calm = change < self.tuning.calm and promised <= 0.1 * point.tau
            tau = self._next_tau(point, taken) if calm else point.tau
            h = held.backend.shift(point.h, held.H, d)
            cooled = tau < point.tau
            if cooled:
                mu, h = self._ahead(point, tau, mu, h)
            new = self.smoothed.evaluate(mu, h, point.nu, tau, point.entropy_at(tau))
            if cooled:
                return new, radius, True
            kept = f - new.beta + dual_value(mu, low, high)
            if kept >= 0.1 * promised - 1e-4 * tau:  # beta is known to about 1e-4 tau
                return new, max(radius, 3 * reach) if kept > 0.5 * promised else radius, False
            radius = 0.25 * min(radius, reach)
            require(radius > self.tuning.least)

    def _ahead(self, point: Point, tau: float, mu: Floats, h: Any) -> tuple[Floats, Any]:
        """Prices and relative values at a lower temperature, on the line through the ends of the last two."""
        before, self.ended = self.ended, (point.tau, mu, h)
        if before is None:
            return mu, h
        part = (point.tau - tau) / (before[0] - point.tau)
        further = mu + part * (mu - before[1])
        return np.where(further * mu > 0, further, 0.0), h + part * (h - before[2])

    def _impossible(self, point: Point) -> bool:
        """Whether quotas that ask for large steps are beyond reach, as far as a quick look tells."""
        self.doubted = True
        if self.backend.host is None:
            return False
        short = (point.shares < self.low).astype(float) - (point.shares > self.high)
        proof = conflict.quick_proof(self.backend.host, short, self.tuning.conflict)
        if proof is not None:
            self.witness, self.upper = (self.backend.put(proof.h), proof.mu), -1.0
        return proof is not None

    def _next_tau(self, point: Point, taken: int) -> float:
        """Temperature to go on with: lower while entropy costs too much and the quotas nearly hold."""
        near, tol = point.entropy <= self.tol, self.tol
        # Near the end it is enough that the ceiling can be lowered by itself, once the quotas are met.
        waits = self._slack(point) < -self.tuning.far * point.tau or (near and not self._met(point))
        if point.entropy <= self.tuning.least_entropy * tol or waits:
            return point.tau
        cooling = self.tuning.cooling if taken < self.tuning.many else self.tuning.careful
        goal = 0.8 * self.tuning.least_entropy if near else self.tuning.first_entropy
        return point.tau * max(cooling, math.sqrt(goal * tol / point.entropy))

    def _aim(self, mu: Floats) -> tuple[Floats, Floats]:
        """Quotas tightened, at a tenth of the tolerance, so that they hold once they are nearly met."""
        margin = max(0.1 * self.tol / (1 + float(np.abs(mu).sum())), 1.5 * self.backend.margin)
        return tightened(self.low, self.high, margin)

    def _record(self, point: Point) -> Point:
        """Keep the best ceiling and the best fair policy; one that may be fair is looked at closely."""
        if bool((self._room(point) >= self.owed_slack - point.error).all()):
            point = self.smoothed.settled(point)
        upper = point.backup.top - dual_value(point.mu, self.low, self.high)
        if upper < self.upper:
            self.upper, self.witness = upper, (point.h, point.mu)
        if self._met(point) and point.gain > self.lower:
            self.lower, self.slack = point.gain, self._slack(point)
            self.best = point.backup.pi, point.nu
            if self.tuning.spent * self.tol < self.upper - self.lower <= self.tuning.nearly * self.tol:
                self._lower_ceiling(point)
        self.point = point
        return point

    def _lower_ceiling(self, point: Point) -> None:
        """Improve the policy at a point's prices without entropy, which the point's own ceiling pays for."""
        h, choice = point.h, self.backend.first_pairs()
        for _ in range(self.tuning.hard):
            choice, backup = self.backend.greedy(h, point.mu, choice, 0.0)
            upper, span = backup.top - dual_value(point.mu, self.low, self.high), backup.high - backup.low
            if upper < self.upper:
                self.upper, self.witness = upper, (h, point.mu)
            if span <= 0.05 * self.tol:
                break
            h, _ = self.smoothed.chains.evaluate(self.backend.follow(backup.pi), h, backup.e, 0.1 * span)

    def _met(self, point: Point) -> bool:
        return bool((self._room(point) >= self.owed_slack).all())

    def _room(self, point: Point) -> Floats:
        """Distance of each share from its nearer bound, (K,)."""
        return np.minimum(point.shares - self.low, self.high - point.shares)

    def _slack(self, point: Point) -> float:
        return float(self._room(point).min(initial=math.inf))

    def _report(self) -> None:
        if self.request.progress is not None:
            base, scale = self.backend.base, self.backend.scale
            upper, lower = base + self.upper * scale, base + self.lower * scale
            seconds = time.perf_counter() - self.began
            self.request.progress(
                dict(upper=upper, lower=lower, gap=upper - lower, worst_slack=self.slack, seconds=seconds)
            )
