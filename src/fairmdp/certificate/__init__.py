"""Proofs: every claim of a solution re-derived from the problem and the solution's witnesses.

Nothing here calls a solver. Two facts carry everything.

**Ceiling.** For all relative values ``h`` (S,) and signed prices ``mu`` (K,), every policy that meets the
quotas earns at most ::

    max_i [ r_i + sum_{k: i in G_k} mu_k + (P h)_i - h_{s(i)} ] - sum_k mu_k b_k

where ``b_k`` is ``at_least`` where ``mu_k > 0`` and ``at_most`` where ``mu_k < 0``. With ``r = 0`` no policy
earns more than 0 either way, so a negative ceiling proves that no policy meets the quotas.
The sign rule of the project: for all pairs ``g + h[s] >= r + mu[s] + P @ h``.

**Long run.** Let ``Q`` be the chain of a policy, ``s0`` a state and ``w >= 0`` a vector with
``w_s >= 1 + sum_{t != s0} Q_st w_t`` for all ``s != s0``. Then ``s0`` is reached from everywhere, so
there is one closed class and one stationary distribution ``nu``, and for every distribution ``v`` and every
set ``G`` ::

    | v(G) - nu(G) | <= sum_{t != s0} | v_t - (v Q)_t | w_t

Where quotas are many and small, each share is proved in proportion to itself (`rounded.relative_error`).

`rounded` evaluates both with floating-point errors added outward, `exact` in rational arithmetic. Both
take the model to be the stored probabilities divided by their exact row sums, and likewise the policy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
