"""What a solution says of itself, in sentences: its fields are data, and here are their words.

Where its quotas cannot be met, these are why that is so, and which could be.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairmdp.deadline import Stop
from fairmdp.model.problem import Problem
from fairmdp.model.transitions import EXACT_SUM_TOL
from fairmdp.solution.solution import Check, Infeasibility, Note, Remark, Solution
from fairmdp.solvers.registry import REASONS, summary
from fairmdp.views.format import MAX_ROWS

_STOPS = {
    Stop.INTERRUPTED: "interrupted: this is the best of what was found by then",
    Stop.OUT_OF_TIME: "out of time: this is the best of what was found by then",
    Stop.OUT_OF_STEPS: "stopped before all steps were made",
}

_REMARKS = {
    Remark.CONNECTED: "about {0:.0e} of the gain was given up so that the policy's chain is connected",
    Remark.SLOWEST_PASSAGE: (
        "the policy passes between parts that are best kept apart, on its rarest passage once in {0:,.0f} "
        "{1}: its shares take many times that to show, and patience=N passes once in N"
    ),
    Remark.PATIENCE_TOO_SHORT: (
        "no policy was found that meets the quotas and makes each passage between its parts once in "
        "{0:,.0f} {1}"
    ),
    Remark.RAISED: "quotas were raised by {0:.0e} so that the policy's own chain meets them",
    Remark.MIXED_WITH_UNIFORM: "{0:.0%} of the time is the uniform policy's, so that the quotas are met",
    Remark.NEARLY_REDUCIBLE: (
        "the policy's chain is nearly reducible (deviation {0:.1e}): small errors in the model "
        "move its long-run shares a lot, and they take long to show"
    ),
    Remark.SHARES_UNPROVED: "the policy's chain is so nearly reducible that its shares cannot be proved",
    Remark.SEVERAL_CLASSES: (
        "the policy's chain has {0:.0f} closed classes: its long-run shares depend on the start"
    ),
    Remark.CONFLICT_MAY_SHRINK: "the conflict is large, and a part of it may be enough",
    Remark.AT_THE_EDGE: (
        "the quotas lie within rounding of what can be met: neither a fair policy nor its absence is proved"
    ),
    Remark.BEST_LEAST_SHARE: "no policy gives every group more than {0:.9g}",
    Remark.IMPOSSIBLE: "bias and prices prove that no policy meets the quotas",
    Remark.UNREACHABLE: "states that cannot be reached from the start do not count: {0:.0f}",
    Remark.ONLY_IN_THE_LIMIT: (
        "met only in the limit: runs may come as near to the quotas as one likes, and no policy was found "
        "whose runs meet them; the mean over runs may meet them (expected=True)"
    ),
    Remark.CERTIFICATES_DIFFER: "the GPU's certificate proved another status; the CPU's counts",
}


def method_text(solution: Solution) -> str:
    """Which solver answered, what it does, why it was chosen, and who stalled before or after it."""
    words = f"{solution.method}: {summary(solution.method)}".removesuffix(": ")
    if "kernel" in solution.provenance:
        words += f", {solution.provenance['kernel']} kernel"
    if solution.device == "cuda":
        words += ", on the GPU"
    if solution.reason in REASONS:
        words += f"; {REASONS[solution.reason]}"
    tried = list(solution.tried)
    if solution.method in tried:
        later = tried[tried.index(solution.method) + 1 :]
        return f"{words}; it stalled, and {' and '.join(later)} did no better"
    return f"{', then '.join(tried)}, which stalled, then {words}" if tried else words


def stop_text(stop: Stop) -> str:
    """Why a search ended early; nothing where it did not."""
    return _STOPS.get(stop, "")


_EITHER = "steps (units of time)"


def note_text(note: Note, units: str = _EITHER) -> str:
    """A remark with its number, and what that counts where it is time."""
    return _REMARKS[note.remark].format(note.value, units)


def check_text(solution: Solution) -> str:
    """Where the certificate was evaluated, if a GPU had a part in the answer."""
    if solution.device == "cpu" or Remark.CERTIFICATES_DIFFER in (note.remark for note in solution.notes):
        return ""
    return {
        Check.CPU: "solved on the GPU, certified on the CPU",
        Check.CUDA: "certified on the GPU",
        Check.BOTH: "certified on the GPU and again on the CPU",
    }[solution.check]


def note_texts(solution: Solution, units: str = _EITHER) -> tuple[str, ...]:
    """What a careful reader should know, one sentence each; time is in these units."""
    notes = (note_text(note, units) for note in solution.notes)
    texts = (stop_text(solution.stopped), *notes, check_text(solution))
    return tuple(text for text in texts if text)


def infeasible_data(problem: Problem, solution: Solution, why: Infeasibility) -> dict[str, Any]:
    """Which quotas conflict, by how much, and the nearest ones that can be met."""
    capped = [bool(solution.prices[k] < 0) for k in why.conflict]
    headline, lines = f"these {len(why.conflict)} quotas cannot hold together", []
    if len(why.conflict) == 1 and not why.reach.size:
        headline = _alone_text(problem, why.conflict[0])
    elif len(why.conflict) == 1:
        headline = _reach_text(problem, why.conflict[0], float(why.reach[0]), capped[0])
    else:
        reached = zip(why.conflict, why.reach.tolist(), capped, strict=False)
        lines = [_reach_text(problem, k, reach, cap) for k, reach, cap in reached]
        if 0 < why.reach.size < len(why.conflict):
            lines.append(f"... and {len(why.conflict) - why.reach.size} more")
        if not why.reach.size:
            shown = zip(why.conflict[:MAX_ROWS], capped, strict=False)
            lines = [_met_by(problem, k, cap) for k, cap in shown]
            lines += [f"... and {more} more"] if (more := len(why.conflict) - MAX_ROWS) > 0 else []
    lines += _more_than_all(problem)
    only_shares = not (problem.weighted & (problem.at_least > 0)).any()
    if why.common_factor is not None and why.common_factor < 1 and only_shares:
        lines.append(f"of all that is owed, no more than {why.common_factor:.4f} times as much can be met")
    nearest = nearest_quotas(problem, why)
    if not nearest:
        lines.append("no nearest quotas are proposed: none were proved to be met")
    return {
        "headline": headline,
        "lines": lines,
        "conflict": [problem.names[k] for k in why.conflict],
        "nearest": nearest,
        "at_least": problem.units.values(why.nearest_at_least),
        "at_most": problem.units.values(why.nearest_at_most),
    }


def _more_than_all(problem: Problem) -> list[str]:
    """Whether disjoint quotas owe more than all of the time, which no model can give."""
    owed = (problem.at_least > 0) & ~problem.weighted
    total = float(problem.at_least[owed].sum())
    if total <= 1 + EXACT_SUM_TOL or (problem.members.T @ owed.astype(float)).max() > 1:
        return []
    return [f"together the quotas owe {total:.6g} of the time, more than there is"]


def nearest_quotas(problem: Problem, why: Infeasibility) -> list[str]:
    """Bounds to change, as the command line takes them."""
    moved = []
    conditional = [condition.quota for condition in problem.conditions]
    changed = (why.nearest_at_least != problem.at_least) | (why.nearest_at_most != problem.at_most)
    if changed[conditional].any():  # what would have to move is in what the quota counts
        return []
    for sign, nearest, given in (
        (">=", why.nearest_at_least, problem.at_least), ("<=", why.nearest_at_most, problem.at_most)
    ):  # fmt: skip
        stated = problem.units.values(nearest)
        moved += [f"{problem.names[k]}{sign}{stated[k]:.12g}" for k in np.flatnonzero(nearest != given)]
    return moved


def _alone_text(problem: Problem, k: int) -> str:
    """What cannot be had of one quota, where the start decides where runs end."""
    ends = "no policy meets it in the mean" if problem.expected[k] else "no policy meets it in every run"
    if problem.mdp.initial is None:
        where = "from every start, and none is stated (--start NAME)"
        return f"{problem.names[k]} cannot be met {where}, whatever the others ask: {ends}"
    return f"{problem.names[k]} cannot be met from the start, whatever the others ask: {ends}"


def _met_by(problem: Problem, k: int, capped: bool) -> str:
    """A quota of several that conflict, and whether every run is to meet it."""
    low, high = problem.stated_bounds
    asked = f"<= {high[k]:.6g}" if capped else f">= {low[k]:.6g}"
    return f"{problem.names[k]} {asked} in {'the mean over runs' if problem.expected[k] else 'every run'}"


def _reach_text(problem: Problem, k: int, reach: float, capped: bool) -> str:
    name = problem.names[k]
    for condition in problem.conditions:
        if condition.quota == k:
            short = abs(float(problem.units.of(k).values(np.array(reach))))
            side = "at least" if condition.least else "at most"
            asked = f"{name} is to be {side} {condition.bound:.6g} of its condition"
            return f"{asked}, and every policy misses that by {short:.6g} of all the time"
    if problem.weighted[k]:
        value = problem.units.of(k).values(np.array(reach))
        if capped:
            return f"{name} may be {problem.upper[k]:.6g} at most, and no policy has less than {value:.6g}"
        return f"{name} is to be {problem.lower[k]:.6g} at least, and no policy has more than {value:.6g}"
    if capped:
        return f"{name} may have {problem.at_most[k]:.4f}, and no policy spends less than {reach:.4f} there"
    return f"{name} is owed {problem.at_least[k]:.4f}, and no policy spends more than {reach:.4f} there"
