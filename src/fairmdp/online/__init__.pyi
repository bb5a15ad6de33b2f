# What the package offers and where it is defined, loaded at first use.
from .agent import OnlineAgent
from .agent_file import load, save
from .report import AgentReport

__all__ = ["AgentReport", "OnlineAgent", "load", "save"]
