"""Thousands of runs of Algorithm 1 at once, for sweeps over seeds and quotas and for confidence bands."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fairmdp.backends.cuda.launcher import Variant, open_cuda
from fairmdp.backends.opening import check_device
from fairmdp.errors import ProblemError
from fairmdp.mirror import kernels, tables
from fairmdp.mirror.polytope import QuotaPolytope
from fairmdp.mirror.primitives import U8, stream
from fairmdp.mirror.runs import in_threads, tabulate
from fairmdp.mirror.steps import Steps
from fairmdp.model.checks import Floats, check_count, read_only
from fairmdp.model.problem import Problem


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
    if problem.mdp.durations is not None:
        raise ProblemError(
            "a sweep counts steps, and the steps of this model take time\n  use problem.uniform"
        )
    check_count("runs", runs)
    check_count("steps", steps)
    mdp, polytope = problem.mdp, QuotaPolytope.of(problem)
    if polytope.kind != "disjoint":
        raise ProblemError(f"sweeps take disjoint quotas, these are {polytope.kind}\n  use solve_mirror")
    rho = np.tile(polytope.quotas.rho, (runs, 1))
    if at_least is not None:
        given = np.asarray(at_least, float)
        if given.shape != (runs, problem.n_quotas) or not ((given >= 0) & (given <= 1)).all():
            raise ProblemError(
                f"at_least has shape {given.shape}, expected ({runs}, {problem.n_quotas}) numbers in [0, 1]"
            )
        rho[:, : polytope.owed.size] = given[:, polytope.owed]
    model = tabulate(mdp, polytope, mdp.r)
    keys = np.array([stream(each) for each in np.random.SeedSequence(seed).spawn(runs)])
    work = _on_gpu if check_device(device) else _in_threads
    x, lam = work(model, polytope, mdp.n_states, settings, rho, keys, steps)
    in_order = np.empty_like(x)
    in_order[:, model.order] = x
    return MirrorSweep(read_only(in_order / steps), read_only(lam / steps))


def _in_threads(
    model: tables.Model, polytope: QuotaPolytope, n_states: int, settings: Steps, rho: Floats, keys: U8,
    steps: int,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Sums of the iterates of each run, by the CPU."""

    def run(k: int) -> tuple[Floats, Floats]:
        quotas = polytope.quotas._replace(rho=rho[k].copy())
        state = tables.start_dense(model, quotas, polytope.start, n_states, keys[k])
        kernels.dense_run(model, quotas, state, steps, settings.eta_x, settings.eta_lam, 2 * settings.radius)
        return state.x_sum, state.lam_sum

    sums = in_threads(run, range(len(keys)))
    return np.array([x for x, _ in sums]), np.array([lam for _, lam in sums])


def _on_gpu(
    model: tables.Model, polytope: QuotaPolytope, n_states: int, settings: Steps, rho: Floats, keys: U8,
    steps: int,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Sums of the iterates of each run, by a GPU."""
    launcher, runs = open_cuda("mirror"), len(keys)
    put = launcher.put

    def columns(rows: Floats | U8) -> Any:
        return put(np.ascontiguousarray(rows.T))

    first = tables.start_dense(model, polytope.quotas, polytope.start, n_states, keys[0])
    w, ws, nu = (columns(np.tile(array, (runs, 1))) for array in (first.w, first.ws, first.nu))
    L, U = model.r.size, polytope.n_units
    lam, x_sum = columns(np.zeros((runs, n_states))), columns(np.zeros((runs, L)))
    lam_sum = columns(np.zeros((runs, n_states)))
    step_sizes = [put(np.full(runs, v)) for v in (settings.eta_x, settings.eta_lam, 2 * settings.radius)]
    uploaded = [
        put(table) for table in (model.start, model.unit, model.row, model.alias, model.alias_i, model.s_of)
    ]
    launcher.launch(
        Variant(), "mirror_steps", runs, runs, steps, L, U, n_states, *uploaded, put(model.r), columns(rho),
        *step_sizes, columns(keys), 0, w, ws, nu, lam, x_sum, lam_sum,
    )  # fmt: skip
    return launcher.get(x_sum).T, launcher.get(lam_sum).T
