"""A solution in words and tables, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairmdp.certificate import FAIR_TOL
from fairmdp.problem import Problem
from fairmdp.solution import Infeasibility, Solution, Status
from fairmdp.validation import counted
from fairmdp.weights import Units

_MAX_ROWS = 20


def solution_text(name: str, problem: Problem, solution: Solution, free: Solution | None = None) -> str:
    """Answer first, proof beside it, detail below. `free` is the solution without quotas."""
    lines = [f"{name}: {size_text(problem)}; {solution.method}", ""]
    if solution.infeasibility is not None:
        lines += infeasible_lines(problem, solution, solution.infeasibility)
    elif solution.status is Status.INFEASIBLE:
        lines.append("infeasible: no policy meets the quotas, which bias and prices prove; why was not asked")
    else:
        lines += _gain_lines(problem, solution, free)
        lines += ["", *_quota_table(problem, solution), "", *_policy_lines(problem, solution)]
    lines += [f"  note    {note}" for note in solution.notes]
    return "\n".join(lines)


def size_text(problem: Problem) -> str:
    """How large a problem is."""
    mdp = problem.mdp
    counts = {"state": mdp.n_states, "pair": mdp.n_pairs, "quota": problem.n_quotas}
    return ", ".join(counted(count, noun) for noun, count in counts.items())


def infeasible_lines(problem: Problem, solution: Solution, why: Infeasibility) -> list[str]:
    """Why the quotas cannot be met, and which would be."""
    capped = [solution.prices[k] < 0 for k in why.conflict]
    lines = []
    if len(why.conflict) == 1:
        (k,) = why.conflict
        lines.append(f"infeasible: {_conflict_text(problem, k, why.reach[0], capped[0])}")
    else:
        lines.append(f"infeasible: these {len(why.conflict)} quotas cannot hold together")
        lines += [
            f"  {_conflict_text(problem, k, reach, cap)}"
            for k, reach, cap in zip(why.conflict, why.reach, capped, strict=False)
        ]
        if len(why.conflict) > why.reach.size:
            lines.append(f"  ... and {len(why.conflict) - why.reach.size} more")
    only_shares = not (problem.weighted & (problem.at_least > 0)).any()
    if why.common_factor is not None and why.common_factor < 1 and only_shares:
        lines.append(f"  of all that is owed, no more than {why.common_factor:.4f} times as much can be met")
    moved = nearest_quotas(problem, why)
    if moved:
        more = f" and {len(moved) - _MAX_ROWS} more" if len(moved) > _MAX_ROWS else ""
        lines.append(f"  nearest quotas that can be met: {', '.join(moved[:_MAX_ROWS])}{more}")
    return lines


def nearest_quotas(problem: Problem, why: Infeasibility) -> list[str]:
    """Bounds to change, as the command line takes them."""
    lower = np.flatnonzero(why.nearest_at_least != problem.at_least)
    upper = np.flatnonzero(why.nearest_at_most != problem.at_most)
    least, most = problem.units.values(why.nearest_at_least), problem.units.values(why.nearest_at_most)
    return [
        *(f"{problem.names[k]}>={least[k]:.12g}" for k in lower),
        *(f"{problem.names[k]}<={most[k]:.12g}" for k in upper),
    ]


def _conflict_text(problem: Problem, k: int, reach: float, capped: bool) -> str:
    name = problem.names[k]
    if problem.weighted[k]:
        value = problem.units.of(k).values(np.array(reach))
        if capped:
            return f"{name} may be {problem.upper[k]:.6g} at most, and no policy has less than {value:.6g}"
        return f"{name} is to be {problem.lower[k]:.6g} at least, and no policy has more than {value:.6g}"
    if capped:
        return f"{name} may have {problem.at_most[k]:.4f}, and no policy spends less than {reach:.4f} there"
    return f"{name} is owed {problem.at_least[k]:.4f}, and no policy spends more than {reach:.4f} there"


def _gain_lines(problem: Problem, solution: Solution, free: Solution | None) -> list[str]:
    slack = (
        f"worst slack {_signed(solution.worst_slack)}"
        if np.isfinite(solution.worst_slack)
        else "nothing owed"
    )
    if np.ptp(problem.mdp.r) == 0 and solution.status is not Status.UNDECIDED:
        same = "fair: every policy earns the same, so that any fair one is optimal"
        return [f"  gain    {solution.gain:.6f}   {same}; {slack}"]
    claim = {Status.OPTIMAL: "optimal", Status.FEASIBLE: "fair", Status.UNDECIDED: "not proved fair"}
    proof = f"no fair policy exceeds {solution.upper:.6f} (gap {solution.gap:.1e})"
    lines = [f"  gain    {solution.gain:.6f}   {claim[solution.status]}: {proof}; {slack}"]
    if free is not None and free.status is Status.OPTIMAL:
        cost = max(free.gain - solution.gain, 0.0)
        lines.append(f"  without quotas {free.gain:.6f}; fairness costs {cost:.6f}")
    return lines


def _quota_table(problem: Problem, solution: Solution) -> list[str]:
    """Quotas by slack, the tightest first where there are many."""
    K = problem.n_quotas
    if K == 0:
        return ["  no quotas"]
    shown = range(K) if K <= _MAX_ROWS else np.argsort(solution.slacks, kind="stable")[:_MAX_ROWS].tolist()
    cells = [["quota", "mean" if problem.weighted.all() else "share", "asked", "slack", "price", ""]]
    for k in shown:
        row, slack = solution.quotas[k], solution.slacks[k]
        price = f"{row.price:.4f}" if abs(solution.prices[k]) > 1e-9 else "-"
        cells.append(
            [
                row.name,
                f"{row.share:.4f}",
                asked_text(solution.at_least[k], solution.at_most[k], solution.units.of(k)),
                "0" if abs(slack) <= FAIR_TOL else _signed(row.slack),
                price,
                "binding" if abs(slack) <= FAIR_TOL else "NOT MET" if slack < 0 else "",
            ]
        )
    lines = columns(cells)
    if K > _MAX_ROWS:
        lines.append(f"  ... and {K - _MAX_ROWS} quotas with more slack")
    return lines


def _policy_lines(problem: Problem, solution: Solution) -> list[str]:
    mdp, policy = problem.mdp, solution.policy
    random = int((np.add.reduceat(policy > 1e-9, mdp.pair_ptr[:-1]) > 1).sum())
    if mdp.n_states > _MAX_ROWS:
        rest = ", deterministic in the others" if random < mdp.n_states else ""
        return [f"  policy  random in {random} of {mdp.n_states} states{rest} (--strategy FILE writes it)"]
    cells = []
    for s in range(mdp.n_states):
        pairs = range(int(mdp.pair_ptr[s]), int(mdp.pair_ptr[s + 1]))
        used = [i for i in pairs if policy[i] > 1e-9]
        mix = [mdp.action_name(i) + (f" {_percent(policy[i])}" if len(used) > 1 else "") for i in used]
        cells.append(["policy" if s == 0 else "", f"{mdp.state_name(s)}: {', '.join(mix)}"])
    return columns(cells)


def _percent(probability: float) -> str:
    """A probability that is neither 0 nor 1, and does not look so."""
    if not 0.0005 <= probability < 0.9995:
        return "below 0.1%" if probability < 0.5 else "above 99.9%"
    return f"{100 * probability:.1f}%"


def asked_text(at_least: float, at_most: float, units: Units) -> str:
    """What bounds on a share ask for in the units of their quota, ``>= 0.25, <= 0.5``."""
    low, high = units.values(np.array([at_least, at_most]))
    least = [f">= {low:.4g}"] if at_least > 0 or at_most == 1 else []
    return ", ".join([*least, *([f"<= {high:.4g}"] if at_most < 1 else [])])


def columns(cells: Sequence[Sequence[str]]) -> list[str]:
    """Rows of text as aligned lines."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _signed(value: float) -> str:
    if not np.isfinite(value):
        return "-"
    return "0" if abs(value) <= FAIR_TOL else f"{value:+.4f}" if abs(value) >= 1e-4 else f"{value:+.1e}"
