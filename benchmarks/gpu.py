"""The large-model solvers on a GPU, with models that are there.

    python -m benchmarks.gpu dual --sizes 1e5 1e6 1e7 1e8 --out benchmarks/results/gpu_dual.csv
    python -m benchmarks.gpu queue --sizes 20 45 99 --out benchmarks/results/gpu_queue.csv
    python -m benchmarks.gpu bandwidth --sizes 1e7 --out benchmarks/results/gpu_bandwidth.csv

Garnet: 5 actions, 5 random successors and the next state on a ring; rewards uniform. ``dual`` has 5 quotas on
disjoint random groups that together hold half of the states, each owed 1.02 to 1.27 times its uniform
share. ``queue`` is that of `problems.queue`, whose sizes are the room of each client: (room + 1)^3 states.
Wall seconds from the call to the certified solution, kernels compiled before, models made before.
Gaps are relative to the span of the rewards. Sizes from ``--single`` on have probabilities of 32 bits.

``bandwidth`` counts the bytes that a kernel must move: every array once, and a sector of 32 bytes for each
random gather or scatter; it is set against a copy of 4 GB, read and written, on the same card.
"""

import argparse
import logging
import time
from dataclasses import replace
from pathlib import Path

import cupy
import numpy as np
from benchmarks.problems.queue import queue as queue_problem
from benchmarks.table import table

from fairmdp import DeviceProblem, scenarios, solve_colgen, solve_dual, solve_proximal
from fairmdp.backends.cuda.backend import CudaBackend
from fairmdp.backends.cuda.chains import follow, transposed
from fairmdp.backends.cuda.device_problem import DeviceMDP
from fairmdp.backends.cuda.launcher import open_cuda
from fairmdp.backends.cuda.proximal import CudaProximal, _Rows
from fairmdp.mirror.batch import mirror_sweep
from fairmdp.mirror.experiments import _long_run_shares
from fairmdp.mirror.steps import Steps

ACTIONS, BRANCHING, RING = 5, 5, 0.05

_MAKE = r"""
typedef unsigned long long u64;
__device__ u64 mixed(u64 x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}
__device__ double uniform(u64 x) { return ((mixed(x) >> 11) + 0.5) / 9007199254740992.0; }

extern "C" __global__ void make_pairs(
    long long n, long long n_pairs, long long actions, long long branching, double ring, u64 seed, int* col,
    Prob* val, double* r
) {
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n_pairs; i += stride) {
        const u64 key = mixed(seed + 2 * i);
        const long long at = i * (branching + 1);
        double sum = 0, weight[16];
        for (int k = 0; k < branching; k++) sum += weight[k] = -log(uniform(key + 2 * k + 1));
        for (int k = 0; k < branching; k++) {
            col[at + k] = mixed(key + 2 * k + 2) % n;
            val[at + k] = (1 - ring) * weight[k] / sum;
        }
        col[at + branching] = (i / actions + 1) % n;
        val[at + branching] = ring;
        r[i] = uniform(key);
    }
}
"""


def garnet(n, *, single=False, seed=0):
    """Model on the device."""
    pairs = n * ACTIONS
    entries = pairs * (BRANCHING + 1)
    kind, name = (np.float32, "float") if single else (np.float64, "double")
    make = cupy.RawModule(code=_MAKE, options=(f"-DProb={name}",)).get_function("make_pairs")
    col, val, r = cupy.empty(entries, np.int32), cupy.empty(entries, kind), cupy.empty(pairs)
    key = np.uint64(seed * 0x9E3779B9 + 1)
    make((4096,), (256,), (n, pairs, ACTIONS, BRANCHING, RING, key, col, val, r))
    wide = np.int64 if entries >= 2**31 else np.int32
    row = cupy.arange(0, entries + 1, BRANCHING + 1, dtype=wide)
    return DeviceMDP(cupy.arange(0, pairs + 1, ACTIONS, dtype=np.int64), row, col, val, r)


def few_quotas(mdp, K=5, seed=0):
    """Disjoint random groups of states, a little above their uniform shares."""
    n = mdp.n_states
    ticket = cupy.random.default_rng(seed).integers(0, 2 * K, n).astype(np.int32)
    inside = ticket < K
    gptr = cupy.zeros(n + 1, np.int64)
    cupy.cumsum(inside, out=gptr[1:])
    gcol = ticket[inside]
    at_least = np.random.default_rng(seed).uniform(1.02, 1.27, K) / (2 * K)
    names = tuple(f"g{k}" for k in range(K))
    return DeviceProblem(mdp, (gptr, gcol, cupy.ones(gcol.size)), True, at_least, np.ones(K), names)


def every_state(mdp):
    """A quota for every state: 0.3 times its share under the uniform policy."""
    n = mdp.n_states
    none = DeviceProblem(
        mdp,
        (cupy.zeros(n + 1, np.int64), cupy.zeros(0, np.int32), cupy.zeros(0)),
        True,
        np.zeros(0),
        np.zeros(0),
    )
    nu, _ = CudaBackend(none).stationary(cupy.full(mdp.n_pairs, 1 / ACTIONS))
    places = cupy.arange(n + 1, dtype=np.int64)
    sets = places, places[:-1].astype(np.int32), cupy.ones(n)
    return DeviceProblem(mdp, sets, True, 0.3 * nu.get(), np.ones(n))


def solved(problem, solve, **options):
    """Row of a solve: seconds, gap, slack, memory."""
    pool = cupy.get_default_memory_pool()
    cupy.cuda.runtime.deviceSynchronize()
    began = time.perf_counter()
    sol = solve(problem, **options)
    seconds = time.perf_counter() - began
    span = float(problem.mdp.r.max() - problem.mdp.r.min())
    counters = " ".join(f"{key}={value:.6g}" for key, value in sol.counters.items())
    return dict(
        states=problem.mdp.n_states, quotas=problem.n_quotas, transitions=problem.mdp.n_transitions,
        bits=problem.mdp.val.dtype.itemsize * 8, seconds=f"{seconds:.4f}", status=sol.status.value,
        gap=f"{sol.gap / span:.2e}", worst_slack=f"{sol.worst_slack:.1e}",
        pool_gb=f"{pool.total_bytes() / 1e9:.2f}", counters=counters,
    )  # fmt: skip


_SOLVED = [
    "states", "quotas", "transitions", "bits", "tol", "seconds", "status", "gap", "worst_slack", "pool_gb",
    "counters",
]  # fmt: skip
FIELDS = {
    "dual": _SOLVED,
    "proximal": _SOLVED,
    "queue": _SOLVED,
    "mirror": ["runs", "steps", "seconds", "reward", "reward_std", "nu0", "nu1", "nu2"],
    "bandwidth": ["states", "kernel", "bytes", "ms", "tb_per_s", "part_of_copy"],
}


def dual(options, add):
    """Rows of the dual solver; small models are solved before, to compile for every kind of row."""
    solve_dual(few_quotas(garnet(10_000)), tol=1e-6)
    single = garnet(10_000, single=True)
    for kind in (np.int32, np.int64):
        solve_dual(few_quotas(replace(single, row=single.row.astype(kind))), tol=1e-6)
    for size in options.sizes:
        problem = few_quotas(garnet(int(size), single=size >= options.single))
        for tol in options.gaps:
            for _ in range(options.repeat):
                add({**solved(problem, solve_dual, tol=tol), "tol": tol})
        del problem
        cupy.get_default_memory_pool().free_all_blocks()


def queue(options, add):
    """Rows of column generation on queues; a small one is solved before, to compile."""
    put = open_cuda("sweeps").put
    solve_colgen(DeviceProblem.of(queue_problem(18), put))
    for room in options.sizes:
        problem = DeviceProblem.of(queue_problem(int(room)), put)
        for tol in options.gaps:
            for _ in range(options.repeat):
                add({**solved(problem, solve_colgen, tol=tol), "tol": tol})
        del problem
        cupy.get_default_memory_pool().free_all_blocks()


def proximal(options, add):
    """Rows of the per-state solver."""
    solve_proximal(every_state(garnet(3000)), tol=1e-4)
    for size in options.sizes:
        problem = every_state(garnet(int(size), single=size >= options.single))
        for tol in options.gaps:
            watched = (lambda row: print({k: f"{v:.3g}" for k, v in row.items()})) if options.watch else None
            add({**solved(problem, solve_proximal, tol=tol, progress=watched), "tol": tol})
        del problem
        cupy.get_default_memory_pool().free_all_blocks()


def mirror(options, add):
    """The three-state experiment of the paper: 20,000 steps of size 0.01, averages of the iterates."""
    problem, settings = scenarios.three_state((0.1, 0.1, 0.25)), Steps(0.01, 0.01, 100.0)
    mirror_sweep(problem, settings, runs=100, steps=100, device="cuda")
    for runs in (int(size) for size in options.sizes):
        began = time.perf_counter()
        sweep = mirror_sweep(problem, settings, runs=runs, steps=20_000, device="cuda")
        seconds = time.perf_counter() - began
        mdp = problem.mdp
        pi = sweep.x / np.add.reduceat(sweep.x, mdp.pair_ptr[:-1], axis=1)[:, mdp.s_of]
        nu = _long_run_shares(mdp, pi)
        reward = (pi * nu[:, mdp.s_of]) @ mdp.r
        add(
            dict(
                runs=runs, steps=20_000, seconds=f"{seconds:.3f}", reward=f"{reward.mean():.6f}",
                reward_std=f"{reward.std():.6f}", **{f"nu{s}": f"{nu[:, s].mean():.6f}" for s in range(3)},
            )
        )  # fmt: skip


REPEAT = 5
_MARK = r"""extern "C" __global__ void mark() {}"""


def timed(action):
    """Median milliseconds of an action on the device, done once before; marks are for `gpu_counters`."""
    mark = cupy.RawKernel(_MARK, "mark")
    mark((1,), (1,), ())
    action()
    times = []
    for _ in range(REPEAT):
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        first.record()
        action()
        last.record()
        last.synchronize()
        times.append(cupy.cuda.get_elapsed_time(first, last))
    mark((1,), (1,), ())
    return float(np.median(times))


def copy_bandwidth():
    """Bytes a second of a copy of 4 GB, read and written."""
    source = cupy.ones(1 << 29)
    target = cupy.empty_like(source)
    return 2 * source.nbytes / (timed(lambda: cupy.copyto(target, source)) / 1e3)


def bandwidth(options, add):
    """Rows of single kernels."""
    copy = copy_bandwidth()
    add(dict(kernel="copy", tb_per_s=f"{copy / 1e12:.2f}"))
    for size in options.sizes:
        mdp = garnet(int(size), single=size >= options.single)
        for kernel, moved, ms in [*dual_kernels(few_quotas(mdp)), *proximal_kernels(every_state(mdp))]:
            rate = moved / (ms / 1e3)
            add(
                dict(
                    states=int(size), kernel=kernel, bytes=moved, ms=f"{ms:.3f}",
                    tb_per_s=f"{rate / 1e12:.2f}", part_of_copy=f"{rate / copy:.2f}",
                )
            )  # fmt: skip


def row_sectors(mdp):
    """Bytes of the sectors that a row touches, its columns and its probabilities, wherever they begin."""
    sizes = mdp.col.itemsize, mdp.val.itemsize
    return sum((BRANCHING + 1) * size + 32 - size for size in sizes)


def dual_kernels(problem):
    """Kernels of the dual solver at a policy of low temperature: name, bytes, milliseconds."""
    mdp, K = problem.mdp, problem.n_quotas
    device = CudaBackend(problem)
    launcher, n, pairs = device.launcher, mdp.n_states, mdp.n_pairs
    h, nu = device.full(0.0), device.full(1 / n)
    backup = device.improve(h, np.full(K, 0.2), 1e-3)
    rows = device.variant._replace(lanes=launcher.lanes(BRANCHING + 1))
    chain = device.follow(backup.pi)
    turned = transposed(device.launcher, chain)
    e, out = backup.e.astype(np.float32), cupy.empty(n)
    left = cupy.empty_like(e)
    last = cupy.zeros(2)
    mass = cupy.ones(2)
    sector, links = 32, chain.cols.size
    model = mdp.row.nbytes + mdp.col.nbytes + mdp.val.nbytes
    of_chain = 12 * links + 8 * n
    variant = device.of_chain(chain)
    F = device.quota_block(backup.pi, device.totals(backup.pi, nu, backup.e)[0])
    H, _ = device.way("sweeps").biases(chain, F, None, K, 1.0)
    F, work = H.copy(), H.copy()
    blocks = device.variant._replace(lanes=launcher.lanes(K))
    board = launcher.board(2 * K, n, blocks)
    mu = np.full(K, 0.2)
    width, sets = device.width(K), sum(array.nbytes for array in problem.sets)

    def of_all_pairs():
        vars(device).pop("_near", None)  # with what is known of the pairs
        device.improve(h, mu, 1e-3)

    yield (
        "soft_states",
        model + 17 * pairs + 24 * n + sets + sector * mdp.n_transitions,
        timed(of_all_pairs),
    )
    kept = int(device._near.look(h, 1e-3, device.span_between).pairs.sum())
    yield (
        "soft_states_near",
        9 * pairs + 24 * n + sets
        + kept * (2 * mdp.row.itemsize + 8 + row_sectors(mdp) + (BRANCHING + 1) * sector),
        timed(lambda: device.improve(h, mu, 1e-3)),
    )  # fmt: skip
    played = links // (BRANCHING + 1)
    yield (
        "follow",
        2 * (8 * pairs + 24 * n) + mdp.row.nbytes + played * row_sectors(mdp) + 12 * links,
        timed(lambda: follow(launcher, rows, mdp.ptr, (mdp.row, mdp.col, mdp.val), backup.pi)),
    )
    yield (
        "turned",
        (4 + sector) * links + (12 + 2 * sector) * links + (16 + 2 * sector) * links + 24 * n,
        timed(lambda: transposed(launcher, chain)),
    )
    yield (
        "value_sweep",
        of_chain + sector * links + 24 * n,
        timed(
            lambda: launcher.reduce(variant, "value_sweep", n, n, *chain, 0.0, last, e, left, h, columns=2)
        ),
    )
    yield (
        "stationary_sweep",
        of_chain + sector * links + 16 * n,
        timed(
            lambda: launcher.reduce(variant, "stationary_sweep", n, n, *turned, 0.0, mass, nu, out, columns=2)
        ),
    )
    row = 4 * width
    yield (
        "block_sweep",
        of_chain + max(row, sector) * links + 3 * row * n,
        timed(
            lambda: launcher.launch(blocks, "block_sweep", n, n, K, width, 0, *chain, 0.0, F, H, work, board)
        ),
    )
    yield (
        "ceiling",
        model + 8 * pairs + 16 * n + sets + sector * mdp.n_transitions,
        timed(lambda: device.top(h, mu, 1.0, 1.0)),
    )


def proximal_kernels(problem):
    """Kernels of the per-state solver where about a tenth of the states play two actions."""
    mdp, n, sector = problem.mdp, problem.mdp.n_states, 32
    kernels = CudaProximal(open_cuda("proximal"))
    place = kernels.place(problem)
    model, c = place.model._replace(w=kernels.put(problem.at_least / problem.at_least.sum())), place.rho
    scratch, pairs = kernels.scratch_for(model), mdp.n_pairs
    h = cupy.random.default_rng(0).random(n)
    q, z, theta, u = cupy.empty(pairs), cupy.zeros(pairs), cupy.zeros(n), cupy.zeros(pairs)
    kernels.advantages(model, place.r, h, q)
    lam, _ = kernels.project(model, scratch, z.copy(), q, u, 0.0, 5.0, c, 0.0, z, theta)
    centre, g = cupy.zeros(pairs), cupy.zeros(n)
    support = int((z > 0).sum())
    links = support * (BRANCHING + 1)
    matrix = mdp.row.nbytes + mdp.col.nbytes + mdp.val.nbytes
    yield (
        "advantages",
        matrix + 32 * pairs + 16 * n + sector * mdp.n_transitions,
        timed(lambda: kernels.advantages(model, place.r, h, q)),
    )
    yield (
        "lift",
        32 * pairs + 32 * n,
        timed(
            lambda: kernels.launcher.reduce(
                kernels._alone(model), "lift", n, n, model.pairs, model.w, centre, q, u, 0.0, 5.0, 0.0,
                z, scratch.top, scratch.second, scratch.search, columns=2,
            )
        ),
    )  # fmt: skip
    kernels.project(model, scratch, centre, q, u, 0.0, 5.0, c, lam, z, theta)
    yield (
        "flow",
        16 * pairs + 40 * n + support * row_sectors(mdp) + 2 * sector * links,
        timed(lambda: kernels.flow(model, z, g)),
    )
    rows = _Rows(kernels, model, scratch.group_of, z, theta >= lam, model.w)
    p, out = cupy.ones(n, np.float32), cupy.zeros(n, np.float32)
    entries, sums = rows.to.size, (cupy.empty(1), cupy.empty(1))
    yield (
        "hessian_rows",
        8 * entries + 16 * rows.n_rows + 3 * sector * entries,
        timed(lambda: rows.hessian(p, out, *sums)),
    )


def main():
    """Write the rows of one kind."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=list(FIELDS))
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e5, 1e6, 1e7])
    parser.add_argument("--gaps", type=float, nargs="+", default=[1e-6])
    parser.add_argument("--single", type=float, default=5e7)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--watch", action="store_true", help="proximal: print every step")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    with table("gpu", FIELDS[options.what], options.out, note=f"on {name}") as add:
        globals()[options.what](options, add)


if __name__ == "__main__":
    main()
