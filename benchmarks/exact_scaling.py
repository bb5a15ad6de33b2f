"""CPU seconds, memory and certified gap of the exact price solvers, from a thousand to a million states.

    python -m benchmarks.exact_scaling --out benchmarks/results/exact_scaling.csv

Every case runs in a process of its own, on one thread, after a small problem has compiled the kernels. The
model is made by another process, so peak memory is that of loading and solving. ``gap`` is what
`fairmdp.verify` proves, relative to the span of the rewards; ``status`` is the verdict's, not the solver's.

garnet: 5 actions, 5 random successors and a ring edge of 0.05; K disjoint groups over half of the states
are owed the uniform policy's share times U(1.02, 1.27). queue: 3 clients with Bernoulli(0.4) arrivals and
one server; each client's queue is to be at most a quarter full half of the time. grid: L x L with slip 0.2
and five blocks that are owed 0.12 each (nearly decomposable: LP optima there are no policies).

Limitations: one instance (seed 0) per case; a shared machine moves CPU time by 10-30 %.
"""

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks.table import table
from scipy.sparse import coo_array, csr_array

FIELDS = [
    "problem", "states", "quotas", "solver", "tol", "cpu_s", "peak_mb", "status", "gain", "upper", "gap",
    "worst_slack", "verify_cpu_s", "counters",
]  # fmt: skip

CASES = {  # name: (maker, its arguments, solver, tol)
    "garnet_1e3": ("garnet", (1000, 5), "dual", 1e-6),
    "garnet_1e4": ("garnet", (10_000, 5), "dual", 1e-6),
    "garnet_1e4_pdlp": ("garnet", (10_000, 5), "pdlp", 1e-6),
    "garnet_1e4_columns": ("garnet", (10_000, 5), "colgen", 1e-6),
    "garnet_1e5": ("garnet", (100_000, 5), "dual", 1e-6),
    "garnet_1e5_k50": ("garnet", (100_000, 50), "dual", 1e-6),
    "garnet_1e6": ("garnet", (1_000_000, 5), "dual", 1e-6),
    "queue_1e3": ("queue", (9,), "colgen", 1e-6),
    "queue_1e4": ("queue", (21,), "colgen", 1e-6),
    "queue_1e5": ("queue", (45,), "colgen", 1e-2),
    "grid_1e3": ("grid", (32,), "colgen", 1e-6),
    "grid_1e4": ("grid", (100,), "colgen", 1e-6),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*", choices=CASES, help="cases to run, all by default")
    parser.add_argument("--make", nargs=2, metavar=("CASE", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--solve", nargs=2, metavar=("CASE", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make(*options.make)
    elif options.solve:
        print(json.dumps(measure(*options.solve)))
    else:
        write_table(options.only or CASES, options.out)


def write_table(cases, out):
    """Run every case in processes of its own; rows are written as they come."""
    with table("exact_scaling", FIELDS, out) as add:
        for case in cases:
            with tempfile.TemporaryDirectory() as folder:
                file = str(Path(folder) / "model.npz")
                child("--make", case, file)
                add(json.loads(child("--solve", case, file).splitlines()[-1]))


def child(*arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.exact_scaling", *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def make(case, file):
    """Write the arrays of a case."""
    maker, arguments, _, _ = CASES[case]
    P, r, s_of, members, at_least = {"garnet": garnet, "queue": queue, "grid": grid}[maker](*arguments)
    lengths = [len(states) for states in members]
    indices, indptr = P.indices.astype(np.int32), P.indptr.astype(np.int32)
    np.savez(
        file, data=P.data, indices=indices, indptr=indptr, r=r, s_of=s_of,
        states=np.concatenate(members), lengths=lengths, at_least=at_least,
    )  # fmt: skip


def measure(case, file):
    """Solve a case and have it verified."""
    from fairmdp import scenarios, verify
    from fairmdp.solvers.colgen import solve_colgen
    from fairmdp.solvers.dual import solve_dual
    from fairmdp.solvers.lp import solve_lp

    _, _, solver, tol = CASES[case]
    solve = {"dual": solve_dual, "colgen": solve_colgen, "pdlp": partial(solve_lp, algorithm="pdlp")}[solver]
    solve(scenarios.garnet(n_states=500, seed=1))  # compiles
    problem = load(file)
    start = time.process_time()
    sol = solve(problem, tol=tol)
    cpu = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.process_time()
    verdict = verify(problem, sol)
    checked = time.process_time() - start
    assert verdict.ok, verdict.messages
    return {
        "problem": case, "states": problem.mdp.n_states, "quotas": problem.n_quotas, "solver": solver,
        "tol": tol, "cpu_s": round(cpu, 3), "peak_mb": round(peak), "status": verdict.status.value,
        "gain": sol.gain, "upper": verdict.upper,
        "gap": (verdict.upper - verdict.gain[0]) / np.ptp(problem.mdp.r),
        "worst_slack": sol.worst_slack, "verify_cpu_s": round(checked, 3),
        "counters": " ".join(f"{name}={value:g}" for name, value in sol.counters.items()),
    }  # fmt: skip


def load(file):
    from fairmdp import MDP, Problem, Quota

    with np.load(file) as data:
        n = int(data["s_of"][-1]) + 1
        P = csr_array((data["data"], data["indices"], data["indptr"]), shape=(data["r"].size, n))
        mdp = MDP(P, data["r"], data["s_of"])
        groups = np.split(data["states"], np.cumsum(data["lengths"])[:-1])
        owed = data["at_least"].tolist()
    return Problem(mdp, [Quota(f"g{k}", states=groups[k], at_least=owed[k]) for k in range(len(owed))])


def garnet(n, n_quotas, n_actions=5, branching=5, seed=0):
    from fairmdp import MDP, Chain
    from fairmdp.solvers.policy import uniform_policy

    rng = np.random.default_rng(seed)
    s_of = np.repeat(np.arange(n), n_actions)
    to = np.column_stack([rng.integers(0, n, (s_of.size, branching)), (s_of + 1) % n])
    p = rng.standard_exponential((s_of.size, branching))
    p *= 0.95 / p.sum(axis=1, keepdims=True)
    p = np.column_stack([p, np.full(s_of.size, 0.05)])
    P = csr_array((p.ravel(), to.ravel(), np.arange(0, to.size + 1, branching + 1)), shape=(s_of.size, n))
    r = rng.random(s_of.size)
    mdp = MDP(P, r, s_of)
    nu = Chain.of(mdp, uniform_policy(mdp)).shares
    groups = np.array_split(rng.permutation(n)[: n // 2], n_quotas)
    owed = [rng.uniform(1.02, 1.27) * nu[group].sum() for group in groups]
    return mdp.P, r, s_of, [np.sort(group) for group in groups], owed


def queue(room, clients=3, arrival=0.4, rewards=(1.0, 0.6, 0.3)):
    """State: length of every client's queue; action: whom to serve; then arrivals."""
    sizes = (room + 1,) * clients
    n = (room + 1) ** clients
    lengths = np.stack(np.unravel_index(np.arange(n), sizes), axis=1)
    rows, cols, vals, r = [], [], [], np.zeros(n * clients)
    for a in range(clients):
        pair = np.arange(n) * clients + a
        after = lengths.copy()
        after[:, a] = np.maximum(after[:, a] - 1, 0)
        r[pair] = rewards[a] * (lengths[:, a] > 0)
        for arrivals in itertools.product((0, 1), repeat=clients):
            rows.append(pair)
            cols.append(np.ravel_multi_index(np.minimum(after + arrivals, room).T, sizes))
            vals.append(np.full(n, np.prod(np.where(arrivals, arrival, 1 - arrival))))
    entries = np.concatenate(vals), (np.concatenate(rows), np.concatenate(cols))
    P = coo_array(entries, shape=(n * clients, n)).tocsr()
    short = [np.flatnonzero(lengths[:, c] <= room // 4) for c in range(clients)]
    return P, r, np.repeat(np.arange(n), clients), short, [0.5] * clients


def grid(side, slip=0.2, owed=0.12):
    """Four moves with slip, smooth rewards, blocks in the corners and the middle."""
    n = side * side
    y, x = np.divmod(np.arange(n), side)
    moves = [
        np.clip(y + dy, 0, side - 1) * side + np.clip(x + dx, 0, side - 1)
        for dy, dx in ((-1, 0), (1, 0), (0, -1), (0, 1))
    ]
    rows, cols, vals = [], [], []
    for a, b in itertools.product(range(4), repeat=2):
        rows.append(np.arange(n) * 4 + a)
        cols.append(moves[b])
        vals.append(np.full(n, (1 - slip) * (a == b) + slip / 4))
    entries = np.concatenate(vals), (np.concatenate(rows), np.concatenate(cols))
    r = 0.5 + 0.25 * np.sin(2 * np.pi * x / side) + 0.25 * np.cos(3 * np.pi * y / side)
    block = side // 5
    blocks = [
        np.flatnonzero((x // block == i) & (y // block == j))
        for i, j in ((0, 0), (4, 0), (2, 2), (0, 4), (4, 4))
    ]
    P = coo_array(entries, shape=(n * 4, n)).tocsr()
    return P, np.repeat(r, 4), np.repeat(np.arange(n), 4), blocks, [owed] * 5


if __name__ == "__main__":
    main()
