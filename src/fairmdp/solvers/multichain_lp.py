"""Models that fall apart: quotas of the mean over runs and of every run at once, by one linear program.

The mean over runs may be met by runs that end differently, so that its best policy is a mixture, of which
each run follows one policy. `backends.ends_lp` has the program, `solvers.peeling` reads the mixture off.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from fairmdp.backends.ends_lp import EndsAnswer, EndsLP
from fairmdp.certificate import rounded_ends
from fairmdp.certificate.claim import certify_infeasible, certify_policy
from fairmdp.certificate.claim_ends import certify_ends
from fairmdp.certificate.facts import reward_scale
from fairmdp.chains.chain import Chain
from fairmdp.chains.components import Components
from fairmdp.chains.policy import policy_of, uniform_policy
from fairmdp.deadline import STOPS, Deadline, Stop, stop_of
from fairmdp.model.checks import Floats
from fairmdp.model.problem import Problem
from fairmdp.solution.ends import Ends
from fairmdp.solution.solution import Note, Remark, Solution, Status
from fairmdp.solvers.apart import require_start
from fairmdp.solvers.ends_columns import EndsColumns
from fairmdp.solvers.parts import owed_in_every_run
from fairmdp.solvers.passages import Split, connect_by_passages
from fairmdp.solvers.peeling import Stays, best_mixture, peel, stays_of
from fairmdp.solvers.quotient import Quotient
from fairmdp.solvers.split import ends_of, groups, inner_policy, stay_ceilings, upper_values

_MARGINS = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


@dataclass(frozen=True)
class Tuning:
    """Which program is solved for which size."""

    program_pairs: int = 6000  # up to here all of it is; columns take the others, but for quotas of every run


USUAL = Tuning()


def solve_multichain_lp(
    problem: Problem,
    found: Components,
    tol: float,
    deadline: Deadline | None = None,
    patience: float | None = None,
    tuning: Tuning = USUAL,
) -> Solution:
    """Best mixture of policies under quotas of the mean over runs and of every run, exactly.

    Parameters
    ----------
    problem
        Model and quotas; steps are equally long. The program has SA columns.
    found
        The components of its model.
    tol
        Certified gap, relative to the span of the rewards, up to which the answer is called optimal.
    deadline
        When HiGHS is to stop.
    patience
        Steps in which passages inside of a component are to be made once, as for `solvers.solve`.
    tuning
        See `Tuning`.
    """
    require_start(problem, found)
    search = _Search(problem, found, tol, deadline or Deadline(None), patience, tuning)
    try:
        return search.run()
    except STOPS as stop:
        return search.cut_off(stop_of(stop))


class _Witness(NamedTuple):
    bias: Floats
    mu: Floats
    ends: Ends
    staying: Floats  # (nodes,), what that is worth at most


class _Search:
    def __init__(
        self,
        problem: Problem,
        found: Components,
        tol: float,
        deadline: Deadline,
        patience: float | None,
        tuning: Tuning,
    ) -> None:
        self._problem, self._found, self._tuning = problem, found, tuning
        self._deadline, self._patience = deadline, patience
        self._quotient = Quotient.of(problem.mdp, found)
        self._owed = owed_in_every_run(problem)
        self._began = time.perf_counter()
        self._account: dict[str, Any] = {"tol": tol, "method": "multichain"}
        dropped = int((found.labels < 0).sum())
        self._notes = (Note(Remark.UNREACHABLE, dropped),) if dropped else ()
        self._limits: dict[str, Any] = {"tol": tol, "deadline": deadline}

    def run(self) -> Solution:
        """Solve the program and claim what is proved."""
        if self._problem.mdp.n_pairs > self._tuning.program_pairs and not self._owed.size:
            return self._by_columns()
        answer = EndsLP(self._problem, self._found, deadline=self._deadline).run()
        if answer is None:
            return self._nothing_fair()
        witness = self._witness(answer.h, answer.mu, self._problem.mdp.r, answer.mu_each)
        stays = stays_of(self._problem, self._found, answer.x, self._owed)
        if not stays.split:
            solution = self._claim(answer, stays, witness, ())
            if solution.status is not Status.UNDECIDED:
                return solution
        return self._connected(answer, witness)

    def _by_columns(self) -> Solution:
        """Search by columns and claim what is proved."""
        problem, mean = self._problem, EndsColumns(self._problem, self._found, **self._limits)
        best, notes = mean.run(), self._notes
        witness = self._witness(best.h, best.mu, problem.mdp.r)
        if not best.met:
            least, at_rest = (
                EndsColumns(problem, self._found, give_way=True, **self._limits).run(),
                0 * problem.mdp.r,
            )
            proof = self._witness(least.h, least.mu, at_rest)
            if rounded_ends.ceiling(problem, at_rest, proof.bias, proof.mu, proof.ends) < 0:
                return self._infeasible(proof, least.counters)
            notes = (*notes, Note(Remark.AT_THE_EDGE))
        drawn = None if best.weights.size == 1 else best.weights
        counters = {**best.counters, "seconds": time.perf_counter() - self._began}
        return certify_ends(
            problem, best.policies, drawn, witness.bias, witness.mu, witness.ends,
            **self._account, counters=counters, notes=notes,
        )  # fmt: skip

    def cut_off(self, stopped: Stop) -> Solution:
        """What can be said without the program: some policy, and what staying is worth at most."""
        problem, found = self._problem, self._found
        bias, upper = upper_values(problem.mdp, found)
        staying = np.append(upper, np.full(found.n_nodes - found.count, -np.inf))
        values, choice = self._quotient.best(staying)
        policy = inner_policy(problem.mdp, found)
        policy[self._quotient.pairs] = 0.0
        policy[self._quotient.pairs[choice[choice >= 0]]] = 1.0
        policy /= np.add.reduceat(policy, problem.mdp.pair_ptr[:-1])[problem.mdp.s_of]
        ends = ends_of(self._quotient, found, values, csr_array((problem.n_quotas, found.n_nodes)))
        return certify_ends(
            problem, policy, None, bias, np.zeros(problem.n_quotas), ends,
            **self._account, notes=self._notes, stopped=stopped,
        )  # fmt: skip

    def _connected(self, first: EndsAnswer, witness: _Witness) -> Solution:
        """Ask for a little more than is owed, and mix in some of the uniform policies of components."""
        problem = self._problem
        passing = self._passing(first.x)
        if passing is not None:
            x, notes = passing
            solution = self._claim(first, stays_of(problem, self._found, x, self._owed), witness, notes)
            if solution.status is not Status.UNDECIDED:
                return solution
        for margin, room in self._rooms(first):
            low, high = problem.at_least, problem.at_most
            lower = np.where(low > 0, np.minimum(low + room, 1), 0)
            upper = np.where(high < 1, np.maximum(high - room, 0), 1)
            if (lower > upper).any():
                break
            answer = EndsLP(problem.with_bounds(lower, upper), self._found, deadline=self._deadline).run()
            if answer is None:
                break
            x = self._spread(answer.x, room)
            stays = stays_of(problem, self._found, x, self._owed)
            solution = self._claim(answer, stays, witness, (Note(Remark.CONNECTED, margin),))
            if solution.status is not Status.UNDECIDED:
                return solution
        stays = stays_of(problem, self._found, first.x, self._owed)
        limit = Note(Remark.ONLY_IN_THE_LIMIT if stays.split else Remark.AT_THE_EDGE)
        return self._claim(first, stays, witness, (limit,))

    def _rooms(self, answer: EndsAnswer) -> Iterator[tuple[float, Floats]]:
        problem = self._problem
        each = abs(answer.mu_each).max(axis=1).toarray().ravel() if answer.mu_each.nnz else 0.0
        charged = float((np.abs(answer.mu) + each).sum()) / reward_scale(problem)
        first = self._account["tol"] / (2 * (1 + charged))
        bound = np.maximum(problem.at_least, np.where(problem.at_most < 1, problem.at_most, 0.0))
        for margin in (first, *(m for m in _MARGINS if m > first)):
            yield margin, margin * (bound + 1e-3)

    def _passing(self, x: Floats) -> tuple[Floats, tuple[Note, ...]] | None:
        """Connect the classes of each component that is split by passages; every mean stays as it is."""
        problem, mdp, found, tol = self._problem, self._problem.mdp, self._found, float(self._account["tol"])
        label = np.where(found.internal, found.labels[mdp.s_of], -1)
        states, pairs = groups(found.labels, found.count), groups(label, found.count)
        x, notes = x.copy(), set[Note]()
        for c in stays_of(problem, found, x, self._owed).split:
            mass = float(x[pairs[c]].sum())
            inside = x[pairs[c]] / mass
            counted = np.flatnonzero(np.diff(problem.members[:, pairs[c]].indptr))
            part = _with_its_means(problem.within(states[c], pairs[c], counted), inside)
            classes = Chain.of(part.mdp, policy_of(part.mdp, inside)).closed_classes

            def claim(mixed: Floats, part: Problem = part) -> Solution:
                return certify_policy(
                    part, policy_of(part.mdp, mixed), np.zeros(part.mdp.n_states), np.zeros(part.n_quotas),
                    tol=tol, method="multichain",
                )  # fmt: skip

            split = Split(classes, float(part.mdp.r @ inside))
            joined = connect_by_passages(part, split, claim, tol, self._patience, self._deadline)
            if joined is None:
                return None
            x[pairs[c]] = mass * joined.occupancy
            notes.update(joined.notes)
        return x, tuple(sorted(notes, key=lambda note: -note.value))

    def _spread(self, x: Floats, room: Floats) -> Floats:
        """Mix some of the uniform policy into the components that are split."""
        problem, mdp, found = self._problem, self._problem.mdp, self._found
        label = np.where(found.internal, found.labels[mdp.s_of], -1)
        states, pairs = groups(found.labels, found.count), groups(label, found.count)
        x = x.copy()
        for c in stays_of(problem, found, x, self._owed).split:
            inner = mdp.within(states[c], pairs[c])
            uniform = uniform_policy(inner)
            spread = uniform * Chain.of(inner, uniform).shares[inner.s_of]
            shares = problem.members[:, pairs[c]] @ spread
            short = np.maximum(problem.at_least - shares, shares - problem.at_most)
            lacking = short > 0
            most = float((room[lacking] / (room[lacking] + short[lacking])).min(initial=1.0)) / 2
            pull = min(float(room.max()), most)
            x[pairs[c]] = (1 - pull) * x[pairs[c]] + pull * x[pairs[c]].sum() * spread
        return x

    def _claim(
        self, answer: EndsAnswer, stays: Stays, witness: _Witness, notes: tuple[Note, ...]
    ) -> Solution:
        """Claim what is proved of the best mixture that makes up a flow."""
        problem, quotient = self._problem, self._quotient
        worth = np.full(self._found.n_nodes, -np.inf)
        stayed = list(stays.ways)
        worth[stayed] = witness.staying[stayed]
        otherwise = quotient.best(worth)[1]
        peeled = peel(problem, self._found, quotient, stays, answer.y, otherwise)
        weights = best_mixture(problem, peeled, self._deadline)
        if weights is None:
            weights = np.eye(1, peeled.gains.size)[0]
        used = np.flatnonzero(weights)
        used = used[np.argsort(-weights[used], kind="stable")]
        drawn = None if used.size == 1 else weights[used]
        counters = {"iterations": answer.iterations, "seconds": time.perf_counter() - self._began}
        return certify_ends(
            problem, peeled.policies[used], drawn, witness.bias, witness.mu, witness.ends,
            **self._account, counters=counters, notes=(*self._notes, *notes),
        )  # fmt: skip

    def _witness(self, h: Floats, mu: Floats, r: Floats, mu_each: csr_array | None = None) -> _Witness:
        """Relative values, prices and labels from the multipliers of a program, values by stay or go."""
        problem, found = self._problem, self._found
        each = csr_array((problem.n_quotas, found.n_nodes)) if mu_each is None else mu_each
        staying = stay_ceilings(problem, found, r + problem.members.T @ mu, h, each)
        g = self._quotient.best(staying)[0]
        return _Witness(h, mu, ends_of(self._quotient, found, g, each), staying)

    def _nothing_fair(self) -> Solution:
        """Claim that no policy is fair, or say that this could not be decided."""
        problem, at_rest = self._problem, np.zeros(self._problem.mdp.n_pairs)
        answer = EndsLP(problem, self._found, give_way=True, deadline=self._deadline).run()
        if answer is None:  # mass may always be lost, but HiGHS may err
            return self.cut_off(Stop.NOT)
        witness = self._witness(answer.h, answer.mu, at_rest, answer.mu_each)
        if rounded_ends.ceiling(problem, at_rest, witness.bias, witness.mu, witness.ends) < 0:
            return self._infeasible(witness, {"iterations": answer.iterations})
        stays = stays_of(problem, self._found, answer.x, self._owed)
        return self._claim(answer, stays, witness, (Note(Remark.AT_THE_EDGE),))

    def _infeasible(self, witness: _Witness, counters: Mapping[str, float]) -> Solution:
        """Claim that no policy is fair, by the witness of a ceiling below nothing."""
        counters = {**counters, "seconds": time.perf_counter() - self._began}
        return certify_infeasible(
            self._problem, witness.bias, witness.mu, None, ends=witness.ends,
            **self._account, counters=counters, notes=self._notes,
        )  # fmt: skip


def _with_its_means(part: Problem, x: Floats) -> Problem:
    """Quotas of every run as they are, and instead of those of the mean the shares of an occupancy."""
    shares = np.clip(part.members @ x, 0.0, 1.0)
    return part.with_bounds(
        np.where(part.expected & (part.at_least > 0), shares, part.at_least),
        np.where(part.expected & (part.at_most < 1), shares, part.at_most),
    )
