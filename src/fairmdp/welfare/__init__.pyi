from .maxmin import solve_max_min
from .solve import solve_welfare

__all__ = ["solve_max_min", "solve_welfare"]
