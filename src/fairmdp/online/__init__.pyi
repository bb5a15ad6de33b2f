# What the package offers and where it is defined, loaded at first use.
from .agent import OnlineAgent
from .agent_file import load, save
from .drift import Drift
from .intervals import ShareIntervals
from .report import AgentReport
from .run import OnlineRun, run_online
from .safe_start import SafeStart, learn_start

__all__ = [
    "AgentReport",
    "Drift",
    "OnlineAgent",
    "OnlineRun",
    "SafeStart",
    "ShareIntervals",
    "learn_start",
    "load",
    "run_online",
    "save",
]
