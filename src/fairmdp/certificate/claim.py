"""From a policy and dual witnesses to a `Solution`: the same last step for every solver."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Required, TypedDict, Unpack

import numpy as np

from fairmdp.backends.base import Backend
from fairmdp.certificate import device as facts
from fairmdp.certificate import rounded
from fairmdp.certificate.ends import shown_prices
from fairmdp.certificate.facts import LongRun, proved_status
from fairmdp.chains.chain import NEARLY_REDUCIBLE, Chain
from fairmdp.deadline import Stop
from fairmdp.model.checks import Floats
from fairmdp.model.labels import Labels
from fairmdp.model.problem import Problem
from fairmdp.solution.ends import Ends
from fairmdp.solution.solution import Check, Infeasibility, Note, Remark, Solution, Status
from fairmdp.version import __version__

_DEVIATION_STATES = 400  # states up to which the sensitivity of the chain is looked at


class Evaluated(NamedTuple):
    """A policy's chain and what is proved of it, which do not depend on what is owed."""

    chain: Chain
    run: LongRun


def evaluate(problem: Problem, policy: Floats, nu: Floats | None = None) -> Evaluated:
    """Evaluate a policy's own chain, from a guess of its stationary distribution if there is one."""
    chain = Chain.of(problem.mdp, policy, nu)
    return Evaluated(chain, rounded.long_run(problem, policy, chain))


class Account(TypedDict, total=False):
    """What a solver says of its search: fields of a `Solution`."""

    tol: Required[float]
    method: Required[str]
    counters: Mapping[str, float]
    notes: tuple[Note, ...]
    stopped: Stop
    device: str


def certify(
    backend: Backend,
    policy: Any,
    bias: Any,
    prices: Floats,
    *,
    began: float,
    nu: Any = None,
    evaluated: Evaluated | None = None,
    **account: Unpack[Account],
) -> Solution:
    """Certify a policy where the arrays are, and on the CPU wherever the problem is there.

    ``nu`` is a guess of its stationary distribution, ``began`` the time at which the search did.
    """
    counters, there = dict(account.get("counters", {})), None
    if backend.residuals is not None:
        solution = _certify_there(backend, policy, bias, prices, nu, **account)
        counters["seconds"] = time.perf_counter() - began
        if backend.host is None:
            return replace(solution, counters=counters)
        there = solution.status
        del solution  # its occupancy is of no more use, and the CPU makes its own
        policy, bias, nu = backend.get(policy), backend.get(bias), None if nu is None else backend.get(nu)
    assert backend.host is not None
    evaluated = evaluated or evaluate(backend.host, policy, nu)
    checked = certify_policy(backend.host, policy, bias, prices, evaluated=evaluated, **account)
    counters["seconds" if there is None else "seconds_with_check"] = time.perf_counter() - began
    if there is None:
        return replace(checked, counters=counters)
    agree = there in (checked.status, Status.INFEASIBLE)
    notes = checked.notes if agree else (*checked.notes, Note(Remark.CERTIFICATES_DIFFER))
    return replace(checked, counters=counters, check=Check.BOTH, device=backend.device, notes=notes)


def certify_policy(
    problem: Problem,
    policy: Floats,
    bias: Floats,
    prices: Floats,
    *,
    evaluated: Evaluated | None = None,
    **account: Unpack[Account],
) -> Solution:
    """Evaluate a policy's own chain and claim what the certificate proves of it, nothing more.

    Gain and shares are those of the policy, never of a solver's ``x``. `evaluated` is it, if at hand.
    """
    mdp = problem.mdp
    chain, run = evaluate(problem, policy) if evaluated is None else evaluated
    upper = rounded.ceiling(problem, mdp.r, bias, prices)
    status = proved_status(problem, run, upper, account["tol"])
    notes = [*account.get("notes", ()), *([] if run.flaw is None else [run.flaw])]
    initial = np.full(mdp.n_states, 1 / mdp.n_states) if mdp.initial is None else mdp.initial
    visitation = chain.shares if len(chain.closed_classes) == 1 else chain.shares_from(initial)
    if status is not Status.UNDECIDED and mdp.n_states <= _DEVIATION_STATES:
        norm = chain.deviation_norm
        if norm > NEARLY_REDUCIBLE:
            notes.append(Note(Remark.NEARLY_REDUCIBLE, norm))
    occupancy = mdp.per_step(policy) * visitation[mdp.s_of]
    return solution_of(
        problem,
        bias,
        prices,
        {**account, "notes": tuple(notes)},
        status=status,
        gain=min(max(float(mdp.rates @ occupancy), run.gain[0]), run.gain[1]),
        upper=upper,
        policy=policy,
        occupancy=occupancy,
        visitation=visitation,
        shares=np.clip(problem.members @ occupancy, *run.shares.T),  # what rounding has left, if need be
    )


def certify_infeasible(
    problem: Problem,
    bias: Floats,
    prices: Floats,
    infeasibility: Infeasibility | None,
    ends: Ends | None = None,
    **account: Unpack[Account],
) -> Solution:
    """Claim that no policy meets the quotas, with its proof and, if it was looked for, the reason.

    With `ends` the proof is of runs from the start, and its prices are the sum of those of each label.
    """
    S, SA, K = problem.mdp.n_states, problem.mdp.n_pairs, problem.n_quotas
    sizes = {"policy": SA, "occupancy": SA, "visitation": S, "shares": K}
    nothing = {name: np.full(size, math.nan) for name, size in sizes.items()}
    if ends is not None:
        ends = replace(ends, weights=None, policies=None, classes=(), n_classes=0)
        prices = shown_prices(problem, prices, ends)
    return solution_of(
        problem, bias, prices, account, status=Status.INFEASIBLE, gain=math.nan, upper=math.nan, **nothing,
        infeasibility=infeasibility, ends=ends,
    )  # fmt: skip


def solution_of(
    problem: Problem, bias: Floats, prices: Floats, account: Mapping[str, Any], **fields: Any
) -> Solution:
    """Fields of a claim as a solution of a problem."""
    return Solution(
        **fields,
        **account,
        bias=bias,
        prices=prices,
        quota_names=problem.names,
        at_least=problem.at_least,
        at_most=problem.at_most,
        provenance={"problem": problem.digest, "version": __version__},
        units=problem.units,
        conditions=problem.conditional_shares(fields["occupancy"]),
        labels=Labels.of(problem.mdp),
    )


def _certify_there(
    backend: Backend,
    policy: Any,
    bias: Any,
    prices: Floats,
    nu: Any,
    **account: Unpack[Account],
) -> Solution:
    """Claim what is proved where the arrays are: of a policy, or that there is none."""
    upper = facts.ceiling(backend, bias, prices)
    if backend.each_state:
        run, nu = facts.each_state_long_run(backend, policy, nu)
        shares = backend.get(nu)
    else:
        run = facts.long_run(backend, policy)
        nu, _ = backend.stationary(policy, nu)
        shares, _, _ = backend.totals(policy, nu, nu)
    status = proved_status(backend.stated, run, upper, account["tol"])
    occupancy = backend.occupancy(policy, nu)
    found = {
        "gain": facts.residuals_of(backend).earned(occupancy)[0],
        "upper": upper,
        "policy": policy,
        "occupancy": occupancy,
        "visitation": nu,
        "shares": np.minimum(shares, 1.0),
    }
    if status is Status.UNDECIDED and facts.ceiling(backend, bias, prices, pay=0.0) < 0:
        status, found = Status.INFEASIBLE, {name: math.nan * value for name, value in found.items()}
    notes = (*account.get("notes", ()), *([] if run.flaw is None else [run.flaw]))
    of_search: Any = {**account, "notes": notes, "check": Check.CUDA, "device": backend.device}
    return Solution(
        status=status,
        **found,
        **of_search,
        bias=bias,
        prices=prices,
        quota_names=tuple(backend.names),
        at_least=backend.at_least,
        at_most=backend.at_most,
        provenance={"version": __version__},
    )
