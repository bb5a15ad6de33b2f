"""Problems, solutions and frontiers as the JSON documents that the page and the report draw.

Nothing is computed here that the public functions do not return; large models are cut to what an eye can
take in, and a document says so where it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from fairmdp.certificate import FAIR_TOL, Verdict
from fairmdp.fairness import Readout
from fairmdp.frontiers import Frontier
from fairmdp.io.json_solution import plain
from fairmdp.problem import Problem
from fairmdp.report import infeasible_lines, nearest_quotas
from fairmdp.solution import Infeasibility, QuotaRow, Solution, Status, slacks
from fairmdp.validation import Floats

Json = dict[str, Any]

MOST_STATES = 40
"""States of a policy that are drawn; those most visited."""

MOST_ACTIONS = 40
"""Actions of a policy that are drawn."""

GRAPH_STATES = 24
"""States up to which a model is drawn as a graph."""

_PROVED = (Status.OPTIMAL, Status.FEASIBLE)


def problem_view(problem: Problem, name: str) -> Json:
    """What is asked: the size of the model and its quotas."""
    mdp = problem.mdp
    return {
        "name": name,
        "states": mdp.n_states,
        "pairs": mdp.n_pairs,
        "transitions": int(mdp.P.nnz),
        "digest": problem.digest,
        "quotas": [
            {
                "name": quota.name,
                "at_least": quota.at_least,
                "at_most": quota.at_most,
                "counts": _counted(problem, k),
                "unit": _unit(problem, k),
            }
            for k, quota in enumerate(problem.quotas)
        ],
    }


def solution_view(problem: Problem, solution: Solution, free: Solution) -> Json:
    """What was found, beside the solution without quotas."""
    proved = solution.status in _PROVED
    both = proved and free.status in _PROVED
    free_shares = problem.members @ free.occupancy if free.has_policy else np.full(problem.n_quotas, np.nan)
    rows = zip(
        as_asked(problem, solution), solution.slacks, problem.units.values(free_shares).tolist(), strict=True
    )
    why = solution.infeasibility
    document = {
        "status": solution.status.value,
        "meaning": solution.status.meaning,
        "gain": solution.gain,
        "upper": solution.upper,
        "gap": solution.gap,
        "worst_slack": solution.worst_slack,
        "free_gain": free.gain if free.status in _PROVED else None,
        "cost": max(free.gain - solution.gain, 0.0) if both else None,
        "method": solution.method,
        "notes": solution.notes,
        "seconds": solution.counters.get("seconds"),
        "tol": solution.tol,
        "provenance": solution.provenance,
        "quotas": [
            {**row._asdict(), "free_share": share, "state": _state(slack), "unit": _unit(problem, k)}
            for k, (row, slack, share) in enumerate(rows)
        ],
        "compare": _compare(problem, solution, free, free_shares) if both and problem.n_quotas else None,
        "policy": _policy(problem, solution) if proved else None,
        "graph": _graph(problem, solution) if proved and problem.mdp.n_states <= GRAPH_STATES else None,
        "infeasible": None if why is None else _infeasible(problem, solution, why),
    }
    return {name: plain(value) for name, value in document.items()}


def as_asked(problem: Problem, solution: Solution) -> list[QuotaRow]:
    """Rows of a solution with the bounds as they were stated, to the last digit."""
    bounds = zip(solution.quotas, problem.lower.tolist(), problem.upper.tolist(), strict=True)
    return [row._replace(at_least=low, at_most=high) for row, low, high in bounds]


def frontier_view(problem: Problem, curve: Frontier) -> Json:
    """The best gain against what is owed, point by point."""
    worst = [s.worst_slack if s.has_policy else None for s in curve.solutions]
    k = problem.quota_index(curve.quota)
    other = problem.upper[k] if curve.bound == "at_least" else problem.lower[k]
    worst += [None] * (curve.values.size - len(worst))  # values that were refused outright come last
    document = {
        "quota": curve.quota,
        "bound": curve.bound,
        "unit": _unit(problem, k),
        "exact": curve.exact,
        "values": curve.values,
        "gains": curve.gains,
        "slopes": curve.slopes,
        "worst_slacks": worst,
        "last_feasible": curve.last_feasible,
        "limit": curve.limit,
        "own_limit": abs(curve.last_feasible - other) <= FAIR_TOL * float(problem.units.of(k).scale),
    }
    return {name: plain(value) for name, value in document.items()}


def verdict_view(problem: Problem, verdict: Verdict) -> Json:
    """What was proved from the data alone."""
    worst = min(
        float(slacks(verdict.shares[:, end], problem.at_least, problem.at_most).min(initial=np.inf))
        for end in (0, 1)
    )
    document = {
        "ok": verdict.ok,
        "status": verdict.status.value,
        "meaning": verdict.status.meaning,
        "gain": verdict.gain,
        "upper": verdict.upper,
        "worst_slack": worst,
        "fair_tol": FAIR_TOL,
        "messages": verdict.messages,
        "exact": verdict.exact,
    }
    return {name: plain(value) for name, value in document.items()}


def _unit(problem: Problem, k: int) -> list[float] | None:
    """The ends of a quota's scale where it has weights, the smallest and the largest; shares have none."""
    if not problem.weighted[k]:
        return None
    ends: list[float] = problem.units.of(k).values(np.array([0.0, 1.0])).tolist()
    return ends


def _counted(problem: Problem, k: int) -> str:
    """What a quota counts, in words."""
    mdp = problem.mdp
    unit = _unit(problem, k)
    if unit is not None:
        return f"mean of weights from {unit[0]:.6g} to {unit[1]:.6g}"
    pairs = problem.members.indices[problem.members.indptr[k] : problem.members.indptr[k + 1]]
    if problem.over_states[k]:
        states = np.unique(mdp.s_of[pairs])
        return f"state {mdp.state_name(int(states[0]))}" if states.size == 1 else f"{states.size} states"
    return mdp.pair_text(int(pairs[0])) if pairs.size == 1 else f"{pairs.size} state-action pairs"


def _state(slack: float) -> str | None:
    if np.isnan(slack):
        return None
    if abs(slack) <= FAIR_TOL:
        return "binding"
    return "broken" if slack < 0 else "met"


def _compare(problem: Problem, solution: Solution, free: Solution, free_shares: Floats) -> list[Json]:
    """The two policies side by side, in the numbers of a `Readout`."""
    free_slacks = slacks(free_shares, problem.at_least, problem.at_most)
    weighted = tuple(problem.names[k] for k in np.flatnonzero(problem.weighted))
    rows = []
    for label, shares, slack, gain in (
        ("with quotas", solution.shares, solution.slacks, solution.gain),
        ("without quotas", free_shares, free_slacks, free.gain),
    ):
        seen = Readout(problem.names, shares, slack, gain, weighted=weighted)
        row: Json = {
            "policy": label,
            "gain": gain,
            "worst_slack": float(slack.min(initial=np.inf)),
            "broken": list(seen.broken),
        }
        if seen.by_group:
            name, least = seen.group_min()
            spread = {"difference": seen.difference(), "jain": seen.jain}
            row |= {"least": least, "least_name": name, **spread}
        rows.append(row)
    return rows


def _policy(problem: Problem, solution: Solution) -> Json:
    """Probabilities by state and action, for the states most visited."""
    mdp = problem.mdp
    states = np.sort(np.argsort(-solution.visitation, kind="stable")[:MOST_STATES])
    pairs = [range(int(mdp.pair_ptr[s]), int(mdp.pair_ptr[s + 1])) for s in states]
    used: dict[str, float] = {}
    for i in (i for own in pairs for i in own):
        used[mdp.action_name(i)] = used.get(mdp.action_name(i), 0.0) + float(solution.occupancy[i])
    kept = sorted(used, key=lambda action: -used[action])[:MOST_ACTIONS]
    actions = [action for action in used if action in set(kept)]
    column = {action: a for a, action in enumerate(actions)}
    chances: list[list[float | None]] = []
    for own in pairs:
        row: list[float | None] = [None] * len(actions)
        for i in own:
            if mdp.action_name(i) in column:
                row[column[mdp.action_name(i)]] = float(solution.policy[i])
        chances.append(row)
    return {
        "states": [mdp.state_name(int(s)) for s in states],
        "visitation": solution.visitation[states],
        "actions": actions,
        "chances": chances,
        "of_states": mdp.n_states,
        "of_actions": len(used),
    }


def _graph(problem: Problem, solution: Solution) -> Json:
    """States with their shares, and the long-run flow between them."""
    mdp = problem.mdp
    of_state = csr_array((solution.occupancy, mdp.s_of, np.arange(mdp.n_pairs + 1)), mdp.P.shape).T
    flow = (of_state @ mdp.P).tocoo()
    rewards = np.bincount(mdp.s_of, solution.policy * mdp.r, mdp.n_states)
    return {
        "states": [mdp.state_name(s) for s in range(mdp.n_states)],
        "shares": solution.visitation,
        "rewards": rewards,
        "edges": [
            {"from": int(s), "to": int(t), "flow": float(f)}
            for s, t, f in zip(*flow.coords, flow.data, strict=True)
            if f > FAIR_TOL
        ],
    }


def _infeasible(problem: Problem, solution: Solution, why: Infeasibility) -> Json:
    """Which quotas conflict, and the nearest ones that can be met."""
    first, *others = infeasible_lines(problem, solution, why)
    return {
        "headline": first.removeprefix("infeasible: "),
        "lines": [line.strip() for line in others if "nearest quotas" not in line],
        "conflict": [problem.names[k] for k in why.conflict],
        "nearest": nearest_quotas(problem, why),
        "at_least": problem.units.values(why.nearest_at_least),
        "at_most": problem.units.values(why.nearest_at_most),
    }
