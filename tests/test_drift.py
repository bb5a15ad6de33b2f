"""Long-run means proved by relative values, on chains that pass between their parts once in a million steps."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from fairmdp import MDP, Problem, Quota, Status, scenarios
from fairmdp.certificate import claim, drift, exact, rounded
from fairmdp.chains.chain import Chain

SEVERAL = [rounded, exact]


def islands(passage, seed=0, size=4):
    """Two random parts; each is left once in 1 / passage steps. Two actions, and quotas on either part."""
    rng = np.random.default_rng(seed)
    n = 2 * size
    P = np.zeros((2 * n, n))
    for i in range(2 * n):
        own = (i // 2) // size
        P[i, own * size : (own + 1) * size] = rng.dirichlet(np.ones(size)) * (1 - passage)
        P[i, (1 - own) * size] = passage * rng.uniform(0.5, 1)
        P[i] /= P[i].sum()
    mdp = MDP(P, rng.normal(size=2 * n), np.repeat(np.arange(n), 2))
    quotas = [
        Quota("one", states=range(size), at_least=0.1),
        Quota("some", pairs=rng.permutation(2 * n)[:5], at_most=0.9),
    ]
    return Problem(mdp, quotas), rng.dirichlet(np.ones(2), n).ravel()


def truth(problem, policy):
    """Gain and shares in rational arithmetic, by elimination."""
    mdp, n = problem.mdp, problem.mdp.n_states
    pi = [Fraction(p) for p in policy]
    pi = [p / (pi[2 * (i // 2)] + pi[2 * (i // 2) + 1]) for i, p in enumerate(pi)]
    Q = [[Fraction(0)] * n for _ in range(n)]
    for i, row in enumerate(mdp.P.toarray()):
        total = sum(map(Fraction, row))
        for t, p in enumerate(row):
            Q[i // 2][t] += pi[i] * Fraction(p) / total
    nu = [Fraction(0)] * (n - 1) + [Fraction(1)]
    for k in range(n - 1, 0, -1):  # states are left out one by one
        leaving = sum(Q[k][:k])
        for i in range(k):
            Q[i][k] /= leaving
            for j in range(k):
                Q[i][j] += Q[i][k] * Q[k][j]
    nu = [Fraction(1)]
    for k in range(1, n):
        nu.append(sum(nu[i] * Q[i][k] for i in range(k)))
    x = [p * nu[i // 2] / sum(nu) for i, p in enumerate(pi)]
    shares = [sum(w * Fraction(g) for w, g in zip(x, row, strict=True)) for row in problem.members.toarray()]
    return sum(w * Fraction(r) for w, r in zip(x, mdp.r, strict=True)), shares


@pytest.mark.parametrize("passage", [1e-2, 1e-6, 1e-9])
@pytest.mark.parametrize("arithmetic", SEVERAL)
def test_shares_that_are_moved_cost_nothing(arithmetic, passage, monkeypatch):
    """What a wrong distribution leaves open, relative values close, and the truth lies inside."""
    problem, policy = islands(passage)
    nu = Chain.of(problem.mdp, policy).shares
    monkeypatch.setattr(Chain, "shares", nu * (1 + 1e-3 * np.sin(np.arange(nu.size))))
    found = arithmetic.long_run(problem, policy)
    gain, shares = truth(problem, policy)
    assert found.error > 1e-5
    assert found.gain[0] <= gain <= found.gain[1] <= found.gain[0] + 1e-8
    for (low, high), share in zip(found.shares, shares, strict=True):
        assert low <= share <= high <= low + 1e-8


@pytest.mark.parametrize("seed", range(5))
def test_any_vector_proves_something_true(seed):
    problem, policy = islands(1e-3, seed)
    rng = np.random.default_rng(seed)
    noise = drift.Drift(*(rng.normal(size=(2, 8, 3)) * 10.0 ** rng.integers(-3, 9)))
    gain, shares = truth(problem, policy)
    (low, high), ends = drift.mean_intervals(problem, policy, noise, 0.0)
    assert low <= gain <= high
    assert all(low <= share <= high for (low, high), share in zip(ends, shares, strict=True))
    huge = drift.Drift(np.full((8, 3), np.inf), np.zeros((8, 3)))
    assert drift.mean_intervals(problem, policy, huge, 0.0)[0] == (-np.inf, np.inf)


@pytest.mark.parametrize("seed", range(5))
def test_models_that_are_off_are_allowed_for(seed):
    """The intervals of a model hold for every one whose entries are within a part of its own."""
    problem, policy = islands(1e-2, seed)
    mdp, part = problem.mdp, 1e-5
    found = drift.find_drift(problem, policy, Chain.of(mdp, policy))
    (low, high), ends = drift.mean_intervals(problem, policy, found, part)
    rng = np.random.default_rng(seed)
    near = csr_array(
        (mdp.P.data * (1 + part * rng.uniform(-0.5, 0.5, mdp.P.nnz)), mdp.P.indices, mdp.P.indptr)
    )
    near.data /= np.repeat(near.sum(axis=1), np.diff(near.indptr))
    other = Problem(MDP(near, mdp.r, mdp.s_of), problem.quotas)
    gain, shares = truth(other, policy)
    assert abs(float(gain - truth(problem, policy)[0])) > 1e-9
    assert low <= gain <= high
    assert all(low <= share <= high for (low, high), share in zip(ends, shares, strict=True))


def test_a_policy_is_fair_by_relative_values_alone(monkeypatch):
    """A slack below the error of the shares decides."""
    problem, policy = islands(1e-6)
    nu = Chain.of(problem.mdp, policy).shares
    share = float(truth(problem, policy)[1][0])
    monkeypatch.setattr(Chain, "shares", nu * (1 + 1e-7 * np.sin(np.arange(nu.size))))
    for owed, status in ((share - 2e-9, Status.FEASIBLE), (share + 1e-8, Status.UNDECIDED)):
        asked = problem.with_bounds([owed, 0.0])
        account = dict(tol=1e-6, method="none", counters={})
        nothing = np.zeros(8), np.zeros(2)
        solution = claim.certify_policy(asked, policy, *nothing, **account)
        assert solution.status is status
        monkeypatch.setattr(rounded, "wide", lambda *_: False)
        assert claim.certify_policy(asked, policy, *nothing, **account).status is Status.UNDECIDED
        monkeypatch.setattr(rounded, "wide", drift.wide)


def test_steps_that_take_time():
    """The model of equal steps was rounded, which is allowed for."""
    problem = scenarios.three_state(rho=[0.1, 0.1, 0.2])
    mdp = problem.mdp
    timed = Problem(MDP(mdp.P, mdp.r, mdp.s_of, durations=np.linspace(0.3, 5, 6)), problem.quotas)
    policy = np.full(6, 0.5)
    found = drift.find_drift(timed, policy, Chain.of(timed.mdp, policy))
    (low, high), ends = drift.mean_intervals(timed, policy, found, 1e-14)
    run = exact.long_run(timed, policy)
    assert low <= run.gain[0] <= run.gain[1] <= high <= low + 1e-11
    assert (ends[:, 0] <= run.shares[:, 0]).all() and (run.shares[:, 1] <= ends[:, 1]).all()


def test_large_chains_that_hardly_hang_together_are_worth_it():
    """Two lines of 2,600 states lead to their middles; one passage in 1e8 steps joins these."""
    half = 2600
    n, middle = 2 * half, half // 2
    place = np.arange(n) % half
    towards = np.sign(middle - place)
    ahead, back = np.arange(n) + towards, np.arange(n) - towards
    stay = (place == 0) | (place == half - 1)
    back[stay] = np.flatnonzero(stay)
    rows = np.repeat(np.arange(n), 2)
    P = csr_array(
        (np.tile([0.7, 0.3], n), (rows, np.column_stack([ahead, back]).ravel())), shape=(n, n)
    ).tolil()
    for one, other in ((middle, half + middle), (half + middle, middle)):
        P[one, [one, one - 1, other]] = 0.3, 0.7 - 1e-8, 1e-8
    problem = Problem(
        MDP(P.tocsr(), np.linspace(0, 1, n), np.arange(n)), [Quota("one", range(half), at_least=0.4)]
    )
    found = rounded.long_run(problem, np.ones(n))
    assert found.error > 1e-7
    assert found.shares[0, 0] <= 0.5 <= found.shares[0, 1] <= found.shares[0, 0] + 1e-8
