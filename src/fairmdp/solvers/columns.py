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
from typing import Any, NamedTuple, Protocol

import highspy
import numpy as np

from fairmdp.backends.base import Backend, Backup, Bounds, Way
from fairmdp.deadline import Deadline
from fairmdp.model.checks import Floats
from fairmdp.solvers.prices import dual_value, price_box

PENALTIES = (10.0, 1e3, 1e5)
"""What a unit of broken quota costs, in reward spans, until none is broken."""

EXACT = 1e-10
"""Error of the stationary distribution of a column that an answer is made of."""


@dataclass(frozen=True)
class Tuning:
    """How long a search goes on, and when it changes its ways."""

    columns: int = 400
    improvements: int = 300  # of one call of the oracle
    stuck: int = 30  # of them in a row that leave the span of the error where it was: no more will help
    creeping: int = 6  # of them in a row that keep the policy and half of that span: nothing new will come
    stalls: int = 3  # evaluations that fell short before chains are solved in another way
    part: float = 0.1  # of the span of an error that an evaluation leaves ...
    growing: float = 2.0  # ... a tenth of it after every growth by so much, which loose answers may cause ...
    finest: float = 1e-4  # ... but not less than this
    wild: float = 1e3  # span of an error at which chains hardly leave their classes: factors are better then
    restart: float = 1e-7  # of factored chains: policy iteration passes through policies with several classes
    damping: float = 0.1  # of sweeps: deterministic policies are often periodic
    tie: float = 1e-13
    most_care: float = 1e-3  # a policy that comes again although it was looked for so carefully is the last
    again: int = 25  # known policies in a row: ceilings that creep on nearly reducible chains go nowhere
    lost: int = 15  # columns in which a gap that says nothing yet must halve
    remembered: float = 5e7  # numbers to carry over to other bounds, in columns and as many values


USUAL = Tuning()


@dataclass(frozen=True, eq=False)
class Column:
    """A policy's occupancy in the master program; its vectors are where the search's are."""

    choice: Any | None  # (S,): the pair played in every state, or None for a random policy
    mass: Any  # (S,): its stationary distribution; without a choice (SA,): its occupancy
    shares: Floats  # (K,)
    gain: float
    error: float  # estimate of the L1 error of the stationary distribution


class Ceiling(NamedTuple):
    """What no policy exceeds at some prices."""

    top: float  # largest error of the values below, before the quotas' dual value is taken off
    mu: Floats  # (K,)
    h: Any  # (S,)


class Master(Protocol):
    """What mixes the columns of a search, and prices what the mixture is to be."""

    penalty: float  # of a unit of broken quota

    def ceiling(self, top: float, mu: Floats, low: Floats, high: Floats) -> float:
        """What the value cannot exceed, by prices mu and the largest error top of some relative values."""

    def add(self, column: Column) -> None:
        """Add a column."""

    def change(self, j: int, column: Column) -> None:
        """Replace column j."""

    def tighten(self, low: Floats, high: Floats) -> None:
        """Change the bounds of the quotas."""

    def solve(self) -> tuple[float, Floats, Floats, float]:
        """Value, prices (K,), weights of the columns, and the total by which quotas are broken."""


class Search:
    """Columns, the oracle that makes them, and the best ceiling so far."""

    def __init__(
        self,
        backend: Backend,
        master: Master,
        deadline: Deadline,
        h: Any | None = None,
        nu: Any | None = None,
        *,
        tuning: Tuning = USUAL,
    ) -> None:
        self.backend, self.master, self.deadline, self.tuning = backend, master, deadline, tuning
        self.began = time.perf_counter()
        self.low, self.high = price_box(backend)
        self.ways = backend.tuning.ways(backend)
        self.way = self.distribution_way = 0  # ways that relative values and distributions are found in
        self.stalls = 0
        self.solver = self._solver(self.ways[0])  # what relative values come from
        self.h = backend.full(0.0) if h is None else h
        self.nu = backend.full(1 / backend.n_states) if nu is None else nu
        self.choice = backend.first_pairs()
        self.columns: list[Column] = []
        self.weights = np.zeros(0)
        self.upper, self.value = math.inf, -math.inf
        self.witness = backend.full(0.0), np.zeros(backend.n_quotas)
        self.ceilings: list[Ceiling] | None = None  # a list if they are to be kept for other bounds
        self._swept = backend.sweeps

    def turn_to(self, asked: Bounds, master: Master) -> None:
        """Ask the same model, whose ceilings were kept, for other bounds."""
        assert self.ceilings is not None
        self.master = master
        self.low, self.high = price_box(asked)
        room = max(int(self.tuning.remembered / self.backend.n_states), 1)
        self.columns, self.ceilings = self.columns[-room:], self.ceilings[-room:]
        for column in self.columns:
            master.add(column)
        self.began, self._swept = time.perf_counter(), self.backend.sweeps

    @property
    def counters(self) -> dict[str, float]:
        """What was done so far."""
        return {"columns": len(self.columns), "sweeps": self.backend.sweeps - self._swept}

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
        halfway, again, wide = 0.0 if self.ceilings else 0.5, 0, math.inf
        for count in range(self.tuning.columns):
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
            if count % self.tuning.lost == 0:
                if gap > max(0.5 * wide, 0.1 * self.master.penalty):
                    break
                wide = gap
            # Half way is the rule; where that brought nothing, the master's own prices and more care. Columns
            # of other bounds keep the master's prices from swinging by themselves.
            idle = gap > 0.999 * before
            again = again + 1 if known else 0
            if (idle and known and care < self.tuning.most_care) or again >= self.tuning.again:
                break
            mu, care = (outer, care / 4) if idle else (halfway * inner + (1 - halfway) * outer, 0.1)
        return broken

    def best(self, mu: Floats, tol: float) -> tuple[float, Any]:
        """Policy iteration at prices mu until the span of the error is below tol; ceiling, its values."""
        top, best_h = math.inf, self.h
        least, since, creeping, part = math.inf, 0, 0, self.tuning.part
        for _ in range(self.tuning.improvements):
            self.deadline.check()
            last = self.choice
            self.choice, backup = self.backend.greedy(self.h, mu, self.choice, self.tuning.tie)
            span = backup.high - backup.low
            creeping = creeping + 1 if span > 0.5 * least and bool((last == self.choice).all()) else 0
            if backup.high < top:
                top, best_h = backup.high, self.h
            least, since = (span, 0) if span < 0.9 * least else (least, since + 1)
            if span <= tol or since == self.tuning.stuck or creeping == self.tuning.creeping:
                break
            if span > self.tuning.growing * least:
                part = max(0.1 * part, self.tuning.finest)
            self._settle(backup, max(part * span, 0.3 * min(tol, span)))
        if self.ceilings is not None:
            self.ceilings.append(Ceiling(top, mu, best_h))
        return self.master.ceiling(top, mu, self.low, self.high), best_h

    def sharpen(self) -> float:
        """Solve the master until all columns in use are exact; returns how much of the quotas is broken."""
        return self._mix(math.inf)[1]

    def add(self, column: Column) -> None:
        """Add a column."""
        self.columns.append(column)
        self.master.add(column)

    def add_policy(self, pi: Any, nu: Any) -> None:
        """Add a policy whose stationary distribution is known."""
        pi, nu = self.backend.put(pi), self.backend.put(nu)
        shares, gain, _ = self.backend.totals(pi, nu, nu)
        self.add(Column(None, self.backend.occupancy(pi, nu), shares, gain, 0.0))

    def policy(self) -> Any:
        """Stationary policy of the mixture."""
        return self.policy_of(self.occupancy()) if self.weights.any() else self.backend.uniform()

    def policy_of(self, x: Any) -> Any:
        """Policy of an occupancy near the mixture's; states without mass do what its largest part does."""
        used = [(weight, c.choice) for weight, c in self._used() if c.choice is not None]
        return self.backend.read_policy(x, max(used, key=lambda pair: pair[0])[1] if used else self.choice)

    def occupancy(self) -> Any:
        """Occupancy of the mixture, (SA,)."""
        x = self.backend.put(np.zeros(self.backend.n_pairs))
        for weight, column in self._used():
            x[slice(None) if column.choice is None else column.choice] += weight * column.mass
        return x / x.sum()

    def stationary(self, pi: Any, tol: float) -> tuple[Any, float]:
        """Stationary distribution of a policy and an estimate of its error."""
        chain, nu, error = self.backend.follow(pi), self.nu, math.inf
        for way, name in list(enumerate(self.ways))[max(self.way, self.distribution_way) :]:
            self.deadline.check()
            # Factors for relative values restart too often; other ways know where the chain often is.
            own = name in ("multigrid", "krylov") and name == self.ways[self.way]
            solver = self.solver if own else self._exact(name, self.backend.tuning.sweeps(self.backend)[1])
            nu, error = solver.stationary(chain, nu, tol)
            if error <= tol:
                self.distribution_way = way
                break
        return nu, error

    def _settle(self, backup: Backup, tol: float) -> None:
        """Relative values of a policy, in another way once one has often fallen short."""
        self.h, left = self.solver.evaluate(self.backend.follow(backup.pi), self.h, backup.e, tol)
        self.stalls += left > tol
        wild = self.ways[self.way] == "multigrid" and backup.high - backup.low > self.tuning.wild
        if (wild or self.stalls >= self.tuning.stalls) and self.way + 1 < len(self.ways):
            self.stalls, self.way = 0, self.way + 1
            self.solver = self._solver(self.ways[self.way])

    def _solver(self, name: str) -> Way:
        """A way to find relative values."""
        if name == "factors":
            return self.backend.way(name, restart=self.tuning.restart)
        return self._exact(name, self.backend.tuning.sweeps(self.backend)[0])

    def _exact(self, name: str, sweeps: int) -> Way:
        """A way to find stationary distributions."""
        how = dict(damping=self.tuning.damping, most=sweeps) if name == "sweeps" else {}
        return self.backend.way(name, **how)

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
        pi = self.backend.play(choice)
        self.nu, error = self.stationary(pi, tol)
        shares, gain, _ = self.backend.totals(pi, self.nu, self.nu)
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
            return top - dual_value(mu, low, high)
        lifted = dual_value(np.maximum(mu, 0), low, high)
        return (top - dual_value(np.minimum(mu, 0), low, high)) / lifted if lifted > 0 else math.inf

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
        self._stretch = values[: self._extra]
        weights = np.maximum(values[self._extra + self._factor :], 0.0)
        value = float(self._highs.getInfo().objective_function_value)
        return value, mu, weights, float(self._stretch.sum())

    def stretched(self) -> tuple[Floats, Floats]:
        """By how much the last mixture misses the bounds, below and above, (K,) each."""
        low, high = np.zeros(self._K), np.zeros(self._K)
        low[self._lower] = self._stretch[: self._lower.size]
        high[self._upper] = self._stretch[self._lower.size :]
        return low, high

    def _cost(self, column: Column) -> float:
        return 0.0 if self._factor else column.gain

    def _entries(self, column: Column) -> Floats:
        return np.concatenate([[1.0], column.shares[self._lower], column.shares[self._upper]])
