"""The two examples that the paper itself works with."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.scenarios.parameters import probability


def three_state(rho: ArrayLike = (0.1, 0.1, 0.25)) -> Problem:
    """Return the paper's experiment: three states on a circle, one of which pays.

    Action ``a0`` steps forward with probability 0.9 and backward with 0.1; ``a1`` the converse. Staying
    profitable means shuttling between ``s0`` (where ``a0`` pays 1, everything else 0.1) and ``s1``, which
    leaves ``s2`` with 1/11 of the time; the quotas owe it more.

    Parameters
    ----------
    rho
        Least share of time of each state, quotas ``s0``, ``s1`` and ``s2``.

    Examples
    --------
    >>> three_state()
    Problem(3 states, 6 pairs, 12 transitions, 3 quotas)
    """
    P = np.zeros((3, 2, 3))
    for s in range(3):
        P[s, 0, (s + 1) % 3] = P[s, 1, (s - 1) % 3] = 0.9
        P[s, 0, (s - 1) % 3] = P[s, 1, (s + 1) % 3] = 0.1
    R = np.full((3, 2), 0.1)
    R[0, 0] = 1.0
    return Problem(MDP.from_tensor(P, R, states=("s0", "s1", "s2"), actions=("a0", "a1")), rho=rho)


def alpha_chain(alpha: float = 0.3, rho: float = 0.2) -> Problem:
    """Return the paper's example of quotas that may be out of reach: one policy, shares 1 - alpha and alpha.

    State ``s1`` is owed ``rho``, which can be met only if ``rho <= alpha``.

    Parameters
    ----------
    alpha
        Probability of ``s1`` in every step, strictly between 0 and 1.
    rho
        Least share of time of ``s1``.

    Examples
    --------
    >>> alpha_chain(alpha=0.3, rho=0.4)
    Problem(2 states, 2 pairs, 4 transitions, 2 quotas)
    """
    alpha = probability("alpha", alpha, positive=True, certain=False)
    rho = probability("rho", rho)
    mdp = MDP([[1 - alpha, alpha]] * 2, [0.0, 0.0], [0, 1], states=["s0", "s1"])
    return Problem(mdp, rho=[0.0, rho])
