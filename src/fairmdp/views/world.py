"""A world's plan: its ceiling, prices, who pays and what is owed; as plain data and in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmdp.certificate.world import WorldVerdict
from fairmdp.model.checks import Floats, Ints, counted
from fairmdp.solution.solution import Status
from fairmdp.views.data import Json
from fairmdp.views.format import columns, fixed, price, slack, worst_slack
from fairmdp.world.plan import WorldPlan
from fairmdp.world.world import World

if TYPE_CHECKING:  # a single plan does without it
    from fairmdp.frontiers import WorldFrontier

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
            {
                "name": world.groups[k].name, "side": "at_least" if sign > 0 else "at_most",
                "asked": sign * owed, "had": sign * has, "slack": has - owed, "price": p,
            }
            for (k, sign), owed, has, p in zip(
                world.group_sides, world.group_owed.tolist(), had.tolist(), plan.group_prices.tolist(),
                strict=True,
            )
        ] if found else [],
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
    for row, side, reach in list(zip(plan.alone.rows, plan.alone.sides, plan.alone.reach, strict=True))[
        :_MOST
    ]:
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
    cells = [
        [
            "quota",
            "owed to",
            "asked (median)",
            "had (5 %, median, 95 %)",
            "least slack",
            "binding",
            "price (median, most)",
        ]
    ]
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
    cells = [["group", "asked", "had", "slack", "price"]]
    for g in data["groups"]:
        sign = ">=" if g["side"] == "at_least" else "<="
        cells.append(
            [g["name"], f"{sign} {g['asked']:.6g}", f"{g['had']:.6g}", slack(g["slack"]), price(g["price"])]
        )
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
    cells += [
        [
            c["name"],
            fixed(c["reward"]),
            fixed(c["without_quotas"]),
            f"{c['reward'] - c['without_quotas']:+.4f}",
        ]
        for c in named
    ]
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
        "ok": verdict.ok,
        "status": verdict.status.value,
        "meaning": _MEANINGS[verdict.status],
        "upper": _or_none(verdict.upper),
        "exact": verdict.exact,
        "messages": list(verdict.messages),
        "estimates": list(verdict.estimates),
    }


def world_verdict_text(name: str, verdict: WorldVerdict) -> str:
    """Whether a plan was confirmed, and what was proved."""
    data = world_verdict_data(verdict)
    arithmetic = "rational arithmetic" if data["exact"] else "floating point with outward rounding"
    lines = [
        f"{name}: {'confirmed' if data['ok'] else 'NOT CONFIRMED'} in {arithmetic}",
        f"  proved  {data['status']}: {data['meaning']}",
    ]
    if data["upper"] is not None:
        lines.append(f"  ceiling {data['upper']:.12g} for any joint policy that meets the quotas")
    lines += [f"  wrong   {message}" for message in data["messages"]]
    return "\n".join(lines + [f"  no proof  {estimate}" for estimate in data["estimates"]])


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
