"""Several notions of a good policy, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmdp.certificate.readout import Readout, readout
from fairmdp.chains.policy import uniform_policy
from fairmdp.errors import ProblemError
from fairmdp.model.objectives import Objective, objective_text, parse_objective
from fairmdp.model.problem import Problem
from fairmdp.policy.policy import Policy
from fairmdp.solution.solution import Solution, Status
from fairmdp.solvers.auto import solve
from fairmdp.tables import Table
from fairmdp.welfare.maxmin import solve_max_min
from fairmdp.welfare.solve import solve_welfare

_PROVED = (Status.OPTIMAL, Status.FEASIBLE)
FREE = "no quotas"
"""The policy that all others are measured against."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """How several policies treat the groups that the quotas name.

    Attributes
    ----------
    policies : dict of str to Readout
        The policies whose shares are proved: ``fair``, ``no quotas``, ``max-min``, ``uniform``, principles of
        fairness, and those that were given by name.
    left_out : tuple of str
        The others, each with the reason.
    per : str or None
        What gains are per, where that is not a step.
    """

    policies: dict[str, Readout]
    left_out: tuple[str, ...]
    per: str | None = None

    def __repr__(self) -> str:
        seen = (
            f"{name}: gain={read.gain:.6g}, worst_slack={read.slacks.min(initial=np.inf):.3g}"
            for name, read in self.policies.items()
        )
        return f"Comparison({'; '.join(seen)})"

    def pays(self, name: str) -> dict[str, float]:
        """What each group has less under a policy than without quotas; nothing where that is not known."""
        free = self.policies.get(FREE)
        if free is None:
            return {}
        own = self.policies[name].by_group
        return {group: share - own[group] for group, share in free.by_group.items() if share > own[group]}

    def to_table(self) -> Table:
        """Return a row per policy: gain, smallest slack, how even it is, and the share of every quota."""
        names = next((seen.names for seen in self.policies.values()), ())
        return Table.of(
            ("policy", "gain", "worst_slack", "jain", "gini", *(f"share_{name}" for name in names)),
            (
                (
                    label,
                    seen.gain,
                    float(seen.slacks.min(initial=np.inf)),
                    seen.jain,
                    seen.gini,
                    *seen.shares.tolist(),
                )
                for label, seen in self.policies.items()
            ),
        )


def compare(
    problem: Problem,
    policies: Mapping[str, Any] | None = None,
    *,
    principles: Iterable[str | Objective] = (),
    over: Iterable[str] | None = None,
) -> Comparison:
    """Compare the fair optimum, the optimum without quotas, max-min shares, the uniform policy and others.

    Every number is proved by the certificate; a policy whose shares cannot be proved is left out.

    Parameters
    ----------
    problem
        Its quotas name the groups.
    policies
        Others by name, such as the one in use: anything that `Policy.of` takes.
    principles
        Principles of fairness, such as ``"nash"`` or ``alpha_fair(2)``, each with the policy that
        `solve_welfare` finds for it; what quotas on sets ask for is set aside, as it is for max-min.
    over
        The groups by name, which may have weights; without it all quotas that are sets.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> seen = compare(scenarios.three_state(), principles=["nash"]).policies
    >>> {name: round(readout.gain, 4) for name, readout in seen.items()}
    {'fair': 0.4434, 'no quotas': 0.5263, 'max-min': 0.4, 'uniform': 0.25, 'nash': 0.4}
    """
    over = None if over is None else tuple(over)
    if problem.weighted.all() and over is None:
        raise ProblemError("there are no groups to compare\n  add a quota without weights, or name them")
    columns, left_out = _ours(problem), []
    for principle in principles:
        objective = parse_objective(principle) if isinstance(principle, str) else principle
        label = objective_text(objective)
        if label in columns:
            continue
        found = solve_welfare(problem.with_sets_unbounded(), objective, over=over)
        if found.status in _PROVED:
            columns[label] = Policy.of(problem, found)
        else:
            left_out.append(f"{label}, because its best policy is not known: it is {found.status.value}")
    own = {name: Policy.of(problem, given) for name, given in (policies or {}).items()}
    for name in own:
        if name in columns:
            raise ProblemError(f"{name!r} is a policy of ours\n  give yours another name")
    seen = {}
    for name, policy in (columns | own).items():
        try:
            seen[name] = _read(problem, policy, over)
        except ProblemError as why:
            left_out.append(f"{name}, because {why}")
    return Comparison(seen, tuple(left_out), problem.mdp.per)


def _ours(problem: Problem) -> dict[str, Policy]:
    """Policies that every comparison has."""
    found: dict[str, Solution] = {"fair": solve(problem), FREE: solve(problem.without_quotas())}
    weighted = problem.weighted
    in_reach = found["fair"].has_policy or not weighted.any()  # else weights may stand in its way
    if in_reach and not weighted.all():
        found["max-min"] = solve_max_min(problem)
    columns = {name: Policy.of(problem, s) for name, s in found.items() if s.status in _PROVED}
    columns["uniform"] = Policy.of(problem, uniform_policy(problem.mdp))
    return columns


def _read(problem: Problem, policy: Policy, over: Iterable[str] | None) -> Readout:
    """How a policy treats the groups; of a mixture, in the mean over what is drawn."""
    if policy.is_mixture:
        return readout(problem, policy.parts, over, weights=policy.weights)
    return readout(problem, policy.array, over)
