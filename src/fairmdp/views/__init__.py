"""Results in the forms that people and programs read: a table of contents, loaded at first use."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
