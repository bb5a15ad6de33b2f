"""Where array work is done: the kernel set of a device, and the last step of a solver that used it."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any

import numpy as np

from fairmdp.certificate import proved_status
from fairmdp.device_problem import DeviceProblem
from fairmdp.errors import ProblemError
from fairmdp.kernels.bellman import ROUNDING, Sweeps
from fairmdp.kernels.cuda.chains import ROOM
from fairmdp.kernels.cuda.launcher import MOST_QUOTAS, open_cuda, require_memory
from fairmdp.kernels.cuda.proximal import CudaProximal
from fairmdp.kernels.cuda.sweeps import CudaSweeps
from fairmdp.problem import Problem
from fairmdp.solution import Solution, Status
from fairmdp.solvers.conclude import conclude
from fairmdp.validation import Floats

DEVICES = ("cpu", "cuda")
_PLAYED = 2.5  # actions of a state that a soft policy plays, on average, at most
_CLOSE = 1e-11  # error of a law that is shown

log = logging.getLogger("fairmdp")


def check_device(device: str) -> bool:
    """Whether a device is a GPU, or a `ProblemError` if there is none of that name."""
    if device not in DEVICES:
        raise ProblemError(f"there is no device {device!r}; there are {' and '.join(DEVICES)}")
    return device == "cuda"


def kernels_for(
    problem: Problem | DeviceProblem, base: float, scale: float, on_device: bool, columns: int = 0
) -> Sweeps | CudaSweeps:
    """Return the kernel set of the dual solvers, with rewards ``(r - base) / scale``.

    ``columns`` is how many pairs of vectors over the states a solver is likely to keep.
    """
    if isinstance(problem, Problem) and not on_device:
        return Sweeps(problem.mdp, problem.members, (problem.mdp.r - base) / scale)
    if problem.n_quotas > MOST_QUOTAS:
        raise ProblemError(
            f"this method takes up to {MOST_QUOTAS} quotas on a GPU, there are {problem.n_quotas}\n"
            '  use method "proximal", or device="cpu"'
        )
    if isinstance(problem, DeviceProblem):
        launcher = open_cuda("sweeps")
        _require(problem, 0, columns)
        return CudaSweeps(launcher, problem, base, scale)
    launcher = open_cuda("sweeps")
    _require(problem, _model_bytes(problem), columns)
    # The CPU's certificate has the last word, so its margin counts.
    margin = ROUNDING * problem.mdp.n_states
    return CudaSweeps(launcher, DeviceProblem.of(problem, launcher.put), base, scale, margin)


def sweeps_on(problem: DeviceProblem) -> CudaSweeps:
    """Kernel set of the dual solver with the rewards as they are, for a certificate."""
    return CudaSweeps(open_cuda("sweeps"), problem, 0.0, 1.0)


def proximal_kernels(problem: Problem | DeviceProblem) -> CudaProximal:
    """Kernel set of the per-state solver on the GPU."""
    launcher = open_cuda("proximal")
    mdp = problem.mdp
    if isinstance(problem, DeviceProblem):
        entries, model = problem.mdp.n_transitions, 0
        if not problem.each_state:
            raise ProblemError(
                "the per-state solver takes a problem on the device only with a quota for every state, "
                'in the order of the states\n  use solve_dual, or a Problem with device="cuda"'
            )
    else:
        entries, model = problem.mdp.P.nnz, _model_bytes(problem)
    # Centre, q, z, u and the like over pairs, vectors over states, the rows of the curvature, a chain.
    working = 13 * 8 * mdp.n_pairs + 30 * 8 * mdp.n_states + 4 * 12 * entries * mdp.n_states // mdp.n_pairs
    log.info(require_memory(model + working, mdp.n_states, "this solve"))
    return CudaProximal(launcher)


def conclude_where(
    problem: Problem | DeviceProblem,
    device: Sweeps | CudaSweeps,
    policy: Any,
    bias: Any,
    prices: Floats,
    *,
    tol: float,
    method: str,
    counters: dict[str, float],
    notes: tuple[str, ...],
    began: float,
) -> Solution:
    """Certify where the arrays are, and on the CPU wherever the problem is there."""
    if isinstance(device, Sweeps):
        assert isinstance(problem, Problem)
        counters["seconds"] = time.perf_counter() - began
        return conclude(problem, policy, bias, prices, tol=tol, method=method, counters=counters, notes=notes)
    solution = conclude_on_device(
        device, policy, bias, prices, tol=tol, method=f"{method}, on the GPU", counters=counters, notes=notes
    )
    counters["seconds"] = time.perf_counter() - began
    if isinstance(problem, DeviceProblem):
        if solution.status is Status.UNDECIDED and _is_impossible(device, bias, prices):
            solution = _without_policy(solution)
        return replace(solution, counters=counters, notes=(*solution.notes, "certified on the GPU"))
    # The occupancy is of no more use here, and the CPU makes its own.
    status, method = solution.status, solution.method
    del solution
    checked = conclude(
        problem, device.get(policy), device.get(bias), prices, tol=tol, method=method, counters=counters,
        notes=notes,
    )  # fmt: skip
    agreed = "certified on the GPU and again on the CPU"
    doubt = f"the GPU's certificate says {status.value}, the CPU's {checked.status.value}: the latter counts"
    counters["seconds_with_check"] = time.perf_counter() - began
    note = agreed if checked.status is status else doubt
    return replace(checked, counters=counters, notes=(*checked.notes, note))


def conclude_on_device(
    device: CudaSweeps,
    policy: Any,
    bias: Any,
    prices: Floats,
    *,
    tol: float,
    method: str,
    counters: dict[str, float],
    notes: tuple[str, ...],
) -> Solution:
    """Claim what the certificate proves of a policy, with vectors that stay on the device."""
    from fairmdp import __version__
    from fairmdp.certificate import on_device

    problem = device.problem
    upper = on_device.ceiling(device, bias, prices)
    if problem.each_state:
        law, nu = on_device.each_state_law(device, policy)
        shares = device.get(nu)
    else:
        law = on_device.law(device, policy)
        chain = device.follow(policy)
        nu, error = device.law(chain, device.full(1 / device.n_states), 1e-13)
        if error > _CLOSE:
            nu, _ = device.patient().law(chain, nu, 1e-13)
        shares, _, _ = device.totals(policy, nu, nu)
    occupancy = device.occupancy(policy, nu)
    return Solution(
        status=proved_status(problem, law, upper, tol),
        gain=float((problem.mdp.r * occupancy).sum()),
        upper=upper,
        policy=policy,
        occupancy=occupancy,
        visitation=nu,
        shares=np.minimum(shares, 1.0),  # rounding may leave more than all of the time
        bias=bias,
        prices=prices,
        tol=tol,
        method=method,
        counters=counters,
        notes=notes,
        quota_names=tuple(problem.names),
        at_least=problem.at_least,
        at_most=problem.at_most,
        provenance={"version": __version__},
    )


def _is_impossible(device: CudaSweeps, bias: Any, prices: Floats) -> bool:
    """Whether bias and prices prove that no policy meets the quotas."""
    from fairmdp.certificate import on_device

    return on_device.ceiling(device, bias, prices, pay=0.0) < 0


def _without_policy(solution: Solution) -> Solution:
    """Claim that no policy meets the quotas, with its proof."""
    nan = float("nan")
    vectors = {
        name: nan * getattr(solution, name) for name in ("policy", "occupancy", "visitation", "shares")
    }
    return replace(solution, status=Status.INFEASIBLE, gain=nan, upper=nan, **vectors)


def working_bytes(n_states: int, n_pairs: int, entries: int, n_quotas: int, columns: int = 0) -> int:
    """Memory that a dual solver takes beside the model, with columns that it keeps."""
    width = 1 << (n_quotas - 1).bit_length() if 0 < n_quotas <= 32 else n_quotas + 31
    chain = min(entries, int(_PLAYED * entries * n_states / max(n_pairs, 1)))
    policies, vectors, blocks = 4, 16, 4
    return (
        policies * 8 * n_pairs
        + (vectors + 2 * columns) * 8 * n_states
        + blocks * 4 * width * n_states
        + 3 * 8 * n_states
        + 2 * 12 * chain  # a chain and its transpose
        + 16 * min(chain, ROOM)
    )


def _require(problem: Problem | DeviceProblem, model: int, columns: int) -> None:
    """Say what a solve takes, before anything is allocated."""
    mdp = problem.mdp
    entries = problem.mdp.n_transitions if isinstance(problem, DeviceProblem) else problem.mdp.P.nnz
    working = working_bytes(mdp.n_states, mdp.n_pairs, entries, problem.n_quotas, columns)
    what = "this solve" if model else "this solve, beside the model,"
    log.info(require_memory(model + working, mdp.n_states, what))


def _model_bytes(problem: Problem) -> int:
    mdp = problem.mdp
    wide = 8 if mdp.P.nnz >= 2**31 else 4
    return int(
        8 * (mdp.n_states + 2 * mdp.n_pairs) + wide * mdp.n_pairs + 12 * mdp.P.nnz + 12 * problem.members.nnz
    )
