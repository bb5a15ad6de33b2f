"""Three notions of a good policy side by side: with quotas, without them, and as even as can be."""

import fairmdp as fm

problem = fm.scenarios.taxi()
policies = {
    "fair": fm.solve(problem).policy,
    "unconstrained": fm.solve(problem.without_quotas()).policy,
    "max-min": fm.solve_max_min(problem).policy,
}
print(f"{'':14}{'gain':>8}" + "".join(f"{name:>9}" for name in problem.names) + "     Jain   breaks")
for name, policy in policies.items():
    seen = fm.readout(problem, policy)
    shares = "".join(f"{share:9.4f}" for share in seen.shares)
    print(f"{name:14}{seen.gain:8.4f}{shares}{seen.jain:9.4f}   {', '.join(seen.broken) or '-'}")
