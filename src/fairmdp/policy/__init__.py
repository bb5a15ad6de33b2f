"""Policies as things of their own: asked for probabilities and actions by name, kept as files that say all.

The names are listed in ``__init__.pyi`` and imported at their first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
