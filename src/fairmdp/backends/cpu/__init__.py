"""The backend of one CPU thread: loops compiled by numba, loaded at their first use."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
