"""What is known of a policy when only a simulator exists: estimates with errors, claims with a level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairmdp.learning.counts import Counts
from fairmdp.solution import slacks
from fairmdp.validation import Floats

Judgement = Literal["fair", "not fair", "undecided"]


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """A policy learned from a simulator, and what may be said of it.

    Attributes
    ----------
    policy : ndarray
        Probability of each pair given its state, (SA,).
    gain, gain_se : float
        Long-run average reward of `policy` on the estimated model, and its standard error.
    shares, share_se : ndarray
        Long-run share of each quota's set on the estimated model, (K,), and standard errors.
    margins : ndarray
        How much stricter than asked each quota was made, (K,): ``margin_fraction`` of what the claim needs.
    margin_fraction : float
        1 where the quotas leave room for the whole margin; below that nothing is guaranteed.
    gap : float
        A better fair policy earns at most this much more, at the level of the claim if that speaks of it,
        else at level ``delta`` by itself.
    prices, bias : ndarray
        What one more unit of share costs in gain, (K,), and relative values, (S,), on the estimated model;
        NaN where it is not ``feasible``.
    feasible : bool
        Whether the quotas as asked can be met on the estimated model.
    guaranteed : bool
        Whether `claim` is a claim; else it says why none is made.
    claim : str
        What holds with probability ``1 - delta`` over the samples, or the reason why that is withheld.
    samples, min_samples : int
        Samples drawn, in all and of the pair with the fewest.
    deviation : float
        Norm of the deviation matrix of the policy's estimated chain: how far errors in the model move the
        shares; NaN above 2000 states, infinite for several closed classes.
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
    """

    policy: Floats
    gain: float
    gain_se: float
    shares: Floats
    share_se: Floats
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

    @property
    def worst_slack(self) -> float:
        """Smallest estimated distance of a share from its nearer bound; negative where a quota is broken."""
        return float(slacks(self.shares, self.at_least, self.at_most).min(initial=np.inf))

    def __repr__(self) -> str:
        return (
            f"Estimate(gain={self.gain:.4g} +- {self.gain_se:.1g}, worst_slack={self.worst_slack:.2g}, "
            f"samples={self.samples}, {'guaranteed' if self.guaranteed else 'not guaranteed'})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class CertifiedPolicy:
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

    def __repr__(self) -> str:
        return (
            f"CertifiedPolicy({self.verdict} at level {self.delta:g}, "
            f"gain in [{self.gain_low:.4g}, {self.gain_high:.4g}], samples={self.samples})"
        )


@dataclass(frozen=True, eq=False)
class Intervals:
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
