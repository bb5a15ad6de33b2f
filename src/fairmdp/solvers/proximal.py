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

from fairmdp.chain import Chain
from fairmdp.device_problem import DeviceProblem
from fairmdp.errors import ProblemError
from fairmdp.kernels import proximal as numba_kernels
from fairmdp.kernels.cuda.launcher import out_of_memory_is_a_message
from fairmdp.kernels.proximal import Place
from fairmdp.problem import Problem
from fairmdp.solution import Solution, Status
from fairmdp.solvers.conclude import check_tol, conclude
from fairmdp.solvers.deadline import STOPS, Deadline, stop_note
from fairmdp.solvers.infeasible import explain
from fairmdp.solvers.on_device import (
    check_device,
    conclude_where,
    proximal_kernels,
    sweeps_on,
)
from fairmdp.solvers.policy import policy_of
from fairmdp.solvers.proximal_layout import KernelSet, Layout, layout, place
from fairmdp.validation import Bools, Floats

Progress = Callable[[dict[str, float]], None]

_OUTER = 250  # proximal steps before giving up
_PATIENCE = 20  # proximal steps without halving the gap after which sigma may grow further and tau falls
_SIGMA, _SIGMA_LIMIT, _SIGMA_MOST = 1.0, 4e2, 1e6
_LARGE = 300_000  # states from which on sigma may grow to _LARGE_LIMIT, and a polish takes twice the steps
_LARGE_LIMIT = 1e3
_SIGMA_GROWTH = 1.5  # faster growth leaves the inner problems unsolved
_INNER = 1.0  # inner problems stop at |g| < _INNER min(1, |z - z_k|) / sqrt(sigma)
_NEWTON = 25
_CG = 500
_CG_TOL = 0.2
_DAMPING = 1.0  # of Newton's steps, in units of |g|: less takes more CG
_TAU = 3e-4  # weight of the dual proximal term, at most ...
_TAU_GAP = 30.0  # ... and at most this many gaps
_POLISH = 20  # Newton steps of a polish
_POLISH_SIGMA = 0.03  # more keeps off bad pairs better, and takes more CG
_POLISH_CG_TOL = 0.05
_POLISH_FINE = 0.3  # flow residual that a polish may leave, in units of the raise
_POLISH_EVERY = 2  # proximal steps from one policy to the next
_RAISE = 0.05  # most by which quotas are raised
_RAISE_COST = 0.3  # part of the gap that raising them may cost
_SWEEPS = 15
_NEARBY = 0.03  # gap below which a policy is worth making
_WEIGHT_FLOOR = 0.05  # least weight of a state, relative to an even split
_EXPLAIN_STATES = 300  # states up to which the reason for infeasibility is looked for

_IMPOSSIBLE = "bias and prices prove that no policy meets the quotas"
_METHOD = "proximal: proximal points and semismooth Newton, quotas in the prox"


@out_of_memory_is_a_message()
def solve_proximal(
    problem: Problem | DeviceProblem,
    *,
    tol: float = 1e-6,
    start: Solution | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
    device: str = "cpu",
) -> Solution:
    """Best gain under many quotas on disjoint sets of states, to a certified gap.

    Meant for models that mix well, with a quota for every state or for thousands of groups, where the
    linear program is too large to be solved exactly. On slowly mixing models, and where nearly all quotas
    bind, `solve_lp` is better.

    Parameters
    ----------
    problem
        Model and quotas; every quota an ``at_least`` over states, no state in two of them. A
        `DeviceProblem` must have a quota for every state, and is solved where it is.
    tol
        Certified gap, relative to the span of the rewards, at which to stop.
    start
        A solution of the same model under other quotas, to start from.
    seconds
        Time after which the search ends as if interrupted.
    progress
        Called after every proximal step with ``upper, lower, gap, worst_slack, seconds``.
    device
        ``"cpu"``, or ``"cuda"`` for the first GPU. A `Problem` is certified on the CPU in either case.

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
    tol = check_tol(tol)
    began = time.perf_counter()
    run = _Run(problem, tol, *_placed(problem, check_device(device)))
    run.deadline = Deadline(seconds)
    if start is not None:
        run.start_from(start)
    notes: tuple[str, ...] = ()
    try:
        for _ in range(_OUTER):
            run.step()
            if progress is not None:
                progress({**run.report(), "seconds": time.perf_counter() - began})
            if run.impossible or run.gap <= 0.95 * tol:
                break
    except STOPS as stop:
        notes = (stop_note(stop),)
    if isinstance(problem, DeviceProblem):
        return run.conclude_on_device(problem, notes, began)
    if run.impossible and problem.mdp.n_states <= _EXPLAIN_STATES:
        return explain(problem, tol=tol, method=_METHOD, start=began)
    return run.conclude(problem, notes, began)


def _placed(problem: Problem | DeviceProblem, on_device: bool) -> tuple[Layout | None, Place, KernelSet]:
    """Layout of a problem, the problem in it, and the kernel set for both."""
    if isinstance(problem, DeviceProblem):
        kernels = proximal_kernels(problem)
        return None, kernels.place(problem), kernels
    order = layout(problem)
    kernel_set: KernelSet = proximal_kernels(problem) if on_device else numba_kernels
    return order, place(problem, order, kernel_set), kernel_set


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

    def __init__(
        self,
        problem: Problem | DeviceProblem,
        tol: float,
        layout: Layout | None,
        place: Place,
        kernels: KernelSet,
    ) -> None:
        self.problem, self.layout, self.tol, self.kernels = problem, layout, tol, kernels
        self.deadline = Deadline(None)
        self.model, self.r, self.s_of, uniform, self.rho, self.base, self.scale = place
        self.free = max(1.0 - float(self.rho.sum()), 0.0)
        self.scratch = kernels.scratch_for(self.model)
        nu = self.model.w.copy()
        settled = kernels.law(self.model, self.scratch, uniform, nu, 1e-10, 500) <= 1e-10
        w = np.maximum(nu, _WEIGHT_FLOOR / nu.size)
        self.model = self.model._replace(w=w / w.sum())
        self.spread = uniform * nu[self.s_of]  # the uniform policy's occupancy
        self.centre = self.spread / self.model.w[self.s_of]
        self.point = self._origin(self.centre)
        self.kernels.advantages(self.model, self.r, self.point.h, self.point.q)
        large = nu.size >= _LARGE
        self.limit, self.polish = (_LARGE_LIMIT, 2 * _POLISH) if large else (_SIGMA_LIMIT, _POLISH)
        self.sigma, self.raise_ = _SIGMA, self._raise_within(_RAISE)
        self.tau = _TAU
        self.halved = (math.inf, 0.0)  # gap when it had last halved, and at which step
        self.upper, self.witness = math.inf, (self.point.h.copy(), np.zeros_like(self.rho))
        self.impossible = False
        self.best: _Fair | None = None
        self.anchor: Floats | None = None  # an occupancy that meets the quotas
        self.last = self.spread
        if settled and (self._shares(self.spread) >= self.rho).all():
            self._offer(self.spread)
        self.due = 0.0  # step at which the next policy is made
        self.raise_cost = _RAISE_COST
        self.counters = {"steps": 0.0, "newton": 0.0, "cg": 0.0}

    @property
    def lower(self) -> float:
        """Gain of the best fair policy so far."""
        return -math.inf if self.best is None else self.best.gain

    @property
    def gap(self) -> float:
        """Distance between what was found and what is possible."""
        return self.upper - self.lower

    def start_from(self, start: Solution) -> None:
        """Begin at a solution of the same model under other quotas."""
        mdp, layout = self.problem.mdp, self.layout
        if layout is None:
            raise ProblemError("a problem on the device is solved from scratch; leave out start")
        if start.bias.shape != (mdp.n_states,) or start.policy.shape != (mdp.n_pairs,):
            raise ProblemError(
                f"start has {start.bias.size} states and {start.policy.size} pairs, "
                f"this model has {mdp.n_states} and {mdp.n_pairs}\n  start from a solution of the same model"
            )
        point = self.point
        point.h[:] = self.kernels.put(start.bias[layout.states] / self.scale)
        self.kernels.advantages(self.model, self.r, point.h, point.q)
        if start.has_policy:
            self.centre = self.kernels.put(start.occupancy[layout.pairs]) / self.model.w[self.s_of]
            self.sigma = math.sqrt(_SIGMA * _SIGMA_LIMIT)

    def step(self) -> None:
        """One proximal step: inner problem, ceiling, fair policy, next centre."""
        self.counters["steps"] += 1
        point, c = self.point, self.rho * (1 + self.raise_)
        tau = min(self.tau, _TAU_GAP * self.gap)
        self._minimise(point, self.r, self.centre, self.sigma, tau, c, self._close, _NEWTON, _CG_TOL)
        self._lower_ceiling()
        self.centre = point.z.copy()
        if self.best is None:
            self._look_for_proof()
        promised = float((self.r * point.z * self.model.w[self.s_of]).sum())
        near = self.upper - promised < _NEARBY or self.counters["steps"] > 2 * _PATIENCE
        if near and self.counters["steps"] >= self.due:
            before = self.gap
            mixed = self._make_policy(c)
            self.due = self.counters["steps"] + _POLISH_EVERY
            # Where several prices are optimal, raised quotas cost the dearest: more than was reckoned.
            if mixed > 0:
                self.raise_cost = min(2 * self.raise_cost, _RAISE_COST)
            elif self.gap > 0.8 * before:
                self.raise_cost = max(0.5 * self.raise_cost, 0.1 * _RAISE_COST)
        tops = self.witness[1]
        paid = float((self.rho * (tops.max() - tops)).sum())  # what raising all quotas by 1 would cost
        self.raise_ = self._raise_within(self.raise_cost * max(self.gap, 0.0) / paid if paid > 0 else _RAISE)
        if self.gap < 0.5 * self.halved[0]:
            self.halved = (self.gap, self.counters["steps"])
        elif self.counters["steps"] > self.halved[1] + _PATIENCE:
            self.halved = (self.gap, self.counters["steps"])
            self.limit = min(10 * self.limit, _SIGMA_MOST)
            self.tau *= 0.1
        self.sigma = min(self.sigma * _SIGMA_GROWTH, self.limit)

    def report(self) -> dict[str, float]:
        """Where the run stands, in the user's units."""
        return {
            "upper": self.base + self.scale * self.upper,
            "lower": self.base + self.scale * self.lower,
            "gap": self.scale * self.gap,
            "worst_slack": math.nan if self.best is None else self.best.slack,
        }

    def conclude_on_device(self, problem: DeviceProblem, notes: tuple[str, ...], began: float) -> Solution:
        """Let the certificate of the device say what was reached, for a quota for every state."""
        h, tops = self.witness
        found = self.last if self.best is None else self.best.x
        policy = np.empty_like(found)
        self.kernels.policy(self.model, found / self.model.w[self.s_of], self.point.q, policy)
        mu = (float(tops.max()) - tops) * self.scale
        return conclude_where(
            problem,
            sweeps_on(problem),
            policy,
            h * self.scale,
            self.kernels.get(mu),
            tol=self.tol,
            method=_METHOD,
            counters=self.counters,
            notes=notes,
            began=began,
        )

    def conclude(self, problem: Problem, notes: tuple[str, ...], began: float) -> Solution:
        """Let the certificate say what was reached."""
        layout, get = self.layout, self.kernels.get
        assert layout is not None
        h, tops = map(get, self.witness)
        bias = np.empty(h.size)
        bias[layout.states] = h * self.scale
        mu = (float(tops.max()) - tops) * self.scale
        prices = np.where(layout.group_of >= 0, mu[layout.group_of], 0.0)
        if self.impossible:
            notes = (*notes, _IMPOSSIBLE)
        if self.kernels is not numba_kernels:
            notes = (*notes, "solved on the GPU, certified on the CPU")
        found, spread = get(self.last if self.best is None else self.best.x), get(self.spread)
        # Classes that never meet have no law of their own; a little of a connected occupancy ties them.
        for tie in (0.0, 0.1 * self.tol, 1e-4, 1e-2):
            x = np.empty(problem.mdp.n_pairs)
            x[layout.pairs] = found if tie == 0 else (1 - tie) * found + tie * spread
            solution = conclude(
                problem,
                policy_of(problem.mdp, x),
                bias,
                prices,
                tol=self.tol,
                method=_METHOD,
                counters={**self.counters, "seconds": time.perf_counter() - began},
                notes=notes,
            )
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
            common = _DAMPING * min(1.0, norm)
            damping = (np.maximum(point.extra, common) + tau) * model.w
            self.counters["newton"] += 1
            self.counters["cg"] += k.direction(
                model, scratch, point.z, point.loose, g / sigma, damping, cg_tol, _CG, d
            )
            k.advantages(model, none, d, u)
            longest, slope, drift, bend = k.along(model, pull, start, point.h, g, d)
            step = self._line_search(point, centre, sigma, c, u, slope, drift, bend)
            point.radius = _radius(point.radius, step, longest)
            k.advance(model, step, d, u, common, point.radius, point.h, point.q, point.extra)
            if count % 8 == 0:  # rounding adds up
                k.advantages(model, r, point.h, point.q)

    def _line_search(
        self, point: _Point, centre: Floats, sigma: float, c: Floats, u: Floats, slope: float, drift: float,
        bend: float,
    ) -> float:  # fmt: skip
        """Step at which the slope has fallen to a fifth; z is left there.

        The proximal term adds ``drift + step * bend`` to the slope.
        """
        k = self.kernels
        low, at_low, high, at_high = 0.0, slope, math.inf, 0.0
        step = 1.0
        for _ in range(12):
            point.lam, here = k.project(
                self.model, self.scratch, centre, point.q, u, step, sigma, c, point.lam, point.z, point.theta
            )
            here += drift + step * bend
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
        return norm < _INNER * min(1.0, moved) / math.sqrt(self.sigma)

    def _lower_ceiling(self) -> None:
        """Keep h, or a copy of it after some sweeps, if it proves more."""
        k, model, point = self.kernels, self.model, self.point
        q, tops = np.empty_like(point.q), np.empty_like(point.theta)
        # A single state at its quota keeps its h: that is where its own price is read off.
        swept = point.loose | (np.diff(model.groups) > 1)
        h = point.h.copy()
        k.sweep(model, self.r, np.where(swept, point.theta / self.sigma, np.nan), h, _SWEEPS)
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
        fine = max(_POLISH_FINE * self.raise_, 1e-13)
        polished = self._origin(point.z)
        polished.h[:], polished.q[:] = point.h, point.q
        polished.lam = point.lam * _POLISH_SIGMA / self.sigma
        sigma, done = _POLISH_SIGMA, lambda _, norm, worst: worst < fine
        self._minimise(polished, self.r, point.z, sigma, 0.0, c, done, self.polish, _POLISH_CG_TOL)
        pi = np.empty_like(self.r)
        k.policy(model, polished.z, point.q, pi)
        nu = self._visits(polished.z * model.w[self.s_of])
        if k.law(model, self.scratch, pi, nu, 1e-12, 500) > 1e-9:
            nu = self._slow_law(pi, nu)
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

    def _slow_law(self, pi: Floats, nu: Floats) -> Floats:
        """Law of a chain that power sweeps do not settle; nu itself where there is more than one."""
        layout, kernels = self.layout, self.kernels
        if layout is None or not isinstance(self.problem, Problem):
            return nu
        policy = np.empty(pi.size)
        policy[layout.pairs] = kernels.get(pi)
        chain = Chain.of(self.problem.mdp, policy)
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
        return min(wanted, _RAISE, 0.5 * self.free / owed if owed > 0 else _RAISE)


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
