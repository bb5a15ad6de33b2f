"""Results in words and tables, for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairmdp.certificate import FAIR_TOL
from fairmdp.model.checks import counted
from fairmdp.model.problem import Problem
from fairmdp.model.time import spanned
from fairmdp.solution.solution import Solution, Status
from fairmdp.views.data import Json, comparison_data, frontier_data, grid_data, solution_data, verdict_data
from fairmdp.views.ends import ends_lines, seen_lines, starts_lines
from fairmdp.views.format import (
    MAX_ROWS,
    asked,
    columns,
    fixed,
    interval,
    listed,
    notes_lines,
    percent,
    price,
    shortened,
    slack,
    table,
    verified_text,
    with_error,
    worst_slack,
)

if TYPE_CHECKING:  # a small solve does without them
    from fairmdp.certificate import Verdict
    from fairmdp.frontiers import Comparison, Frontier, FrontierGrid

_MOVED = 1e-6  # a smaller change of a share is not worth a word
_MOST_NAMES = 12
_COLUMN = 40  # letters that a column of a table may be wide
_EXACT_PRICES = "up to the next breakpoint; at a breakpoint all prices between its sides hold"
_GIVEN_PRICES = "or what these values prove of it; from, to: where one price holds"
_JUMPING_PRICES = "at that value; between values the gain may jump, as runs can end differently"

_CALLED = {"plugin": "plug-in", "mirror": "mirror descent"}


def solution_text(
    name: str,
    problem: Problem,
    solution: Solution,
    free: Solution | None = None,
    other: Solution | None = None,
) -> str:
    """Answer first, proof beside it, detail below.

    `free` is the solution without quotas, `other` that with the other meaning of them (`other_meaning`).
    """
    data = solution_data(problem, solution, free, other, most=MAX_ROWS)
    lines = [f"{name}: {size_text(problem)}; {data['method']}", ""]
    if data["status"] == Status.INFEASIBLE:
        lines += [*infeasible_lines(data["infeasible"]), *_meaning_lines(data)]
    else:
        lines += [*_gain_lines(data), *_meaning_lines(data), "", *_quota_table(data)]
        lines += [*ends_lines(data["ends"], _per(data)), *starts_lines(data["starts"], _per(data)), ""]
        lines += policies_lines(data["policies"])
    return "\n".join([*lines, *notes_lines(data)])


def size_text(problem: Problem) -> str:
    """How large a problem is."""
    mdp = problem.mdp
    counts = {"state": mdp.n_states, "pair": mdp.n_pairs, "quota": problem.n_quotas}
    return ", ".join(counted(count, noun) for noun, count in counts.items())


def verdict_text(name: str, problem: Problem, verdict: Verdict) -> str:
    """Whether a solution was confirmed, and what was proved."""
    data, lines = verdict_data(problem, verdict), []
    if data["gain"] is not None:
        low, high = data["gain"]
        lines = [
            f"  gain    in {interval(low, high, '.12g')}{_per(data)}, "
            f"at most {data['upper']:.12g} for any fair policy: gap {data['gap']:.2g}",
            f"  quotas  worst proven slack {data['worst_slack']:+.1e} "
            f"(met means not below -{data['fair_tol']:g})",
        ]
    return verified_text(name, data, lines)


def frontier_text(source: str, curve: Frontier) -> str:
    """A frontier as a table: what is owed, gain, costs, price with its range, worst slack."""
    data = frontier_data(curve)
    every, cap = data["factor"], data["bound"] == "at_most"
    what = "factor" if every else "at most" if cap else "owed"
    rows, refused = [[what, f"gain{_per(data)}", "costs", "", "price", "from", "to", "worst slack"]], []
    for k, value in enumerate(data["values"]):
        gain, part = data["gains"][k], data["relative_prices"][k]
        if not math.isfinite(gain):
            proved = data["statuses"][k] == Status.INFEASIBLE
            rows.append([fixed(value, 6), "infeasible" if proved else "not proved", *["-"] * 6])
            refused.append(value)
            continue
        costs = fixed(data["prices"][k] + 0.0, 6), f"{100 * part:.1f} %" if math.isfinite(part) else "-"
        shown = _price_range(data["segments"][k], cap, data["concave"])
        rows.append([fixed(value, 6), fixed(gain, 6), *costs, *shown, slack(data["worst_slacks"][k])])
    moving = "all quotas" if every else f"the cap of {data['quota']}" if cap else data["quota"]
    unit = "unit allowed, which pays" if cap else "unit owed"
    where = "its ends and breakpoints" if data["exact"] else "at the given values"
    prices = _EXACT_PRICES if data["exact"] else _GIVEN_PRICES if data["concave"] else _JUMPING_PRICES
    lines = [
        f"{source}: best gain against {moving}, {where}",
        "",
        *columns(rows),
        "",
        f"  price: of one more {unit}, {prices}",
    ]
    if data["limit"] is not None and data["limit"] not in refused:  # the table says those
        lines.append(f"  no policy {'meets less' if cap else 'meets more'} than {fixed(data['limit'], 6)}")
    return "\n".join([*lines, *_who_pays(data)])


def grid_text(source: str, grid: FrontierGrid) -> str:
    """A grid as a table of gains, one row per value of the first quota."""
    data = grid_data(grid)
    (first, second), (down, across) = data["quotas"], data["values"]
    cells = [[f"{first} \\ {second}", *(f"{v:.4g}" for v in across)]]
    cells += [
        [f"{v:.4g}", *(fixed(g, 6) for g in gains)] for v, gains in zip(down, data["gains"], strict=True)
    ]
    lines = [
        f"{source}: best gain{_per(data)} against {first} (rows) and {second} (columns)",
        "",
        *columns(cells),
        "",
    ]
    fair = [s for s, gain in zip(data["worst_slacks"].flat, data["gains"].flat, strict=True) if gain == gain]
    if fair:
        lines.append(f"  worst slack of all {slack(min(fair))}")
    if len(fair) < data["gains"].size:
        lines.append("  - : no policy meets both")
    return "\n".join(lines)


def comparison_text(source: str, comparison: Comparison) -> str:
    """Policies side by side: what each earns, how it treats the groups, which quotas it breaks."""
    data = comparison_data(comparison)
    left_out = [f"  left out: {why}" for why in comparison.left_out]
    if not data:
        return "\n".join([f"{source}: there is no policy whose shares could be proved", *left_out])
    seen = list(data.values())
    rows = [
        ["", *data],
        [f"gain per {comparison.per}" if comparison.per else "gain", *(fixed(p["gain"], 6) for p in seen)],
        ["worst slack", *(slack(policy["worst_slack"]) for policy in seen)],
    ]
    names = list(seen[0]["shares"])[:MAX_ROWS]
    rows += [[f"share {name}", *(fixed(policy["shares"][name]) for policy in seen)] for name in names]
    rows.append(["smallest", *(fixed(policy["group_min"][1]) for policy in seen)])
    for label in ("difference", "ratio", "Jain", "Gini"):
        rows.append([label, *(fixed(policy[label.lower()]) for policy in seen)])
    payers = [_pays_most(policy["pays"]) for policy in seen]
    rows += [["pays most", *(name for name, _ in payers)], ["which is", *(lost for _, lost in payers)]]
    rows.append(["breaks", *(_broken(policy["broken"]) for policy in seen)])
    lines = [f"{source}: policies side by side", "", *columns(rows)]
    if "fair" not in data:
        lines.append("  no policy was proved fair: see fairmdp solve")
    return "\n".join(lines + left_out)


def _broken(names: Sequence[str]) -> str:
    """Quotas that a policy breaks, in the width of a column."""
    if not names:
        return "-"
    most = 3 if sum(map(len, names[:3])) <= _COLUMN else 1
    return listed([shortened(name) for name in names], most)


def estimate_text(source: str, problem: Problem, data: Json) -> str:
    """What was learned from a simulator, from its data; at the end what fresh samples prove of it."""
    better = ""
    if math.isfinite(data["gap"]):
        better = f"; a better fair policy earns at most {fixed(max(data['gap'], 0))} more"
    gain = f"{with_error(data['gain'], data['gain_se'])} (estimate); worst slack {slack(data['worst_slack'])}"
    lines = [
        f"{source}: {size_text(problem)}; {_origin(data)}",
        "",
        f"  gain    {gain if math.isfinite(data['gain']) else 'not known'}{better}",
        *_learned_welfare(data.get("welfare")),
        f"  claim   {data['claim']}",
        "",
    ]
    rows = [["quota", "share", "+-", "asked", "margin", "price"]]
    for k, name in enumerate(data["quota_names"][:MAX_ROWS]):
        share, error, margin = (fixed(data[what][k]) for what in ("shares", "share_se", "margins"))
        rows.append([name, share, error, asked(data["asked"][k]), margin, price(data["prices"][k])])
    lines += [*table(rows, len(data["quota_names"])), *notes_lines(data)]
    if "certificate" in data:
        lines += ["", *certificate_lines(data["certificate"])]
    return "\n".join(lines)


def _learned_welfare(data: Json | None) -> list[str]:
    """What was learned for a principle is worth, and what the best is worth at most."""
    if data is None:
        return []
    gain = f" + {data['reward']:g} gain" if data["reward"] else ""
    best = (
        f"; no policy seems to have more than {fixed(data['upper'])}" if math.isfinite(data["upper"]) else ""
    )
    groups = ", ".join(f"{name} {fixed(u)}" for name, u in list(data["utilities"].items())[:MAX_ROWS])
    return [
        f"  welfare {fixed(data['value'])} (estimate) of {data['principle']}{gain}{best}",
        f"  groups  {groups}",
    ]


def _origin(data: Json) -> str:
    """From what something was learned."""
    fewest = f"at least {data['min_samples']:,} of every pair"
    if data["method"] == "records":
        return f"from {data['samples']:,} records, {fewest} that is used"
    return f"{_CALLED[data['method']]} from {data['samples']:,} samples, {fewest}"


def certificate_text(source: str, data: Json) -> str:
    """Whether a policy is fair, and what fresh samples prove of it, from its data."""
    return "\n".join([f"{source}: {data['verdict']}", "", *certificate_lines(data)])


def certificate_lines(data: Json) -> list[str]:
    """What fresh samples prove of a policy, from its data."""
    level = f"with probability {1 - data['delta']:g}"
    lines = [
        f"  certificate from {data['samples']:,} fresh samples, {data['method']}: {data['verdict']}, {level}"
    ]
    if data["vacuous"]:
        return [*lines, "  vacuous: these samples are too few for a rigorous statement"]
    lines.append(f"  gain in {interval(data['gain_low'], data['gain_high'])}")
    if math.isfinite(data["upper"]):
        lines[-1] += f", no fair policy exceeds {fixed(data['upper'])}"
    proved = zip(data["quota_names"], data["share_low"], data["share_high"], data["verdicts"], strict=True)
    for name, low, high, verdict in list(proved)[:MAX_ROWS]:
        lines.append(f"  share of {name} in {interval(low, high)}: {verdict}")
    left = len(data["quota_names"]) - MAX_ROWS
    lines += [f"  ... and {left} more quotas"] if left > 0 else []
    if data["more_samples"] is not None:
        lines.append(f"  about {data['more_samples']:,} more samples would decide")
    return [*lines, *notes_lines(data)]


def simulation_text(source: str, data: Json) -> str:
    """What independent runs of a policy have seen, from its data."""
    late = f"after {data['steps']:,} {'decisions' if data['per'] else 'steps'}"
    length = f"{data['steps']:,} steps"
    if data["per"]:
        length = f"{data['steps']:,} decisions, {data['mean_time']:,.6g} {spanned(data['per'])} on average"
    rows = [["quota", "share", "exact", "asked", f"{late}, 5% to 95% of runs", "met in"]]
    for row in data["quotas"][:MAX_ROWS]:
        low, high = (fixed(row["after_steps"][part]) for part in ("5%", "95%"))
        share, exact = with_error(row["share"], row["share_se"]), fixed(row["exact_share"])
        rows.append(
            [row["name"], share, exact, asked(row["asked"]), f"{low} to {high}", f"{row['met']:.0%} of runs"]
        )
    exact = "" if data["exact_gain"] is None else f"   exact {fixed(data['exact_gain'], 6)}"
    lines = [
        f"{source}: {data['runs']:,} runs of {length}; means without the first tenth, +- one standard error",
        "",
        f"  gain    {with_error(data['gain'], data['gain_se'])}{_per(data)}{exact}",
        "",
        *table(rows, len(data["quotas"])),
    ]
    if len(rows) > 2:
        lines += ["", f"  all quotas are met {late} in {data['met_all']:.0%} of runs"]
    lines += seen_lines(data["ends"])
    return "\n".join([*lines, *notes_lines(data)])


def infeasible_lines(why: Json | None) -> list[str]:
    """Why quotas cannot be met, and what can."""
    if why is None:
        return ["infeasible: no policy meets the quotas, which bias and prices prove; why was not asked"]
    lines = [f"infeasible: {why['headline']}", *(f"  {line}" for line in why["lines"])]
    return lines + ([f"  nearest quotas that can be met: {listed(why['nearest'])}"] if why["nearest"] else [])


def _meaning_lines(data: Json) -> list[str]:
    """What the other meaning of the quotas would come to."""
    return [] if data["other"] is None else [f"  meaning {data['other']['text']}"]


def _gain_lines(data: Json) -> list[str]:
    worst = worst_slack(data["worst_slack"])
    if data["same_gain"] and data["status"] != Status.UNDECIDED:
        same = "fair: every policy earns the same, so that any fair one is optimal"
        return [f"  gain    {fixed(data['gain'], 6)}{_per(data)}   {same}; {worst}"]
    claim = {Status.OPTIMAL: "optimal", Status.FEASIBLE: "fair", Status.UNDECIDED: "not proved fair"}
    proof = f"no fair policy exceeds {fixed(data['upper'], 6)} (gap {data['gap']:.1e})"
    starts = ", mean over all starts" if data["starts"] else ""
    earned = f"{fixed(data['gain'], 6)}{_per(data)}{starts}"
    lines = [f"  gain    {earned}   {claim[data['status']]}: {proof}; {worst}"]
    if data["free_status"] == Status.OPTIMAL and data["cost"] is not None:
        free = fixed(data["free_gain"], 6)
        lines.append(f"  without quotas {free}; fairness costs {fixed(data['cost'], 6)}")
    elif data["free_status"] is not None and data["free_status"] != Status.OPTIMAL:
        lines.append("  without quotas not settled: it is looked for no longer than the answer took")
    return lines


def _per(data: Json) -> str:
    return f" per {data['per']}" if data["per"] else ""


def _quota_table(data: Json) -> list[str]:
    """Quotas by slack, the tightest first where there are many."""
    words = {"binding": "binding", "broken": "NOT MET", "void": "void: its condition has next to no time"}
    rows = [["quota", "mean" if data["all_weighted"] else "share", "asked", "slack", "price", ""]]
    for row in data["quotas"]:
        room = "0" if row["state"] == "binding" else slack(row["slack"])
        shown = fixed(row["share"]), asked(row["asked"]), room, price(row["price"])
        said = [words.get(row["state"], "")]
        if row["condition"] is not None and row["state"] != "void":
            part = "all" if row["condition"] > 1 - FAIR_TOL else f"{percent(row['condition'])} of"
            said.append(f"of {part} the time")
        if row["expected"]:
            said.append("in the mean over runs")
        rows.append([row["name"], *shown, ", ".join(filter(None, said))])
    return table(rows, data["of_quotas"], "quotas with more slack")


def policies_lines(policies: Sequence[Json]) -> list[str]:
    """What a run does: one policy, or each of those of which it draws one."""
    if len(policies) == 1:
        return policy_lines(policies[0])
    lines = [f"  a run draws one of {len(policies)} policies at its start, and keeps it:"]
    for m, policy in enumerate(policies):
        lines += policy_lines(policy, f"{m + 1}: {percent(policy['weight'])}")
    return lines


def policy_lines(policy: Json, head: str = "policy") -> list[str]:
    """What a policy does in each state, or in how many it is random."""
    random, states = policy["random"], policy["of_states"]
    if states > MAX_ROWS:
        rest = ", deterministic in the others" if random < states else ""
        return [f"  {head:6}  random in {random} of {states} states{rest} (--policy FILE writes it)"]
    cells: list[list[str]] = []
    for state, used in zip(policy["states"], policy["mix"], strict=True):
        mix = [action + (f" {percent(p)}" if len(used) > 1 else "") for action, p in used.items()]
        cells.append(["" if cells else head, f"{state}: {', '.join(mix)}"])
    return columns(cells)


def _price_range(segment: Json | None, cap: bool, concave: bool) -> tuple[str, str, str]:
    """A price and where it holds; where it is not unique, its ends, which only concave curves have."""
    if segment is None:
        return "-", "-", "-"
    near, far = (segment["high"], segment["low"]) if cap else (segment["low"], segment["high"])
    end = fixed(far) if math.isfinite(far) else "more"
    single = segment["unique"] or not concave
    shown = price(segment["price"]) if single else f"{fixed(near)} to {end}"
    return shown, fixed(segment["start"]), fixed(segment["stop"])


def _who_pays(data: Json) -> list[str]:
    """Change of every other quota's share from the first value to the last that can be met."""
    fair = [k for k, gain in enumerate(data["gains"]) if math.isfinite(gain)]
    if not fair:
        return []
    changes = zip(data["quotas"], data["shares"][fair[-1]] - data["shares"][0], strict=True)
    moved = [f"{name} {c:+.4f}" for name, c in changes if name != data["quota"] and abs(c) > _MOVED]
    return [f"  from end to end the other shares move: {listed(moved, _MOST_NAMES)}"] if moved else []


def _pays_most(pays: Json) -> tuple[str, str]:
    """The group that has least of what it would have without quotas, and how much less."""
    name = max(pays, key=lambda group: pays[group], default=None)
    return ("-", "-") if name is None or pays[name] <= _MOVED else (name, f"-{fixed(pays[name])}")
