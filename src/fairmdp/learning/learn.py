"""`learn`: a fair policy from a simulator, by the method that needs the fewest samples, or from records."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairmdp import learning, workers
from fairmdp.errors import ProblemError
from fairmdp.records.log import Log

if TYPE_CHECKING:
    from fairmdp.learning.counts import Engine, Seed
    from fairmdp.learning.estimate import Estimate, Progress
    from fairmdp.mirror.solve import Options
    from fairmdp.mirror.steps import Steps
    from fairmdp.model.objectives import Objective
    from fairmdp.model.quota import Quota
    from fairmdp.model.simulator import Simulator


@dataclass(frozen=True)
class Method:
    """A way to learn: the name of its function here, what it is in a line, and options that it refuses."""

    function: str
    summary: str
    refuses: dict[str, str] = field(default_factory=dict)  # and why

    def refusal(self, given: Collection[str]) -> str | None:
        """Why one of the options that were given cannot be taken, or None."""
        return next((why for name, why in self.refuses.items() if name in given), None)


_FOR_MIRROR = "settings and options are for method 'mirror'"
_FOR_PLUGIN = "mirror descent maximises the gain: an objective is for method 'plugin'"
METHODS = {
    "plugin": Method(
        "learn_plugin",
        "an exact solution on the counts, tested on fresh samples",
        {"settings": _FOR_MIRROR, "options": _FOR_MIRROR},
    ),
    "mirror": Method(
        "learn_mirror",
        "Algorithm 1 of the paper; it makes no claim",
        {
            "objective": _FOR_PLUGIN,
            "over": _FOR_PLUGIN,
            "reward": _FOR_PLUGIN,
            "eps": "mirror descent takes a budget: give samples, not eps",
            "engine": "mirror descent makes one step after the other: it takes no engine",
        },
    ),
}


def learn(
    source: Simulator | Log,
    quotas: Iterable[Quota],
    *,
    samples: int | None = None,
    eps: float | None = None,
    delta: float = 0.05,
    method: str = "plugin",
    seed: Seed = 0,
    progress: Progress | None = None,
    engine: Engine = map,
    settings: Steps | None = None,
    options: Options | None = None,
    objective: Objective | None = None,
    over: Iterable[int | str] | None = None,
    reward: float = 0.0,
) -> Estimate:
    """Learn a fair policy from a simulator, or from records.

    Parameters
    ----------
    source
        A generative model; see `Simulator`. Or a `Log`: the policy is then chosen on the earlier half of its
        records and tested on the later half; pairs with fewer than 20 of the earlier ones are not used, which
        is said.
    quotas
        What is owed: sets of states by number, or of pairs by state and action; by name, where there are any.
    samples, eps
        Of a simulator: a budget, of answers for single pairs, or an accuracy in units of reward; one of them.
        Mirror descent takes a budget only.
    delta
        Level of the plug-in's claim: a policy that misses a quota passes in at most this share of runs.
    method
        ``"plugin"`` (an exact solution on the counts, tested on fresh samples; tens to hundreds of times
        fewer samples) or ``"mirror"`` (Algorithm 1; no linear program, and no claim).
    seed
        Everything random follows from it: a whole number, a numpy ``SeedSequence``, or a ``Generator``, which
        gives another run at every call.
    progress
        Called now and then with the samples drawn, the budget (without one, what is planned so far), and a
        function that returns the estimate so far.
    engine
        Where the plug-in's samples are drawn: the built-in ``map``, a `ProcessPool` or a `RayCluster`.
        Results do not depend on it.
    settings, options
        Of mirror descent; see `learn_mirror`.
    objective, over, reward
        Maximise a welfare of what the groups get, as `solve_welfare` does, and not the gain: for the plug-in
        and a budget. The claim is then that the welfare is at least ``estimate.welfare.low``, and that the
        quotas are met, if there are any; all of it at level ``delta``.

    Returns
    -------
    Estimate
        The same fields whatever the method. Ctrl-C returns what has been learned with ``finished=False``; a
        `SimulatorError` carries it as ``partial``.

    Examples
    --------
    >>> from fairmdp import Quota, learn, scenarios
    >>> simulator = scenarios.three_state().mdp.simulator()
    >>> learn(simulator, [Quota("s2", states=[2], at_least=0.25)], samples=6000, seed=1)
    Estimate(gain=0.44 +- 0.002, worst_slack=0.0047, samples=6000, guaranteed)
    """
    if isinstance(source, Log):
        beside = {
            "samples": samples, "eps": eps, "settings": settings, "options": options, "objective": objective,
        }  # fmt: skip
        odd = [name for name, value in beside.items() if value is not None]
        if odd or method != "plugin":
            raise ProblemError(
                f"{[*odd, 'method'][0]} is for simulators: a log holds the records that there are"
            )
        return learning.learn_records(source, quotas, delta=delta, seed=seed)
    if method not in METHODS:
        raise ProblemError(f"there is no method {method!r}; there are {' and '.join(METHODS)}")
    chosen = METHODS[method]
    elsewhere = None if engine in (map, workers.serial) else engine
    extra = {
        "eps": eps, "engine": elsewhere, "settings": settings, "options": options, "objective": objective,
        "over": over, "reward": reward or None,
    }  # fmt: skip
    given = {name: value for name, value in extra.items() if value is not None}
    why_not = chosen.refusal(given if samples is not None else {"eps", *given})
    if why_not is not None:
        raise ProblemError(why_not)
    how: dict[str, Any] = {"samples": samples, "delta": delta, "seed": seed, "progress": progress, **given}
    return getattr(learning, chosen.function)(source, quotas, **how)
