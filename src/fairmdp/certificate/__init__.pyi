# What the package offers and where it is defined, loaded at first use.
from . import exact
from .checker import Verdict, verify
from .claim_ends import certify_ends
from .facts import FAIR_TOL, LongRun, proved_status, reward_scale, worst_slack
from .limits import factor_limit, reach_limit
from .readout import Readout
from .world import WorldVerdict, verify_world

__all__ = [
    "FAIR_TOL",
    "LongRun",
    "Readout",
    "Verdict",
    "WorldVerdict",
    "certify_ends",
    "exact",
    "factor_limit",
    "proved_status",
    "reach_limit",
    "reward_scale",
    "verify",
    "verify_world",
    "worst_slack",
]
