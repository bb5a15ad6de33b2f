"""One model asked again under other bounds: the answers of cold solves, from less work."""

from dataclasses import replace

import numpy as np
import pytest

from fairmdp import SolverError, Status, scenarios, solve, verify
from fairmdp.solvers.lp import WarmLP
from fairmdp.solvers.registry import METHODS
from fairmdp.solvers.warm import WarmSolver

JOBS = scenarios.jobs(queue=9, capacity=1, max_arrivals=1, max_withdrawals=1)
GARNET = scenarios.garnet(n_states=320, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lp", "colgen", "dual", "auto"])
def test_answers_are_those_of_cold_solves(method):
    rng, warm = np.random.default_rng(0), WarmSolver(method=method)
    for _ in range(5):
        problem = GARNET.with_bounds(GARNET.at_least * rng.uniform(0.8, 1.04, GARNET.n_quotas))
        solution = warm.solve(problem)
        assert solution.status is Status.OPTIMAL and verify(problem, solution).ok
        assert solution.gain == pytest.approx(solve(problem, method="lp").gain, abs=2e-6)


def test_a_basis_is_kept():
    warm = WarmLP()
    first = warm.solve(JOBS.with_bounds([0.3, 0.3]))
    second = warm.solve(JOBS.with_bounds([0.3, 0.31]))
    cold = solve(JOBS.with_bounds([0.3, 0.31]), method="lp")
    assert second.gain == pytest.approx(cold.gain, abs=1e-9) and second.gain < first.gain
    assert second.counters["iterations"] < cold.counters["iterations"] / 4


def test_beyond_reach_and_back():
    for method in ("lp", "colgen"):
        warm = WarmSolver(method=method)
        before = warm.solve(JOBS.with_bounds([0.2, 0.5]))
        too_much = JOBS.with_bounds([0.9, 0.99])
        answer = warm.solve(too_much)
        assert answer.status is Status.INFEASIBLE and verify(too_much, answer).ok
        assert warm.solve(JOBS.with_bounds([0.2, 0.5])).gain == pytest.approx(before.gain, abs=1e-6)


def test_a_method_is_chosen_again_when_other_quotas_are_bounded():
    warm, nothing = WarmSolver(), GARNET.with_bounds(np.zeros(GARNET.n_quotas))
    reasons = [warm.solve(problem).reason for problem in (nothing, GARNET, nothing)]
    assert reasons == ["nothing owed", "fast and few", "nothing owed"]


def test_what_settles_nothing_goes_to_solve():
    """A solver that fails, and one whose answer is not optimal."""
    cold = solve(JOBS)

    class Failing(WarmLP):
        def solve(self, problem, progress=None):
            raise SolverError("no")

    class Unsure(WarmLP):
        def solve(self, problem, progress=None):
            return solve(problem, method="dual", seconds=1e-6)

    failing, unsure = (
        {"lp": replace(METHODS["lp"], warm=lambda tol, kind=kind: kind())} for kind in (Failing, Unsure)
    )
    for methods in (failing, unsure):
        assert WarmSolver(methods=methods).solve(JOBS).gain == pytest.approx(cold.gain, abs=1e-6)
    with pytest.raises(SolverError):  # asked for by name: nothing else is tried
        WarmSolver(method="lp", methods=failing).solve(JOBS)
    assert WarmSolver(method="lp", methods=unsure).solve(JOBS).status is Status.UNDECIDED  # as it is
