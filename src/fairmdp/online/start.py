"""Where an agent begins: a policy that is known to overstep all quotas, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.learning.counts import Counts
from fairmdp.learning.estimate import Estimate
from fairmdp.learning.records import counts_of
from fairmdp.model.checks import Floats, Ints, ReadOnly, refuse
from fairmdp.model.labels import Labels
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.online.safe_start import SafeStart
from fairmdp.policy.policy import Policy
from fairmdp.records.log import Log
from fairmdp.solution.solution import Solution, slacks


@dataclass(frozen=True, eq=False)
class Start(ReadOnly):
    """The policy that restores, by how much it oversteps every bound, and who says so."""

    policy: Floats  # (SA,)
    slack: float
    said: str


class Known(NamedTuple):
    """What was counted before the run, and the numbers that its pairs and states have in the agent."""

    counts: Counts
    pairs: Ints
    states: Ints


def known_from(given: Any, owed: Problem) -> Known | None:
    """What a start or a log knows of the world; nothing for a policy."""
    mdp = owed.mdp
    if isinstance(given, Log):
        return _matched(counts_of(given), given.labels, mdp)
    if isinstance(given, SafeStart):
        return _matched(given.counts, given.labels, mdp)
    if isinstance(given, Estimate) and given.counts.n_pairs == mdp.n_pairs:
        return Known(given.counts, np.arange(mdp.n_pairs), np.arange(mdp.n_states))
    return None


def _matched(counts: Counts, labels: Labels, mdp: MDP) -> Known:
    """Pairs and states of other labels by name; what was never left has no action here, and no records."""
    if labels == Labels.of(mdp):
        return Known(counts, np.arange(mdp.n_pairs), np.arange(mdp.n_states))
    states = np.array([mdp.state_index(labels.state_name(s)) for s in range(labels.n_states)])
    pairs = np.zeros(labels.n_pairs, np.int64)
    for i in np.flatnonzero(counts.per_pair).tolist():
        pairs[i] = mdp.pair_index(int(states[labels.s_of[i]]), labels.action_name(i))
    return Known(counts, pairs, states)


def start_of(given: Any, slack: float | None, owed: Problem) -> Start:
    """What a user gave as a start, on the states and actions of an agent."""
    if slack is not None and not (np.isfinite(slack) and slack > 0):
        raise ProblemError(f"slack is {slack!r}, expected a share above 0")
    if isinstance(given, Solution):
        return Start(_policy(owed, given), _known(slack, given, owed), "a solved model")
    if isinstance(given, Estimate | SafeStart):
        return _learned(given, slack, owed)
    if slack is None:
        refuse(
            "the start has no slack",
            "a policy alone does not say by how much it oversteps the quotas",
            "give slack=, the least distance of its long-run shares from their bounds",
        )
    return Start(_policy(owed, given), slack, "a given policy, on the word of the caller")


def _policy(owed: Problem, given: Any) -> Floats:
    return Policy.of(owed, given).array


def _known(slack: float | None, given: Solution, owed: Problem) -> float:
    """Slack of a solved problem with these quotas, by name."""
    at = [given.quota_names.index(name) if name in given.quota_names else -1 for name in owed.names]
    if -1 in at:
        raise ProblemError(f"the solution says nothing of quota {owed.names[at.index(-1)]}")
    found = float(slacks(given.shares[at], owed.at_least, owed.at_most).min(initial=np.inf))
    return _enough(found, slack, "the policy of this solution")


def _learned(given: Estimate | SafeStart, slack: float | None, owed: Problem) -> Start:
    if not given.guaranteed:
        refuse(
            "this policy was learned without a claim, so it is no safe start",
            given.claim,
            "learn from more records, or let the agent run without a start; records= tells it what they know",
        )
    at = [given.quota_names.index(name) if name in given.quota_names else -1 for name in owed.names]
    if -1 in at:
        raise ProblemError(f"nothing was learned of quota {owed.names[at.index(-1)]}")
    nothing, all_ = np.zeros(owed.n_quotas), np.ones(owed.n_quotas)
    low, high = given.share_low[at], given.share_high[at]
    both = np.minimum(slacks(low, owed.at_least, all_), slacks(high, nothing, owed.at_most))
    found = _enough(float(both.min(initial=np.inf)), slack, "the claim")
    policy = Policy(given.labels, given.policy[None], np.ones(1)) if isinstance(given, SafeStart) else given
    return Start(_policy(owed, policy), found, f"a policy learned with a claim: {given.claim}")


def _enough(found: float, asked: float | None, whose: str) -> float:
    """Slack that is there: all of it, or what was asked of it."""
    if asked is not None and asked > found:
        raise ProblemError(f"slack is {asked:g}, but {whose} has {found:.4g}")
    if not found > 0:
        refuse(
            f"{whose} leaves no slack ({found:.3g}), so that it can restore nothing",
            "a policy that meets the quotas only just keeps an account where it is",
            "solve or learn with stricter bounds, and give the agent those that are owed",
        )
    return found if asked is None else asked
