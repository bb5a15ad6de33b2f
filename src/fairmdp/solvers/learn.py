"""`learn`: a fair policy from a simulator, by the method that needs the fewest samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.learning.estimate import Estimate
from fairmdp.quota import Quota
from fairmdp.simulator import Simulator
from fairmdp.solvers.mirror import Learned, learn_mirror
from fairmdp.solvers.plugin import learn_plugin


def learn(
    simulator: Simulator,
    quotas: Iterable[Quota],
    *,
    samples: int | None = None,
    eps: float | None = None,
    delta: float = 0.05,
    method: Literal["plugin", "mirror"] = "plugin",
    seed: int | np.random.SeedSequence = 0,
) -> Estimate | Learned:
    """Learn a fair policy from a simulator.

    Parameters
    ----------
    simulator
        A generative model; see `Simulator`.
    quotas
        What is owed: sets of states by number, or of pairs by state and action.
    samples, eps
        A budget of samples, or an accuracy; one of them. Mirror descent takes a budget only.
    delta
        Probability with which the claim of the plug-in may fail.
    method
        ``"plugin"`` (an exact solution on the counts, with a margin on every quota; tens to hundreds of times
        fewer samples) or ``"mirror"`` (Algorithm 1; memory that does not grow with what was seen).
    seed
        Everything random follows from it.

    Examples
    --------
    >>> from fairmdp import Quota, learn, scenarios
    >>> simulator = scenarios.three_state().mdp.simulator()
    >>> learn(simulator, [Quota("s2", states=[2], at_least=0.25)], samples=6000, seed=1)
    Estimate(gain=0.4394 +- 0.002, worst_slack=0.0036, samples=6000, guaranteed)
    """
    if method == "plugin":
        return learn_plugin(simulator, quotas, samples=samples, eps=eps, delta=delta, seed=seed)
    if method != "mirror":
        raise ProblemError(f"there is no method {method!r}; there are plugin and mirror")
    if samples is None or eps is not None:
        raise ProblemError("mirror descent takes a budget: give samples, not eps")
    return learn_mirror(simulator, quotas, samples=samples, seed=seed)
