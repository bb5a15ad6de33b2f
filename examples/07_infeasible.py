"""Quotas that conflict: the answer names them, says how far one can go, and what would be possible."""

import fairmdp as fm

problem = fm.scenarios.three_state(rho=[0.0, 0.46, 0.46])
solution = fm.solve(problem)
why = solution.infeasibility
print(f"status: {solution.status.value} ({solution.status.meaning})")
for k, reach in zip(why.conflict, why.reach, strict=True):
    print(f"  {problem.names[k]} is owed {problem.at_least[k]:.2f}; alone it could have up to {reach:.4f}")
print(f"of all of it, no more than {why.common_factor:.4f} times as much can be met")

# The proof can be checked without any solver, and the nearest quotas can be met.
print(f"verified: {fm.verify(problem, solution).ok}")
nearest = problem.with_bounds(why.nearest_at_least, why.nearest_at_most)
repaired = fm.solve(nearest)
print(f"nearest: {', '.join(f'{row.name} >= {row.at_least:.4f}' for row in repaired.quotas)}")
print(f"  {repaired.status.value}, gain {repaired.gain:.4f}")
