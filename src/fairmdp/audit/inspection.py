"""What a model is, before it is solved: where runs start and may end, how fast it mixes, who solves it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmdp.backends.opening import open_backend
from fairmdp.chains.components import Components, components_of
from fairmdp.chains.mixing import Settling, settling
from fairmdp.chains.policy import uniform_policy
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Ints, ReadOnly, counted
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.solvers.apart import asks_for_the_mean, falls_apart
from fairmdp.solvers.auto import choose

MOST_COMPONENTS = 20
"""End components that are told of one by one, the largest."""

_WORK = 2e8  # transitions that are followed to see how fast a model mixes
_MOST_STEPS, _FEWEST_STEPS = 2000, 50


@dataclass(frozen=True, eq=False)
class EndComponent(ReadOnly):
    """States between which a run may stay for ever.

    Attributes
    ----------
    states
        Their numbers, ascending.
    n_pairs
        State-action pairs that stay among them.
    for_good
        Whether no action leads out of it.
    """

    states: Ints
    n_pairs: int
    for_good: bool


@dataclass(frozen=True, eq=False, repr=False)
class Inspection(ReadOnly):
    """What a model is.

    Attributes
    ----------
    reachable : ndarray
        Numbers of the states that can be reached from where runs start; the others do not count.
    unreachable : ndarray
        The other ones.
    n_components : int
        How many maximal end components can be reached; every run ends in one of them.
    components : tuple of EndComponent
        The largest of them, `MOST_COMPONENTS` at most.
    passed : ndarray
        Numbers of the states in none of them, through which runs only pass.
    mixing : Settling or None
        How fast the uniform policy forgets where it is, measured in the largest component; in equal steps,
        which are `MDP.step` long where steps take time. None where that component is a single state.
    method : str
        The solver that `solve` will ask first, by its bare name; empty where it refuses.
    reason : str
        Why: a key of ``solvers.registry.REASONS``, or empty.
    refusal : str
        Why `solve` will refuse, or empty.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> seen = inspect(scenarios.three_state())
    >>> seen
    Inspection(3 of 3 states reachable, 1 end component, solved by lp)
    >>> seen.mixing.steps
    7
    """

    reachable: Ints
    unreachable: Ints
    n_components: int
    components: tuple[EndComponent, ...]
    passed: Ints
    mixing: Settling | None
    method: str
    reason: str = ""
    refusal: str = ""

    def __repr__(self) -> str:
        S = self.reachable.size + self.unreachable.size
        solved = f"solved by {self.method}" if self.method else "not solved as it is"
        ends = counted(self.n_components, "end component")
        return f"Inspection({self.reachable.size} of {S} states reachable, {ends}, {solved})"


def inspect(problem: Problem | MDP) -> Inspection:
    """Look at a model and its quotas, and do not solve anything.

    Parameters
    ----------
    problem
        Model and quotas, or a model alone.
    """
    problem = Problem(problem) if isinstance(problem, MDP) else problem
    mdp = problem.mdp
    found = components_of(mdp)
    method, reason, refusal = _solver(problem)
    inner = mdp.s_of[found.internal]
    pairs = np.bincount(found.labels[inner], minlength=found.count)
    all_pairs = np.bincount(found.labels[mdp.s_of[found.reachable[mdp.s_of]]], minlength=found.n_nodes)
    largest = np.argsort(-found.sizes, kind="stable")[:MOST_COMPONENTS].tolist()
    return Inspection(
        reachable=np.flatnonzero(found.reachable),
        unreachable=np.flatnonzero(~found.reachable),
        n_components=found.count,
        components=tuple(
            EndComponent(np.flatnonzero(found.labels == c), int(pairs[c]), bool(pairs[c] == all_pairs[c]))
            for c in largest
        ),
        passed=np.flatnonzero(found.labels >= found.count),
        mixing=_mixing(mdp.uniform, found, largest[0]),
        method=method,
        reason=reason,
        refusal=refusal,
    )


def _solver(problem: Problem) -> tuple[str, str, str]:
    """Who will solve a problem, why, and why not."""
    problem = problem.uniform
    try:
        apart = falls_apart(problem)
    except ProblemError as error:
        return "", "", str(error)
    if apart is not None:
        return ("multichain" if asks_for_the_mean(problem) else "split"), "", ""
    return *choose(open_backend(problem, "cpu")), ""


def _mixing(mdp: MDP, found: Components, c: int) -> Settling | None:
    """How fast the uniform policy of a component forgets where it is."""
    states = np.flatnonzero(found.labels == c)
    if states.size == 1:
        return None
    inner = found.internal & (found.labels[mdp.s_of] == c)
    part = mdp.within(states, np.flatnonzero(inner))
    most = int(np.clip(_WORK / part.P.nnz, _FEWEST_STEPS, _MOST_STEPS))
    return settling(part, uniform_policy(part), most)
