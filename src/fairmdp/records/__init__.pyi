# What the package offers and where it is defined, loaded at first use.
from .checks import Finding, check_log
from .log import LOG_ROLES, Log
from .reading import log_of, log_of_trajectories

__all__ = ["LOG_ROLES", "Finding", "Log", "check_log", "log_of", "log_of_trajectories"]
