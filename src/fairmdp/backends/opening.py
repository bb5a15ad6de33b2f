"""Opening the backend that a call asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairmdp import backends
from fairmdp.backends.base import Backend
from fairmdp.errors import ProblemError
from fairmdp.model.problem import Problem

if TYPE_CHECKING:
    from fairmdp.backends.cuda.device_problem import DeviceProblem

DEVICES = ("cpu", "cuda")


def open_backend(problem: Problem | DeviceProblem, device: str = "cpu") -> Backend:
    """Backend of a problem: on the device that is asked for, or where the problem is.

    A model is uploaded at its first use, once.
    """
    if check_device(device):
        return backends.CudaBackend(problem)
    if isinstance(problem, Problem):
        return backends.CpuBackend(problem)
    if isinstance(problem, backends.DeviceProblem):
        return backends.CudaBackend(problem)
    if isinstance(problem, str):
        advice = "read a file with fairmdp.load; ready-made problems are functions of fairmdp.scenarios"
    else:
        advice = "make one: Problem(mdp, quotas)"
    raise ProblemError(f"solve takes a Problem, not {type(problem).__name__}\n  {advice}")


def check_device(device: str) -> bool:
    """Whether a device is a GPU, or a `ProblemError` if there is none of that name."""
    if device not in DEVICES:
        raise ProblemError(f"there is no device {device!r}; there are {' and '.join(DEVICES)}")
    return device == "cuda"
