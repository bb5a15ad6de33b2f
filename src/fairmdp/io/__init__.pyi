# What `fairmdp.io` offers, loaded at first use.
from . import (
    drn,
    npz_problem,
    npz_world,
    prism_explicit,
    storm_language,
    table_file,
    toml_problem,
    toml_text,
    toml_world,
    umb,
)
from .gym_model import from_gymnasium, made
from .policy_files import read_kept, read_policy, save_strategy
from .problem_files import LANGUAGES, TABLES, is_world, load, load_world, save
from .source import Source, number, parse_like, whole

__all__ = [
    "LANGUAGES",
    "TABLES",
    "Source",
    "drn",
    "from_gymnasium",
    "is_world",
    "load",
    "load_world",
    "made",
    "npz_problem",
    "npz_world",
    "number",
    "parse_like",
    "prism_explicit",
    "read_kept",
    "read_policy",
    "save",
    "save_strategy",
    "storm_language",
    "table_file",
    "toml_problem",
    "toml_text",
    "toml_world",
    "umb",
    "whole",
]
