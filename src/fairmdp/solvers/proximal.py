"""A quota for every state, or for thousands of groups: proximal points and a semismooth Newton method.

With as many quotas as states the linear program has no small part to enumerate, but its dual can be
smoothed. Write an occupancy as ``x_i = w_s z_i`` with weights w near the uniform policy's shares, and let C
be the z that have mass 1 and meet the quotas. Around a centre z_k ::

    phi(h) = max_{z in C}  sum_i w_s [ q_i z_i - (z_i - z_k,i)^2 / (2 sigma) ],   q = r + P h - h_s

is convex and once differentiable; its gradient is the flow residual of the maximiser z(h), a projection
onto C that costs one pass. Newton's method with conjugate gradients minimises it, z(h) becomes the next
centre, and sigma grows. A small ``tau sigma |h - h_k|_w^2 / 2`` is added: at some states on their quota h is
hardly determined, and without it Newton sends them far beyond the next kink of phi.

Two by-products close the gap long before h and z converge:

* **Ceiling.** Every h proves ``D(h) = (1 - R) max_g T_g + sum_g rho_g T_g``, T_g the largest q of a group and
  R the sum of quotas: the prices ``mu_g = max T - T_g`` are the best ones for this h. A few Bellman sweeps
  on the groups above their quota lower it further.
* **Fair policies.** The quotas inside C are raised by a factor that costs a fraction of the gap; z is moved
  to an occupancy that meets them, and the flow residual that is left is smaller than the raise, so the
  shares of the policy's own chain meet the true quotas. The move is a proximal step from z itself with a
  small sigma: compared with the nearest occupancy it loses at most ``distance^2 / (2 sigma)``, where that
  nearest one loses in proportion to the distance, on pairs that z had ruled out.

Array work goes through a `KernelSet`, so that it can run elsewhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairmdp.backends.base import Backend
from fairmdp.backends.cuda.device_problem import DeviceProblem
from fairmdp.backends.memory import out_of_memory_is_a_message
from fairmdp.backends.opening import open_backend
from fairmdp.certificate.claim import certify, certify_policy
from fairmdp.certificate.restated import by_uniform_steps
from fairmdp.chains.chain import Chain
from fairmdp.chains.policy import policy_of
from fairmdp.deadline import STOPS, Stop, stop_of
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Note, Remark, Solution, Status
from fairmdp.solvers.conflict import owed_too_much
from fairmdp.solvers.infeasible import explain
from fairmdp.solvers.prices import check_start
from fairmdp.solvers.request import Progress, Request


@dataclass(frozen=True)
class Tuning:
    """Step sizes, accuracies and patience, by the garnets and queues of `benchmarks/problems`."""

    outer: int = 250  # proximal steps before giving up
    patience: int = 20  # steps without halving the gap after which sigma may grow further and tau falls
    sigma: float = 1.0
    sigma_limit: float = 4e2
    sigma_most: float = 1e6
    sigma_growth: float = 1.5  # faster growth leaves the inner problems unsolved
    large: int = 300_000  # states from which on sigma may grow further, and a polish takes twice the steps
    large_limit: float = 1e3
    inner: float = 1.0  # inner problems stop at |g| < inner min(1, |z - z_k|) / sqrt(sigma)
    newton: int = 25
    cg: int = 500
    cg_tol: float = 0.2
    damping: float = 1.0  # of Newton's steps, in units of |g|: less takes more CG
    tau: float = 3e-4  # weight of the dual proximal term, at most ...
    tau_gap: float = 30.0  # ... and at most this many gaps
    polish: int = 20  # Newton steps of a polish
    polish_sigma: float = 0.03  # more keeps off bad pairs better, and takes more CG
    polish_cg_tol: float = 0.05
    polish_fine: float = 0.3  # flow residual that a polish may leave, in units of the raise
    polish_every: int = 2  # proximal steps from one policy to the next
    raised: float = 0.05  # most by which quotas are raised
    raise_cost: float = 0.3  # part of the gap that raising them may cost
    sweeps: int = 15
    nearby: float = 0.03  # gap below which a policy is worth making
    weight_floor: float = 0.05  # least weight of a state, relative to an even split
    explain_states: int = 300  # states up to which the reason for infeasibility is looked for


USUAL = Tuning()


@by_uniform_steps
@out_of_memory_is_a_message()
def solve_proximal(
    problem: Problem | DeviceProblem,
    *,
    tol: float = 1e-6,
    start: Solution | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
    device: str = "cpu",
    tuning: Tuning = USUAL,
) -> Solution:
    """Best gain under many quotas on disjoint sets of states, to a certified gap.

    Meant for models that mix well, with a quota for every state or for thousands of groups, where the
    linear program is too large to be solved exactly. On slowly mixing models, and where nearly all quotas
    bind, `solve_lp` is better.

    Parameters are those of `solve`. Every quota is an ``at_least`` over states, no state in two of them, and
    a `DeviceProblem` has one for every state; a `Problem` is certified on the CPU in either case. Progress is
    reported after every proximal step; ``tuning`` changes the time that the answer takes.

    Returns
    -------
    Solution
        Gain and shares are those of the policy's own chain, proved by the certificate. Ctrl-C returns the
        best that was found until then. Quotas that cannot be met are INFEASIBLE with the reason on small
        models, and UNDECIDED with a proof in ``bias`` and ``prices`` on large ones.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> from fairmdp.solvers.proximal import solve_proximal
    >>> sol = solve_proximal(scenarios.three_state(rho=[0.1, 0.1, 0.25]))
    >>> sol.status.value, round(sol.gain, 5)
    ('optimal', 0.44342)

    References
    ----------
    .. [1] Li, Sun and Toh, *An asymptotically superlinearly convergent semismooth Newton augmented
       Lagrangian method for linear programming*, SIAM J. Optim. 30 (2020). There the quotas would be rows
       of the program; here they are part of the projection.
    """
    return run_proximal(open_backend(problem, device), Request.of(tol, start, seconds, progress), tuning)


def run_proximal(backend: Backend, request: Request, tuning: Tuning = USUAL) -> Solution:
    """`solve_proximal` where a problem is already."""
    if backend.host is not None:
        crowded = owed_too_much(backend.host, tol=request.tol, method="proximal", deadline=request.deadline)
        if crowded is not None:
            return crowded
    run = _Run(backend, request, tuning)
    stopped = Stop.NOT
    try:
        for _ in range(tuning.outer):
            run.step()
            if request.progress is not None:
                request.progress(run.report())
            if run.impossible or run.gap <= 0.95 * request.tol:
                break
    except STOPS as stop:
        stopped = stop_of(stop)
    if backend.host is None:
        return run.certify_there(stopped)
    if run.impossible and backend.n_states <= tuning.explain_states:
        return explain(backend.host, tol=request.tol, method="proximal", start=run.began)
    return run.certify(backend.host, stopped)


@dataclass(eq=False)
class _Point:
    """A dual point h, what follows from it, and how Newton's steps are damped there."""

    h: Floats  # (S,)
    q: Floats  # (SA,), r + P h - h_s
    z: Floats  # (SA,), maximiser of the inner problem
    theta: Floats  # (G,), its thresholds
    lam: float  # the common one
    extra: Floats  # (S,), damping of single states beyond the common one
    radius: float  # longest step of a state that is not damped further

    @property
    def loose(self) -> Bools:
        """Groups above their quota, (G,)."""
        return self.theta >= self.lam


@dataclass(frozen=True, eq=False)
class _Fair:
    """A policy that meets the quotas, by its own chain as far as floating point goes."""

    x: Floats  # (SA,)
    gain: float
    slack: float


class _Run:
    """The state of a solve, in the order of the layout and in rewards scaled to [0, 1]."""

    def __init__(self, backend: Backend, request: Request, tuning: Tuning) -> None:
        self.backend, self.tol, self.deadline, self.tuning = backend, request.tol, request.deadline, tuning
        self.began = time.perf_counter()
        self.layout, place, kernels = backend.by_quota()
        self.kernels = kernels
        self.model, self.r, self.s_of, uniform, self.rho = place
        self.free = max(1.0 - float(self.rho.sum()), 0.0)
        self.scratch = kernels.scratch_for(self.model)
        nu = self.model.w.copy()
        settled = kernels.stationary(self.model, self.scratch, uniform, nu, 1e-10, 500) <= 1e-10
        w = np.maximum(nu, tuning.weight_floor / nu.size)
        self.model = self.model._replace(w=w / w.sum())
        self.spread = uniform * nu[self.s_of]  # the uniform policy's occupancy
        self.centre = self.spread / self.model.w[self.s_of]
        self.point = self._origin(self.centre)
        self.kernels.advantages(self.model, self.r, self.point.h, self.point.q)
        large = nu.size >= tuning.large
        self.limit, self.polish = (
            (tuning.large_limit, 2 * tuning.polish) if large else (tuning.sigma_limit, tuning.polish)
        )
        self.sigma, self.raise_ = tuning.sigma, self._raise_within(tuning.raised)
        self.tau = tuning.tau
        self.halved = (math.inf, 0.0)  # gap when it had last halved, and at which step
        self.upper, self.witness = math.inf, (self.point.h.copy(), np.zeros_like(self.rho))
        self.impossible = False
        self.best: _Fair | None = None
        self.anchor: Floats | None = None  # an occupancy that meets the quotas
        self.last = self.spread
        if settled and (self._shares(self.spread) >= self.rho).all():
            self._offer(self.spread)
        self.due = 0.0  # step at which the next policy is made
        self.raise_cost = tuning.raise_cost
        self.counters = {"steps": 0.0, "newton": 0.0, "cg": 0.0}
        if request.start is not None:
            self._start_from(request.start)

    @property
    def lower(self) -> float:
        """Gain of the best fair policy so far."""
        return -math.inf if self.best is None else self.best.gain

    @property
    def gap(self) -> float:
        """Distance between what was found and what is possible."""
        return self.upper - self.lower

    def _start_from(self, start: Solution) -> None:
        """Begin at a solution of the same model under other quotas."""
        layout, point, put = self.layout, self.point, self.kernels.put
        if layout is None:
            raise ProblemError("a problem on the device is solved from scratch; leave out start")
        check_start(start, self.backend.n_states, self.backend.n_pairs)
        point.h[:] = put(start.bias[layout.states] / self.backend.scale)
        self.kernels.advantages(self.model, self.r, point.h, point.q)
        if start.has_policy:
            self.centre = put(start.occupancy[layout.pairs]) / self.model.w[self.s_of]
            self.sigma = math.sqrt(self.tuning.sigma * self.tuning.sigma_limit)

    def step(self) -> None:
        """One proximal step: inner problem, ceiling, fair policy, next centre."""
        self.counters["steps"] += 1
        tuning, point, c = self.tuning, self.point, self.rho * (1 + self.raise_)
        tau = min(self.tau, tuning.tau_gap * self.gap)
        self._minimise(
            point, self.r, self.centre, self.sigma, tau, c, self._close, tuning.newton, tuning.cg_tol
        )
        self._lower_ceiling()
        self.centre = point.z.copy()
        if self.best is None:
            self._look_for_proof()
        promised = float((self.r * point.z * self.model.w[self.s_of]).sum())
        near = self.upper - promised < tuning.nearby or self.counters["steps"] > 2 * tuning.patience
        if near and self.counters["steps"] >= self.due:
            before = self.gap
            mixed = self._make_policy(c)
            self.due = self.counters["steps"] + tuning.polish_every
            # Where several prices are optimal, raised quotas cost the dearest: more than was reckoned.
            if mixed > 0:
                self.raise_cost = min(2 * self.raise_cost, tuning.raise_cost)
            elif self.gap > 0.8 * before:
                self.raise_cost = max(0.5 * self.raise_cost, 0.1 * tuning.raise_cost)
        tops = self.witness[1]
        cost = float((self.rho * (tops.max() - tops)).sum())  # what raising all quotas by 1 would cost
        self.raise_ = self._raise_within(
            self.raise_cost * max(self.gap, 0.0) / cost if cost > 0 else tuning.raised
        )
        if self.gap < 0.5 * self.halved[0]:
            self.halved = (self.gap, self.counters["steps"])
        elif self.counters["steps"] > self.halved[1] + tuning.patience:
            self.halved = (self.gap, self.counters["steps"])
            self.limit = min(10 * self.limit, tuning.sigma_most)
            self.tau *= 0.1
        self.sigma = min(self.sigma * tuning.sigma_growth, self.limit)

    def report(self) -> dict[str, float]:
        """Where the run stands, in the user's units."""
        base, scale = self.backend.base, self.backend.scale
        return {
            "upper": base + scale * self.upper,
            "lower": base + scale * self.lower,
            "gap": scale * self.gap,
            "worst_slack": math.nan if self.best is None else self.best.slack,
            "seconds": time.perf_counter() - self.began,
        }

    def certify_there(self, stopped: Stop) -> Solution:
        """Let the certificate say what was reached where the arrays are, for a quota for every state."""
        h, tops = self.witness
        found = self.last if self.best is None else self.best.x
        policy = np.empty_like(found)
        self.kernels.policy(self.model, found / self.model.w[self.s_of], self.point.q, policy)
        scale = self.backend.scale
        prices = self.kernels.get((float(tops.max()) - tops) * scale)
        return certify(
            self.backend, policy, h * scale, prices, tol=self.tol, method="proximal", counters=self.counters,
            began=self.began, nu=self._visits(found), stopped=stopped,
        )  # fmt: skip

    def certify(self, problem: Problem, stopped: Stop) -> Solution:
        """Let the certificate say what was reached."""
        layout, get, scale = self.layout, self.kernels.get, self.backend.scale
        assert layout is not None
        h, tops = map(get, self.witness)
        bias = np.empty(h.size)
        bias[layout.states] = h * scale
        mu = (float(tops.max()) - tops) * scale
        prices = np.where(layout.group_of >= 0, mu[layout.group_of], 0.0)
        notes = (Note(Remark.IMPOSSIBLE),) if self.impossible else ()
        found, spread = get(self.last if self.best is None else self.best.x), get(self.spread)
        # Classes that never meet have several distributions; a little of a connected occupancy ties them.
        for tie in (0.0, 0.1 * self.tol, 1e-4, 1e-2):
            x = np.empty(problem.mdp.n_pairs)
            x[layout.pairs] = found if tie == 0 else (1 - tie) * found + tie * spread
            solution = certify_policy(
                problem, policy_of(problem.mdp, x), bias, prices, tol=self.tol, method="proximal",
                counters={**self.counters, "seconds": time.perf_counter() - self.began}, notes=notes,
                stopped=stopped, device=self.backend.device,
            )  # fmt: skip
            if solution.status is not Status.UNDECIDED or self.best is None:
                break
        return solution

    def _minimise(
        self,
        point: _Point,
        r: Floats,
        centre: Floats,
        sigma: float,
        tau: float,
        c: Floats,
        close: Callable[[_Point, float, float], bool],
        most: int,
        cg_tol: float,
    ) -> None:
        """Newton's method for phi and its proximal term from a point, in place."""
        k, model, scratch = self.kernels, self.model, self.scratch
        u, none = np.zeros_like(point.q), np.zeros_like(point.q)
        g, d, start = np.zeros_like(point.h), np.zeros_like(point.h), point.h.copy()
        pull = tau * sigma
        point.lam, _ = k.project(
            model, scratch, centre, point.q, u, 0.0, sigma, c, point.lam, point.z, point.theta
        )
        for count in range(1, most + 1):
            self.deadline.check()
            norm, worst = k.flow(model, point.z, g)
            if tau:
                norm = k.resist(model, pull, start, point.h, g)
            if close(point, norm, worst):
                break
            common = self.tuning.damping * min(1.0, norm)
            damping = (np.maximum(point.extra, common) + tau) * model.w
            self.counters["newton"] += 1
            self.counters["cg"] += k.direction(
                model, scratch, point.z, point.loose, g / sigma, damping, cg_tol, self.tuning.cg, d
            )
            k.advantages(model, none, d, u)
            longest, slope, drift, curvature = k.along(model, pull, start, point.h, g, d)
            step = self._line_search(point, centre, sigma, c, u, slope, drift, curvature)
            point.radius = _radius(point.radius, step, longest)
            k.advance(model, step, d, u, common, point.radius, point.h, point.q, point.extra)
            if count % 8 == 0:  # rounding adds up
                k.advantages(model, r, point.h, point.q)

    def _line_search(
        self, point: _Point, centre: Floats, sigma: float, c: Floats, u: Floats, slope: float, drift: float,
        curvature: float,
    ) -> float:  # fmt: skip
        """Step at which the slope has fallen to a fifth; z is left there.

        The proximal term adds ``drift + step * curvature`` to the slope.
        """
        k = self.kernels
        low, at_low, high, at_high = 0.0, slope, math.inf, 0.0
        step = 1.0
        for _ in range(12):
            point.lam, here = k.project(
                self.model, self.scratch, centre, point.q, u, step, sigma, c, point.lam, point.z, point.theta
            )
            here += drift + step * curvature
            if abs(here) <= 0.2 * abs(slope):
                break
            if here < 0:
                low, at_low = step, here
            else:
                high, at_high = step, here
            if math.isinf(high):
                secant = step * slope / (slope - here) if here > slope else math.inf
                step *= min(max(secant / step, 1.5), 4.0)
            else:
                secant = (low * at_high - high * at_low) / (at_high - at_low)
                margin = 0.1 * (high - low)
                step = min(max(secant, low + margin), high - margin)
        return step

    def _close(self, point: _Point, norm: float, worst: float) -> bool:
        moved = self.kernels.distance(self.model, point.z, self.centre)
        return norm < self.tuning.inner * min(1.0, moved) / math.sqrt(self.sigma)

    def _lower_ceiling(self) -> None:
        """Keep h, or a copy of it after some sweeps, if it proves more."""
        k, model, point = self.kernels, self.model, self.point
        q, tops = np.empty_like(point.q), np.empty_like(point.theta)
        # A single state at its quota keeps its h: that is where its own price is read off.
        swept = point.loose | (np.diff(model.groups) > 1)
        h = point.h.copy()
        k.sweep(model, self.r, np.where(swept, point.theta / self.sigma, np.nan), h, self.tuning.sweeps)
        for candidate in (point.h, h):
            k.advantages(model, self.r, candidate, q)
            k.tops(model, q, tops)
            ceiling = self._ceiling(tops)
            if ceiling < self.upper:
                self.upper, self.witness = ceiling, (candidate.copy(), tops.copy())

    def _ceiling(self, tops: Floats) -> float:
        """``(1 - R) max T + rho T``."""
        return self.free * float(tops.max()) + float((self.rho * tops).sum())

    def _look_for_proof(self) -> None:
        """Quotas are impossible if h proves a negative ceiling for rewards of 0."""
        h, _ = self.witness
        q, tops = np.empty_like(self.r), np.empty_like(self.rho)
        self.kernels.advantages(self.model, np.zeros_like(self.r), h, q)
        self.kernels.tops(self.model, q, tops)
        if self._ceiling(tops) < -1e-12 * max(1.0, float(np.abs(h).max())):
            self.impossible, self.witness = True, (h, tops)

    def _make_policy(self, c: Floats) -> float:
        """Move z to the raised quotas and the flow equations by a short proximal step; offer its policy."""
        k, model, point = self.kernels, self.model, self.point
        fine = max(self.tuning.polish_fine * self.raise_, 1e-13)
        polished = self._origin(point.z)
        polished.h[:], polished.q[:] = point.h, point.q
        polished.lam = point.lam * self.tuning.polish_sigma / self.sigma
        sigma, done = self.tuning.polish_sigma, lambda _, norm, worst: worst < fine
        self._minimise(polished, self.r, point.z, sigma, 0.0, c, done, self.polish, self.tuning.polish_cg_tol)
        pi = np.empty_like(self.r)
        k.policy(model, polished.z, point.q, pi)
        nu = self._visits(polished.z * model.w[self.s_of])
        if k.stationary(model, self.scratch, pi, nu, 1e-12, 500) > 1e-9:
            nu = self._slow_stationary(pi, nu)
        mixed = self._offer(pi * nu[self.s_of])
        if mixed < 1e-2:
            self.centre = polished.z
        return mixed

    def _offer(self, x: Floats) -> float:
        """Keep an occupancy if it is fair and earns more; returns how much of the anchor was mixed in."""
        shares = self._shares(x)
        short = self.rho - shares
        mixed = 0.0
        if short.max() > 1e-12:
            self.last = x
            if self.anchor is None:
                return 1.0
            room = np.maximum(self._shares(self.anchor) - self.rho, 0.0)
            lacking = np.maximum(short, 0.0)
            mixed = float((lacking / np.where(lacking > 0, lacking + room, 1.0)).max())
            x = (1 - mixed) * x + mixed * self.anchor
            shares = self._shares(x)
        elif self.anchor is None:
            self.anchor = x
        gain = float((self.r * x).sum())
        if gain > self.lower:
            slack = np.where(self.rho > 0, shares - self.rho, math.inf)
            self.best = _Fair(x, gain, float(slack.min()))
        return mixed

    def _slow_stationary(self, pi: Floats, nu: Floats) -> Floats:
        """Stationary distribution that power sweeps do not settle; nu itself where there is more than one."""
        layout, kernels, host = self.layout, self.kernels, self.backend.host
        if layout is None or host is None:
            return nu
        policy = np.empty(pi.size)
        policy[layout.pairs] = kernels.get(pi)
        chain = Chain.of(host.mdp, policy)
        return kernels.put(chain.shares[layout.states]) if len(chain.closed_classes) == 1 else nu

    def _shares(self, x: Floats) -> Floats:
        out = np.empty_like(self.rho)
        self.kernels.shares(self.model, self._visits(x), out)
        return out

    def _visits(self, x: Floats) -> Floats:
        nu = np.empty_like(self.model.w)
        self.kernels.visits(self.model, x, nu)
        return nu

    def _origin(self, z: Floats) -> _Point:
        """The point h = 0 with rewards of 0."""
        w, rho = self.model.w, self.rho
        return _Point(
            np.zeros_like(w), np.zeros_like(z), z.copy(), np.zeros_like(rho), 0.0, np.zeros_like(w), math.inf
        )

    def _raise_within(self, wanted: float) -> float:
        """A raise of the quotas that leaves half of the free time free."""
        owed = 1.0 - self.free
        most = self.tuning.raised
        return min(wanted, most, 0.5 * self.free / owed if owed > 0 else most)


def _radius(radius: float, step: float, longest: float) -> float:
    """Longest move of a state that is not damped, after a step of a direction with such a longest move.

    H hardly sees some states at their quota; Newton sends them far, and the kink where they leave their
    quota ends the step for all.
    """
    if step < 0.3:
        return 3 * step * longest
    if step >= 0.9:
        return 2 * max(radius if math.isfinite(radius) else 0.0, longest)
    return 1.5 * max(step, 0.5) * longest
