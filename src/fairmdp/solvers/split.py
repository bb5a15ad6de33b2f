"""Models that fall apart: quotas that every run must meet, component after component.

Every run ends in some component, and has to be fair there. So each component is solved by itself, as a model
of its own, and what is left is to choose where to end (`solvers.quotient`). Only components that are worth it
are solved: what no policy exceeds in them is known beforehand from some value iterations ::

    repeat: stay or go, with what solved components are worth and bounds on the others
            solve the components in which it stays and which it reaches
    until all of them are solved
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from fairmdp.certificate import rounded_ends
from fairmdp.certificate.claim import certify_infeasible
from fairmdp.certificate.claim_ends import certify_ends
from fairmdp.certificate.facts import reward_scale
from fairmdp.chains.components import Components
from fairmdp.chains.policy import policy_of
from fairmdp.deadline import STOPS, Deadline, Stop, stop_of
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.solution.ends import Ends
from fairmdp.solution.solution import Note, Remark, Solution, Status
from fairmdp.solvers.parts import Part, Solve, solve_part
from fairmdp.solvers.quotient import Quotient

_SWEEPS = 200
_ROOMS = (1e-8, 1e-7, 1e-6)  # parts of a bound by which it is raised where rounding takes as much
_SINKS = (1.0, 1e3, 1e6, 1e9)  # spans of the rewards by which components without a fair policy are sunk


@dataclass(frozen=True)
class Tuning:
    """When components are solved before it is known that they matter."""

    rounds: int = 6  # after which all that are left are solved


USUAL = Tuning()


def solve_every_run(
    problem: Problem,
    found: Components,
    tol: float,
    solve: Solve,
    deadline: Deadline | None = None,
    tuning: Tuning = USUAL,
    patience: float | None = None,
) -> Solution:
    """Best policy of those whose every run meets the quotas, from where the model starts.

    Parameters
    ----------
    problem
        Model and quotas; steps are equally long.
    found
        The components of its model.
    tol
        Certified gap, relative to the span of the rewards, up to which the answer is called optimal.
    solve
        Solves a large component, as a problem of its own.
    deadline
        When no further component is solved.
    tuning
        See `Tuning`.
    patience
        Steps in which passages inside of a component are to be made once, as for `solvers.solve`.
    """
    deadline = deadline or Deadline(None)
    began, work = time.perf_counter(), _Work(problem, found)
    stopped = Stop.NOT
    trust = True  # what programs say of components; where that cannot be proved they are looked at
    for rounds in count(1):
        values, choice = work.quotient.best(work.worth)
        fair = work.quotient.worth(values) > -np.inf
        staying = (choice < 0) & work.quotient.seen(choice)
        todo = [c for c in np.flatnonzero(staying[: found.count]).tolist() if c not in work.parts]
        if not fair or not todo or stopped:
            counters = {
                "components": len(work.parts),
                "rounds": rounds,
                "seconds": time.perf_counter() - began,
            }
            account: dict[str, Any] = {
                "tol": tol,
                "method": "split",
                "counters": counters,
                "stopped": stopped,
            }
            solution = work.claim(choice, account) if fair else work.nothing_fair(account)
            todo = [c for c, part in work.parts.items() if part.taken_on_trust]
            if solution.status is Status.UNDECIDED and fair and not todo and not stopped:
                return _with_room(work, choice, solution, account, tol, solve, patience, deadline)
            if stopped or not todo or solution.status in (Status.OPTIMAL, Status.INFEASIBLE):
                return solution
            trust = False
        elif rounds > tuning.rounds:
            todo = [c for c in range(found.count) if c not in work.parts]
        try:
            for c in todo:
                deadline.check()
                limits: dict[str, Any] = {"patience": patience, "trust": trust, "bias": work.bias_in(c)}
                work.learn(c, solve_part(problem, *work.inside(c), tol, solve, **limits))
        except STOPS as stop:
            stopped = stop_of(stop)
    raise AssertionError("rounds are counted without end")


def _with_room(
    work: _Work,
    choice: Ints,
    unproved: Solution,
    account: dict[str, Any],
    tol: float,
    solve: Solve,
    patience: float | None,
    deadline: Deadline,
) -> Solution:
    """The same choice with quotas raised a little inside components, or the solution as it is.

    What is proved of runs from the start is a little less than what is proved of a component alone, and a
    policy that passes rarely between classes may miss its quotas by that much.
    """
    problem, staying = work.problem, (choice < 0) & work.quotient.seen(choice)
    bound = np.maximum(problem.at_least, np.where(problem.at_most < 1, problem.at_most, 0.0))
    for margin in _ROOMS:
        room = margin * (bound + 1e-3)
        low = np.where(problem.at_least > 0, np.minimum(problem.at_least + room, 1), 0)
        high = np.where(problem.at_most < 1, np.maximum(problem.at_most - room, 0), 1)
        if (low > high).any():
            break
        stricter = problem.with_bounds(low, high)
        for c in np.flatnonzero(staying[: work.found.count]).tolist():
            try:
                deadline.check()
            except STOPS:
                return unproved
            limits: dict[str, Any] = {"patience": patience, "bias": work.bias_in(c)}
            part = solve_part(stricter, *work.inside(c), tol, solve, **limits)
            if part.policy is not None:
                work.parts[c] = replace(work.parts[c], policy=part.policy, notes=part.notes)
        solution = work.claim(choice, account)
        if solution.status is not Status.UNDECIDED:
            return solution
    return unproved


class _Work:
    """What is known of the components."""

    def __init__(self, problem: Problem, found: Components) -> None:
        self.problem, self.found = problem, found
        self.quotient = Quotient.of(problem.mdp, found)
        self.parts: dict[int, Part] = {}
        self._states = groups(found.labels, found.count)
        self._pairs = groups(np.where(found.internal, found.labels[problem.mdp.s_of], -1), found.count)
        self._bias, upper = upper_values(problem.mdp, found)
        self._prices: dict[int, Floats] = {}
        self._bound = np.full(found.n_nodes, -np.inf)  # of what staying is worth, whatever is owed
        self._bound[: found.count] = upper
        self._upper = self._bound.copy()  # of what staying is worth, by any fair policy
        self.worth = self._bound.copy()  # of staying, as far as it is known

    def inside(self, c: int) -> tuple[Ints, Ints]:
        """States and pairs of a component."""
        return self._states[c], self._pairs[c]

    def bias_in(self, c: int) -> Floats:
        """Relative values of the states of a component."""
        return self._bias[self._states[c]]

    def learn(self, c: int, part: Part) -> None:
        """Keep what was found of a component."""
        self.parts[c], self.worth[c] = part, part.gain
        if part.upper < self._upper[c]:
            self._upper[c] = part.upper
            if part.upper > -np.inf:
                self._bias[self._states[c]], self._prices[c] = part.bias, part.prices

    def claim(self, choice: Ints, account: dict[str, Any], *notes: Note) -> Solution:
        """Claim what is proved of a policy that stays and goes as chosen."""
        bias, ends = self._witness()
        return certify_ends(
            self.problem, self._policy(choice), None, bias, np.zeros(self.problem.n_quotas), ends,
            **account, notes=(*dict.fromkeys(self._notes(choice)), *notes),
        )  # fmt: skip

    def nothing_fair(self, account: dict[str, Any]) -> Solution:
        """Claim that no policy is fair, or say that this could not be decided."""
        problem, nothing = self.problem, np.zeros(self.problem.n_quotas)
        at_rest = np.zeros(problem.mdp.n_pairs)
        bias, prices = self._sunk(1.0, np.zeros(problem.mdp.n_states), {})
        g = self.quotient.best(stay_ceilings(problem, self.found, at_rest, bias, prices))[0]
        ends = ends_of(self.quotient, self.found, g, prices)
        if rounded_ends.ceiling(problem, at_rest, bias, nothing, ends) < 0:
            return certify_infeasible(problem, bias, nothing, None, ends=ends, **account)
        values, choice = self.quotient.best(self._upper)
        if self.quotient.worth(values) == -np.inf:
            values, choice = self.quotient.best(self._bound)
        limit = any(part.in_the_limit for part in self.parts.values())
        return self.claim(choice, account, Note(Remark.ONLY_IN_THE_LIMIT if limit else Remark.AT_THE_EDGE))

    def _policy(self, choice: Ints) -> Floats:
        """Return the policy of the whole model, (SA,), that stays and goes as chosen."""
        policy = inner_policy(self.problem.mdp, self.found)
        for c, part in self.parts.items():
            if part.policy is not None:
                policy[self._pairs[c]] = part.policy
        for n in np.flatnonzero(choice >= 0).tolist():
            pair = int(self.quotient.pairs[choice[n]])
            lead(self.problem.mdp, policy, pair, self.inside(n) if n < self.found.count else None)
        return policy

    def _notes(self, choice: Ints) -> Iterator[Note]:
        dropped = int((self.found.labels < 0).sum())
        if dropped:
            yield Note(Remark.UNREACHABLE, dropped)
        seen = self.quotient.seen(choice)
        for c, part in self.parts.items():
            if seen[c] and choice[c] < 0:
                yield from part.notes

    def _witness(self) -> tuple[Floats, Ends]:
        """Relative values and labels that bound every fair policy, where components without one are sunk."""
        problem, found = self.problem, self.found
        span = reward_scale(problem)
        goal = self.quotient.worth(self.quotient.best(self._upper)[0])
        for sink in _SINKS:
            bias, prices = self._sunk((1 + sink) * span, self._bias, self._prices)
            g = self.quotient.best(stay_ceilings(problem, found, problem.mdp.r, bias, prices))[0]
            if self.quotient.worth(g) <= goal + 1e-9 * span:
                break
        return bias, ends_of(self.quotient, found, g, prices)

    def _sunk(self, depth: float, bias: Floats, prices: dict[int, Floats]) -> tuple[Floats, csr_array]:
        """Witness of components without a fair policy, scaled to bring them down so far, beside another."""
        problem, found, ruled_out = self.problem, self.found, np.zeros(self.problem.mdp.n_states)
        none = {c: part.prices for c, part in self.parts.items() if part.upper == -np.inf}
        for c in none:
            ruled_out[self._states[c]] = self.parts[c].bias
        alone = price_table(none, problem.n_quotas, found.n_nodes)
        at_rest = stay_ceilings(problem, found, np.zeros(problem.mdp.n_pairs), ruled_out, alone)
        bias, prices = bias.copy(), dict(prices)
        for c in none:
            scale = depth / max(-at_rest[c], 1e-300)
            bias[self._states[c]] = scale * ruled_out[self._states[c]]
            prices[c] = scale * none[c]
        return bias, price_table(prices, problem.n_quotas, found.n_nodes)


def ends_of(quotient: Quotient, found: Components, values: Floats, prices: csr_array) -> Ends:
    """Witness by nodes as one by states."""
    moves = quotient.best(np.where(np.arange(found.n_nodes) < found.count, 0.0, -np.inf), 1.0)[0]
    inside = found.labels >= 0
    g, w = (np.where(inside, numbers[found.labels], 0.0) for numbers in (values, moves))
    return Ends(components=found.labels, values=g, moves=w, component_prices=prices)


def stay_ceilings(problem: Problem, found: Components, r: Floats, bias: Floats, prices: csr_array) -> Floats:
    """``V_C = max_i [r + G' mu_C + P h - h] - b @ mu_C`` of each node, -inf where none stays, (nodes,)."""
    mdp, rows = problem.mdp, np.flatnonzero(found.internal)
    label = found.labels[mdp.s_of[rows]]
    values = r[rows] + mdp.P[rows] @ bias - bias[mdp.s_of[rows]]
    if prices.nnz:
        mu = prices.tocsc()[:, label]
        values = values + np.asarray((problem.members[:, rows].multiply(mu)).sum(axis=0)).ravel()
    top = np.full(found.n_nodes, -np.inf)
    np.maximum.at(top, label, values)
    each = prices.tocoo()
    bound = np.where(each.data > 0, problem.at_least[each.row], problem.at_most[each.row])
    return top - np.bincount(each.col, bound * each.data, minlength=found.n_nodes)


def price_table(columns: dict[int, Floats], n_quotas: int, n_nodes: int) -> csr_array:
    """Prices of the quotas in each node, (K, nodes)."""
    used = [(k, c, mu[k]) for c, mu in columns.items() for k in np.flatnonzero(mu).tolist()]
    rows, cols, data = (np.array([entry[j] for entry in used]) for j in range(3))
    shape = n_quotas, n_nodes
    if not used:
        return csr_array(shape)
    return csr_array((data, (rows.astype(int), cols.astype(int))), shape=shape)


def upper_values(mdp: MDP, found: Components, sweeps: int = _SWEEPS) -> tuple[Floats, Floats]:
    """Relative values by value iteration in all components at once, (S,), and what they bound, (C,)."""
    h, top = np.zeros(mdp.n_states), np.zeros(found.count)
    rows = np.flatnonzero(found.internal)
    if not rows.size:
        return h, top
    s_of, P, r = mdp.s_of[rows], mdp.P[rows], mdp.r[rows]
    starts = np.flatnonzero(np.diff(s_of, prepend=-1))
    states = s_of[starts]
    label = found.labels[states]
    first = np.full(found.count, -1)
    first[label[::-1]] = np.arange(states.size)[::-1]
    for sweep in range(sweeps + 1):
        best = np.maximum.reduceat(r + P @ h, starts)
        if sweep == sweeps:
            break
        new = 0.9 * (best - best[first][label]) + 0.1 * h[states]
        still = float(np.abs(new - h[states]).max()) == 0.0
        h[states] = new
        if still:
            break
    top = np.full(found.count, -np.inf)
    np.maximum.at(top, label, np.maximum.reduceat(r + P @ h, starts) - h[states])
    return h, top


def inner_policy(mdp: MDP, found: Components) -> Floats:
    """Return the uniform policy on the pairs of the components, and elsewhere on all, (SA,)."""
    usable = found.internal.copy()
    usable[~np.isin(mdp.s_of, mdp.s_of[found.internal])] = True
    counts = np.add.reduceat(usable, mdp.pair_ptr[:-1], dtype=float)
    return usable / counts[mdp.s_of]


def lead(mdp: MDP, policy: Floats, pair: int, component: tuple[Ints, Ints] | None) -> None:
    """Let a policy, in place, go from everywhere in a component to the state of a pair, and take it."""
    s = int(mdp.s_of[pair])
    if component is not None and component[0].size > 1:
        states, pairs = component
        inner = mdp.within(states, pairs)
        goal = np.zeros(pairs.size)
        goal[inner.pair_ptr[np.searchsorted(states, s)]] = 1.0
        policy[pairs] = policy_of(inner, goal)
    policy[mdp.pair_ptr[s] : mdp.pair_ptr[s + 1]] = 0.0
    policy[pair] = 1.0


def groups(labels: Ints, count: int) -> Sequence[Ints]:
    """Places of each label from 0 to below count, in order."""
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(count + 1))
    return [order[a:b] for a, b in pairwise(ends.tolist())]
