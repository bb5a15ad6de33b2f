"""From policies and dual witnesses to a `Solution` about runs from the start."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Unpack

import numpy as np

from fairmdp.certificate import rounded_ends
from fairmdp.certificate.claim import Account, solution_of
from fairmdp.certificate.ends import shown_prices
from fairmdp.certificate.facts import proved_status
from fairmdp.certificate.law import IN_THE_MEAN, Law, candidates
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.conditional import ConditionalShare
from fairmdp.model.problem import Problem
from fairmdp.solution.ends import MOST_SHOWN, End, Ends
from fairmdp.solution.solution import Solution


def certify_ends(
    problem: Problem,
    policies: Floats,
    weights: Floats | None,
    bias: Floats,
    prices: Floats,
    ends: Ends,
    *,
    guess: Floats | None = None,
    **account: Unpack[Account],
) -> Solution:
    """Claim what the certificate proves of runs from the start under a policy, or one that is drawn.

    Parameters
    ----------
    problem
        The model and the quotas.
    policies
        Probability of each pair given its state, (SA,) or (M, SA).
    weights
        With which probability each policy is drawn, (M,); None of one policy.
    bias, prices, ends
        Witnesses of the ceiling. Prices of quotas that every run must meet are made from those of the
        labels, and what `ends` says of policies and classes is made afresh.
    guess
        Something near the shares of the states, (S,), from which large classes start.
    account
        What the solver says of its search.
    """
    mdp, policies = problem.mdp, np.atleast_2d(policies)
    several = len(policies) > 1
    run = rounded_ends.law(problem, policies, weights if several else None, guess)
    upper = rounded_ends.ceiling(problem, mdp.r, bias, prices, ends)
    notes = (*account.get("notes", ()), *([] if run.flaw is None else [run.flaw]))
    shares, conditions = shares_of(problem, run), conditions_of(problem, run)
    assert run.visitation is not None
    claimed = solution_of(
        problem,
        bias,
        prices_of(problem, prices, ends, run),
        {**account, "notes": notes},
        status=proved_status(problem, run, upper, account["tol"]),
        gain=float(mdp.rates @ run.occupancy),
        upper=upper,
        policy=np.full(mdp.n_pairs, math.nan) if several else policies[0],
        occupancy=run.occupancy,
        visitation=run.visitation,
        shares=np.minimum(shares, 1.0),
        ends=replace(
            ends,
            weights=weights if several else None,
            policies=policies if several else None,
            classes=classes_of(problem, run),
            n_classes=run.chances.size,
        ),
    )
    return replace(claimed, conditions=conditions)


def shares_of(problem: Problem, run: Law) -> Floats:
    """Share of each quota in the class that counts, or in the mean, (K,)."""
    shares, counts = problem.members @ run.occupancy, _counting(problem, run)
    for k in np.flatnonzero(counts != IN_THE_MEAN).tolist():
        shares[k] = (problem.members[[k]] @ run.spent[:, [counts[k]]]).toarray()[0, 0]
    return np.asarray(shares)


def conditions_of(problem: Problem, run: Law) -> tuple[ConditionalShare, ...]:
    """How much time each condition has in the class that counts for its quota, or in the mean."""
    counts = _counting(problem, run)
    return tuple(
        ConditionalShare(c.quota, c.bound, c.least, c.mass(_spent(run, int(counts[c.quota]))))
        for c in problem.conditions
    )


def _counting(problem: Problem, run: Law) -> Ints:
    """The class that counts for each quota, (K,): one with the least slack, and with its condition."""
    counts = run.worst.copy()
    for condition in problem.conditions:
        classes = candidates(problem, run, condition.quota)
        masses = [condition.mass(_spent(run, c)) for c in classes]
        counts[condition.quota] = classes[int(np.argmax(masses))]
    return counts


def _spent(run: Law, c: int) -> Floats:
    """Shares of the pairs in a class, or in the mean, (SA,)."""
    return run.occupancy if c == IN_THE_MEAN else run.spent[:, [c]].toarray()[:, 0]


def prices_of(problem: Problem, prices: Floats, ends: Ends, run: Law) -> Floats:
    """Prices of the mean, and of every run: those of the labels, weighed with the chance of ending there."""
    chances = np.zeros(ends.component_prices.shape[1])
    for states, chance in zip(run.states, run.chances.tolist(), strict=True):
        if ends.components[states[0]] >= 0:  # or the labels are wrong, and prove nothing
            chances[ends.components[states[0]]] += chance
    return shown_prices(problem, prices, ends, chances)


def classes_of(problem: Problem, run: Law) -> tuple[End, ...]:
    """The most probable closed classes."""
    shown = np.argsort(-run.chances, kind="stable")[:MOST_SHOWN]
    spent = run.spent[:, shown]
    gains, shares = spent.T @ problem.mdp.rates, (problem.members @ spent).toarray()
    return tuple(
        End(int(run.policy_of[c]), run.states[c], float(run.chances[c]), float(gains[i]), shares[:, i])
        for i, c in enumerate(shown.tolist())
    )
