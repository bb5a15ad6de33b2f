"""What a look at a model says of it: whether runs may end differently, and what follows for its quotas."""

from __future__ import annotations

import numpy as np

from fairmdp.chains.components import Components, components_of
from fairmdp.model.checks import Bools, refuse
from fairmdp.model.problem import Problem


def falls_apart(problem: Problem) -> Components | None:
    """Return the components of a model with a part out of reach, or in which runs may end differently.

    None means that there is one component, in which all runs end, and that nothing is out of reach.
    """
    found = components_of(problem.mdp)
    if found.count == 1 and found.reachable.all():
        return None
    if asks_for_the_mean(problem):
        require_start(problem, found)
    return found


def concave_in(problem: Problem) -> Bools:
    """Whether the best gain is a concave function of the bounds of a quota, and continuous, (K,).

    It is neither where runs can end differently and each of them has to meet the quota: beyond some bound
    they may no longer end where they earn most, or lose less by ending elsewhere than the price says.
    """
    one = components_of(problem.mdp).count == 1
    return np.full(problem.n_quotas, True) if one else problem.expected


def asks_for_the_mean(problem: Problem) -> bool:
    """Whether some quota bounds the mean over runs."""
    return bool((problem.expected & ((problem.at_least > 0) | (problem.at_most < 1))).any())


def require_start(problem: Problem, found: Components) -> None:
    """Refuse means over runs of which nobody knows where they start."""
    if problem.mdp.initial is None and found.count > 1:
        k = int(np.argmax(problem.expected & ((problem.at_least > 0) | (problem.at_most < 1))))
        refuse(
            f"quota {problem.names[k]} is one of the mean over runs, and nothing says where they start",
            f"they end in one of {found.count} components, which depends on the start",
            "say where it starts: initial in Python and TOML, --start on the command line",
        )
