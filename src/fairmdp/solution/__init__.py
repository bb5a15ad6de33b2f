"""What is returned: a solution, what it says of itself, and the file that keeps it.

The names are listed in ``__init__.pyi`` and imported at their first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
