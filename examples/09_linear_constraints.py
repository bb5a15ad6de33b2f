"""Linear constraints beside quotas, and r = 0 for any fair policy: who loses how many jobs."""

import numpy as np

import fairmdp as fm

problem = fm.scenarios.jobs()
mdp = problem.mdp

# What is dropped is linear in the occupancy, so its weights are what single pairs would lose per offered job.
flows = [fm.scenarios.job_flows(pair) for pair in np.eye(mdp.n_pairs)]
lost1, lost2 = (np.array([flow[c].dropped / flow[c].offered for flow in flows]) for c in (0, 1))

evenly = fm.Quota("more lost by client2", weights=lost2 - lost1, at_most=0.1)
for quotas in (problem.quotas, [*problem.quotas, evenly]):
    solution = fm.solve(fm.Problem(mdp, quotas))
    rates = [lost @ solution.occupancy for lost in (lost1, lost2)]
    print(f"gain {solution.gain:.4f}: client1 loses {rates[0]:.4f} of its jobs, client2 {rates[1]:.4f}")
row = solution.quotas[-1]
print(f"{row.name}: {row.share:.4f}, at most {row.at_most:.4f}, price {row.price:.4f}")

# Without rewards any policy that meets the quotas is optimal: this only asks for a fair one.
any_fair = fm.Problem(fm.MDP(mdp.P, np.zeros(mdp.n_pairs), mdp.s_of), [*problem.quotas, evenly])
found = fm.solve(any_fair)
print(f"some fair policy: {found.status.value}, verified: {fm.verify(any_fair, found).ok}")
