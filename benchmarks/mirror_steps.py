"""Nanoseconds per step of the mirror-descent kernels, from six pairs to six million.

    python -m benchmarks.mirror_steps --out benchmarks/results/mirror_steps.csv

Process CPU time, one thread, best of several interleaved repetitions in one process. ``pairs == 6`` is
the paper's three-state MDP; the others have 6 actions and 10 uniform random successors. ``loose``: rho =
.5/n. ``tight``: sum rho = .9 and 70 % of the states start exactly at their quota. ``bare`` is the floor: the
five random draws, the record and the alias line of a random pair, and one exponential, independent
from step to step.

Limitations: absolute numbers move by 10-40 % on a shared machine, more where memory bound (6e5 pairs and
up); ratios within one row were measured side by side.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from benchmarks.table import table
from numba import njit

from fairmdp.mirror import kernels as mirror
from fairmdp.mirror import lazy, tables
from fairmdp.mirror.lazy_start import start_lazy
from fairmdp.mirror.primitives import stream, uniform

RATIOS = [("dense", "lazy"), ("lazy", "bare")]
FIELDS = ["pairs", "quotas", "bare", "lazy", "dense", *(f"{a}_over_{b}" for a, b in RATIOS)]
NO_DRAWS = np.zeros((0, 4), dtype=np.int64)
ACTIONS, SUCCESSORS = 6, 10


@njit(cache=True)
def bare_run(key, pair, alias, steps):
    """Draws, two random reads and an exponential per step, nothing else."""
    L, nnz, total = pair.shape[0] - 1, alias.shape[0], 0.0
    for n in range(steps):
        i = np.int64(uniform(key, 8 * n) * L)
        e = np.int64(uniform(key, 8 * n + 1) * nnz)
        u = uniform(key, 8 * n + 2) + uniform(key, 8 * n + 3) + uniform(key, 8 * n + 4)
        total += np.exp(-u) * pair[i, 2] + alias[e, 0]
    return total


def three_state():
    """The paper's MDP: indptr, indices, data, r, s_of."""
    indices, data = [], []
    for s in range(3):
        for forward in (0.9, 0.1):
            row = sorted([((s + 1) % 3, forward), ((s - 1) % 3, 1.0 - forward)])
            indices += [j for j, _ in row]
            data += [p for _, p in row]
    r = np.full(6, 0.1)
    r[0] = 1.0
    return np.arange(0, 13, 2), np.array(indices), np.array(data), r, np.repeat(np.arange(3), 2)


def random_mdp(n_states, rng):
    """`ACTIONS` actions per state, `SUCCESSORS` random successors with random probabilities."""
    L = n_states * ACTIONS
    indices = rng.integers(0, n_states, (L, SUCCESSORS), dtype=np.int32)
    data = rng.random((L, SUCCESSORS)) + 0.1
    data /= data.sum(axis=1, keepdims=True)
    indptr = np.arange(0, L * SUCCESSORS + 1, SUCCESSORS)
    return indptr, indices.ravel(), data.ravel(), rng.random(L), np.repeat(np.arange(n_states), ACTIONS)


def quotas(kind, n, s_of, rng):
    """Quotas rho (S,) and the start x (L,)."""
    m = s_of.size // n
    if kind == "paper":
        return np.array([0.1, 0.1, 0.25]), np.full(6, 1 / 6)
    if kind == "loose":
        return np.full(n, 0.5 / n), np.full(s_of.size, 1 / s_of.size)
    rho = np.full(n, 0.9 / n)
    tight = rng.permutation(n) < 0.7 * n
    nu = np.where(tight, rho, (1 - rho[tight].sum()) / (~tight).sum())
    return rho, np.repeat(nu, m) / m


def cpu_ns(run: Callable[[], object], count: int) -> float:
    """CPU nanoseconds per unit of one call."""
    begin = time.process_time_ns()
    run()
    return (time.process_time_ns() - begin) / count


def measure(pairs, kind, repeat, seed=0):
    """One row of the table."""
    rng = np.random.default_rng(seed)
    mdp = three_state() if pairs == 6 else random_mdp(pairs // ACTIONS, rng)
    s_of, n = mdp[4], int(mdp[4][-1]) + 1
    rho, x = quotas(kind, n, s_of, rng)
    owed, key = tables.Quotas(tables.DISJOINT, rho), stream(seed)
    model = tables.build_model(*mdp, s_of, n)
    state = start_lazy(model, rho, x, n, key)
    dense = tables.start_dense(model, owed, x, n, key)
    steps = max(1_000_000, 2 * pairs)  # at least two epochs: the rebuilds are part of the price
    dense_steps = max(3, min(1_000_000, 20_000_000 // pairs))
    eta_x, eta_lam, lam_max = 0.1 / pairs if pairs > 6 else 0.01, 0.01, 100.0
    tasks = {
        "bare": (lambda: bare_run(state.key, state.pair, state.alias, steps), steps),
        "lazy": (lambda: lazy.lazy_run(state, steps, eta_x, eta_lam, lam_max, NO_DRAWS), steps),
        "dense": (
            lambda: mirror.dense_run(model, owed, dense, dense_steps, eta_x, eta_lam, lam_max),
            dense_steps,
        ),
    }
    best = dict.fromkeys(tasks, np.inf)
    for _ in range(repeat):
        for name, (run, count) in tasks.items():
            best[name] = min(best[name], cpu_ns(run, count))
    row = {"pairs": pairs, "quotas": kind, **{k: round(v, 1) for k, v in best.items()}}
    return row | {f"{a}_over_{b}": round(best[a] / best[b], 2) for a, b in RATIOS}


def compile_all():
    """Compile every kernel before the clock starts; returns the seconds that took."""
    begin = time.perf_counter()
    measure_small = random_mdp(4, np.random.default_rng(0))
    rho, x = np.full(4, 0.1), np.full(24, 1 / 24)
    owed, key = tables.Quotas(tables.DISJOINT, rho), stream(0)
    model = tables.build_model(*measure_small, measure_small[4], 4)
    state = start_lazy(model, rho, x, 4, key)
    lazy.lazy_run(state, 10, 0.01, 0.01, 1.0, NO_DRAWS)
    mirror.dense_run(model, owed, tables.start_dense(model, owed, x, 4, key), 10, 0.01, 0.01, 1.0)
    bare_run(state.key, state.pair, state.alias, 10)
    return time.perf_counter() - begin


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="ns per step of the mirror-descent kernels")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--max-pairs", type=int, default=6_000_000)
    parser.add_argument("--repeat", type=int, default=4)
    args = parser.parse_args()
    print(f"compiled in {compile_all():.1f} s", file=sys.stderr)
    sizes = [6 * 10**k for k in range(1, 7) if 6 * 10**k <= args.max_pairs]
    cases = [(6, "paper")] + [(pairs, kind) for pairs in sizes for kind in ("loose", "tight")]
    with table("mirror_steps", FIELDS, args.out) as add:
        for pairs, kind in cases:
            row = measure(pairs, kind, args.repeat)
            print(row, file=sys.stderr)
            add(row)


if __name__ == "__main__":
    main()
