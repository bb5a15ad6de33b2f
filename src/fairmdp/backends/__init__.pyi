from . import small_lp
from .base import Backend, Backup, ChainTuning, bounded
from .cpu.backend import CpuBackend
from .cuda.backend import CudaBackend
from .cuda.device_problem import DeviceProblem
from .opening import DEVICES, open_backend

__all__ = [
    "DEVICES",
    "Backend",
    "Backup",
    "ChainTuning",
    "CpuBackend",
    "CudaBackend",
    "DeviceProblem",
    "bounded",
    "open_backend",
    "small_lp",
]
