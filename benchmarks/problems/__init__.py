"""The instances: each function makes a `fairmdp.Problem` from sizes and a seed."""

from benchmarks.problems.garnet import garnet, garnet_per_state, overlapping
from benchmarks.problems.grid import grid
from benchmarks.problems.queue import queue
from benchmarks.problems.worlds import each_state, jobs, postal, taxi

PROBLEMS = {
    "garnet": garnet,
    "per_state": garnet_per_state,
    "queue": queue,
    "grid": grid,
    "jobs": jobs,
    "postal": postal,
    "taxi": taxi,
    "queue_each": lambda **sizes: each_state(queue(**sizes)),
    "grid_each": lambda **sizes: each_state(grid(**sizes)),
    "jobs_each": lambda **sizes: each_state(jobs(**sizes)),
    "postal_each": lambda **sizes: each_state(postal(**sizes)),
    "taxi_each": lambda **sizes: each_state(taxi(**sizes)),
    "overlapping": overlapping,
}
