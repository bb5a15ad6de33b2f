"""What is to be proved about a policy's long-run law, and the witness from which it is proved."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairmdp.chain import Chain
from fairmdp.device_problem import DeviceProblem
from fairmdp.problem import Problem
from fairmdp.validation import Floats

NEARLY_REDUCIBLE = "the policy's chain is so nearly reducible that its shares cannot be proved"


@dataclass(frozen=True, eq=False)
class Law:
    """Proven intervals for the long-run law of a policy; `reason` says why there are none."""

    gain: tuple[float, float]
    shares: Floats  # (K, 2)
    error: float  # bound on |f @ v - f @ nu| for every f of states within [0, 1], such as a set
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Witness:
    """A candidate law, a state that every other one leads to, and how long that takes: all unproved."""

    chain: Chain
    s0: int
    steps: Floats  # (S,), 0 at s0


def find_witness(chain: Chain) -> Witness | str:
    """Return a witness for the long-run law of a chain, or the reason why there is none."""
    classes = len(chain.closed_classes)
    if classes > 1:
        return f"the policy's chain has {classes} closed classes: its long-run shares depend on the start"
    s0 = int(np.argmax(chain.shares))
    steps = chain.hitting_times(s0)
    if not np.isfinite(steps).all() or steps.min() < 0:
        return NEARLY_REDUCIBLE
    return Witness(chain, s0, steps)


def no_law(problem: Problem | DeviceProblem, reason: str) -> Law:
    """Nothing is known."""
    return Law((-math.inf, math.inf), np.tile([0.0, 1.0], (problem.n_quotas, 1)), 1.0, reason)
