"""The paper's three states: solve exactly, read the prices, and have everything checked again."""

import fairmdp as fm

problem = fm.scenarios.three_state(rho=[0.1, 0.1, 0.25])
solution = fm.solve(problem)

print(f"gain {solution.gain:.6f}, and no fair policy exceeds {solution.upper:.6f}")
for row in solution.quotas:
    print(f"  {row.name}: owed {row.at_least:.2f}, gets {row.share:.4f}, price {row.price + 0.0:.4f}")

# A price is a derivative: what one more unit of share would cost.
more = fm.solve(fm.scenarios.three_state(rho=[0.1, 0.1, 0.26]))
print(
    f"0.01 more for s2 costs {solution.gain - more.gain:.6f}, its price says {0.01 * solution.prices[2]:.6f}"
)

# The checker shares no code with the solvers; exact=True repeats it in rational arithmetic.
verdict = fm.verify(problem, solution, exact=True)
print(f"verified: {verdict.ok}, {verdict.status.value}")
