"""The paper's special case of one state: a bandit whose arms are owed a share of the pulls."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairmdp.errors import ProblemError
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.scenarios.parameters import SHARE, numbers, owed_each


def bandit(pay: ArrayLike = (1.0, 0.7, 0.4), quota: ArrayLike = (0.0, 0.1, 0.2)) -> Problem:
    """Return a bandit whose arms are owed a share of the pulls: one state, quotas on its actions.

    A lender picks one of several neighbourhoods for each loan and earns most in the first one; the others
    are owed a share of the loans all the same. The best fair policy gives every arm its quota and the
    rest to the best arm, so the gain is ``quota @ pay + (1 - sum(quota)) * max(pay)``, and a unit of
    share for an arm costs what it earns less than the best, ``max(pay) - pay[k]``.

    Parameters
    ----------
    pay
        Mean reward of each arm: any finite numbers.
    quota
        Least share of the pulls of each arm; one number is meant for all. The quotas, over state-action
        pairs, are called ``arm1``, ``arm2``, ...

    Examples
    --------
    >>> bandit()
    Problem(1 state, 3 pairs, 3 transitions, 3 quotas)
    """
    n_arms = np.size(pay)
    if n_arms == 0:
        raise ProblemError("pay is empty: a bandit needs at least one arm")
    means = numbers("pay", pay, n_arms, "arm")
    owed = numbers("quota", quota, n_arms, "arm", SHARE)
    names = [f"arm{k + 1}" for k in range(n_arms)]
    mdp = MDP(np.ones((n_arms, 1)), means, np.zeros(n_arms, np.int64), states=["play"], actions=names)
    return Problem(mdp, owed_each("arm", owed, pairs=np.arange(n_arms)[:, None]))
