"""Ready-made problems and worlds: each a function that returns one, and a name on the command line.

Worlds are loaded at their first use.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import lazy_loader

from fairmdp.model.problem import Problem
from fairmdp.scenarios.bandit import bandit
from fairmdp.scenarios.garnet import garnet
from fairmdp.scenarios.hiring import hiring
from fairmdp.scenarios.jobs import JobFlow, job_flows, jobs
from fairmdp.scenarios.paper import alpha_chain, three_state
from fairmdp.scenarios.postal import postal
from fairmdp.scenarios.taxi import taxi

if TYPE_CHECKING:
    from fairmdp.scenarios.worlds import WORLDS, gpu_tenants, job_server, machine_park, taxi_zones

_WORLDS = {"worlds": ["WORLDS", "gpu_tenants", "job_server", "machine_park", "taxi_zones"]}
__getattr__ = lazy_loader.attach(__name__, submod_attrs=_WORLDS)[0]

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
"""Names on the command line; those of worlds are in `WORLDS`."""
