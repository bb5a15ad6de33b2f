"""The page: a server for one machine, workers that answer, and what the browser loads."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
