from .shards import ShardsPlan, solve_shards
from .solve import solve_world

__all__ = ["ShardsPlan", "solve_shards", "solve_world"]
