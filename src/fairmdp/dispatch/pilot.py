"""Try policies of a world in simulations that are as long as it takes until they have settled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairmdp.dispatch.policy import DispatchPolicy
from fairmdp.dispatch.simulation import QUANTILES, WorldSimulation, simulate_world
from fairmdp.model.checks import Floats
from fairmdp.world.world import World


class Candidate(NamedTuple):
    """A kind of policy, and the part of every capacity without which its prices are found."""

    kind: str
    reserve: float


CANDIDATES = (
    Candidate("fair", 0.02), Candidate("fair_id", 0.0), Candidate("fair", 0.0), Candidate("fair", 0.035),
    Candidate("fair", 0.05),
)  # fmt: skip
FEW = 100_000  # clients up to which all of them are tried, and not only the first two

_FIRST, _LAST = 50, 400  # windows of a pilot, which is made longer by factors of 2
_MOST_STEPS = 2e7  # of all clients together, for a pilot that is longer than the first
_SETTLED = 0.15  # windows by which arrears may still move from a quarter of a pilot to the next
_NOISE = 4.0  # standard errors by which the gain may move
_RISING = 0.3  # windows by which they may have risen where there was no time to settle
_HELD = 5.0  # windows that a client may be behind at the end
_OWN = QUANTILES.index(0.5), QUANTILES.index(0.95)  # arrears that tell whether clients fall behind


def better(world: World, policies: Sequence[DispatchPolicy]) -> DispatchPolicy:
    """The policy that gains most of those that hold arrears, or else the one that is least short."""
    tried = []
    for policy in policies:
        seen = _settled(world, policy)
        missing = _missing(policy, seen)
        tried.append((missing == 0, seen.gain if missing == 0 else -missing, policy))
    return max(tried, key=lambda each: each[:2])[2]


def _settled(world: World, policy: DispatchPolicy) -> WorldSimulation:
    """A simulation so long that arrears and gain stand still in its second half, if they do at all."""
    length = _FIRST
    longest = min(_LAST, _MOST_STEPS / (world.n_components * policy.window))
    while True:
        seen = simulate_world(world, policy, max(int(length * policy.window), 100), burn_in=0.5)
        if 2 * length > longest or not _moves(policy, seen):
            return seen
        length *= 2


def _moves(policy: DispatchPolicy, seen: WorldSimulation) -> bool:
    """Whether arrears or the gain still move between the last two quarters of a simulation."""
    before, after = _quarters(seen.history.rewards)
    noise = _NOISE * np.sqrt(2) * seen.gain_se + 1e-3 * abs(seen.gain)
    return bool(np.abs(_risen(policy, seen)).max() > _SETTLED or abs(after - before) > 2 * noise)


def _risen(policy: DispatchPolicy, seen: WorldSimulation) -> Floats:
    """By how many windows arrears have risen from the third quarter of a simulation to the last, (2,)."""
    before, after = _quarters(seen.history.arrears[:, _OWN])
    return np.nan_to_num((after - before) / policy.window)


def _quarters(series: Floats) -> tuple[Floats, Floats]:
    """Means of the last two quarters."""
    n = len(series) // 4
    return series[-2 * n : -n].mean(axis=0), series[-n:].mean(axis=0)


def _missing(policy: DispatchPolicy, seen: WorldSimulation) -> float:
    """By how much a policy fails to hold arrears, in windows; 0 if it holds them."""
    _, worst = _quarters(seen.history.arrears[:, -1])
    short = (seen.group_owed - seen.group_shares) / policy.groups.size * (seen.steps - seen.burn_in)
    over = (
        float(np.nan_to_num(worst)) / policy.window / _HELD - 1,
        float(short.max(initial=0.0)) / policy.window - 1,
        float(_risen(policy, seen).max()) - _RISING,
    )
    return sum(max(each, 0.0) for each in over)
