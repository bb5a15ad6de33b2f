"""A very long run of Algorithm 1 on the three-state problem, to see whether anything drifts or gets stuck.

    python -m benchmarks.mirror_long --steps 1000000000 --out benchmarks/results/mirror_long.csv

Runs the dense and the lazy kernel with the paper's constants, then swaps the rewards of the two actions of
the first state and runs on: the logarithm of the weight that had been driven down must rise again.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from benchmarks.mirror_steps import NO_DRAWS, three_state
from benchmarks.table import table

from fairmdp.mirror import kernels as mirror
from fairmdp.mirror import lazy, tables
from fairmdp.mirror.lazy_start import start_lazy
from fairmdp.mirror.primitives import stream

FIELDS = (
    "kernel", "steps", "seconds", "sum_x_avg_minus_1", "sum_x_minus_1", "worst_quota", "sum_lam", "finite",
    "log_weight", "log_weight_after_swap",
)  # fmt: skip
RHO = np.array([0.1, 0.1, 0.25])
ETA, LAM_MAX, PIECE = 0.01, 200.0, 10_000_000


def swapped(mdp):
    """The same model with the rewards of s0's actions exchanged."""
    indptr, indices, data, r, s_of = mdp
    return indptr, indices, data, r[[1, 0, 2, 3, 4, 5]], s_of


def log_weight(weights):
    """Logarithm of pair 1's weight in its state; small ones are stored as logarithms."""
    return float(np.log(weights[1]) if weights[1] > 0 else weights[1])


def run_dense(steps):
    mdp, owed = three_state(), tables.Quotas(tables.DISJOINT, RHO)
    model = tables.build_model(*mdp, mdp[4], 3)
    state = tables.start_dense(model, owed, np.full(6, 1 / 6), 3, stream(0))
    for done in range(0, steps, PIECE):
        mirror.dense_run(model, owed, state, min(PIECE, steps - done), ETA, ETA, LAM_MAX)
    x = np.repeat(np.maximum(state.nu, 0.0) / state.ws, 2) * np.maximum(state.w, 0.0)
    x_sum, lam, before = state.x_sum.copy(), state.lam.copy(), log_weight(state.w)
    other = tables.build_model(*swapped(mdp), mdp[4], 3)
    mirror.dense_run(other, owed, state, steps // 10, ETA, ETA, LAM_MAX)
    return x, x_sum, lam, before, log_weight(state.w)


def run_lazy(steps):
    mdp = three_state()
    model = tables.build_model(*mdp, mdp[4], 3)
    state = start_lazy(model, RHO, np.full(6, 1 / 6), 3, stream(0))
    for done in range(0, steps, PIECE):
        lazy.lazy_run(state, min(PIECE, steps - done), ETA, ETA, LAM_MAX, NO_DRAWS)
    x, x_sum, lam, lam_sum = np.empty(6), np.empty(6), np.empty(3), np.empty(3)
    lazy.lazy_read(state, model.order, x, x_sum, lam, lam_sum)
    before = log_weight(state.w)
    state.pair[:2, lazy.REWARD] = state.pair[[1, 0], lazy.REWARD]
    lazy.lazy_run(state, steps // 10, ETA, ETA, LAM_MAX, NO_DRAWS)
    return x, x_sum, lam, before, log_weight(state.w)


def measure(name, run, steps):
    begin = time.process_time()
    x, x_sum, lam, before, after = run(steps)
    nu = x.reshape(3, 2).sum(axis=1)
    return {
        "kernel": name,
        "steps": steps,
        "seconds": round(time.process_time() - begin, 1),
        "sum_x_avg_minus_1": f"{x_sum.sum() / steps - 1:.1e}",
        "sum_x_minus_1": f"{x.sum() - 1:.1e}",
        "worst_quota": f"{(nu - RHO).min():.1e}",
        "sum_lam": f"{lam.sum():.1e}",
        "finite": bool(
            np.isfinite(x_sum).all() and np.isfinite(lam).all() and np.isfinite([before, after]).all()
        ),
        "log_weight": round(before, 1),
        "log_weight_after_swap": round(after, 1),
    }


def main():
    """Measure both kernels and write the table."""
    parser = argparse.ArgumentParser(description="drift of the mirror-descent kernels over a long run")
    parser.add_argument("--steps", type=int, default=1_000_000_000)
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    args = parser.parse_args()
    with table("mirror_long", FIELDS, args.out) as add:
        for name, run in (("dense", run_dense), ("lazy", run_lazy)):
            add(measure(name, run, args.steps))


if __name__ == "__main__":
    main()
