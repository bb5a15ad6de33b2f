"""Algorithm 1 of the paper, stochastic mirror descent, and the paper's experiments."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
