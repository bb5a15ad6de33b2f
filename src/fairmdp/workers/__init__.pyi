from .engine import Engine, EngineError, serial
from .pool import Pool, PoolThread
from .processes import Processes, ProcessPool
from .ray_cluster import RayCluster
from .worker import Job, report

__all__ = [
    "Engine",
    "EngineError",
    "Job",
    "Pool",
    "PoolThread",
    "ProcessPool",
    "Processes",
    "RayCluster",
    "report",
    "serial",
]
