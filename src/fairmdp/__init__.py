"""Long-run fair policies for average-reward Markov decision processes, with proofs."""

from fairmdp import scenarios
from fairmdp.certificate import Verdict, verify
from fairmdp.chain import Chain, mixing_time
from fairmdp.errors import FairMDPError, FormatError, ProblemError, SolverError
from fairmdp.mdp import MDP
from fairmdp.problem import Problem, Quota
from fairmdp.solution import Solution, Status
from fairmdp.solvers.auto import solve
from fairmdp.solvers.lp import solve_lp

__version__ = "0.1.0"

__all__ = [
    "MDP",
    "Chain",
    "FairMDPError",
    "FormatError",
    "Problem",
    "ProblemError",
    "Quota",
    "Solution",
    "SolverError",
    "Status",
    "Verdict",
    "mixing_time",
    "scenarios",
    "solve",
    "solve_lp",
    "verify",
]
