"""Run a policy of a world and watch: what it gains, what everybody has of what is owed, how much is used."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmdp.dispatch import kernels
from fairmdp.dispatch.kernels import Moves, Seen
from fairmdp.dispatch.policy import KINDS, DispatchPolicy, flattened
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, Ints, ReadOnly, check_count, read_only
from fairmdp.world.world import World

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Of the clients' arrears, in `WorldSimulation.history`."""

_BATCHES = 20  # whose means give the error of the gain
_STUDENT = 2.093  # 97.5 % point of Student's distribution for 19 degrees of freedom
_POINTS = 100  # of a history

Progress = Callable[[dict[str, float]], None]


@dataclass(frozen=True, eq=False)
class History(ReadOnly):
    """What a simulation looked like on the way, at up to 100 points.

    Attributes
    ----------
    steps : ndarray
        Steps done, (H,).
    rewards : ndarray
        Mean reward of a step since the last point, (H,).
    used : ndarray
        Mean use of each resource since the last point, (H, K).
    arrears : ndarray
        Quantiles over the clients of the steps by which they are behind, each at its worst side:
        least, 5 %, 25 %, median, 75 %, 95 % and most, (H, 7); NaN where nothing is owed.
    """

    steps: Ints
    rewards: Floats
    used: Floats
    arrears: Floats


@dataclass(frozen=True, eq=False, repr=False)
class WorldSimulation(ReadOnly):
    """What one run of a policy of a world has seen.

    Attributes
    ----------
    gain, gain_se : float
        Reward of all clients in a step after the burn-in, and its standard error, from the means of 20
        batches.
    shares : ndarray
        What each client had of each side of the local quotas after the burn-in, (N, J); a cap is negated.
    owed : ndarray
        What it was owed, (N, J); -inf where nothing is.
    group_shares, group_owed : ndarray
        The same of groups, (G,), summed over their members.
    earned : ndarray
        Mean reward of each client, (N,).
    used, most_used, capacity : ndarray
        Mean use of each resource, the largest use in any step, and what there is, (K,).
    arrears : ndarray
        The most steps by which each client was ever behind, (N,), by the accounts of the policy; 0 for a
        policy that keeps none.
    history : History
        What it looked like on the way.
    steps, burn_in : int
        Steps in all, and those of them that are not counted above.
    finished : bool
        Whether all steps were made; an interrupt keeps those that were.
    seconds : float
        Time it took.
    """

    gain: float
    gain_se: float
    shares: Floats
    owed: Floats
    group_shares: Floats
    group_owed: Floats
    earned: Floats
    used: Floats
    most_used: Floats
    capacity: Floats
    arrears: Floats
    history: History
    steps: int
    burn_in: int
    finished: bool
    seconds: float

    @property
    def interval(self) -> tuple[float, float]:
        """Where the long-run gain is with a confidence of 95 %, if the run forgets within a batch."""
        return self.gain - _STUDENT * self.gain_se, self.gain + _STUDENT * self.gain_se

    @property
    def met(self) -> float:
        """Part of what is owed to clients that was met: 1 if all had their share in this run."""
        owing = np.isfinite(self.owed)
        return float((self.shares >= self.owed)[owing].mean()) if owing.any() else 1.0

    @property
    def worst_slack(self) -> float:
        """The least that any client had above what it was owed; negative if it was short."""
        return float((self.shares - self.owed).min(initial=np.inf))

    def gap(self, upper: float) -> float:
        """How much the gain is below a ceiling, as a part of the ceiling."""
        return (upper - self.gain) / abs(upper)

    def __repr__(self) -> str:
        return (
            f"WorldSimulation({self.steps} steps of {self.shares.shape[0]} clients, "
            f"gain={self.gain:.5g} +- {self.gain_se:.1g}, {self.met:.1%} of the quotas met)"
        )


def simulate_world(
    world: World, policy: DispatchPolicy, steps: int, seed: int = 0, *, burn_in: float = 0.1,
    progress: Progress | None = None,
) -> WorldSimulation:  # fmt: skip
    """Run a policy of a world from its accounts as they are, which stay as they are.

    Clients start where their MDP's ``initial`` says, or in any of their states. The same seed gives the same
    bytes.

    Parameters
    ----------
    world
        The world: how clients move, what they earn and count.
    policy
        The policy, of this world or of the same clients and resources with other quotas.
    steps
        How many; a client that may wait ``window`` steps needs some hundred times as many to have its share
        within a percent.
    seed
        Everything random follows from it.
    burn_in
        Part of the steps that estimates leave out.
    progress
        Called now and then with ``steps``, ``all`` and ``gain`` since the last time.

    Returns
    -------
    WorldSimulation
        Ctrl-C returns the steps that were made, with ``finished=False``.

    Examples
    --------
    >>> import fairmdp as fm
    >>> world = fm.scenarios.job_server(100)
    >>> plan = fm.solve_world(world)
    >>> seen = fm.simulate_world(world, fm.dispatch_policy(world, plan, "fair"), 2000)
    >>> bool((seen.most_used <= world.capacity).all()), bool(0 < seen.gap(plan.upper) < 0.03)
    (True, True)
    """
    began = time.perf_counter()
    check_count("steps", steps)
    if steps < 2 * _BATCHES:
        raise ProblemError(
            f"steps is {steps}, expected at least {2 * _BATCHES}: the error comes from batches"
        )
    if not 0 <= burn_in <= 0.5:
        raise ProblemError(f"burn_in is {burn_in!r}, expected a part of the steps, 0 to 0.5")
    _check_fits(world, policy)
    policy = policy.copy()
    work = policy.work
    rng = np.random.default_rng(seed)
    states, key = _starts(world, rng), rng.integers(2**64, dtype=np.uint64)
    moves, actions = moves_of(world), np.zeros(policy.n_clients, np.int64)
    skipped = int(burn_in * steps)
    seen = _nothing(world, policy, 0)
    rewards: list[Floats] = []
    points: list[tuple[int, float, Floats, Floats]] = []
    done, finished = 0, True
    for stop in _stops(steps, skipped):
        if done == skipped:
            seen, rewards = _nothing(world, policy, 0)._replace(arrears=seen.arrears), []
        part = seen._replace(rewards=np.full(stop - done, np.nan), used=np.zeros(world.capacity.size))
        way = (*KINDS[policy.kind], policy.window)
        try:
            key = kernels.run(
                policy.flat, moves, policy.memory, work, *way, states, actions, np.uint64(key), part
            )  # fmt: skip
        except KeyboardInterrupt:  # comes when the kernel is through, or before it began
            finished = False
            if np.isnan(part.rewards[-1]):
                break
        seen.used[:] += part.used
        rewards.append(part.rewards)
        length, done = stop - done, stop
        points.append((done, float(part.rewards.mean()), part.used / length, _quantiles(policy)))
        if progress is not None:
            progress({"steps": float(done), "all": float(steps), "gain": points[-1][1]})
        if not finished:
            break
    if not points:
        raise KeyboardInterrupt
    return _seen(
        world, seen, np.concatenate(rewards), points, done, skipped, finished, time.perf_counter() - began
    )


def _stops(steps: int, skipped: int) -> list[int]:
    """Where to look: at the end of the burn-in, and evenly."""
    return sorted({*np.linspace(0, steps, _POINTS + 1).astype(int).tolist(), skipped} - {0})


def _seen(
    world: World, seen: Seen, rewards: Floats, points: list[Any], done: int, skipped: int, finished: bool,
    seconds: float,
) -> WorldSimulation:  # fmt: skip
    counted = rewards.size
    batches = np.array([part.mean() for part in np.array_split(rewards, min(_BATCHES, counted))])
    at, means, used, arrears = (np.array(column) for column in zip(*points, strict=True))
    return WorldSimulation(
        gain=float(rewards.mean()), gain_se=float(batches.std(ddof=1) / np.sqrt(batches.size)),
        shares=seen.had / counted, owed=_owed(world), group_shares=seen.group_had / counted,
        group_owed=world.group_owed, earned=seen.earned / counted, used=seen.used / counted,
        most_used=seen.most_used, capacity=world.capacity, arrears=seen.arrears,
        history=History(at, means, used, arrears), steps=done, burn_in=done - counted, finished=finished,
        seconds=seconds,
    )  # fmt: skip


def _owed(world: World) -> Floats:
    return np.concatenate([np.repeat(rows.owed, rows.number, axis=0) for rows in world.blocks])


def _quantiles(policy: DispatchPolicy) -> Floats:
    """Quantiles over the clients of their arrears on the worst side."""
    worst = np.where(policy.owing, policy.memory.account, -np.inf).max(axis=1, initial=-np.inf)
    worst = worst[np.isfinite(worst)]
    return np.quantile(worst, QUANTILES) if worst.size else np.full(len(QUANTILES), np.nan)


def _nothing(world: World, policy: DispatchPolicy, steps: int) -> Seen:
    N, J, K = policy.n_clients, len(world.sides), world.capacity.size
    return Seen(
        np.empty(steps), np.zeros(N), np.zeros((N, J)), np.zeros(world.group_owed.size), np.zeros(K),
        np.zeros(K), np.zeros(N),
    )  # fmt: skip


def _starts(world: World, rng: np.random.Generator) -> Ints:
    """A state of every client."""
    drawn = []
    for of in world.components:
        n = int(of.count.sum())
        drawn.append(rng.choice(of.mdp.n_states, n, p=of.mdp.initial))
    return np.concatenate(drawn).astype(np.int64)


def _check_fits(world: World, policy: DispatchPolicy) -> None:
    """Raise unless clients, actions and resources of a policy are those of a world."""
    fits = len(policy.tables) == len(world.blocks) and np.array_equal(policy.capacity, world.capacity)
    for rows, table in zip(world.blocks, policy.tables, strict=False):
        same = table.uses is rows.uses or np.array_equal(table.uses, rows.uses)
        clients = table.row_of.size == int(rows.number.sum())
        fits = fits and same and clients and np.array_equal(table.pair_ptr, rows.pair_ptr)
    if not fits:
        raise ProblemError("the policy is of another world: its clients, actions or resources are others")


def moves_of(world: World) -> Moves:
    """How clients move, and what they earn and count, as the kernels see it."""
    blocks = world.blocks
    base, stride = np.zeros((2, len(blocks), 5), np.int64)
    columns: list[tuple[int, Any, list[NDArray[Any]]]] = [
        (kernels.P, np.float64, [b.P for b in blocks]), (kernels.R, np.float64, [b.r for b in blocks]),
        (kernels.M, np.float64, [b.counts for b in blocks]),
        (kernels.W, np.float64, [b.group_counts for b in blocks]),
        (kernels.GROUP, np.int64, [b.group_of for b in blocks]),
    ]  # fmt: skip
    flat: Any = [flattened([arrays], dtype, base, stride, [place]) for place, dtype, arrays in columns]
    moves = Moves(
        np.concatenate([b.row_ptr for b in blocks]), np.cumsum([0, *(b.row_ptr.size for b in blocks[:-1])]),
        np.concatenate([b.cols for b in blocks]), np.cumsum([0, *(b.cols.size for b in blocks[:-1])]),
        base, stride, np.array([b.group_of.shape[1] for b in blocks]), *flat,
    )  # fmt: skip
    return read_only(moves)
