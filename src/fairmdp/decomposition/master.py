"""The few prices that all components see: minimise the dual function by a proximal bundle method.

The dual function is convex, piecewise linear, and nearly smooth where there are many components. Around the
best prices found, the centre, steps are made on ::

    max over columns c of  R_c + q @ u_c    +    (q - centre) @ H (q - centre) / 2

where H are slopes of the surplus, measured on the rows at hand: with one column this is a step of Newton's
method, and with many it holds at kinks. A mixture of columns whose surplus is at least 0 meets everything
that is asked in the mean, so the best of them is a lower bound, and the distance to it ends the search.

Inside, prices are in units of (reward of the first column) / (what is owed of the resource or group).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairmdp.deadline import STOPS, Deadline
from fairmdp.decomposition.columns import Column, Rounds
from fairmdp.decomposition.programs import Mixture, best_mixture, most_surplus, proximal_step
from fairmdp.model.checks import Floats

Progress = Callable[[dict[str, float]], None]


@dataclass(frozen=True)
class Tuning:
    """How the master searches."""

    exact: float = 0.75  # part of the expected decrease from which steps may be longer
    poor: float = 0.05  # and below which they must be shorter
    bump: float = 0.02  # step of the measured slopes, in the units of prices
    floor: float = 1e-3  # least slope, part of the largest: a direction without any would be unbounded
    few_rows: int = 200  # up to here the whole program is solved: prices sit at kinks, which HiGHS finds
    most: int = 300  # evaluations
    patience: int = 4  # evaluations beyond two per price, after which feasibility is looked into
    samples: tuple[int, ...] = (2_000, 40_000)  # rows of the samples that warm up the prices
    sample_tol: float = 1e-5  # relative gap that is enough there


@dataclass
class Search:
    """State of the search on some rows."""

    sweeps: Rounds
    tuning: Tuning
    units: Floats  # (M,), size of what is owed
    scale: float  # size of the rewards
    columns: list[Column] = field(default_factory=list)
    center: Column | None = None
    mixture: Mixture | None = None
    impossible: Column | None = None  # at whose prices, without rewards, the dual function is negative
    stuck: float = 1.0  # how much more than H steps are held back

    @property
    def upper(self) -> float:
        """Value of the dual function at the centre."""
        assert self.center is not None
        return self.center.value

    @property
    def lower(self) -> float:
        """What the best mixture earns."""
        return -np.inf if self.mixture is None else self.mixture.value

    @property
    def gap(self) -> float:
        """Distance of the two, as a part of the rewards."""
        return (self.upper - self.lower) / self.scale

    @property
    def unit(self) -> Floats:
        """One unit of scaled prices, (M,)."""
        return self.scale / self.units

    def evaluate(self, prices: Floats) -> Column:
        """Add the column at some prices."""
        column = self.sweeps.at(prices)
        self.columns.append(column)
        if self.center is None or column.value < self.center.value:
            self.center = column
        self._mix()
        return column

    def _mix(self) -> None:
        rewards = np.array([column.reward for column in self.columns]) / self.scale
        surplus = np.array([column.surplus for column in self.columns]) / self.units
        found = best_mixture(rewards, surplus)
        self.mixture = None if found is None else found._replace(value=found.value * self.scale)

    def run(
        self, start: Floats, H: Floats, tol: float, deadline: Deadline, progress: Progress | None
    ) -> None:
        """Search from some prices until the gap is small, it is proved impossible, or nothing helps."""
        self.evaluate(start)
        while self.gap > tol and len(self.columns) < self.tuning.most and self.impossible is None:
            deadline.check()
            if progress is not None:
                progress({
                    "evaluations": float(self.sweeps.evaluations), "rows": float(self.sweeps.size),
                    "lower": self.lower, "upper": self.upper,
                })  # fmt: skip
            if self.mixture is None and len(self.columns) >= self.tuning.patience + 2 * start.size:
                self.find_surplus()
                continue
            if not self._step(H, tol):
                break

    def _step(self, H: Floats, tol: float) -> bool:
        """Evaluate at the next prices; False if there are none."""
        assert self.center is not None
        p, best = self.center.prices / self.unit, self.center.value
        errors = np.array([best - c.reward - float(c.surplus @ self.center.prices) for c in self.columns])
        slopes = np.array([c.surplus for c in self.columns]) / self.units
        step, expected = proximal_step(errors / self.scale, slopes, p, self.stuck * H)
        if -expected < 0.1 * tol and self.mixture is None:  # converged, but from one side: surround it
            step = step + np.sqrt(max(tol, 1e-14) / np.diag(H))
        elif np.abs(step).max() < 1e-15:
            return False
        column = self.evaluate((p + step) * self.unit)
        done = (best - column.value) / max(-expected * self.scale, 1e-300)
        if done > self.tuning.exact:  # half of it is what Newton's step brings where all is smooth
            self.stuck = max(self.stuck / 4, 1e-6)
        elif done < self.tuning.poor:
            self.stuck = min(self.stuck * 2, 1e6)
        return True

    def find_surplus(self) -> None:
        """Look for columns that have a surplus of everything together, or prove that there are none."""
        while self.mixture is None and self.impossible is None and len(self.columns) < self.tuning.most:
            found = most_surplus(np.array([column.surplus for column in self.columns]) / self.units)
            promised = self.add_without_rewards(found.prices / self.units)
            if promised <= found.value + 1e-12:
                break

    def add_without_rewards(self, prices: Floats) -> float:
        """Add the column that does most for what is owed at some prices; returns the surplus at these."""
        column = self.sweeps.at(prices, reward=0.0)
        promised = float(column.prices @ column.surplus) + column.over
        if promised < 0:
            self.impossible = column
        self.columns.append(column)
        self._mix()
        return promised


def slopes_at(search: Search, prices: Floats) -> Floats:
    """Measured slopes of the surplus at some prices, symmetric and positive, (M, M); scaled."""
    sweeps, tuning, M = search.sweeps, search.tuning, prices.size
    base = sweeps.at(prices).surplus
    H = np.empty((M, M))
    for k in range(M):
        moved = prices.copy()
        bump = max(tuning.bump, tuning.bump * prices[k] / search.unit[k])
        moved[k] += bump * search.unit[k]
        H[k] = (sweeps.at(moved).surplus - base) / search.units / bump
    values, vectors = np.linalg.eigh((H + H.T) / 2)
    values = np.maximum(values, tuning.floor * max(float(values.max()), 1e-3))
    return (vectors * values) @ vectors.T


def descend(
    levels: Sequence[Rounds], tol: float, deadline: Deadline, progress: Progress | None, tuning: Tuning
) -> Search:
    """Search the prices on one level after the other: samples of growing size, and then all rows."""
    owed, n_resources = levels[-1].owed, levels[-1].n_resources
    units = np.where(owed != 0, np.abs(owed), 1.0)
    prices: Floats | None = None
    H = np.eye(owed.size)
    scale = 0.0
    search = None
    for level in levels:
        last, before = level is levels[-1], search
        search = Search(level, tuning, units, scale)
        if not scale:
            scale = search.scale = abs(level.at(np.zeros(owed.size)).reward) or 1.0
        try:
            if prices is None:
                prices = np.where(np.arange(owed.size) < n_resources, 0.3, 0.1) * search.unit
                search.evaluate(np.zeros(owed.size))
                search.run(prices, H, 100 * tuning.sample_tol, deadline, progress)
                if owed.size and search.impossible is None and search.gap > tol:
                    H = slopes_at(search, search.center.prices)  # type: ignore[union-attr]
                    search.sweeps.at(prices)
            elif before is not None and before.impossible is not None:
                search.add_without_rewards(before.impossible.prices)
            if last and level.alone():
                break
            start = prices if search.center is None else search.center.prices
            search.run(start, H, tol / 2 if last else tuning.sample_tol, deadline, progress)
        except STOPS:
            if last and search.mixture is not None:
                break
            raise
        if search.center is not None and search.impossible is None:
            prices = search.center.prices
    assert search is not None
    return search
