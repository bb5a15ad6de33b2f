"""Interior points whose linear algebra knows the model: many quotas, or few, where the model factors well.

The linear program over occupancies is solved by Mehrotra's predictor and corrector, with Gondzio's further
correctors, which cost a substitution where a new iteration costs a factorisation. What an iteration solves is
in `normal`; the size of its factors is known before the first one, and says for which models this is the
method.

At the optimum of a model that hardly hangs together its classes fall apart, and no policy has these shares.
Interior points get there from inside, so a policy is read off and proved before; the quotas are tightened by
what a part of the tolerance pays for, at the prices of the iteration at hand.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from fairmdp.backends.base import Backend
from fairmdp.backends.opening import open_backend
from fairmdp.certificate.claim import certify
from fairmdp.certificate.restated import by_uniform_steps
from fairmdp.chains.chain import Chain
from fairmdp.chains.policy import policy_of
from fairmdp.deadline import STOPS, Stop, stop_of
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Note, Remark, Solution, Status
from fairmdp.solvers import conflict
from fairmdp.solvers.infeasible import Witness
from fairmdp.solvers.normal import Aim, Equations, Pattern
from fairmdp.solvers.passages import slowest_passage, with_passages
from fairmdp.solvers.prices import dual_value, price_box
from fairmdp.solvers.request import Progress, Request


@dataclass(frozen=True)
class Tuning:
    """Steps, margins and patience, by the queues, grids and schedulers of `benchmarks/problems`."""

    iterations: int = 200
    correctors: int = 2  # of Gondzio's, at most
    proximal: float = 1e-8  # what a pair's change of 1 costs: weights that are farther apart leave no digits
    near: float = 0.995  # part of the way to where something would be 0
    enough: float = 0.75  # of the tolerance: a gap at which the policy is worth a proof
    closer: float = 0.2  # ... and by what the next one is to be closer
    weight: float = 100.0  # of what is left of the rows, beside the gap
    proofs: int = 4  # at most
    earlier: int = 3  # points that are looked at again where the last ones are not fair
    margin: float = 0.4  # of the tolerance, which tightened quotas may cost
    widest: float = 25.0  # of the tolerance: part of a quota by which it is tightened at most
    wider: float = 3.0  # growth of the margin where a policy was not fair
    equal: float = 0.5  # of the tolerance: bounds that are as close as this part of them are one
    short: float = 0.1  # a step that asks for less of the corrector
    tiny: float = 1e-3  # a step that is not worth its iteration
    idle: int = 12  # iterations without a better point after which there is none
    largest: float = 3e11  # operations of a factorisation ...
    fill: float = 5e5  # ... and for each transition: where these are few, HiGHS has less to do
    most_wide: int = 500  # quotas of more than one state
    elements: float = 2e7  # numbers of all elements


USUAL = Tuning()

_LEAST = 1e-200  # multipliers underflow where a quota is met by far


@by_uniform_steps
def solve_interior(
    problem: Problem,
    *,
    tol: float = 1e-6,
    seconds: float | None = None,
    progress: Progress | None = None,
    tuning: Tuning = USUAL,
) -> Solution:
    """Best gain under quotas by interior points, where every state leads to a few others that are near it.

    Meant for queues, grids and schedulers with a quota for every state, or few quotas where a linear
    program takes long. Quotas of more than one state are at most 500.

    Parameters are those of `solve`; progress is reported after every iteration.

    Returns
    -------
    Solution
        Gain and shares are those of the policy's own chain, proved by the certificate. Ctrl-C returns the
        policy of the last iteration. Quotas that cannot be met are an answer, as for `solve_lp`.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> from fairmdp.solvers.interior import solve_interior
    >>> sol = solve_interior(scenarios.three_state(rho=[0.1, 0.1, 0.25]))
    >>> sol.status.value, round(sol.gain, 5), sol.prices.round(4)
    ('optimal', 0.44342, array([0.    , 0.    , 0.5211]))

    References
    ----------
    .. [1] Mehrotra, *On the implementation of a primal-dual interior point method*, SIAM J. Optim. 2 (1992).
    .. [2] Gondzio, *Multiple centrality corrections in a primal-dual method for linear programming*,
       Comput. Optim. Appl. 6 (1996).
    """
    return run_interior(open_backend(problem), Request.of(tol, None, seconds, progress), tuning)


def obstacle(backend: Backend, tuning: Tuning = USUAL) -> str | None:
    """Why a problem is not for this method."""
    if backend.host is None:
        return "the model is on the GPU only"
    mdp = backend.host.mdp
    most = min(tuning.largest, tuning.fill * mdp.P.nnz)
    if Pattern.of(mdp).entries > tuning.elements or Pattern.of(mdp).fronts.operations > most:
        return "its factors would fill up"
    if Equations(mdp, _asking(backend.host)[1]).n_wide > tuning.most_wide:
        return f"more than {tuning.most_wide} quotas are of several states"
    return None


def run_interior(backend: Backend, request: Request, tuning: Tuning = USUAL) -> Solution:
    """`solve_interior` where a problem is already."""
    wrong = obstacle(backend, tuning)
    if wrong or backend.host is None:
        raise ProblemError(f"interior points are not for this model: {wrong}\n  leave the method to solve")
    search = _Search(backend, backend.host, request, tuning)
    try:
        found = search.run()
    except STOPS as stop:
        return search.claim(search.point, stop_of(stop))
    if found is None and search.upper < 0:
        witness = Witness(search.point.h * backend.scale, search.prices(search.point) * backend.scale)
        counters = {"iterations": float(search.iterations)}
        infeasible = conflict.prove_infeasible(
            backend.host, witness, tol=request.tol, method="interior", counters=counters,
            began=search.began, deadline=request.deadline,
        )  # fmt: skip
        if infeasible is not None:
            return infeasible
    return found or search.claim(search.best)


class Point(NamedTuple):
    """Everything that is positive, with its multipliers, and what may have any sign."""

    p: Floats  # occupancy (SA,), then what quotas have beyond their lower, then below their upper bounds
    d: Floats  # reduced costs (SA,), then prices of the bounds
    h: Floats  # (S,)
    g: float
    free: Floats  # prices of quotas with one value


class _Direction(NamedTuple):
    p: Floats
    d: Floats
    h: Floats
    g: float
    free: Floats


class _Search:
    """Iterations on one problem; occupancies add up to the number of states, rewards reach from 0 to 1."""

    def __init__(self, backend: Backend, problem: Problem, request: Request, tuning: Tuning) -> None:
        self.began = time.perf_counter()
        self._backend, self._problem, self._request, self._tuning = backend, problem, request, tuning
        mdp = problem.mdp
        self._r = (mdp.r - backend.base) / backend.scale
        self._n = float(mdp.n_states)
        self._most = float(np.finfo(float).max) / max(backend.scale, 1.0)  # of what is scaled back
        self._asks, self._G = _asking(problem)
        low, high = (bound[self._asks] for bound in price_box(problem))
        self._equations = Equations(mdp, self._G)
        size = np.where(np.isfinite(high), high, low)
        self._fixed = high - low <= tuning.equal * request.tol * size
        self._below = np.flatnonzero(np.isfinite(low) & ~self._fixed)
        self._above = np.flatnonzero(np.isfinite(high) & ~self._fixed)
        self._low, self._high = low, high
        self._ends = np.cumsum([mdp.n_pairs, self._below.size])
        self._loosest, self.iterations = tuning.margin * request.tol, 0
        self._scale_margin = 1.0
        self.point = self.best = self._first()
        self._earlier: tuple[Point, ...] = ()
        self._tighten(self._loosest)
        self._least, self.upper = math.inf, math.inf

    def run(self) -> Solution | None:
        """Iterate until a policy is proved optimal, or nothing gets better; None without any fair policy."""
        tuning, tol = self._tuning, self._request.tol
        goal, found, tries, idle = tuning.enough * tol, None, 0, 0
        for self.iterations in range(tuning.iterations):
            self._request.deadline.check()
            gap, off = self._measured()
            if self._request.progress is not None:
                self._request.progress(self._report(off))
            if self.upper < 0:
                return found
            merit = gap + tuning.weight * off
            if merit < self._least:
                self._earlier = (self.best, *self._earlier)[: tuning.earlier]
                self._least, self.best, idle = merit, self.point, 0
            idle += 1
            if merit <= goal:
                found = _better(found, self.claim(self.point))
                tries += 1
                if found.status is Status.OPTIMAL or tries == tuning.proofs:
                    return found
                goal *= tuning.closer
                self._scale_margin *= tuning.wider if found.status is Status.UNDECIDED else 1.0
            if idle > tuning.idle or not self._step():
                break
        for point in (self.best, *self._earlier):  # the last ones may hang together too loosely
            if found is not None and found.status is Status.FEASIBLE:
                break
            found = _better(found, self.claim(point))
        return found

    def prices(self, point: Point) -> Floats:
        """Price of every quota, (K,)."""
        mu = np.zeros(self._problem.n_quotas)
        mu[self._asks] = self._mu(point)
        return mu

    def claim(self, point: Point, stopped: Stop = Stop.NOT) -> Solution:
        """What is proved of the policy of a point."""
        x = point.p[: self._ends[0]]
        policy = policy_of(self._problem.mdp, x)
        nu = np.add.reduceat(x, self._problem.mdp.pair_ptr[:-1]) / self._n
        found = certify(
            self._backend, policy, point.h * self._backend.scale, self.prices(point) * self._backend.scale,
            tol=self._request.tol, method="interior", counters={"iterations": float(self.iterations)},
            began=self.began, stopped=stopped, nu=nu,
        )  # fmt: skip
        best = np.where(x > point.d[: x.size], x, 0.0)  # what is left of the others falls with the gap
        classes = Chain.of(self._problem.mdp, policy_of(self._problem.mdp, best)).closed_classes
        found, patience = with_passages(self._problem, classes, found), self._request.patience
        if patience is not None and slowest_passage(found) > patience:
            found = replace(found, notes=(*found.notes, Note(Remark.PATIENCE_TOO_SHORT, patience)))
        return found

    def _first(self) -> Point:
        """Each state alike, quotas met with something to spare, whether they are or not."""
        mdp = self._problem.mdp
        x = 1.0 / mdp.n_actions[mdp.s_of]
        y = self._G @ x
        low, high = self._low[self._below] * self._n, self._high[self._above] * self._n
        t1 = np.maximum(y[self._below] - low, 0.1 * low)
        t2 = np.maximum(high - y[self._above], 0.1 * np.maximum(high, 1e-3 * self._n))
        mean = float(x.mean())
        m1, m2 = mean / t1, mean / t2
        prices = np.zeros(self._low.size)
        prices[self._below] += m1
        prices[self._above] -= m2
        g = 2.0
        z = np.maximum(g - self._r - self._G.T @ prices, 0.1)
        return Point(
            np.concatenate([x, t1, t2]), np.concatenate([z, m1, m2]), np.zeros(mdp.n_states), g,
            np.zeros(int(self._fixed.sum())),
        )  # fmt: skip

    def _tighten(self, part: float) -> None:
        """Tighten each quota by a part of itself, at most by a quarter of what lies between its bounds."""
        low, high = self._low, self._high
        size = np.where(np.isfinite(low), low, high)
        room = np.minimum(part * size, (high - low) / 4)
        middle = (low + high)[self._fixed] / 2
        self._goal_below = (low + room)[self._below] * self._n
        self._goal_above = (high - room)[self._above] * self._n
        self._goal_fixed = middle * self._n

    def _mu(self, point: Point) -> Floats:
        _, m1, m2 = np.split(point.d, self._ends)
        mu = np.zeros(self._low.size)
        mu[self._below] = m1
        mu[self._above] -= m2
        mu[self._fixed] = point.free
        return mu

    def _measured(self) -> tuple[float, float]:
        """Gap between a ceiling and the value of the point, and how far that is from an occupancy."""
        x, t1, t2 = np.split(self.point.p, self._ends)
        mu, n = self._mu(self.point), self._n
        self._raised = self._r + self._G.T @ mu - self._equations.ahead(self.point.h)
        owed = dual_value(mu, self._low, self._high)
        self.upper = float(self._raised.max()) - owed
        y = self._G @ x
        price = float(np.abs(mu) @ np.where(mu > 0, self._low, np.where(mu < 0, self._high, 0.0)).clip(0, 1))
        part = self._tuning.margin / max(price, self._tuning.margin / self._tuning.widest)
        self._tighten(part * self._scale_margin * self._request.tol)
        self._flow, self._mass = -self._equations.flow(x), n - float(x.sum())
        self._off_below = self._goal_below + t1 - y[self._below]
        self._off_above = self._goal_above - t2 - y[self._above]
        self._off_fixed = self._goal_fixed - y[self._fixed]
        parts = (self._flow, self._mass, self._off_below, self._off_above, self._off_fixed)
        off = max(float(np.abs(part).sum()) for part in parts) / n
        self.value = float(self._r @ x) / n
        return self.upper - self.value, off

    def _step(self) -> bool:
        """One iteration; False where it leads nowhere."""
        tuning, point = self._tuning, self.point
        p, d = point.p, point.d
        x, t1, t2 = np.split(p, self._ends)
        z, m1, m2 = np.split(d, self._ends)
        stiff = np.zeros(self._low.size)
        stiff[self._below] += m1 / t1
        stiff[self._above] += m2 / t2
        slack = np.where(self._fixed, 0.0, 1.0 / np.maximum(stiff, _LEAST))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            gap = min(max(self.upper - self.value, 0.0), 1.0)
            if not self._equations.factor(1.0 / (z / x + tuning.proximal), slack, gap):
                return False
            off = self._raised - point.g + z
            mean = float(p @ d) / p.size
            first = self._direction(-p * d, off, slack)
            a, b = _longest(p, first.p), _longest(d, first.d)
            ahead = float((p + a * first.p) @ (d + b * first.d)) / p.size
            target = mean * min(ahead / mean, 1.0) ** 3
            centred, bent = target - p * d, first.p * first.d
            due = centred - bent
            taken = self._direction(due, off, slack)
            weight, a, b = a * b, _longest(p, taken.p), _longest(d, taken.d)
            if min(a, b) < tuning.short:  # the predictor went too far to say how much the way bends
                due = centred - weight * bent
                taken = self._direction(due, off, slack)
                a, b = _longest(p, taken.p), _longest(d, taken.d)
            for _ in range(tuning.correctors):
                if min(a, b) > 0.95:
                    break
                wanted = (p + min(1.0, a + 0.2) * taken.p) * (d + min(1.0, b + 0.2) * taken.d)
                more = np.maximum(np.clip(wanted, 0.1 * target, 10 * target) - wanted, -10 * target)
                other = self._direction(due + more, off, slack)
                a2, b2 = _longest(p, other.p), _longest(d, other.d)
                if a2 + b2 < a + b + 0.02:
                    break
                due, taken, a, b = due + more, other, a2, b2
        a, b = _longest(p, taken.p, tuning.near), _longest(d, taken.d, tuning.near)
        after = Point(
            p + a * taken.p, d + b * taken.d, point.h + b * taken.h, point.g + b * taken.g,
            point.free + b * taken.free,
        )  # fmt: skip
        if not all(np.abs(part).max(initial=0.0) <= self._most for part in after):
            return False
        self.point = after
        return max(a, b) > tuning.tiny

    def _direction(self, due: Floats, off: Floats, slack: Floats) -> _Direction:
        """Newton's step that changes each product of p and d by what is due."""
        p, d = self.point.p, self.point.d
        x, t1, t2 = np.split(p, self._ends)
        _, m1, m2 = np.split(d, self._ends)
        of_x, of_t1, of_t2 = np.split(due, self._ends)
        quota = np.zeros(self._low.size)
        quota[self._below] += (of_t1 + m1 * self._off_below) / t1
        quota[self._above] -= (of_t2 - m2 * self._off_above) / t2
        quota *= slack
        quota[self._fixed] = self._off_fixed
        step = self._equations.solve(Aim(off + of_x / x, self._flow, self._mass, quota))
        # From the equation, not as G @ step.x: its error would come back multiplied by prices over slacks.
        change = quota - slack * step.mu
        p1 = np.concatenate(
            [step.x, change[self._below] - self._off_below, self._off_above - change[self._above]]
        )
        return _Direction(p1, (due - d * p1) / p, step.h, step.g, step.mu[self._fixed])

    def _report(self, off: float) -> dict[str, float]:
        base, scale = self._backend.base, self._backend.scale
        upper, lower = base + scale * self.upper, base + scale * self.value
        seconds = time.perf_counter() - self.began
        return dict(upper=upper, lower=lower, gap=upper - lower, worst_slack=-off, seconds=seconds)


def _asking(problem: Problem) -> tuple[Ints, csr_array]:
    """Quotas that ask for something, and their coefficients on the pairs."""
    asks = np.flatnonzero((problem.at_least > 0) | (problem.at_most < 1))
    return asks, csr_array(problem.members[asks])


def _longest(values: Floats, change: Floats, near: float = 1.0) -> float:
    """Part of a change, at most all of it, that goes so near to where something is no longer positive."""
    falling = change < 0
    return min(1.0, near * float((values[falling] / -change[falling]).min(initial=2.0)))


def _better(one: Solution | None, other: Solution) -> Solution:
    """The solution of which more is proved."""
    if one is None:
        return other
    rank = {Status.OPTIMAL: 2, Status.FEASIBLE: 1}
    return max((one, other), key=lambda found: (rank.get(found.status, 0), -found.gap))
