"""From a policy and dual witnesses to a `Solution`: the same last step for every exact solver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fairmdp.certificate import proved_status, rounded
from fairmdp.certificate.law import Law
from fairmdp.chain import NEARLY_REDUCIBLE, Chain
from fairmdp.errors import ProblemError
from fairmdp.problem import Problem
from fairmdp.solution import Infeasibility, Solution, Status
from fairmdp.validation import Floats

_DEVIATION_STATES = 400  # states up to which the sensitivity of the chain is looked at


class Evaluated(NamedTuple):
    """A policy's chain and what is proved of its law, which do not depend on what is owed."""

    chain: Chain
    law: Law


def evaluate(problem: Problem, policy: Floats) -> Evaluated:
    """Evaluate a policy's own chain."""
    chain = Chain.of(problem.mdp, policy)
    return Evaluated(chain, rounded.law(problem, policy, chain))


def conclude(
    problem: Problem,
    policy: Floats,
    bias: Floats,
    prices: Floats,
    *,
    tol: float,
    method: str,
    counters: Mapping[str, float],
    notes: tuple[str, ...] = (),
    evaluated: Evaluated | None = None,
) -> Solution:
    """Evaluate a policy's own chain and claim what the certificate proves of it, nothing more.

    Gain and shares are those of the policy, never of a solver's ``x``. `evaluated` is it, if at hand.
    """
    mdp = problem.mdp
    chain, law = evaluate(problem, policy) if evaluated is None else evaluated
    upper = rounded.ceiling(problem, mdp.r, bias, prices)
    status = proved_status(problem, law, upper, tol)
    if law.reason:
        notes = (*notes, law.reason)
    initial = np.full(mdp.n_states, 1 / mdp.n_states) if mdp.initial is None else mdp.initial
    visitation = chain.shares if len(chain.closed_classes) == 1 else chain.shares_from(initial)
    if status is not Status.UNDECIDED and mdp.n_states <= _DEVIATION_STATES:
        norm = chain.deviation_norm
        if norm > NEARLY_REDUCIBLE:
            notes = (
                *notes,
                f"the policy's chain is nearly reducible (deviation {norm:.1e}): small errors in the model "
                "move its long-run shares a lot, and they take long to show",
            )
    occupancy = policy * visitation[mdp.s_of]
    return _solution(
        problem,
        status=status,
        gain=float(mdp.r @ occupancy),
        upper=upper,
        policy=policy,
        occupancy=occupancy,
        visitation=visitation,
        shares=np.minimum(problem.members @ occupancy, 1.0),  # rounding may leave more than all of the time
        bias=bias,
        prices=prices,
        tol=tol,
        method=method,
        counters=counters,
        notes=notes,
    )


def conclude_infeasible(
    problem: Problem,
    bias: Floats,
    prices: Floats,
    infeasibility: Infeasibility | None,
    *,
    tol: float,
    method: str,
    counters: Mapping[str, float],
    notes: tuple[str, ...] = (),
) -> Solution:
    """Claim that no policy meets the quotas, with its proof and, if it was looked for, the reason."""
    nan = float("nan")
    S, SA, K = problem.mdp.n_states, problem.mdp.n_pairs, problem.n_quotas
    return _solution(
        problem,
        status=Status.INFEASIBLE,
        gain=nan,
        upper=nan,
        policy=np.full(SA, nan),
        occupancy=np.full(SA, nan),
        visitation=np.full(S, nan),
        shares=np.full(K, nan),
        bias=bias,
        prices=prices,
        tol=tol,
        method=method,
        counters=counters,
        notes=notes,
        infeasibility=infeasibility,
    )


def check_tol(tol: float) -> float:
    """Return tol if it is a sensible accuracy."""
    if not 0 < tol < 1:
        raise ProblemError(f"tol is {tol}, expected a relative gap between 0 and 1, such as 1e-6")
    return float(tol)


def _solution(problem: Problem, **fields: Any) -> Solution:
    from fairmdp import __version__

    provenance = {"problem": problem.digest, "version": __version__}
    return Solution(
        **fields,
        quota_names=problem.names,
        at_least=problem.at_least,
        at_most=problem.at_most,
        provenance=provenance,
        units=problem.units,
    )
