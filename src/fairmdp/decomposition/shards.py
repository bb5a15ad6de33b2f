"""`solve_shards`: a world in parts that are never in one place, answered by whoever has them.

Prices go out and sums come back: a worker builds its parts once and keeps where their search stands. What a
part answers depends on all prices that it was asked before, so a task carries them; whoever is new to a part
goes through them first. The answer is the same for any number of workers, and after any of them is lost.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fairmdp.certificate.facts import check_tol
from fairmdp.certificate.world_ceiling import ceiling_of, row_ceilings
from fairmdp.deadline import STOPS, Deadline, Stop, stop_of
from fairmdp.decomposition.columns import Column, Sweeps
from fairmdp.decomposition.master import Progress, Search, Tuning, descend
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, Ints, ReadOnly, check_count
from fairmdp.solution.solution import Status
from fairmdp.world.plan import relative_gap
from fairmdp.world.rows import Rows
from fairmdp.world.world import World

Engine = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

_Asked = tuple[tuple[float, ...], float]  # prices, and the weight of rewards


@dataclass(frozen=True, eq=False, repr=False)
class ShardsPlan(ReadOnly):
    """What `solve_shards` found of a world in parts.

    Attributes
    ----------
    status : Status
        OPTIMAL: the plan is worth the ceiling within the tolerance. INFEASIBLE: see ``alone``, ``needed``.
    upper : float
        Proven: no joint policy of all parts together that meets the quotas gains more per step.
    value : float
        What the plan gains per step in the mean, in plain floating point.
    prices, group_prices : ndarray
        As of a `WorldPlan`, the same for all parts.
    n_components, n_rows : int
        Of all parts.
    alone : tuple of (int, ndarray)
        Parts, and rows of them, whose own quotas no policy meets.
    needed, available : float
        Where the quotas cannot be met together: a proven bound on what they use at least in a step, and what
        there is, at `prices`, of which the largest of a resource is 1; else NaN.
    stopped : Stop
        Why the search ended early, if it did.
    counters : dict
        Evaluations of all rows, seconds.
    """

    status: Status
    upper: float
    value: float
    prices: Floats
    group_prices: Floats
    n_components: int
    n_rows: int
    tol: float
    alone: tuple[tuple[int, Ints], ...] = ()
    needed: float = math.nan
    available: float = math.nan
    stopped: Stop = Stop.NOT
    counters: Mapping[str, float] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """How much the ceiling is above the plan, as a part of the ceiling."""
        return relative_gap(self.upper, self.value)

    def __repr__(self) -> str:
        many = f"{self.n_components} components"
        return f"ShardsPlan({self.status.value}, {many}, upper={self.upper:.8g}, value={self.value:.8g})"


def solve_shards(
    make: Callable[[int], World],
    shards: int,
    *,
    tol: float = 1e-6,
    engine: Engine | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
    tuning: Tuning | None = None,
) -> ShardsPlan:
    """Find the prices of a world that is too large for one place, and prove a ceiling on its joint policies.

    Parameters
    ----------
    make
        ``make(k)`` is part k: a `World` with the same resources and groups, by name and in order, as all
        others. Capacities add up, and so does what groups of the same name are owed. Workers call it: it must
        be at the top level of a module, and give the same world every time.
    shards
        Number of parts.
    tol
        Relative gap between ceiling and plan that counts as optimal.
    engine
        `ProcessPool`, `RayCluster`, or anything like ``map``; by default this process does it.
    seconds
        Time to stop at, with the best ceiling by then.
    progress
        As of `solve_world`.
    tuning
        How the prices are searched.

    Returns
    -------
    ShardsPlan
        The same bytes for any number of workers. Prices and proof, without a line for each component: those
        of a part are ``solve_world(part)`` with what the others leave to it.

    Examples
    --------
    >>> import fairmdp as fm
    >>> plan = fm.solve_shards(lambda k: fm.scenarios.job_server(300, seed=k), 3)
    >>> print(plan.status, plan.n_components, round(plan.upper, 3))
    optimal 900 451.371
    """
    tol, deadline, begin = check_tol(tol), Deadline(seconds), time.perf_counter()
    check_count("shards", shards)
    tuning = tuning or Tuning()
    rounds = _Shards(make, int(shards), map if engine is None else engine)
    search, stopped = None, Stop.NOT
    try:
        search = descend(rounds.levels(tuning), tol, deadline, progress, tuning)
    except STOPS as stop:
        stopped = stop_of(stop)
    counters = {"evaluations": float(rounds.evaluations), "seconds": time.perf_counter() - begin}
    plan = _concluded(rounds, search, tol)
    plan.__dict__.update(stopped=stopped, counters=counters)
    return plan


def _concluded(rounds: _Shards, search: Search | None, tol: float) -> ShardsPlan:
    K, M = rounds.n_resources, rounds.owed.size
    plan: dict[str, Any] = {"n_components": rounds.n_components, "n_rows": rounds.size, "tol": tol}
    if alone := rounds.alone():
        nothing = np.full(M, np.nan)
        plan |= {"alone": tuple(alone), "status": Status.INFEASIBLE, "upper": np.nan, "value": np.nan}
        return ShardsPlan(prices=nothing[:K], group_prices=nothing[K:], **plan)
    if search is not None and search.impossible is not None:
        prices = search.impossible.prices
        unit = float(prices[:K].max(initial=0.0)) or float(prices.max(initial=1.0))
        proved = rounds.proved(prices, 0.0, unit)
        prices = prices / unit
        plan |= {"upper": np.nan, "value": np.nan, "prices": prices[:K], "group_prices": prices[K:]}
        if not proved < 0:
            return ShardsPlan(Status.UNDECIDED, **plan)
        available = float(prices[:K] @ rounds.owed[:K])
        return ShardsPlan(Status.INFEASIBLE, needed=available - proved, available=available, **plan)
    centre = None if search is None else search.center
    prices = np.zeros(M) if centre is None else centre.prices
    upper = rounds.proved(prices, 1.0)
    value = -np.inf if search is None else search.lower
    status = Status.FEASIBLE if np.isfinite(value) else Status.UNDECIDED
    if relative_gap(upper, value) <= tol:
        status = Status.OPTIMAL
    return ShardsPlan(status, upper, value, prices[:K], prices[K:], **plan)


class _Facts(NamedTuple):
    """What is to be known of a part before the first prices."""

    resources: tuple[str, ...]
    groups: tuple[str, ...]  # of their sides
    owed: Floats
    n_rows: int
    n_components: int


class _Answer(NamedTuple):
    """What a part says to prices."""

    reward: float
    surplus: Floats
    over: float
    alone: Ints  # rows whose own quotas are proved to be out of reach


@dataclass(frozen=True)
class _Task:
    """What some parts are asked: ``what`` it is, and all prices so far, of which the last are meant."""

    shards: tuple[int, ...]
    what: str
    asked: tuple[_Asked, ...] = ()
    rows: int = 0  # of a sample, of each part
    unit: float = 1.0

    def likes(self, done: Iterable[_Task]) -> bool:
        """Whether a worker suits that has done these: it has the parts already."""
        return any(task.shards == self.shards for task in done)


class _Open:
    """A part in a worker's hands, and where its search stands."""

    def __init__(self, world: World) -> None:
        self.sweeps = Sweeps(world)
        self.asked: tuple[_Asked, ...] = ()

    def at(self, asked: tuple[_Asked, ...]) -> Column:
        """The answer to the last prices, after all those before them."""
        known = len(self.asked)
        if self.asked != asked[:known] or known == len(asked):
            self.sweeps, known = Sweeps(self.sweeps.world), 0
        for prices, reward in asked[known:]:
            column = self.sweeps.at(np.array(prices), reward)
        self.asked = asked
        return column


class _Work:
    """What runs where the parts are."""

    def __init__(self, make: Callable[[int], World], most: int) -> None:
        self._make, self._most, self._open = make, most, dict[int, _Open]()

    def __getstate__(self) -> dict[str, Any]:
        return {"_make": self._make, "_most": self._most, "_open": {}}  # parts stay where they are

    def __call__(self, task: _Task) -> list[Any]:
        for k in sorted(set(self._open) - set(task.shards)):
            if len(set(self._open) | set(task.shards)) > self._most:
                del self._open[k]
        return [getattr(self, task.what)(self._opened(k), task, k) for k in task.shards]

    def _opened(self, k: int) -> _Open:
        if k not in self._open:
            world = self._make(k)
            if not isinstance(world, World):
                raise ProblemError(f"part {k} is a {type(world).__name__}, expected a fairmdp.World")
            self._open[k] = _Open(world)
        return self._open[k]

    def facts(self, part: _Open, task: _Task, k: int) -> _Facts:
        world = part.sweeps.world
        sides = tuple(f"{world.groups[g].name} {sign:+d}" for g, sign in world.group_sides)
        resources = tuple(each.name for each in world.resources)
        return _Facts(resources, sides, part.sweeps.owed, world.n_rows, world.n_components)

    def sample(self, part: _Open, task: _Task, k: int) -> tuple[Rows, ...]:
        world = part.sweeps.world
        rng = np.random.default_rng((0, k))
        chosen = np.sort(rng.choice(world.n_rows, min(task.rows, world.n_rows), replace=False))
        pairs = zip(world.starts[:-1], world.starts[1:], world.blocks, strict=True)
        taken = [(rows, chosen[(chosen >= a) & (chosen < b)] - a) for a, b, rows in pairs]
        return tuple(rows.taken(numbers) for rows, numbers in taken if numbers.size)

    def answer(self, part: _Open, task: _Task, k: int) -> _Answer:
        column = part.at(task.asked)
        return _Answer(column.reward, column.surplus, column.over, _proved_alone(part.sweeps))

    def prove(self, part: _Open, task: _Task, k: int) -> float:
        part.at(task.asked)
        prices, reward = np.array(task.asked[-1][0]) / task.unit, task.asked[-1][1]
        witnesses = [(bases.last, bases.mu / task.unit) for bases in part.sweeps.bases]
        return ceiling_of(part.sweeps.world, prices, witnesses, reward)


def _proved_alone(sweeps: Sweeps) -> Ints:
    """Rows of a part that cannot be served even alone, as far as that is proved."""
    nothing = np.zeros(sweeps.n_resources), np.zeros(sweeps.owed.size - sweeps.n_resources), 0.0
    found = [np.zeros(0, np.int64)]
    for b, rows in sweeps.alone():
        bases = sweeps.bases[b]
        bounds = row_ceilings(sweeps.blocks[b].taken(rows), bases.last[rows], bases.mu[rows], *nothing)
        found.append(sweeps.world.starts[b] + rows[bounds < 0])
    return np.concatenate(found)


class _Shards:
    """All parts, as the search of prices sees them."""

    def __init__(self, make: Callable[[int], World], shards: int, engine: Engine) -> None:
        hands = min(shards, int(getattr(engine, "workers", shards)))
        self._groups = [tuple(range(h, shards, hands)) for h in range(hands)]
        most = len(self._groups[0]) if hasattr(engine, "workers") else shards  # parts in one place
        self._work, self._engine = _Work(make, most), engine
        self._asked: tuple[_Asked, ...] = ()
        self._alone: list[tuple[int, Ints]] = []
        self.evaluations = 0
        facts: list[_Facts] = self._ask("facts")
        for k, each in enumerate(facts):
            if each[:2] != facts[0][:2]:
                raise ProblemError(
                    f"part {k} has resources and groups {each[:2]}, part 0 has {facts[0][:2]}\n"
                    "  all parts need the same, by name and in order"
                )
        self.n_resources = len(facts[0].resources)
        self.owed = np.array([math.fsum(column) for column in np.array([each.owed for each in facts]).T])
        self.size = sum(each.n_rows for each in facts)
        self.n_components = sum(each.n_components for each in facts)

    def levels(self, tuning: Tuning) -> list[Any]:
        """Samples of growing size, in this process, and all rows."""
        found: list[Any] = []
        for rows in tuning.samples:
            if 3 * rows < self.size:
                drawn = self._ask("sample", rows=-(-rows // sum(map(len, self._groups))))
                blocks = tuple(block for part in drawn for block in part)
                scale = self.n_components / sum(int(block.number.sum()) for block in blocks)
                found.append(Sweeps.of_sample(blocks, self.owed, self.n_resources, scale))
        return [*found, self]

    def at(self, prices: Floats, reward: float = 1.0) -> Column:
        """The column of all parts."""
        self.evaluations += 1
        self._asked += ((tuple(prices.tolist()), reward),)
        answers: list[_Answer] = self._ask("answer", asked=self._asked)
        self._alone = [(k, each.alone) for k, each in enumerate(answers) if each.alone.size]
        surplus = np.array([math.fsum(column) for column in np.array([each.surplus for each in answers]).T])
        reward_of_all = math.fsum(each.reward for each in answers)
        return Column(prices, reward_of_all, surplus, math.fsum(each.over for each in answers), ())

    def alone(self) -> list[tuple[int, Ints]]:
        """Parts, and rows of them, whose quotas cannot be met even alone."""
        return self._alone

    def proved(self, prices: Floats, reward: float, unit: float = 1.0) -> float:
        """What the certificate proves at some prices, divided by ``unit``, for all parts together."""
        asked = (*self._asked, (tuple(prices.tolist()), reward))
        bounds: list[float] = self._ask("prove", asked=asked, unit=unit)
        return math.nextafter(math.fsum(bounds), math.inf) if all(map(math.isfinite, bounds)) else math.inf

    def _ask(self, what: str, **rest: Any) -> list[Any]:
        """Answers of all parts, in their order."""
        tasks = [_Task(group, what, **rest) for group in self._groups]
        by_shard: dict[int, Any] = {}
        for group, answers in zip(self._groups, self._engine(self._work, tasks), strict=True):
            by_shard |= dict(zip(group, answers, strict=True))
        return [by_shard[k] for k in range(len(by_shard))]
