"""Any policy judged: what it earns, what it breaks, the least change that mends it; models looked at.

The names are listed in ``__init__.pyi`` and imported at their first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
