"""One file for each method, the registry that lists them, and `solve`, which picks one."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
