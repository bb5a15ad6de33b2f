"""Classes of states that a best occupancy keeps apart: connected by passages between them.

An occupancy whose support falls into classes that never meet is that of no stationary policy. Let passages
out of each class be made as often as a small loss allows, or as rarely as somebody has the patience for ::

    maximise    e                                 or     r @ x
    subject to  r @ x >= (what is best) - loss
                flow of x out of D >= e                  flow of x out of D >= 1 / patience      each class D
                x an occupancy that meets the quotas

and ask the same of the classes of the new occupancy, until there is one. If no passage is possible at all
the quotas can be met in the limit only: by runs that pass between the classes ever more rarely.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fairmdp.backends.passage_lp import PassageLP
from fairmdp.certificate.facts import reward_scale
from fairmdp.chains.chain import Chain
from fairmdp.chains.policy import policy_of
from fairmdp.deadline import Deadline
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Note, Remark, Solution, Status

_ROUNDS = 40  # of classes that are asked to be left; some lattices fall apart again and again
_ROOMS = (0.0, 1e-8, 1e-7, 3e-7, 1e-6)  # by which quotas are raised, so that what rarely moves can be proved
_SPECK = 1e-7  # of an even split: less is what solvers leave where nothing should be
_NOTHING = 1e-12  # part of the span of the rewards that nobody misses
_FAIR = (Status.OPTIMAL, Status.FEASIBLE)

Claim = Callable[[Floats], Solution]


class Split(NamedTuple):
    """What a best occupancy earns, and the classes that it falls into."""

    classes: Sequence[Ints]
    gain: float


def connect_by_passages(
    problem: Problem, split: Split, claim: Claim, tol: float, patience: float | None, deadline: Deadline
) -> Solution | None:
    """Connect the classes of a best occupancy, by passages as frequent as half the tolerance allows.

    Where that is not as frequent as somebody has the patience for, at the least loss that is. None where no
    policy of one class was found.

    Parameters
    ----------
    problem
        The model and the quotas.
    split
        What is to be connected.
    claim
        What can be proved of the policy of an occupancy.
    tol
        Gap, relative to the span of the rewards, of which half may be spent.
    patience
        Steps in which each passage is to be made once on average, if anybody minds.
    deadline
        When HiGHS is to stop.
    """
    program = PassageLP(problem, earn=split.gain - tol * reward_scale(problem) / 2, deadline=deadline)
    often = _Passages(problem, split, program)
    found = often.connected(claim)
    if patience is None or (found is not None and slowest_passage(found) <= patience):
        return found
    program = PassageLP(problem, least=1 / patience, deadline=deadline)
    patient = _Passages(problem, split._replace(classes=often.classes), program)
    other = patient.connected(claim)
    if other is None and found is not None:
        return _noted(found, Note(Remark.PATIENCE_TOO_SHORT, patience))
    return other


def _noted(solution: Solution, *notes: Note) -> Solution:
    return replace(solution, notes=(*solution.notes, *notes))


def slowest_passage(solution: Solution) -> float:
    """Steps in which the rarest passage that a solution's policy has to make is made once on average."""
    return next((note.value for note in solution.notes if note.remark is Remark.SLOWEST_PASSAGE), 0.0)


def classes_apart(mdp: MDP, policy: Floats, x: Floats) -> Sequence[Ints]:
    """Classes that a policy keeps apart, or connects by specks of its occupancy only."""
    classes = Chain.of(mdp, policy).closed_classes
    if len(classes) > 1:
        return classes
    kept = np.where(x > _SPECK / mdp.n_states, x, 0.0)
    return Chain.of(mdp, policy_of(mdp, kept)).closed_classes


def with_passages(problem: Problem | None, classes: Sequence[Ints], found: Solution) -> Solution:
    """Return a solution that says how rarely its policy passes between classes that were apart."""
    if problem is None or len(classes) < 2:
        return found
    steps = steps_to_leave(problem.mdp, found.occupancy, classes)
    return _noted(found, Note(Remark.SLOWEST_PASSAGE, steps))


def steps_to_leave(mdp: MDP, occupancy: Floats, classes: Sequence[Ints]) -> float:
    """Steps in which the rarest passage out of one of some sets of states is made once on average."""
    flows = [float(occupancy[pairs] @ out) for pairs, out in (_ways_out(mdp, states) for states in classes)]
    least = min(flows, default=math.inf)
    return 1 / least if least > 0 else math.inf


def _ways_out(mdp: MDP, states: Ints) -> tuple[Ints, Floats]:
    """Pairs of some states, and with which probability each leads to others."""
    inside = np.zeros(mdp.n_states, bool)
    inside[states] = True
    pairs = np.flatnonzero(inside[mdp.s_of])
    out = mdp.P[pairs] @ (~inside).astype(float)
    return pairs[out > 0], out[out > 0]


class _Passages:
    """A program over occupancies that have to leave classes of states, and those found so far."""

    def __init__(self, problem: Problem, split: Split, program: PassageLP) -> None:
        self._problem, self._split, self._program = problem, split, program
        self.classes: list[Ints] = []
        self._ask_to_leave(split.classes)

    def connected(self, claim: Claim) -> Solution | None:
        """What can be proved of a policy of one class."""
        problem = self._problem
        bound = np.maximum(problem.at_least, np.where(problem.at_most < 1, problem.at_most, 0.0))
        for margin in _ROOMS:
            room = margin * (bound + 1e-3)
            lower = np.where(problem.at_least > 0, np.minimum(problem.at_least + room, 1), 0)
            upper = np.where(problem.at_most < 1, np.maximum(problem.at_most - room, 0), 1)
            if (lower > upper).any():
                break
            self._program.set_quotas(lower, upper)
            x = self._joined()
            if x is None:
                break
            found = claim(x)
            if found.status in _FAIR:
                return _noted(found, *self._notes(found))
        return None

    def _notes(self, found: Solution) -> Iterator[Note]:
        lost = (self._split.gain - found.gain) / reward_scale(self._problem)
        if lost > _NOTHING:
            yield Note(Remark.CONNECTED, lost)
        yield Note(Remark.SLOWEST_PASSAGE, steps_to_leave(self._problem.mdp, found.occupancy, self.classes))

    def _joined(self) -> Floats | None:
        """An occupancy of one class."""
        for _ in range(_ROUNDS):
            x = self._program.run()
            if x is None:
                return None
            mdp = self._problem.mdp
            apart = Chain.of(mdp, policy_of(mdp, x)).closed_classes
            if len(apart) == 1:
                return x
            if not self._ask_to_leave(apart):
                return None
        return None

    def _ask_to_leave(self, classes: Sequence[Ints]) -> bool:
        """Ask for passages out of classes, if any of them is new."""
        known = {states.tobytes() for states in self.classes}
        new = [states for states in classes if states.tobytes() not in known]
        for states in new:
            self._program.leave(*_ways_out(self._problem.mdp, states))
        self.classes += new
        return bool(new)
