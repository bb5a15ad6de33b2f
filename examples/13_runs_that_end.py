"""A firm can fold for good. Jobs half of the time: in every run, or by folding in half of the runs."""

import fairmdp as fm

P, r, s_of = [[1, 0], [0, 1], [0, 1]], [2.0, 0.0, 5.0], [0, 0, 1]  # to trade, to fold, to rent out
firm = fm.MDP(P, r, s_of, states=["open", "folded"], initial="open")
problem = fm.Problem(firm, [fm.Quota("jobs", states=["open"], at_least=0.5)])
print(fm.inspect(problem))

for meaning in (problem, problem.with_meaning(expected=True)):
    solution = fm.solve(meaning)
    confirmed = fm.verify(meaning, solution).ok
    print(f"gain {solution.gain:.1f}, jobs {solution.shares[0]:.1f} of the time, verified: {confirmed}")
    for end in solution.ends.classes:
        where = firm.states[end.states[0]]
        print(f"  {end.probability:.0%} of runs end {where}: gain {end.gain:.1f}, jobs {end.shares[0]:.1f}")

# Each run draws one of the two policies when it begins, and keeps it.
seen = fm.simulate(firm, solution, steps=100, runs=1000, quotas=problem.quotas)
print(f"jobs {seen.shares[0]:.2f} on average, and half of the time or more in {seen.met[0]:.0%} of the runs")
