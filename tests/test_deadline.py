"""A limit of time: every solver ends with what it has proved."""

import math
import time
from functools import partial

import numpy as np
import pytest

from fairmdp import Chain, Problem, ProblemError, Status, scenarios, solve, verify
from fairmdp import deadline as deadline_module
from fairmdp.backends.opening import open_backend
from fairmdp.certificate.claim import certify_policy
from fairmdp.chains.policy import uniform_policy
from fairmdp.deadline import Deadline, OutOfTimeError, Stop, stop_of
from fairmdp.solution.solution import Remark
from fairmdp.solvers import colgen, conflict, dual
from fairmdp.solvers.connect import fall_back
from fairmdp.solvers.infeasible import reasons
from fairmdp.views.text import solution_text

HARD = scenarios.garnet(n_states=3000, tightness=0.99, seed=1)
NONE = conflict.Tuning(lp_pairs=0)  # no linear program says why
WITHOUT_PROGRAMS = {
    "dual": partial(dual.solve_dual, tuning=dual.Tuning(conflict=NONE)),
    "colgen": partial(colgen.solve_colgen, tuning=colgen.Tuning(conflict=NONE)),
}
PER_STATE = Problem(HARD.mdp, rho=np.full(3000, 1e-5))


@pytest.mark.parametrize(
    "method, problem",
    [("lp", HARD), ("dual", HARD), ("colgen", HARD), ("proximal", PER_STATE), ("auto", HARD), ("auto", PER_STATE)],
)  # fmt: skip
def test_out_of_time(method, problem):
    """No time at all, or too little for HiGHS: a policy and a ceiling for want of better ones."""
    sol = solve(problem, method=method, seconds=1e-6 if method != "lp" else 0.2)
    assert sol.stopped is Stop.OUT_OF_TIME and verify(problem, sol).ok
    assert sol.status is Status.FEASIBLE  # the uniform policy is, so that no search need end with less
    assert sol.upper <= problem.mdp.r.max() + 1e-9


@pytest.mark.parametrize("method", ["dual", "colgen"])
def test_what_was_found_by_then_is_kept(method, monkeypatch):
    """The clock jumps once a policy has been found: its gain and a ceiling below the largest reward stay."""
    true = time.perf_counter
    late = []
    monkeypatch.setattr(deadline_module.time, "perf_counter", lambda: true() + 1e6 * bool(late))

    def watch(row):
        if row["lower"] > -math.inf:
            late.append(row)

    sol = solve(HARD, method=method, tol=1e-9, seconds=1e5, progress=watch)
    assert sol.stopped is Stop.OUT_OF_TIME and sol.status is Status.FEASIBLE and verify(HARD, sol).ok
    assert sol.upper < 0.9 and sol.gap < 0.1


def test_an_unfair_policy_is_mixed_with_the_uniform_one(monkeypatch):
    """The clock jumps while the search is outside the quotas: what is returned is fair, and better than uniform."""
    true = time.perf_counter
    late = []
    monkeypatch.setattr(deadline_module.time, "perf_counter", lambda: true() + 1e6 * bool(late))
    record = dual._Search._record

    def watch(search, point):
        seen = record(search, point)
        late.append(search.lower)
        return seen

    monkeypatch.setattr(dual._Search, "_record", watch)
    sol = solve(HARD, method="dual", seconds=1e5)
    assert late == [-math.inf]
    assert sol.status is Status.FEASIBLE and verify(HARD, sol).ok
    uniform = solve(HARD, method="dual", seconds=1e-6)
    assert 0 <= sol.worst_slack < 1e-6 and sol.gain > uniform.gain + 0.01
    assert [note.remark for note in sol.notes] == [Remark.MIXED_WITH_UNIFORM] and 0 < sol.notes[0].value < 1


def test_quotas_smaller_than_a_hair():
    """States that are hardly ever visited are owed hardly anything, and get it from the uniform policy."""
    mdp = scenarios.jobs(queue=9, arrivals=(0.1, 0.1), capacity=1, max_arrivals=1, max_withdrawals=1).mdp
    shares = Chain.of(mdp, uniform_policy(mdp)).shares
    assert 0 < shares.min() < 1e-9
    problem, nothing = Problem(mdp, rho=0.3 * shares), np.zeros(mdp.n_states)
    greedy = solve(Problem(mdp)).policy
    unfair = certify_policy(problem, greedy, nothing, nothing, tol=1e-6, method="", counters={})
    assert unfair.status is Status.UNDECIDED
    assert fall_back(open_backend(problem), unfair).status is Status.FEASIBLE


def test_without_a_fair_uniform_policy_nothing_is_mixed():
    sol = solve(HARD.with_bounds(HARD.at_least * 1.2), method="dual", seconds=1e-6)
    assert sol.status is Status.UNDECIDED and sol.stopped is Stop.OUT_OF_TIME and sol.notes == ()


@pytest.mark.parametrize("method", ["dual", "colgen"])
@pytest.mark.parametrize(
    "stop, said", [(OutOfTimeError, Stop.OUT_OF_TIME), (KeyboardInterrupt, Stop.INTERRUPTED)]
)
def test_a_proof_outlives_the_search_for_its_reason(method, stop, said, monkeypatch):
    def late(*_, **__):
        raise stop

    monkeypatch.setattr(conflict.Columns, "reach", late)
    too_much = HARD.with_bounds(HARD.at_least * 1.8)
    sol = WITHOUT_PROGRAMS[method](too_much)
    assert sol.status is Status.INFEASIBLE and sol.infeasibility is None and verify(too_much, sol).ok
    assert sol.stopped is said and "which bias and prices prove" in solution_text("x", too_much, sol)


def test_the_reason_is_given_up_when_the_time_is_over():
    too_much = HARD.with_bounds(HARD.at_least * 1.8)
    proof = WITHOUT_PROGRAMS["colgen"](too_much)
    with pytest.raises(OutOfTimeError):
        reasons(too_much, conflict.Columns(too_much, Deadline(1e-9)), proof.prices)


def test_deadline():
    Deadline(None).check()
    with pytest.raises(OutOfTimeError):
        Deadline(1e-9).check()
    with pytest.raises(ProblemError, match="seconds is 0, expected a positive number"):
        solve(scenarios.three_state(), seconds=0)
    with pytest.raises(ProblemError, match="seconds is '5', expected a positive number"):
        solve(scenarios.three_state(), seconds="5")
    assert stop_of(KeyboardInterrupt()) is Stop.INTERRUPTED and stop_of(OutOfTimeError()) is Stop.OUT_OF_TIME
