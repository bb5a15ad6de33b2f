from .comparison import Comparison, compare
from .curve import Frontier, ShadowPrice
from .family import ALL, Family
from .grid import FrontierGrid, frontier_grid
from .meanings import other_meaning
from .points import frontier, last_feasible
from .principles import WelfareFrontier, welfare_frontier
from .world import WorldComparison, WorldFrontier, compare_world, world_frontier

__all__ = [
    "ALL",
    "Comparison",
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
