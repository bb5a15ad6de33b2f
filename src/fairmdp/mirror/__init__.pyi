from . import experiments, lazy, lazy_start
from .batch import MirrorSweep, mirror_sweep
from .polytope import QuotaPolytope, gap
from .solve import Learned, Options, certified, learn_model, solve_mirror
from .steps import PUBLISHED, Steps, Theory, theory

__all__ = [
    "PUBLISHED",
    "Learned",
    "MirrorSweep",
    "Options",
    "QuotaPolytope",
    "Steps",
    "Theory",
    "certified",
    "experiments",
    "gap",
    "lazy",
    "lazy_start",
    "learn_model",
    "mirror_sweep",
    "solve_mirror",
    "theory",
]
