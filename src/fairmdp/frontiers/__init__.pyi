from .comparison import Comparison, compare
from .curve import Frontier, ShadowPrice
from .dispatch import WorldComparison, compare_world
from .family import ALL, Family
from .grid import FrontierGrid, frontier_grid
from .meanings import other_meaning
from .points import Engine, frontier, last_feasible
from .principles import WelfareFrontier, welfare_frontier
from .world import WorldFrontier, world_frontier

__all__ = [
    "ALL",
    "Comparison",
    "Engine",
    "Family",
    "Frontier",
    "FrontierGrid",
    "ShadowPrice",
    "WelfareFrontier",
    "WorldComparison",
    "WorldFrontier",
    "compare",
    "compare_world",
    "frontier",
    "frontier_grid",
    "last_feasible",
    "other_meaning",
    "welfare_frontier",
    "world_frontier",
]
