"""What is known of a policy when only a simulator exists: estimates with errors, claims with a level."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from fairmdp import records
from fairmdp.learning.counts import Counts, Engine
from fairmdp.learning.evaluation import Evaluation, warnings_of
from fairmdp.model.checks import Bools, Floats, ReadOnly
from fairmdp.model.objectives import Objective
from fairmdp.model.problem import Problem
from fairmdp.model.simulator import Simulator
from fairmdp.solution.solution import slacks
from fairmdp.tables import Table

if TYPE_CHECKING:
    from fairmdp.mirror.solve import Learned

log = logging.getLogger("fairmdp")

Told = Callable[[int, int], None]
"""Whom a certificate tells how many samples it has drawn, and how many it may draw."""

Judgement = Literal["fair", "not fair", "undecided"]
Progress = Callable[[int, int, Callable[[], "Estimate"]], None]


_LONG_RUN = ("gain", "gain_se", "shares", "share_se")


class Round(NamedTuple):
    """What an estimate was after one round of samples."""

    samples: int
    gain: float
    shares: Floats  # (K,)
    margins: Floats  # (K,)
    claim: str

    def log(self) -> None:
        """Say it to the logger ``fairmdp``."""
        log.info("%d samples: gain %.6g, shares %s; %s", self.samples, self.gain, self.shares, self.claim)


@dataclass(frozen=True, eq=False)
class FromRecords(ReadOnly):
    """What an estimate from a log has used of it, and what is missing for a claim.

    Attributes
    ----------
    used : ndarray
        Pairs that were tried often enough, and lead to none that were not, (SA,).
    missing : tuple
        Pairs of which more records would make a claim likely, by name, each with about how many.
    more_records : int or None
        About how many more records would do if they are made as until now; None where it is not known.
    findings : tuple of Finding
        What the checks of the log have shown; an alarm costs the claim.
    """

    used: Bools
    missing: tuple[tuple[str, int], ...] = ()
    more_records: int | None = None
    findings: tuple[records.Finding, ...] = ()


@dataclass(frozen=True, eq=False)
class LearnedWelfare(ReadOnly):
    """What is known of the welfare of a policy that was learned for it.

    Attributes
    ----------
    objective : AlphaFair or another objective
        The welfare W.
    reward : float
        Weight of the gain beside it.
    over : tuple of str
        The groups.
    value : float
        ``reward gain + W(utilities)`` on the estimated model; with a claim, on the fresh samples alone.
    low : float
        What the claim says that it is at least; minus infinity where nothing is claimed.
    upper : float
        On all samples, and beyond twice the errors that they leave about: what no policy has more of.
    utilities : ndarray
        What each group gets on the estimated model, (groups,).
    """

    objective: Objective
    reward: float
    over: tuple[str, ...]
    value: float
    low: float
    upper: float
    utilities: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(ReadOnly):
    """A policy learned from a simulator or from records, and what may be said of it.

    Attributes
    ----------
    policy : ndarray
        Probability of each pair given its state, (SA,).
    gain, gain_se : float
        Long-run average reward of ``policy`` on the estimated model, and its standard error; with a claim, on
        the fresh samples alone.
    shares, share_se : ndarray
        Long-run share of each quota's set on the estimated model, (K,), and standard errors.
    share_low, share_high : ndarray
        What the test of the policy has shown, each at level ``delta``: lower bounds where a share is owed,
        upper ones where it is capped, (K,); 0 and 1 for what was not shown.
    tested_samples : int
        Fresh samples that the test took, which had no part in choosing the policy; 0 without a test.
    margins : ndarray
        How much stricter than asked each quota was made when the policy was chosen, (K,).
    margin_fraction : float
        1 where the quotas leave room for the whole margin. Mirror descent takes no margin.
    gap : float
        A better fair policy earns at most this much more, at the level of the claim if that speaks of it,
        else at level ``delta`` by itself; infinite for mirror descent, which has no such bound.
    prices, bias : ndarray
        What one more unit of share costs in gain (with an objective, in welfare), (K,), and relative values,
        (S,), on the estimated model; NaN where it is not ``feasible``, and for prices of mirror descent.
    feasible : bool
        Whether the quotas as asked can be met on the estimated model; mirror descent takes it for granted.
    guaranteed : bool
        Whether `claim` is a claim; else it says why none is made.
    claim : str
        What fresh samples confirm, at level ``delta`` per run (approximate), or why nothing is claimed.
    samples, min_samples : int
        Samples drawn, in all and of the pair with the fewest.
    deviation : float
        Norm of the deviation matrix of the policy's estimated chain: how far errors in the model move the
        shares; NaN above 2000 states. Infinite where its runs end in several closed classes: gain, shares and
        their errors are then NaN.
    delta : float
        Level of the claim.
    counts : Counts
        What was seen: the ``training`` of `certify`.
    finished : bool
        Whether the run ended by itself; an interrupt keeps what was sampled.
    seconds : float
        Wall-clock time.
    notes : tuple of str
        What a careful reader should know.
    history : tuple of Round
        What was known after each round: its samples, gain, shares, margins and claim. Rounds of mirror
        descent end where its steps have doubled.
    method : str
        ``"plugin"``, ``"mirror"`` or ``"records"``.
    details : Learned or None
        What mirror descent keeps besides: ``occupancy``, ``lam``, ``steps`` and ``settings``.
    records : FromRecords or None
        What was used of a log, and what is missing; None without one.
    welfare : LearnedWelfare or None
        What is known of the welfare that was asked for; None without an objective.
    """

    policy: Floats
    gain: float
    gain_se: float
    shares: Floats
    share_se: Floats
    share_low: Floats
    share_high: Floats
    margins: Floats
    margin_fraction: float
    gap: float
    prices: Floats
    bias: Floats
    feasible: bool
    guaranteed: bool
    claim: str
    quota_names: tuple[str, ...]
    at_least: Floats
    at_most: Floats
    samples: int
    min_samples: int
    deviation: float
    delta: float
    counts: Counts
    finished: bool
    seconds: float
    notes: tuple[str, ...] = ()
    history: tuple[Round, ...] = ()
    method: str = "plugin"
    details: Learned | None = None
    tested_samples: int = 0
    records: FromRecords | None = None
    welfare: LearnedWelfare | None = None

    @classmethod
    def of(cls, owed: Problem, counts: Counts, seen: Evaluation, **rest: Any) -> Estimate:
        """Return the estimate of the policy that was evaluated; ``rest`` is what the method adds.

        Where its runs may end differently nothing is known of what they earn and give.
        """
        apart = math.isinf(seen.deviation)
        if apart:
            rest |= {"gap": math.inf}
        known = {
            **{name: getattr(seen, name) + (math.nan if apart else 0.0) for name in _LONG_RUN},
            "policy": seen.policy,
            "deviation": seen.deviation,
            "quota_names": owed.names,
            "at_least": owed.at_least,
            "at_most": owed.at_most,
            "share_low": np.zeros(owed.n_quotas),
            "share_high": np.ones(owed.n_quotas),
            "samples": counts.total,
            "min_samples": int(counts.per_pair.min()),
            "counts": counts,
            "finished": True,
            "seconds": 0.0,
            "notes": warnings_of(counts, seen.deviation),
        }
        return cls(**known | rest)

    @property
    def round(self) -> Round:
        """The row of ``history`` that this estimate makes."""
        return Round(self.samples, self.gain, self.shares, self.margins, self.claim)

    def ended(self, *, finished: bool, started: float, history: Sequence[Round]) -> Estimate:
        """Return the estimate as the result of a run that was started then."""
        notes = self.notes if finished else (*self.notes, "stopped before the end")
        seconds = time.perf_counter() - started
        return replace(self, finished=finished, seconds=seconds, notes=notes, history=tuple(history))

    @property
    def worst_slack(self) -> float:
        """Smallest estimated distance of a share from its nearer bound; negative where a quota is broken."""
        return float(slacks(self.shares, self.at_least, self.at_most).min(initial=np.inf))

    def to_table(self) -> Table:
        """Return one row per quota, as shares; all of it is estimated."""
        return _by_quota(self, "shares", "share_se", "at_least", "at_most", "margins", "prices")

    def history_table(self) -> Table:
        """Return one row per round: what was known by then."""
        names = ("share", "margin")
        head = ("samples", "gain", *(f"{of}_{name}" for of in names for name in self.quota_names), "claim")
        rows = ((r.samples, r.gain, *r.shares.tolist(), *r.margins.tolist(), r.claim) for r in self.history)
        return Table.of(head, rows)

    def __repr__(self) -> str:
        return (
            f"Estimate(gain={self.gain:.4g} +- {self.gain_se:.1g}, worst_slack={self.worst_slack:.2g}, "
            f"samples={self.samples}, {'guaranteed' if self.guaranteed else 'not guaranteed'})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class CertifiedPolicy(ReadOnly):
    """What fresh samples say of a policy; all intervals hold together with probability ``1 - delta``.

    Attributes
    ----------
    verdict : str
        ``"fair"`` if every quota is met, ``"not fair"`` if one is broken, else ``"undecided"``.
    verdicts : tuple of str
        The same for each quota, (K,).
    more_samples : int or None
        About how many further samples would decide; None where all is decided or no number can be given.
    gain, gain_low, gain_high : float
        Long-run average reward: estimate and interval.
    shares, share_low, share_high : ndarray
        Long-run share of each quota's set: estimate and interval, (K,).
    upper : float
        No policy that meets the quotas earns more, at the same level; infinite without training counts.
    method : str
        Where the intervals come from.
    rigorous : bool
        Whether the level holds for every number of samples, not only for many.
    vacuous : bool
        Whether the samples were too few for a rigorous statement: the intervals are then [0, 1].
    samples, cycles : int
        Fresh samples drawn, and regeneration cycles among them.
    seconds : float
        Wall-clock time.
    notes : tuple of str
        What a careful reader should know.
    """

    policy: Floats
    verdict: Judgement
    verdicts: tuple[Judgement, ...]
    more_samples: int | None
    gain: float
    gain_low: float
    gain_high: float
    shares: Floats
    share_low: Floats
    share_high: Floats
    upper: float
    quota_names: tuple[str, ...]
    at_least: Floats
    at_most: Floats
    delta: float
    method: str
    rigorous: bool
    vacuous: bool
    samples: int
    cycles: int
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """How much a better fair policy could still earn: ``upper - gain_low``."""
        return self.upper - self.gain_low

    def to_table(self) -> Table:
        """Return one row per quota: the interval of its share, and the verdict on it."""
        table = _by_quota(self, "shares", "share_low", "share_high", "at_least", "at_most")
        return Table({**table, "verdict": list(self.verdicts)})

    def __repr__(self) -> str:
        return (
            f"CertifiedPolicy({self.verdict} at level {self.delta:g}, "
            f"gain in [{self.gain_low:.4g}, {self.gain_high:.4g}], samples={self.samples})"
        )


def _by_quota(found: Estimate | CertifiedPolicy, *arrays: str) -> Table:
    """Arrays over the quotas, (K,) each, as columns."""
    columns = {name.removesuffix("s"): getattr(found, name).tolist() for name in arrays}
    return Table({"quota": list(found.quota_names), **columns})


@dataclass(frozen=True, eq=False)
class Intervals(ReadOnly):
    """Estimates and simultaneous intervals: shares of the quotas first, the gain last, (K + 1,) each."""

    value: Floats
    low: Floats
    high: Floats
    method: str
    samples: int = 0
    cycles: int = 0
    vacuous: bool = False
    together: bool = True  # whether all rollouts came to one state
    notes: tuple[str, ...] = ()
    upper: float = np.inf  # on the best gain

    @classmethod
    def around(cls, value: Floats, radius: Floats, method: str, **rest: Any) -> Intervals:
        """Return ``value +- radius``; shares stay within 0 and 1."""
        low, high = value - radius, value + radius
        low[:-1], high[:-1] = np.clip(low[:-1], 0, 1), np.clip(high[:-1], 0, 1)
        return cls(value, low, high, method, **rest)


@dataclass(frozen=True, eq=False)
class Inquiry:
    """What a certificate is asked for: intervals at one level, a bound on the best gain at it once more."""

    simulator: Simulator
    owed: Problem
    pi: Floats  # (SA,)
    samples: int
    level: float
    seeds: Iterator[np.random.SeedSequence]
    training: Counts | None
    reward_range: tuple[float, float] | None
    engine: Engine
    progress: Told | None = None

    def told(self, parts: Iterable[Any], before: int = 0) -> Iterator[Any]:
        """Pass on parts of the work, and tell how many samples they took, beside those drawn before."""
        for part in parts:
            before += part.samples
            self.tell(before)
            yield part

    def tell(self, drawn: int) -> None:
        """Say how many samples were drawn."""
        log.info("%d of %d samples of the certificate", drawn, self.samples)
        if self.progress is not None:
            self.progress(drawn, self.samples)
