"""What an agent is told of the world before it runs: states, actions and quotas by name, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import check_count, refuse
from fairmdp.model.labels import Labelled, Labels
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.model.simulator import shell_model
from fairmdp.model.transitions import staying
from fairmdp.records.log import Log


def skeleton(source: Any, quotas: Iterable[Quota] | None) -> Problem:
    """Quotas over states and actions of which nothing is known."""
    if isinstance(source, Problem):
        problem = source if quotas is None else Problem(source.mdp, quotas)
    else:
        problem = Problem(_model(source), () if quotas is None else quotas)
    mdp = problem.mdp
    if mdp.durations is not None:
        raise ProblemError("the steps of this model take time; an agent counts steps")
    if problem.expected.any():
        name = problem.names[int(problem.expected.argmax())]
        refuse(
            f"quota {name} is one of the mean over many runs",
            "an agent lives through one run, and its accounts are those of this run",
            "state the quota without expected=True",
        )
    return problem.with_mdp(_shell(mdp))


def _model(source: Any) -> MDP:
    if isinstance(source, MDP):
        return source
    if isinstance(source, Log):
        return source.shell
    if isinstance(source, Labelled):
        return _shell(source)
    if isinstance(source, tuple) and len(source) == 2:
        n_states, n_actions = source
        check_count("the number of states", n_states)
        check_count("the number of actions", n_actions)
        return _shell(Labels(None, None, np.arange(n_states + 1) * n_actions))
    if hasattr(source, "n_states") and hasattr(source, "n_actions"):
        return shell_model(source)
    if hasattr(source, "observation_space") and hasattr(source, "action_space"):
        return _shell(_numbered(source))
    raise ProblemError(
        f"a {type(source).__name__} does not say which states and actions there are, expected a model, "
        "a problem, a log, a simulator, an environment, or (number of states, number of actions)"
    )


def _numbered(env: Any) -> Labels:
    """States and actions of an environment, called by their numbers."""
    names = []
    for what in ("observation_space", "action_space"):
        space = getattr(env, what)
        if not hasattr(space, "n"):
            raise ProblemError(
                f"the {what} of this environment is {space}, expected Discrete(n)\n  an agent counts what "
                "followed in each state: cut the space into finitely many, with a wrapper say"
            )
        first = int(getattr(space, "start", 0))
        names.append(tuple(str(first + k) for k in range(int(space.n))))
    states, actions = names
    return Labels(states, actions * len(states), np.arange(len(states) + 1) * len(actions))


def _shell(labels: Labelled) -> MDP:
    """States and actions that lead nowhere and pay nothing."""
    return MDP(
        staying(labels.s_of, labels.n_states), np.zeros(labels.n_pairs), labels.s_of,
        states=labels.states, actions=labels.actions,
    )  # fmt: skip
