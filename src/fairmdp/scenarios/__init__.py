"""Ready-made problems: each a function that returns a `Problem`, and a name on the command line."""

from fairmdp.scenarios.garnet import garnet
from fairmdp.scenarios.paper import alpha_chain, three_state

__all__ = ["alpha_chain", "garnet", "three_state"]
