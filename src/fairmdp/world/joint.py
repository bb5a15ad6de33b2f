"""A small world as one problem: the states of all components together, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats, Ints
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.world.world import World

MOST_STATES = 1_000_000
_MOST_TRANSITIONS = 100_000_000


Members = Sequence[tuple[int, int]]  # block and row of every component


class _Part(NamedTuple):
    """Some of the components together."""

    P: csr_array  # (SA, S)
    s_of: Ints  # (SA,)
    uses: Floats  # (SA, K)
    pairs: Ints  # (SA, components), the pair of each component


def joint_problem(world: World) -> Problem:
    """The problem of all components together, whose policies keep capacity at every step."""
    members = [
        (b, i) for b, rows in enumerate(world.blocks) for i in range(rows.size) for _ in range(rows.number[i])
    ]
    sizes = [world.blocks[b].n_states for b, _ in members]
    states = float(np.prod([float(size) for size in sizes]))
    if states > MOST_STATES:
        raise ProblemError(
            f"{len(members)} components have {states:.3g} states together\n"
            f"  at most {MOST_STATES:.0e} are built; solve_world takes the world as it is"
        )
    whole = _part(world, *members[0])
    for b, i in members[1:]:
        whole = _together(whole, _part(world, b, i), world.capacity)
    models = [world.components[b].mdp for b, _ in members]
    rewards = np.zeros(whole.s_of.size)
    for c, (b, i) in enumerate(members):
        r = world.blocks[b].r
        rewards += r[i % len(r)][whole.pairs[:, c]]
    levels = np.indices(sizes).reshape(len(sizes), -1).T
    mdp = MDP(
        whole.P, rewards, whole.s_of,
        states=[_beside(map(MDP.state_name, models, row)) for row in levels.tolist()],
        actions=[_beside(map(MDP.action_name, models, row)) for row in whole.pairs.tolist()],
    )  # fmt: skip
    return Problem(
        mdp, [*_local_quotas(world, members, whole.pairs), *_group_quotas(world, members, whole.pairs)]
    )


def _part(world: World, b: int, i: int) -> _Part:
    rows, of = world.blocks[b], world.components[b]
    uses = rows.uses[i % len(rows.uses)]
    own = _Part(of.row_mdp(i).P, of.mdp.s_of, uses, np.arange(of.mdp.n_pairs)[:, None])
    return _kept(own, (uses <= world.capacity).all(axis=1))


def _kept(part: _Part, keep: Bools) -> _Part:
    return _Part(part.P[np.flatnonzero(keep)], part.s_of[keep], part.uses[keep], part.pairs[keep])


def _together(first: _Part, second: _Part, capacity: Floats) -> _Part:
    """Both parts side by side, without what needs more than there is."""
    a, b = (index.ravel() for index in np.indices((first.s_of.size, second.s_of.size)))
    uses = first.uses[a] + second.uses[b]
    fits = (uses <= capacity).all(axis=1)
    a, b, uses = a[fits], b[fits], uses[fits]
    S = second.P.shape[1]
    s_of = first.s_of[a] * S + second.s_of[b]
    order = np.argsort(s_of, kind="stable")
    a, b = a[order], b[order]
    lengths = np.diff(first.P.indptr)[a] * np.diff(second.P.indptr)[b]
    if lengths.sum() > _MOST_TRANSITIONS:
        raise ProblemError(
            f"the components have {lengths.sum():.3g} transitions together\n  take fewer of them"
        )
    entry = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    width = np.repeat(np.diff(second.P.indptr)[b], lengths)
    left = np.repeat(first.P.indptr[a], lengths) + entry // width
    right = np.repeat(second.P.indptr[b], lengths) + entry % width
    P = csr_array(
        (
            first.P.data[left] * second.P.data[right],
            first.P.indices[left].astype(np.int64) * S + second.P.indices[right],
            np.concatenate([[0], np.cumsum(lengths)]),
        ),
        shape=(a.size, first.P.shape[1] * S),
    )
    return _Part(P, s_of[order], uses[order], np.hstack([first.pairs[a], second.pairs[b]]))


def _local_quotas(world: World, members: Members, pairs: Ints) -> Iterator[Quota]:
    """Every component's own quotas, called by the component's name where there are several."""
    for c, (b, i) in enumerate(members):
        rows = world.blocks[b]
        name = world.components[b].row_name(i)
        if rows.number[i] > 1:
            name += f" #{c + 1}"
        for j, (quota, sign) in enumerate(world.sides):
            if np.isfinite(rows.owed[i, j]):
                counts = sign * rows.counts[i % len(rows.counts)][:, j]
                called = f"{world.quotas[quota].name} of {name}"
                yield _quota(called, counts[pairs[:, c]], sign, sign * float(rows.owed[i, j]))


def _group_quotas(world: World, members: Members, pairs: Ints) -> Iterator[Quota]:
    """Quotas that components have together."""
    for g, (quota, sign) in enumerate(world.group_sides):
        weights = np.zeros(len(pairs))
        for c, (b, i) in enumerate(members):
            rows = world.blocks[b]
            for layer in np.flatnonzero(rows.group_of[i] == g):
                weights += sign * rows.group_counts[i % len(rows.group_counts)][pairs[:, c], layer]
        yield _quota(world.groups[quota].name, weights, sign, sign * float(world.group_owed[g]))


def _quota(name: str, weights: Floats, sign: int, bound: float) -> Quota:
    called = f"{name}, {'at least' if sign > 0 else 'at most'}"
    low, high = (bound, None) if sign > 0 else (None, bound)
    if np.isin(weights, (0.0, 1.0)).all() and weights.any() and 0 <= bound <= 1:
        return Quota(called, pairs=weights == 1.0, at_least=low, at_most=high)
    return Quota(called, weights=weights, at_least=low, at_most=high)


def _beside(names: Iterable[str]) -> str:
    return " | ".join(names)
