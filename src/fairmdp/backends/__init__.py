"""Where arrays are and what is computed on them: a `Backend` for each kind of device, and linear programs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
