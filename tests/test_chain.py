import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from fairmdp import MDP, Chain, ProblemError, mixing_time, scenarios
from fairmdp import chain as chain_module
from fairmdp.chain import dobrushin


def random_chain(n, seed, density=1.0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(n), n) * (rng.random((n, n)) < density)
    P[np.arange(n), (np.arange(n) + 1) % n] += 0.05
    P[np.arange(n), np.arange(n)] += 0.05
    return P / P.sum(axis=1, keepdims=True)


@pytest.fixture(params=["dense", "sweeps", "factors", "gmres"])
def branch(request, monkeypatch):
    """Send small chains through each way of solving."""
    if request.param != "dense":
        monkeypatch.setattr(chain_module, "_DENSE", 1)
    if request.param in ("factors", "gmres"):
        monkeypatch.setattr(chain_module, "_SWEEPS", 0)
    if request.param == "gmres":
        monkeypatch.setattr(chain_module, "_FACTORED", 1)
    return request.param


@pytest.mark.parametrize("seed", range(5))
def test_shares_and_bias_solve_their_equations(seed, branch):
    P = random_chain(30, seed, density=0.3)
    chain = Chain(csr_array(P))
    f = np.random.default_rng(seed).normal(size=30)
    nu, h = chain.shares, chain.bias(f)
    assert nu @ P == pytest.approx(nu, abs=1e-14) and nu.sum() == pytest.approx(1, abs=1e-14)
    assert nu == pytest.approx(np.linalg.matrix_power(P, 2**14)[0], abs=1e-12)
    assert f - chain.gain(f) + P @ h == pytest.approx(h, abs=1e-11)
    assert nu @ h == pytest.approx(0, abs=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_hitting_times_are_expected_steps(seed, branch):
    P = random_chain(12, seed)
    steps = Chain(csr_array(P)).hitting_times(3)
    rest = np.delete(np.arange(12), 3)
    assert steps[3] == pytest.approx(0, abs=1e-9)
    assert steps[rest] == pytest.approx(1 + P[np.ix_(rest, rest)] @ steps[rest], rel=1e-9)


def test_laws_beyond_the_range_of_floats():
    """The last state is 1e600 times as heavy as the first, from which elimination begins to count."""
    n, up, down = 61, 0.5, 0.5e-10
    P = np.diag(np.full(n - 1, up), 1) + np.diag(np.full(n - 1, down), -1)
    P += np.diag(1 - P.sum(axis=1))
    nu = Chain(csr_array(P)).shares
    assert nu[-1] == pytest.approx(1 - 1e-10, rel=1e-12)
    assert nu[-20:] / nu[-1] == pytest.approx(1e-10 ** np.arange(19, -1, -1.0), rel=1e-9)


def test_rare_states_keep_their_relative_accuracy():
    """A birth-death chain down to 1e-60: elimination without subtractions gets every digit."""
    n, up, down = 61, 0.05, 0.5
    P = np.diag(np.full(n - 1, up), 1) + np.diag(np.full(n - 1, down), -1)
    P += np.diag(1 - P.sum(axis=1))
    nu = Chain(csr_array(P)).shares
    expected = (up / down) ** np.arange(n)
    assert nu == pytest.approx(expected / expected.sum(), rel=1e-12)


def test_almost_reducible_chains_are_solved_exactly():
    eps = 1e-300
    nu = Chain(csr_array([[1 - eps, eps], [2 * eps, 1 - 2 * eps]])).shares
    assert nu == pytest.approx([2 / 3, 1 / 3], rel=1e-12)


def test_closed_classes_and_their_laws():
    P = np.zeros((6, 6))
    P[0, 1] = P[1, 0] = 1  # a class of period 2
    P[2, 2] = 0.5
    P[2, 3] = 0.5
    P[3, 2] = 1
    P[4, [0, 2]] = 0.25, 0.75
    P[5, [4, 5]] = 0.5
    chain = Chain(csr_array(P))
    assert [c.tolist() for c in chain.closed_classes] == [[0, 1], [2, 3]]
    assert chain.periods == (2, 1)
    assert chain.laws[0].tolist() == [0.5, 0.5, 0, 0, 0, 0]
    assert chain.laws[1] == pytest.approx([0, 0, 2 / 3, 1 / 3, 0, 0])
    with pytest.raises(
        ProblemError, match="2 closed classes, so its long-run shares depend on where it starts"
    ):
        _ = chain.shares
    from_5 = chain.shares_from([0, 0, 0, 0, 0, 1])
    assert from_5 == pytest.approx(0.25 * chain.laws[0] + 0.75 * chain.laws[1])


def test_stored_zeros_are_no_edges():
    P = csr_array((np.array([1.0, 0.0, 1.0]), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 2))
    assert len(Chain(P).closed_classes) == 2


@pytest.mark.parametrize("cycle", [2, 3, 5])
def test_period_of_a_cycle_and_of_a_cycle_with_a_chord(cycle):
    ring = np.roll(np.eye(cycle), 1, axis=1)
    chain = Chain(csr_array(ring))
    assert chain.periods == (cycle,) and chain.shares == pytest.approx(np.full(cycle, 1 / cycle))
    with pytest.raises(ProblemError, match=f"period {cycle}: it never mixes"):
        _ = chain.mixing_time


def test_periodic_chains_settle_without_elimination(monkeypatch):
    monkeypatch.setattr(chain_module, "_DENSE", 1)
    n = 40
    walk = (np.roll(np.eye(n), 1, axis=1) * 0.7) + (np.roll(np.eye(n), -1, axis=1) * 0.3)
    assert Chain(csr_array(walk)).shares == pytest.approx(np.full(n, 1 / n), abs=1e-14)


def test_eigenvectors_by_position_would_be_wrong():
    """On 23 % of sparse 6-state chains the first eigenvector is not the law; ours always is."""
    rng = np.random.default_rng(0)
    wrong = 0
    for seed in range(200):
        P = random_chain(6, seed, density=0.3)
        P = P[np.ix_(*[rng.permutation(6)] * 2)]
        first = np.linalg.eig(P.T)[1][:, 0]
        nu = Chain(csr_array(P)).shares
        assert nu @ P == pytest.approx(nu, abs=1e-14)
        wrong += not np.allclose(first, nu * first.sum())
    assert wrong > 10


def brute_mixing_time(P):
    nu = np.linalg.matrix_power(P, 2**20)[0]
    M, t = P, 1
    while np.abs(M - nu).sum(axis=1).max() > 0.5:
        M, t = M @ P, t + 1
    return t


@pytest.mark.parametrize("seed", range(20))
def test_mixing_time_is_the_first_step_within_a_half(seed):
    P = random_chain(5, seed, density=0.2)
    P = 0.05 * P + 0.95 * np.eye(5) if seed % 2 else P
    assert Chain(csr_array(P)).mixing_time == brute_mixing_time(P)


def test_mixing_time_of_the_paper():
    mdp = scenarios.three_state().mdp
    assert mixing_time(mdp) == chain_module.MixingTime(8, exact=True)
    assert dobrushin(mdp) == pytest.approx(0.9)


def test_mixing_bound_covers_every_policy(monkeypatch):
    mdp = scenarios.three_state().mdp
    monkeypatch.setattr(chain_module, "_MAX_POLICIES", 0)
    assert mixing_time(mdp) == chain_module.MixingTime(
        math.ceil(math.log(4) / math.log(1 / 0.9)), exact=False
    )
    split = MDP(np.eye(2), [0, 0], [0, 1])
    assert mixing_time(split).steps == math.inf


def test_deviation_norm_is_that_of_the_matrix():
    P = random_chain(7, 1)
    chain = Chain(csr_array(P))
    total = sum(np.linalg.matrix_power(P, t) - chain.shares for t in range(2000))
    assert chain.deviation_norm == pytest.approx(np.abs(total).sum(axis=1).max(), rel=1e-9)


def test_one_state():
    chain = Chain(csr_array([[1.0]]))
    assert chain.shares.tolist() == [1] and chain.mixing_time == 1 and chain.bias([3.0]).tolist() == [0]


def test_a_transient_state_that_is_hardly_ever_left():
    """Its leaving is lost in ``1 - p``, which once made the system singular."""
    P = np.array([[1, 0, 0], [0, 1, 0], [1e-17, 3e-17, 1.0]])
    assert Chain(csr_array(P)).shares_from([0, 0, 1]) == pytest.approx([0.25, 0.75, 0])
    assert Chain(csr_array(P)).shares_from([0.5, 0.5, 0]) == pytest.approx([0.5, 0.5, 0])
