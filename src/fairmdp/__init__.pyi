# The public names and where they are defined: what `import fairmdp` offers, loaded at first use.
from . import scenarios
from .audit import Evaluation, Inspection, LogAudit, audit_log, evaluate, gains_by_start, inspect
from .backends.cuda.device_problem import DeviceProblem
from .certificate import Verdict, verify
from .certificate.readout import Readout, readout
from .certificate.welfare import WelfareVerdict
from .certificate.world import WorldVerdict
from .chains.chain import Chain
from .chains.mixing import mixing_time
from .deadline import Stop
from .decomposition.shards import ShardsPlan, solve_shards
from .decomposition.solve import solve_world
from .dispatch.make import dispatch_policy
from .dispatch.policy import DispatchPolicy
from .dispatch.simulation import WorldSimulation, simulate_world
from .errors import (
    DeviceError,
    FairMDPError,
    FormatError,
    ProblemError,
    SimulatorError,
    SolverError,
    SourceError,
)
from .frontiers import (
    Comparison,
    Frontier,
    FrontierGrid,
    ShadowPrice,
    WelfareFrontier,
    WorldComparison,
    WorldFrontier,
    compare,
    compare_world,
    frontier,
    frontier_grid,
    other_meaning,
    welfare_frontier,
    world_frontier,
)
from .io import load, load_world, save
from .io.gym_model import from_gymnasium
from .io.policy_files import save_strategy
from .learning.certify import certify
from .learning.estimate import CertifiedPolicy, Estimate
from .learning.learn import learn
from .learning.mirror import learn_mirror
from .learning.plugin import learn_plugin
from .learning.record import record
from .learning.records import learn_records
from .learning.simulate import Simulation, simulate, surprises
from .learning.simulators import EnvironmentSimulator, FunctionSimulator
from .learning.world import WorldEstimate, count_transitions, learn_world
from .mirror.batch import mirror_sweep
from .mirror.solve import solve_mirror
from .model.mdp import MDP
from .model.objectives import alpha_fair, atkinson, entropy, gini, leximin, max_min, parse_objective
from .model.problem import Problem
from .model.quota import Quota, Utility
from .model.quota_text import parse_quota, parse_quotas
from .model.simulator import Simulator
from .model.tables import quotas_from_table
from .online import AgentReport, OnlineAgent, OnlineRun, SafeStart, learn_start, run_online
from .policy.policy import Policy
from .records import Log
from .solution.solution import Check, Note, Remark, Solution, Status
from .solution.welfare import Level, WelfareSolution
from .solvers.auto import solve
from .solvers.colgen import solve_colgen
from .solvers.dual import solve_dual
from .solvers.lp import solve_lp
from .solvers.proximal import solve_proximal
from .version import __version__
from .views import plots
from .welfare.maxmin import solve_max_min
from .welfare.solve import solve_welfare
from .workers import EngineError, ProcessPool, RayCluster
from .world.components import Components
from .world.demands import GroupQuota, LocalQuota, Resource
from .world.plan import WorldPlan
from .world.world import World

__all__ = [
    "MDP",
    "AgentReport",
    "CertifiedPolicy",
    "Chain",
    "Check",
    "Comparison",
    "Components",
    "DeviceError",
    "DeviceProblem",
    "DispatchPolicy",
    "EngineError",
    "EnvironmentSimulator",
    "Estimate",
    "Evaluation",
    "FairMDPError",
    "FormatError",
    "Frontier",
    "FrontierGrid",
    "FunctionSimulator",
    "GroupQuota",
    "Inspection",
    "Level",
    "LocalQuota",
    "Log",
    "LogAudit",
    "Note",
    "OnlineAgent",
    "OnlineRun",
    "Policy",
    "Problem",
    "ProblemError",
    "ProcessPool",
    "Quota",
    "RayCluster",
    "Readout",
    "Remark",
    "Resource",
    "SafeStart",
    "ShadowPrice",
    "ShardsPlan",
    "Simulation",
    "Simulator",
    "SimulatorError",
    "Solution",
    "SolverError",
    "SourceError",
    "Status",
    "Stop",
    "Utility",
    "Verdict",
    "WelfareFrontier",
    "WelfareSolution",
    "WelfareVerdict",
    "World",
    "WorldComparison",
    "WorldEstimate",
    "WorldFrontier",
    "WorldPlan",
    "WorldSimulation",
    "WorldVerdict",
    "__version__",
    "alpha_fair",
    "atkinson",
    "audit_log",
    "certify",
    "compare",
    "compare_world",
    "count_transitions",
    "dispatch_policy",
    "entropy",
    "evaluate",
    "from_gymnasium",
    "frontier",
    "frontier_grid",
    "gains_by_start",
    "gini",
    "inspect",
    "learn",
    "learn_mirror",
    "learn_plugin",
    "learn_records",
    "learn_start",
    "learn_world",
    "leximin",
    "load",
    "load_world",
    "max_min",
    "mirror_sweep",
    "mixing_time",
    "other_meaning",
    "parse_objective",
    "parse_quota",
    "parse_quotas",
    "plots",
    "quotas_from_table",
    "readout",
    "record",
    "run_online",
    "save",
    "save_strategy",
    "scenarios",
    "simulate",
    "simulate_world",
    "solve",
    "solve_colgen",
    "solve_dual",
    "solve_lp",
    "solve_max_min",
    "solve_mirror",
    "solve_proximal",
    "solve_shards",
    "solve_welfare",
    "solve_world",
    "surprises",
    "verify",
    "welfare_frontier",
    "world_frontier",
]
