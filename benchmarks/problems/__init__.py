"""The instances: each function makes a `fairmdp.Problem` from sizes and a seed."""

from benchmarks.problems.garnet import garnet, garnet_per_state
from benchmarks.problems.grid import grid
from benchmarks.problems.queue import queue

PROBLEMS = {"garnet": garnet, "per_state": garnet_per_state, "queue": queue, "grid": grid}
