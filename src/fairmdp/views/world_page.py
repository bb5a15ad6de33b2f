"""A world for the page: what can be moved, and answers as densities and quantiles, however many clients."""

from __future__ import annotations

import numpy as np

from fairmdp.model.checks import Floats, Ints
from fairmdp.views.data import Json
from fairmdp.views.world import impossible_lines, quota_shares, reward_changes, world_data, world_size_text
from fairmdp.world.demands import bounds_of
from fairmdp.world.plan import WorldPlan
from fairmdp.world.world import World

_BINS = 50
_SAME = 1e-9  # of a reward, and of a share: what differs by less is the same


def world_view(name: str, world: World) -> Json:
    """What the page shows before anything is solved: sizes, capacities, and what quotas ask for."""
    return {
        "name": name,
        "size": world_size_text(world),
        "components": world.n_components,
        "resources": [{"name": r.name, "capacity": float(r.capacity)} for r in world.resources],
        "quotas": [
            {"name": quota.name, "group": False, "asked": _asked(world, quota)}
            for quota in world.quotas if quota.at_least is not None
        ] + [
            {"name": group.name, "group": True, "asked": [float(group.at_least)] * 3}
            for group in world.groups if group.at_least is not None
        ],
    }  # fmt: skip


def _asked(world: World, quota: object) -> list[float]:
    """Least, median and largest of what a quota asks of those of whom it asks something."""
    bounds = [bounds_of(quota, "at_least", of) for of in world.components]  # type: ignore[arg-type]
    stated = np.concatenate([each for each in bounds if each is not None])
    stated = stated[~np.isnan(stated) & (stated > 0)]
    return np.quantile(stated, (0.0, 0.5, 1.0)).tolist() if stated.size else [0.0] * 3


def world_answer(world: World, plan: WorldPlan, free: WorldPlan | None) -> Json:
    """A plan as `world_data` has it, with densities over the clients."""
    data = world_data(world, plan, free)
    data["infeasible"] = impossible_lines(world, data) if plan.status == "infeasible" else None
    if data["quotas"]:
        number = np.concatenate([rows.number for rows in world.blocks])
        owed = [np.concatenate([rows.owed[:, j] for rows in world.blocks]) for j in range(len(world.sides))]
        for j, quota in enumerate(data["quotas"]):
            asked, has, _ = quota_shares(world, plan, j)
            ends = _ends(np.concatenate([asked, has])) if asked.size else (0.0, 1.0)
            weights = number[np.isfinite(owed[j])]
            quota["density"] = {
                "ends": ends, "had": _density(has, weights, ends), "asked": _density(asked, weights, ends)
            }  # fmt: skip
    if data["payers"] is not None:
        assert free is not None
        change, number, now = reward_changes(world, plan, free)
        moved = np.abs(change) > _SAME * max(float(np.abs(now).max(initial=0.0)), 1.0)
        ends = _ends(np.append(change[moved], 0.0))
        data["payers"]["density"] = {
            "ends": ends, "change": _density(change[moved], number[moved], ends),
            "same": int(number[~moved].sum()),
        }  # fmt: skip
    return data


def _ends(values: Floats) -> tuple[float, float]:
    """From where to where a density goes: all values, and a little room where they are all the same."""
    low, high = float(values.min()), float(values.max())
    return (low, high) if high - low > _SAME else (low - 0.01, high + 0.01)


def _density(values: Floats, weights: Ints, ends: tuple[float, float]) -> list[int]:
    """How many clients are in each of equal parts between two ends."""
    counts, _ = np.histogram(values, _BINS, ends, weights=weights)
    return counts.astype(int).tolist()
