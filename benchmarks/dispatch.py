"""Policies of worlds: gaps to the proved ceiling, who had what is owed, and client-steps a second.

python -m benchmarks.dispatch --suite policies --out benchmarks/results/world_policies.csv
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np
from benchmarks.table import table

import fairmdp as fm

KINDS = ("fair", "fair_id", "auto")
UNFAIR = ("index", "id", "greedy")

# Gast, Gaujal, Yan (2020): three states in which the index policy goes round in a circle.
REST = [
    [0.02232142, 0.10229283, 0.87538575],
    [0.03426605, 0.17175704, 0.79397691],
    [0.52324756, 0.45523298, 0.02151946],
]
PULL = [
    [0.14874601, 0.30435809, 0.54689590],
    [0.56845754, 0.41117331, 0.02036915],
    [0.25265570, 0.27310439, 0.47423991],
]
PULLED = (0.37401552, 0.11740814, 0.07866135)


def circling(n, quota=None):
    """The counterexample with n arms, of which 40 % are pulled in a step; each is owed some pulls."""
    P, r = np.empty((6, 3)), np.zeros(6)
    P[0::2], P[1::2], r[1::2] = REST, PULL, PULLED
    arm = fm.MDP(P, r, np.repeat(range(3), 2), actions=["rest", "pull"] * 3)
    pulled = np.arange(6) % 2 == 1
    owed = [] if quota is None else [fm.LocalQuota("pulled", quota, pairs=pulled)]
    arms = fm.Components("arm", arm, count=n)
    return fm.World([arms], [fm.Resource("pulls", 0.4 * n, {"pull": 1})], owed)


def measured(world, plan, kind, steps, window, margin, *, reserve=0.0, seed=1, burn_in=0.1):
    """One simulation as a row."""
    policy = fm.dispatch_policy(world, plan, kind, window=window, margin=margin, reserve=reserve)
    fm.simulate_world(world, policy, 40)  # compiled before the clock
    begin = time.process_time()
    seen = fm.simulate_world(world, policy, steps, seed, burn_in=burn_in)
    seconds = time.process_time() - begin
    owing = np.isfinite(seen.owed)
    share = (seen.shares - seen.owed)[owing]
    groups = (seen.group_shares - seen.group_owed) / np.maximum(np.abs(seen.group_owed), 1e-300)
    low, high = seen.interval
    return {
        "clients": world.n_components, "policy": kind, "kind": policy.kind, "window": f"{window:g}",
        "margin": f"{margin:g}", "reserve": f"{policy.reserve:g}", "steps": steps,
        "gap_pct": f"{100 * seen.gap(plan.upper):.3f}",
        "pm_pct": f"{50 * (high - low) / abs(plan.upper):.3f}", "met_pct": f"{100 * seen.met:.2f}",
        "within_point_pct": f"{100 * (share >= -0.01).mean():.2f}" if share.size else "",
        "worst_slack": f"{share.min():.4f}" if share.size else "",
        "worst_group_pct": f"{100 * groups.min():.2f}" if groups.size else "",
        "most_behind": f"{seen.arrears.max(initial=0.0):.0f}",
        "over_capacity": int((seen.most_used > seen.capacity).sum()),
        "million_client_steps_per_s": f"{world.n_components * steps / seconds / 1e6:.1f}",
    }  # fmt: skip


def policies(add):
    """Every family at a few sizes, with quotas at 20,000 steps."""
    cases = [
        ("jobs", fm.scenarios.job_server, 100, 20, KINDS + UNFAIR),
        ("jobs", fm.scenarios.job_server, 1000, 20, KINDS + UNFAIR),
        ("machines", fm.scenarios.machine_park, 1000, 20, KINDS),
        ("taxi zones", fm.scenarios.taxi_zones, 1000, 20, KINDS),
        ("tenants", fm.scenarios.gpu_tenants, 1000, 20, KINDS),
        ("tenants", fm.scenarios.gpu_tenants, 1000, 50, KINDS),
    ]
    for name, make, n, window, kinds in cases:
        world = make(n)
        plan = fm.solve_world(world)
        for kind in kinds:
            add({"world": name} | measured(world, plan, kind, 20_000, window, 0.005))


def counterexample(add):
    """Gast, Gaujal and Yan's arms, without and with a quota."""
    for quota in (None, 0.38):
        for n in (100, 1000, 4000):
            world = circling(n, quota)
            plan = fm.solve_world(world)
            for kind in ("index", "fair", "fair_id", "auto"):
                name = "circling" if quota is None else f"circling, quota {quota:g}"
                add({"world": name} | measured(world, plan, kind, 20_000, 20, 0.005))


def windows(add):
    """The gap against the window at 1,000 clients, and with windows that grow like the root of their number.

    There a run is 300 windows long, of which 75 are not counted, and 40 and 10 for 100,000 clients.
    """
    world = fm.scenarios.job_server(1000)
    plan = fm.solve_world(world)
    for window in (10, 20, 50, 100, 200):
        add({"world": "jobs"} | measured(world, plan, "fair", 20_000, window, 0.005))
    for n in (100, 1000, 10_000, 100_000):
        world, window = fm.scenarios.job_server(n), 0.5 * math.sqrt(n)
        plan = fm.solve_world(world)
        long = 300 if n < 100_000 else 40
        row = measured(world, plan, "fair", int(long * window), window, 0.005, reserve=0.02, burn_in=0.25)
        add({"world": "jobs, window 0.5 sqrt N"} | row)


def joint(add):
    """Two to four clients: the joint optimum, the ceiling, and what policies gain."""
    for n, queue in ((2, 6), (3, 6), (4, 4)):
        for seed in range(3):
            world = fm.scenarios.job_server(n, queue=queue, seed=seed)
            plan = fm.solve_world(world)
            best = fm.solve(world.joint())
            for window in (10, 50):
                for kind in KINDS:
                    row = measured(world, plan, kind, 200_000, window, 0.0)
                    gain = plan.upper * (1 - float(row["gap_pct"]) / 100)
                    add(
                        {"world": f"jobs, queue {queue}, seed {seed}"} | row | {
                            "joint_gain": f"{best.gain:.6f}",
                            "ceiling_over_joint_pct": f"{100 * (plan.upper / best.gain - 1):.2f}",
                            "below_joint_pct": f"{100 * (1 - gain / best.gain):.2f}",
                        }
                    )  # fmt: skip


def speed(add):
    """Client-steps a second on one core, by policy and size."""
    for name, make in (("jobs", fm.scenarios.job_server), ("machines", fm.scenarios.machine_park)):
        for n, steps in ((1000, 4000), (100_000, 100), (1_000_000, 40)):
            world = make(n)
            plan = fm.solve_world(world)
            for kind in ("fair", "fair_id", "id"):
                add({"world": name} | measured(world, plan, kind, steps, 20, 0.005))


SUITES = {
    "policies": policies, "counterexample": counterexample, "windows": windows, "joint": joint,
    "speed": speed,
}  # fmt: skip
FIELDS = (
    "world", "clients", "policy", "kind", "window", "margin", "reserve", "steps", "gap_pct", "pm_pct",
    "met_pct", "within_point_pct", "worst_slack", "worst_group_pct", "most_behind", "over_capacity",
    "million_client_steps_per_s",
)  # fmt: skip
OF_JOINT = ("joint_gain", "ceiling_over_joint_pct", "below_joint_pct")


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="Gaps of policies of worlds, and quotas met")
    parser.add_argument("--suite", choices=list(SUITES), required=True)
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    args = parser.parse_args()
    with table("dispatch", FIELDS + (OF_JOINT if args.suite == "joint" else ()), args.out) as add:
        SUITES[args.suite](add)


if __name__ == "__main__":
    main()
