"""Worlds: seconds and gaps by size, references, HiGHS beside us, random worlds against exact programs.

python -m benchmarks.world --suite scale --out benchmarks/results/world_scale.csv
"""

import argparse
import resource
import time
from fractions import Fraction
from functools import partial
from pathlib import Path

import highspy
import numpy as np
from benchmarks.rational import maximum
from benchmarks.table import table

import fairmdp as fm
from fairmdp.certificate.world_ceiling import exact_ceiling
from fairmdp.decomposition.master import Tuning
from fairmdp.decomposition.whole import whole_program

FAMILIES = {
    "jobs": lambda n: fm.scenarios.job_server(n),
    "jobs, memory": lambda n: fm.scenarios.job_server(n, memory=0.4 * n),
    "machines": fm.scenarios.machine_park,
    "tenants": fm.scenarios.gpu_tenants,
    "taxi zones": fm.scenarios.taxi_zones,
}
BUNDLE = Tuning(few_rows=0)

# Certified ceilings and prices of `coupled.md`; None is infeasible, with what the quotas need.
REFERENCES = {
    "jobs-200": (91.635539, (1.0282,), 94.207186),
    "jobs-1000": (454.833790, (0.968356,), None),
    "jobs-two-resources-200": (90.300665, (0.6126, 0.3980), 93.589038),
    "jobs-served-200": (90.953598, (1.0625,), 94.207186),
    "machines-200": (221.078522, (1.8256, 9.6186), 221.094288),
    "tenants-200": (64.282767, (0.8826, 0, 0, 0.1901, 0.2682, 0.2256), 70.823155),
    "jobs-impossible-500": (None, 45.01503, None),
}


def world_of(path):
    """A world of plain arrays: one pattern for all rows."""
    with np.load(path) as npz:
        a = dict(npz)
    S, SA = a["pair_ptr"].size - 1, a["row_ptr"].size - 1
    s_of, lengths = np.repeat(np.arange(S), np.diff(a["pair_ptr"])), np.diff(a["row_ptr"])
    dense = np.zeros((len(a["P"]), SA, S))
    dense[:, np.repeat(np.arange(SA), lengths), a["cols"].astype(int)] = a["P"]
    mdp = fm.MDP(dense[0], a["r"][0], s_of)
    parts = fm.Components("row", mdp, P=dense, r=a["r"], count=a["multiplicity"].astype(int))
    resources = [
        fm.Resource(f"resource {k}", float(c), a["uses"][:, :, k]) for k, c in enumerate(a["capacity"])
    ]
    at_least = np.where(np.isfinite(a["at_least"]), a["at_least"], np.nan)
    local = [fm.LocalQuota("local", at_least, weights=a["counts_for_quota"])]
    groups = [
        fm.GroupQuota(f"group {g}", float(R), weights=a["counts_for_group"], members=a["group"] == g)
        for g, R in enumerate(a["group_at_least"])
    ]
    return fm.World([parts], resources, local, groups)


def references(folder, add):
    """Ceilings and prices beside those of the lab report."""
    for name, (upper, prices, bare) in REFERENCES.items():
        world = world_of(folder / f"{name}.npz")
        plan = fm.solve_world(world)
        row = {"world": name, "verified": fm.verify(world, plan).ok}
        if upper is None:
            needed = plan.shortage.needed
            row |= {"found": f"{needed:.5f}", "reference": prices, "off": f"{needed - prices:.1e}"}
        else:
            off = plan.upper / upper - 1
            found = np.concatenate([plan.prices, plan.group_prices])
            row |= {
                "found": f"{plan.upper:.6f}",
                "reference": upper,
                "off": f"{off:.1e}",
                "gap": f"{plan.gap:.1e}",
                "prices_off": f"{np.abs(found - prices).max():.0e}",
            }
            if bare is not None:
                free = fm.solve_world(world.without_quotas()).upper
                row["without_quotas_off"] = f"{free / bare - 1:.1e}"
        add(row)


def scale(sizes, names, add):
    """CPU seconds to build, solve and verify."""
    for name in names:
        fm.verify(small := FAMILIES[name](300), fm.solve_world(small))  # compiled before the clock
        for n in sizes:
            begin = time.process_time()
            world = FAMILIES[name](n)
            built = time.process_time()
            plan = fm.solve_world(world)
            solved = time.process_time()
            ok = fm.verify(world, plan).ok
            add({
                "world": name, "components": n, "states": world.blocks[0].n_states,
                "prices": plan.prices.size + plan.group_prices.size, "build_s": f"{built - begin:.2f}",
                "solve_s": f"{solved - built:.2f}", "verify_s": f"{time.process_time() - solved:.2f}",
                "evaluations": int(plan.counters["evaluations"]), "gap": f"{plan.gap:.1e}",
                "status": plan.status.value, "verified": ok,
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            })  # fmt: skip


def rivals(n, names, add):
    """The same program given to HiGHS, one thread; the sides alternate and the best of two counts."""
    for name in names:
        world = FAMILIES[name](n)
        fm.solve_world(FAMILIES[name](300))
        ours, theirs = [], {"simplex": [], "ipm": []}
        value = {}
        for _ in range(2):
            begin = time.process_time()
            plan = fm.solve_world(world)
            ours.append(time.process_time() - begin)
            for method in theirs:
                seconds, value[method] = highs(world, method)
                theirs[method].append(seconds)
        lp = whole_program(world).lp
        add({
            "world": name, "components": n, "program": f"{lp.num_row_} x {lp.num_col_}",
            "ours_s": f"{min(ours):.2f}", "gap": f"{plan.gap:.1e}",
            **{f"{method}_s": f"{min(each):.2f}" for method, each in theirs.items()},
            **{f"{method}_times": f"{min(each) / min(ours):.0f}" for method, each in theirs.items()},
            "values_off": f"{max(abs(v / plan.upper - 1) for v in value.values()):.0e}",
        })  # fmt: skip


def sharded(sizes, workers, add):
    """A world in parts of half a million rows on processes; CPU seconds and memory are of all of them."""
    for n in sizes:
        for count in workers:
            shards = max(*workers, -(-n // 500_000))
            make = partial(queues, n // shards)
            begin, before = time.perf_counter(), children()
            with fm.ProcessPool(int(count), timeout=3600) as engine:
                plan = fm.solve_shards(make, shards, engine=engine)
            wall = time.perf_counter() - begin
            seconds, peak = (after - was for after, was in zip(children(), (before[0], 0), strict=True))
            add({
                "world": "jobs, queue 2", "components": plan.n_components, "processes": int(count),
                "parts": shards, "wall_s": f"{wall:.0f}", "cpu_s": f"{seconds:.0f}",
                "peak_mb_of_the_largest": peak, "evaluations": int(plan.counters["evaluations"]),
                "upper": repr(plan.upper), "gap": f"{plan.gap:.1e}", "status": plan.status.value,
            })  # fmt: skip


def queues(n, k):
    """Part k: n clients with up to two jobs each."""
    return fm.scenarios.job_server(n, queue=2, limit=1, seed=k)


def children():
    """CPU seconds of the processes that have ended, and the most memory that one of them had, in MB."""
    of = resource.getrusage(resource.RUSAGE_CHILDREN)
    return of.ru_utime + of.ru_stime, of.ru_maxrss // 1024


def highs(world, method):
    """CPU seconds, building apart, and the optimum."""
    solver, program = highspy.Highs(), whole_program(world)
    for option, value in {
        "output_flag": False, "threads": 1, "solver": method,
        "run_crossover": "off" if method == "ipm" else "on",
    }.items():  # fmt: skip
        solver.setOptionValue(option, value)
    solver.passModel(program.lp)
    begin = time.process_time()
    solver.run()
    return time.process_time() - begin, -solver.getInfo().objective_function_value * program.scale


def dyadic_world(seed):
    """A small world whose numbers are multiples of 1/64, so that fractions stay short."""
    rng = np.random.default_rng(seed)
    B, S = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    A = rng.integers(1, 3, S)
    s_of = np.repeat(np.arange(S), A)
    SA = s_of.size

    def split(parts):
        cuts = np.sort(rng.integers(1, 64, parts - 1))
        return np.diff([0, *cuts, 64]) / 64

    P = np.array([[split(S) for _ in range(SA)] for _ in range(B)])
    first = np.r_[True, s_of[1:] != s_of[:-1]]
    count = rng.integers(1, 4, B)
    parts = fm.Components(
        "row", fm.MDP(P[0], np.zeros(SA), s_of), P=P, r=rng.integers(-64, 65, (B, SA)) / 64, count=count
    )
    resources = [
        fm.Resource(f"r{k}", float(rng.integers(1, 4 * count.sum())) / 4, np.where(first, 0.0, uses))
        for k, uses in enumerate(rng.integers(0, 3, (int(rng.integers(0, 3)), SA)))
    ]
    local = [fm.LocalQuota("q", rng.integers(0, 33, B) / 64, weights=rng.integers(0, 2, SA).astype(float))]
    least, counts = float(rng.integers(1, 32) * count.sum()) / 64, rng.integers(0, 3, SA) / 2
    groups = [fm.GroupQuota("g", least, weights=counts)] * int(rng.integers(0, 2))
    return fm.World([parts], resources, local, groups)


def rational_optimum(world):
    """The program over all occupancies in fractions, from what was stated; None if it has no point."""
    of, (quota,) = world.components[0], world.quotas
    B, SA, S = of.n_rows, of.mdp.n_pairs, of.mdp.n_states
    bounds = np.broadcast_to(quota.at_least, B)
    slacks = B + len(world.resources) + len(world.groups)
    A, b, used = [], [], 0

    def line(entries, right, slack=None):
        nonlocal used
        row = [Fraction(0)] * (B * SA + slacks)
        for at, value in entries:
            row[at] += Fraction(float(value))
        if slack is not None:
            row[B * SA + used] = Fraction(slack)
            used += 1
        A.append(row)
        b.append(Fraction(float(right)))

    for i in range(B):
        own, at = of.row_mdp(i), i * SA
        P = own.P.toarray()
        for t in range(S - 1):
            line([(at + p, (own.s_of[p] == t) - P[p, t]) for p in range(SA)], 0)
        line([(at + p, 1) for p in range(SA)], 1)
        line([(at + p, quota.weights[p]) for p in range(SA)], bounds[i], -1)
    every = [(i * SA + p, i, p) for i in range(B) for p in range(SA)]
    for each in world.resources:
        line([(at, of.count[i] * each.uses[p]) for at, i, p in every], each.capacity, 1)
    for group in world.groups:
        line([(at, of.count[i] * group.weights[p]) for at, i, p in every], group.at_least, -1)
    c = [Fraction(float(of.count[i] * of.r[i, p])) for _, i, p in every] + [Fraction(0)] * slacks
    return maximum(A, b, c)


def fuzz(count, add):
    """Random worlds: no ceiling below the optimum, none infeasible that is feasible; by both methods."""
    from tests.worlds import random_world, whole_optimum

    seen = {
        name: {"below": 0, "off": 0, "wrong": 0, "unverified": 0, "worst": 0.0, "infeasible": 0}
        for name in ("whole program", "price decomposition")
    }
    for seed in range(count):
        world = random_world(10_000 + seed, quotas=1 + seed % 3, caps=bool(seed % 2))
        best = whole_optimum(world)
        for name, tuning in (("whole program", Tuning()), ("price decomposition", BUNDLE)):
            plan, of = fm.solve_world(world, tuning=tuning), seen[name]
            of["unverified"] += not fm.verify(world, plan).ok
            if best is None or plan.status == "infeasible":
                of["infeasible"] += best is None
                of["wrong"] += (best is None) != (plan.status == "infeasible")
                continue
            size = max(abs(best), 1.0)
            of["below"] += plan.upper < best - 1e-9 * size
            of["worst"] = max(of["worst"], (plan.upper - best) / size)
            of["off"] += plan.upper > best + 1e-6 * size
    for name, of in seen.items():
        add({"method": name, "worlds": count, "arithmetic": "float"} | of | {"worst": f"{of['worst']:.1e}"})


def rational(count, add):
    """Worlds of short fractions: the proved ceiling against the optimum, both exact."""
    below, wrong, worst, infeasible = 0, 0, 0.0, 0
    for seed in range(count):
        world = dyadic_world(seed)
        best, plan = rational_optimum(world), fm.solve_world(world)
        verdict = fm.verify(world, plan, exact=True)
        if best is None or plan.status == "infeasible":
            infeasible += best is None
            wrong += (best is None) != (plan.status == "infeasible") or not verdict.ok
            continue
        prices = np.concatenate([plan.prices, plan.group_prices])
        proved = exact_ceiling(world, prices, [(block.witness, block.mu) for block in plan.blocks])
        below += proved < best or plan.upper < best
        worst = max(worst, float(proved - best))
    add({
        "method": "whole program", "worlds": count, "arithmetic": "rational", "below": below, "off": 0,
        "wrong": wrong, "unverified": 0, "worst": f"{worst:.1e}", "infeasible": infeasible,
    })  # fmt: skip


FIELDS = {
    "references": (
        "world", "found", "reference", "off", "gap", "prices_off", "without_quotas_off", "verified",
    ),
    "scale": (
        "world", "components", "states", "prices", "build_s", "solve_s", "verify_s", "evaluations", "gap",
        "status", "verified", "peak_mb",
    ),
    "rivals": (
        "world", "components", "program", "ours_s", "gap", "simplex_s", "ipm_s", "simplex_times", "ipm_times",
        "values_off",
    ),
    "shards": (
        "world", "components", "processes", "parts", "wall_s", "cpu_s", "peak_mb_of_the_largest",
        "evaluations", "upper", "gap", "status",
    ),
    "fuzz": ("method", "worlds", "arithmetic", "infeasible", "below", "off", "wrong", "unverified", "worst"),
}  # fmt: skip


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="CPU seconds and gaps of worlds")
    parser.add_argument("--suite", choices=list(FIELDS), required=True)
    parser.add_argument("--folder", type=Path, help="references: where the worlds are, as .npz")
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e4], help="components")
    parser.add_argument("--only", nargs="+", default=list(FAMILIES), help="families")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="shards: processes")
    parser.add_argument("--count", type=int, default=1000, help="fuzz: random worlds")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    args = parser.parse_args()
    with table("world", FIELDS[args.suite], args.out) as add:
        if args.suite == "references":
            references(args.folder, add)
        elif args.suite == "scale":
            scale([int(n) for n in args.sizes], args.only, add)
        elif args.suite == "rivals":
            rivals(int(args.sizes[0]), args.only, add)
        elif args.suite == "shards":
            sharded([int(n) for n in args.sizes], args.workers, add)
        else:
            fuzz(args.count, add)
            rational(50, add)


if __name__ == "__main__":
    main()
