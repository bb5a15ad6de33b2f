from .solve import solve_world

__all__ = ["solve_world"]
