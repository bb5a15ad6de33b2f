"""OR-tools' PDLP on the same linear program."""

import importlib.util

import numpy as np
from scipy.sparse import csc_array, csr_array, hstack

from fairmdp.errors import SolverError


class OrtoolsPdlp:
    """The setting is the relative and absolute optimality tolerance."""

    name = "ortools_pdlp"
    reference = "Applegate et al., NeurIPS 2021"

    def skip(self, problem):
        """Return a reason not to run, or None."""
        return None if importlib.util.find_spec("ortools") else "ortools is not installed"

    def prepare(self, problem, setting):
        """Build ``min -r @ x`` over flow, mass and quota rows, with ``sum x`` the number of states."""
        from ortools.pdlp.python import pdlp

        mdp, S, SA = problem.mdp, problem.mdp.n_states, problem.mdp.n_pairs
        flow = csr_array((np.ones(SA), (np.arange(SA), mdp.s_of)), shape=(SA, S)) - mdp.P
        rows = hstack([flow, np.ones((SA, 1)), problem.members.T]).T
        qp = pdlp.QuadraticProgram()
        qp.objective_vector = -mdp.r
        qp.constraint_matrix = csc_array(rows)
        qp.constraint_lower_bounds = np.concatenate([np.zeros(S), [S], S * problem.at_least])
        above = np.where(problem.at_most < 1, S * problem.at_most, np.inf)
        qp.constraint_upper_bounds = np.concatenate([np.zeros(S), [S], above])
        qp.variable_lower_bounds, qp.variable_upper_bounds = np.zeros(SA), np.full(SA, np.inf)
        self.problem, self.qp, self.tol = problem, qp, setting

    def run(self, budget):
        """Run on one thread."""
        from ortools.pdlp import solvers_pb2
        from ortools.pdlp.python import pdlp

        settings = solvers_pb2.PrimalDualHybridGradientParams()
        criteria = settings.termination_criteria
        criteria.simple_optimality_criteria.eps_optimal_absolute = self.tol
        criteria.simple_optimality_criteria.eps_optimal_relative = self.tol
        criteria.time_sec_limit = budget
        settings.num_threads = 1
        self.answer = pdlp.primal_dual_hybrid_gradient(self.qp, settings)
        if not self.answer.primal_solution.size:
            raise SolverError("no point")

    def result(self):
        """Occupancy and duals, in our signs."""
        S = self.problem.mdp.n_states
        dual = np.asarray(self.answer.dual_solution)
        steps = self.answer.solve_log.iteration_count
        x = np.asarray(self.answer.primal_solution) / S
        return {"x": x, "h": -dual[:S], "mu": dual[S + 1 :], "counters": {"iterations": steps}}
