"""The CUDA kernel sets: on a GPU where there is one, and their source on the CPU wherever there is g++."""

import shutil
import weakref
from dataclasses import replace

import numpy as np
import pytest
from models import lattice_queue
from scipy.sparse import csr_array
from scipy.sparse import random_array as sparse_random
from tests.cuda_host import gpu, host_launcher
from tests.test_dual import random_problem

from fairmdp import (
    MDP,
    Chain,
    DeviceProblem,
    Problem,
    Quota,
    Status,
    scenarios,
    solve,
    solve_dual,
    solve_lp,
    solve_proximal,
    verify,
)
from fairmdp.backends.by_quota import layout, place
from fairmdp.backends.cpu import proximal as numba_kernels
from fairmdp.backends.cpu.backend import CpuBackend
from fairmdp.backends.cuda import backend as cuda_backend
from fairmdp.backends.cuda import chains
from fairmdp.backends.cuda.backend import CudaBackend
from fairmdp.backends.cuda.chains import transposed
from fairmdp.backends.cuda.launcher import Launcher, Variant, open_cuda
from fairmdp.backends.cuda.proximal import CudaProximal
from fairmdp.backends.cuda.ways import CudaVectors
from fairmdp.certificate import device as certificate
from fairmdp.certificate import rounded
from fairmdp.certificate.claim import certify
from fairmdp.chains import bicgstab
from fairmdp.chains.policy import uniform_policy
from fairmdp.chains.sweeps import ChainRows
from fairmdp.deadline import Stop
from fairmdp.mirror import batch as mirror_sweeps
from fairmdp.mirror.batch import mirror_sweep
from fairmdp.mirror.steps import Steps
from fairmdp.solution.solution import Check, Note, Remark
from fairmdp.solvers.auto import choose, solve_on
from fairmdp.solvers.colgen import solve_colgen
from fairmdp.solvers.dual import Tuning, run_dual
from fairmdp.solvers.prices import dual_value, price_box
from fairmdp.solvers.registry import METHODS
from fairmdp.solvers.request import Request

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cuda")]

CERTIFICATES_DIFFER = Note(Remark.CERTIFICATES_DIFFER)


@pytest.fixture(scope="module", params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def launcher(request, tmp_path_factory):
    """The kernels of the dual solver: their source in one thread on the CPU, and on a GPU."""
    if request.param == "gpu":
        return gpu()
    if shutil.which("g++") is None:
        pytest.skip("no g++ to compile the CUDA sources with")
    return host_launcher("sweeps", tmp_path_factory.mktemp("sweeps"))


@pytest.fixture
def on_launcher(launcher, monkeypatch):
    """``device="cuda"`` means the launcher, whatever it runs on."""
    use(launcher, monkeypatch)


def use(launcher, monkeypatch):
    if launcher.xp is np:
        monkeypatch.setattr(cuda_backend, "open_cuda", lambda name: launcher)


@pytest.mark.parametrize("first", range(40))
def test_agrees_with_the_cpu(on_launcher, launcher, first):
    for seed in range(first, 40 if launcher.xp is np else 200, 40):
        assert_agrees(random_problem(seed, feasible=seed % 5 != 4))


def assert_agrees(problem):
    cpu, sol = solve_dual(problem), solve_dual(problem, device="cuda")
    # A proof may be missing on either device.
    assert sol.status is cpu.status or cpu.status is Status.FEASIBLE
    assert verify(problem, sol).ok
    assert not sol.has_policy or sol.upper >= solve_lp(problem).gain - 1e-8 * (np.ptp(problem.mdp.r) or 1.0)
    if sol.status is Status.OPTIMAL:
        assert abs(sol.gain - cpu.gain) <= 1e-6 * (np.ptp(problem.mdp.r) or 1.0) + cpu.gap
        assert (sol.check, sol.device) == (Check.BOTH, "cuda")
        # The CPU alone can prove a policy that takes millions of steps from one class to another.
        assert CERTIFICATES_DIFFER not in sol.notes or Remark.NEARLY_REDUCIBLE in {
            n.remark for n in sol.notes
        }


def test_same_steps_as_on_the_cpu(on_launcher):
    problem = scenarios.garnet(n_states=3000, n_quotas=4, tightness=0.99, seed=3)
    sol, cpu = solve_dual(problem, device="cuda"), solve_dual(problem)
    assert sol.status is Status.OPTIMAL and verify(problem, sol).ok
    assert sol.counters["steps"] == cpu.counters["steps"]
    assert sol.gain == pytest.approx(cpu.gain, abs=1e-8)


def test_problem_on_the_device(on_launcher, launcher):
    problem = scenarios.garnet(n_states=2000, n_quotas=4, tightness=0.99, seed=3)
    sol, cpu = solve(DeviceProblem.of(problem, launcher.put)), solve_dual(problem)
    assert sol.status is Status.OPTIMAL and (sol.check, sol.notes) == (Check.CUDA, ())
    assert sol.gain == pytest.approx(cpu.gain, abs=1e-6)
    policy = launcher.get(sol.policy)
    assert problem.members @ (
        policy * Chain.of(problem.mdp, policy).shares[problem.mdp.s_of]
    ) == pytest.approx(sol.shares, abs=1e-11)
    np.testing.assert_allclose(launcher.get(sol.occupancy).sum(), 1.0)


def test_impossible_problem_on_the_device(on_launcher, launcher):
    problem = scenarios.three_state(rho=[0.1, 0.1, 0.6])
    assert solve_dual(problem).status is Status.INFEASIBLE
    sol = solve_dual(DeviceProblem.of(problem, launcher.put))
    assert sol.status is Status.INFEASIBLE and (sol.check, sol.notes) == (Check.CUDA, ())


# --- models that mix slowly --------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(8))
def test_columns_agree_with_the_cpu(on_launcher, launcher, first):
    for seed in range(first, 8 if launcher.xp is np else 80, 8):
        problem = random_problem(seed, feasible=seed % 5 != 4)
        cpu, sol = solve_colgen(problem), solve_colgen(problem, device="cuda")
        there = solve_colgen(DeviceProblem.of(problem, launcher.put))
        assert sol.status is there.status is cpu.status
        assert verify(problem, sol).ok
        if sol.status is Status.OPTIMAL:
            allowed = 1e-6 * (np.ptp(problem.mdp.r) or 1.0)
            assert abs(sol.gain - cpu.gain) <= allowed and abs(there.gain - cpu.gain) <= allowed
            assert sol.check is Check.BOTH and CERTIFICATES_DIFFER not in sol.notes


def slow(at_least=0.5):
    """Three queues whose chains take thousands of sweeps."""
    shape = (7, 7, 7)
    short = [np.flatnonzero(np.unravel_index(np.arange(343), shape)[c] <= 1) for c in range(3)]
    quotas = [Quota(f"client {c}", states=short[c], at_least=at_least) for c in range(3)]
    return Problem(lattice_queue(6), quotas)


# Small models are taken for large ones.
WITHOUT_FACTORS = replace(cuda_backend.ON_GPU, factored=0, patient=0)


def opened(launcher, problem, tuning=None):
    """Backend of a problem that is on the device."""
    return CudaBackend(DeviceProblem.of(problem, launcher.put), lambda name: launcher, tuning=tuning)


def test_a_queue_on_the_device(launcher):
    problem = slow()
    cpu, sol = solve_colgen(problem), solve_on(opened(launcher, problem, WITHOUT_FACTORS), Request())
    assert (sol.method, sol.device, sol.reason) == ("colgen", "cuda", "slow and few")
    assert sol.status is Status.OPTIMAL and (sol.check, sol.notes) == (Check.CUDA, ())
    assert sol.gain == pytest.approx(cpu.gain, abs=1e-6)
    policy = launcher.get(sol.policy)
    nu = Chain.of(problem.mdp, policy).shares
    np.testing.assert_allclose(launcher.get(sol.visitation), nu, atol=1e-12)
    np.testing.assert_allclose(problem.members @ (policy * nu[problem.mdp.s_of]), sol.shares, atol=1e-11)


def test_values_are_swept_in_floats_without_a_loss_of_digits(launcher):
    problem = scenarios.garnet(n_states=200, n_quotas=2, seed=1)
    device, rng = opened(launcher, problem), np.random.default_rng(0)
    pi = uniform_policy(problem.mdp)
    h, e = rng.normal(size=200), 1000 + 1e-6 * rng.random(200)
    found, left = device.way("sweeps").evaluate(
        device.follow(launcher.put(pi)), launcher.put(h), launcher.put(e), 1e-12
    )
    change = launcher.get(found) - h
    P = csr_array((pi, problem.mdp.s_of, np.arange(pi.size + 1))).T @ problem.mdp.P
    assert left <= 1e-12 and np.ptp(e - change + P @ change) < 2e-12


def test_long_run_of_a_slow_chain(launcher):
    """Sweeps stop far too early; the proof, and what is shown, come from Krylov spaces."""
    problem = slow()
    device, pi = opened(launcher, problem, WITHOUT_FACTORS), uniform_policy(problem.mdp)
    shares = problem.members @ (pi * Chain.of(problem.mdp, pi).shares[problem.mdp.s_of])
    run = certificate.long_run(device, launcher.put(pi))
    assert (run.shares[:, 0] <= shares).all() and (shares <= run.shares[:, 1]).all()
    assert np.diff(run.shares, axis=1).max() < 1e-9
    claim = dict(tol=1e-6, method="", counters={}, began=0.0)
    sol = certify(device, launcher.put(pi), device.full(0.0), np.zeros(3), **claim)
    np.testing.assert_allclose(sol.shares, shares, atol=1e-11)


def test_long_run_of_a_chain_that_leaves_its_first_state_for_good(launcher):
    P = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])  # periodic: sweeps do not settle it
    problem = Problem(MDP(P, [0.0, 1.0, 2.0], [0, 1, 2]), [Quota("last", states=[2], at_least=0.1)])
    run = certificate.long_run(opened(launcher, problem), launcher.put(np.ones(3)))
    assert run.shares[0] == pytest.approx([1 / 2, 1 / 2], abs=1e-12)


def test_policy_of_an_occupancy(launcher):
    problem = random_problem(2)
    mdp, rng = problem.mdp, np.random.default_rng(0)
    x, choice = rng.random(mdp.n_pairs), rng.integers(mdp.pair_ptr[:-1], mdp.pair_ptr[1:])
    idle = rng.random(mdp.n_states) < 0.3
    x[idle[mdp.s_of]] = 0.0
    pi = launcher.get(opened(launcher, problem).read_policy(launcher.put(x), launcher.put(choice)))
    played = np.isin(np.arange(mdp.n_pairs), choice)
    busy = np.where(idle, 1.0, np.add.reduceat(x, mdp.pair_ptr[:-1]))
    np.testing.assert_allclose(pi, np.where(idle[mdp.s_of], played, x / busy[mdp.s_of]), rtol=1e-14)


def test_a_start_on_the_device(on_launcher, launcher):
    problem = DeviceProblem.of(slow(), launcher.put)
    sol = solve_colgen(problem)
    again = solve_colgen(problem, start=sol)
    assert again.gain == pytest.approx(sol.gain, abs=1e-6)
    assert again.counters["columns"] < sol.counters["columns"] / 2


def test_columns_go_on_where_newton_stalls(on_launcher, launcher):
    sol = solve_dual(DeviceProblem.of(slow(), launcher.put), tuning=Tuning(patience=0))
    assert (sol.method, sol.tried, sol.device) == ("colgen", ("dual",), "cuda")
    assert sol.status is Status.OPTIMAL and (sol.check, sol.notes) == (Check.CUDA, ())


def test_a_model_that_mixes_fast_goes_to_newton(on_launcher, launcher):
    sol = solve(scenarios.garnet(n_states=300, n_quotas=2), device="cuda")
    assert (sol.method, sol.reason) == ("dual", "fast and few")


def test_a_model_too_large_to_look_at_goes_to_newton(on_launcher, launcher, monkeypatch):
    follow, calls = CudaBackend.follow, []

    def crowded(self, pi):
        calls.append(pi)
        if len(calls) == 1:  # the uniform policy's chain, which is only looked at
            raise MemoryError
        return follow(self, pi)

    monkeypatch.setattr(CudaBackend, "follow", crowded)
    sol = solve(scenarios.garnet(n_states=300, n_quotas=2), device="cuda")
    assert sol.status is Status.OPTIMAL and (sol.method, sol.reason) == ("dual", "few")


def met_by_the_uniform_policy():
    problem = scenarios.garnet(n_states=300, n_quotas=3, seed=0)
    uniform = uniform_policy(problem.mdp)
    x = uniform * Chain.of(problem.mdp, uniform).shares[problem.mdp.s_of]
    return problem.with_bounds(0.98 * (problem.members @ x))


def test_a_search_that_is_stopped_ends_with_a_fair_policy(on_launcher, launcher):
    """Without any time the uniform policy is what is left, and fair; so it is on the CPU."""
    problem = met_by_the_uniform_policy()
    for asked, device in ((problem, "cuda"), (DeviceProblem.of(problem, launcher.put), "cpu")):
        sol = solve(asked, method="dual", seconds=1e-6, device=device)
        assert sol.status is Status.FEASIBLE and sol.stopped is Stop.OUT_OF_TIME and sol.device == "cuda"
        assert sol.worst_slack >= -1e-9 and sol.upper <= problem.mdp.r.max() + 1e-9
    assert verify(problem, solve(problem, method="dual", seconds=1e-6, device="cuda")).ok


def test_an_unfair_policy_is_mixed_on_the_device(launcher):
    problem = met_by_the_uniform_policy()
    backend, nothing = opened(launcher, problem), np.zeros(3)
    greedy = launcher.put(solve(problem.without_quotas()).policy)
    claim = dict(tol=1e-6, method="", counters={}, began=0.0, stopped=Stop.INTERRUPTED)
    unfair = certify(backend, greedy, backend.full(0.0), nothing, **claim)
    assert unfair.status is Status.UNDECIDED
    methods = {**METHODS, "dual": replace(METHODS["dual"], run=lambda *ask: unfair)}
    fair = solve_on(backend, Request(), "dual", methods=methods)
    assert fair.status is Status.FEASIBLE and [note.remark for note in fair.notes] == [
        Remark.MIXED_WITH_UNIFORM
    ]
    assert 0 < fair.notes[0].value < 1 and fair.gain > solve(problem, seconds=1e-6, method="dual").gain


def test_another_method_follows_on_the_device_where_one_stalls(launcher):
    problem = scenarios.garnet(n_states=300, n_quotas=3, seed=1)
    run = METHODS["dual"].run
    methods = {
        **METHODS,
        "dual": replace(METHODS["dual"], run=lambda *ask: replace(run(*ask), status=Status.UNDECIDED)),
    }
    backend = CudaBackend(problem, lambda name: launcher)
    sol = solve_on(backend, Request(), methods=methods)
    assert (sol.status, sol.method, sol.tried) == (Status.OPTIMAL, "lp", ("dual",))


def test_a_model_is_uploaded_once(launcher):
    """Choosing, Newton's method, column generation after it and both certificates share it."""
    problem, sent = slow(), []

    class Counting(Launcher):
        def put(self, array):
            sent.append(array is problem.mdp.P.data)
            return super().put(array)

    counting = (
        Counting(np, launcher._load, 2, 1, 1) if launcher.xp is np else pytest.skip("counted on the host")
    )
    backend = CudaBackend(problem, lambda name: counting)
    choose(backend)
    sol = run_dual(backend, Request(), Tuning(patience=0))
    assert sol.tried == ("dual",) and sol.check is Check.BOTH and sum(sent) == 1


def test_a_model_without_quotas_on_the_device(on_launcher, launcher):
    problem = slow().without_quotas()
    sol = solve(DeviceProblem.of(problem, launcher.put))
    assert sol.status is Status.OPTIMAL and sol.method == "colgen"
    assert sol.gain == pytest.approx(solve_colgen(problem).gain, abs=1e-6)


@pytest.mark.parametrize("method", ["dual", "colgen"])
def test_an_impossible_queue_on_the_device(on_launcher, launcher, method):
    problem = slow(0.9)
    sol = solve(DeviceProblem.of(problem, launcher.put), method=method)
    assert sol.status is Status.INFEASIBLE and (sol.check, sol.notes) == (Check.CUDA, ())
    assert not sol.has_policy and np.isnan(sol.gain) and np.isnan(launcher.get(sol.policy)).all()
    nothing = np.zeros(problem.mdp.n_pairs)
    assert rounded.ceiling(problem, nothing, launcher.get(sol.bias), sol.prices) < 0


def test_shares_are_at_most_one(on_launcher, launcher):
    for seed in (5, 17, 38):
        mdp = scenarios.garnet(30, 3, 3, n_quotas=0, seed=seed).mdp
        problem = Problem(mdp, [Quota("all", states=range(30), at_least=0.5)])
        assert solve_dual(DeviceProblem.of(problem, launcher.put), tol=1e-3).shares[0] <= 1


def two_rooms(leak):
    """Twice twenty states that are left for the other twenty with a small probability."""
    rng, P = np.random.default_rng(0), np.zeros((40, 40))
    P[:20, :20], P[20:, 20:] = rng.dirichlet(np.ones(20), 20), rng.dirichlet(np.ones(20), 20)
    P[[0, 30]] *= 1 - leak
    P[0, 30] += leak
    P[30, 0] += leak
    return P


CHAINS = {
    "fast": np.random.default_rng(1).dirichlet(np.full(30, 0.2), 30),
    "nearly reducible": two_rooms(1e-3),
    "periodic": np.roll(np.eye(12), 1, axis=1),
    "walk": 0.6 * np.eye(60, k=-1) + 0.4 * np.eye(60, k=1) + np.diag([0.6, *[0.0] * 58, 0.4]),
    "absorbing": np.array([[0.5, 0.5], [0.0, 1.0]]),
    "one state": np.ones((1, 1)),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("where", ["arrays", "kernels"])
def test_bicgstab_agrees_with_a_dense_solve(launcher, where, chain):
    P = CHAINS[chain]
    n, pin = len(P), len(P) // 2
    A = np.eye(n) - P
    A[:, pin] += 1
    exact = np.linalg.solve(A.T, np.eye(n)[pin])  # the stationary distribution
    f, put, get = np.random.default_rng(2).normal(size=n), launcher.put, launcher.get
    there, back = bicgstab_vectors(launcher, where, P, pin)
    found = bicgstab.solve(there, put(f), 1e-11, span=True)
    h = get(found.x)
    assert found.left <= 1e-11 and np.ptp(f + P @ h - h) <= 2e-11
    assert np.ptp(h - np.linalg.solve(A, f)) <= 1e-7
    nu, error, _ = bicgstab.stationary(back, put(np.arange(1.0, n + 1) / (n * (n + 1) / 2)), 1e-12)
    assert error <= 1e-12
    np.testing.assert_allclose(get(nu), exact, atol=1e-10)
    _, error, products = bicgstab.stationary(back, nu, 1e-12)  # from itself
    assert error <= 1e-12 and products <= 400


def bicgstab_vectors(launcher, where, P, pin):
    """Systems of the bias and of the stationary distribution: in terms of arrays, and of kernels."""
    if where == "arrays":
        M = launcher.put(P)
        return bicgstab.Vectors(lambda x: x - M @ x + x[pin]), bicgstab.Vectors(lambda x: x - x @ M)
    chains = [csr_array(P), csr_array(P.T)]
    lists = [(M.indptr.astype(np.int64), M.indices.astype(np.int32), M.data) for M in chains]
    forth, back = (ChainRows(*map(launcher.put, arrays)) for arrays in lists)
    variant = Variant(launcher.row_lanes(6))
    return CudaVectors(launcher, variant, forth, 1.0, pin, 4), CudaVectors(launcher, variant, back, 0.0, 0, 4)


def test_bicgstab_does_no_harm_where_there_is_no_answer(launcher):
    """Two classes have two gains: what comes back is no worse than nothing, and says so."""
    f = launcher.put(np.repeat([0.0, 1.0], 20))
    found = bicgstab.solve(bicgstab_vectors(launcher, "kernels", two_rooms(0.0), 0)[0], f, 1e-9, span=True)
    assert 0.5 <= found.left <= 1 and found.products < bicgstab.MOST


def wide_problem(seed=0):
    """A state with thousands of actions among states with few: more than a block has room for at a time."""
    rng = np.random.default_rng(seed)
    n = 40
    counts = rng.integers(1, 6, n)
    counts[33] = 2500
    s_of = np.repeat(np.arange(n), counts)
    P = rng.dirichlet(np.full(n, 0.1), s_of.size)
    P[P < 1e-3] = 0.0
    mdp = MDP(csr_array(P / P.sum(axis=1, keepdims=True)), rng.uniform(size=s_of.size), s_of)
    pairs = np.flatnonzero(rng.uniform(size=s_of.size) < 0.3)
    quotas = [Quota("some", states=[1, 2, 33], at_least=0.05), Quota("pairs", pairs=pairs, at_least=0.1)]
    return Problem(mdp, quotas)


@pytest.mark.slow
def test_more_actions_than_a_block_has_room_for(launcher):
    problem = wide_problem()
    mdp = problem.mdp
    rng = np.random.default_rng(1)
    h, mu = rng.normal(size=mdp.n_states), np.array([0.3, 0.2])
    cpu, device = CpuBackend(problem), opened(launcher, problem)
    put, get = launcher.put, launcher.get
    for tau in (0.05, 1e9):  # at the second one every action is played
        found, wanted = device.improve(put(h), mu, tau), cpu.improve(h, mu, tau)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(get(one), other, atol=1e-12)
        for one, other in zip(device.follow(found.pi), cpu.follow(wanted.pi), strict=True):
            np.testing.assert_allclose(get(one), other, atol=1e-12)
    old = mdp.pair_ptr[:-1].astype(np.int32)
    for tie in (0.0, 10.0):
        (choice, found), (best, wanted) = device.greedy(put(h), mu, old, tie), cpu.greedy(h, mu, old, tie)
        np.testing.assert_array_equal(get(choice), best)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(get(one), other, atol=1e-12)
    ceiling = certificate.ceiling(device, put(h), mu)
    assert ceiling == pytest.approx(rounded.ceiling(problem, mdp.r, h, mu), rel=1e-12)


@pytest.mark.parametrize("room", [chains.ROOM, 12_000, 1])
def test_transpose_of_a_chain(launcher, room, monkeypatch):
    monkeypatch.setattr(chains, "ROOM", room)  # all at once, some of three buckets, one at a time
    assert_transposed(launcher, 1300)


@pytest.mark.slow
def test_transpose_of_a_chain_by_threads(threaded):
    assert_transposed(threaded, 600)


def assert_transposed(launcher, n):
    rng = np.random.default_rng(0)
    P = sparse_random((n, n), density=0.01, format="csr", rng=rng)
    P = P + csr_array((np.ones(n), (np.arange(n), np.zeros(n, int))), shape=(n, n))  # one column has them all
    P.sort_indices()
    arrays = P.indptr.astype(np.int64), P.indices.astype(np.int32), P.data
    starts, cols, vals = map(launcher.get, transposed(launcher, ChainRows(*map(launcher.put, arrays))))
    turned = csr_array((vals, cols, starts), shape=(n, n))
    assert abs(turned - P.T).max() == 0
    assert turned.nnz == P.nnz


# --- a quota for every state ---------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def proximal_launcher(request, tmp_path_factory):
    if request.param == "gpu":
        gpu()
        return open_cuda("proximal")
    if shutil.which("g++") is None:
        pytest.skip("no g++ to compile the CUDA sources with")
    return host_launcher("proximal", tmp_path_factory.mktemp("proximal"))


@pytest.fixture
def on_proximal_launcher(proximal_launcher, monkeypatch):
    use(proximal_launcher, monkeypatch)
    return proximal_launcher


def per_state(n, seed=0):
    mdp = scenarios.garnet(n, 4, 4, n_quotas=0, seed=seed).mdp
    return Problem(mdp, rho=0.3 * Chain.of(mdp, uniform_policy(mdp)).shares)


@pytest.mark.slow
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_per_state_agrees_with_the_cpu(on_proximal_launcher, tol):
    problem = per_state(200)
    sol, cpu = solve_proximal(problem, tol=tol, device="cuda"), solve_proximal(problem, tol=tol)
    assert sol.status is Status.OPTIMAL and verify(problem, sol).ok
    assert (sol.device, sol.check, sol.notes) == ("cuda", Check.CPU, ()) and cpu.device == "cpu"
    assert abs(sol.gain - cpu.gain) <= tol * np.ptp(problem.mdp.r)


@pytest.mark.slow
def test_groups_of_states_agree_with_the_cpu(on_proximal_launcher):
    mdp = scenarios.garnet(150, 4, 4, n_quotas=0, seed=3).mdp
    shares = Chain.of(mdp, uniform_policy(mdp)).shares
    groups = np.array_split(np.random.default_rng(0).permutation(150)[:120], 30)
    quotas = [Quota(f"g{k}", states=g, at_least=0.9 * shares[g].sum()) for k, g in enumerate(groups)]
    problem = Problem(mdp, quotas)
    sol, cpu = solve_proximal(problem, tol=1e-5, device="cuda"), solve_proximal(problem, tol=1e-5)
    assert sol.status is Status.OPTIMAL and verify(problem, sol).ok
    assert abs(sol.gain - cpu.gain) <= 1e-5 * np.ptp(mdp.r)


@pytest.mark.parametrize("size", [1, 5])
def test_newton_directions_agree_with_the_cpu(proximal_launcher, size):
    rng = np.random.default_rng(size)
    mdp = scenarios.garnet(200, 5, 4, n_quotas=0, seed=2).mdp
    quotas = [
        Quota(f"g{k}", states=np.arange(size * k, size * (k + 1)), at_least=1e-4) for k in range(160 // size)
    ]
    problem = Problem(mdp, quotas)
    order = layout(problem)
    z = rng.uniform(size=mdp.n_pairs) * (rng.uniform(size=mdp.n_pairs) < 0.4 / size)
    loose = rng.uniform(size=order.rho.size) < 0.3
    g, damping = rng.normal(size=200) / 200, np.full(200, 1e-3)
    g -= g.mean()
    found = []
    for kernels in (numba_kernels, CudaProximal(proximal_launcher)):
        put = kernels.put
        model = place(problem, order, problem.mdp.r[order.pairs], kernels).model
        scratch, d = kernels.scratch_for(model), put(np.zeros(200))
        kernels.direction(model, scratch, put(z), put(loose), put(g), put(damping), 1e-6, 300, d)
        found.append(kernels.get(d))
    np.testing.assert_allclose(found[1], found[0], atol=1e-4 * np.abs(found[0]).max())


def test_newton_steps_agree_with_the_cpu(proximal_launcher):
    rng = np.random.default_rng(0)
    problem = per_state(50)
    S, SA = 50, problem.mdp.n_pairs
    start, h, g, d = rng.normal(size=(4, S))
    u, q, extra = rng.normal(size=SA), rng.normal(size=SA), rng.uniform(size=S)
    found = []
    for kernels in (numba_kernels, CudaProximal(proximal_launcher)):
        put, get = kernels.put, kernels.get
        model = place(problem, layout(problem), problem.mdp.r, kernels).model
        there = [put(x.copy()) for x in (start, h, g, d, u, q, extra)]
        start_, h_, g_, d_, u_, q_, extra_ = there
        numbers = kernels.resist(model, 0.3, start_, h_, g_), *kernels.along(model, 0.3, start_, h_, g_, d_)
        kernels.advance(model, 0.7, d_, u_, 0.4, 0.8, h_, q_, extra_)
        found.append([np.array(numbers), *map(get, there)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    moved = np.abs(d) > 0.8
    assert 0 < moved.sum() < S and np.allclose(found[0][-1][~moved], extra[~moved] / 2)


@pytest.mark.slow
def test_per_state_problem_on_the_device(on_proximal_launcher):
    launcher = on_proximal_launcher
    problem = per_state(500)
    sol = solve_proximal(DeviceProblem.of(problem, launcher.put), tol=1e-4)
    assert sol.status is Status.OPTIMAL and sol.check is Check.CUDA
    exact = Chain.of(problem.mdp, launcher.get(sol.policy)).shares
    assert np.abs(sol.shares / exact - 1).max() <= 1e-11
    assert sol.worst_slack >= -1e-12


# --- many runs of Algorithm 1 --------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_mirror_sweep_makes_the_runs_of_the_cpu(where, tmp_path, monkeypatch):
    if where == "gpu":
        gpu()
    elif shutil.which("g++") is None:
        pytest.skip("no g++ to compile the CUDA sources with")
    else:
        monkeypatch.setattr(mirror_sweeps, "open_cuda", lambda name: host_launcher(name, tmp_path))
    problem = scenarios.three_state(rho=[0.1, 0.1, 0.25])
    at_least = np.array([[0.1, 0.1, 0.25], [0.1, 0.0, 0.3], [0.2, 0.2, 0.2]] * 4)
    how = dict(runs=12, steps=3000, seed=7, at_least=at_least)
    settings = Steps(0.05, 0.01, 20.0)
    there, here = (mirror_sweep(problem, settings, **how, device=device) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(there.x, here.x, atol=1e-9)
    np.testing.assert_allclose(there.lam, here.lam, atol=1e-9)
    assert np.ptp(here.x, axis=0).max() > 1e-3


# --- kernels that need many threads, and rows in single precision ------------------------------------------


@pytest.fixture(scope="module")
def threaded(tmp_path_factory):
    """The sources in blocks of 64 real threads, so that lanes and shuffles are at work."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ to compile the CUDA sources with")
    return host_launcher("proximal", tmp_path_factory.mktemp("threads"), threads=64)


@pytest.mark.slow
def test_lanes_agree_with_one_thread(threaded):
    problem = random_problem(2)
    mdp, K = problem.mdp, problem.n_quotas
    rng = np.random.default_rng(0)
    h, mu = rng.normal(size=mdp.n_states), rng.normal(size=K)
    cpu, device = CpuBackend(problem), opened(threaded, problem)
    backup, expected = device.improve(h, mu, 0.5), cpu.improve(h, mu, 0.5)
    for found, wanted in zip(backup, expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    chain = device.follow(backup.pi)
    for found, wanted in zip(chain, cpu.follow(expected.pi), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    nu = rng.dirichlet(np.ones(mdp.n_states))
    shares, gain, mean = cpu.totals(expected.pi, nu, h)
    found = device.totals(backup.pi, nu, h)
    np.testing.assert_allclose(found[0], shares, atol=1e-12)
    assert found[1:] == pytest.approx((gain, mean))
    H, wanted = (
        there.way("sweeps", most=4).biases(
            chain, there.quota_block(backup.pi, shares), None, problem.n_quotas, 0.0
        )[0]
        for there in (device, cpu)
    )
    np.testing.assert_allclose(H[:, :K], wanted, atol=1e-6)
    C = cpu.curvature(backup.pi, nu, np.ascontiguousarray(H[:, :K]))
    np.testing.assert_allclose(device.curvature(backup.pi, nu, H), C, atol=1e-9)


@pytest.mark.slow
def test_products_by_lanes(tmp_path):
    """The kernels of BiCGStab in blocks of 64 real threads."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ to compile the CUDA sources with")
    there = host_launcher("sweeps", tmp_path, threads=64)
    P, pin, rng = CHAINS["fast"], 3, np.random.default_rng(0)
    x, w, r = rng.normal(size=(3, 30))
    vectors = bicgstab_vectors(there, "kernels", P, pin)[0]
    plain = bicgstab_vectors(there, "arrays", P, pin)[0]
    out, dots = vectors.times(x, w)
    ends = vectors.ends(r, w)
    for found, wanted in (
        ((out, dots), plain.times(x, w)),
        (
            vectors.step(x.copy(), r, w, out, x, ends, dots, dots),
            plain.step(x.copy(), r, w, out, x, ends, dots, dots),
        ),
    ):
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-12)
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-12)
    assert vectors._rows.lanes > 1


@pytest.mark.slow
def test_last_probability_is_derived(launcher):
    assert_last_is_derived(launcher)


@pytest.mark.slow
def test_last_probability_is_derived_by_lanes(threaded):
    assert_last_is_derived(threaded)


def assert_last_is_derived(launcher):
    problem = random_problem(2)
    mdp = problem.mdp
    single = mdp.P.data.astype(np.float32)
    single[mdp.P.indptr[1:] - 1] = np.nan  # never read
    there = DeviceProblem.of(problem, launcher.put)
    there = replace(there, mdp=replace(there.mdp, val=launcher.put(single)))
    device = CudaBackend(there, lambda name: launcher)
    exact = mdp.P.copy()
    exact.data = single.astype(float)
    last = exact.indptr[1:] - 1
    exact.data[last] = 0.0
    exact.data[last] = 1 - exact.sum(axis=1)
    rng = np.random.default_rng(0)
    h, mu = rng.normal(size=mdp.n_states), rng.normal(size=problem.n_quotas)
    backup = device.improve(launcher.put(h), mu, 0.5)
    r = (mdp.r - mdp.r.min()) / np.ptp(mdp.r)
    values = r + problem.members.T @ mu + exact @ h
    best = np.maximum.reduceat(values, mdp.pair_ptr[:-1]) - h
    assert backup.top == pytest.approx(best.max(), abs=1e-12)
    chain = device.follow(backup.pi)
    sums = np.add.reduceat(launcher.get(chain.vals), launcher.get(chain.starts)[:-1])
    np.testing.assert_allclose(sums, 1.0, atol=1e-14)


def test_ceiling_bounds_the_rounded_one(launcher):
    problem = random_problem(2)
    rng = np.random.default_rng(1)
    h, mu = rng.normal(size=problem.mdp.n_states), rng.normal(size=problem.n_quotas)
    low, high = price_box(problem)
    mu = np.clip(mu, np.where(np.isfinite(high), -np.inf, 0), np.where(np.isfinite(low), np.inf, 0))
    found = certificate.ceiling(opened(launcher, problem), launcher.put(h), mu)
    wanted = rounded.ceiling(problem, problem.mdp.r, h, mu)
    assert found == pytest.approx(wanted, rel=1e-12)
    top = (problem.mdp.r + problem.members.T @ mu + problem.mdp.P @ h - h[problem.mdp.s_of]).max()
    assert found >= top - dual_value(mu, low, high)


def test_long_run_contains_the_exact_shares(launcher):
    problem = random_problem(2)
    pi = uniform_policy(problem.mdp)
    device = opened(launcher, problem)
    run = certificate.long_run(device, launcher.put(pi))
    x = pi * Chain.of(problem.mdp, pi).shares[problem.mdp.s_of]
    shares, gain = problem.members @ x, problem.mdp.r @ x
    assert (run.shares[:, 0] <= shares).all() and (shares <= run.shares[:, 1]).all()
    assert run.gain[0] <= gain <= run.gain[1]
    assert np.diff(run.shares, axis=1).max() < 1e-9


def test_pairs_far_below_the_best_are_left_out_and_nothing_changes(launcher, monkeypatch):
    assert_nothing_is_missed(launcher, monkeypatch)


@pytest.mark.slow
def test_pairs_are_left_out_by_lanes(threaded, monkeypatch):
    assert_nothing_is_missed(threaded, monkeypatch)


def test_a_backend_lets_go_of_its_memory(launcher, monkeypatch):
    monkeypatch.setattr(cuda_backend, "MANY", 0)
    device = opened(launcher, scenarios.garnet(n_states=50, n_quotas=2, seed=1))
    device.transposed(device.follow(device.improve(device.full(0.0), np.zeros(2), 1e-3).pi))
    gone = weakref.ref(device)
    del device  # a cycle would keep it until someone collects garbage
    assert gone() is None


def assert_nothing_is_missed(launcher, monkeypatch):
    problem = scenarios.garnet(n_states=150, n_actions=6, n_quotas=4, tightness=0.99, seed=3)
    plain = opened(launcher, problem)
    monkeypatch.setattr(cuda_backend, "MANY", 0)
    device, rng = opened(launcher, problem), np.random.default_rng(0)
    h, mu = rng.normal(size=problem.mdp.n_states), np.zeros(4)
    told = []
    look = device._near.look
    monkeypatch.setattr(device._near, "look", lambda *args: told.append(look(*args)) or told[-1])
    # Steps small and large, at temperatures that fall: lists are made, used, shortened, and given up.
    for tau, step in [
        (0.05, 0.0),
        (0.05, 0.1),
        (0.01, 0.05),
        (0.01, 0.04),
        (1e-3, 1e-3),
        (1e-3, 1.0),
        (1e-3, 1e-3),
    ]:
        h, mu = h + step * rng.random(h.size), mu + step * rng.random(4)
        found, wanted = device.improve(launcher.put(h), mu, tau), plain.improve(launcher.put(h), mu, tau)
        np.testing.assert_array_equal(launcher.get(found.pi), launcher.get(wanted.pi))
        np.testing.assert_array_equal(launcher.get(found.e), launcher.get(wanted.e))
        assert found[2:] == wanted[2:]
    assert [known for known, _, _ in told] == [0, 1, 1, 1, 1, 0, 1]
    assert launcher.get(told[-1].pairs).mean() < 0.5
