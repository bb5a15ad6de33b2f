from . import dissection, fronts, kernels, normal, proximal, ways
from .backend import CpuBackend

__all__ = ["CpuBackend", "dissection", "fronts", "kernels", "normal", "proximal", "ways"]
