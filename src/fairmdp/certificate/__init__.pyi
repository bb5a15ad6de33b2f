# What the package offers and where it is defined, loaded at first use.
from . import exact
from .checker import Verdict, factor_limit, reach_limit, verify
from .facts import FAIR_TOL, LongRun, proved_status, reward_scale, worst_slack

__all__ = [
    "FAIR_TOL",
    "LongRun",
    "Verdict",
    "exact",
    "factor_limit",
    "proved_status",
    "reach_limit",
    "reward_scale",
    "verify",
    "worst_slack",
]
