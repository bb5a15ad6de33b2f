"""The two facts of the certificate in floating point, with every rounding error added outward.

Bounds use ``eps = 2**-52``, twice the unit roundoff, so a sum of m terms is off by at most
``m * eps * sum |terms|`` with room to spare for the error terms' own roundings. Weights and
bounds of weighted quotas were rounded twice when they were scaled to shares, by ``eps`` of each at most.

Relative errors say nothing of products that underflow. Each loses at most ``2**-1075``, so every bound has an
absolute term too: `TINY` is more than any sum of them loses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from fairmdp.certificate.drift import MANY, find_drift, mean_intervals, narrowed, wide
from fairmdp.certificate.facts import (
    UNPROVED,
    LongRun,
    Stated,
    Witness,
    chargeable,
    find_witness,
    unknown,
)
from fairmdp.chains.chain import Chain
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.rows import Rows

EPS = float(np.finfo(float).eps)
TINY = 2.0**-1000
_MANY_TERMS = 1 << 20  # terms of a sum, at most
_SWEEPS = 2000
_ROUGH = 1e-3  # what is left of a witness's right-hand side, relative to it, once it is good enough
_WIDE_EPS = float(np.finfo(np.longdouble).eps)


@np.errstate(over="ignore", invalid="ignore")  # witnesses may be anything; what overflows proves nothing
def ceiling(problem: Problem, r: Floats, bias: Floats, prices: Floats) -> float:
    """Proven upper bound on the reward ``r`` per unit of time while the quotas are met."""
    mdp, stated = problem.mdp.uniform, problem.mdp
    prices, bias = chargeable(problem, prices), bias / stated.step
    r = r if stated.durations is None else r / stated.durations
    h = bias - (bias.max() + bias.min()) / 2
    size_h = float(np.abs(h).max())
    raised = problem.members.T @ prices  # (SA,)
    size_raised = problem.members.T @ np.abs(prices)
    values = r + raised + mdp.P @ h - h[mdp.s_of]
    terms = np.diff(mdp.P.indptr) + np.bincount(problem.members.indices, minlength=mdp.n_pairs) + 6
    error = terms * EPS * (np.abs(r) + size_raised + 2 * size_h) + 2 * size_h * _model_defect(stated)
    return less_dual_value(problem, float((values + error).max()), prices)


def less_dual_value(problem: Stated, top: float, prices: Floats) -> float:
    """Ceiling that follows from the largest raised value: the dual value of the quotas is taken off."""
    owed = np.where(prices > 0, problem.at_least, problem.at_most) * prices
    dual = math.fsum(owed) - 4 * EPS * math.fsum(np.abs(owed))
    bound = top - dual
    return bound + 2 * EPS * (abs(top) + abs(dual)) + TINY if math.isfinite(bound) else math.inf


def long_run(problem: Rows, policy: Floats, chain: Chain | None = None) -> LongRun:
    """Proven intervals for the shares and the gain of a policy.

    `chain` is its chain, where it is at hand: with the stationary distribution that a solver found, as a
    guess, little is left to do. Nothing in it is trusted but its matrix.
    """
    stated = problem.mdp
    witness = find_witness(Chain.of(stated, policy) if chain is None else chain)
    if not isinstance(witness, Witness):
        return unknown(problem, witness)
    given, mdp, policy = policy, stated.uniform, stated.per_step(policy)
    Q, v, s0 = witness.chain.P, witness.chain.shares, witness.s0
    defect = _row_defect(_policy_rows(mdp.pair_ptr, policy))  # (S,)
    defect = defect + np.maximum.reduceat(_model_defect(stated), mdp.pair_ptr[:-1])
    terms = (mdp.n_actions + 4) * (1 if stated.durations is None else 2)  # per_step has rounded as well
    relative = terms * EPS + 2 * defect  # error of an entry of Q against the exact chain
    w = _proven_hitting_times(Q, witness.steps, s0, relative)
    if w is None:
        return unknown(problem, UNPROVED)
    residual = unbalanced(Q, v, relative)
    residual[s0] = 0.0
    loss = abs(1 - math.fsum(v)) + EPS
    spread = math.fsum(residual * w) * (1 + 8 * EPS)
    error = spread + loss
    x = policy / np.add.reduceat(policy, mdp.pair_ptr[:-1])[mdp.s_of] * v[mdp.s_of]  # (SA,)
    relative_x = (int(terms.max()) + 4) * EPS
    gain, gain_error = _sums(mdp.r * x, np.array([0, mdp.n_pairs]))
    size = float(np.abs(mdp.r).max())
    span = float(mdp.r.max() - mdp.r.min()) + (0.0 if stated.durations is None else 2 * EPS * size)
    radius = (
        float(gain_error[0]) + relative_x * math.fsum(np.abs(mdp.r * x)) + span * spread + size * loss + TINY
    )
    shares, share_error = _sums(problem.members.data * x[problem.members.indices], problem.members.indptr)
    relative_share = relative_x + 4 * EPS
    around = share_error + relative_share * shares + error
    if problem.n_quotas > MANY:
        backwards = Q.T.tocsr()
        finer = relative_error(backwards.dot, np.diff(backwards.indptr), v, s0, float(relative.max()))
    else:
        finer = None
    if finer is not None:  # for shares that are small themselves
        off = problem.members @ (x * finer[mdp.s_of])
        close = share_error + (relative_share + EPS) * shares + off * (1 + _MANY_TERMS * EPS) + TINY
        around = np.minimum(around, close)
    interval = np.column_stack([np.maximum(shares - around, 0), np.minimum(shares + around, 1)])
    run = LongRun((float(gain[0]) - radius, float(gain[0]) + radius), interval, error, visitation=v)
    if not wide(run, witness.chain):
        return run
    off = 0.0 if stated.durations is None else _model_defect(stated) + (int(terms.max()) + 4) * EPS
    return narrowed(run, *mean_intervals(problem, given, find_drift(problem, given, witness.chain), off))


def relative_error(push: Callable[[Any], Any], sizes: Any, v: Any, s0: int, rounding: float) -> Any | None:
    """Bound on ``|nu_t / v_t - 1|`` for the stationary nu of a chain near v, (S,), or None if there is none.

    Run backwards, the chain is ``R_ts = v_s Q_st / v_t``, and ``y = nu / v - 1`` solves ``y = R y + z`` with
    z the relative residual of v. If ``u >= 1 + sum_{s != s0} R_ts u_s`` off s0, then ``nu / v`` is within a
    factor ``1 +- max |z| u`` of its value at s0, and both add up to one.

    ``push(x)`` is ``x @ Q`` on whatever device x lives, `sizes` the entries of each column of Q, (S,), and
    `rounding` the relative error of an entry.
    """
    if not float(v.min()) > 0:
        return None
    a = v.copy()
    a[s0] -= 1.0
    total = a.copy()
    for _ in range(_SWEEPS):
        if float(np.abs(a / v).max()) <= _ROUGH:
            break
        a = 0.9 * push(a) + 0.1 * a  # damped, so that periodic chains settle too
        total += a
    u = 0.9 * (total / v - total[s0] / v[s0])
    u[s0] = 0.0
    terms = (sizes + 6) * EPS + 2 * rounding  # (S,)
    lost = TINY * (1 + float(u.max())) / v  # through underflow, of a sum that is divided by v
    margin = u - push(v * u) / v * (1 + terms) - 4 * EPS * u - lost
    margin[s0] = np.inf
    ratio = push(v) / v
    rough = float((np.abs(ratio - 1) + terms * ratio + TINY / v).max()) * u
    least = float(margin.min())
    mean = float((v * rough).sum()) / least * (1 + 1e-9) if least > 0 else math.inf
    if not (float(u.min()) >= 0 and mean < 0.5):
        return None
    loss = abs(1 - float(v.sum())) + 1e-13
    return (rough / least + mean) / (1 - mean) + 8 * loss


def _proven_hitting_times(Q: csr_array, w: Floats, s0: int, relative: Floats) -> Floats | None:
    """Scale w so that ``w_s >= 1 + sum_{t != s0} Q_st w_t`` holds beyond rounding, or None if it cannot."""
    if w.size == 1:
        return w
    margin = decline(Q, w, relative)
    margin[s0] = np.inf
    least = float(margin.min())
    return w / least * (1 + 4 * EPS) if least > 0 else None


def decline(Q: csr_array, w: Floats, relative: Floats) -> Floats:
    """Proven: how much less of w, (S,), is ahead of each state on the mean, (S,)."""
    ahead = Q @ w
    margin = w - ahead - ((np.diff(Q.indptr) + 2) * EPS + 2 * relative) * ahead - 2 * EPS * w
    return margin - TINY * float(w.max())  # a chance may have underflowed, wherever it led


def unbalanced(Q: csr_array, v: Floats, relative: Floats) -> Floats:
    """Bound on ``|v - v Q|`` in each state, (S,).

    What comes in less what goes out, without who stays: small flows are exact to a part of themselves.
    """
    S, per_row = Q.shape[0], np.diff(Q.indptr)
    rows = np.repeat(np.arange(S), per_row)
    moves = np.where(Q.indices == rows, 0.0, Q.data)

    def incoming(x: Floats) -> Floats:
        return np.asarray(np.bincount(Q.indices, moves * x[rows], S), float)

    column = np.bincount(Q.indices, minlength=S) + 2
    inflow, outflow = incoming(v), v * np.bincount(rows, moves, S)
    residual = np.abs(inflow - outflow) + EPS * (column * inflow + (per_row + 2) * outflow) + TINY
    return residual + 2 * (incoming(relative * v) + relative * outflow)


def _policy_rows(pair_ptr: Ints, policy: Floats) -> csr_array:
    return csr_array((policy, np.arange(policy.size), pair_ptr), shape=(pair_ptr.size - 1, policy.size))


def _row_defect(P: csr_array) -> Floats:
    """Bound on ``|1 - sum|`` of each row of nonnegative numbers, (rows,)."""
    sums = P @ np.ones(P.shape[1])
    return np.abs(sums - 1) + np.diff(P.indptr) * EPS * sums


def _model_defect(mdp: MDP) -> Floats:
    """Relative error of the rows of the model of equal steps against those that were stated, (SA,).

    Chances to move have few roundings, and those of their row; what they leave, at least a tenth, has nine
    times theirs at most.
    """
    defect = _row_defect(mdp.P)
    return defect if mdp.durations is None else 10 * (defect + 4 * EPS)


def _sums(values: Floats, indptr: Ints) -> tuple[Floats, Floats]:
    """Sums of nonempty runs of values, and bounds on their errors."""
    wide = values.astype(np.longdouble)
    sums = np.add.reduceat(wide, indptr[:-1])
    sizes = np.add.reduceat(np.abs(wide), indptr[:-1])
    return sums.astype(float), (EPS * np.abs(sums) + 2 * np.diff(indptr) * _WIDE_EPS * sizes).astype(float)
