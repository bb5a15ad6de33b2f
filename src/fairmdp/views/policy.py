"""What policies do, as plain data: probabilities by state and action, and where time flows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from fairmdp.certificate import FAIR_TOL
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Solution
from fairmdp.views.format import NOTHING

Json = dict[str, Any]

MOST_STATES = 40
"""States of a policy that are drawn; those most visited."""

MOST_ACTIONS = 40
"""Actions of a policy that are drawn."""

GRAPH_STATES = 24
"""States up to which a model is drawn as a graph."""


def policies_data(problem: Problem, solution: Solution) -> list[Json]:
    """What a run does: as one policy does, or as one of several, with how likely it is to follow each."""
    ends = solution.ends
    if ends is None or ends.policies is None or ends.weights is None:
        return [{"weight": 1.0, **_policy(problem, solution, solution.policy)}]
    weights = ends.weights / ends.weights.sum()
    return [
        {"weight": weight, **_policy(problem, solution, policy)}
        for weight, policy in zip(weights.tolist(), ends.policies, strict=True)
    ]


def _policy(problem: Problem, solution: Solution, policy: Floats) -> Json:
    """Probabilities by state and action, for the states most visited."""
    mdp, ends = problem.mdp, solution.ends
    reached = np.arange(mdp.n_states) if ends is None else np.flatnonzero(ends.components >= 0)
    states = reached[_most_visited(solution.visitation[reached])]
    pairs = [range(int(mdp.pair_ptr[s]), int(mdp.pair_ptr[s + 1])) for s in states]
    used: dict[str, float] = {}
    for i in (i for own in pairs for i in own):
        used[mdp.action_name(i)] = used.get(mdp.action_name(i), 0.0) + float(solution.occupancy[i])
    kept = set(sorted(used, key=lambda action: -used[action])[:MOST_ACTIONS])
    actions = [action for action in used if action in kept]
    column = {action: a for a, action in enumerate(actions)}
    chances: list[list[float | None]] = []
    mix: list[dict[str, float]] = []
    for own in pairs:
        row: list[float | None] = [None] * len(actions)
        mix.append({mdp.action_name(i): float(policy[i]) for i in own if policy[i] > NOTHING})
        for i in own:
            if mdp.action_name(i) in column:
                row[column[mdp.action_name(i)]] = float(policy[i])
        chances.append(row)
    return {
        "states": [mdp.state_name(int(s)) for s in states],
        "visitation": solution.visitation[states],
        "actions": actions,
        "chances": chances,
        "mix": mix,
        "of_states": reached.size,
        "of_actions": len(used),
        "random": int((np.add.reduceat(policy > NOTHING, mdp.pair_ptr[:-1])[reached] > 1).sum()),
    }


def _most_visited(visitation: Floats) -> Ints:
    """Numbers of the states that are drawn, ascending; of equals the first."""
    if visitation.size <= MOST_STATES:
        return np.arange(visitation.size)
    least = np.partition(visitation, -MOST_STATES)[-MOST_STATES]
    more, level = np.flatnonzero(visitation > least), np.flatnonzero(visitation == least)
    return np.sort(np.concatenate([more, level[: MOST_STATES - more.size]]))


def graph_data(problem: Problem, solution: Solution) -> Json:
    """States with their shares, and the long-run flow between them, in parts of all steps."""
    mdp = problem.mdp
    often = solution.occupancy
    if mdp.durations is not None:
        often = often / mdp.durations / (often / mdp.durations).sum()
    of_state = csr_array((often, mdp.s_of, np.arange(mdp.n_pairs + 1)), mdp.P.shape).T
    flow = (of_state @ mdp.P).tocoo()
    if solution.ends is None or solution.ends.policies is None:
        rewards = np.bincount(mdp.s_of, mdp.per_step(solution.policy) * mdp.rates, mdp.n_states)
    else:  # of the time that a mixture spends in a state
        earned = np.bincount(mdp.s_of, solution.occupancy * mdp.rates, mdp.n_states)
        shares = solution.visitation
        rewards = np.divide(earned, shares, out=np.zeros(mdp.n_states), where=shares > NOTHING)
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
