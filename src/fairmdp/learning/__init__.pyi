# What the package offers and where it is defined, loaded at first use.
from .certify import certify
from .counts import Counts, Engine, Seed, counts_from_arrays, counts_to_arrays
from .estimate import CertifiedPolicy, Estimate, Progress, Round
from .learn import METHODS, Method, learn
from .mirror import learn_mirror
from .plugin import learn_plugin
from .record import Running, record
from .records import counts_of, learn_records
from .simulate import Simulation, simulate
from .simulators import EnvironmentSimulator, FunctionSimulator
from .world import WorldEstimate, count_transitions, learn_world

__all__ = [
    "METHODS",
    "CertifiedPolicy",
    "Counts",
    "Engine",
    "EnvironmentSimulator",
    "Estimate",
    "FunctionSimulator",
    "Method",
    "Progress",
    "Round",
    "Running",
    "Seed",
    "Simulation",
    "WorldEstimate",
    "certify",
    "count_transitions",
    "counts_from_arrays",
    "counts_of",
    "counts_to_arrays",
    "learn",
    "learn_mirror",
    "learn_plugin",
    "learn_records",
    "learn_world",
    "record",
    "simulate",
]
