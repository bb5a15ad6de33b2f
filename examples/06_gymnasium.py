"""FrozenLake as an average-reward problem: episode after episode, but only so many falls per step."""

import gymnasium

import fairmdp as fm

lake = gymnasium.make("FrozenLake-v1", map_name="4x4")
mdp = fm.from_gymnasium(lake, on_terminate="restart")
holes = [s for s, tile in enumerate(lake.unwrapped.desc.ravel()) if tile == b"H"]
problem = fm.Problem(mdp, [fm.Quota("falls", states=holes, at_most=0.003)])

fair, free = fm.solve(problem), fm.solve(problem.without_quotas())
print(mdp)
print(f"presents per step: {free.gain:.6f} without a cap, {fair.gain:.6f} with at most 0.003 falls per step")
print(f"falls per step: {free.visitation[holes].sum():.6f} without a cap, {fair.shares[0]:.6f} with it")
print(f"verified: {fm.verify(problem, fair).ok}")

seen = fm.simulate(mdp, fair.policy, steps=10_000, quotas=problem.quotas, seed=1)
print(f"100 runs of 10,000 steps: falls {seen.shares[0]:.5f} +- {seen.share_se[0]:.5f}")
