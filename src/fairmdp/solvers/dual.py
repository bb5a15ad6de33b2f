"""The price solver: Newton's method on the entropy-smoothed dual, for few quotas on many states.

Let ``beta_tau(mu)`` be the gain of the MDP with rewards ``r + G.T mu`` whose actions are drawn from softmax
policies of temperature tau and paid tau times their entropy. Then ::

    f(mu) = beta_tau(mu) - sum_k b_k mu_k,     b_k = at_least where mu_k > 0, at_most where mu_k < 0

is convex and smooth but for the kinks of ``b``, and bounds the gain of every fair policy from above. With
``nu`` the law of the softmax policy pi, and ``h_k`` the bias of the indicator of quota k under pi ::

    gradient   G x - b,    x = pi nu
    Hessian    (1 / tau) sum_s nu_s Cov_{a ~ pi(s)}(q_k, q_l),    q_k = 1_k + P h_k
    h(mu + d)  h + sum_k d_k h_k  to first order

so a Newton step costs sweeps over one chain with K + 2 vectors, and predicts the relative values of the
next one. As tau goes down the policy becomes optimal; the loss to entropy falls like tau squared where
many states share the burden.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fairmdp.device_problem import DeviceProblem
from fairmdp.kernels.bellman import F4, Backup, Chain, price_step
from fairmdp.kernels.cuda.launcher import out_of_memory_is_a_message
from fairmdp.problem import Problem
from fairmdp.solution import Solution, Status
from fairmdp.solvers.colgen import solve_colgen
from fairmdp.solvers.conclude import check_tol
from fairmdp.solvers.conflict import prove_infeasible, quick_proof
from fairmdp.solvers.deadline import STOPS, Deadline, stop_note
from fairmdp.solvers.on_device import check_device, conclude_where, kernels_for
from fairmdp.solvers.prices import paid, price_box, start_from, tightened
from fairmdp.validation import Floats

_HOT, _WARM = 0.01, 4e-4  # first temperature, in reward spans, without and with a start
_COOLING, _CAREFUL = 0.15, 0.4  # factor from one temperature to the next, and where steps were many
_MANY = 5
_COLDEST = 1e-10
_EVEN = 1e9  # a temperature at which all actions are alike
_CALM = 0.3  # change of the log-policy, root mean square, below which a temperature is done
_BOLD = 3.0  # and above which a step is not believed
_LEAST = 1e-13  # a step this short says that rounding rules
_STEPS = 300
_PATIENCE = 80  # steps at one temperature
_IMPROVEMENTS, _UNSETTLED = 50, 10  # policy improvements of one evaluation; evaluations that may need more
_MET = 5e-10  # how far a quota may be missed here: half of what the certificate forgives
_NARROW = 1e-7  # quotas with less room than this cannot be met with a margin


@out_of_memory_is_a_message()
def solve_dual(
    problem: Problem | DeviceProblem,
    *,
    tol: float = 1e-6,
    start: Solution | None = None,
    seconds: float | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
    device: str = "cpu",
) -> Solution:
    """Best gain under quotas by Newton's method on their prices: up to about a hundred quotas, any size.

    ::

        minimise over mu    beta_tau(mu) - b @ mu,    tau -> 0

    Made for chains that mix fast: a million states take about a minute. Small models whose sweeps do not
    converge are factored instead; where Newton's method stalls, `solve_colgen` goes on from its prices,
    on the same device.

    Parameters
    ----------
    problem
        Model and quotas; a `DeviceProblem` is solved where it is.
    tol
        Certified gap, relative to the span of the rewards, up to which the answer is called optimal.
    start
        An earlier solution of the same states with other quotas or rewards: its prices (by quota name),
        bias and visitation are where the search begins.
    seconds
        Time after which the search ends as if interrupted.
    progress
        Called at every temperature with ``upper``, ``lower``, ``gap``, ``worst_slack``, ``seconds``.
    device
        ``"cpu"``, or ``"cuda"`` for the first GPU: a certificate is made there, and for a `Problem` once
        more on the CPU. Where no GPU can be used, a `DeviceError` says why.

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
    tol = check_tol(tol)
    on_device = check_device(device) or isinstance(problem, DeviceProblem)
    if problem.n_quotas == 0:
        # No prices to look for: policy iteration is all there is to do.
        return solve_colgen(problem, tol=tol, start=start, seconds=seconds, progress=progress, device=device)
    deadline = Deadline(seconds)
    search = _Search(problem, tol, deadline, progress, on_device)
    notes: tuple[str, ...] = ()
    try:
        stalled = search.run(start)
    except STOPS as stop:
        stalled, notes = False, (stop_note(stop),)
    solution = search.solution(notes)
    if not stalled or solution.status in (Status.OPTIMAL, Status.INFEASIBLE):
        return solution
    mixture = solve_colgen(
        problem, tol=tol, start=solution, seconds=deadline.left, progress=progress, device=device
    )
    return replace(mixture, method=f"dual, which stalled, then {mixture.method}")


class _StallError(Exception):
    """Sweeps over the chain of a policy did not come to rest, or rounding leaves no step to take."""


@dataclass(frozen=True, eq=False)
class _Point:
    """The smoothed MDP at some prices, and what it amounts to."""

    mu: Floats  # (K,)
    tau: float
    h: Floats  # (S,)
    nu: Floats  # (S,)
    backup: Backup
    chain: Chain
    shares: Floats  # (K,)
    gain: float  # r @ x
    beta: float  # smoothed gain of the priced MDP

    @property
    def entropy(self) -> float:
        """Part of beta that is paid for entropy: how far the policy is from the best at these prices."""
        return self.beta - self.gain - float(self.mu @ self.shares)


class _Search:
    """Newton's method with what it has proved so far, in units of the reward span."""

    def __init__(
        self,
        problem: Problem | DeviceProblem,
        tol: float,
        deadline: Deadline,
        progress: Callable[[dict[str, float]], None] | None,
        on_device: bool,
    ) -> None:
        r = problem.mdp.r
        self.problem, self.tol, self.deadline, self.progress = problem, tol, deadline, progress
        self.began = time.perf_counter()
        self.base, self.scale = float(r.min()), float(r.max() - r.min()) or 1.0
        self.device = kernels_for(problem, self.base, self.scale, on_device)
        self.low, self.high = price_box(problem)
        self.owed_slack = np.where(self.high - self.low < _NARROW, 0.0, self.device.margin) - _MET  # (K,)
        self.upper, self.lower, self.slack = math.inf, -math.inf, -math.inf
        self.witness = self.device.full(0.0), np.zeros(problem.n_quotas)
        self.policy: Floats | None = None
        self.point: _Point | None = None
        self.unsettled = 0
        self.doubted = False
        self.counters = {"steps": 0.0, "levels": 1.0, "sweeps": 0.0}

    def run(self, start: Solution | None) -> bool:
        """Search for prices; returns whether that came to a halt before its end."""
        S, K = self.problem.mdp.n_states, self.problem.n_quotas
        if start is None:
            mu, h, nu, tau = np.zeros(K), self.device.full(0.0), self.device.full(1 / S), _HOT
        else:
            mu, *vectors = start_from(self.problem, start, self.scale)
            h, nu, tau = *map(self.device.put, vectors), _WARM
        for retry in range(2):
            if retry:
                self.device = self.device.patient()
            if self.point is not None:
                mu, h, nu, tau = self.point.mu, self.point.h, self.point.nu, self.point.tau
            try:
                self._descend(mu, h, nu, tau)
                return False
            except _StallError:
                continue
        return True

    def solution(self, notes: tuple[str, ...]) -> Solution:
        """What the search amounts to."""
        h, mu = self.witness[0] * self.scale, self.witness[1] * self.scale
        counters = {**self.counters, "sweeps": self.device.sweeps}
        method = "dual: Newton's method on the prices of the quotas"
        if self.upper < 0 and isinstance(self.problem, Problem):
            infeasible = prove_infeasible(
                self.problem,
                self.device.get(h),
                mu,
                tol=self.tol,
                method=method,
                counters=counters,
                began=self.began,
                deadline=self.deadline,
            )
            if infeasible is not None:
                return infeasible
        policy = self.policy
        if policy is None:
            last = self.point and self.point.backup
            policy = (last or self.device.improve(self.device.full(0.0), 0 * mu, _EVEN)).pi
        return conclude_where(
            self.problem, self.device, policy, h, mu, tol=self.tol, method=method, counters=counters,
            notes=notes, began=self.began,
        )  # fmt: skip

    def _descend(self, mu: Floats, h: Floats, nu: Floats, tau: float) -> None:
        """Newton steps at falling temperatures until the gap is closed."""
        point = self._evaluate(mu, h, nu, tau)
        H: F4 | None = None
        radius, taken = 1.0, 0
        for _ in range(_STEPS):
            self._record(point)
            if self.upper - self.lower <= 0.9 * self.tol or self.upper < 0 or point.tau < _COLDEST:
                self._report()
                return
            self.counters["steps"] += 1
            H, left = self.device.block(point.chain, point.backup.pi, point.shares, H, 3e-3)
            _require(left <= 0.1)
            new, radius, cooled = self._step(point, H, radius, taken)
            taken = 0 if cooled else taken + 1
            _require(taken <= _PATIENCE)
            if cooled:
                self._report()
                self.counters["levels"] += 1
            point = new

    def _step(self, point: _Point, H: F4, radius: float, taken: int) -> tuple[_Point, float, bool]:
        """One Newton step in a box that shrinks until the step keeps its promise; cools where calm."""
        low, high = self._aim(point.mu)
        C = self.device.curvature(point.backup.pi, point.nu, H)
        A = C / point.tau
        A += (1e-12 * np.trace(A) + 1e-15) * np.eye(point.mu.size)
        f = point.beta - paid(point.mu, low, high)
        while True:
            d = price_step(A, point.shares, point.mu, low, high, radius, 10_000)
            change = math.sqrt(max(float(d @ C @ d), 0.0)) / point.tau
            reach = float(np.abs(d).max(initial=0.0))
            if change > _BOLD:
                if not self.doubted and self._impossible(point):
                    return point, radius, False
                radius = 0.7 * min(radius, reach)
                continue
            mu = point.mu + d
            promised = (
                paid(mu, low, high) - paid(point.mu, low, high) - float(point.shares @ d + d @ A @ d / 2)
            )
            tau = (
                self._next_tau(point, taken) if change < _CALM and promised <= 0.1 * point.tau else point.tau
            )
            new = self._evaluate(mu, self.device.shift(point.h, H, d), point.nu, tau)
            if tau < point.tau:
                return new, radius, True
            kept = f - new.beta + paid(mu, low, high)
            if kept >= 0.1 * promised - 1e-4 * tau:  # beta is known to about 1e-4 tau
                return new, max(radius, 3 * reach) if kept > 0.5 * promised else radius, False
            radius = 0.25 * min(radius, reach)
            _require(radius > _LEAST)

    def _impossible(self, point: _Point) -> bool:
        """Whether quotas that ask for large steps are beyond reach, as far as a quick look tells."""
        self.doubted = True
        if isinstance(self.problem, DeviceProblem):
            return False
        short = (point.shares < self.low).astype(float) - (point.shares > self.high)
        proof = quick_proof(self.problem, short)
        if proof is not None:
            self.witness, self.upper = (self.device.put(proof[0]), proof[1]), -1.0
        return proof is not None

    def _next_tau(self, point: _Point, taken: int) -> float:
        """Temperature to go on with: lower while entropy costs too much and the quotas nearly hold."""
        if point.entropy <= 0.5 * self.tol or self._slack(point) < -1e-2 * point.tau:
            return point.tau
        cooling = _COOLING if taken < _MANY else _CAREFUL
        return point.tau * max(cooling, math.sqrt(0.4 * self.tol / point.entropy))

    def _evaluate(self, mu: Floats, h: Floats, nu: Floats, tau: float) -> _Point:
        """Soft policy iteration at fixed prices, from a guess of the relative values."""
        device = self.device
        enough = max(min(1e-2 * tau, 0.2 * self.tol), 1e-3 * tau)
        backup = device.improve(h, mu, tau)
        chain = device.follow(backup.pi)
        for _ in range(_IMPROVEMENTS):
            self.deadline.check()
            span = backup.high - backup.low
            if span <= enough:
                break
            h, left = device.settle(chain, h, backup.e, 0.02 * span)
            _require(left <= 0.5 * span)
            backup = device.improve(h, mu, tau)
            chain = device.follow(backup.pi)
        else:
            self.unsettled += 1
            _require(self.unsettled <= _UNSETTLED)
        exact = min(1e-9, 1e-5 * tau)
        nu, error = device.law(chain, nu, exact)
        _require(error <= 10 * exact)
        shares, gain, beta = device.totals(backup.pi, nu, backup.e)
        return _Point(mu, tau, h, nu, backup, chain, shares, gain, beta)

    def _aim(self, mu: Floats) -> tuple[Floats, Floats]:
        """Quotas tightened, at a tenth of the tolerance, so that they hold once they are nearly met."""
        hair = max(0.1 * self.tol / (1 + float(np.abs(mu).sum())), 1.5 * self.device.margin)
        return tightened(self.low, self.high, hair)

    def _record(self, point: _Point) -> None:
        """Keep the best ceiling and the best fair policy."""
        upper = point.backup.top - paid(point.mu, self.low, self.high)
        if upper < self.upper:
            self.upper, self.witness = upper, (point.h, point.mu)
        met = bool((self._room(point) >= self.owed_slack).all())
        if met and point.gain > self.lower:
            self.lower, self.slack = point.gain, self._slack(point)
            self.policy = point.backup.pi
        self.point = point

    def _room(self, point: _Point) -> Floats:
        """Distance of each share from its nearer bound, (K,)."""
        return np.minimum(point.shares - self.low, self.high - point.shares)

    def _slack(self, point: _Point) -> float:
        return float(self._room(point).min(initial=math.inf))

    def _report(self) -> None:
        if self.progress is not None:
            upper, lower = self.base + self.upper * self.scale, self.base + self.lower * self.scale
            seconds = time.perf_counter() - self.began
            self.progress(
                dict(upper=upper, lower=lower, gap=upper - lower, worst_slack=self.slack, seconds=seconds)
            )


def _require(converged: bool) -> None:
    if not converged:
        raise _StallError
