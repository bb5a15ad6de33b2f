"""What the counts of a simulator say of one policy: its gain and shares, with first-order errors.

For a policy with occupancy ``x``, chain ``P_pi``, stationary distribution ``nu`` and
``H = (I - P_pi + 1 nu)^-1 f`` ::

    nu_true @ f - nu @ f ~ sum_i x(i) (P_true - P)(i) @ H,      se^2 = sum_i x(i)^2 Var_i(H) / n(i)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from fairmdp.chains.chain import NEARLY_REDUCIBLE, Chain
from fairmdp.learning.counts import Counts
from fairmdp.model.checks import Floats
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem

_JOIN = 1e-10  # probability of a jump that joins closed classes which the samples left apart


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A policy on an estimated model, with the first-order errors of its gain and shares."""

    policy: Floats  # (SA,)
    x: Floats  # (SA,)
    gain: float
    gain_se: float
    shares: Floats  # (K,)
    share_se: Floats  # (K,)
    gain_variance: Floats  # (SA,), of reward + h(s')
    share_variance: Floats  # (SA, K), of H(s')
    deviation: float  # norm of the deviation matrix; NaN above 2000 states, infinite for several classes


def unknown(owed: Problem, policy: Floats) -> Evaluation:
    """What is known of a policy without samples."""
    pairs, quotas = np.full(owed.mdp.n_pairs, np.nan), np.full(owed.n_quotas, np.nan)
    both = np.full((owed.mdp.n_pairs, owed.n_quotas), np.nan)
    return Evaluation(policy, pairs, np.nan, np.nan, quotas, quotas, pairs, both, np.nan)


def estimated(owed: Problem, counts: Counts) -> Problem:
    """The quotas over the model of the counts."""
    return owed.with_mdp(counts.model(owed.mdp))


def evaluate(problem: Problem, counts: Counts, policy: Floats) -> Evaluation:
    """Gain and shares of a policy on the model of the counts, with standard errors."""
    mdp = problem.mdp
    chain, joined = _joined(Chain.of(mdp, policy))
    nu = chain.shares
    f = per_state(mdp, policy) @ np.column_stack([problem.members.T.toarray(), mdp.r])  # (S, K + 1)
    H, deviation = _relative_values(chain, f)
    x = policy * nu[mdp.s_of]
    unseen = unseen_variance(counts, nu, H)
    share_variance = counts.variances(H[:, :-1]) + unseen[:, :-1]
    gain_variance = counts.reward_variances(H[:, -1]) + unseen[:, -1]
    weights = x**2 / np.maximum(counts.per_pair, 1)
    return Evaluation(
        policy=policy,
        x=x,
        gain=float(mdp.r @ x),
        gain_se=math.sqrt(weights @ gain_variance),
        shares=problem.members @ x,
        share_se=np.sqrt(weights @ share_variance),
        gain_variance=gain_variance,
        share_variance=share_variance,
        deviation=math.inf if joined else deviation,
    )


def per_state(mdp: MDP, policy: Floats) -> csr_array:
    """What averages over the actions of each state, as the policy takes them, (S, SA)."""
    return csr_array((policy, np.arange(mdp.n_pairs), mdp.pair_ptr), shape=(mdp.n_states, mdp.n_pairs))


def unseen_variance(counts: Counts, nu: Floats, H: Floats) -> Floats:
    """Variance for successors not seen: one more sample might have led to any state, (SA, columns)."""
    spread = np.maximum(nu @ H**2 - (nu @ H) ** 2, 0.0)
    return spread / (counts.per_pair[:, None] + 1)


def warnings_of(counts: Counts, deviation: float) -> tuple[str, ...]:
    """What a careful reader should know of an estimate from these counts."""
    notes = []
    unseen = int((counts.per_pair == 0).sum())
    if unseen:
        notes.append(f"{unseen} pairs were never sampled: they are taken to stay where they are")
    if math.isinf(deviation):
        notes.append(
            "runs of the policy end in different parts of the model, and what they earn and give depends on "
            "where; learn each part from a simulator of its own states"
        )
    elif deviation > NEARLY_REDUCIBLE:
        notes.append(
            f"the policy's chain is nearly reducible (deviation {deviation:.1e}): small errors in "
            "the model move its long-run shares a lot, and they take long to show"
        )
    return tuple(notes)


def _joined(chain: Chain) -> tuple[Chain, bool]:
    """The chain, with a rare jump to one state where the samples left several closed classes."""
    classes = chain.closed_classes
    if len(classes) == 1:
        return chain, False
    S = chain.n_states
    target = int(max(classes, key=len)[0])
    jump = csr_array((np.ones(S), (np.arange(S), np.full(S, target))), shape=(S, S))
    return Chain(((1 - _JOIN) * chain.P + _JOIN * jump).tocsr()), True


def _relative_values(chain: Chain, f: Floats) -> tuple[Floats, float]:
    """Relative values of each column of f, up to constants, and the norm of the deviation matrix."""
    if chain.n_states > chain.tuning.largest_dense:
        return chain.bias(f), math.nan
    return chain.fundamental_matrix @ f, chain.deviation_norm
