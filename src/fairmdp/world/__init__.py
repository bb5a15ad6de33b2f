"""Worlds: many small decision processes that share resources at every step.

What a user states (`world`, `components`, `demands`), what a solver returns (`plan`), and what is done with
it: a policy that keeps capacity at every step (`policy`), and its simulation. Nothing here searches.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
