"""HiGHS on the linear program over all state-action pairs, with ``sum x`` scaled to the number of states."""

import importlib.util

import numpy as np

from fairmdp.backends.cpu import proximal as kernels
from fairmdp.backends.cpu.backend import CpuBackend
from fairmdp.backends.flow_lp import FlowLP
from fairmdp.chains.policy import uniform_policy
from fairmdp.deadline import Stop
from fairmdp.errors import SolverError
from fairmdp.solvers import proximal
from fairmdp.solvers.request import Request

_TOLERANCES = (
    "ipm_optimality_tolerance",
    "pdlp_optimality_tolerance",
    "primal_feasibility_tolerance",
    "dual_feasibility_tolerance",
)
_RAISES = {1e-5: 5e-3, 3e-6: 5e-4, 1e-6: 5e-4, 1e-7: 5e-5, 1e-8: 5e-5}  # by the tolerance of PDLP


class Highs:
    """Simplex, interior points (its own or HiPO) or PDLP as they come; the setting is HiGHS's tolerance."""

    reference = "Huangfu and Hall, Math. Prog. Comp. 2018"

    def __init__(self, algorithm):
        self.name, self.algorithm = f"highs_{algorithm}", algorithm

    def skip(self, problem):
        """Return a reason not to run, or None."""
        if self.algorithm == "hipo" and importlib.util.find_spec("highspy_extras") is None:
            return "highspy-extras is not installed"
        many = problem.mdp.n_pairs > 100_000 and self.algorithm != "pdlp"
        return "factors of the basis fill up beyond 1e5 pairs" if many else None

    def prepare(self, problem, setting):
        """Build the model."""
        self.lp = FlowLP(problem, problem.mdp.r, algorithm=self.algorithm)
        if self.algorithm == "ipm":  # which means HiPO where highspy-extras is installed
            self.lp._program.highs.setOptionValue("solver", "ipx")
        for option in _TOLERANCES:
            self.lp._program.highs.setOptionValue(option, setting)

    def run(self, budget):
        """Run; the last point counts whatever HiGHS calls it, since the certificate judges it."""
        highs = self.lp._program.highs
        highs.setOptionValue("time_limit", float(budget))
        highs.run()
        point = highs.getSolution()
        if not (point.value_valid and point.dual_valid):
            raise SolverError(f"no point: {highs.modelStatusToString(highs.getModelStatus())}")

    def result(self):
        """Occupancy and duals."""
        answer = self.lp.point()
        return {"x": answer.x, "h": answer.h, "mu": answer.mu, "counters": {"iterations": answer.iterations}}


class PolishedPdlp(Highs):
    """PDLP with quotas raised beforehand, then our sweeps and our projection, which it does not have."""

    def __init__(self):
        super().__init__("pdlp")
        self.name = "highs_pdlp_polished"

    def skip(self, problem):
        """Return a reason not to run, or None."""
        return None if problem.n_quotas == problem.mdp.n_states else "made for a quota on every state"

    def prepare(self, problem, setting):
        """Build the model with raised quotas, and compile the polish."""
        self.problem, self.raise_ = problem, _RAISES[setting]
        super().prepare(problem.with_bounds(at_least=problem.at_least * (1 + self.raise_)), setting)
        self._polish(uniform_policy(problem.mdp) / problem.mdp.n_states, np.zeros(problem.mdp.n_states))

    def run(self, budget):
        """Run PDLP, then polish its result."""
        super().run(budget)
        answer = self.lp.point()
        self.solution = self._polish(answer.x, answer.h)

    def result(self):
        """Policy and duals after the polish."""
        sol = self.solution
        return {"policy": sol.policy, "h": sol.bias, "mu": sol.prices, "counters": sol.counters}

    def _polish(self, x, h):
        run = proximal._Run(CpuBackend(self.problem), Request(), proximal.USUAL)
        point, w = run.point, run.model.w[run.s_of]
        point.h[:], point.z[:] = h / run.backend.scale, x / w
        kernels.advantages(run.model, run.r, point.h, point.q)
        kernels.tops(run.model, point.q, point.theta)
        loose = run._shares(x) > run.rho * (1 + self.raise_) * (1 + 1e-3)
        run.sigma, point.lam = 1.0, float(np.median(point.theta[loose]))
        point.theta[loose] = point.lam
        run._lower_ceiling()
        run.raise_ = self.raise_
        run._make_policy(run.rho * (1 + self.raise_))
        return run.certify(self.problem, Stop.NOT)
