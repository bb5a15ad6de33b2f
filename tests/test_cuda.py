"""The CUDA kernel sets: on a GPU where there is one, and their source on the CPU wherever there is g++."""

import shutil

import numpy as np
import pytest
from tests.cuda_host import host_launcher
from tests.test_dual import random_problem

from fairmdp import DeviceError, Status, scenarios, solve_dual, solve_lp, verify
from fairmdp.kernels.cuda.launcher import open_cuda
from fairmdp.solvers import on_device


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
