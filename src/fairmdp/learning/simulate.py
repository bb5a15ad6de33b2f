"""Run a policy and watch: long-run shares with error bars, and how near to them finite runs come.

Runs are independent of each other, whatever happens within one, so the spread of their means is an honest
error bar. Estimates of the long run leave out the first tenth of every run, which still remembers where it
began; what a run has seen after all of its steps is kept as well, because this is what a user will meet.
Error bars do not cover what the ends of a run leave over, at most ``span(h) / steps`` for the bias ``h``:
nothing for a chain that mixes, everything for one that does not within a run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, diags_array, hstack

from fairmdp.certificate.course import course_of
from fairmdp.chains.chain import Chain
from fairmdp.errors import ProblemError
from fairmdp.learning.counts import CHUNK, Engine, Seed, seed_stream
from fairmdp.learning.rollouts import Walks
from fairmdp.model.checks import Bools, Floats, Ints, ReadOnly, check_count
from fairmdp.model.conditional import ConditionalShare
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.model.simulator import CheckedSimulator, Simulator, shell_model
from fairmdp.model.transitions import EXACT_SUM_TOL
from fairmdp.policy.policy import Policy
from fairmdp.solution.solution import Solution
from fairmdp.tables import Table

SIMULATING = 2
"""Key of the stream of seeds of simulations; learning and certificates have their own."""

_SURPRISING = 5.0  # standard errors from the exact value that call for a word
_KEPT = 0.9  # of a run, after the first tenth
_MOST = 20


@dataclass(frozen=True)
class Tuning:
    """How runs are made; only ``held`` leaves the result as it is."""

    together: int = 25  # runs side by side, enough for quick array work; what is drawn depends on it
    burn_in: float = 0.1  # share of a run that estimates of the long run leave out
    held: int = 16 * CHUNK  # steps that are kept until they are counted, 4 MB of them


_TUNING = Tuning()


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(ReadOnly):
    """What independent runs of one policy have seen.

    Attributes
    ----------
    gain, gain_se : float
        Long-run average reward: mean over the runs, and its standard error.
    shares, share_se : ndarray
        Long-run share of each quota's set, (K,): mean over the runs, and standard errors.
    run_gains, run_shares : ndarray
        What each run has seen after all of its steps, (R,) and (R, K).
    steps, runs : int
        Length of a run, and how many there were.
    run_times : ndarray
        Time that each run took, (R,): its steps, unless steps have durations.
    conditions : tuple of ConditionalShare
        How much time the condition of each conditional quota had: mean over the runs.
    part_se : ndarray
        Standard errors of their conditional shares, (conditions,): of a quotient of two means.
    run_masses : ndarray
        The same in each run after all of its steps, (R, conditions).
    starts, last : ndarray
        First state of each run, and the one that it has come to, (R,).
    follows : ndarray
        Which policy of a mixture each run has drawn, (R,); 0 of a policy that is none.
    finished : bool
        Whether all runs took all steps; an interrupt keeps those that did.
    seconds : float
        Wall-clock time.
    notes : tuple of str
        What a careful reader should know.
    """

    gain: float
    gain_se: float
    shares: Floats
    share_se: Floats
    run_gains: Floats
    run_shares: Floats
    quota_names: tuple[str, ...]
    at_least: Floats
    at_most: Floats
    steps: int
    runs: int
    run_times: Floats
    starts: Ints
    last: Ints
    follows: Ints
    finished: bool
    seconds: float
    notes: tuple[str, ...] = ()
    conditions: tuple[ConditionalShare, ...] = ()
    part_se: Floats = field(default_factory=lambda: np.zeros(0))
    run_masses: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def quantiles(self, q: Sequence[float] = (0.05, 0.5, 0.95)) -> Floats:
        """Quantiles over the runs of each share after all steps, (Q, K)."""
        return np.quantile(self.run_shares, q, axis=0)

    def deviations(self, q: Sequence[float] = (0.5, 0.95), long_run: ArrayLike | None = None) -> Floats:
        """Quantiles over the runs of how far a share after all steps is from the long run, (Q, K).

        ``long_run`` are the long-run shares, (K,), where they are known better than from these runs.
        """
        known = self.shares if long_run is None else np.asarray(long_run, float)
        return np.quantile(np.abs(self.run_shares - known), q, axis=0)

    def to_table(self) -> Table:
        """Return one row per quota: its share, with what the runs have seen after all steps."""
        parts = (0.05, 0.5, 0.95)
        head = ("quota", "share", "share_se", *(f"after_steps_{part:g}" for part in parts), "met")
        columns = (self.shares, self.share_se, *self.quantiles(parts), self.met)
        return Table(zip(head, (list(self.quota_names), *(c.tolist() for c in columns)), strict=True))

    @property
    def met(self) -> Floats:
        """Share of the runs in which each quota is met after all steps, (K,)."""
        return self._run_met.mean(axis=0)

    @property
    def met_all(self) -> float:
        """Share of the runs in which all quotas are met after all steps."""
        return float(self._run_met.all(axis=1).mean())

    @property
    def _run_met(self) -> Bools:
        low, high = self.at_least - EXACT_SUM_TOL, self.at_most + EXACT_SUM_TOL
        return (self.run_shares >= low) & (self.run_shares <= high)

    def __repr__(self) -> str:
        return (
            f"Simulation({self.runs} runs of {self.steps} steps, gain={self.gain:.4g} +- {self.gain_se:.1g}, "
            f"quotas met in {self.met_all:.0%} of the runs)"
        )


def simulate(
    model: MDP | Simulator,
    policy: Any,
    *,
    steps: int,
    runs: int = 100,
    seed: Seed = 0,
    starts: int | str | Sequence[int | str] | Ints | None = None,
    quotas: Iterable[Quota] = (),
    engine: Engine = map,
    tuning: Tuning = _TUNING,
) -> Simulation:
    """Run a policy many times.

    Parameters
    ----------
    model
        An MDP, or a simulator.
    policy
        Probability of each pair given its state, (SA,), or whatever else `Policy.of` takes. Of a mixture each
        run draws one policy when it begins, and follows it to its end.
    steps
        Length of a run; in a model whose steps take time these are decisions, and what a run has seen is
        weighed with their mean durations.
    runs
        Number of independent runs, at least 2. Error bars shrink with ``sqrt(runs * steps)``.
    seed
        Everything random follows from it.
    starts
        First state of all runs, or one per run. By default drawn from ``initial`` of the MDP, or evenly
        from all states where there is none.
    quotas
        Whose shares are watched, and with what bounds.
    engine
        Where parts of the runs are done: the built-in ``map``, a `ProcessPool` or a `RayCluster`. Results do
        not depend on it.
    tuning
        See `Tuning`.

    Returns
    -------
    Simulation
        Ctrl-C returns the runs seen so far, or the steps of the first ones, with ``finished=False``.

    Examples
    --------
    >>> from fairmdp import scenarios, solve
    >>> problem = scenarios.three_state()
    >>> policy = solve(problem).policy
    >>> seen = simulate(problem.mdp, policy, steps=2000, quotas=problem.quotas)
    >>> seen
    Simulation(100 runs of 2000 steps, gain=0.4437 +- 0.0003, quotas met in 48% of the runs)
    >>> seen.met  # s2 binds: after any number of steps about half of the runs are still short of it
    array([1.  , 1.  , 0.48])
    """
    began = time.perf_counter()
    check_count("steps", steps)
    check_count("runs", runs)
    if runs < 2:
        raise ProblemError("runs is 1, expected at least 2: error bars come from the spread of the runs")
    known = isinstance(model, MDP)
    simulator: Simulator = model.simulator() if isinstance(model, MDP) else CheckedSimulator(model)
    problem = Problem(model if isinstance(model, MDP) else shell_model(simulator), quotas)
    given = Policy.of(problem.mdp, policy)
    seeds = seed_stream(seed, SIMULATING)
    rng = np.random.default_rng(next(seeds))
    first = _starts(problem.mdp, starts, runs, rng)
    follows = _drawn(given, runs, rng)
    cuts = range(tuning.together, runs, tuning.together)
    parts = zip(seeds, zip(np.split(first, cuts), np.split(follows, cuts), strict=True), strict=False)
    seen = _kept(engine(partial(_run, simulator, problem, given.parts, steps, tuning), parts))
    first, last, follows = (
        np.concatenate([getattr(part, name) for part in seen]) for name in ("first", "last", "follows")
    )
    whole = np.concatenate([part.after_all for part in seen])  # (R, K + conditions + 1)
    late = np.concatenate([part.long_run for part in seen])
    K, masses = problem.n_quotas, late[:, problem.n_quotas : -1].mean(axis=0).tolist()
    times = np.concatenate([part.times for part in seen])
    root = np.sqrt(first.size)
    conditions = tuple(
        ConditionalShare(c.quota, c.bound, c.least, mass)
        for c, mass in zip(problem.conditions, masses, strict=True)
    )
    return Simulation(
        gain=float(late[:, -1].mean()),
        gain_se=float(late[:, -1].std(ddof=1) / root),
        shares=late[:, :K].mean(axis=0),
        share_se=late[:, :K].std(axis=0, ddof=1) / root,
        run_gains=whole[:, -1],
        run_shares=whole[:, :K],
        quota_names=problem.names,
        at_least=problem.at_least,
        at_most=problem.at_most,
        steps=seen[0].steps,
        runs=first.size,
        run_times=times,
        starts=first,
        last=last,
        follows=follows,
        finished=first.size == runs and seen[-1].finished,
        seconds=time.perf_counter() - began,
        notes=_notes(problem.mdp, given, first) if known else (),
        conditions=conditions,
        part_se=_part_errors(problem, conditions, late) / root,
        run_masses=whole[:, K:-1],
    )


def _part_errors(problem: Problem, conditions: Sequence[ConditionalShare], late: Floats) -> Floats:
    """Spread of each conditional share over the runs, (conditions,): of what runs have beside their due.

    A run with much time in a condition has much of everything there, which says nothing of the part.
    """
    K, errors = problem.n_quotas, np.full(len(conditions), np.nan)
    values = problem.units.values(late[:, :K])
    for j, c in enumerate(conditions):
        if not c.void:
            beside = values[:, c.quota] - values[:, c.quota].mean() / c.mass * late[:, K + j]
            errors[j] = beside.std(ddof=1) / c.mass
    return errors


class _Seen:
    """Sums over each run of what quotas count, of time and of rewards, those of the burn-in apart."""

    def __init__(self, problem: Problem, first: Ints, follows: Ints, burn_in: int) -> None:
        self.first, self.last, self.follows = first, first, follows
        self.burn_in, self.steps, self.finished = burn_in, 0, True
        tau = problem.mdp.durations
        conditions = [np.isin(np.arange(problem.mdp.n_pairs), c.of) for c in problem.conditions]
        columns = [problem.members.T, *(of[:, None] for of in conditions), np.ones((problem.mdp.n_pairs, 1))]
        counted = hstack(columns)  # (SA, K + conditions + 1)
        self._counted = csr_array(counted if tau is None else diags_array(tau) @ counted)
        # Burn-in and later, runs; what quotas count, their conditions, time, rewards.
        self._sums = np.zeros((2, first.size, problem.n_quotas + len(conditions) + 2))

    def add(self, pairs: Ints, rewards: Floats) -> None:
        """Count some steps of all runs, (t, R) each, that lie on one side of the end of the burn-in."""
        t, runs = pairs.shape
        run = np.tile(np.arange(runs), t)
        visits = csr_array((np.ones(run.size), (run, pairs.ravel())), shape=(runs, self._counted.shape[0]))
        late = int(self.steps >= self.burn_in)
        self._sums[late, :, :-1] += (visits @ self._counted).toarray()
        self._sums[late, :, -1] += rewards.sum(axis=0)
        self.steps += t

    @property
    def after_all(self) -> Floats:
        """Shares of time and rewards per unit of time over all steps, (R, K + conditions + 1)."""
        return _per_time(self._sums.sum(axis=0))

    @property
    def long_run(self) -> Floats:
        """The same without the burn-in, if the runs got that far."""
        return _per_time(self._sums[1]) if self.steps > self.burn_in else self.after_all

    @property
    def times(self) -> Floats:
        """Time that each run took, (R,)."""
        return np.asarray(self._sums[..., -2].sum(axis=0))


def _per_time(sums: Floats) -> Floats:
    """Sums over the time of each run, which is their last column but one."""
    return np.delete(sums, -2, axis=1) / sums[:, -2:-1]


def _run(
    simulator: Simulator,
    problem: Problem,
    policies: Floats,
    steps: int,
    tuning: Tuning,
    task: tuple[np.random.SeedSequence, tuple[Ints, Ints]],
) -> _Seen:
    """Some of the runs, in blocks that end with the burn-in or with the memory for them."""
    seed, (states, follows) = task
    walks = Walks(simulator, problem.mdp, policies, seed, follows)
    seen = _Seen(problem, states, follows, int(tuning.burn_in * steps))
    block = max(tuning.held // states.size, 1)
    pairs, rewards = np.empty((block, states.size), np.int64), np.empty((block, states.size))
    filled = 0
    try:
        for t in range(1, steps + 1):
            pairs[filled], states, rewards[filled] = walks.step(states)
            seen.last = states
            filled += 1
            if filled == block or t in (seen.burn_in, steps):
                seen.add(pairs[:filled], rewards[:filled])
                filled = 0
    except KeyboardInterrupt:
        seen.finished = False
        if filled:
            seen.add(pairs[:filled], rewards[:filled])
    return seen


def _kept(parts: Iterable[_Seen]) -> list[_Seen]:
    """Parts that took all of their steps; if the first one was stopped, the steps that it took."""
    seen: list[_Seen] = []
    with suppress(KeyboardInterrupt):
        for part in parts:
            if part.finished or not seen:
                seen.append(part)
            if not part.finished:
                break
    if sum(part.first.size for part in seen if part.steps) < 2:
        raise KeyboardInterrupt
    return seen


def _starts(mdp: MDP, starts: Any, runs: int, rng: np.random.Generator) -> Ints:
    """First state of each run, (R,)."""
    if starts is None:
        return rng.choice(mdp.n_states, size=runs, p=mdp.initial)
    if isinstance(starts, int | str):
        return np.full(runs, mdp.state_index(starts))
    first = np.array([mdp.state_index(s) for s in starts], np.int64)
    if first.size != runs:
        raise ProblemError(f"starts has {first.size} states, expected {runs}: one per run, or one for all")
    return first


def _drawn(policy: Policy, runs: int, rng: np.random.Generator) -> Ints:
    """Which policy of a mixture each run follows, (R,)."""
    if not policy.is_mixture:
        return np.zeros(runs, np.int64)
    return rng.choice(len(policy.weights), size=runs, p=policy.weights / policy.weights.sum())


def _notes(mdp: MDP, policy: Policy, starts: Ints) -> tuple[str, ...]:
    began = mdp.with_initial(np.bincount(starts, minlength=mdp.n_states) / starts.size)
    classes = sum(course_of(began, part).n_classes for part in policy.parts)
    if classes == 1:
        return ()
    drawn = f"each run has drawn one of {len(policy.weights)} policies, and " if policy.is_mixture else ""
    return (
        f"{drawn}a run may end in any of {classes} closed classes: its shares depend on which, "
        "and the means are over runs with these starts",
    )


def surprises(problem: Problem, solution: Solution, seen: Simulation) -> tuple[str, ...]:
    """Say what does not fit: a solution of another problem, or means far from its exact values.

    Examples
    --------
    >>> from fairmdp import scenarios, simulate, solve
    >>> problem = scenarios.three_state()
    >>> solution = solve(problem)
    >>> seen = simulate(problem.mdp, solution.policy, steps=100, runs=10, quotas=problem.quotas)
    >>> surprises(problem.with_bounds([0, 0, 0]), solution, seen)
    ('the solution is of another model or other quotas; its exact values are not of this one',)
    """
    found = []
    if solution.provenance.get("problem") != problem.digest:
        found.append("the solution is of another model or other quotas; its exact values are not of this one")
    mdp, units = problem.mdp, problem.units
    # The shares of a solution about runs from the start are those of the worst of them.
    known = solution.shares if solution.ends is None else problem.members @ solution.occupancy
    exact = dict(zip(solution.quota_names, units.values(known).tolist(), strict=True))
    shares, errors = units.values(seen.shares).tolist(), units.spans(seen.share_se).tolist()
    watched: list[tuple[str, float, float, float, Any]] = [
        ("gain", solution.gain, seen.gain, seen.gain_se, mdp.rates)
    ]
    for k, name in enumerate(seen.quota_names):
        if name in exact:
            watched.append((f"share of {name}", exact[name], shares[k], errors[k], problem.weights[[k]]))
    for what, due, mean, error, collected in watched:
        off = abs(mean - due)
        if off > _SURPRISING * error + 1e-9 * max(1.0, abs(due)) and len(found) < _MOST:
            why = _why(mdp, solution, seen, collected, off - _SURPRISING * error)
            found.append(f"{what} {mean:.4f} is {off:.1g} off, beyond its error bar: {why}")
    return tuple(found)


def _why(mdp: MDP, solution: Solution, seen: Simulation, collected: Any, beyond: float) -> str:
    """What may have moved a mean so far beyond its error bar."""
    if solution.ends is not None:
        return "runs may still have been on their way to where they end; take more steps"
    ends = _end_effect(mdp, solution.policy, collected) / seen.run_times.min() / _KEPT
    if beyond > ends:
        return "that is no accident"
    return f"where runs begin and end may shift it by {ends:.1g}; take more steps"


def _end_effect(mdp: MDP, policy: Floats, collected: Any) -> float:
    """Span of the bias of what a pair collects: a time T differs from T times the mean by at most that."""
    chain = Chain.of(mdp, policy)
    if len(chain.closed_classes) > 1:
        return math.inf
    f = collected.toarray()[0] if hasattr(collected, "toarray") else collected
    f_of = np.add.reduceat(mdp.per_step(policy) * f, mdp.pair_ptr[:-1])
    return float(np.ptp(chain.bias(f_of))) * mdp.step
