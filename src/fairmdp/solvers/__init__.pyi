from . import colgen, connect, dual, infeasible, interior, lp, multichain, passages, proximal
from .auto import solve
from .colgen import solve_colgen
from .dual import solve_dual
from .interior import solve_interior
from .lp import solve_lp
from .proximal import solve_proximal
from .registry import METHODS, Method
from .request import Request
from .warm import WarmSolver

__all__ = [
    "METHODS",
    "Method",
    "Request",
    "WarmSolver",
    "colgen",
    "connect",
    "dual",
    "infeasible",
    "interior",
    "lp",
    "multichain",
    "passages",
    "proximal",
    "solve",
    "solve_colgen",
    "solve_dual",
    "solve_interior",
    "solve_lp",
    "solve_proximal",
]
