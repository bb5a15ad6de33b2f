from . import file
from .make import dispatch_policy
from .policy import DispatchPolicy
from .simulation import WorldSimulation, simulate_world

__all__ = ["DispatchPolicy", "WorldSimulation", "dispatch_policy", "file", "simulate_world"]
