"""The first paragraph of a report: what a decision maker can read aloud, and nothing that is not proved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairmdp.certificate import Verdict
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Solution, Status
from fairmdp.solvers.apart import concave_in
from fairmdp.views.data import Json, quotas_data
from fairmdp.views.format import NOTHING, listed

_MOST_QUOTAS = 4
_MOST_PRICES = 2
_FOUR = 4  # digits of an amount that is read aloud


@dataclass(frozen=True)
class Occasion:
    """For whom and when a report is written, and in which units.

    Attributes
    ----------
    date, author
        What stands below the title; nothing where they are empty.
    unit_reward
        What the rewards count, ``"EUR"``; with ``" per "`` in it, ``"EUR per hour"``, it is that of the gain.
    unit_time
        What a step is, ``"hour"``; by default the model's own unit of time.
    """

    date: str = ""
    author: str = ""
    unit_reward: str = ""
    unit_time: str = ""

    def gain_unit(self, problem: Problem) -> str:
        """What a gain is in."""
        if " per " in self.unit_reward:
            return self.unit_reward
        time = self.unit_time or problem.mdp.per or "step"
        return f"{self.unit_reward} per {time}".strip()


def briefing(
    problem: Problem, solution: Solution, free: Solution, verdict: Verdict, occasion: Occasion
) -> list[str]:
    """Return sentences: what is guaranteed to whom, what it costs, what more would cost, how sure that is."""
    if not verdict.ok:
        return ["This solution could not be confirmed: nothing below should be relied on."]
    if solution.status is Status.INFEASIBLE:
        return ["No way of running the system meets all of these requirements; that is proved from the data."]
    if solution.status is Status.UNDECIDED:
        return ["It is not known whether the requirements can be met; the numbers below are no promise."]
    unit = occasion.gain_unit(problem)
    return [
        *_guaranteed(problem, solution),
        _cost(solution, free, unit),
        *_one_more(problem, solution, unit),
        _how_sure(solution, unit),
    ]


def _guaranteed(problem: Problem, solution: Solution) -> Iterator[str]:
    """What each quota is promised, the tightest first."""
    tight = np.argsort(solution.slacks, kind="stable").tolist()
    rows = quotas_data(problem)
    named = [k for k in tight if np.isfinite(solution.slacks[k])]
    if not named:
        yield "Nothing is required of this policy."
        return
    conditional = {c.quota for c in problem.conditions}
    promises = [
        _promise(rows[k], k in conditional) + _of_the_mean(problem, solution, k) for k in named[:_MOST_QUOTAS]
    ]
    more = len(named) - _MOST_QUOTAS
    if more > 0:
        promises.append(f"{more} other requirement{' that is' if more == 1 else 's that are'} met as well")
    yield f"In the long run this policy guarantees {_and(promises)}."
    if solution.ends is not None and solution.ends.weights is not None:
        yield (
            f"It is a mixture: at its start a run draws one of {solution.ends.weights.size} ways to act and "
            "keeps it, so single runs differ."
        )


def _of_the_mean(problem: Problem, solution: Solution, k: int) -> str:
    """What is said of a promise that single runs need not keep."""
    return " in the mean over runs" if solution.ends is not None and problem.expected[k] else ""


def _promise(row: Json, conditional: bool) -> str:
    name, low, high = row["name"], row["at_least"], row["at_most"]
    sides = ("least", low), ("most", high)
    if conditional:
        return f"{name} its part ({row['counts']})"
    if row["unit"] is not None:
        return f"{name} a mean of {_and([f'at {side} {_amount(b)}' for side, b in sides if b is not None])}"
    if low is not None and high is not None:
        return f"{name} between {_share(low)} and {_share(high)} of the time"
    side, share = next((side, bound) for side, bound in sides if bound is not None)
    return f"{name} at {side} {_share(share)} of the time"


def _cost(solution: Solution, free: Solution, unit: str) -> str:
    earned = f"It earns {_amount(solution.gain)} {unit}"
    if free.status is not Status.OPTIMAL:
        return f"{earned}."
    cost = max(free.gain - solution.gain, 0.0)
    if cost <= NOTHING * max(abs(free.gain), 1.0):
        return f"{earned}, which is as much as without any requirement."
    part = f", {100 * cost / abs(free.gain):.1f} %" if free.gain else ""
    bare = f"without the requirements {_amount(free.gain)} could be earned"
    return f"{earned}; {bare}, so they cost {_amount(cost)} {unit}{part}."


def _one_more(problem: Problem, solution: Solution, unit: str) -> Iterator[str]:
    """Prices of the dearest quotas, per percentage point of share or per unit of a mean.

    The ceiling falls by the price for each unit: what more costs is no less, what less brings no more. That
    is not so where runs may end elsewhere then.
    """
    if solution.status is not Status.OPTIMAL:
        return
    rows, odd = solution.quotas, {condition.quota for condition in problem.conditions}
    sure = concave_in(problem)
    dear = np.argsort(-np.abs(solution.prices), kind="stable").tolist()
    for k in [k for k in dear if abs(rows[k].price) > NOTHING and k not in odd][:_MOST_PRICES]:
        weighed = bool(problem.weighted[k])
        price = abs(rows[k].price) * (1.0 if weighed else 0.01)
        more = "unit" if weighed else "percentage point"
        if not sure[k]:
            yield (
                f"What one {more} more for {rows[k].name} would come to depends on where runs would end then."
            )
        elif rows[k].price > 0:
            yield f"One {more} more for {rows[k].name} would cost at least {_amount(price)} {unit}."
        else:
            yield f"One {more} more allowed to {rows[k].name} would bring at most {_amount(price)} {unit}."


def _how_sure(solution: Solution, unit: str) -> str:
    gap = solution.gap
    beyond = f" by more than {gap:.1g}" if gap > NOTHING else ""
    best = f"No policy that meets the requirements earns more{beyond}"
    if solution.status is not Status.OPTIMAL:
        best = f"A policy that meets the requirements could earn {_amount(gap)} {unit} more at most"
    return (
        f"{best}: this is proved from the data of the model, every rounding error counted. It holds as "
        "far as the model describes the system; over a limited time shares scatter around what is promised."
    )


def _share(value: float) -> str:
    return f"{100 * value:.{_FOUR}g} %"


def _amount(value: float) -> str:
    """A number as one says it."""
    return f"{value:,.{_FOUR}g}" if abs(value) < 10**_FOUR else f"{value:,.0f}"


def _and(parts: list[str]) -> str:
    if len(parts) < 3:
        return " and ".join(parts)
    return f"{listed(parts[:-1])} and {parts[-1]}"
