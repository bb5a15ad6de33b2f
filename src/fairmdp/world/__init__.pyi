from . import joint, plan_file
from .components import Components
from .demands import GroupQuota, LocalQuota, Resource
from .plan import Alone, BlockPlan, Shortage, WorldPlan
from .world import World

__all__ = [
    "Alone",
    "BlockPlan",
    "Components",
    "GroupQuota",
    "LocalQuota",
    "Resource",
    "Shortage",
    "World",
    "WorldPlan",
    "joint",
    "plan_file",
]
