"""The two facts of the certificate in floating point, with every rounding error added outward.

Bounds use ``eps = 2**-52``, twice the unit roundoff, so a sum of m terms is off by at most
``m * eps * sum |terms|`` with room to spare for the error terms' own roundings. Weights and
bounds of weighted quotas were rounded twice when they were scaled to shares, by ``eps`` of each at most.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array

from fairmdp.certificate.law import NEARLY_REDUCIBLE, Law, find_witness, no_law
from fairmdp.chain import Chain
from fairmdp.problem import Problem
from fairmdp.validation import Floats, Ints

EPS = float(np.finfo(float).eps)
_WIDE_EPS = float(np.finfo(np.longdouble).eps)


@np.errstate(over="ignore", invalid="ignore")  # witnesses may be anything; what overflows proves nothing
def ceiling(problem: Problem, r: Floats, bias: Floats, prices: Floats) -> float:
    """Proven upper bound on ``r @ x`` over the occupancies that meet the quotas."""
    mdp = problem.mdp
    h = bias - (bias.max() + bias.min()) / 2
    size_h = float(np.abs(h).max())
    raised = problem.members.T @ prices  # (SA,)
    size_raised = problem.members.T @ np.abs(prices)
    values = r + raised + mdp.P @ h - h[mdp.s_of]
    terms = np.diff(mdp.P.indptr) + np.bincount(problem.members.indices, minlength=mdp.n_pairs) + 6
    error = terms * EPS * (np.abs(r) + size_raised + 2 * size_h) + 2 * size_h * _row_defect(mdp.P)
    top = float((values + error).max())
    owed = np.where(prices > 0, problem.at_least, problem.at_most) * prices
    paid = math.fsum(owed) - 4 * EPS * math.fsum(np.abs(owed))
    bound = top - paid
    return bound + 2 * EPS * (abs(top) + abs(paid)) if math.isfinite(bound) else math.inf


def law(problem: Problem, policy: Floats, chain: Chain | None = None) -> Law:
    """Proven intervals for the shares and the gain of a policy; `chain` is its chain, if it is at hand."""
    mdp = problem.mdp
    witness = find_witness(Chain.of(mdp, policy) if chain is None else chain)
    if isinstance(witness, str):
        return no_law(problem, witness)
    Q, v, s0 = witness.chain.P, witness.chain.shares, witness.s0
    defect = _row_defect(_policy_rows(mdp.pair_ptr, policy))  # (S,)
    defect = defect + np.maximum.reduceat(_row_defect(mdp.P), mdp.pair_ptr[:-1])
    relative = (mdp.n_actions + 4) * EPS + 2 * defect  # error of an entry of Q against the exact chain
    w = _proven_hitting_times(Q, witness.steps, s0, relative)
    if w is None:
        return no_law(problem, NEARLY_REDUCIBLE)
    pushed = Q.T @ v
    column = np.bincount(Q.indices, minlength=Q.shape[0]) + 2
    residual = np.abs(v - pushed) + column * EPS * (pushed + v) + 2 * (Q.T @ (relative * v))
    residual[s0] = 0.0
    loss = abs(1 - math.fsum(v)) + EPS
    spread = math.fsum(residual * w) * (1 + 8 * EPS)
    error = spread + loss
    x = policy / np.add.reduceat(policy, mdp.pair_ptr[:-1])[mdp.s_of] * v[mdp.s_of]  # (SA,)
    relative_x = (int(mdp.n_actions.max()) + 8) * EPS
    gain, gain_error = _sums(mdp.r * x, np.array([0, mdp.n_pairs]))
    size = float(np.abs(mdp.r).max())
    span = float(mdp.r.max() - mdp.r.min())
    radius = float(gain_error[0]) + relative_x * math.fsum(np.abs(mdp.r * x)) + span * spread + size * loss
    shares, share_error = _sums(problem.members.data * x[problem.members.indices], problem.members.indptr)
    around = share_error + (relative_x + 4 * EPS) * shares + error
    interval = np.column_stack([np.maximum(shares - around, 0), np.minimum(shares + around, 1)])
    return Law((float(gain[0]) - radius, float(gain[0]) + radius), interval, error)


def _proven_hitting_times(Q: csr_array, w: Floats, s0: int, relative: Floats) -> Floats | None:
    """Scale w so that ``w_s >= 1 + sum_{t != s0} Q_st w_t`` holds beyond rounding, or None if it cannot."""
    if w.size == 1:
        return w
    ahead = Q @ w
    margin = w - ahead - ((np.diff(Q.indptr) + 2) * EPS + 2 * relative) * ahead - 2 * EPS * w
    margin[s0] = np.inf
    least = float(margin.min())
    return w / least * (1 + 4 * EPS) if least > 0 else None


def _policy_rows(pair_ptr: Ints, policy: Floats) -> csr_array:
    return csr_array((policy, np.arange(policy.size), pair_ptr), shape=(pair_ptr.size - 1, policy.size))


def _row_defect(P: csr_array) -> Floats:
    """Bound on ``|1 - sum|`` of each row of nonnegative numbers, (rows,)."""
    sums = P @ np.ones(P.shape[1])
    return np.abs(sums - 1) + np.diff(P.indptr) * EPS * sums


def _sums(values: Floats, indptr: Ints) -> tuple[Floats, Floats]:
    """Sums of nonempty runs of values, and bounds on their errors."""
    wide = values.astype(np.longdouble)
    sums = np.add.reduceat(wide, indptr[:-1]) if indptr.size > 1 else np.empty(0)
    sizes = np.add.reduceat(np.abs(wide), indptr[:-1]) if indptr.size > 1 else np.empty(0)
    return sums.astype(float), (EPS * np.abs(sums) + 2 * np.diff(indptr) * _WIDE_EPS * sizes).astype(float)
