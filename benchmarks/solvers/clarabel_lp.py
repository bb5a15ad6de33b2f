"""CLARABEL's interior points on the same linear program."""

import importlib.util

import numpy as np
from scipy.sparse import csc_array, csr_array, hstack, identity, vstack

from fairmdp.errors import SolverError


class Clarabel:
    """The setting is the tolerance of gap and feasibility."""

    name = "clarabel"
    reference = "Goulart and Chen, arXiv 2405.12762"

    def skip(self, problem):
        """Return a reason not to run, or None."""
        if importlib.util.find_spec("clarabel") is None:
            return "clarabel is not installed"
        return "factors fill up beyond 1e5 pairs" if problem.mdp.n_pairs > 100_000 else None

    def prepare(self, problem, setting):
        """Build ``min -r @ x`` over flow, mass, quota rows and signs, with ``sum x`` the number of states."""
        mdp, S, SA = problem.mdp, problem.mdp.n_states, problem.mdp.n_pairs
        flow = csr_array((np.ones(SA), (np.arange(SA), mdp.s_of)), shape=(SA, S)) - mdp.P
        self.low, self.high = problem.at_least > 0, problem.at_most < 1
        G = csr_array(problem.members)
        rows = [hstack([flow, np.ones((SA, 1))]).T, -G[self.low], G[self.high], -identity(SA)]
        self.A = csc_array(vstack([part for part in rows if part.shape[0]]))
        bounds = -S * problem.at_least[self.low], S * problem.at_most[self.high]
        self.b = np.concatenate([np.zeros(S), [S], *bounds, np.zeros(SA)])
        self.problem, self.tol = problem, setting

    def run(self, budget):
        """Run on one thread."""
        import clarabel

        settings = clarabel.DefaultSettings()
        settings.verbose, settings.time_limit, settings.max_threads = False, budget, 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = self.tol
        S, SA = self.problem.mdp.n_states, self.problem.mdp.n_pairs
        cones = [clarabel.ZeroConeT(S + 1), clarabel.NonnegativeConeT(self.b.size - S - 1)]
        nothing = csc_array((SA, SA))
        self.answer = clarabel.DefaultSolver(
            nothing, -self.problem.mdp.r, self.A, self.b, cones, settings
        ).solve()
        if not np.isfinite(self.answer.x).all():
            raise SolverError(f"no point: {self.answer.status}")

    def result(self):
        """Occupancy and duals, in our signs."""
        S, z = self.problem.mdp.n_states, np.asarray(self.answer.z)
        mu = np.zeros(self.problem.n_quotas)
        n_low = int(self.low.sum())
        mu[self.low] += z[S + 1 : S + 1 + n_low]
        mu[self.high] -= z[S + 1 + n_low : S + 1 + n_low + int(self.high.sum())]
        counters = {"iterations": self.answer.iterations}
        return {"x": np.asarray(self.answer.x) / S, "h": z[:S], "mu": mu, "counters": counters}
