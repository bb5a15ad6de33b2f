"""GMRES with incomplete factors on chains that mix slowly."""

import numpy as np
import pytest
from models import lattice_queue
from scipy.sparse import csr_array

from fairmdp import Chain, Problem, Quota, Status, verify
from fairmdp.backends.base import ChainTuning
from fairmdp.backends.cpu import ways
from fairmdp.backends.cpu.backend import CpuBackend
from fairmdp.certificate import rounded
from fairmdp.chains import Tuning, krylov
from fairmdp.chains.policy import uniform_policy
from fairmdp.solvers import colgen, columns
from fairmdp.solvers.request import Request


def dominant(n, seed):
    """A sparse matrix with a dominant diagonal, as CSR with sorted rows, and where its diagonal is."""
    rng = np.random.default_rng(seed)
    A = -rng.random((n, n)) * (rng.random((n, n)) < 0.2)
    np.fill_diagonal(A, 0)
    A += np.diag(1 - A.sum(axis=1))
    M = csr_array(A)
    M.sort_indices()
    return A, M, np.flatnonzero(M.indices == np.repeat(np.arange(n), np.diff(M.indptr)))


def unpacked(M, vals):
    LU = csr_array((vals, M.indices, M.indptr), shape=M.shape).toarray()
    return np.tril(LU, -1) + np.eye(LU.shape[0]), np.triu(LU)


@pytest.mark.parametrize("seed", range(3))
def test_factors_are_exact_in_their_pattern(seed):
    A, M, diagonal = dominant(30, seed)
    vals = M.data.copy()
    krylov.incomplete_factors(M.indptr, M.indices, diagonal, vals, 0.0)
    L, U = unpacked(M, vals)
    assert (L @ U)[A != 0] == pytest.approx(A[A != 0], abs=1e-13)


def test_dropped_fill_goes_to_the_diagonal():
    A, M, diagonal = dominant(30, 0)
    vals = M.data.copy()
    krylov.incomplete_factors(M.indptr, M.indices, diagonal, vals, 1.0)
    L, U = unpacked(M, vals)
    assert (L @ U).sum(axis=1)[:-1] == pytest.approx(A.sum(axis=1)[:-1], abs=1e-12)


def test_substitution_solves_both_ways():
    _, M, diagonal = dominant(30, 1)
    vals = M.data.copy()
    krylov.incomplete_factors(M.indptr, M.indices, diagonal, vals, 0.9)
    L, U = unpacked(M, vals)
    b = np.random.default_rng(0).normal(size=30)
    x, y = b.copy(), b.copy()
    krylov.sparse_substitute(M.indptr, M.indices, diagonal, vals, x)
    krylov.sparse_substitute_transposed(M.indptr, M.indices, diagonal, vals, y)
    assert L @ U @ x == pytest.approx(b, abs=1e-12) and (L @ U).T @ y == pytest.approx(b, abs=1e-12)


def test_a_slow_queue():
    """Stationary distribution, gain and bias of a walk that sweeps take thousands of steps for."""
    mdp = lattice_queue(8)
    P = Chain.of(mdp, uniform_policy(mdp)).P
    chain = Chain(P)
    pinned = krylov.Pinned(P, int(np.argmax(chain.shares)))
    nu, error = pinned.stationary(np.full(mdp.n_states, 1 / mdp.n_states), 1e-12)
    assert error <= 1e-12 and np.abs(nu - chain.shares).sum() <= 1e-11
    f = np.random.default_rng(0).normal(size=mdp.n_states)
    h, gain, left = pinned.bias(f, 1e-11)
    assert left <= 1e-11 and np.ptp(f + P @ h - h) <= 1e-11
    assert gain == pytest.approx(nu @ f, abs=1e-11)


def test_column_generation_by_gmres_alone(monkeypatch):
    """The same optimum, whichever way chains are solved."""
    mdp = lattice_queue(7)
    problem = Problem(mdp, [Quota("short", states=range(64 * 2), at_least=0.5)])
    usual = colgen.solve_colgen(problem)
    slow = CpuBackend(problem, tuning=ChainTuning(cheap=1, factored=1, evaluation=1, stationary=1))
    settled, evaluate = [], ways.Slowly.evaluate
    monkeypatch.setattr(
        ways.Slowly, "evaluate", lambda *words: settled.append(evaluate(*words)) or settled[-1]
    )
    sol = colgen.run_colgen(slow, Request(), colgen.Tuning(search=columns.Tuning(stalls=1)))
    assert len(settled) > 5 and all(left < 1 for _, left in settled)
    assert sol.status is usual.status is Status.OPTIMAL and verify(problem, sol).ok
    assert sol.gain == pytest.approx(usual.gain, abs=2e-6)


def test_a_certificate_by_gmres_alone(monkeypatch):
    """What a large model's certificate does where the chain mixes slowly."""
    mdp = lattice_queue(8)
    problem, policy = Problem(mdp, [Quota("short", states=range(64 * 2), at_least=0.0)]), uniform_policy(mdp)
    usual = rounded.long_run(problem, policy)
    monkeypatch.setattr(Chain, "_factors", None)
    chain = Chain(Chain.of(mdp, policy).P, tuning=Tuning(sweeps=1, factored=1))
    found = rounded.long_run(problem, policy, chain)
    assert found.error < 1e-9 and found.gain == pytest.approx(usual.gain, abs=1e-9)
    assert found.shares == pytest.approx(usual.shares, abs=1e-9)
