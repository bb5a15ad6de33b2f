"""The exact solver: Fair-LP, one linear program over occupancies, solved by HiGHS."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from fairmdp import solvers
from fairmdp.backends.flow_lp import Answer, FlowLP
from fairmdp.backends.highs import Algorithm
from fairmdp.certificate import rounded
from fairmdp.certificate.claim import certify_policy
from fairmdp.certificate.facts import check_tol
from fairmdp.certificate.restated import by_uniform_steps
from fairmdp.chains.policy import policy_of, uniform_policy
from fairmdp.deadline import Deadline, OutOfTimeError, Stop, stop_of
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Solution, Status
from fairmdp.solvers.prices import dual_feasible
from fairmdp.solvers.request import Progress, check_patience


@by_uniform_steps
def solve_lp(
    problem: Problem,
    *,
    tol: float = 1e-6,
    algorithm: Algorithm = "simplex",
    seconds: float | None = None,
    patience: float | None = None,
) -> Solution:
    """Best gain under quotas, exactly, as one linear program over occupancies.

    ::

        maximise    r @ x                                        multiplier
        subject to  x(s, .) - sum_i x(i) P(i, s) == 0   each s   h      flow
                    sum x                        == 1            g      mass
                    at_least <= G x <= at_most                   mu     quotas
                    x >= 0

    At the optimum ``gain == g - rho @ mu`` and ``h`` is the bias of the MDP whose rewards are raised by
    the quota prices, ``r + G.T @ mu``.

    Parameters
    ----------
    problem
        Model and quotas. The LP has SA columns and S + K + 1 rows.
    tol
        Certified gap, relative to the span of the rewards, up to which the answer is called optimal.
    algorithm
        What HiGHS runs: ``"simplex"`` (a vertex: the least random policy), ``"ipm"`` (interior points,
        without the search for a vertex that often takes longer) or ``"pdlp"``.
    seconds
        Time after which HiGHS is stopped; what it has by then is often no fair policy.
    patience
        As for `solve`.

    Returns
    -------
    Solution
        Gain and shares are those of the policy's own chain, proved by the certificate. Unmeetable quotas
        are an answer, not an exception: ``status`` is INFEASIBLE and ``infeasibility`` says why.

    Examples
    --------
    >>> from fairmdp import scenarios, solve_lp
    >>> sol = solve_lp(scenarios.three_state(rho=[0.1, 0.1, 0.25]))
    >>> round(sol.gain, 6), sol.visitation.round(4)
    (0.443421, array([0.3816, 0.3684, 0.25  ]))
    >>> sol.prices.round(4)      # one more point of share for s2 costs 0.5211 points of gain
    array([0.    , 0.    , 0.5211])
    >>> sol.gap < 1e-9           # recomputed from the problem data
    True

    References
    ----------
    .. [1] Puterman, *Markov Decision Processes*, Wiley 1994, Sections 8.8-8.9.
    .. [2] Ghalme, Nair, Patil and Zhou, AAMAS 2022. Their lambda is `-h`.
    """
    tol, start, deadline = check_tol(tol), time.perf_counter(), Deadline(seconds)
    lp = FlowLP(problem, problem.mdp.r, algorithm=algorithm, deadline=deadline)
    return _solve(problem, lp, tol=tol, start=start, deadline=deadline, patience=check_patience(patience))


class WarmLP:
    """Fair-LP of one model under changing bounds: each run starts from the last one's basis.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> problem, warm = scenarios.three_state(), WarmLP()
    >>> [round(warm.solve(problem.with_bounds([0.1, 0.1, owed])).gain, 4) for owed in (0.2, 0.25, 0.3)]
    [0.4695, 0.4434, 0.4174]
    """

    def __init__(self, *, tol: float = 1e-6) -> None:
        self._tol = check_tol(tol)
        self._lp: FlowLP | None = None

    def solve(self, problem: Problem, progress: Progress | None = None) -> Solution:
        """Best gain of the same model and quotas as before, under these bounds."""
        start = time.perf_counter()
        if self._lp is None:
            self._lp = FlowLP(problem, problem.mdp.r)
        for k in range(problem.n_quotas):
            self._lp.set_quota(k, problem.at_least[k], problem.at_most[k])
        return _solve(problem, self._lp, tol=self._tol, start=start, deadline=Deadline(None))


def _solve(
    problem: Problem,
    lp: FlowLP,
    *,
    tol: float,
    start: float,
    deadline: Deadline,
    patience: float | None = None,
) -> Solution:
    """Run a program and claim what can be proved of its policy, or that there is none."""
    method = "lp" if lp.algorithm == "simplex" else lp.algorithm
    stopped = Stop.NOT
    try:
        answer = lp.run()
    except OutOfTimeError as stop:
        answer, stopped = _provable(problem, lp.point()), stop_of(stop)
    if answer is None:
        return solvers.infeasible.explain(problem, tol=tol, method=method, start=start)
    solution = certify_policy(
        problem,
        policy_of(problem.mdp, answer.x),
        answer.h,
        answer.mu,
        tol=tol,
        method=method,
        counters={"iterations": answer.iterations, "seconds": time.perf_counter() - start},
        stopped=stopped,
    )
    if stopped or (solution.status is Status.OPTIMAL and patience is None):
        return solution
    if solution.status is Status.OPTIMAL:
        classes = solvers.passages.classes_apart(problem.mdp, solution.policy, solution.occupancy)
        if len(classes) == 1:
            return solution
    return solvers.connect.repair(problem, solution, start=start, deadline=deadline, patience=patience)


def _provable(problem: Problem, answer: Answer) -> Answer:
    """Policy and ceiling for want of better ones where HiGHS was cut off too early for its own."""
    if not answer.x.any():
        answer = replace(answer, x=uniform_policy(problem.mdp))
    mu = dual_feasible(problem, answer.mu)
    none = np.zeros(problem.mdp.n_states), np.zeros(problem.n_quotas)
    h, mu = min((none, (answer.h, mu)), key=lambda pair: rounded.ceiling(problem, problem.mdp.r, *pair))
    return replace(answer, h=h, mu=mu)
