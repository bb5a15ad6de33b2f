# What the package offers and where it is defined, loaded at first use.
from .agent import OnlineAgent
from .agent_file import load, save
from .drift import Drift
from .report import AgentReport
from .safe_start import SafeStart, learn_start

__all__ = ["AgentReport", "Drift", "OnlineAgent", "SafeStart", "learn_start", "load", "save"]
