"""fairmdp's own methods."""

from benchmarks.problems import garnet, garnet_per_state

from fairmdp import solve


class Ours:
    """One method of `fairmdp.solve`; the setting is the certified gap to reach."""

    reference = "this package"

    def __init__(self, method):
        self.name = method

    def skip(self, problem):
        """Return a reason not to run, or None."""
        many = problem.n_quotas > 100
        return "too many quotas for prices" if many and self.name in ("dual", "colgen") else None

    def prepare(self, problem, setting):
        """Compile all kernels on small models."""
        self.problem, self.tol = problem, setting
        small = garnet(510, 3)
        for method in ("dual", "colgen", "interior"):
            solve(small, method=method)
        solve(garnet_per_state(200), method="proximal", tol=1e-4)

    def run(self, budget):
        """Solve within budget seconds."""
        self.solution = solve(self.problem, method=self.name, tol=self.tol, seconds=budget)

    def result(self):
        """Policy and duals."""
        sol = self.solution
        return {"policy": sol.policy, "h": sol.bias, "mu": sol.prices, "counters": sol.counters}
