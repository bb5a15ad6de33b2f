"""Fair while it runs: an agent that learns along one trajectory, with an account for every quota."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
