"""The CUDA kernel sets: on a GPU where there is one, and their source on the CPU wherever there is g++."""

import shutil

import numpy as np
import pytest
from tests.cuda_host import host_launcher
from tests.test_dual import random_problem

from fairmdp import (
    Chain,
    DeviceError,
    DeviceProblem,
    Problem,
    Status,
    scenarios,
    solve_dual,
    solve_lp,
    solve_proximal,
    verify,
)
from fairmdp.kernels.cuda.launcher import open_cuda
from fairmdp.solvers import mirror_sweep as mirror_sweeps
from fairmdp.solvers import on_device
from fairmdp.solvers.mirror_steps import Steps
from fairmdp.solvers.mirror_sweep import mirror_sweep
from fairmdp.solvers.policy import uniform_policy


def gpu():
    try:
        return open_cuda("sweeps")
    except DeviceError as error:
        pytest.skip(f"no GPU: {error}".splitlines()[0])


@pytest.fixture(scope="module", params=["host", "gpu"])
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
    if launcher.xp is np:
        monkeypatch.setattr(on_device, "open_cuda", lambda name: launcher)
        monkeypatch.setattr(on_device, "require_memory", lambda *args: "")


@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_the_linear_program(on_launcher, seed):
    problem = random_problem(seed, feasible=seed % 5 != 4)
    exact, sol = solve_lp(problem), solve_dual(problem, device="cuda")
    assert sol.status is exact.status
    assert verify(problem, sol).ok
    if exact.status is Status.OPTIMAL:
        unit = np.ptp(problem.mdp.r) or 1.0
        assert exact.upper - sol.gain <= 1e-6 * unit and sol.upper >= exact.gain - 1e-8 * unit
        assert sol.notes[-1] == "certified on the GPU and again on the CPU" or "stalled" in sol.method


def test_same_steps_as_on_the_cpu(on_launcher):
    problem = scenarios.garnet(n_states=3000, n_quotas=4, tightness=0.99, seed=3)
    sol, cpu = solve_dual(problem, device="cuda"), solve_dual(problem)
    assert sol.status is Status.OPTIMAL and verify(problem, sol).ok
    assert sol.counters["steps"] == cpu.counters["steps"]
    assert sol.gain == pytest.approx(cpu.gain, abs=1e-8)


# --- a quota for every state ---------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["host", "gpu"])
def proximal_launcher(request, tmp_path_factory):
    if request.param == "gpu":
        gpu()
        return open_cuda("proximal")
    if shutil.which("g++") is None:
        pytest.skip("no g++ to compile the CUDA sources with")
    return host_launcher("proximal", tmp_path_factory.mktemp("proximal"))


@pytest.fixture
def on_proximal_launcher(proximal_launcher, monkeypatch):
    if proximal_launcher.xp is np:
        monkeypatch.setattr(on_device, "open_cuda", lambda name: proximal_launcher)
        monkeypatch.setattr(on_device, "require_memory", lambda *args: "")
    return proximal_launcher


def per_state(n, seed=0):
    mdp = scenarios.garnet(n, 4, 4, n_quotas=0, seed=seed).mdp
    return Problem(mdp, rho=0.3 * Chain.of(mdp, uniform_policy(mdp)).shares)


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_per_state_agrees_with_the_cpu(on_proximal_launcher, tol):
    problem = per_state(200)
    sol, cpu = solve_proximal(problem, tol=tol, device="cuda"), solve_proximal(problem, tol=tol)
    assert sol.status is Status.OPTIMAL and verify(problem, sol).ok
    assert abs(sol.gain - cpu.gain) <= tol * np.ptp(problem.mdp.r)


def test_per_state_problem_on_the_device(on_proximal_launcher):
    launcher = on_proximal_launcher
    problem = per_state(500)
    sol = solve_proximal(DeviceProblem.of(problem, launcher.put), tol=1e-4)
    assert sol.status is Status.OPTIMAL and sol.notes[-1] == "certified on the GPU"
    exact = Chain.of(problem.mdp, launcher.get(sol.policy)).shares
    assert np.abs(sol.shares / exact - 1).max() <= 1e-11
    assert sol.worst_slack >= -1e-12


# --- many runs of Algorithm 1 --------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["host", "gpu"])
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
