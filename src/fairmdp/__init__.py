"""Long-run fair policies for average-reward Markov decision processes, with proofs.

Names are imported when they are first used, so that the command line answers ``--help`` at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairmdp import scenarios
    from fairmdp.certificate import Verdict, verify
    from fairmdp.chain import Chain, mixing_time
    from fairmdp.device_problem import DeviceProblem
    from fairmdp.engine import EngineError, ProcessPool, RayCluster
    from fairmdp.errors import (
        DeviceError,
        FairMDPError,
        FormatError,
        ProblemError,
        SimulatorError,
        SolverError,
    )
    from fairmdp.fairness import Readout, readout
    from fairmdp.frontiers import Frontier, FrontierGrid, ShadowPrice, frontier, frontier_grid
    from fairmdp.function_simulator import EnvironmentSimulator, FunctionSimulator
    from fairmdp.io import load, save
    from fairmdp.io.gym_model import from_gymnasium
    from fairmdp.io.strategy import save_strategy
    from fairmdp.learning.certify import certify
    from fairmdp.learning.estimate import CertifiedPolicy, Estimate
    from fairmdp.learning.simulate import Simulation, simulate
    from fairmdp.mdp import MDP
    from fairmdp.problem import Problem
    from fairmdp.quota import Quota
    from fairmdp.quota_text import parse_quota
    from fairmdp.simulator import Simulator
    from fairmdp.solution import Solution, Status
    from fairmdp.solvers.auto import solve
    from fairmdp.solvers.colgen import solve_colgen
    from fairmdp.solvers.dual import solve_dual
    from fairmdp.solvers.learn import learn
    from fairmdp.solvers.lp import solve_lp
    from fairmdp.solvers.maxmin import solve_max_min
    from fairmdp.solvers.mirror import learn_mirror, solve_mirror
    from fairmdp.solvers.mirror_sweep import mirror_sweep
    from fairmdp.solvers.plugin import learn_plugin
    from fairmdp.solvers.proximal import solve_proximal

__version__ = "0.1.0"

_HOME = {
    "MDP": "fairmdp.mdp",
    "CertifiedPolicy": "fairmdp.learning.estimate",
    "Chain": "fairmdp.chain",
    "DeviceError": "fairmdp.errors",
    "DeviceProblem": "fairmdp.device_problem",
    "EngineError": "fairmdp.engine",
    "EnvironmentSimulator": "fairmdp.function_simulator",
    "Estimate": "fairmdp.learning.estimate",
    "FairMDPError": "fairmdp.errors",
    "FormatError": "fairmdp.errors",
    "Frontier": "fairmdp.frontiers",
    "FrontierGrid": "fairmdp.frontiers",
    "FunctionSimulator": "fairmdp.function_simulator",
    "Problem": "fairmdp.problem",
    "ProblemError": "fairmdp.errors",
    "ProcessPool": "fairmdp.engine",
    "Quota": "fairmdp.quota",
    "RayCluster": "fairmdp.engine",
    "Readout": "fairmdp.fairness",
    "ShadowPrice": "fairmdp.frontiers",
    "Simulation": "fairmdp.learning.simulate",
    "Simulator": "fairmdp.simulator",
    "SimulatorError": "fairmdp.errors",
    "Solution": "fairmdp.solution",
    "SolverError": "fairmdp.errors",
    "Status": "fairmdp.solution",
    "Verdict": "fairmdp.certificate",
    "certify": "fairmdp.learning.certify",
    "from_gymnasium": "fairmdp.io.gym_model",
    "frontier": "fairmdp.frontiers",
    "frontier_grid": "fairmdp.frontiers",
    "learn": "fairmdp.solvers.learn",
    "learn_mirror": "fairmdp.solvers.mirror",
    "learn_plugin": "fairmdp.solvers.plugin",
    "load": "fairmdp.io",
    "mirror_sweep": "fairmdp.solvers.mirror_sweep",
    "mixing_time": "fairmdp.chain",
    "parse_quota": "fairmdp.quota_text",
    "readout": "fairmdp.fairness",
    "save": "fairmdp.io",
    "save_strategy": "fairmdp.io.strategy",
    "scenarios": "fairmdp.scenarios",
    "simulate": "fairmdp.learning.simulate",
    "solve": "fairmdp.solvers.auto",
    "solve_colgen": "fairmdp.solvers.colgen",
    "solve_dual": "fairmdp.solvers.dual",
    "solve_lp": "fairmdp.solvers.lp",
    "solve_max_min": "fairmdp.solvers.maxmin",
    "solve_mirror": "fairmdp.solvers.mirror",
    "solve_proximal": "fairmdp.solvers.proximal",
    "verify": "fairmdp.certificate",
}

__all__ = [
    "MDP",
    "CertifiedPolicy",
    "Chain",
    "DeviceError",
    "DeviceProblem",
    "EngineError",
    "EnvironmentSimulator",
    "Estimate",
    "FairMDPError",
    "FormatError",
    "Frontier",
    "FrontierGrid",
    "FunctionSimulator",
    "Problem",
    "ProblemError",
    "ProcessPool",
    "Quota",
    "RayCluster",
    "Readout",
    "ShadowPrice",
    "Simulation",
    "Simulator",
    "SimulatorError",
    "Solution",
    "SolverError",
    "Status",
    "Verdict",
    "certify",
    "from_gymnasium",
    "frontier",
    "frontier_grid",
    "learn",
    "learn_mirror",
    "learn_plugin",
    "load",
    "mirror_sweep",
    "mixing_time",
    "parse_quota",
    "readout",
    "save",
    "save_strategy",
    "scenarios",
    "simulate",
    "solve",
    "solve_colgen",
    "solve_dual",
    "solve_lp",
    "solve_max_min",
    "solve_mirror",
    "solve_proximal",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fairmdp' has no attribute {name!r}")
    home = import_module(_HOME[name])
    return home if name == "scenarios" else getattr(home, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
