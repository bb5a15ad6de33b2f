"""Where an agent begins: a policy that is known to overstep all quotas, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.learning.estimate import Estimate
from fairmdp.model.checks import Floats, ReadOnly, refuse
from fairmdp.model.problem import Problem
from fairmdp.policy.policy import Policy
from fairmdp.solution.solution import Solution, slacks


@dataclass(frozen=True, eq=False)
class Start(ReadOnly):
    """The policy that restores, by how much it oversteps every bound, and who says so."""

    policy: Floats  # (SA,)
    slack: float
    said: str


def start_of(given: Any, slack: float | None, owed: Problem) -> Start:
    """What a user gave as a start, on the states and actions of an agent."""
    if slack is not None and not (np.isfinite(slack) and slack > 0):
        raise ProblemError(f"slack is {slack!r}, expected a share above 0")
    if isinstance(given, Solution):
        return Start(_policy(owed, given), _known(slack, given, owed), "a solved model")
    if isinstance(given, Estimate):
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


def _learned(given: Estimate, slack: float | None, owed: Problem) -> Start:
    if not given.guaranteed:
        refuse(
            "this policy was learned without a claim, so it is no safe start",
            given.claim,
            "learn from more records, or let the agent run without a start",
        )
    at = [given.quota_names.index(name) if name in given.quota_names else -1 for name in owed.names]
    if -1 in at:
        raise ProblemError(f"nothing was learned of quota {owed.names[at.index(-1)]}")
    found = float(np.minimum(
        np.where(owed.at_least > 0, given.share_low[at] - owed.at_least, np.inf),
        np.where(owed.at_most < 1, owed.at_most - given.share_high[at], np.inf),
    ).min(initial=np.inf))  # fmt: skip
    return Start(
        _policy(owed, given),
        _enough(found, slack, "the claim"),
        f"a policy learned with a claim: {given.claim}",
    )


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
