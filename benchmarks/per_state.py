"""A quota for every state: `solve_proximal` beside HiGHS PDLP, at equal certified gaps.

    python benchmarks/per_state.py --out benchmarks/results/per_state.csv

Garnet with 5 actions and 5 successors plus a ring, rho = 0.3 times the uniform policy's shares. Process CPU
seconds of one thread, kernels compiled before. Gaps are relative to the span of the rewards and come from
`fairmdp.verify` for every row: no solver is believed about itself. PDLP is run at several tolerances, each
a row: ``pdlp`` as it comes, ``pdlp+polish`` with quotas raised beforehand and with our sweeps and our
projection on its result, which it does not have by itself.

Limitations: one instance per size and seed, one family; times move by tens of percent on a shared machine,
so rows to be compared should come from one run. PDLP is stopped after ``--limit`` seconds of wall time.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # idle threads of a dot product would count as CPU time

import argparse
import math
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from benchmarks.table import table

from fairmdp import Problem, scenarios, verify
from fairmdp.chain import Chain
from fairmdp.errors import SolverError
from fairmdp.kernels import proximal as kernels
from fairmdp.solvers import proximal
from fairmdp.solvers.conclude import conclude
from fairmdp.solvers.flow_lp import FlowLP
from fairmdp.solvers.policy import policy_of, uniform_policy
from fairmdp.solvers.proximal_layout import layout, place

FIELDS = ["states", "seed", "solver", "setting", "cpu_seconds", "gap", "status", "worst_slack", "load"]
RAISE = {1e-5: 5e-3, 3e-6: 5e-4, 1e-7: 5e-5, 1e-8: 5e-5}  # raise of the quotas for each tolerance of PDLP


def instance(n_states, seed):
    """Garnet with a quota for every state."""
    mdp = scenarios.garnet(n_states, 5, 5, n_quotas=0, seed=seed).mdp
    return Problem(mdp, rho=0.3 * Chain.of(mdp, uniform_policy(mdp)).shares)


def run_proximal(problem, tol, limit):
    """Our solver at one gap."""
    return proximal.solve_proximal(problem, tol=tol)


def run_pdlp(problem, tol, limit):
    """HiGHS PDLP as it comes."""
    answer = _pdlp(problem, tol, limit)
    return _conclude(problem, answer.x, answer.h, answer.mu)


def run_pdlp_polish(problem, tol, limit):
    """HiGHS PDLP with raised quotas, then our sweeps and our projection."""
    raise_ = RAISE[tol]
    answer = _pdlp(problem.with_bounds(at_least=problem.at_least * (1 + raise_)), tol, limit)
    order = layout(problem)
    run = proximal._Run(problem, order, place(problem, order, kernels), 1e-6, kernels)
    point, w = run.point, run.model.w[run.s_of]
    point.h[:], point.z[:] = answer.h / run.scale, answer.x / w
    kernels.advantages(run.model, run.r, point.h, point.q)
    kernels.tops(run.model, point.q, point.theta)
    loose = run._shares(answer.x) > run.rho * (1 + raise_) * (1 + 1e-3)
    run.sigma, point.lam = 1.0, float(np.median(point.theta[loose]))
    point.theta[loose] = point.lam
    run._lower_ceiling()
    run.raise_ = raise_
    run._make_policy(run.rho * (1 + raise_))
    return run.conclude((), time.perf_counter())


def _pdlp(problem, tol, limit):
    """One run of PDLP; its last point counts whatever HiGHS calls it, since the certificate judges it."""
    lp = FlowLP(problem, problem.mdp.r, algorithm="pdlp")
    highs = lp._highs
    tolerances = ("pdlp_optimality_tolerance", "primal_feasibility_tolerance", "dual_feasibility_tolerance")
    for option in tolerances:
        highs.setOptionValue(option, tol)
    highs.setOptionValue("time_limit", float(limit))
    highs.run()
    point = highs.getSolution()
    if not (point.value_valid and point.dual_valid):
        raise SolverError(f"no point: {highs.modelStatusToString(highs.getModelStatus())}")
    S, SA = problem.mdp.n_states, problem.mdp.n_pairs
    # HiGHS 1.15 gives the row duals of PDLP with the opposite sign to those of simplex when maximising.
    duals = -np.array(point.row_dual) * lp._cost_scale
    return SimpleNamespace(
        x=np.maximum(np.array(point.col_value)[:SA] / lp._n, 0.0), h=duals[:S], mu=-duals[S + 1 :]
    )


def _conclude(problem, x, h, mu):
    policy = policy_of(problem.mdp, x)
    mu = np.maximum(mu, 0.0)
    return conclude(problem, policy, h, mu, tol=1e-6, method="pdlp", counters={})


def row_of(problem, seed, name, run, tol, limit):
    """One row: CPU seconds of the run, then what `verify` proves of its result."""
    row = dict(states=problem.mdp.n_states, seed=seed, solver=name, setting=f"{tol:g}")
    began = time.process_time()
    try:
        solution = run(problem, tol, limit)
    except SolverError as error:
        seconds = time.process_time() - began
        return {**row, "cpu_seconds": f"{seconds:.2f}", "gap": math.nan, "status": str(error)}
    seconds = time.process_time() - began
    verdict = verify(problem, solution)
    gap = (verdict.upper - verdict.gain[0]) / float(np.ptp(problem.mdp.r))
    slack = float((verdict.shares[:, 0] - problem.at_least).min())
    return {
        **row, "cpu_seconds": f"{seconds:.2f}", "gap": f"{gap:.2e}", "status": verdict.status.value,
        "worst_slack": f"{slack:.1e}", "load": f"{os.getloadavg()[0]:.1f}",
    }  # fmt: skip


def main():
    """Write one row per instance, solver and setting."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e3, 1e4, 1e5])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--gaps", type=float, nargs="+", default=[1e-4, 1e-6])
    parser.add_argument(
        "--pdlp", type=float, nargs="*", default=[1e-5, 3e-6, 1e-7, 1e-8], choices=list(RAISE)
    )
    parser.add_argument("--limit", type=float, default=600.0, help="wall seconds for one PDLP run")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    proximal.solve_proximal(instance(100, 0), tol=1e-4)  # compile
    with table("per_state", FIELDS, options.out) as add:
        for n_states in options.sizes:
            for seed in options.seeds:
                problem = instance(int(n_states), seed)
                plan = [("proximal", run_proximal, gap) for gap in options.gaps]
                plan += [("pdlp", run_pdlp, tol) for tol in options.pdlp]
                plan += [("pdlp+polish", run_pdlp_polish, tol) for tol in options.pdlp]
                for name, run, tol in plan:
                    add(row_of(problem, seed, name, run, tol, options.limit))


if __name__ == "__main__":
    main()
