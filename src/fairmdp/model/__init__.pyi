from .alias import build_alias, draw_alias
from .mdp import MDP
from .problem import Problem
from .quota import Quota
from .quota_text import parse_quota, parse_quotas
from .simulator import CheckedSimulator, ModelSimulator, Simulator, shell_model
from .weights import Units

__all__ = [
    "MDP",
    "CheckedSimulator",
    "ModelSimulator",
    "Problem",
    "Quota",
    "Simulator",
    "Units",
    "build_alias",
    "draw_alias",
    "parse_quota",
    "parse_quotas",
    "shell_model",
]
