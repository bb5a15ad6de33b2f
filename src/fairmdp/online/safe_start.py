"""A safe start from records: one policy with room to spare, and how much of it later records confirm.

The earlier half of the records chooses the policy that earns the most with a part of the largest slack that
all quotas can have together. The later half tests this one policy: ``credited``, the least distance of a
tested bound from what is owed, exceeds the true slack only if the bound of the quota that truly has the
least does. So it is wrong in at most a share delta of all logs, like the test itself (`posterior`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from fairmdp.errors import ProblemError
from fairmdp.learning.counts import Counts, Seed, sample_pairs, seed_stream, spread_evenly
from fairmdp.learning.evaluation import Evaluation, estimated, evaluate
from fairmdp.learning.plugin import check_delta
from fairmdp.learning.posterior import affordable_draws
from fairmdp.learning.records import Part, counts_of, kept_pairs, tested, unused
from fairmdp.model.checks import Floats, ReadOnly, check_count
from fairmdp.model.labels import Labels
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.model.simulator import CheckedSimulator, Simulator, shell_model
from fairmdp.online.bounds import Bounds
from fairmdp.online.planning import Planner
from fairmdp.records.log import Log
from fairmdp.solution.solution import slacks
from fairmdp.tables import Table

_CHOOSING, _TESTING = 7, 8  # keys of the streams of seeds: of samples, and of the draws that test


@dataclass(frozen=True)
class Tuning:
    """How records make a start."""

    choosing: float = 0.5  # share of the records, the earlier ones, that choose the policy
    fewest: int = 20  # of these for a pair to be used
    parts: tuple[float, ...] = (0.5, 0.7, 0.9)  # of the largest slack; the first of which half should be left


TUNING = Tuning()


@dataclass(frozen=True, eq=False, repr=False)
class SafeStart(ReadOnly):
    """A policy for an `OnlineAgent` to begin with, and by how much it oversteps the quotas.

    Attributes
    ----------
    policy : ndarray
        Probability of each pair given its state, (SA,), of the states and actions of ``labels``.
    slack : float
        By how much its long-run shares overstep every bound, at least; at level ``delta``.
    guaranteed : bool
        Whether there is such a claim; else ``claim`` says why not, and the policy is no start.
    claim : str
        The claim in words.
    shares : ndarray
        Estimated long-run shares, (K,), from the records that did not choose the policy.
    share_low, share_high : ndarray
        What the test has shown, (K,).
    delta : float
        Level of the claim.
    counts : Counts
        All records; the agent begins with what they know.
    notes : tuple of str
        What a careful reader should know.
    """

    labels: Labels
    policy: Floats
    slack: float
    guaranteed: bool
    claim: str
    shares: Floats
    share_low: Floats
    share_high: Floats
    quota_names: tuple[str, ...]
    at_least: Floats
    at_most: Floats
    delta: float
    counts: Counts
    notes: tuple[str, ...] = ()

    def to_table(self) -> Table:
        """Return one row per quota, as shares: what is asked, estimated and confirmed."""
        names = ("shares", "share_low", "share_high", "at_least", "at_most")
        columns = {name.removesuffix("s"): getattr(self, name).tolist() for name in names}
        return Table({"quota": list(self.quota_names), **columns})

    def __repr__(self) -> str:
        return f"SafeStart({self.claim.split(';')[0]})"


def learn_start(
    source: Log | Simulator,
    quotas: Iterable[Quota],
    *,
    samples: int | None = None,
    delta: float = 0.05,
    seed: Seed = 0,
    tuning: Tuning = TUNING,
) -> SafeStart:
    """Learn a policy that oversteps all quotas, for an `OnlineAgent` to begin with.

    Parameters
    ----------
    source
        A `Log`, or a simulator.
    quotas
        What is owed.
    samples
        Of a simulator: how often it is asked, the same number of times about every pair.
    delta
        How often the slack that is claimed may be larger than the true one.
    seed
        Everything random follows from it.

    Returns
    -------
    SafeStart
        Without a claim it says why: too few records, or no policy that leaves room.

    Examples
    --------
    >>> from fairmdp import record, scenarios
    >>> world = scenarios.three_state()
    >>> learn_start(record(world.mdp, steps=4000, seed=1), world.quotas)
    SafeStart(all quotas are overstepped by at least 0.0858, confirmed on 2,000 later records at level 0.05
    (approximate))
    """
    check_delta(delta)
    if isinstance(source, Log):
        if samples is not None:
            raise ProblemError("samples are for simulators: a log holds the records that there are")
        first = source.earlier(tuning.choosing)
        halves = counts_of(source.part(first)), counts_of(source.part(~first))
        alarms = tuple(finding.sentence for finding in source.check() if finding.alarm)
        return _start(source.problem(quotas), *halves, alarms, delta, seed, tuning)
    check_count("samples", samples)
    assert samples is not None
    simulator = CheckedSimulator(source)
    whole = Problem(shell_model(simulator), quotas)
    seeds, even = seed_stream(seed, _CHOOSING), np.ones(whole.mdp.n_pairs)
    early = int(tuning.choosing * samples)
    first_half, second_half = (
        Counts.merged(sample_pairs(simulator, spread_evenly(number, even), seeds))
        for number in (early, samples - early)
    )
    return _start(whole, first_half, second_half, (), delta, seed, tuning)


def _start(
    whole: Problem,
    early: Counts,
    late: Counts,
    alarms: tuple[str, ...],
    delta: float,
    seed: Seed,
    tuning: Tuning,
) -> SafeStart:
    kept = kept_pairs(whole, early, tuning.fewest)
    part = Part(whole, kept)
    owed, counts = part.owed, part.counts(early)
    bounds = Bounds.of(owed)
    if not bounds.size:
        raise ProblemError("nothing is owed, so there is nothing to start safely from\n  give quotas")
    model = estimated(owed, counts)
    tries = [Planner(bounds, share).restore(model.mdp) for share in tuning.parts]
    seen = [evaluate(model, counts, plan.policy) for plan in tries]
    z = -float(ndtri(delta))
    hopeful = [n for n, each in enumerate(seen) if _leaves_half(each, owed, z)]
    chosen = hopeful[0] if hopeful else len(tries) - 1
    policy, draws = tries[chosen].policy, affordable_draws(owed.mdp.n_states, delta)
    K = owed.n_quotas
    low, high, shares, slack = np.zeros(K), np.ones(K), seen[chosen].shares, -np.inf
    if tries[chosen].room <= 0:
        why = "no claim: on the earlier records no policy oversteps all quotas"
    elif not draws:
        why = f"no claim: {owed.mdp.n_states} states are too many to test a policy here"
    else:
        rng = np.random.default_rng(next(seed_stream(seed, _TESTING)))
        found = tested(part, late, policy, delta, draws, rng)
        low, high, why = found.low, found.high, f"no claim: {found.why_not}"
        if not found.why_not:
            shares = found.shares
            nothing, all_ = np.zeros(K), np.ones(K)
            both = slacks(low, owed.at_least, all_), slacks(high, nothing, owed.at_most)
            slack = float(np.minimum(*both).min())
            why = _words(slack, part.counts(late).total, delta)
    if slack > 0 and alarms:
        why, slack = (
            f"no claim: the records are not those of a Markov model ({alarms[0]}); else {why}",
            -np.inf,
        )
    everything = Counts.merged([early, late])
    notes = (*alarms, *unused(whole.mdp, kept, everything))
    return SafeStart(
        labels=Labels.of(whole.mdp),
        policy=part.widened(policy, everything),
        slack=max(slack, 0.0),
        guaranteed=slack > 0,
        claim=why,
        shares=shares,
        share_low=low,
        share_high=high,
        quota_names=owed.names,
        at_least=owed.at_least,
        at_most=owed.at_most,
        delta=delta,
        counts=everything,
        notes=notes,
    )


def _leaves_half(seen: Evaluation, owed: Problem, z: float) -> bool:
    """Whether at least half of the slack is beyond the errors that are to be expected of the test."""
    slack = float(slacks(seen.shares, owed.at_least, owed.at_most).min())
    return slack >= 2 * z * float(seen.share_se.max())


def _words(slack: float, records: int, delta: float) -> str:
    on = f"on {records:,} later records at level {delta:g} (approximate)"
    if slack > 0:
        return f"all quotas are overstepped by at least {slack:.3g}, confirmed {on}"
    return f"no claim: a quota may be missed by {-slack:.3g}, by the test {on}; more records may show a slack"
