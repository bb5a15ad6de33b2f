from .comparison import Comparison, compare
from .curve import Frontier, ShadowPrice
from .family import ALL, Family
from .grid import FrontierGrid, frontier_grid
from .points import Engine, frontier, last_feasible

__all__ = [
    "ALL",
    "Comparison",
    "Engine",
    "Family",
    "Frontier",
    "FrontierGrid",
    "ShadowPrice",
    "compare",
    "frontier",
    "frontier_grid",
    "last_feasible",
]
