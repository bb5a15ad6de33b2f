"""What a user states: a model, quotas, the problem that they make, and simulators of a model.

The names are listed in ``__init__.pyi`` and imported at their first use: only a simulator needs numba.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
