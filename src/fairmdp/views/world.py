"""Plans of worlds and what policies did in simulations, as plain data and in words.

Of a plan these are its ceiling, prices, who pays and what is owed.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmdp.certificate.world import WorldVerdict
from fairmdp.model.checks import Floats, Ints, counted
from fairmdp.solution.solution import Status
from fairmdp.views.data import Json, taken
from fairmdp.views.format import (
    columns,
    fixed,
    interval,
    percent,
    price,
    slack,
    verified_text,
    with_error,
    worst_slack,
)
from fairmdp.world.plan import WorldPlan
from fairmdp.world.world import World

if TYPE_CHECKING:
    from fairmdp.dispatch.policy import DispatchPolicy
    from fairmdp.dispatch.simulation import WorldSimulation
    from fairmdp.frontiers import WorldComparison, WorldFrontier

_MOST = 5  # components that are named

_QUANTILES = (0.0, 0.05, 0.5, 0.95, 1.0)
_PRICED = 1e-9  # a lower price is none
_CHANGED = 1e-6  # of the mean reward: a smaller change is none
_MEANINGS = {
    Status.OPTIMAL: "the plan, which keeps capacity in the mean, is worth the ceiling within the tolerance",
    Status.FEASIBLE: "the plan keeps capacity in the mean, and a better one may exist",
    Status.INFEASIBLE: "no policy meets the quotas",
    Status.UNDECIDED: "there is a ceiling, and no plan",
}


def world_size_text(world: World) -> str:
    """How large a world is."""
    counts = {
        "component": world.n_components, "row": world.n_rows, "resource": len(world.resources),
        "local quota": len(world.quotas), "group quota": len(world.groups),
    }  # fmt: skip
    if world.n_rows == world.n_components:
        del counts["row"]
    return ", ".join(counted(n, noun) for noun, n in counts.items() if n or noun == "resource")


def world_data(world: World, plan: WorldPlan, free: WorldPlan | None = None) -> Json:
    """What a plan claims and what is behind it. `free` is the plan without quotas."""
    found = plan.has_policy and plan.status is not Status.UNDECIDED
    used, had = plan.totals(world)
    groups = _group_data(world, world.group_owed, had) if found else []
    data: Json = {
        "status": plan.status.value,
        "meaning": _MEANINGS[plan.status],
        "method": plan.method,
        "upper": _or_none(plan.upper),
        "value": _or_none(plan.value),
        "gap": _or_none(plan.gap),
        "worst_slack": _or_none(plan.worst_slack(world)) if found else None,
        "without_quotas": None if free is None else free.upper,
        "counters": dict(plan.counters),
        "components": world.n_components,
        "rows": world.n_rows,
        "resources": [
            {"name": r.name, "capacity": float(r.capacity), "used": _or_none(u), "price": _or_none(p)}
            for r, u, p in zip(world.resources, used.tolist(), plan.prices.tolist(), strict=True)
        ],
        "quotas": [_quota(world, plan, j) for j in range(len(world.sides))] if found else [],
        "groups": [
            group | {"price": p} for group, p in zip(groups, plan.group_prices.tolist(), strict=False)
        ],
        "payers": None if free is None or not found or not free.has_policy else _payers(world, plan, free),
    }  # fmt: skip
    if plan.alone is not None:
        data["alone"] = _alone(world, plan)
    if plan.shortage is not None:
        data["shortage"] = {
            "needed": plan.shortage.needed, "available": plan.shortage.available,
            "prices": plan.shortage.prices.tolist(),
        }  # fmt: skip
    return data


def _group_data(world: World, owed: Floats, had: Floats) -> list[Json]:
    """What each side of a group quota asks for, and what there is of it."""
    return [
        {
            "name": world.groups[k].name, "side": "at_least" if sign > 0 else "at_most",
            "asked": sign * due, "had": sign * has, "slack": has - due,
        }
        for (k, sign), due, has in zip(world.group_sides, owed.tolist(), had.tolist(), strict=True)
    ]  # fmt: skip


def _or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _rows_of(world: World, plan: WorldPlan, column: int) -> Floats:
    """One outcome of every row of the world."""
    return np.concatenate([block.outcomes[:, column] for block in plan.blocks])


def quota_shares(world: World, plan: WorldPlan, side: int) -> tuple[Floats, Floats, Floats]:
    """What each row is asked for and has of a side of a local quota, and its price, where one is asked."""
    sign = world.sides[side].sign
    owed = np.concatenate([rows.owed[:, side] for rows in world.blocks])
    mu = np.concatenate([block.mu[:, side] for block in plan.blocks])
    owing = np.isfinite(owed)
    return sign * owed[owing], sign * _rows_of(world, plan, 1 + side)[owing], mu[owing]


def _quota(world: World, plan: WorldPlan, side: int) -> Json:
    quota, sign = world.sides[side]
    asked, has, mu = quota_shares(world, plan, side)
    slacks = sign * (has - asked)
    return {
        "name": world.quotas[quota].name,
        "side": "at_least" if sign > 0 else "at_most",
        "rows": int(asked.size),
        "binding": int((mu > _PRICED).sum()),
        "least_slack": float(slacks.min()) if slacks.size else None,
        "asked": _quantiles(asked),
        "had": _quantiles(has),
        "prices": _quantiles(mu),
    }


def _quantiles(values: Floats) -> list[float] | None:
    """Least, 5 %, median, 95 % and largest."""
    return np.quantile(values, _QUANTILES).tolist() if values.size else None


def reward_changes(world: World, plan: WorldPlan, free: WorldPlan) -> tuple[Floats, Ints, Floats]:
    """How much more each row's component earns than without quotas, how many these are, and what it earns."""
    now, before = _rows_of(world, plan, 0), _rows_of(world, free, 0)
    return now - before, np.concatenate([rows.number for rows in world.blocks]), now


def _payers(world: World, plan: WorldPlan, free: WorldPlan) -> Json:
    """Whose rewards the quotas lower, and whose they raise."""
    change, number, now = reward_changes(world, plan, free)
    before = now - change
    least = _CHANGED * float(np.abs(before).mean() or 1.0)
    down, up = change < -least, change > least
    order = np.argsort(change, kind="stable")

    def named(rows: Any) -> list[Json]:
        return [
            {
                "name": world.row_name(int(i)), "count": int(number[i]), "reward": float(now[i]),
                "without_quotas": float(before[i]),
            }
            for i in rows
        ]  # fmt: skip

    return {
        "lower": int(number[down].sum()),
        "lower_by": float((number * change)[down].sum()),
        "higher": int(number[up].sum()),
        "higher_by": float((number * change)[up].sum()),
        "most_lowered": named(order[:_MOST][down[order[:_MOST]]]),
        "most_raised": named(order[::-1][:_MOST][up[order[::-1][:_MOST]]]),
        "change": _quantiles(change),
    }


def _alone(world: World, plan: WorldPlan) -> Json:
    assert plan.alone is not None
    first = []
    alone = zip(plan.alone.rows, plan.alone.sides, plan.alone.reach, strict=True)
    for row, side, reach in islice(alone, _MOST):
        b = int(np.searchsorted(world.starts, row, side="right")) - 1
        owed = world.blocks[b].owed[row - world.starts[b], side] if side >= 0 else math.nan
        first.append(
            {
                "name": world.row_name(int(row)),
                "quota": world.quotas[world.sides[side].quota].name if side >= 0 else None,
                "sign": world.sides[side].sign if side >= 0 else 1,
                "asked": _or_none(abs(owed)), "reach": _or_none(abs(reach)),
            }
        )  # fmt: skip
    return {"rows": int(plan.alone.rows.size), "first": first}


def world_text(name: str, world: World, plan: WorldPlan, free: WorldPlan | None = None) -> str:
    """Answer first, proof beside it, detail below."""
    data = world_data(world, plan, free)
    lines = [f"{name}: {world_size_text(world)}; {data['method']}", ""]
    if data["status"] == Status.INFEASIBLE:
        return "\n".join(lines + impossible_lines(world, data))
    lines += _answer(data)
    for table in (_resources(data), _quotas(data), _groups(data), _paid(data)):
        lines += ["", *table] if table else []
    return "\n".join(lines)


def _answer(data: Json) -> list[str]:
    lines = [
        f"  ceiling   {fixed(data['upper'], 6)}   proved: no joint policy that meets the quotas gains more"
    ]
    if data["value"] is None:
        return [*lines, f"  {data['status']}: {data['meaning']}"]
    lines.append(
        f"  plan      {fixed(data['value'], 6)}   {data['status']}: keeps capacity in the mean "
        f"(gap {data['gap']:.1e}), {worst_slack(data['worst_slack'])}"
    )
    if data["without_quotas"] is not None:
        cost = max(data["without_quotas"] - data["upper"], 0.0)  # below it by rounding alone
        part = f", {100 * cost / abs(data['without_quotas']):.2f} %" if data["without_quotas"] else ""
        lines.append(f"  without quotas {fixed(data['without_quotas'], 6)}; fairness costs {cost:.6g}{part}")
    return lines


def _resources(data: Json) -> list[str]:
    cells = [["resource", "capacity", "used", "price"]]
    cells += [
        [r["name"], f"{r['capacity']:.6g}", f"{r['used']:.6g}", price(r["price"])] for r in data["resources"]
    ]
    return columns(cells) if data["resources"] else []


def _quotas(data: Json) -> list[str]:
    head = "quota", "owed to", "asked (median)", "had (5 %, median, 95 %)", "least slack", "binding"
    cells = [[*head, "price (median, most)"]]
    for q in data["quotas"]:
        if not q["rows"]:
            continue
        sign = ">=" if q["side"] == "at_least" else "<="
        had, mu = q["had"], q["prices"]
        cells.append([
            q["name"], f"{q['rows']:,}", f"{sign} {fixed(q['asked'][2])}",
            ", ".join(fixed(had[k]) for k in (1, 2, 3)), slack(q["least_slack"]), f"{q['binding']:,}",
            f"{price(mu[2])}, {price(mu[4])}",
        ])  # fmt: skip
    return columns(cells) if len(cells) > 1 else []


def _groups(data: Json) -> list[str]:
    """Group quotas, with prices where there are some."""
    cells = [["group", "asked", "had", "slack"]]
    for g in data["groups"]:
        sign = ">=" if g["side"] == "at_least" else "<="
        cells.append([g["name"], f"{sign} {g['asked']:.6g}", f"{g['had']:.6g}", slack(g["slack"])])
    if any("price" in g for g in data["groups"]):
        prices = ["price", *(price(g["price"]) for g in data["groups"])]
        cells = [[*row, p] for row, p in zip(cells, prices, strict=True)]
    return columns(cells) if data["groups"] else []


def _paid(data: Json) -> list[str]:
    paid = data["payers"]
    if paid is None:
        return []
    lines = [
        f"  who pays  {paid['lower']:,} earn less than without quotas ({paid['lower_by']:+.4g} together), "
        f"{paid['higher']:,} more ({paid['higher_by']:+.4g})"
    ]
    named = [*paid["most_lowered"], *reversed(paid["most_raised"])]
    cells = [["", "reward", "without quotas", "change"]]
    for c in named:
        now, before = c["reward"], c["without_quotas"]
        cells.append([c["name"], fixed(now), fixed(before), f"{now - before:+.4f}"])
    return lines + (columns(cells) if named else [])


def impossible_lines(world: World, data: Json) -> list[str]:
    """Why the quotas cannot be met, in words; `data` is that of `world_data`."""
    if "shortage" in data:
        short = data["shortage"]
        K = len(world.resources)
        priced = [(w, r.name) for w, r in zip(short["prices"], world.resources, strict=False) if w > 0]
        if K == 1 and priced and not any(short["prices"][K:]):
            return [
                f"infeasible: the quotas alone need {short['needed']:.7g} {priced[0][1]} a step, "
                f"there are {short['available']:.7g}"
            ]
        weights = " + ".join(name if w == 1 else f"{w:.4g} x {name}" for w, name in priced)
        weights = weights if len(priced) == 1 else f"of {weights}"
        if not priced:
            return ["infeasible: the quotas contradict each other, whatever the capacity"]
        return [
            "infeasible: the quotas together need more than there is",
            f"  at least {short['needed']:.7g} {weights} a step; there are {short['available']:.7g}",
        ]
    alone = data["alone"]
    lines = [f"infeasible: {counted(alone['rows'], 'component')} cannot be served even alone"]
    for each in alone["first"]:
        if each["quota"] is None:
            lines.append(f"  {each['name']}: its quotas cannot be met together")
        else:
            most, asked = ("most", "is owed") if each["sign"] > 0 else ("least", "is to stay below")
            lines.append(
                f"  {each['name']} {asked} {fixed(each['asked'])} of {each['quota']}, "
                f"{fixed(each['reach'])} is the {most} that any policy gives it"
            )
    return lines


def world_verdict_data(verdict: WorldVerdict) -> Json:
    """What could be proved about a world's plan."""
    return {
        **taken(verdict, "ok", "exact", "messages", "estimates"),
        "status": verdict.status.value,
        "meaning": _MEANINGS[verdict.status],
        "upper": _or_none(verdict.upper),
    }


def world_verdict_text(name: str, verdict: WorldVerdict) -> str:
    """Whether a plan was confirmed, and what was proved."""
    data = world_verdict_data(verdict)
    ceiling = f"  ceiling {verdict.upper:.12g} for any joint policy that meets the quotas"
    return verified_text(name, data, [] if data["upper"] is None else [ceiling])


def world_frontier_data(curve: WorldFrontier) -> Json:
    """A frontier of a world."""
    rows = curve.to_table()
    return {
        "name": curve.name,
        "moves": "capacity" if curve.capacity else "bound",
        "points": [dict(zip(rows, row, strict=True)) for row in rows.rows],
    }


def world_frontier_text(name: str, curve: WorldFrontier) -> str:
    """A frontier of a world as a table."""
    moves = "capacity" if curve.capacity else "asked"
    cells = [[moves, "ceiling", "plan", "worst slack", "price", ""]]
    for point in world_frontier_data(curve)["points"]:
        note = ""
        if point["status"] == "infeasible":
            need = point["needed"]
            note = "infeasible" + (f": the quotas need {need:.6g}" if need is not None else "")
        elif point["status"] != "optimal":
            note = point["status"]
        cells.append([
            f"{point['value']:.6g}", fixed(point["upper"], 6), fixed(point["plan"], 6),
            slack(point["worst_slack"]), price(point["price"]), note,
        ])  # fmt: skip
    about = "ceilings are proved; plans keep capacity in the mean"
    return "\n".join([f"{name}: {curve.name}; {about}", "", *columns(cells)])


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
        "groups": _group_data(world, seen.group_owed, seen.group_shares),
        "arrears": _quantiles(seen.arrears),
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
    lines += ["", *_groups(data)] if data["groups"] else []
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
