"""Policies of a world side by side, each simulated from the same start with the same seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairmdp.decomposition.solve import solve_world
from fairmdp.dispatch.make import dispatch_policy
from fairmdp.dispatch.simulation import WorldSimulation, simulate_world
from fairmdp.errors import ProblemError
from fairmdp.model.checks import ReadOnly
from fairmdp.tables import Table
from fairmdp.world.plan import WorldPlan
from fairmdp.world.world import World

_OF_PLAN = {
    "fair": "fair", "fair, in a fixed order": "fair_id", "index at fair prices": "index",
    "fixed order (ID)": "id", "greedy": "greedy",
}  # fmt: skip
_WITHOUT = "without quotas"


@dataclass(frozen=True, eq=False)
class WorldComparison(ReadOnly):
    """Policies of a world, simulated side by side.

    Attributes
    ----------
    plan : WorldPlan
        Whose ceiling holds for every policy that meets the quotas. One that does not may gain more.
    runs : dict
        What each policy did, `WorldSimulation` by name.
    """

    plan: WorldPlan
    runs: Mapping[str, WorldSimulation]

    def to_table(self) -> Table:
        """One row for each policy."""
        head = ("policy", "gain", "error", "gap", "quotas_met", "worst_slack", "most_behind", "most_used")
        rows = []
        for name, seen in self.runs.items():
            part = max((u / c for u, c in zip(seen.most_used, seen.capacity, strict=True) if c), default=0.0)
            rows.append([
                name, seen.gain, seen.gain_se, seen.gap(self.plan.upper), seen.met, seen.worst_slack,
                float(seen.arrears.max(initial=0.0)), float(part),
            ])  # fmt: skip
        return Table.of(head, rows)


def compare_world(
    world: World, plan: WorldPlan, *, steps: int = 5_000, seed: int = 0, window: float = 20.0,
    margin: float = 0.005,
) -> WorldComparison:  # fmt: skip
    """Simulate policies of a world: both fair ones, the indices with and without quotas, ID, and greedy.

    ``without quotas`` is the index of the linear program of nobody being owed anything, and ``greedy`` knows
    rewards and no future; `dispatch_policy` says what the others are.

    Parameters
    ----------
    world
        The world.
    plan
        Its plan, from `solve_world`.
    steps, seed
        As of `simulate_world`, the same for all.
    window, margin
        As of `dispatch_policy`, for the fair ones.

    Examples
    --------
    >>> import fairmdp as fm
    >>> world = fm.scenarios.job_server(100)
    >>> seen = fm.compare_world(world, fm.solve_world(world), steps=2_000)
    >>> {name: bool(run.worst_slack > -0.05) for name, run in seen.runs.items() if name in ("fair", "greedy")}
    {'fair': True, 'greedy': False}
    """
    if not plan.has_policy:
        raise ProblemError("the quotas of this world cannot be met: there is no policy to compare")
    bare = world.without_quotas()
    policies = {
        name: dispatch_policy(world, plan, kind, window=window, margin=margin)
        for name, kind in _OF_PLAN.items()
    }
    if world.sides or world.group_sides:
        policies[_WITHOUT] = dispatch_policy(bare, solve_world(bare), "index")
    return WorldComparison(
        plan, {name: simulate_world(world, policy, steps, seed) for name, policy in policies.items()}
    )
