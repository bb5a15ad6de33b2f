"""Several notions of a good policy, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmdp.certificate.readout import Readout, readout
from fairmdp.chains.policy import uniform_policy
from fairmdp.errors import ProblemError
from fairmdp.model.problem import Problem
from fairmdp.policy.policy import Policy
from fairmdp.solution.solution import Status
from fairmdp.solvers.auto import solve
from fairmdp.tables import Table
from fairmdp.welfare.maxmin import solve_max_min


@dataclass(frozen=True)
class Comparison:
    """How several policies treat the groups that the quotas name.

    Attributes
    ----------
    policies : dict of str to Readout
        The policies whose shares are proved: ``fair``, ``no quotas``, ``max-min``, ``uniform``, and those
        that were given by name.
    left_out : tuple of str
        The others, each with the reason.
    per : str or None
        What gains are per, where that is not a step.
    """

    policies: dict[str, Readout]
    left_out: tuple[str, ...]
    per: str | None = None

    def to_table(self) -> Table:
        """Return one row per policy: what it earns, its smallest slack, and the share of every quota."""
        names = next((seen.names for seen in self.policies.values()), ())
        return Table.of(
            ("policy", "gain", "worst_slack", *(f"share_{name}" for name in names)),
            (
                (label, seen.gain, float(seen.slacks.min(initial=np.inf)), *seen.shares.tolist())
                for label, seen in self.policies.items()
            ),
        )


def compare(problem: Problem, policies: Mapping[str, Any] | None = None) -> Comparison:
    """Compare the fair optimum, the optimum without quotas, max-min shares, the uniform policy and others.

    ``policies`` are others by name, such as the one in use: anything that `Policy.of` takes. Every number is
    proved by the certificate; a policy whose shares cannot be proved is left out.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> seen = compare(scenarios.three_state()).policies
    >>> {name: round(readout.gain, 4) for name, readout in seen.items()}
    {'fair': 0.4434, 'no quotas': 0.5263, 'max-min': 0.4, 'uniform': 0.25}
    """
    if problem.weighted.all():
        raise ProblemError("there are no groups to compare\n  add a quota without weights")
    found = {"fair": solve(problem), "no quotas": solve(problem.without_quotas())}
    if found["fair"].has_policy or not problem.weighted.any():  # else weights may stand in its way
        found["max-min"] = solve_max_min(problem)
    proved = (Status.OPTIMAL, Status.FEASIBLE)
    columns = {name: s.policy for name, s in found.items() if s.status in proved}
    columns["uniform"] = uniform_policy(problem.mdp)
    own = {name: Policy.of(problem, given) for name, given in (policies or {}).items()}
    for name in own:
        if name in columns:
            raise ProblemError(f"{name!r} is a policy of ours\n  give yours another name")
    seen, left_out = {}, []
    for name, policy in (columns | own).items():
        try:
            seen[name] = readout(problem, policy.array if isinstance(policy, Policy) else policy)
        except ProblemError as why:
            left_out.append(f"{name}, because {why}")
    return Comparison(seen, tuple(left_out), problem.mdp.per)
