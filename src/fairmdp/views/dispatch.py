"""What policies of a world did in simulations, as plain data and in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fairmdp.views.data import Json
from fairmdp.views.format import columns, fixed, interval, percent, slack, with_error
from fairmdp.views.world import world_size_text
from fairmdp.world.plan import WorldPlan
from fairmdp.world.world import World

if TYPE_CHECKING:
    from fairmdp.dispatch.policy import DispatchPolicy
    from fairmdp.dispatch.simulation import WorldSimulation
    from fairmdp.frontiers import WorldComparison

_QUANTILES = (0.0, 0.05, 0.5, 0.95, 1.0)


def world_simulation_data(
    world: World, plan: WorldPlan, policy: DispatchPolicy, seen: WorldSimulation
) -> Json:
    """What one run of a policy of a world has seen, beside the ceiling."""
    return {
        "policy": policy.kind, "window": float(policy.window), "margin": float(policy.margin),
        "reserve": float(policy.reserve),
        **_run(plan, seen),
        "interval": list(seen.interval),
        "upper": plan.upper,
        "steps": seen.steps, "burn_in": seen.burn_in, "finished": seen.finished,
        "resources": [
            {"name": r.name, "capacity": float(c), "used": float(u), "most_used": float(m)}
            for r, c, u, m in zip(world.resources, seen.capacity, seen.used, seen.most_used, strict=True)
        ],
        "groups": [
            {
                "name": world.groups[k].name, "side": "at_least" if sign > 0 else "at_most",
                "asked": sign * owed, "had": sign * had, "slack": had - owed,
            }
            for (k, sign), owed, had in zip(
                world.group_sides, seen.group_owed.tolist(), seen.group_shares.tolist(), strict=True
            )
        ],
        "arrears": np.quantile(seen.arrears, _QUANTILES).tolist() if seen.arrears.size else None,
    }  # fmt: skip


def _run(plan: WorldPlan, seen: WorldSimulation) -> Json:
    owing = np.isfinite(seen.owed)
    return {
        "gain": seen.gain,
        "error": seen.gain_se,
        "gap": seen.gap(plan.upper),
        "quotas": int(owing.sum()),
        "met": int((seen.shares >= seen.owed)[owing].sum()),
        "worst_slack": seen.worst_slack if math.isfinite(seen.worst_slack) else None,
        "groups_met": bool((seen.group_shares >= seen.group_owed).all()),
        "most_behind": float(seen.arrears.max(initial=0.0)),
    }


def world_simulation_text(
    name: str, world: World, plan: WorldPlan, policy: DispatchPolicy, seen: WorldSimulation
) -> str:
    """Gain beside the ceiling, who had what is owed, and that capacity was kept."""
    data = world_simulation_data(world, plan, policy, seen)
    low, high = data["interval"]
    counted = data["steps"] - data["burn_in"]
    reserve = f", reserve {data['reserve']:g}" if data["reserve"] else ""
    lines = [
        f"{name}: {world_size_text(world)}",
        f"  policy {data['policy']}, window {data['window']:g}, margin {data['margin']:g}{reserve}; "
        f"{counted:,} steps after {data['burn_in']:,}",
        "",
        f"  gain      {with_error(data['gain'], data['error'])}, 95 %: {interval(low, high)} (measured)",
        f"  ceiling   {fixed(data['upper'], 6)} (proved); the gap is {100 * data['gap']:.2f} %",
    ]
    if data["quotas"]:
        lines.append(
            f"  quotas    {data['met']:,} of {data['quotas']:,} met in this run, worst slack "
            f"{slack(data['worst_slack'])}; at most {data['most_behind']:.1f} steps behind"
        )
    cells = [["resource", "capacity", "used", "most in a step"]]
    for r in data["resources"]:
        cells.append([r["name"], *(f"{r[what]:.6g}" for what in ("capacity", "used", "most_used"))])
    lines += ["", *columns(cells)] if data["resources"] else []
    groups = [["group", "asked", "had", "slack"]]
    for g in data["groups"]:
        sign = ">=" if g["side"] == "at_least" else "<="
        groups.append([g["name"], f"{sign} {g['asked']:.6g}", f"{g['had']:.6g}", slack(g["slack"])])
    lines += ["", *columns(groups)] if data["groups"] else []
    if not data["finished"]:
        lines.append("  stopped early: these are the steps that were made")
    return "\n".join(lines)


def world_comparison_data(compared: WorldComparison) -> Json:
    """Policies of a world side by side."""
    plan = compared.plan
    return {
        "upper": plan.upper,
        "policies": {name: _run(plan, seen) for name, seen in compared.runs.items()},
        "steps": next(iter(compared.runs.values())).steps,
    }


def world_comparison_text(name: str, world: World, compared: WorldComparison) -> str:
    """Policies of a world as a table."""
    data = world_comparison_data(compared)
    cells = [["policy", "gain", "below the ceiling", "quotas met", "worst slack", "most behind"]]
    for policy, run in data["policies"].items():
        met = percent(run["met"] / run["quotas"]) if 0 < run["met"] < run["quotas"] else None
        cells.append([
            policy, with_error(run["gain"], run["error"]), f"{100 * run['gap']:.2f} %",
            met or ("all" if run["met"] == run["quotas"] else "none"), slack(run["worst_slack"]),
            f"{run['most_behind']:.0f} steps" if run["most_behind"] else "-",
        ])  # fmt: skip
    return "\n".join([
        f"{name}: {world_size_text(world)}; {data['steps']:,} simulated steps each",
        f"  ceiling {fixed(data['upper'], 6)}, proved for all that meet the quotas; gains are measured",
        "",
        *columns(cells),
        "",
        "  every policy keeps capacity at every step; one above the ceiling breaks quotas",
    ])  # fmt: skip
