"""A server with a million clients, each of whom is owed something: solved, proved, and run for a while.

As one model this has 13 to the power of a million states. Takes about a minute and 3 GB; try 10,000 first:
``python examples/14_a_million_clients.py 10000``.
"""

import sys
import time

import fairmdp as fm


def main(clients):
    """Solve the world, prove the ceiling once more, and let a policy run."""
    begin = time.perf_counter()
    world = fm.scenarios.job_server(clients)
    plan = fm.solve_world(world)
    print(f"{world}: {time.perf_counter() - begin:.0f} s")
    print(f"no joint policy gains more than {plan.upper:,.2f} a step (proved: {fm.verify(world, plan).ok})")
    binding = int((plan.blocks[0].mu > 1e-9).sum())
    print(f"a slot is worth {plan.prices[0]:.4f}; the quotas of {binding:,} clients bind")
    policy = fm.dispatch_policy(world, plan, "fair")
    seen = fm.simulate_world(world, policy, steps=200, seed=1)
    low, high = seen.interval
    print(f"measured in 200 steps: {low:,.1f} to {high:,.1f}, {seen.gap(plan.upper):.2%} below the ceiling")
    print(f"slots used at most: {seen.most_used[0]:,.0f} of {seen.capacity[0]:,.0f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
