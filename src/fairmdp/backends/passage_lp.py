"""Linear programs over occupancies that leave sets of states, as often as can be or at the least loss."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from fairmdp.backends.flow_lp import FlowLP
from fairmdp.deadline import Deadline
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.problem import Problem

_NEVER = 1e-11  # passages per step that are none


class PassageLP:
    """The occupancy that leaves sets of states the most often, of those that earn enough.

    Parameters
    ----------
    problem
        The model and the quotas.
    earn
        What has to be earned. If None the most is earned, and each set is left `least` times per step.
    least
        How often each set is left, at least.
    deadline
        When HiGHS is to stop.
    """

    def __init__(
        self, problem: Problem, *, deadline: Deadline, earn: float | None = None, least: float = 0.0
    ) -> None:
        self._problem, self._least, self._earn = problem, least, earn
        r, K = problem.mdp.r, problem.n_quotas
        if earn is None:
            self._lp = FlowLP(problem, r, deadline=deadline)
            return
        extra = csr_array((1, K))
        self._lp = FlowLP(problem, np.zeros(r.size), extra=extra, c_extra=np.ones(1), deadline=deadline)
        low, span = float(r.min()), float(np.ptp(r))
        if span > 0:
            self._lp.add_floor(np.flatnonzero(r > low), (r[r > low] - low) / span, (earn - low) / span)

    def set_quotas(self, at_least: Floats, at_most: Floats) -> None:
        """Change the bounds of all quotas."""
        for k in range(self._problem.n_quotas):
            self._lp.set_quota(k, at_least[k], at_most[k])

    def leave(self, pairs: Ints, chances: Floats) -> None:
        """Ask for passages out of one more set, by some of its pairs with these chances."""
        if self._earn is None:
            self._lp.add_floor(pairs, chances, self._least)
        else:
            rate = self._problem.mdp.n_pairs
            self._lp.add_floor(np.append(pairs, rate), np.append(chances, -1.0), 0.0)

    def run(self) -> Floats | None:
        """Solve; None means that HiGHS found no point, or that some set is left ever more rarely."""
        answer = self._lp.run()
        if answer is None or (self._earn is not None and answer.extra[0] <= _NEVER):
            return None
        return answer.x
