# What `fairmdp.io` offers, loaded at first use.
from . import drn, npz_problem, prism_explicit, table_file, toml_problem
from .gym_model import from_gymnasium
from .policy_files import read_policy
from .problem_files import load, save
from .source import Source, number, parse_like, read_kept, whole
from .strategy import save_strategy

__all__ = [
    "Source",
    "drn",
    "from_gymnasium",
    "load",
    "npz_problem",
    "number",
    "parse_like",
    "prism_explicit",
    "read_kept",
    "read_policy",
    "save",
    "save_strategy",
    "table_file",
    "toml_problem",
    "whole",
]
