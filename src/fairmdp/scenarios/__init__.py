"""Ready-made problems: each a function that returns a `Problem`, and a name on the command line."""

from collections.abc import Callable

from fairmdp.model.problem import Problem
from fairmdp.scenarios.bandit import bandit
from fairmdp.scenarios.garnet import garnet
from fairmdp.scenarios.hiring import hiring
from fairmdp.scenarios.jobs import JobFlow, job_flows, jobs
from fairmdp.scenarios.paper import alpha_chain, three_state
from fairmdp.scenarios.postal import postal
from fairmdp.scenarios.taxi import taxi

__all__ = [
    "SCENARIOS",
    "JobFlow",
    "alpha_chain",
    "bandit",
    "garnet",
    "hiring",
    "job_flows",
    "jobs",
    "postal",
    "taxi",
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
