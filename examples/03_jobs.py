"""Job scheduling with two quotas: who waits, who is served, and which jobs are lost."""

import fairmdp as fm
from fairmdp.scenarios import job_flows, jobs

for quota in ([0.0, 0.0], [0.0, 0.3], [0.35, 0.3]):
    solution = fm.solve(jobs(quota=quota))
    print(f"owed {quota}: {solution.status.value}")
    if not solution.has_policy:
        continue
    shares = ", ".join(f"{row.name} {row.share:.4f}" for row in solution.quotas)
    print(f"  gain {solution.gain:.4f}; share of time with a short queue: {shares}")
    for flow in job_flows(solution.occupancy):
        print(
            f"  {flow.client}: of {flow.offered:.1f} jobs per step {flow.served:.3f} are served, "
            f"{flow.withdrawn:.3f} withdrawn, {flow.dropped:.3f} dropped; {flow.waiting:.2f} wait"
        )
