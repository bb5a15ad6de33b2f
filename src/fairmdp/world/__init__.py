"""Worlds: many small decision processes that share resources at every step.

What a user states (`world`, `components`, `demands`), and what a solver returns (`plan`). Nothing here
searches; what is done with a plan is in `fairmdp.dispatch`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
