"""Chains that mix slowly, by groups of states."""

import numpy as np
import pytest
from models import lattice_queue
from scipy.sparse import csr_array, eye_array, random_array

from fairmdp import Chain
from fairmdp.chains import ChainRows, SlowChain
from fairmdp.chains.aggregates import COARSEST, aggregated, near_order
from fairmdp.chains.krylov import Pinned
from fairmdp.chains.levels import built, level_of
from fairmdp.chains.multigrid import Multigrid, solved
from fairmdp.chains.policy import policy_matrix, uniform_policy


def rows_of(P):
    return ChainRows(P.indptr.astype(np.int64), P.indices.astype(np.int32), P.data.copy())


def queue_chain(room):
    """Matrix of a slow queue, of the policy that serves the longest one that pays."""
    mdp = lattice_queue(room)
    pi = np.where(np.arange(mdp.n_pairs) % 3 == 0, 0.9, 0.05)
    pi /= np.bincount(mdp.s_of, pi)[mdp.s_of]
    return policy_matrix(mdp, pi), policy_matrix(mdp, uniform_policy(mdp))


def shuffled(P, seed=0):
    order = np.random.default_rng(seed).permutation(P.shape[0])
    return csr_array(P[order][:, order]), order


def two_classes():
    """Two copies of a queue that never meet."""
    P, _ = queue_chain(4)
    n = P.shape[0]
    starts = np.concatenate([P.indptr, P.indptr[1:] + P.nnz])
    both = np.concatenate([P.data, P.data]), np.concatenate([P.indices, P.indices + n]), starts
    return csr_array(both, shape=(2 * n, 2 * n))


def steps(P, uniform, f, tol):
    groups = aggregated(rows_of(uniform))
    levels = built(*rows_of(P), *groups, np.ones(f.size))
    return solved(levels, f[groups.order], tol, 40, False)[2]


def test_levels_are_chains_of_groups():
    P, uniform = queue_chain(7)
    groups = aggregated(rows_of(uniform))
    assert groups.sizes[0] == 512 and groups.sizes[-1] <= COARSEST
    assert (groups.sizes[:-1] >= 4 * groups.sizes[1:]).all()
    levels = built(*rows_of(P), *groups, np.ones(512))
    expected = (eye_array(512) - P).toarray()
    for number, n in enumerate(groups.sizes):
        one = level_of(levels, number)
        A = csr_array((one.vals, one.cols, one.starts), shape=(n, n)).toarray()
        np.testing.assert_allclose(A, expected, atol=1e-14)
        np.testing.assert_allclose(A.sum(axis=1), 0, atol=1e-13)
        if number < groups.sizes.size - 1:
            E = np.eye(groups.sizes[number + 1])[one.group]
            assert E.any(axis=0).all()
            expected = (E / E.sum(axis=0)).T @ A @ E


@pytest.mark.parametrize("mixed", [False, True])
def test_bias_and_distribution(mixed):
    P, uniform = queue_chain(9)
    if mixed:
        P, uniform = shuffled(P)[0], shuffled(uniform)[0]
    exact = Chain(P)
    multigrid = Multigrid(rows_of(P), aggregated(rows_of(uniform)))
    n = P.shape[0]
    f = np.random.default_rng(0).normal(size=n)
    h, left = multigrid.bias(f, 1e-10)
    assert left <= 1e-10 and np.ptp(f - (h - P @ h)) <= 1.1e-10
    assert np.ptp(h - exact.bias(f)) <= 1e-6
    for start in (np.full(n, 1 / n), np.eye(n)[0]):
        for tol in (1e-3, 1e-7, 1e-13):
            nu, error = multigrid.stationary(start, tol)
            assert error <= max(tol, 1e-11)
            assert nu.min() >= 0 and nu.sum() == pytest.approx(1)
            assert np.abs(nu - exact.shares).sum() <= error + 1e-13


def test_shuffled_states_cost_what_ordered_ones_do():
    P, uniform = queue_chain(11)
    f = np.random.default_rng(0).normal(size=P.shape[0])
    mixed, order = shuffled(P)
    ordered = steps(P, uniform, f, 1e-6)
    assert ordered <= 16 and steps(mixed, shuffled(uniform)[0], f[order], 1e-6) <= 1.5 * ordered
    graph = csr_array(uniform + uniform.T)
    assert (near_order(graph) == np.arange(P.shape[0])).all()  # it is good as it is
    assert (near_order(shuffled(graph)[0]) != np.arange(P.shape[0])).any()


def test_several_classes():
    """Any mixture of the classes' distributions is one; a bias there is none, and GMRES answers with restarts."""
    P = two_classes()
    n = P.shape[0]
    chain = SlowChain(rows_of(P), aggregated(rows_of(P)), 0, restart=1e-12)
    nu, error = chain.stationary(np.linspace(0, 2 / n, n), 1e-9)
    assert error <= 1e-9 and np.abs(nu @ P - nu).sum() <= 1e-12 and not chain.stalled
    h, _ = chain.bias(np.arange(n) / n, 1e-6)
    assert chain.stalled and np.isfinite(h).all()


def test_exact_factors_of_a_path_and_a_trap():
    """The factors of a path without loops are complete, so that the last pivot is 0; so is a trap's row."""
    n = 200
    P = np.zeros((n, n))
    P[np.arange(n), np.minimum(np.arange(n) + 1, n - 1)] = 0.5
    P[np.arange(n), np.maximum(np.arange(n) - 1, 0)] += 0.5
    P[0, :2] = 0, 1
    for trap in (False, True):
        if trap:
            P[-1] = np.eye(n)[-1]
        chain = SlowChain.of(csr_array(P), 0)
        nu, error = chain.stationary(np.full(n, 1 / n), 1e-12)
        exact = np.eye(n)[-1] if trap else np.append(0.5, np.ones(n - 1)) / (n - 0.5)
        assert error <= 1e-11 and np.abs(nu - exact).sum() <= 1e-11


def test_groups_that_do_not_pay_are_left_out():
    """A level whose states all lead to each other would take dense factors."""
    P = random_array((2000, 2000), density=0.004, format="csr", random_state=0) + 0.1 * eye_array(2000)
    P = csr_array(P.multiply(1 / P.sum(axis=1)[:, None]))
    groups = aggregated(rows_of(P))
    assert groups.sizes.tolist() == [2000] and groups.group.size == 0
    assert SlowChain.of(P, 0).bias(np.arange(2000.0), 1e-8)[1] <= 1e-8


def test_restarts_do_not_show_in_a_distribution():
    """A chain with one class is solved as it is: a restart of 1e-8 would move its shares by 1e-6."""
    P, _ = queue_chain(7)
    exact = Chain(P).shares
    nu, error = Pinned(P, int(np.argmax(exact)), 1e-8).stationary(np.full(512, 1 / 512), 1e-12)
    assert error <= 1e-12 and np.abs(nu - exact).sum() <= 1e-11
