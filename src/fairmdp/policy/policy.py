"""A policy that can be used: what to do in each state, by name, without the model that it was made for.

It is read of whatever somebody has: an array, a mapping, a function, or another policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from fairmdp import policy as package
from fairmdp.chains.policy import checked_policy, ladder
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats, Ints, ReadOnly, count_of, counted, first, refuse
from fairmdp.model.labels import Labelled, Labels
from fairmdp.model.simulator import CheckedSimulator, shell_model
from fairmdp.model.transitions import EXACT_SUM_TOL
from fairmdp.tables import Table


@dataclass(frozen=True, eq=False, repr=False)
class Policy(ReadOnly):
    """What to do in each state, by the names of states and actions.

    A policy is stationary, or a mixture of stationary ones, of which a run follows one: it is drawn once, at
    the beginning, by `draw`. Where a model falls into parts that do not meet again, some quotas on the mean
    over runs can only be met so.

    Attributes
    ----------
    labels : Labels
        Names of the states and actions.
    parts : ndarray
        Probability of each state-action pair given its state, one row per stationary policy, (M, SA).
    weights : ndarray
        How likely a run is to follow each of them, (M,).

    Examples
    --------
    >>> from fairmdp import scenarios, solve
    >>> problem = scenarios.three_state()
    >>> policy = Policy.of(problem, solve(problem))
    >>> policy
    Policy(3 states, random in 1)
    >>> {action: round(p, 3) for action, p in policy.probabilities("s1").items()}
    {'a0': 0.594, 'a1': 0.406}
    >>> rng = np.random.default_rng(0)
    >>> policy.act("s1", rng), policy.act(1, rng)
    ('a1', 0)
    >>> policy.act(["s0", "s1", "s1"], rng).tolist()
    ['a0', 'a0', 'a1']
    """

    labels: Labels
    parts: Floats
    weights: Floats

    @classmethod
    def of(cls, model: Any, given: Any) -> Policy:
        """Return what is given as a policy on a model, with its names.

        Parameters
        ----------
        model
            An `MDP`, a `Problem`, or a simulator, whose states are numbers.
        given
            A `Solution`, which may be a mixture, or what else has a ``policy``; probabilities of the pairs,
            (SA,); another `Policy`, matched by names; a mapping from states, or a function of a state, to an
            action or to ``{action: probability}``. A function gets the name of a state, or its number where
            the model has no names.

        Raises
        ------
        ProblemError
            Something is missing or does not fit; the message names the first state or action.
        """
        mdp = getattr(model, "mdp", model)
        if not isinstance(mdp, Labelled) and hasattr(mdp, "sample"):
            mdp = shell_model(CheckedSimulator(mdp))
        labels = Labels.of(mdp)
        if not isinstance(given, Policy):
            ends = getattr(given, "ends", None)
            if ends is not None and ends.policies is not None:
                parts = np.array([stationary_on(mdp, each) for each in ends.policies])
                return cls(labels, parts, ends.weights)
            given = getattr(given, "policy", given)
        if isinstance(given, Policy):
            return given if given.labels == labels else given._renamed(mdp)
        return cls(labels, stationary_on(mdp, given)[None], np.ones(1))

    @classmethod
    def mixture(cls, policies: Iterable[Policy], weights: Sequence[float]) -> Policy:
        """Return the policy of which a run follows one of several, drawn once with these weights."""
        policies, chances = tuple(policies), np.array(weights, float)
        if not policies or chances.shape != (len(policies),):
            raise ProblemError(f"there are {len(policies)} policies and {chances.size} weights")
        if not ((chances >= 0).all() and abs(chances.sum() - 1) <= EXACT_SUM_TOL * chances.size):
            raise ProblemError(f"weights are {chances.tolist()}, expected probabilities that sum to 1")
        if any(policy.labels != policies[0].labels for policy in policies):
            raise ProblemError(
                "the policies have different states or actions\n  bring them to one model with Policy.of"
            )
        parts = np.concatenate([policy.parts for policy in policies])
        weighed = [w * policy.weights for w, policy in zip(chances, policies, strict=True)]
        return cls(policies[0].labels, parts, np.concatenate(weighed))

    @property
    def is_mixture(self) -> bool:
        """Whether a run has to draw which policy it follows."""
        return len(self.weights) > 1

    @property
    def array(self) -> Floats:
        """Probability of each pair given its state, (SA,), in the order of the model; not of a mixture."""
        if self.is_mixture:
            refuse(
                f"this policy is a mixture of {len(self.weights)}, so a state alone does not say what to do",
                "a run follows one of them, drawn once at its beginning",
                "draw it with policy.draw(rng), and ask what that returns",
            )
        return self.parts[0]

    def draw(self, rng: np.random.Generator) -> Policy:
        """Draw the stationary policy that one run follows; of a policy that is no mixture, itself."""
        if not self.is_mixture:
            return self
        m = int(_generator(rng).choice(len(self.weights), p=self.weights / self.weights.sum()))
        return Policy(self.labels, self.parts[m : m + 1], np.ones(1))

    def probabilities(self, state: int | str) -> dict[str, float]:
        """Probability of each action that is taken in a state, by name."""
        s, pi = self.labels.state_index(state), self.array
        pairs = range(int(self.labels.pair_ptr[s]), int(self.labels.pair_ptr[s + 1]))
        return {self.labels.action_name(i): float(pi[i]) for i in pairs if pi[i] > 0}

    def act(self, state: Any, rng: np.random.Generator) -> Any:
        """Draw what to do.

        Parameters
        ----------
        state
            A state, or many in a list or array. Names give names of actions, numbers give numbers, which
            count within their state.
        rng
            ``numpy.random.default_rng(seed)``.

        Returns
        -------
        str or int or ndarray
            An action, or an array of as many as there are states.
        """
        one = isinstance(state, str | int | np.integer)
        states = np.atleast_1d(np.asarray(state))
        named = states.dtype.kind in "UO"
        numbers = self._numbers(states, named)
        pairs = self.act_pairs(numbers, rng)
        if not named:
            chosen = pairs - self.labels.pair_ptr[numbers]
            return int(chosen[0]) if one else chosen
        names = [self.labels.action_name(i) for i in pairs.ravel().tolist()]
        return names[0] if one else np.array(names).reshape(states.shape)

    def act_pairs(self, states: Ints, rng: np.random.Generator) -> Ints:
        """Draw a state-action pair, by number, for each of many state numbers."""
        pairs = np.searchsorted(self._ladder, states + _generator(rng).random(states.shape), side="right")
        return np.minimum(pairs, self._last_taken[states])

    def to_table(self) -> Table:
        """Return one row per pair: state, action, probability; of a mixture also policy and weight."""
        labels = self.labels
        states = [labels.state_name(int(s)) for s in labels.s_of]
        actions = [labels.action_name(i) for i in range(labels.n_pairs)]
        if not self.is_mixture:
            return Table(state=states, action=actions, probability=self.array.tolist())
        M, SA = self.parts.shape
        return Table(
            policy=np.repeat(np.arange(M), SA).tolist(),
            weight=np.repeat(self.weights, SA).tolist(),
            state=states * M,
            action=actions * M,
            probability=self.parts.ravel().tolist(),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy as ``.json`` or ``.csv``, atomically, by names alone: any program can read it."""
        package.file.write(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> Policy:
        """Read a policy that `save` wrote, a spreadsheet of the same columns, or the file of a solution."""
        return package.file.read(path)

    @cached_property
    def _ladder(self) -> Floats:
        return ladder(self.labels, self.array)

    @cached_property
    def _last_taken(self) -> Ints:
        """Last pair of each state that has any probability, (S,): rounding leads no further."""
        place = np.where(self.array > 0, np.arange(self.labels.n_pairs), -1)
        return np.maximum.reduceat(place, self.labels.pair_ptr[:-1])

    def _numbers(self, states: Any, named: bool) -> Ints:
        """Numbers of states that are given by name or number."""
        if named:
            flat = [self.labels.state_index(state) for state in states.ravel().tolist()]
            return np.array(flat, np.int64).reshape(states.shape)
        if states.dtype.kind not in "iu":
            raise ProblemError(f"states are {states.dtype}, expected names or whole numbers")
        outside = (states < 0) | (states >= self.labels.n_states)
        if outside.any():
            self.labels.state_index(int(states[outside][0]))
        return states.astype(np.int64)

    def _renamed(self, mdp: Labelled) -> Policy:
        """Return the same policy in the order of a model that has the same names, and maybe more actions."""
        own, moved = self.labels, np.zeros((len(self.weights), mdp.n_pairs))
        state = np.array([mdp.state_index(own.state_name(s)) for s in range(own.n_states)])
        found = np.zeros(mdp.n_states, bool)
        found[state] = True
        require_all(mdp, found)
        for i in np.flatnonzero(self.parts.any(axis=0)).tolist():
            pair = mdp.pair_index(int(state[own.s_of[i]]), own.action_name(i))
            moved[:, pair] = self.parts[:, i]
        return Policy(Labels.of(mdp), moved, self.weights)

    def __repr__(self) -> str:
        taken = np.add.reduceat(self.parts > 0, self.labels.pair_ptr[:-1], axis=1, dtype=int)
        random = f"random in {int((taken > 1).any(axis=0).sum())}"
        mixed = f", a mixture of {len(self.weights)}" if self.is_mixture else ""
        return f"Policy({counted(self.labels.n_states, 'state')}, {random}{mixed})"


def _generator(rng: Any) -> np.random.Generator:
    if not isinstance(rng, np.random.Generator):
        refuse(
            f"rng is {rng!r}, expected a generator of random numbers",
            "every call draws from it, so that it must remember where it is",
            "make one with numpy.random.default_rng(seed), once",
        )
    return rng


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
