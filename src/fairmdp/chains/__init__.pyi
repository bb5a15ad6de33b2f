# What the package offers and where it is defined, loaded at first use.
from .aggregates import Aggregates, aggregated
from .chain import NEARLY_REDUCIBLE, Chain, Tuning
from .factors import Factors
from .mixing import MixingTime, Settling, dobrushin, mixing_time, settling
from .policy import NO_MASS, checked_policy, policy_matrix, policy_of, uniform_policy
from .slow import SlowChain
from .sweeps import ChainRows, block_sweeps, stationary_sweeps, value_sweeps

__all__ = [
    "NEARLY_REDUCIBLE",
    "NO_MASS",
    "Aggregates",
    "Chain",
    "ChainRows",
    "Factors",
    "MixingTime",
    "Settling",
    "SlowChain",
    "Tuning",
    "aggregated",
    "block_sweeps",
    "checked_policy",
    "dobrushin",
    "mixing_time",
    "policy_matrix",
    "policy_of",
    "settling",
    "stationary_sweeps",
    "uniform_policy",
    "value_sweeps",
]
