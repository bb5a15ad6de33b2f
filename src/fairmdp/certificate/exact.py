"""The two facts of the certificate in rational arithmetic: nothing is rounded until the last digit.

Witnesses (relative values, prices, hitting times, stationary distribution) are floats taken at face value;
the inequalities that make them proofs are evaluated exactly.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np

from fairmdp.certificate.drift import find_drift, narrowed, wide
from fairmdp.certificate.elementary import down as _down
from fairmdp.certificate.elementary import up as _up
from fairmdp.certificate.facts import UNPROVED, LongRun, Witness, chargeable, find_witness, unknown
from fairmdp.chains.chain import Chain
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem

MAX_TRANSITIONS = 200_000

QUICK_TRANSITIONS = 400
"""Transitions up to which nobody waits for rational arithmetic; pages and reports use it up to there."""

Row = list[tuple[int, Fraction]]


def ceiling(problem: Problem, r: Floats, bias: Floats, prices: Floats) -> float:
    """Exact upper bound on the reward ``r`` per unit of time while the quotas are met, rounded up once."""
    mdp = problem.mdp
    h = [Fraction(value) / Fraction(mdp.step) for value in bias.tolist()]
    mu = [Fraction(price) for price in chargeable(problem, prices).tolist()]
    raised = _per_time(mdp, r)
    for k in range(problem.n_quotas):
        for i, weight in _weights(problem, k):
            raised[i] += weight * mu[k]
    top = max(
        raised[i] + sum(p * h[t] for t, p in row) - h[s]
        for i, (s, row) in enumerate(zip(mdp.s_of.tolist(), _rows(mdp), strict=True))
    )
    lower, upper = problem.lower.tolist(), problem.upper.tolist()
    dual_value = sum(
        price * _share(problem, k, lower[k] if price > 0 else upper[k]) for k, price in enumerate(mu) if price
    )
    return _up(top - dual_value)


def long_run(problem: Problem, policy: Floats, chain: Chain | None = None) -> LongRun:
    """Intervals for the shares and the gain of a policy, from exactly evaluated inequalities."""
    mdp = problem.mdp
    witness = find_witness(Chain.of(mdp, policy) if chain is None else chain)
    if not isinstance(witness, Witness):
        return unknown(problem, witness)
    s0 = witness.s0
    pi = _policy(mdp, policy)
    Q = _chain(mdp, pi)
    v = [Fraction(share) for share in witness.chain.shares.tolist()]
    total = sum(v)
    v = [share / total for share in v]
    w = [Fraction(step) for step in witness.steps.tolist()]
    margin = min((w[s] - sum(q * w[t] for t, q in Q[s]) for s in range(mdp.n_states) if s != s0), default=1)
    if margin <= 0:
        return unknown(problem, UNPROVED)
    pushed = [Fraction(0)] * mdp.n_states
    for s, row in enumerate(Q):
        for t, q in row:
            pushed[t] += v[s] * q
    error = sum(abs(v[t] - pushed[t]) * w[t] for t in range(mdp.n_states)) / margin
    x = [v[s] * pi[i] for i, s in enumerate(mdp.s_of.tolist())]
    rewards = _per_time(mdp, mdp.r)
    gain = sum(value * share for value, share in zip(rewards, x, strict=True))
    radius = error * (max(rewards) - min(rewards))
    intervals = []
    for k in range(problem.n_quotas):
        counted = _weights(problem, k)
        share = sum(weight * x[i] for i, weight in counted)
        around = error * max(weight for _, weight in counted)
        intervals.append([max(_down(share - around), 0.0), min(_up(share + around), 1.0)])
    bounds = np.array(intervals).reshape(-1, 2)
    nu = np.array([float(share) for share in v])
    run = LongRun((_down(gain - radius), _up(gain + radius)), bounds, _up(error), visitation=nu)
    return narrowed(run, *_means(problem, policy, pi, witness.chain)) if wide(run, witness.chain) else run


def _means(
    problem: Problem, policy: Floats, pi: list[Fraction], chain: Chain
) -> tuple[tuple[float, float], Floats]:
    """Intervals of the gain and of each share, by relative values."""
    mdp, drift, ends = problem.mdp, find_drift(problem, policy, chain), []
    rows, states = _rows(mdp), mdp.s_of.tolist()
    for k in range(-1, problem.n_quotas):
        f = _per_time(mdp, mdp.r) if k < 0 else [Fraction(0)] * mdp.n_pairs
        for i, weight in _weights(problem, k) if k >= 0 else []:
            f[i] = weight
        parts = zip(drift.high[:, k + 1].tolist(), drift.low[:, k + 1].tolist(), strict=True)
        h = [Fraction(high) + Fraction(low) for high, low in parts]
        means = [Fraction(0)] * mdp.n_states
        for i, (s, row) in enumerate(zip(states, rows, strict=True)):
            if pi[i]:
                means[s] += pi[i] * (f[i] + sum(p * (h[t] - h[s]) for t, p in row))
        ends.append((_down(min(means)), _up(max(means))))
    return ends[0], np.array(ends[1:]).reshape(-1, 2)


def require_small(problem: Problem) -> None:
    """Raise where rational arithmetic would take too long."""
    if problem.mdp.P.nnz > MAX_TRANSITIONS:
        raise ProblemError(
            f"exact verification takes up to {MAX_TRANSITIONS} transitions, not {problem.mdp.P.nnz}\n"
            "  verify without exact=True: its intervals are rigorous too"
        )


def _rows(mdp: MDP) -> list[Row]:
    """Rows of P, divided by their exact sums; of steps that take time, those of the model of equal steps."""
    rows = _stated_rows(mdp)
    if mdp.durations is None:
        return rows
    eta = Fraction(mdp.step)
    slowed = []
    for s, tau, row in zip(mdp.s_of.tolist(), mdp.durations.tolist(), rows, strict=True):
        part = eta / Fraction(tau)
        moves = {t: part * p for t, p in row}
        moves[s] = moves.get(s, Fraction(0)) + 1 - part
        slowed.append(list(moves.items()))
    return slowed


def _per_time(mdp: MDP, r: Floats) -> list[Fraction]:
    """What each pair pays per unit of time."""
    pay = [Fraction(value) for value in r.tolist()]
    if mdp.durations is None:
        return pay
    return [value / Fraction(tau) for value, tau in zip(pay, mdp.durations.tolist(), strict=True)]


def _stated_rows(mdp: MDP) -> list[Row]:
    """Rows of P, divided by their exact sums."""
    ptr, to, p = mdp.P.indptr.tolist(), mdp.P.indices.tolist(), mdp.P.data.tolist()
    rows = []
    for start, stop in pairwise(ptr):
        row = [Fraction(value) for value in p[start:stop]]
        total = sum(row)
        rows.append([(t, value / total) for t, value in zip(to[start:stop], row, strict=True)])
    return rows


def _policy(mdp: MDP, policy: Floats) -> list[Fraction]:
    """Action probabilities, weighed with the time that they take and divided by their exact sums."""
    pi = [Fraction(value) for value in policy.tolist()]
    if mdp.durations is not None:
        pi = [p * Fraction(tau) for p, tau in zip(pi, mdp.durations.tolist(), strict=True)]
    ptr = mdp.pair_ptr.tolist()
    for start, stop in pairwise(ptr):
        total = sum(pi[start:stop])
        pi[start:stop] = [value / total for value in pi[start:stop]]
    return pi


def _chain(mdp: MDP, pi: list[Fraction]) -> list[Row]:
    """Rows of the chain of a policy."""
    chain: list[dict[int, Fraction]] = [{} for _ in range(mdp.n_states)]
    for i, (s, row) in enumerate(zip(mdp.s_of.tolist(), _rows(mdp), strict=True)):
        if pi[i]:
            for t, p in row:
                chain[s][t] = chain[s].get(t, Fraction(0)) + pi[i] * p
    return [list(row.items()) for row in chain]


def _weights(problem: Problem, k: int) -> Row:
    """Pairs that count for a quota, and by how much: as stated, scaled to [0, 1] without rounding."""
    members = problem.members
    pairs = members.indices[members.indptr[k] : members.indptr[k + 1]]
    if not problem.weighted[k]:
        return [(i, Fraction(1)) for i in pairs.tolist()]
    stated = problem.weights[[k]].toarray()[0, pairs]
    return [(i, _share(problem, k, a)) for i, a in zip(pairs.tolist(), stated.tolist(), strict=True)]


def _share(problem: Problem, k: int, value: float) -> Fraction:
    """A number of the user's as a share."""
    if not problem.weighted[k]:
        return Fraction(value)
    return (Fraction(value) - Fraction(problem.units.offset[k])) / Fraction(problem.units.scale[k])
