"""What a model is, as plain data and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmdp.model.checks import Floats, Ints, counted
from fairmdp.model.problem import Problem
from fairmdp.model.time import spanned
from fairmdp.solvers.registry import REASONS, summary
from fairmdp.views.data import Json, quotas_data
from fairmdp.views.ends import set_text
from fairmdp.views.format import MAX_ROWS, asked, listed, percent, shortened, table

if TYPE_CHECKING:  # a small solve does without it
    from fairmdp.audit import Inspection

_MOST_NAMES = 20  # states of a set whose names are told
_MOST_COMPONENTS = 5
_HEAD = 11  # letters of the column of heads


def inspection_data(problem: Problem, seen: Inspection) -> Json:
    """Size of the model, what can be reached, where runs may end, how fast it mixes, who will solve it."""
    mdp = problem.mdp
    counts = np.isin(mdp.s_of, seen.reachable)  # pairs that some run may come to
    start = None if mdp.initial is None else _states(problem, np.flatnonzero(mdp.initial))
    mixing = None
    if seen.mixing is not None:
        mixing = {**seen.mixing._asdict(), "time": seen.mixing.steps * mdp.step if mdp.per else None}
    return {
        "fairmdp_inspection": 1,
        "states": mdp.n_states,
        "pairs": mdp.n_pairs,
        "transitions": int(mdp.P.nnz),
        "rewards": _ends(mdp.r[counts]),
        "reward_names": list(mdp.reward_names),
        "durations": None if mdp.durations is None else _ends(mdp.durations[counts]),
        "per": mdp.per,
        "start": start,
        "unreachable": _states(problem, seen.unreachable),
        "of_components": seen.n_components,
        "components": [
            {"pairs": part.n_pairs, "for_good": part.for_good, **_states(problem, part.states)}
            for part in seen.components
        ],
        "passed": _states(problem, seen.passed),
        "mixing": mixing,
        "method": seen.method,
        "does": summary(seen.method),
        "reason": REASONS.get(seen.reason, ""),
        "refusal": seen.refusal,
        "quotas": [
            {**row, "meaning": _meaning(problem, k, seen.n_components)}
            for k, row in enumerate(quotas_data(problem))
        ],
    }


def _states(problem: Problem, states: Ints) -> Json:
    names = [problem.mdp.state_name(int(s)) for s in states[:_MOST_NAMES]]
    return {"states": names, "of_states": int(states.size)}


def _meaning(problem: Problem, k: int, components: int) -> str:
    if components == 1:
        return "all runs alike"
    return "mean over runs" if problem.expected[k] else "every run"


def inspection_text(name: str, problem: Problem, seen: Inspection) -> str:
    """What a model is, line by line, and the table of its quotas."""
    data = inspection_data(problem, seen)
    sizes = ((data["states"], "state"), (data["pairs"], "pair"), (data["transitions"], "transition"))
    lines = [f"{name}: {', '.join(counted(count, noun) for count, noun in sizes)}", ""]
    said = {
        "start": _start_text(data),
        "reachable": _reachable_text(data),
        "runs end in": _components_text(data),
        "mixing": _mixing_text(data),
        "steps": _steps_text(data),
        "rewards": _rewards_text(data),
        "solved by": _method_text(data),
    }
    for head, text in said.items():
        first, *more = text.split("\n")
        lines += [f"  {head:{_HEAD}}  {first}", *(f"  {'':{_HEAD}}  {line.strip()}" for line in more)]
    rows = [["quota", "asked", "counts", "met by"]]
    for row in data["quotas"][:MAX_ROWS]:
        rows.append([row["name"], _asked_text(row), row["counts"], row["meaning"]])
    return "\n".join([*lines, "", *table(rows, len(data["quotas"]))])


def _asked_text(row: Json) -> str:
    """What a quota asks for; with a condition, what it counts says so."""
    if row.get("fixed"):
        return "a part"
    if row["at_most"] is None and row["at_least"] == 0:
        return "nothing yet"
    return asked((row["at_least"], row["at_most"]))


def _start_text(data: Json) -> str:
    if data["start"] is None:
        alike = "" if data["of_components"] == 1 else ": quotas of every run are to hold from each of them"
        return f"any state, none is stated (--start NAME){alike}"
    several = data["start"]["of_states"] > 1
    return set_text(**_set(data["start"])) if several else shortened(data["start"]["states"][0])


def _reachable_text(data: Json) -> str:
    dropped = data["unreachable"]
    if not dropped["of_states"]:
        return "all states"
    left = data["states"] - dropped["of_states"]
    return f"{left:,} of {data['states']:,} states; the others do not count: {set_text(**_set(dropped))}"


def _components_text(data: Json) -> str:
    if data["of_components"] == 1 and not data["passed"]["of_states"]:
        return "one end component, all of these states"
    count = counted(data["of_components"], "end component")
    passed = data["passed"]
    through = f"; {set_text(**_set(passed))} only passed through" if passed["of_states"] else ""
    lines = [f"{count}{through}"]
    for part in data["components"][:_MOST_COMPONENTS]:
        sizes = f"{counted(part['of_states'], 'state')}, {counted(part['pairs'], 'pair')}"
        lines.append(
            f"{set_text(**_set(part))}: {sizes}, {'for good' if part['for_good'] else 'can be left'}"
        )
    more = data["of_components"] - _MOST_COMPONENTS
    return "\n".join(lines + ([f"... and {more:,} more, no larger"] if more > 0 else []))


def _mixing_text(data: Json) -> str:
    mixing = data["mixing"]
    if mixing is None:
        return "no component has more than one state"
    steps = f"{mixing['steps']:,} steps"
    if mixing["time"] is not None:
        steps = f"{mixing['time']:,.4g} {spanned(data['per'])}"
    where = "" if data["of_components"] == 1 else ", in the largest component"
    return f"after {steps} of the uniform policy {percent(mixing['left'])} is left of where it was{where}"


def _ends(values: Floats) -> list[float]:
    return [float(values.min()), float(values.max())]


def _steps_text(data: Json) -> str:
    if data["durations"] is None:
        return "equally long"
    low, high = data["durations"]
    return f"take from {low:.6g} to {high:.6g} {spanned(data['per'])} on average"


def _rewards_text(data: Json) -> str:
    low, high = data["rewards"]
    named = f"; by name: {listed(data['reward_names'])}" if data["reward_names"] else ""
    return (f"always {low:.6g}" if low == high else f"from {low:.6g} to {high:.6g} a step") + named


def _method_text(data: Json) -> str:
    if data["refusal"]:
        return f"nobody, as it is: {data['refusal']}"
    return f"{data['method']}: {data['does']}" + (f"; {data['reason']}" if data["reason"] else "")


def _set(data: Json) -> Json:
    return {"names": data["states"], "count": data["of_states"]}
