"""Large models that fall apart: quotas of the mean over runs, by columns on two levels.

A policy that chooses for each component one of the stays found so far there, and where to stay or go, is a
column of a master program that mixes policies (`solvers.columns`). At its prices ``mu`` of the quotas the
best such policy is found on the nodes of the model (`solvers.quotient`), which takes no look at its states,
until none is left to add. Then value iteration in all components at once, for rewards ``r + G.T mu``, finds
better stays, and what none exceeds: with the best stay or go, a ceiling. So the many choices of components
are combined cheaply, and states are looked at a few times only. Quotas of every run are rows for
`backends.ends_lp`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from fairmdp.certificate.facts import reward_scale
from fairmdp.chains.components import Components
from fairmdp.chains.policy import policy_of
from fairmdp.chains.side_by_side import distributions
from fairmdp.chains.structure import closed_classes
from fairmdp.deadline import Deadline
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.solvers.columns import PENALTIES, Column, Mixture
from fairmdp.solvers.prices import dual_value, price_box
from fairmdp.solvers.quotient import Quotient
from fairmdp.solvers.split import groups, inner_policy, lead

_BROKEN = 1e-10  # of all quotas together: less is rounding


@dataclass(frozen=True)
class Tuning:
    """How long is searched, and how well components are solved on the way."""

    rounds: int = 60  # of value iteration, for each penalty
    mixtures: int = 200  # policies made of known stays, in one round
    sweeps: int = 4000  # of value iteration in one round
    look: int = 25  # of them between two looks at how far they are
    care: float = 0.05  # accuracy of a round, in gaps
    enough: float = 0.2  # part of the gap that may be left between known stays
    damping: float = 0.9


USUAL = Tuning()


class Stays(NamedTuple):
    """A policy for each component: where it stays, and what that is worth."""

    pairs: Ints  # that are used there
    parts: Floats  # of the time in the component, (pairs,)
    component: Ints  # (pairs,)
    gain: Floats  # (C,)
    shares: Floats  # (K, C)


class Choice(NamedTuple):
    """A policy: which of the stays found so far in each component, and where it is left."""

    stay: Ints  # (C,)
    move: Ints  # (nodes,), as of `Quotient.best`


class Found(NamedTuple):
    """A mixture of policies, and the witness of a ceiling."""

    policies: Floats  # (M, SA)
    weights: Floats  # (M,)
    h: Floats  # (S,)
    mu: Floats  # (K,)
    met: bool  # whether the mixture meets the quotas
    counters: Mapping[str, float]


class EndsColumns:
    """The best mixture of policies under quotas of the mean over runs.

    Parameters
    ----------
    problem, found
        The model and its quotas, none of which is of every run, and its components.
    tol
        Gap, relative to the span of the rewards, at which the search may end.
    deadline
        When to stop.
    give_way
        Whether to look for the least by which quotas are missed, instead of the most that can be earned.
    """

    def __init__(
        self,
        problem: Problem,
        found: Components,
        *,
        tol: float,
        deadline: Deadline,
        give_way: bool = False,
        tuning: Tuning = USUAL,
    ) -> None:
        self._problem, self._found, self._tuning, self._deadline = problem, found, tuning, deadline
        self._quotient = Quotient.of(problem.mdp, found)
        self._scale = 1.0 if give_way else reward_scale(problem)
        self._r = (0.0 if give_way else 1 / self._scale) * problem.mdp.r
        self._penalties = (1.0,) if give_way else PENALTIES
        self._tol, self._bounds = tol / 2, price_box(problem)
        self._inside = _Inside.of(problem, found)
        self._h = np.zeros(problem.mdp.n_states)
        self._best = np.inf, np.zeros(problem.n_quotas), self._h  # a ceiling, its prices and values
        self._master = Mixture(*self._bounds)
        self._stays: list[Stays] = []
        self._choices: list[Choice] = []
        self._move: Ints | None = None  # where to stay and go, as it was found last
        self._rounds = 0

    def run(self) -> Found:
        """Search until the gap is closed, or nothing better is found."""
        for penalty in self._penalties:
            self._master.penalty = penalty
            broken = self._search()
            if broken <= _BROKEN:
                break
        _, mu, h = self._best
        used = np.flatnonzero(self._weights > 0)
        used = used[np.argsort(-self._weights[used], kind="stable")]
        weights = self._weights[used] / self._weights[used].sum()
        policies = np.array([self._policy(self._choices[j]) for j in used.tolist()])
        counters = {"columns": len(self._choices), "rounds": self._rounds}
        return Found(policies, weights, h * self._scale, mu * self._scale, broken <= _BROKEN, counters)

    def _search(self) -> float:
        """Look for stays and mix them; returns how much of the quotas is broken."""
        mu, gap, care = self._best[1], 1.0, self._tuning.care
        for _ in range(self._tuning.rounds):
            self._rounds += 1
            top, stays = self._oracle(mu, max(care * gap, 0.2 * self._tol))
            upper = self._staying_or_going(top)[0] - dual_value(mu, *self._bounds)
            if upper < self._best[0]:
                self._best = upper, mu, self._h.copy()
            self._stays.append(stays)
            value, inner, broken = self._mix(mu, gap)
            before, gap = gap, self._best[0] - value
            if gap <= self._tol:
                break
            if gap > 0.999 * before and np.array_equal(inner, mu):
                if care < 1e-3:
                    break
                care /= 8
            # Half way to the best prices keeps them from swinging; where that brought nothing, it is left.
            mu = (inner + self._best[1]) / 2 if gap < 0.9 * before else inner
        return broken

    def _mix(self, mu: Floats, gap: float) -> tuple[float, Floats, float]:
        """Mix the stays that are known: value, prices at which they are worth the least, what is broken."""
        least, best = np.inf, mu
        for _ in range(self._tuning.mixtures):
            self._deadline.check()
            upper = self._combine(mu)
            if upper < least:
                least, best = upper, mu
            value, outer, self._weights, broken = self._master.solve()
            if least - value <= max(self._tuning.enough * (self._best[0] - value), 0.2 * self._tol):
                break
            known = np.array_equal(mu, outer)
            if known and upper > least - 1e-13:
                break
            mu = outer if upper > least else (outer + best) / 2
        return value, best, broken

    def _combine(self, mu: Floats) -> float:
        """Add the best policy made of known stays at some prices; what none of them exceeds."""
        gains = np.array([stays.gain for stays in self._stays])  # (stays, C)
        shares = np.array([stays.shares for stays in self._stays])  # (stays, K, C)
        worth = gains + np.einsum("k,jkc->jc", mu, shares)
        stay, C = np.argmax(worth, axis=0), np.arange(self._found.count)
        value, move = self._staying_or_going(worth[stay, C])
        mass = np.where(move < 0, self._quotient.reached(move), 0.0)[: C.size]
        self._choices.append(Choice(stay, move))
        self._master.add(Column(None, None, shares[stay, :, C].T @ mass, float(gains[stay, C] @ mass), 0.0))
        return value - dual_value(mu, *self._bounds)

    def _staying_or_going(self, worth: Floats) -> tuple[float, Ints]:
        """Value from the start and choices in the nodes, where staying in components is worth so much."""
        nowhere = np.full(self._found.n_nodes - worth.size, -np.inf)
        values, self._move = self._quotient.best(np.append(worth, nowhere), begin=self._move)
        return self._quotient.worth(values), self._move

    def _oracle(self, mu: Floats, tol: float) -> tuple[Floats, Stays]:
        """What no policy exceeds in each component at some prices, (C,), and policies that come near."""
        inside, tuning = self._inside, self._tuning
        r = (self._r + self._problem.members.T @ mu)[inside.pairs]
        h = self._h[inside.states]
        for sweep in range(tuning.sweeps):
            values = r + inside.P @ h
            best = np.maximum.reduceat(values, inside.first)
            error = best - h
            if sweep % tuning.look == 0:
                self._deadline.check()
                top, low = inside.ends_of(error)
                if float((top - low).max()) <= tol:
                    break
            h = h + tuning.damping * error
            h -= h[inside.pin][inside.component]
        top, _ = inside.ends_of(error)
        self._h[inside.states] = h
        return top, self._staying(r, values)

    def _staying(self, raised: Floats, values: Floats) -> Stays:
        """The policies that values call for, each in its best class."""
        inside, problem = self._inside, self._problem
        order = np.lexsort((values, inside.state))
        choice = order[np.append(inside.first[1:], values.size) - 1]  # the last of each state's run
        chain = inside.P[choice]
        classes = closed_classes(chain)
        ptr = np.cumsum([0, *map(len, classes)])
        states = np.concatenate(classes)
        nu = distributions(chain[states][:, states], ptr)
        used = choice[states]
        earned = np.add.reduceat(raised[used] * nu, ptr[:-1])
        of = inside.component[states[ptr[:-1]]]
        last = np.lexsort((earned, of))
        kept = last[np.flatnonzero(np.diff(of[last], append=-1))]  # the best class of each component
        stayed = np.repeat(np.isin(np.arange(len(classes)), kept), np.diff(ptr))
        pairs, parts = inside.pairs[used[stayed]], nu[stayed]
        component = inside.component[states[stayed]]
        C = self._found.count
        spent = csr_array((parts, (pairs, component)), shape=(problem.mdp.n_pairs, C))
        gain = np.bincount(component, self._r[pairs] * parts, C).astype(float)
        return Stays(pairs, parts, component, gain, (problem.members @ spent).toarray())

    def _policy(self, choice: Choice) -> Floats:
        """The policy of a choice, (SA,)."""
        mdp, found, inside = self._problem.mdp, self._found, self._inside
        policy, x = inner_policy(mdp, found), np.zeros(mdp.n_pairs)
        staying = choice.move[: found.count] < 0
        for j in np.unique(choice.stay).tolist():
            stays = self._stays[j]
            here = (staying & (choice.stay == j))[stays.component]
            x[stays.pairs[here]] = stays.parts[here]
        within = staying[inside.component][inside.state]
        policy[inside.pairs[within]] = policy_of(inside.mdp, x[inside.pairs])[within]
        for n in np.flatnonzero(choice.move >= 0).tolist():
            component = (self._groups[0][n], self._groups[1][n]) if n < found.count else None
            lead(mdp, policy, int(self._quotient.pairs[choice.move[n]]), component)
        return policy

    @cached_property
    def _groups(self) -> tuple[Sequence[Ints], Sequence[Ints]]:
        """States and pairs of each component."""
        mdp, found = self._problem.mdp, self._found
        label = np.where(found.internal, found.labels[mdp.s_of], -1)
        return groups(found.labels, found.count), groups(label, found.count)


@dataclass(frozen=True, eq=False)
class _Inside:
    """Pairs that stay in components, and their states, in the order of the pairs."""

    pairs: Ints  # (n,)
    state: Ints  # (n,), place of their state
    first: Ints  # (s,), of the pairs of each state
    states: Ints  # (s,)
    component: Ints  # (s,)
    pin: Ints  # (C,), place of a state of each component
    P: csr_array  # (n, s)

    @classmethod
    def of(cls, problem: Problem, found: Components) -> _Inside:
        mdp = problem.mdp
        pairs = np.flatnonzero(found.internal)
        first = np.flatnonzero(np.diff(mdp.s_of[pairs], prepend=-1))
        states = mdp.s_of[pairs[first]]
        place = np.zeros(mdp.n_states, np.int64)
        place[states] = np.arange(states.size)
        rows = mdp.P[pairs]
        if not rows.data.all():
            rows.eliminate_zeros()
        P = csr_array((rows.data, place[rows.indices], rows.indptr), shape=(pairs.size, states.size))
        component = found.labels[states]
        pin = np.zeros(found.count, np.int64)
        pin[component[::-1]] = np.arange(states.size)[::-1]
        return cls(pairs, place[mdp.s_of[pairs]], first, states, component, pin, P)

    @cached_property
    def mdp(self) -> MDP:
        """The components by themselves, as one model."""
        return MDP(self.P, np.zeros(self.pairs.size), self.state)

    @cached_property
    def _by_component(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.component, kind="stable")
        return order, np.flatnonzero(np.diff(self.component[order], prepend=-1))

    def ends_of(self, values: Floats) -> tuple[Floats, Floats]:
        """Largest and smallest value in each component, (C,) each."""
        order, starts = self._by_component
        ordered = values[order]
        return np.maximum.reduceat(ordered, starts), np.minimum.reduceat(ordered, starts)
