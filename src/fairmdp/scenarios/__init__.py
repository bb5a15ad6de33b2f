"""Ready-made problems: each a function that returns a `Problem`, and a name on the command line."""

from collections.abc import Callable

from fairmdp.problem import Problem
from fairmdp.scenarios.garnet import garnet
from fairmdp.scenarios.paper import alpha_chain, three_state

__all__ = ["SCENARIOS", "alpha_chain", "garnet", "three_state"]

SCENARIOS: dict[str, Callable[..., Problem]] = {
    "three-state": three_state,
    "alpha-chain": alpha_chain,
    "garnet": garnet,
}
"""Names on the command line."""
