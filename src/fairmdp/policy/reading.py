"""Policies as people state them: an action, or probabilities of actions, for every state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairmdp.chains.policy import checked_policy
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats, count_of, first, refuse
from fairmdp.model.labels import Labelled


def stationary_on(mdp: Labelled, given: Any) -> Floats:
    """Probability of each pair of a model given its state, (SA,), from an array, a mapping or a function."""
    if isinstance(given, Mapping):
        return checked_policy(mdp, _of_mapping(mdp, given))
    if callable(given):
        named = mdp.states is not None
        asked = {s: given(mdp.state_name(s) if named else s) for s in range(mdp.n_states)}
        if (s := next((s for s, what in asked.items() if what is None), None)) is not None:
            raise ProblemError(f"the policy, asked for state {mdp.state_name(s)}, returned None")
        return checked_policy(mdp, _of_mapping(mdp, asked))
    return checked_policy(mdp, given)


def _of_mapping(mdp: Labelled, given: Mapping[Any, Any]) -> Floats:
    policy, said = np.zeros(mdp.n_pairs), np.zeros(mdp.n_states, bool)
    for state, what in given.items():
        s = mdp.state_index(state)
        if said[s]:
            raise ProblemError(f"policy names state {mdp.state_name(s)} twice")
        said[s] = True
        for action, chance in (what if isinstance(what, Mapping) else {what: 1.0}).items():
            policy[mdp.pair_index(s, action)] += _chance(mdp, s, action, chance)
    require_all(mdp, said)
    return policy


def require_all(mdp: Labelled, said: Bools) -> None:
    """Raise where a policy does not speak of every state; `said` tells of which it does, (S,)."""
    if (s := first(~said)) is not None:
        refuse(
            f"the policy does not say what to do in state {mdp.state_name(s)}",
            f"{count_of((~said).sum(), said.size, 'states')} missing",
            "name an action for each of them",
        )


def _chance(mdp: Labelled, s: int, action: Any, chance: Any) -> float:
    try:
        return float(chance)
    except (TypeError, ValueError):
        raise ProblemError(
            f"policy gives action {action!r} of state {mdp.state_name(s)} {chance!r}, expected a probability"
        ) from None
