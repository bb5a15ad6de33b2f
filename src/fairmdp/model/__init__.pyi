from . import array_rules, rules, tensors
from .alias import build_alias, draw_alias
from .columns import table_of
from .mdp import MDP
from .objectives import objective_text
from .problem import Problem
from .quota import Quota
from .quota_text import parse_quota, parse_quotas, split_quota
from .simulator import CheckedSimulator, ModelSimulator, Simulator, shell_model
from .tables import DURATION, ROLES, groups_of, groups_of_states, mdp_of, quotas_from_table
from .weights import Units

__all__ = [
    "DURATION",
    "MDP",
    "ROLES",
    "CheckedSimulator",
    "ModelSimulator",
    "Problem",
    "Quota",
    "Simulator",
    "Units",
    "array_rules",
    "build_alias",
    "draw_alias",
    "groups_of",
    "groups_of_states",
    "mdp_of",
    "objective_text",
    "parse_quota",
    "parse_quotas",
    "quotas_from_table",
    "rules",
    "shell_model",
    "split_quota",
    "table_of",
    "tensors",
]
