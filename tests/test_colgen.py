"""Column generation: slow chains, sharp prices, proofs of infeasibility. See also test_dual.py."""

from itertools import count

import numpy as np
import pytest
from scipy.sparse import coo_array

from fairmdp import MDP, Problem, ProblemError, Quota, Status, scenarios, solve_lp, verify
from fairmdp.backends.base import ChainTuning
from fairmdp.backends.cpu.backend import CpuBackend
from fairmdp.certificate import rounded
from fairmdp.certificate.limits import factor_limit
from fairmdp.deadline import Deadline, Stop
from fairmdp.solvers import conflict
from fairmdp.solvers.colgen import Tuning, solve_colgen
from fairmdp.solvers.columns import EXACT, Mixture, Search
from fairmdp.solvers.conflict import largest_factor
from fairmdp.solvers.prices import dual_value, tightened

pytestmark = pytest.mark.slow


def corridor(length, quota):
    """Slow mixing: a walk that pays at one end and owes time to the other."""
    s = np.arange(length)
    rows, cols, vals = [], [], []
    for a, step in enumerate((-1, 1)):
        for move, p in ((step, 0.6), (-step, 0.4)):
            rows.append(2 * s + a)
            cols.append(np.clip(s + move, 0, length - 1))
            vals.append(np.full(length, p))
    P = coo_array(
        (np.concatenate(vals), (np.concatenate(rows), np.concatenate(cols))), shape=(2 * length, length)
    )
    r = np.repeat(1 - s / length, 2)
    mdp = MDP(P.tocsr(), r, np.repeat(s, 2))
    return Problem(mdp, [Quota("far", states=s[-length // 4 :], at_least=quota)])


@pytest.mark.parametrize("length, quota", [(30, 0.3), (30, 0.5)])
def test_slow_chain(length, quota):
    problem = corridor(length, quota)
    sol, exact = solve_colgen(problem), solve_lp(problem)
    assert verify(problem, sol).ok and sol.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert sol.gain <= exact.upper + 1e-9 and sol.upper >= exact.gain - 1e-9
    assert sol.upper <= exact.upper + 1e-6


def test_never_claims_an_unfair_policy():
    """Two classes that never meet unless an action leads across: mixtures are no policies."""
    P = np.eye(4)[[0, 1, 1, 0]] * (1 - 1e-9) + np.full((4, 4), 1e-9 / 4)
    problem = Problem(
        MDP(P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), [1.0, -5.0, 0.5, -5.0], [0, 0, 1, 1]),
        [Quota("b", states=[1], at_least=0.5)],
    )
    sol = solve_colgen(problem)
    verdict = verify(problem, sol)
    assert verdict.ok
    if sol.status is not Status.UNDECIDED:
        assert verdict.shares[0, 0] >= 0.5 - 1e-9
    assert sol.upper >= solve_lp(problem).gain - 1e-9


def test_common_factor_is_bracketed():
    problem = scenarios.garnet(n_states=200, seed=5)
    found = largest_factor(problem, tol=1e-6)
    assert found.lower <= found.upper <= found.lower + 2e-6
    assert found.upper == factor_limit(problem, found.bias, found.prices)
    for factor, status in ((found.lower - 1e-6, Status.OPTIMAL), (found.upper + 1e-4, Status.INFEASIBLE)):
        assert solve_lp(problem.with_bounds(at_least=problem.at_least * factor)).status is status
    with pytest.raises(ProblemError, match="no quota asks for at_least"):
        largest_factor(problem.with_bounds(at_least=np.zeros(5), at_most=np.full(5, 0.9)))


@pytest.mark.parametrize("excess", [1.1, 1.01])
def test_large_problems_explain_infeasibility_too(excess):
    problem = scenarios.garnet(n_states=300, n_quotas=3, seed=5)
    problem = problem.with_quotas([Quota("idle", states=[0], at_least=1e-6)])
    owed = problem.at_least.copy()
    owed[:3] *= largest_factor(problem).upper * excess
    beyond = problem.with_bounds(at_least=owed)
    by_lp = solve_colgen(beyond)
    sol = solve_colgen(beyond, tuning=Tuning(conflict=conflict.Tuning(lp_pairs=0)))
    assert sol.status is by_lp.status is Status.INFEASIBLE
    assert verify(beyond, sol).ok and verify(beyond, by_lp).ok
    why, exact = sol.infeasibility, by_lp.infeasibility
    assert why.conflict == exact.conflict == (0, 1, 2)  # the idle quota has no part in it
    np.testing.assert_allclose(why.reach, exact.reach, atol=1e-5)
    assert why.common_factor == pytest.approx(exact.common_factor, abs=1e-4)
    nearest = beyond.with_bounds(at_least=why.nearest_at_least - 1e-7 * (why.nearest_at_least > 1e-6))
    assert solve_lp(nearest).status is Status.OPTIMAL
    moved = np.abs(why.nearest_at_least - owed).sum()
    assert moved <= np.abs(exact.nearest_at_least - owed).sum() + 2e-4


def test_a_quick_look_proves_what_is_far_beyond():
    problem = scenarios.garnet(n_states=300, n_quotas=3, seed=5)
    limit = largest_factor(problem).upper
    asked = np.ones(3)
    assert conflict.quick_proof(problem.with_bounds(at_least=0.99 * limit * problem.at_least), asked) is None
    beyond = problem.with_bounds(at_least=1.1 * limit * problem.at_least)
    h, mu = conflict.quick_proof(beyond, asked)
    assert 0 <= problem.mdp.r.min() and problem.mdp.r.max() <= 1
    assert rounded.ceiling(beyond, problem.mdp.r, h, mu) <= -1


def test_start_and_interrupt():
    problem = scenarios.garnet(n_states=400, tightness=0.99, seed=2)
    cold = solve_colgen(problem)
    warm = solve_colgen(problem, start=cold)
    assert warm.status is Status.OPTIMAL and verify(problem, warm).ok
    assert warm.counters["columns"] < cold.counters["columns"]
    seen = []

    def stop(state):
        seen.append(state)
        if len(seen) == 8:
            raise KeyboardInterrupt

    part = solve_colgen(problem, progress=stop)
    assert part.stopped is Stop.INTERRUPTED and verify(problem, part).ok
    assert part.upper >= cold.gain - 1e-9
    uppers = [state["upper"] for state in seen]
    assert uppers == sorted(uppers, reverse=True)


def test_tightened_stops_at_the_middle():
    low, high = tightened(np.array([0.2, -np.inf, 0.3, 0.4]), np.array([np.inf, 0.5, 0.3, 0.6]), 0.05)
    np.testing.assert_allclose(low, [0.25, -np.inf, 0.3, 0.45])
    np.testing.assert_allclose(high, [np.inf, 0.45, 0.3, 0.55])
    assert (
        dual_value(np.array([2.0, -1.0, 0.0]), np.array([0.1, -np.inf, 9]), np.array([np.inf, 0.5, 9]))
        == -0.3
    )


def test_a_search_that_only_creeps_ends(monkeypatch):
    """The only policy comes again and again while a chain of threads lets its ceiling fall by crumbs."""
    calls = []
    greedy = CpuBackend.greedy
    monkeypatch.setattr(CpuBackend, "greedy", lambda *given: calls.append(1) or greedy(*given))
    P = [[1 - 1e-10, 1e-10, 0], [0, 1, 0], [1e-16, 1 - 2.5e-10, 2.5e-10]]
    found = solve_colgen(Problem(MDP(P, [1e7, 1e-5, 1e3], range(3))))
    assert found.status is Status.FEASIBLE and found.upper >= found.gain
    assert found.counters["columns"] <= 100 and len(calls) < 1000


def test_a_search_whose_ceiling_says_nothing_ends(monkeypatch):
    """Ceilings of 1e9 reward spans that fall by 3 % with each column, as chances of 1e-12 may give them."""
    problem = corridor(30, 0.3)
    best, tops = Search.best, (1e9 * 0.97**n for n in count())
    monkeypatch.setattr(Search, "best", lambda search, *ask: (next(tops), best(search, *ask)[1]))
    found = solve_colgen(problem)
    assert found.counters["columns"] <= 50
    assert found.status is Status.FEASIBLE and verify(problem, found).ok
    assert found.upper == pytest.approx(problem.mdp.r.max())  # of that ceiling nothing is told


def test_wide_models_are_swept_longer():
    """Each incomplete factorisation of their chains costs what hundreds of sweeps do."""
    wide, narrow = scenarios.jobs(queue=8), corridor(30, 0.3)
    tuning = ChainTuning(evaluation=10, stationary=20)
    assert tuning.sweeps(CpuBackend(narrow)) == (10, 20)
    assert tuning.sweeps(CpuBackend(wide)) == (30, 60)


def test_distributions_are_found_in_the_way_that_works():
    """Where sweeps have fallen short of a distribution once, they are not tried again."""
    backend = CpuBackend(corridor(6000, 0.3), tuning=ChainTuning(stationary=20))
    search = Search(backend, Mixture(np.array([-np.inf]), np.array([np.inf])), Deadline(None))
    towards = backend.play(np.arange(6000) * 2)
    first, error = search.stationary(towards, EXACT)
    assert error <= EXACT and search.distribution_way == 1
    asked = []
    search.backend.way = lambda name, **how: asked.append(name) or CpuBackend.way(backend, name, **how)
    search.stationary(towards, EXACT)
    assert asked == ["krylov"]
    np.testing.assert_allclose(first[:3] / first[0], [1, 2 / 3, 4 / 9], rtol=1e-9)
