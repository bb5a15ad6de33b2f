"""Ready-made problems and worlds: each a function that returns one, and a name on the command line."""

from collections.abc import Callable

from fairmdp.model.problem import Problem
from fairmdp.scenarios.bandit import bandit
from fairmdp.scenarios.garnet import garnet
from fairmdp.scenarios.gpu_tenants import gpu_tenants
from fairmdp.scenarios.hiring import hiring
from fairmdp.scenarios.job_server import job_server
from fairmdp.scenarios.jobs import JobFlow, job_flows, jobs
from fairmdp.scenarios.machine_park import machine_park
from fairmdp.scenarios.paper import alpha_chain, three_state
from fairmdp.scenarios.postal import postal
from fairmdp.scenarios.taxi import taxi
from fairmdp.scenarios.taxi_zones import taxi_zones
from fairmdp.world.world import World

__all__ = [
    "SCENARIOS",
    "WORLDS",
    "JobFlow",
    "alpha_chain",
    "bandit",
    "garnet",
    "gpu_tenants",
    "hiring",
    "job_flows",
    "job_server",
    "jobs",
    "machine_park",
    "postal",
    "taxi",
    "taxi_zones",
    "three_state",
]

SCENARIOS: dict[str, Callable[..., Problem]] = {
    "three-state": three_state,
    "alpha-chain": alpha_chain,
    "bandit": bandit,
    "jobs": jobs,
    "hiring": hiring,
    "taxi": taxi,
    "postal": postal,
    "garnet": garnet,
}
"""Names on the command line."""

WORLDS: dict[str, Callable[..., World]] = {
    "job-server": job_server,
    "machine-park": machine_park,
    "gpu-tenants": gpu_tenants,
    "taxi-zones": taxi_zones,
}
"""Worlds by their names on the command line."""
