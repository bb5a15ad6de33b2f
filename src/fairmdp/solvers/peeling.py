"""From an occupancy and moves to stationary policies, one of which is drawn at the start of a run.

What a program says of a model that falls apart may stay in a node and leave it as well, which no stationary
policy does: a run that stays is a different run. Let each node choose the way that carries the most, be it
to stay in one class or to make one move; the policy that does so takes all with it that its least used way
allows, and what is left is again a flow. So after as many rounds as there are ways nothing is left [1]_.
Of these policies the best mixture is chosen, one more than quotas of the mean that bind at most.

References
----------
.. [1] Altman, *Constrained Markov Decision Processes*, Chapman & Hall 1999, Chapter 9: transient models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairmdp.backends.highs import Program, linear_program
from fairmdp.chains.chain import Chain
from fairmdp.chains.components import Components
from fairmdp.chains.policy import policy_of
from fairmdp.deadline import Deadline
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.problem import Problem
from fairmdp.solvers.quotient import STAY, Quotient
from fairmdp.solvers.split import groups, inner_policy, lead

_NOTHING = 1e-11  # expected visits and probabilities that are left alone
_MET = 1e-10  # by how much a class may miss a quota of every run
_SCALE = 1e3  # of the rows of the small program: HiGHS's tolerance is absolute
_AT_LEAST = 1e-9  # weight of a policy of a mixture


class Way(NamedTuple):
    """A way to stay in a component: in one class of states."""

    policy: Floats  # (pairs of the component,)
    mass: float
    occupancy: Floats  # (pairs of the component,), sums to 1


@dataclass(frozen=True, eq=False)
class Stays:
    """How a program stays in the components, and which of them it could not stay in by one class."""

    ways: dict[int, list[Way]]
    split: tuple[int, ...]  # components whose classes do not meet the quotas of every run by themselves


def stays_of(problem: Problem, found: Components, x: Floats, owed: Ints) -> Stays:
    """Read the ways to stay off an occupancy; `owed` are the quotas of every run."""
    states, pairs = _insides(problem, found)
    ways, split = {}, []
    mass = np.bincount(found.labels[problem.mdp.s_of[found.internal]], x[found.internal], found.count)
    for c in np.flatnonzero(mass > _NOTHING).tolist():
        inner = problem.mdp.within(states[c], pairs[c])
        inside = x[pairs[c]]
        policy = policy_of(inner, inside)
        chain = Chain.of(inner, policy)
        found_here = []
        for members, nu in zip(chain.closed_classes, chain.stationary, strict=True):
            at = np.isin(inner.s_of, members)
            share = float(inside[at].sum())
            if share <= _NOTHING:
                continue
            own = policy if len(chain.closed_classes) == 1 else policy_of(inner, np.where(at, inside, 0.0))
            found_here.append(Way(own, share, policy * nu[inner.s_of]))
        ways[c] = found_here
        if len(found_here) > 1 and not all(
            _meets(problem, pairs[c], way.occupancy, owed) for way in found_here
        ):
            split.append(c)
    return Stays(ways, tuple(split))


def _insides(problem: Problem, found: Components) -> tuple[list[Ints], list[Ints]]:
    label = np.where(found.internal, found.labels[problem.mdp.s_of], -1)
    return list(groups(found.labels, found.count)), list(groups(label, found.count))


def _meets(problem: Problem, pairs: Ints, occupancy: Floats, owed: Ints) -> bool:
    shares = problem.members[owed][:, pairs] @ occupancy
    return bool(
        (shares >= problem.at_least[owed] - _MET).all() and (shares <= problem.at_most[owed] + _MET).all()
    )


class Peeled(NamedTuple):
    """Stationary policies, and what each earns and gives to the quotas."""

    policies: Floats  # (M, SA)
    gains: Floats  # (M,)
    shares: Floats  # (M, K)


def peel(
    problem: Problem, found: Components, quotient: Quotient, stays: Stays, y: Floats, otherwise: Ints
) -> Peeled:
    """Policies whose mixtures make up a flow; `otherwise` is the choice of nodes that carry nothing."""
    mdp, inside = problem.mdp, _insides(problem, found)
    moved = y[quotient.pairs].copy()
    left = {c: [way.mass for way in ways] for c, ways in stays.ways.items()}
    policies, gains, shares = [], [], []
    remaining = 1.0
    for _ in range(moved.size + sum(map(len, left.values())) + 1):
        choice, way = _heaviest(quotient, moved, left, stays, otherwise)
        visits = quotient.reached(choice)
        used = visits > _NOTHING
        going = used & (choice >= 0)
        part = np.full(visits.size, np.inf)
        part[going] = moved[choice[going]] / visits[going]
        for c in np.flatnonzero(used & (choice < 0)).tolist():
            if c in way and left[c][way[c]] > 0:
                part[c] = left[c][way[c]] / visits[c]
        carried = part > 0
        weight = min(float(part[carried].min(initial=np.inf)), remaining)
        policies.append(_policy(problem, found, quotient, stays, inside, choice, way))
        x = np.zeros(mdp.n_pairs)
        for c in np.flatnonzero(used & (choice < 0)).tolist():
            if c in way:
                x[inside[1][c]] = visits[c] * stays.ways[c][way[c]].occupancy
        gains.append(float(mdp.r @ x))
        shares.append(problem.members @ x)
        remaining -= weight
        if remaining <= _NOTHING:
            break
        moved[choice[going]] = np.maximum(moved[choice[going]] - weight * visits[going], 0.0)
        for c in np.flatnonzero(used & (choice < 0)).tolist():
            if c in way:
                left[c][way[c]] = max(left[c][way[c]] - weight * visits[c], 0.0)
        _forget(moved, left)
    return Peeled(np.array(policies), np.array(gains), np.array(shares).reshape(len(gains), -1))


def _forget(moved: Floats, left: dict[int, list[float]]) -> None:
    """Drop what rounding has left."""
    moved[moved <= _NOTHING] = 0.0
    for c, masses in left.items():
        left[c] = [mass if mass > _NOTHING else 0.0 for mass in masses]


def _heaviest(
    quotient: Quotient, moved: Floats, left: dict[int, list[float]], stays: Stays, otherwise: Ints
) -> tuple[Ints, dict[int, int]]:
    """Return the choice of each node and, where it stays, the way in which it does."""
    choice = otherwise.copy()
    way = {c: 0 for c in stays.ways}
    best = np.zeros(quotient.n_nodes)
    order = np.argsort(moved, kind="stable")
    order = order[moved[order] > 0]
    choice[quotient.node_of[order]] = order  # the last one, which is the largest
    best[quotient.node_of[order]] = moved[order]
    for c, masses in left.items():
        j = int(np.argmax(masses))
        way[c] = j
        if masses[j] > 0 and masses[j] >= best[c]:
            choice[c] = STAY
    return choice, way


def _policy(
    problem: Problem,
    found: Components,
    quotient: Quotient,
    stays: Stays,
    inside: tuple[list[Ints], list[Ints]],
    choice: Ints,
    way: dict[int, int],
) -> Floats:
    policy = inner_policy(problem.mdp, found)
    for c, j in way.items():
        policy[inside[1][c]] = stays.ways[c][j].policy
    for n in np.flatnonzero(choice >= 0).tolist():
        component = (inside[0][n], inside[1][n]) if n < found.count else None
        lead(problem.mdp, policy, int(quotient.pairs[choice[n]]), component)
    return policy


def best_mixture(problem: Problem, peeled: Peeled, deadline: Deadline) -> Floats | None:
    """Weights of the policies, (M,), that meet the quotas of the mean and earn the most."""
    M = peeled.gains.size
    asked = np.flatnonzero(problem.expected & ((problem.at_least > 0) | (problem.at_most < 1)))
    rows = np.vstack([np.ones(M), peeled.shares[:, asked].T]) * _SCALE
    low = np.append(1.0, problem.at_least[asked]) * _SCALE
    high = np.append(1.0, problem.at_most[asked]) * _SCALE
    miss = np.hstack([np.zeros((2 * asked.size, 1)), np.vstack([np.eye(asked.size), -np.eye(asked.size)])])
    matrix = np.hstack(
        [rows, miss.T * _SCALE]
    )  # what misses a bound is allowed at a price: rounding may have to
    size = float(np.ptp(peeled.gains)) or 1.0
    cost = np.concatenate([peeled.gains / size, np.full(2 * asked.size, -1e6)])
    program = Program(linear_program(-cost, matrix, low, high), "simplex", deadline)
    if not program.solve():
        return None
    weights = program.point.columns[:M]
    weights = np.where(weights > _AT_LEAST, weights, 0.0)
    return weights / weights.sum()
