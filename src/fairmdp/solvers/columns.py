"""Mixtures of policies (Dantzig and Wolfe): the master program, the oracle, and the search between them.

A fair occupancy is a mixture of occupancies of deterministic policies. The master program mixes the ones
found so far; its duals are prices ``mu`` of the quotas; the best policy of the MDP with rewards
``r + G.T mu`` is the next column, and its gain a ceiling on everything ::

    master   max sum_j w_j r @ x_j    subject to    sum w = 1,    at_least <= sum_j w_j G x_j <= at_most
    oracle   beta(mu) = max over policies of (r + G.T mu) @ x;    upper = beta(mu) - b @ mu

Prices are asked half way between the master's and the best so far, which keeps them from swinging. The
oracle is policy iteration with truncated evaluation, warm from the last prices.

A policy's occupancy does not depend on what is owed, and neither does the ``beta`` of some prices. So a
search may turn to other bounds and keep all that it has found (`Search.turn_to`): near the bounds before,
next to nothing is left to find.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import highspy
import numpy as np

from fairmdp.device_problem import DeviceProblem
from fairmdp.kernels.bellman import Factored, Sweeps
from fairmdp.kernels.cuda.krylov import CudaKrylov
from fairmdp.kernels.cuda.sweeps import CudaFactored, CudaSweeps
from fairmdp.kernels.krylov import Krylov
from fairmdp.problem import Problem
from fairmdp.solvers.deadline import Deadline
from fairmdp.solvers.policy import NO_MASS, policy_of
from fairmdp.solvers.prices import paid, price_box
from fairmdp.validation import Floats

PENALTIES = (10.0, 1e3, 1e5)
"""What a unit of broken quota costs, in reward spans, until none is broken."""

EXACT = 1e-10
"""Error of the law of a column that an answer is made of."""

_COLUMNS = 400
_IMPROVEMENTS = 300
_STUCK = 30  # improvements in a row that leave the span of the error where it was: no more will help
_SWEEPS, _LAW_SWEEPS = 300, 2000  # of one evaluation: beyond, other ways are quicker
_CUDA_SWEEPS, _CUDA_LAW_SWEEPS = 60, 200  # where other ways need no factors
_STALLS = 3  # evaluations that fell short before chains are solved in another way
_CHEAP, _FACTORED = 5000, 20_000  # states up to which chains are factored first, and at all
_RESTART = 1e-7  # of factored chains: policy iteration passes through policies with several classes
_TIE = 1e-13
_MOST_CARE = 1e-3  # a policy that comes again although it was looked for so carefully ends the search
_REMEMBERED = 5e7  # numbers that a search may carry over to other bounds, in columns and as many values


@dataclass(frozen=True, eq=False)
class Column:
    """A policy's occupancy in the master program; its vectors are where the search's are."""

    choice: Any | None  # (S,): the pair played in every state, or None for a random policy
    mass: Any  # (S,): its law; without a choice (SA,): its occupancy
    shares: Floats  # (K,)
    gain: float
    error: float  # estimate of the L1 error of the law


class Ceiling(NamedTuple):
    """What no policy exceeds at some prices."""

    top: float  # largest error of the values below, before the quotas are paid
    mu: Floats  # (K,)
    h: Any  # (S,)


class Search:
    """Columns, the oracle that makes them, and the best ceiling so far.

    Vectors over states and pairs are as the kernel set has them, on the host or on a device.
    """

    def __init__(
        self,
        problem: Problem | DeviceProblem,
        device: Sweeps | CudaSweeps,
        master: Mixture,
        h: Any | None = None,
        nu: Any | None = None,
    ) -> None:
        self.problem, self.device, self.master = problem, device, master
        self.began, self.deadline = time.perf_counter(), Deadline(None)
        self.low, self.high = price_box(problem)
        device.damping = 0.1
        self.chains = device  # what relative values come from
        self.ways = _ways(device)
        self.most = (_SWEEPS, _LAW_SWEEPS) if isinstance(device, Sweeps) else (_CUDA_SWEEPS, _CUDA_LAW_SWEEPS)
        self.way = self.stalls = 0
        self.h = device.full(0.0) if h is None else device.put(h)
        self.nu = device.full(1 / device.n_states) if nu is None else device.put(nu)
        self.choice = device.first_pairs()
        self.columns: list[Column] = []
        self.weights = np.zeros(0)
        self.upper, self.value = math.inf, -math.inf
        self.witness = device.full(0.0), np.zeros(problem.n_quotas)
        self.ceilings: list[Ceiling] | None = None  # a list if they are to be kept for other bounds

    def turn_to(self, problem: Problem, master: Mixture) -> None:
        """Ask the same model, whose ceilings were kept, for other bounds."""
        assert self.ceilings is not None
        self.problem, self.master = problem, master
        self.low, self.high = price_box(problem)
        room = max(int(_REMEMBERED / problem.mdp.n_states), 1)
        self.columns, self.ceilings = self.columns[-room:], self.ceilings[-room:]
        for column in self.columns:
            master.add(column)
        self.began, self.device.sweeps = time.perf_counter(), 0

    @property
    def counters(self) -> dict[str, float]:
        """What was done so far."""
        swept = self.device.sweeps + (self.chains.sweeps if self.chains is not self.device else 0)
        return {"columns": len(self.columns), "sweeps": swept}

    @property
    def timed_counters(self) -> dict[str, float]:
        """What was done so far, and how long it took."""
        return {**self.counters, "seconds": time.perf_counter() - self.began}

    def run(
        self,
        mu: Floats,
        tol: float,
        enough: Callable[[Search], bool],
        report: Callable[[Search, float], None] | None = None,
        *,
        eager: bool = False,
    ) -> float:
        """Add columns until the gap is below tol; returns how much of the quotas is broken in total.

        An eager search ends as soon as it is plain that the penalty is too low to mend the quotas.
        """
        gap, broken, inner, care = 1.0, math.inf, mu, 0.1
        self.upper = math.inf  # the last penalty's ceiling may lie far from what this one's prices can prove
        if self.ceilings:
            mu, broken = self._recall(tol)
            if self.upper - self.value <= tol or enough(self):
                return broken
            gap, inner = abs(self.upper - self.value), self.witness[1]
        halfway = 0.0 if self.ceilings else 0.5
        for _ in range(_COLUMNS):
            before = self.upper - self.value
            upper, h = self.best(mu, max(care * gap, 0.02 * tol))
            if upper < self.upper:
                self.upper, self.witness, inner = upper, (h, mu), mu
            if enough(self):
                break
            known = self._is_known(self.choice)
            self._add_choice(max(1e-2 * care * gap, EXACT))
            outer, broken = self._mix(tol)
            gap = abs(self.upper - self.value)
            if report is not None:
                report(self, broken)
            dear = 0.1 * self.master.penalty * broken if eager and broken > EXACT else 0.0
            if self.upper - self.value <= max(tol, dear):
                break
            # Half way is the rule; where that brought nothing, the master's own prices and more care. Columns
            # of other bounds keep the master's prices from swinging by themselves.
            idle = gap > 0.999 * before
            if idle and known and care < _MOST_CARE:
                break
            mu, care = (outer, care / 4) if idle else (halfway * inner + (1 - halfway) * outer, 0.1)
        return broken

    def best(self, mu: Floats, tol: float) -> tuple[float, Any]:
        """Policy iteration at prices mu until the span of the error is below tol; ceiling, its values."""
        top, best_h = math.inf, self.h
        least, since = math.inf, 0
        for _ in range(_IMPROVEMENTS):
            self.deadline.check()
            self.choice, backup = self.device.greedy(self.h, mu, self.choice, _TIE)
            span = backup.high - backup.low
            if backup.high < top:
                top, best_h = backup.high, self.h
            least, since = (span, 0) if span < 0.9 * least else (least, since + 1)
            if span <= tol or since == _STUCK:
                break
            self._settle(backup.pi, backup.e, max(0.1 * span, 0.3 * tol))
        if self.ceilings is not None:
            self.ceilings.append(Ceiling(top, mu, best_h))
        return self.master.ceiling(top, mu, self.low, self.high), best_h

    def add(self, column: Column) -> None:
        """Add a column."""
        self.columns.append(column)
        self.master.add(column)

    def add_policy(self, pi: Any, nu: Any) -> None:
        """Add a policy whose law is known."""
        pi, nu = self.device.put(pi), self.device.put(nu)
        shares, gain, _ = self.device.totals(pi, nu, nu)
        self.add(Column(None, self.device.occupancy(pi, nu), shares, gain, 0.0))

    def policy(self) -> Any:
        """Stationary policy of the mixture."""
        return self.policy_of(self.occupancy()) if self.weights.any() else self.device.uniform()

    def policy_of(self, x: Any) -> Any:
        """Policy of an occupancy near the mixture's; states without mass get an action towards the rest."""
        if isinstance(self.device, Sweeps):
            assert isinstance(self.problem, Problem)
            return policy_of(self.problem.mdp, x)
        used = [(weight, c.choice) for weight, c in self._used() if c.choice is not None]
        towards = max(used, key=lambda pair: pair[0])[1] if used else self.choice
        return self.device.read_policy(x, towards, NO_MASS / self.device.n_states)

    def occupancy(self) -> Any:
        """Occupancy of the mixture, (SA,)."""
        x = self.device.put(np.zeros(self.device.n_pairs))
        for weight, column in self._used():
            x[slice(None) if column.choice is None else column.choice] += weight * column.mass
        return x / x.sum()

    def law(self, pi: Any, tol: float) -> tuple[Any, float]:
        """Long-run law of a policy and an estimate of its error."""
        chain = self.device.follow(pi)
        self.device.most = self.most[1]
        nu, error = self.nu, math.inf
        for kind in self.ways[self.way :]:
            self.deadline.check()
            # Factored chains restart too often.
            at_hand = type(self.chains) is kind and not issubclass(kind, Factored | CudaFactored)
            solver = self.chains if at_hand else self.device.made(kind)
            nu, error = solver.law(chain, nu, tol)
            if not at_hand:
                self.device.sweeps += solver.sweeps
            if error <= tol:
                break
        return nu, error

    def _settle(self, pi: Any, e: Any, tol: float) -> None:
        """Relative values of a policy, in another way once one has often fallen short."""
        chain = self.device.follow(pi)
        self.device.most = self.most[0]
        self.h, left = self.chains.settle(chain, self.h, e, tol)
        self.stalls += left > tol
        if self.stalls >= _STALLS and self.way + 1 < len(self.ways):
            self.stalls, self.way = 0, self.way + 1
            self.chains = self.device.made(self.ways[self.way])
            if isinstance(self.chains, Factored | CudaFactored):
                self.chains.restart = _RESTART

    def _used(self) -> list[tuple[float, Column]]:
        """Columns of the mixture, with their weights."""
        return [(w, c) for w, c in zip(self.weights.tolist(), self.columns, strict=True) if w > 0]

    def _is_known(self, choice: Any) -> bool:
        """Whether a policy is a column already."""
        return any(np.array_equal(choice, c.choice) for c in reversed(self.columns) if c.choice is not None)

    def _add_choice(self, tol: float) -> None:
        """Add the oracle's last policy as a column."""
        self.add(self._evaluated(self.choice, tol))

    def _evaluated(self, choice: Any, tol: float) -> Column:
        pi = self.device.play(choice)
        self.nu, error = self.law(pi, tol)
        shares, gain, _ = self.device.totals(pi, self.nu, self.nu)
        return Column(choice, self.nu, shares, gain, error)

    def _mix(self, tol: float) -> tuple[Floats, float]:
        """Solve the master, with exact columns where it is about to end; its prices and what it breaks."""
        self.value, mu, self.weights, broken = self.master.solve()
        while self.upper - self.value <= tol and self._sharpen():
            self.value, mu, self.weights, broken = self.master.solve()
        return mu, broken

    def _recall(self, tol: float) -> tuple[Floats, float]:
        """Take the best of the ceilings kept, and solve the master."""
        assert self.ceilings
        for top, mu, h in self.ceilings:
            upper = self.master.ceiling(top, mu, self.low, self.high)
            if upper < self.upper:
                self.upper, self.witness = upper, (h, mu)
        return self._mix(tol)

    def _sharpen(self) -> bool:
        """Evaluate the columns in use once more where they were evaluated roughly."""
        rough = [j for j in np.flatnonzero(self.weights > 0).tolist() if self.columns[j].error > EXACT]
        for j in rough:
            choice = self.columns[j].choice
            assert choice is not None
            self.nu = self.columns[j].mass
            self.columns[j] = replace(self._evaluated(choice, EXACT), error=EXACT)
            self.master.change(j, self.columns[j])
        return bool(rough)


def _ways(device: Sweeps | CudaSweeps) -> tuple[Any, ...]:
    """Ways to solve chains, from those that mix fast to those that hardly mix."""
    small = device.n_states <= _FACTORED
    if isinstance(device, CudaSweeps):
        return (CudaSweeps, CudaKrylov, CudaFactored) if small else (CudaSweeps, CudaKrylov)
    if device.n_states <= _CHEAP:
        return Sweeps, Factored
    return (Sweeps, Krylov, Factored) if small else (Sweeps, Krylov)


class Mixture:
    """The master program in HiGHS: rows are the weights' sum, then what is at_least, then at_most.

    With `factor` it maximises alpha such that ``alpha * low`` is met instead of the gain.
    """

    def __init__(self, low: Floats, high: Floats, *, factor: bool = False) -> None:
        self._lower, self._upper = np.flatnonzero(np.isfinite(low)), np.flatnonzero(np.isfinite(high))
        self._factor = factor
        self._K = low.size
        self.penalty = PENALTIES[0] if not factor else PENALTIES[-1]
        free = highspy.kHighsInf
        nothing = 0, np.zeros(0, np.int32), np.zeros(0)
        highs = self._highs = highspy.Highs()
        for option, value in (
            ("output_flag", False), ("threads", 1), ("presolve", "off"), ("random_seed", 0),
            ("primal_feasibility_tolerance", 1e-10), ("dual_feasibility_tolerance", 1e-10),
        ):  # fmt: skip
            highs.setOptionValue(option, value)
        highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
        highs.addRow(1.0, 1.0, *nothing)
        for k in self._lower:
            highs.addRow(0.0 if factor else low[k], free, *nothing)
        for k in self._upper:
            highs.addRow(-free, high[k], *nothing)
        n_lower, n_upper = self._lower.size, self._upper.size
        signs = np.concatenate([np.ones(n_lower), -np.ones(n_upper)])
        for row, sign in enumerate(signs, start=1):
            highs.addCol(0.0, 0.0, free, 1, np.array([row], np.int32), np.array([sign]))
        self._extra = signs.size
        if factor:
            rows = np.arange(1, n_lower + 1, dtype=np.int32)
            highs.addCol(1.0, 0.0, free, n_lower, rows, -low[self._lower])

    def ceiling(self, top: float, mu: Floats, low: Floats, high: Floats) -> float:
        """What the master's value cannot exceed, by prices mu and the largest error top of some values."""
        if not self._factor:
            return top - paid(mu, low, high)
        lifted = paid(np.maximum(mu, 0), low, high)
        return (top - paid(np.minimum(mu, 0), low, high)) / lifted if lifted > 0 else math.inf

    def add(self, column: Column) -> None:
        """Add a column."""
        entries = self._entries(column)
        rows = np.arange(entries.size, dtype=np.int32)
        self._highs.addCol(self._cost(column), 0.0, highspy.kHighsInf, rows.size, rows, entries)

    def change(self, j: int, column: Column) -> None:
        """Replace column j."""
        at = self._extra + self._factor + j
        self._highs.changeColCost(at, self._cost(column))
        for row, value in enumerate(self._entries(column)):
            self._highs.changeCoeff(row, at, value)

    def tighten(self, low: Floats, high: Floats) -> None:
        """Change the bounds."""
        for row, k in enumerate(self._lower, start=1):
            self._highs.changeRowBounds(row, low[k], highspy.kHighsInf)
        for row, k in enumerate(self._upper, start=1 + self._lower.size):
            self._highs.changeRowBounds(row, -highspy.kHighsInf, high[k])

    def solve(self) -> tuple[float, Floats, Floats, float]:
        """Value, prices (K,), weights of the columns, and the total by which quotas are broken."""
        for j in range(self._extra):
            self._highs.changeColCost(j, -self.penalty)
        self._highs.run()
        solution = self._highs.getSolution()
        values, duals = np.array(solution.col_value), -np.array(solution.row_dual)
        mu = np.zeros(self._K)
        mu[self._lower] += np.maximum(duals[1 : 1 + self._lower.size], 0)
        mu[self._upper] += np.minimum(duals[1 + self._lower.size :], 0)
        self.stretch = values[: self._extra]
        weights = np.maximum(values[self._extra + self._factor :], 0.0)
        value = float(self._highs.getInfo().objective_function_value)
        return value, mu, weights, float(self.stretch.sum())

    def stretched(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Bounds that the last mixture meets."""
        low, high = low.copy(), high.copy()
        low[self._lower] -= self.stretch[: self._lower.size]
        high[self._upper] += self.stretch[self._lower.size :]
        return low, high

    def _cost(self, column: Column) -> float:
        return 0.0 if self._factor else column.gain

    def _entries(self, column: Column) -> Floats:
        return np.concatenate([[1.0], column.shares[self._lower], column.shares[self._upper]])
