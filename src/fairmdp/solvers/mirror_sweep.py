"""Thousands of runs of Algorithm 1 at once, for sweeps over seeds and quotas and for confidence bands."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fairmdp.errors import ProblemError
from fairmdp.kernels import mirror as kernels
from fairmdp.kernels.cuda.launcher import Variant, open_cuda
from fairmdp.problem import Problem
from fairmdp.solvers.domain import Domain
from fairmdp.solvers.mirror_steps import Steps
from fairmdp.solvers.on_device import check_device
from fairmdp.validation import Floats, check_count


class MirrorSweep(NamedTuple):
    """Averages of the iterates of each run."""

    x: Floats  # (runs, SA), in pair order
    lam: Floats  # (runs, S)


def mirror_sweep(
    problem: Problem,
    settings: Steps,
    *,
    runs: int,
    steps: int,
    at_least: ArrayLike | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> MirrorSweep:
    """Make independent runs of Algorithm 1 on a known model and return the averages of their iterates.

    Run k draws from stream k of the seed whatever the device, so a GPU makes the runs of the CPU.

    Parameters
    ----------
    problem
        A small model, with ``at_least`` over disjoint sets; rewards count as they are, and should lie in
        [0, 1].
    settings
        Step sizes, and half of the bound on lam.
    runs, steps
        How many runs, and how long.
    at_least
        Quotas of each run, (runs, K); those of the problem if not given.
    seed
        Everything random follows from it.
    device
        ``"cpu"``: threads; ``"cuda"``: a thread of the first GPU for each run.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> problem = scenarios.three_state(rho=[0.1, 0.1, 0.25])
    >>> sweep = mirror_sweep(problem, Steps(0.01, 0.01, 100.0), runs=20, steps=5000)
    >>> sweep.x.shape, (sweep.x @ problem.mdp.r).mean().round(1)
    ((20, 6), np.float64(0.4))
    """
    check_count("runs", runs)
    check_count("steps", steps)
    mdp, domain = problem.mdp, Domain.of(problem)
    if domain.kind != "disjoint":
        raise ProblemError(f"sweeps take disjoint quotas, these are {domain.kind}\n  use solve_mirror")
    rho = np.tile(domain.unit_rho, (runs, 1))
    if at_least is not None:
        given = np.asarray(at_least, float)
        if given.shape != (runs, problem.n_quotas) or not ((given >= 0) & (given <= 1)).all():
            raise ProblemError(
                f"at_least has shape {given.shape}, expected ({runs}, {problem.n_quotas}) numbers in [0, 1]"
            )
        rho[:, : domain.owed.size] = given[:, domain.owed]
    P = mdp.P
    model = kernels.build_model(
        P.indptr.astype(np.int64), P.indices, P.data, mdp.r, mdp.s_of, domain.unit_of, domain.unit_rho
    )
    keys = np.array([kernels.stream(each) for each in np.random.SeedSequence(seed).spawn(runs)])
    work = _on_gpu if check_device(device) else _in_threads
    x, lam = work(model, domain, mdp.n_states, settings, rho, keys, steps)
    in_order = np.empty_like(x)
    in_order[:, model.order] = x
    return MirrorSweep(in_order / steps, lam / steps)


def _in_threads(
    model: kernels.Model, domain: Domain, n_states: int, settings: Steps, rho: Floats, keys: Any, steps: int
) -> tuple[Floats, Floats]:
    """Sums of the iterates of each run, by the CPU."""

    def run(k: int) -> tuple[Floats, Floats]:
        state = kernels.start_dense(model, domain.start, np.zeros(n_states), keys[k])
        how = (steps, settings.eta_x, settings.eta_lam, 2 * settings.radius)
        kernels.dense_run(model._replace(rho=rho[k].copy()), state, *how)
        return state.x_sum, state.lam_sum

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        sums = list(pool.map(run, range(len(keys))))
    return np.array([x for x, _ in sums]), np.array([lam for _, lam in sums])


def _on_gpu(
    model: kernels.Model, domain: Domain, n_states: int, settings: Steps, rho: Floats, keys: Any, steps: int
) -> tuple[Floats, Floats]:
    """Sums of the iterates of each run, by a GPU."""
    launcher, runs = open_cuda("mirror"), len(keys)
    put = launcher.put

    def columns(rows: Floats) -> Any:
        return put(np.ascontiguousarray(rows.T))

    first = kernels.start_dense(model, domain.start, np.zeros(n_states), keys[0])
    w, ws, nu = (columns(np.tile(array, (runs, 1))) for array in (first.w, first.ws, first.nu))
    L, U = model.r.size, model.rho.size
    lam, x_sum = columns(np.zeros((runs, n_states))), columns(np.zeros((runs, L)))
    lam_sum = columns(np.zeros((runs, n_states)))
    step_sizes = [put(np.full(runs, v)) for v in (settings.eta_x, settings.eta_lam, 2 * settings.radius)]
    tables = [
        put(table) for table in (model.start, model.unit, model.row, model.alias, model.alias_i, model.s_of)
    ]
    launcher.launch(
        Variant(), "mirror_steps", runs, runs, steps, L, U, n_states, *tables, put(model.r), columns(rho),
        *step_sizes, columns(keys), 0, w, ws, nu, lam, x_sum, lam_sum,
    )  # fmt: skip
    return launcher.get(x_sum).T, launcher.get(lam_sum).T
