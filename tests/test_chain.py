import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array

from fairmdp import MDP, Chain, ProblemError, mixing_time, scenarios
from fairmdp.chains import MixingTime, Tuning, dobrushin, iterative


def random_chain(n, seed, density=1.0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(n), n) * (rng.random((n, n)) < density)
    P[np.arange(n), (np.arange(n) + 1) % n] += 0.05
    P[np.arange(n), np.arange(n)] += 0.05
    return P / P.sum(axis=1, keepdims=True)


WAYS = {  # each way of solving, for chains of a few states
    "dense": Tuning(),
    "sweeps": Tuning(dense=1),
    "factors": Tuning(dense=1, sweeps=0),
    "gmres": Tuning(dense=1, sweeps=0, factored=1),
}
ways = pytest.mark.parametrize("tuning", WAYS.values(), ids=WAYS.keys())


@ways
@pytest.mark.parametrize("seed", range(5))
def test_shares_and_bias_solve_their_equations(seed, tuning):
    P = random_chain(30, seed, density=0.3)
    chain = Chain(csr_array(P), tuning=tuning)
    f = np.random.default_rng(seed).normal(size=30)
    nu, h = chain.shares, chain.bias(f)
    assert nu @ P == pytest.approx(nu, abs=1e-14) and nu.sum() == pytest.approx(1, abs=1e-14)
    assert nu == pytest.approx(np.linalg.matrix_power(P, 2**14)[0], abs=1e-12)
    assert f - chain.gain(f) + P @ h == pytest.approx(h, abs=1e-11)
    assert nu @ h == pytest.approx(0, abs=1e-11)


@ways
def test_several_biases_at_once_are_those_one_by_one(tuning):
    chain = Chain(csr_array(random_chain(30, 0, density=0.3)), tuning=tuning)
    F = np.random.default_rng(0).normal(size=(30, 3)) * [1.0, 1e-3, 1e3]
    H = chain.bias(F)
    for f, h in zip(F.T, H.T, strict=True):
        assert h == pytest.approx(chain.bias(f), rel=1e-9, abs=1e-10 * np.ptp(F))
    with pytest.raises(ProblemError, match=r"f has shape \(3, 30\), expected \(30,\)"):
        chain.bias(F.T)


@ways
@pytest.mark.parametrize("off", [0.0, 1e-9, 0.3])
def test_a_guess_leads_to_the_same_shares(tuning, off):
    P = csr_array(random_chain(30, 1, density=0.3))
    nu = Chain(P).shares
    guess = nu * (1 + off * np.cos(np.arange(30)))
    for wrong in (guess, guess * 0, guess * np.nan, -guess, 1e300 * guess, np.eye(30)[4]):
        assert Chain(P, wrong, tuning).shares == pytest.approx(nu, abs=1e-13)


def test_a_good_guess_saves_the_sweeps():
    walk = np.roll(np.eye(600), 1, axis=1) * 0.6 + np.roll(np.eye(600), -1, axis=1) * 0.4
    walk[0] = np.eye(600)[1]
    P = csr_array(walk)
    nu = Chain(P).shares  # by factors: this walk hardly mixes
    assert not iterative.stationary(P, np.full(600, 1 / 600), 2000)[1]
    again, settled = iterative.stationary(P, nu, 1)
    assert settled and again == pytest.approx(nu, abs=1e-16)


@ways
@pytest.mark.parametrize("seed", range(3))
def test_hitting_times_are_expected_steps(seed, tuning):
    P = random_chain(12, seed)
    steps = Chain(csr_array(P), tuning=tuning).hitting_times(3)
    rest = np.delete(np.arange(12), 3)
    assert steps[3] == pytest.approx(0, abs=1e-9)
    assert steps[rest] == pytest.approx(1 + P[np.ix_(rest, rest)] @ steps[rest], rel=1e-9)


def test_shares_beyond_the_range_of_floats():
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


def test_closed_classes_and_their_distributions():
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
    assert chain.stationary[0].tolist() == [0.5, 0.5, 0, 0, 0, 0]
    assert chain.stationary[1] == pytest.approx([0, 0, 2 / 3, 1 / 3, 0, 0])
    with pytest.raises(
        ProblemError, match="2 closed classes, so its long-run shares depend on where it starts"
    ):
        _ = chain.shares
    from_5 = chain.shares_from([0, 0, 0, 0, 0, 1])
    assert from_5 == pytest.approx(0.25 * chain.stationary[0] + 0.75 * chain.stationary[1])


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


def test_periodic_chains_settle_without_elimination():
    n = 40
    walk = (np.roll(np.eye(n), 1, axis=1) * 0.7) + (np.roll(np.eye(n), -1, axis=1) * 0.3)
    shares = Chain(csr_array(walk), tuning=WAYS["sweeps"]).shares
    assert shares == pytest.approx(np.full(n, 1 / n), abs=1e-14)


def test_eigenvectors_by_position_would_be_wrong():
    """On 23 % of sparse 6-state chains the first eigenvector is not stationary; ours always is."""
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
    assert mixing_time(mdp) == MixingTime(8, exact=True)
    assert dobrushin(mdp) == pytest.approx(0.9)


def test_mixing_bound_covers_every_policy():
    mdp = scenarios.three_state().mdp
    bound = MixingTime(math.ceil(math.log(4) / math.log(1 / 0.9)), exact=False)
    assert mixing_time(mdp, most_policies=0) == bound
    split = MDP(np.eye(2), [0, 0], [0, 1])
    assert mixing_time(split, most_policies=0).steps == math.inf


def test_deviation_norm_is_that_of_the_matrix():
    P = random_chain(7, 1)
    chain = Chain(csr_array(P))
    total = sum(np.linalg.matrix_power(P, t) - chain.shares for t in range(2000))
    assert chain.deviation == pytest.approx(total, abs=1e-9)
    assert chain.deviation_norm == pytest.approx(np.abs(total).sum(axis=1).max(), rel=1e-9)
    f = np.arange(7.0) ** 2
    assert chain.deviation @ f == pytest.approx(chain.bias(f))


def test_one_state():
    chain = Chain(csr_array([[1.0]]))
    assert chain.shares.tolist() == [1] and chain.mixing_time == 1 and chain.bias([3.0]).tolist() == [0]


def test_a_transient_state_that_is_hardly_ever_left():
    """Its leaving is lost in ``1 - p``, which once made the system singular."""
    P = np.array([[1, 0, 0], [0, 1, 0], [1e-17, 3e-17, 1.0]])
    assert Chain(csr_array(P)).shares_from([0, 0, 1]) == pytest.approx([0.25, 0.75, 0])
    assert Chain(csr_array(P)).shares_from([0.5, 0.5, 0]) == pytest.approx([0.5, 0.5, 0])


@ways
def test_a_state_that_may_be_missed_is_infinitely_far(tuning):
    split = Chain(csr_array(np.eye(3)[[1, 0, 2]]), tuning=tuning)
    assert split.hitting_times(1)[1:].tolist() == [0, np.inf]


def test_small_chains_load_no_compiler():
    """A chain of three states is solved before numba could be imported."""
    code = (
        "import sys, fairmdp as fm\n"
        "chain = fm.Chain.of(fm.scenarios.three_state().mdp, [1.0, 0, 1, 0, 1, 0])\n"
        "chain.bias(chain.shares), chain.hitting_times(0), chain.mixing_time\n"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
