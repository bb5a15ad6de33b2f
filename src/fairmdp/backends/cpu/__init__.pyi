from . import kernels, proximal, ways
from .backend import CpuBackend

__all__ = ["CpuBackend", "kernels", "proximal", "ways"]
