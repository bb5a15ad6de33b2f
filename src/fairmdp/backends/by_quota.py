"""What the per-state solver runs on: states and pairs ordered by quota, and the array functions.

States that share a quota are a group, and so is any other state by itself; groups are runs of states.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fairmdp.model.checks import Bools, Floats, Ints, count_of, refuse
from fairmdp.model.problem import Problem

ADVICE = 'solve_proximal takes at_least over disjoint sets of states; use method "lp"'


ROUNDS = 200  # most Newton rounds of a threshold: each adds a breakpoint, a handful is usual


class Model(NamedTuple):
    """A model in the order of its groups."""

    indptr: Ints  # (SA + 1,)
    indices: NDArray[np.int32]  # (nnz,)
    data: Floats  # (nnz,)
    pairs: Ints  # (S + 1,), first pair of each state
    groups: Ints  # (G + 1,), first state of each group
    w: Floats  # (S,), weights, sum 1


class Place(NamedTuple):
    """A problem in the order of its layout, where the kernel set works."""

    model: Model
    r: Floats  # (SA,), rewards from 0 to 1
    s_of: Ints  # (SA,), place of the state of each pair
    uniform: Floats  # (SA,), the uniform policy
    rho: Floats  # (G,)


class KernelSet(Protocol):
    """The array functions that the method is written in; `backends.cpu.proximal` documents them."""

    def put(self, array: Any) -> Any: ...

    def get(self, array: Any) -> Any: ...

    def scratch_for(self, model: Model) -> Any: ...

    def advantages(self, model: Model, r: Floats, h: Floats, out: Floats) -> None: ...

    def project(
        self, model: Model, scratch: Any, centre: Floats, q: Floats, u: Floats, step: float,
        sigma: float, c: Floats, lam: float, z: Floats, theta: Floats,
    ) -> tuple[float, float]: ...  # fmt: skip

    def flow(self, model: Model, z: Floats, out: Floats) -> tuple[float, float]: ...

    def direction(
        self, model: Model, scratch: Any, z: Floats, loose: Bools, g: Floats, damping: Floats,
        tol: float, most: int, d: Floats,
    ) -> int: ...  # fmt: skip

    def resist(self, model: Model, pull: float, start: Floats, h: Floats, g: Floats) -> float: ...

    def along(
        self, model: Model, pull: float, start: Floats, h: Floats, g: Floats, d: Floats
    ) -> tuple[float, float, float, float]: ...

    def advance(
        self, model: Model, step: float, d: Floats, u: Floats, common: float, radius: float, h: Floats,
        q: Floats, extra: Floats,
    ) -> None: ...  # fmt: skip

    def distance(self, model: Model, z: Floats, centre: Floats) -> float: ...

    def tops(self, model: Model, q: Floats, out: Floats) -> None: ...

    def sweep(self, model: Model, r: Floats, level: Floats, h: Floats, times: int) -> None: ...

    def policy(self, model: Model, z: Floats, q: Floats, out: Floats) -> None: ...

    def stationary(
        self, model: Model, scratch: Any, pi: Floats, nu: Floats, tol: float, most: int
    ) -> float: ...

    def visits(self, model: Model, x: Floats, out: Floats) -> None: ...

    def shares(self, model: Model, nu: Floats, out: Floats) -> None: ...


class Layout(NamedTuple):
    """Places of states and pairs once the states of a quota are neighbours."""

    states: Ints  # (S,), state at each place
    pairs: Ints  # (SA,), pair at each place
    groups: Ints  # (G + 1,), first place of each group
    rho: Floats  # (G,), share owed to each group, 0 for a state by itself
    group_of: Ints  # (K,), group of each quota, -1 where it asks for nothing


def obstacle(problem: Problem) -> tuple[str, str] | None:
    """What stands in the way of ordering the states by quota, and how often, or None."""
    mdp, owed = problem.mdp, problem.at_least > 0
    S, K = mdp.n_states, problem.n_quotas
    capped = problem.at_most < 1
    for bad, has, what in ((problem.weighted, "has weights", "weighted"), (capped, "has a cap", "capped")):
        if bad.any():
            k = int(np.argmax(bad))
            cap = f", at_most {problem.at_most[k]:.12g}" if what == "capped" else ""
            return f"quota {problem.names[k]} {has}{cap}", f"{count_of(bad.sum(), K, 'quotas')} {what}"
    pairs, quota = _owed_pairs(problem, owed)
    times = np.bincount(pairs, minlength=mdp.n_pairs)
    if times.max() > 1:
        i = int(np.argmax(times))
        first, second = (problem.names[k] for k in quota[pairs == i][:2])
        held = f"both hold {mdp.pair_text(i)}"
        return f"quotas {first} and {second} overlap", (
            f"{held}; {count_of((times > 1).sum(), times.size, 'pairs')} in several"
        )
    quota_of = _quota_of(problem, pairs, quota)
    ends = mdp.pair_ptr[:-1]
    split = np.minimum.reduceat(quota_of, ends) < np.maximum.reduceat(quota_of, ends)
    if split.any():
        s = int(np.argmax(split))
        k = int(quota_of[ends[s] : mdp.pair_ptr[s + 1]].max())
        return (
            f"quota {problem.names[k]} holds some actions of state {mdp.state_name(s)} and not others",
            f"{count_of(split.sum(), S, 'states')} split",
        )
    return None


def layout(problem: Problem) -> Layout:
    """Order the states by quota, or refuse quotas for which there is no such order."""
    wrong = obstacle(problem)
    if wrong is not None:
        refuse(*wrong, ADVICE)
    owed = _owed_pairs(problem, problem.at_least > 0)
    return _grouped(problem, _quota_of(problem, *owed)[problem.mdp.pair_ptr[:-1]])


def _owed_pairs(problem: Problem, owed: Bools) -> tuple[Ints, Ints]:
    """Pairs that quotas which ask for something hold, and the number of each one's quota."""
    quota = np.repeat(np.arange(problem.n_quotas), np.diff(problem.members.indptr))
    counted = owed[quota]
    return problem.members.indices[counted], quota[counted]


def _quota_of(problem: Problem, pairs: Ints, quota: Ints) -> Ints:
    """Quota of each pair, (SA,), -1 for none."""
    quota_of = np.full(problem.mdp.n_pairs, -1)
    quota_of[pairs] = quota
    return quota_of


def _grouped(problem: Problem, quota_of: Ints) -> Layout:
    """Layout of states with the given quotas, -1 for none: each group stands where its first state was."""
    mdp = problem.mdp
    S, K = mdp.n_states, problem.n_quotas
    places = np.arange(S)
    head = np.full(K, S)
    np.minimum.at(head, quota_of[quota_of >= 0], places[quota_of >= 0])
    key = places if K == 0 else np.where(quota_of >= 0, head[quota_of], places)
    states = np.argsort(key, kind="stable")
    groups = np.concatenate([[0], np.flatnonzero(np.diff(key[states])) + 1, [S]])
    quota = quota_of[states[groups[:-1]]]  # (G,)
    rho = np.zeros(quota.size) if K == 0 else np.where(quota >= 0, problem.at_least[quota], 0.0)
    group_of = np.full(K, -1)
    group_of[quota[quota >= 0]] = np.flatnonzero(quota >= 0)
    counts = mdp.n_actions[states]
    before = np.cumsum(counts) - counts
    pairs = np.repeat(mdp.pair_ptr[states] - before, counts) + np.arange(mdp.n_pairs)
    return Layout(states, pairs, groups, rho, group_of)


def model(problem: Problem, order: Layout) -> Model:
    """The transitions in the order of the layout, with an even weight for every state."""
    mdp = problem.mdp
    S = mdp.n_states
    place = np.empty(S, np.int32)
    place[order.states] = np.arange(S, dtype=np.int32)
    P = mdp.P if (np.diff(order.pairs) == 1).all() else mdp.P[order.pairs]
    return Model(
        indptr=P.indptr.astype(np.int64),
        indices=place[P.indices],
        data=P.data.copy(),
        pairs=np.concatenate([[0], np.cumsum(mdp.n_actions[order.states])]).astype(np.int64),
        groups=order.groups.astype(np.int64),
        w=np.full(S, 1 / S),
    )


def place(problem: Problem, order: Layout, r: Floats, kernels: KernelSet) -> Place:
    """Bring a problem with rewards r between 0 and 1, (SA,), to a kernel set."""
    mdp, put = problem.mdp, kernels.put
    counts = mdp.n_actions[order.states]
    s_of = np.repeat(np.arange(mdp.n_states), counts)
    return Place(
        Model(*map(put, model(problem, order))),
        put(r[order.pairs]),
        put(s_of),
        put(1.0 / counts[s_of]),
        put(order.rho),
    )
